package netio

import (
	"cmp"
	"encoding/binary"
	"errors"
	"net"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/rocecn/rocecn/internal/wire"
)

// A sender sends packets through a socket, many in one system call.
type sender struct {
	fd       int
	none     error // why there is no socket, and nothing can be sent
	messages [maxBatch]mmsghdr
	iovecs   [maxBatch]unix.Iovec
	to       [maxBatch][unix.SizeofSockaddrAny]byte
	memory   []byte // of the packets, one after the other
	n        int    // packets
	failed   *atomic.Uint64
	unsent   func(packet []byte, err error) // may be nil
}

// maxMemory is room for the longest IP packet in a frame.
const maxMemory = 128 << 10

// newSender returns a sender with a new socket, for destination addresses of this size in bytes.
func newSender(failed *atomic.Uint64, family, kind, protocol, size int) (*sender, error) {
	fd, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC, protocol)
	if err != nil {
		return nil, plain(err)
	}
	s := &sender{fd: fd, memory: make([]byte, 0, maxMemory), failed: failed}
	for i := range s.messages {
		m := &s.messages[i].msg
		m.Name, m.Namelen, m.Iov = &s.to[i][0], uint32(size), &s.iovecs[i]
		m.SetIovlen(1)
	}
	return s, nil
}

// queuePacket takes a packet and returns where its destination is to be written, nil if
// the packet cannot be sent. The error may be that of a packet before.
func (s *sender) queuePacket(packet []byte) (to []byte, err error) {
	if s.none != nil {
		s.fail(packet, s.none)
		return nil, s.none
	}
	if s.n == maxBatch || cap(s.memory)-len(s.memory) < len(packet) {
		err = s.flush()
	}
	if len(packet) > cap(s.memory) {
		s.fail(packet, unix.EMSGSIZE)
		return nil, unix.EMSGSIZE
	}
	begin := len(s.memory)
	s.memory = append(s.memory, packet...)
	s.iovecs[s.n].Base = unsafe.SliceData(s.memory[begin:])
	s.iovecs[s.n].SetLen(len(packet))
	s.n++
	return s.to[s.n-1][:], err
}

// fail takes note of a packet that cannot be sent.
func (s *sender) fail(packet []byte, err error) {
	s.failed.Add(1)
	if s.unsent != nil {
		s.unsent(packet, err)
	}
}

// flush sends the collected packets.
func (s *sender) flush() (failed error) {
	for i := 0; i < s.n; {
		n, err := mmsg(unix.SYS_SENDMMSG, s.fd, s.messages[i:s.n])
		if err != nil { // of the first of them
			s.fail(unsafe.Slice(s.iovecs[i].Base, int(s.iovecs[i].Len)), err)
			n = 1
		}
		if failed == nil {
			failed = err
		}
		i += n
	}
	s.n, s.memory = 0, s.memory[:0]
	return failed
}

// A rawSink is a [Sink] for IP packets that the kernel routes.
type rawSink struct {
	v4, v6 *sender
	device uint32 // its number, 0 without one
	failed atomic.Uint64

	// The source of the IPv6 packets so far. While all have the same, the socket is bound to it: the kernel then
	// chooses routes by this source, and does not choose a source address for each packet.
	source  [16]byte
	binding binding
}

// A binding is the state of a socket that is bound to the source of its packets.
type binding uint8

const (
	noPacket binding = iota // no packet yet
	bound                   // all packets had the source
	unbound                 // packets had several sources, or the kernel has rejected the source
)

// bindSource binds the IPv6 socket to the source of the first packet, and removes that when a packet has another one.
func (r *rawSink) bindSource(packet []byte) (err error) {
	source := [16]byte(packet[8:24])
	if r.binding == unbound || r.binding == bound && source == r.source || r.v6.none != nil {
		return nil
	}
	to := unix.SockaddrInet6{}
	if r.binding == noPacket {
		to.Addr, r.source, r.binding = source, source, bound
	} else {
		err, r.binding = r.v6.flush(), unbound // of packets with the source before
	}
	if unix.Bind(r.v6.fd, &to) != nil { // such as a link-local source
		r.binding = unbound
	}
	return err
}

