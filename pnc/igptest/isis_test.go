//go:build linux

package igptest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"iter"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/node/proxies"
	"github.com/rocecn/rocecn/pnc"
)

// A leaf, which is a speaker of the test, is the proxy of senders; isisd floods its LSP.
// A border router between the levels, also a speaker of the test, keeps the
// capability; isisd of the other level floods its LSP to a congested node.
//
//	leaf ── level 1 ── isisd ── level 1 ── border ── level 2 ── isisd ── level 2 ── node
func TestISIS(t *testing.T) {
	home, area, backbone := wiretest.Home(t), wiretest.NewHost(t, "area"), wiretest.NewHost(t, "backbone")
	for i, l := range []struct {
		device string
		daemon *wiretest.Host
	}{{"leaf", area}, {"border1", area}, {"border2", backbone}, {"node", backbone}} {
		wiretest.Link(t, wiretest.End{Host: home, Device: l.device},
			wiretest.End{Host: l.daemon, Device: l.device,
				Addresses: []string{fmt.Sprintf("10.0.%d.1/24", i), fmt.Sprintf("2001:db8:0:%d::1/64", i)}})
	}
	frrArea := startISIS(t, area, 1, "leaf", "border1")
	frrBackbone := startISIS(t, backbone, 2, "border2", "node")

	const leafSystem, borderSystem, nodeSystem = 1, 2, 3
	leaf, border, node := newISIS(leafSystem), newISIS(borderSystem), newISIS(nodeSystem)
	leaf.circuit(t, home, "leaf", 1)
	border.circuit(t, home, "border1", 1)
	border.circuit(t, home, "border2", 2)
	node.circuit(t, home, "node", 2)

	// The leaf advertises an IPv4 prefix with a source router id, and an IPv6 prefix
	// without, for which its TE router id is used.
	with4 := wiretest.Must(pnc.Codes{}.AppendISIS(nil,
		pnc.Advertisement{Prefix: netip.MustParsePrefix("192.0.2.0/24"), Proxy: netip.MustParseAddr("198.51.100.2"),
			Metric: 10}, 0))(t)
	te6 := netip.MustParseAddr("2001:db8:ffff::1").As16()
	with6 := reach6(20, "2001:db8:1::/64", 0x20, []byte{4, 1, 0x01})
	leafLSP := lsp(1, leafSystem, 1, tlv(140, te6[:]...), with4, with6)
	leaf.flood(1, leafLSP)

	wiretest.Await(t, "the border router has the leaf's LSP from isisd",
		func() bool { return len(border.lsps(1, leafSystem)) == 1 })
	atBorder := border.lsps(1, leafSystem)
	require.Equal(t, leafLSP[12:], atBorder[0][12:], "as it was flooded, except its lifetime")
	want := []string{"192.0.2.0/24 198.51.100.2 10", "2001:db8:1::/64 2001:db8:ffff::1 20"}
	require.Equal(t, want, lines(pnc.Codes{}.ReadISIS(atBorder...)))
	wiretest.Await(t, "isisd shows the LSP", func() bool {
		database := frrArea.Output(t, "show isis database detail 0000.0000.0001.00-00")
		return contains(database, "0000.0000.0001.00-00", "192.0.2.0/24", "2001:db8:1::/64")
	})

	// The border router leaks the prefixes.
	kept4 := wiretest.Must(pnc.LeakISIS(nil, with4[2+5+3+1:], netip.Addr{}, netip.AddrFrom16(te6)))(t)
	kept6 := wiretest.Must(pnc.LeakISIS(nil, []byte{4, 1, 0x01}, netip.Addr{}, netip.AddrFrom16(te6)))(t)
	border.flood(2, lsp(2, borderSystem, 1, reach4(110, "192.0.2.0/24", 0x40, kept4),
		reach6(120, "2001:db8:1::/64", 0x20, kept6)))

	wiretest.Await(t, "the node has the border router's LSP from isisd",
		func() bool { return len(node.lsps(2, borderSystem)) == 1 })
	atNode := node.lsps(2, borderSystem)
	want = []string{"192.0.2.0/24 198.51.100.2 110", "2001:db8:1::/64 2001:db8:ffff::1 120"}
	require.Equal(t, want, lines(pnc.Codes{}.ReadISIS(atNode...)))
	wiretest.Await(t, "isisd of level 2 shows the LSP", func() bool {
		database := frrBackbone.Output(t, "show isis database detail 0000.0000.0002.00-00")
		return contains(database, "0000.0000.0002.00-00", "192.0.2.0/24", "2001:db8:1::/64")
	})

	// tshark decodes the flooded LSPs: they have the P-flag, and after the border the
	// R-flag.
	rows := wiretest.TsharkFields(t, []string{"isis.lsp.prefix_attribute.flags", "isis.lsp.prefix_attribute.flags.r",
		"isis.lsp.checksum.status", "_ws.malformed"},
		isisFrame(t, atBorder[0]), isisFrame(t, atNode[0]))
	require.Equal(t, []string{"0x01", "0x01"}, rows[0].All("isis.lsp.prefix_attribute.flags"))
	require.Equal(t, []string{"0x41", "0x41"}, rows[1].All("isis.lsp.prefix_attribute.flags"))
	for _, r := range rows {
		require.Equal(t, "1", r.Get("isis.lsp.checksum.status"), "good")
		require.False(t, r.Has("_ws.malformed"))
	}

	// The congested node's table has the proxy until the leaf withdraws it.
	table := proxies.New(proxies.Config{})
	origin := pnc.Originator{Protocol: pnc.ProtocolISIS, ID: [8]byte{0, 0, 0, 0, 0, borderSystem, 0, 2}}
	require.Equal(t, 2, table.Replace(origin, pnc.Codes{}.ReadISIS(atNode...)))
	proxy, ok := table.Lookup(netip.MustParseAddr("2001:db8:1::7"))
	require.True(t, ok)
	require.Equal(t, netip.MustParseAddr("2001:db8:ffff::1"), proxy)

	border.flood(2, lsp(2, borderSystem, 2, reach4(110, "192.0.2.0/24", 0x40, []byte{4, 1, 0x40})))
	wiretest.Await(t, "the node has the newer LSP",
		func() bool { return len(lines(pnc.Codes{}.ReadISIS(node.lsps(2, borderSystem)...))) == 0 })
	require.Zero(t, table.Replace(origin, pnc.Codes{}.ReadISIS(node.lsps(2, borderSystem)...)))
	_, ok = table.Lookup(netip.MustParseAddr("2001:db8:1::7"))
	require.False(t, ok)
}

