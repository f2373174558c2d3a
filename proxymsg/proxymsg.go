// Package proxymsg encodes and decodes the congestion notification to a proxy
// (PROXY section 4, draft-xiao-rtgwg-proxy-congestion-notification): the UDP
// message with which a congested node tells a proxy near the sender which flow
// is to slow down, and shows it a packet of that flow.
//
//	sender ──────> proxy ──────> congested node ──────> receiver
//	       <─ CNP ─      <─ UDP: five-tuple, level, invoking packet
//
// The congested node calls [AppendFor] on the packet, the proxy [FromDatagram] and
// [Message.FlowKey]. What turns it into a CNP is [github.com/rocecn/rocecn/node/proxy], and
// who is whose proxy is in [github.com/rocecn/rocecn/node/proxies].
package proxymsg

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/rocev2"
)

// Draft is the revision that this package implements, as far as its text is
// known: see Message.
const Draft = "draft-xiao-rtgwg-proxy-congestion-notification-03"

// ExperimentalPort is the UDP destination port where nothing else is configured.
// The draft's is not assigned yet (TBD1); this is one of the ports of RFC 4727
// for experiments, and will change when there is one.
const ExperimentalPort = 1022

// Octets of the fixed part, which the invoking packet follows.
const (
	SizeIPv4 = 16
	SizeIPv6 = 40
)

// MaxLevel is the largest congestion level.
const (
	MaxLevel    = 7
	maxReserved = 1<<21 - 1
)

// A Message is the data of a notification (PROXY section 4), here with IPv4
// addresses; IPv6 addresses take 16 octets each:
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                        Source Address                         |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                      Destination Address                      |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|   Protocol    |          Source Port          | Destination   :
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	:     Port      | CL  |                Reserved                 |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                        Invoking packet                        :
//
// D7: the layout is reconstructed from the text of revision -03 of the draft:
// the fields in the order in which the text has them, padded to a 32-bit
// boundary as in the related FCN.
type Message struct {
	// FiveTuple is the congested flow's, taken below any tunnel; its addresses
	// are both IPv4 or both IPv6. Src is the sender that is to slow down.
	rocev2.FiveTuple
	Level    uint8  // congestion level (CL), 0 lowest … 7 highest
	Reserved uint32 // 21 bits: zero on send, ignored on receipt, kept

	// Invoking is a packet of the flow from its outermost IP header on, as the
	// congested node saw it: as much of it as had room, possibly nothing. It is
	// not looked at before BTH is called, and may be anything.
	Invoking []byte
}

// layout says where in the fixed part each field begins: 24 bits at level hold
// the level and the reserved bits.
type layout struct{ src, dst, protocol, srcPort, dstPort, level, size int }

// A revised order of the fields (D7) changes these two lines, and with another
// size SizeIPv4 and SizeIPv6.
var (
	layout4 = layout{src: 0, dst: 4, protocol: 8, srcPort: 9, dstPort: 11, level: 13, size: SizeIPv4}
	layout6 = layout{src: 0, dst: 16, protocol: 32, srcPort: 33, dstPort: 35, level: 37, size: SizeIPv6}
)

// What decoding, encoding and BTH refuse.
var (
	errTruncatedIPv4 = wireerr.New("proxymsg", "message", 16,
		"truncated: 16 octets before the invoking packet needed with IPv4 addresses", wireerr.Truncated)
	errTruncatedIPv6 = wireerr.New("proxymsg", "message", 40,
		"truncated: 40 octets before the invoking packet needed with IPv6 addresses", wireerr.Truncated)
	ErrNoInvoking = wireerr.New("proxymsg", "invoking packet", 0, "missing", wireerr.Truncated)
	errAddress    = wireerr.New("proxymsg", "five-tuple", 0, "addresses must both be IPv4 or both IPv6",
		wireerr.Range)
	errLevelRange    = wireerr.New("proxymsg", "congestion level", 0, "over 7", wireerr.Range)
	errReservedRange = wireerr.New("proxymsg", "Reserved", 0, "over 21 bits", wireerr.Range)
)

// Decode sets m from all of b, the data of a UDP datagram; m aliases b. The
// message does not say whether its addresses are IPv4 or IPv6: the caller
// does, or gives 0 to have it inferred as [Family] says. On error m is
// unchanged.
func (m *Message) Decode(b []byte, f Family) error { return m.decode(b, len(b), f) }

// FromDatagram returns the message in a decoded UDP datagram, which it
// aliases. The family is given or inferred as for Decode; the ports of d do
// not matter. Of a truncated datagram, Invoking is what is there.
func FromDatagram(d *rocev2.Datagram, f Family) (Message, error) {
	var m Message
	err := m.decode(d.Data, int(d.Length)-8, f)
	return m, err
}

