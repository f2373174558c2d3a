package live

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/google/gopacket"
	"github.com/google/gopacket/pcapgo"
	"github.com/rocecn/rocecn/internal/capture"
	"golang.org/x/net/bpf"
)

// maxFrame is room for the longest frame, which on Linux can be one of many
// segments that the network card is to cut.
const maxFrame = 256 << 10

// idle is how long an interrupted capture waits for more of what the kernel
// had already.
const idle = 50 * time.Millisecond

// check is how often a capture without packets looks whether its interface is
// still there.
const check = time.Second

// source captures by a packet socket. Another goroutine reads it, as nothing
// but a packet wakes it up.
type source struct {
	name    string
	handle  *pcapgo.EthernetHandle
	link    capture.LinkType
	ctx     context.Context
	before  func(octets int64) error
	octets  int64
	packets chan packet
	free    chan []byte
	last    []byte // the buffer that the caller of Next looks at
	stop    chan struct{}
	over    bool // the interrupt came
}

// A packet is what one read gave.
type packet struct {
	data []byte
	info gopacket.CaptureInfo
	err  error
}

// Open opens an interface. Whenever Next is about to wait, it calls beforeWait
// with how many octets it has read so far. The end of ctx is the end of the
// capture: what the kernel has by then is read.
func Open(ctx context.Context, name string, beforeWait func(octets int64) error) (Source, error) {
	i, err := net.InterfaceByName(name)
	if err != nil {
		return nil, ErrNoInterface
	}
	link, loopback, err := linkType(i.Index)
	if err != nil {
		return nil, err
	}
	h, err := pcapgo.NewEthernetHandle(name)
	if err != nil {
		return nil, plain(err)
	}
	if err := h.SetCaptureLength(maxFrame); err != nil {
		h.Close()
		return nil, err
	}
	if err := h.SetPromiscuous(true); err != nil {
		h.Close()
		return nil, plain(err)
	}
	if loopback { // where every packet comes by twice: do not show it on its way out
		const packetOutgoing = 4
		filter(h,
			bpf.LoadExtension{Num: bpf.ExtType},
			bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: packetOutgoing, SkipTrue: 1},
			bpf.RetConstant{Val: 0},
			bpf.RetConstant{Val: maxFrame})
	}
	const buffers = 256
	s := &source{
		name: name, handle: h, link: link, ctx: ctx, before: beforeWait,
		packets: make(chan packet, buffers), free: make(chan []byte, buffers+2), stop: make(chan struct{}),
	}
	for range cap(s.free) {
		s.free <- nil
	}
	go s.read()
	return s, nil
}

// filter attaches a program to the socket.
func filter(h *pcapgo.EthernetHandle, program ...bpf.Instruction) {
	if raw, err := bpf.Assemble(program); err == nil {
		h.SetBPF(raw)
	}
}

// read hands out packets until the socket fails or the source is closed.
func (s *source) read() {
	for {
		data, info, err := s.handle.ZeroCopyReadPacketData()
		select {
		case buf := <-s.free:
			p := packet{info: info, err: err}
			p.data, p.info.Length = appendFrame(buf[:0], data, &info)
			select {
			case s.packets <- p:
			case <-s.stop:
				return
			}
		case <-s.stop:
			return
		}
		if err != nil {
			return
		}
	}
}

// appendFrame appends a frame and returns its length on the wire. The kernel
// takes the outer VLAN tag away and reports it beside the frame: it is put
// back. Which of the tag's EtherTypes it had is not known; it gets that of
// 802.1Q.
func appendFrame(b, data []byte, info *gopacket.CaptureInfo) (frame []byte, length int) {
	if len(info.AncillaryData) == 0 || len(data) < 12 {
		return append(b, data...), info.Length
	}
	tag, _ := info.AncillaryData[0].(int)
	b = append(b, data[:12]...)
	b = binary.BigEndian.AppendUint32(b, 0x8100<<16|uint32(tag&0xFFFF))
	return append(b, data[12:]...), info.Length + 4
}

// Next is capture.Reader's.
func (s *source) Next(r *capture.Record) error {
	if s.last != nil {
		s.free <- s.last
		s.last = nil
	}
	p, ok, err := s.wait()
	switch {
	case err != nil:
		return err
	case !ok:
		return io.EOF
	case p.err != nil:
		return plain(p.err)
	}
	s.last = p.data
	s.octets += int64(len(p.data))
	*r = capture.Record{Data: p.data, OrigLen: uint32(p.info.Length), Time: p.info.Timestamp.UTC(), Unit: time.Nanosecond, Link: s.link}
	return nil
}

// wait returns the next packet; false when there is none any more.
func (s *source) wait() (p packet, ok bool, err error) {
	select {
	case p = <-s.packets:
		return p, true, nil
	default:
	}
	if err := s.before(s.octets); err != nil {
		return p, false, err
	}
	for !s.over {
		select {
		case p = <-s.packets:
			return p, true, nil
		case <-s.ctx.Done():
			s.over = true
			filter(s.handle, bpf.RetConstant{Val: 0}) // nothing new
		case <-time.After(check):
			// The socket tells of an interface that goes away, but has been seen
			// not to.
			if i, err := net.InterfaceByName(s.name); err != nil || i.Flags&net.FlagUp == 0 {
				return p, false, ErrWentAway
			}
		}
	}
	select {
	case p = <-s.packets:
		return p, true, nil
	case <-time.After(idle):
		return p, false, nil
	}
}

func (s *source) Dropped() uint64 {
	stats, err := s.handle.Stats()
	if err != nil {
		return 0
	}
	return uint64(stats.Drops)
}

// Close stops the capture. The goroutine that reads ends with the packet that
// it waits for, or with the program.
func (s *source) Close() error {
	close(s.stop)
	return nil
}

// linkType returns what the frames of an interface begin with, by its hardware
// type (ARPHRD_…, which are those of netlink).
func linkType(index int) (link capture.LinkType, loopback bool, err error) {
	rib, err := syscall.NetlinkRIB(syscall.RTM_GETLINK, syscall.AF_UNSPEC)
	if err != nil {
		return 0, false, err
	}
	messages, err := syscall.ParseNetlinkMessage(rib)
	if err != nil {
		return 0, false, err
	}
	for _, m := range messages {
		// struct ifinfomsg: family 8, pad 8, type 16, index 32, …
		if m.Header.Type != syscall.RTM_NEWLINK || len(m.Data) < 8 || int(binary.NativeEndian.Uint32(m.Data[4:])) != index {
			continue
		}
		const tunnel6, sit, none = 769, 776, 0xFFFE
		switch hardware := binary.NativeEndian.Uint16(m.Data[2:]); hardware {
		case syscall.ARPHRD_ETHER:
			return capture.Ethernet, false, nil
		case syscall.ARPHRD_LOOPBACK:
			return capture.Ethernet, true, nil
		case syscall.ARPHRD_TUNNEL, tunnel6, sit, none, syscall.ARPHRD_PPP:
			return capture.Raw, false, nil
		default:
			return 0, false, fmt.Errorf("hardware type %d: %w", hardware, ErrLinkType)
		}
	}
	return 0, false, ErrNoInterface
}

// plain gives those errors a clear text that a user can do something about; the
// handle has only text.
func plain(err error) error {
	text := err.Error()
	switch {
	case strings.Contains(text, syscall.EPERM.Error()):
		return ErrNoRights
	case strings.Contains(text, syscall.ENETDOWN.Error()), strings.Contains(text, syscall.ENXIO.Error()), strings.Contains(text, syscall.ENODEV.Error()):
		return ErrWentAway
	}
	return err
}