// startISIS starts FRRouting's isisd on a host, with point-to-point circuits of one
// level.
func startISIS(t *testing.T, h *wiretest.Host, level uint8, devices ...string) *wiretest.Router {
	t.Helper()
	kind := map[uint8]string{1: "level-1", 2: "level-2-only"}[level]
	config := ""
	for _, d := range devices {
		config += fmt.Sprintf("interface %s\n ip router isis x\n ipv6 router isis x\n isis network point-to-point\n "+
			"isis circuit-type %s\n isis hello-interval 1\n isis csnp-interval 1\n!\n", d, kind)
	}
	config += fmt.Sprintf("router isis x\n net 49.000%d.0000.0000.001%[1]d.00\n is-type %s\n metric-style wide\n!\n",
		level, kind)
	return wiretest.StartFRR(t, h, wiretest.Daemon{Name: "isisd", Config: config})
}

// reach4 and reach6 return reachability TLVs of the border router.
func reach4(metric uint32, prefix string, control uint8, subTLVs []byte) []byte {
	p := netip.MustParsePrefix(prefix)
	a := p.Addr().As4()
	value := append(binary.BigEndian.AppendUint32(nil, metric), control|uint8(p.Bits()))
	return tlv(135, slices.Concat(value, a[:(p.Bits()+7)/8], []byte{uint8(len(subTLVs))}, subTLVs)...)
}