// decode decodes a message of which sent octets were sent and b is there.
func (m *Message) decode(b []byte, sent int, f Family) error {
	if f == 0 {
		var err error
		if f, err = infer(b, sent); err != nil {
			return err
		}
	}
	switch {
	case f != IPv4 && f != IPv6:
		return errFamilyRange
	case f == IPv4 && len(b) < SizeIPv4:
		return errTruncatedIPv4
	case f == IPv6 && len(b) < SizeIPv6:
		return errTruncatedIPv6
	}
	l := &layout6
	if f == IPv4 {
		l = &layout4
		m.Src = netip.AddrFrom4([4]byte(b[l.src:]))
		m.Dst = netip.AddrFrom4([4]byte(b[l.dst:]))
	} else {
		m.Src = netip.AddrFrom16([16]byte(b[l.src:]))
		m.Dst = netip.AddrFrom16([16]byte(b[l.dst:]))
	}
	m.Protocol = b[l.protocol]
	m.SrcPort = binary.BigEndian.Uint16(b[l.srcPort:])
	m.DstPort = binary.BigEndian.Uint16(b[l.dstPort:])
	level := b[l.level : l.level+3]
	m.Level = level[0] >> 5
	m.Reserved = uint32(level[0]&0x1F)<<16 | uint32(binary.BigEndian.Uint16(level[1:]))
	m.Invoking = b[l.size:len(b):len(b)]
	return nil
}

// AppendBinary appends the message, without its UDP header and with all of
// Invoking. A value that does not fit its field is an error.
func (m *Message) AppendBinary(b []byte) ([]byte, error) {
	if err := m.check(); err != nil {
		return b, err
	}
	l := m.layout()
	out := slices.Grow(b, l.size+len(m.Invoking))[:len(b)+l.size]
	h := out[len(b):]
	putAddr(h[l.src:], m.Src)
	putAddr(h[l.dst:], m.Dst)
	h[l.protocol] = m.Protocol
	binary.BigEndian.PutUint16(h[l.srcPort:], m.SrcPort)
	binary.BigEndian.PutUint16(h[l.dstPort:], m.DstPort)
	h[l.level] = m.Level<<5 | uint8(m.Reserved>>16)
	binary.BigEndian.PutUint16(h[l.level+1:], uint16(m.Reserved))
	return append(out, m.Invoking...), nil
}

func (m *Message) check() error {
	switch {
	case !m.oneFamily():
		return errAddress
	case m.Level > MaxLevel:
		return errLevelRange
	case m.Reserved > maxReserved:
		return errReservedRange
	}
	return nil
}

// oneFamily says whether both addresses are IPv4 or both are IPv6.
func (m *Message) oneFamily() bool {
	return m.Src.Is4() && m.Dst.Is4() || m.Src.Is6() && m.Dst.Is6()
}

func (m *Message) layout() *layout {
	if m.Src.Is4() {
		return &layout4
	}
	return &layout6
}

func putAddr(b []byte, a netip.Addr) {
	if a.Is4() {
		octets := a.As4()
		copy(b, octets[:])
		return
	}
	octets := a.As16()
	copy(b, octets[:])
}

// BTH returns the Base Transport Header of the invoking packet, with the
// opcode and the destination queue pair of the flow: the receiver's, from which
// a proxy has to know the sender's to send it a CNP. It finds them below the
// tunnels that a [rocev2.Frame] looks through. Nothing behind the BTH need be
// there. The error is [ErrNoInvoking], or what the walk of package rocev2
// finds in an invoking packet that is not RoCEv2 or is cut too early.
func (m *Message) BTH() (h bth.Header, err error) {
	d, err := m.datagram()
	if err != nil {
		return h, err
	}
	_, err = h.Decode(d.Data)
	return h, err
}

// FlowKey returns the key of the flow that the message is about: the addresses
// of the five-tuple and the queue pair that BTH finds. It fails as BTH does.
func (m *Message) FlowKey() (k rocev2.FlowKey, err error) {
	h, err := m.BTH()
	if err != nil {
		return k, err
	}
	return rocev2.FlowKey{Src: m.Src, Dst: m.Dst, DestQP: h.DestQP}, nil
}

// datagram finds the RoCEv2 packet in the invoking packet.
func (m *Message) datagram() (d rocev2.Datagram, err error) {
	if len(m.Invoking) == 0 {
		return d, ErrNoInvoking
	}
	var f rocev2.Frame
	m.frame(&f)
	err = f.InnerDatagram(&d, rocev2.Port)
	return d, err
}

// frame walks through the invoking packet, which is cut. What f is asked then has its own errors.
func (m *Message) frame(f *rocev2.Frame) {
	_ = f.Decode(m.Invoking, rocev2.DecodeOptions{Link: rocev2.LinkIP, Cut: true})
}

// String returns the message in a line, of the invoking packet its length.
func (m Message) String() string {
	return fmt.Sprintf("%v to %v, protocol %d, level %d, reserved %#x, %d octets of invoking packet",
		netip.AddrPortFrom(m.Src, m.SrcPort), netip.AddrPortFrom(m.Dst, m.DstPort), m.Protocol, m.Level, m.Reserved,
		len(m.Invoking))
}