// OpenRaw returns a sink for IP packets with any source address, which the
// kernel routes. If device, an interface or a VRF, is not empty, they leave
// through that one. OpenRaw needs CAP_NET_RAW. The sink is an [UnsentReporter].
//
// A packet counts as failed if a queue of the host is full, and not if the
// neighbour does not answer. Without IPv6 in the kernel only IPv6 packets fail.
//
// Linux replaces an Identification of 0 in an IPv4 packet without Don't
// Fragment, which makes the ICRC wrong: set Don't Fragment.
func OpenRaw(device string) (Sink, error) {
	r := new(rawSink)
	if device != "" {
		i, err := net.InterfaceByName(device)
		if err != nil {
			return nil, ErrNoInterface
		}
		r.device = uint32(i.Index)
	}
	var err error
	const kind, protocol = unix.SOCK_RAW, unix.IPPROTO_RAW
	if r.v4, err = newSender(&r.failed, unix.AF_INET, kind, protocol, unix.SizeofSockaddrInet4); err != nil {
		return nil, err
	}
	r.v6, err = newSender(&r.failed, unix.AF_INET6, kind, protocol, unix.SizeofSockaddrInet6)
	if err == unix.EAFNOSUPPORT {
		r.v6, err = &sender{none: err, failed: &r.failed}, nil
	}
	if err == nil {
		err = errors.Join(r.v4.setUp(unix.IPPROTO_IP, unix.IP_RECVERR, device),
			r.v6.setUp(unix.IPPROTO_IPV6, unix.IPV6_RECVERR, device))
	}
	if err == nil && r.v6.none == nil { // sources need not be addresses of this host
		err = unix.SetsockoptInt(r.v6.fd, unix.IPPROTO_IPV6, unix.IPV6_FREEBIND, 1)
	}
	if err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// setUp makes the kernel report full queues, which needs a socket option of the level, and binds to the device, unless
// its name is empty.
func (s *sender) setUp(level, errorOption int, device string) error {
	if s.none != nil {
		return nil
	}
	if err := unix.SetsockoptInt(s.fd, level, errorOption, 1); err != nil || device == "" {
		return err
	}
	return unix.BindToDevice(s.fd, device)
}

// close closes the socket, if there is one.
func (s *sender) close() error {
	if s == nil || s.none != nil {
		return nil
	}
	return unix.Close(s.fd)
}

// Send implements [Sink].
func (r *rawSink) Send(packet []byte) error {
	switch wire.Version(packet) {
	case wire.IPv4:
		to, err := r.v4.queuePacket(packet)
		if to != nil { // family 16, port 16, address
			ne.PutUint16(to, unix.AF_INET)
			copy(to[4:], packet[16:20])
		}
		return err
	case wire.IPv6:
		failed := r.bindSource(packet)
		to, err := r.v6.queuePacket(packet)
		err = cmp.Or(err, failed)
		if to != nil { // family 16, port 16, flow label 32, address, interface of a link-local one
			ne.PutUint16(to, unix.AF_INET6)
			copy(to[8:24], packet[24:40])
			ne.PutUint32(to[24:], r.device)
		}
		return err
	}
	r.v4.fail(packet, errNotIP)
	return errNotIP
}

// OnUnsent implements [UnsentReporter].
func (r *rawSink) OnUnsent(f func(packet []byte, err error)) { r.v4.unsent, r.v6.unsent = f, f }

var errNotIP = errors.New("netio: neither an IPv4 nor an IPv6 packet")

// Flush implements [Sink].
func (r *rawSink) Flush() error {
	err4, err6 := r.v4.flush(), r.v6.flush()
	if err4 != nil {
		return err4
	}
	return err6
}

// Failed implements [Sink].
func (r *rawSink) Failed() uint64 { return r.failed.Load() }

// Close implements [Sink].
func (r *rawSink) Close() error { return errors.Join(r.v4.close(), r.v6.close()) }

// A portSink is a [Sink] that sends out of one interface.
type portSink struct {
	*sender
	to     [unix.SizeofSockaddrLinklayer]byte
	frames bool
	failed atomic.Uint64
}

// OpenPort opens a sink for IP packets that leave by an interface to the neighbour
// with this hardware address, or, if that is nil, for whole frames. It needs
// CAP_NET_RAW. The sink is an [UnsentReporter].
func OpenPort(name string, neighbour net.HardwareAddr) (Sink, error) {
	i, err := net.InterfaceByName(name)
	if err != nil {
		return nil, ErrNoInterface
	}
	p := &portSink{frames: neighbour == nil}
	// family 16, protocol 16, interface 32, 24 bits that mean nothing, length 8, address
	ne.PutUint16(p.to[:], unix.AF_PACKET)
	ne.PutUint32(p.to[4:], uint32(i.Index))
	p.to[11] = uint8(copy(p.to[12:], neighbour))
	kind := unix.SOCK_DGRAM
	if p.frames {
		kind = unix.SOCK_RAW
	}
	p.sender, err = newSender(&p.failed, unix.AF_PACKET, kind, 0, len(p.to))
	if err != nil {
		return nil, err
	}
	return p, nil
}

// Send implements [Sink].
func (p *portSink) Send(packet []byte) error {
	ether := uint16(unix.ETH_P_IP)
	switch {
	case p.frames:
	case len(packet) > 0 && wire.IsIPv6(packet):
		ether = unix.ETH_P_IPV6
	case len(packet) == 0 || wire.VersionField(packet) != wire.IPv4:
		p.fail(packet, errNotIP)
		return errNotIP
	}
	to, err := p.queuePacket(packet)
	if to != nil {
		copy(to, p.to[:])
		binary.BigEndian.PutUint16(to[2:], ether)
	}
	return err
}

// OnUnsent implements [UnsentReporter].
func (p *portSink) OnUnsent(f func(packet []byte, err error)) { p.unsent = f }

// Flush implements [Sink].
func (p *portSink) Flush() error { return p.flush() }

// Failed implements [Sink].
func (p *portSink) Failed() uint64 { return p.failed.Load() }

// Close implements [Sink].
func (p *portSink) Close() error { return unix.Close(p.fd) }