func reach6(metric uint32, prefix string, control uint8, subTLVs []byte) []byte {
	p := netip.MustParsePrefix(prefix)
	a := p.Addr().As16()
	value := append(binary.BigEndian.AppendUint32(nil, metric), control, uint8(p.Bits()))
	return tlv(236, slices.Concat(value, a[:(p.Bits()+7)/8], []byte{uint8(len(subTLVs))}, subTLVs)...)
}

func TestMain(m *testing.M) { wiretest.OwnNetwork(m) }

// sameSet reports whether two lists have the same elements.
func sameSet(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// contains reports whether a text has all of these parts.
func contains(text string, parts ...string) bool {
	for _, p := range parts {
		if !strings.Contains(text, p) {
			return false
		}
	}
	return true
}

// lines returns one line for each advertisement of an iterator.
func lines(advertisements iter.Seq2[pnc.Advertisement, error]) (all []string) {
	for a, err := range advertisements {
		if err != nil {
			all = append(all, err.Error())
			continue
		}
		all = append(all, fmt.Sprintf("%v %v %d", a.Prefix, a.Proxy, a.Metric))
	}
	return all
}

// isisSpeaker is a minimal IS-IS router: it sends hellos on point-to-point circuits,
// floods its LSPs, requests missing LSPs and stores received ones. It computes no
// routes and acknowledges nothing.
type isisSpeaker struct {
	system byte // system id 0000.0000.00xx

	mu       sync.Mutex
	own      map[uint8][][]byte // LSPs to flood, by level
	received map[lspKey][]byte  // latest LSP of each key
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
	csnpLevel1        = 24 // complete list of the neighbour's LSPs
	csnpLevel2        = 25
	psnpLevel1        = 26 // partial one: with sequence number 0 a request
)

// pdu returns an IS-IS PDU of this type with the common header, this header with the
// PDU length at an offset, and TLVs.
func pdu(typ uint8, header []byte, lengthOffset int, tlvs ...[]byte) []byte {
	b := slices.Concat([]byte{0x83, uint8(8 + len(header)), 1, 0, typ, 1, 0, 0}, header, slices.Concat(tlvs...))
	binary.BigEndian.PutUint16(b[lengthOffset:], uint16(len(b)))
	return b
}

func tlv(typ uint8, value ...byte) []byte { return append([]byte{typ, uint8(len(value))}, value...) }

// lsp returns fragment 0 of a system's LSP of one level, with its checksum.
func lsp(level, system uint8, sequence uint32, tlvs ...[]byte) []byte {
	header := []byte{0, 0, 0x04, 0xB0, 0, 0, 0, 0, 0, system, 0, 0} // length, lifetime 1200, LSP id
	header = binary.BigEndian.AppendUint32(header, sequence)
	header = append(header, 0, 0, level|1) // checksum, type of system: 1 or 3
	b := pdu(16+2*level, header, 8, append([][]byte{tlv(1, 3, 0x49, 0, level), tlv(129, 0xCC, 0x8E)}, tlvs...)...)
	fletcher(b[12:], 12)
	return b
}

// fletcher sets the checksum of ISO 8473 at this offset of b.
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

// flood adds an LSP to be flooded.
func (s *isisSpeaker) flood(level uint8, lsp []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.own[level] = slices.DeleteFunc(s.own[level], func(b []byte) bool { return bytes.Equal(b[12:20], lsp[12:20]) })
	s.own[level] = append(s.own[level], lsp)
}

// lsps returns the received LSPs of one system.
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
		frame := slices.Concat([]byte{9, 0, 0x2B, 0, 0, 5}, mac, binary.BigEndian.AppendUint16(nil, uint16(3+len(pdu))),
			[]byte{0xFE, 0xFE, 3}, pdu)
		_, _ = f.Write(frame)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		state := uint8(down)
		var neighbour []byte // system id and circuit id, from its hello
		b := make([]byte, 1<<16)
		for next := time.Now(); ; {
			if now := time.Now(); !now.Before(next) {
				next = now.Add(300 * time.Millisecond)
				send(s.hello(level, state, neighbour))
				s.mu.Lock()
				own := slices.Clone(s.own[level])
				s.mu.Unlock()
				for _, lsp := range own {
					if state == up {
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
			p := frame[17 : 14+length]
			switch typ := p[4]; {
			case typ == pointToPointHello:
				neighbour = append(bytes.Clone(p[9:15]), 0, 0, 0, 0)
				for typ, value := range tlvs(p[20:]) {
					if typ == threeWay && len(value) >= 5 {
						copy(neighbour[6:], value[1:])
						if state = initializing; value[0] != down {
							state = up
						}
					}
				}
			case (typ == lspLevel1 || typ == lspLevel2) && len(p) >= 27:
				s.mu.Lock()
				s.received[lspKey{typ/2 - 8, [8]byte(p[12:])}] = bytes.Clone(p)
				s.mu.Unlock()
			case (typ == csnpLevel1 || typ == csnpLevel2) && len(p) >= 33:
				for typ, value := range tlvs(p[33:]) {
					if typ == lspEntries {
						send(s.request(level, value))
					}
				}
			}
		}
	}()
	t.Cleanup(func() { f.Close(); <-done })
}

// TLV and states of the three-way handshake (RFC 5303).
const (
	threeWay     = 240
	up           = 0
	initializing = 1
	down         = 2
)

// hello returns a point-to-point hello.
func (s *isisSpeaker) hello(level, state uint8, neighbour []byte) []byte {
	header := []byte{level, 0, 0, 0, 0, 0, s.system, 0, 10, 0, 0, 1}
	return pdu(pointToPointHello, header, 17, tlv(threeWay, append([]byte{state, 0, 0, 0, 1}, neighbour...)...),
		tlv(129, 0xCC, 0x8E), tlv(1, 3, 0x49, 0, level), tlv(132, 10, 0, 0, s.system))
}

const lspEntries = 9 // TLV: lifetime (16 bits), LSP id, sequence number, checksum (16 bits) of each

// request returns a request for the LSPs of a list that the speaker does not have.
func (s *isisSpeaker) request(level uint8, entries []byte) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	var missing []byte
	for e := range slices.Chunk(entries, 16) {
		if len(e) < 16 || s.received[lspKey{level, [8]byte(e[2:])}] != nil {
			continue
		}
		missing = append(append(missing, e[:10]...), 0, 0, 0, 0, 0, 0)
	}
	return pdu(psnpLevel1-1+level, []byte{0, 0, 0, 0, 0, 0, 0, s.system, 0}, 8, tlv(lspEntries, missing...))
}

// tlvs yields types and values up to the first incomplete TLV.
func tlvs(b []byte) iter.Seq2[uint8, []byte] {
	return func(yield func(uint8, []byte) bool) {
		for len(b) >= 2 && len(b) >= 2+int(b[1]) && yield(b[0], b[2:2+int(b[1])]) {
			b = b[2+int(b[1]):]
		}
	}
}

// isisFrame returns an Ethernet frame with an LSP, for tshark.
func isisFrame(t *testing.T, lsp []byte) []byte {
	require.NotEmpty(t, lsp)
	b := []byte{9, 0, 0x2B, 0, 0, 5, 2, 0, 0, 0, 0, 1, 0, 0, 0xFE, 0xFE, 3}
	binary.BigEndian.PutUint16(b[12:], uint16(3+len(lsp)))
	return append(b, lsp...)
}
