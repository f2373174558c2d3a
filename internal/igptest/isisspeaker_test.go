//go:build linux

package igptest

import (
	"bytes"
	"encoding/binary"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/stretchr/testify/require"
)

// An isisSpeaker is as much of an IS-IS router as it takes to be the neighbour
// of one: it says hello on point-to-point circuits, floods the LSPs that it is
// given and keeps those that it receives. It computes no routes and acknowledges
// nothing.
type isisSpeaker struct {
	system byte // system id 0000.0000.00xx

	mu       sync.Mutex
	own      map[uint8][][]byte // to flood, by level
	received map[lspKey][]byte  // the latest of each
}

type lspKey struct {
	level uint8
	id    [8]byte
}

func newISIS(system byte) *isisSpeaker {
	return &isisSpeaker{system: system, own: map[uint8][][]byte{}, received: map[lspKey][]byte{}}
}

// PDU types.
const (
	pointToPointHello = 17
	lspLevel1         = 18
	lspLevel2         = 20
)

// pdu returns an IS-IS PDU with the common header and this type; header is what
// stands behind it, with the PDU length at lengthAt.
func pdu(typ uint8, header []byte, lengthAt int, tlvs ...[]byte) []byte {
	b := slices.Concat([]byte{0x83, uint8(8 + len(header)), 1, 0, typ, 1, 0, 0}, header, slices.Concat(tlvs...))
	binary.BigEndian.PutUint16(b[lengthAt:], uint16(len(b)))
	return b
}

func tlv(typ uint8, value ...byte) []byte { return append([]byte{typ, uint8(len(value))}, value...) }

// lsp returns fragment 0 of a system's LSP of one level, checksum and all.
func lsp(level, system uint8, sequence uint32, tlvs ...[]byte) []byte {
	header := []byte{0, 0, 0x04, 0xB0, 0, 0, 0, 0, 0, system, 0, 0} // length, lifetime 1200, LSP id
	header = binary.BigEndian.AppendUint32(header, sequence)
	header = append(header, 0, 0, level|1) // checksum, type of system: 1 or 3
	b := pdu(16+2*level, header, 8, append([][]byte{tlv(1, 3, 0x49, 0, level), tlv(129, 0xCC, 0x8E)}, tlvs...)...)
	fletcher(b[12:], 12)
	return b
}

// fletcher sets the checksum of ISO 8473 at an offset of b.
func fletcher(b []byte, at int) {
	b[at], b[at+1] = 0, 0
	c0, c1 := 0, 0
	for _, o := range b {
		c0 = (c0 + int(o)) % 255
		c1 = (c1 + c0) % 255
	}
	x := ((len(b)-at-1)*c0 - c1) % 255
	if x <= 0 {
		x += 255
	}
	y := 510 - c0 - x
	if y > 255 {
		y -= 255
	}
	b[at], b[at+1] = uint8(x), uint8(y)
}

// flood gives the speaker an LSP to flood.
func (s *isisSpeaker) flood(level uint8, lsp []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.own[level] = slices.DeleteFunc(s.own[level], func(b []byte) bool { return bytes.Equal(b[12:20], lsp[12:20]) })
	s.own[level] = append(s.own[level], lsp)
}

// lsps returns what the speaker received of one system.
func (s *isisSpeaker) lsps(level, system uint8) (all [][]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, lsp := range s.received {
		if key.level == level && key.id[5] == system {
			all = append(all, lsp)
		}
	}
	return all
}

// circuit runs the speaker on a device at one level until the test ends.
func (s *isisSpeaker) circuit(t *testing.T, h *wiretest.Host, device string, level uint8) {
	t.Helper()
	var f *os.File
	var mac net.HardwareAddr
	h.Do(t, func() error {
		d, err := net.InterfaceByName(device)
		if err != nil {
			return err
		}
		mac = d.HardwareAddr
		fd, err := syscall.Socket(syscall.AF_PACKET, syscall.SOCK_RAW|syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK, 0)
		if err != nil {
			return err
		}
		f = os.NewFile(uintptr(fd), device)
		all := binary.NativeEndian.Uint16([]byte{0, syscall.ETH_P_ALL})
		return syscall.Bind(fd, &syscall.SockaddrLinklayer{Protocol: all, Ifindex: d.Index})
	})
	send := func(pdu []byte) {
		frame := slices.Concat([]byte{9, 0, 0x2B, 0, 0, 5}, mac, binary.BigEndian.AppendUint16(nil, uint16(3+len(pdu))), []byte{0xFE, 0xFE, 3}, pdu)
		_, _ = f.Write(frame)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		var neighbour []byte // system id and circuit id, once it has said hello
		b := make([]byte, 1<<16)
		for next := time.Now(); ; {
			if now := time.Now(); !now.Before(next) {
				next = now.Add(300 * time.Millisecond)
				send(s.hello(level, neighbour))
				s.mu.Lock()
				own := slices.Clone(s.own[level])
				s.mu.Unlock()
				for _, lsp := range own {
					if neighbour != nil {
						send(lsp)
					}
				}
			}
			if f.SetReadDeadline(next) != nil {
				return
			}
			n, err := f.Read(b)
			if err != nil {
				if os.IsTimeout(err) {
					continue
				}
				return
			}
			frame := b[:n]
			if n < 17+20 || frame[14] != 0xFE || frame[17] != 0x83 || bytes.Equal(frame[6:12], mac) {
				continue
			}
			length := int(binary.BigEndian.Uint16(frame[12:]))
			if length < 3 || 14+length > n {
				continue
			}
			if p := frame[17 : 14+length]; p[4] == pointToPointHello {
				neighbour = append(bytes.Clone(p[9:15]), 0, 0, 0, 0)
				for tlvs := p[20:]; len(tlvs) > 2 && len(tlvs) >= 2+int(tlvs[1]); tlvs = tlvs[2+int(tlvs[1]):] {
					if tlvs[0] == 240 && tlvs[1] >= 5 {
						copy(neighbour[6:], tlvs[3:7])
					}
				}
			} else if (p[4] == lspLevel1 || p[4] == lspLevel2) && len(p) >= 27 {
				key := lspKey{p[4]/2 - 8, [8]byte(p[12:])}
				s.mu.Lock()
				s.received[key] = bytes.Clone(p)
				s.mu.Unlock()
			}
		}
	}()
	t.Cleanup(func() { f.Close(); <-done })
}

// hello is a point-to-point hello with the three-way state (RFC 5303).
func (s *isisSpeaker) hello(level uint8, neighbour []byte) []byte {
	state := tlv(240, 2, 0, 0, 0, 1) // down
	if neighbour != nil {
		state = tlv(240, append([]byte{0, 0, 0, 0, 1}, neighbour...)...) // up
	}
	header := []byte{level, 0, 0, 0, 0, 0, s.system, 0, 10, 0, 0, 1}
	return pdu(pointToPointHello, header, 17, state, tlv(129, 0xCC, 0x8E), tlv(1, 3, 0x49, 0, level), tlv(132, 10, 0, 0, s.system))
}

// frame returns an LSP as it goes on the wire, for tshark.
func isisFrame(t *testing.T, lsp []byte) []byte {
	require.NotEmpty(t, lsp)
	b := []byte{9, 0, 0x2B, 0, 0, 5, 2, 0, 0, 0, 0, 1, 0, 0, 0xFE, 0xFE, 3}
	binary.BigEndian.PutUint16(b[12:], uint16(3+len(lsp)))
	return append(b, lsp...)
}
