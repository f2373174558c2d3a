// Package proxymsg encodes and decodes the congestion notification to a proxy
// (PROXY section 4, draft-xiao-rtgwg-proxy-congestion-notification-03): the UDP
// message with which a congested node tells a proxy near the sender which flow
// should slow down. The message includes a packet of that flow.
//
//	sender ──────> proxy ──────> congested node ──────> receiver
//	       <─ CNP ─      <─ UDP: five-tuple, level, invoking packet
//
// The congested node calls [AppendFor] with the congested packet, or [For] and
// [Message.TruncateInvoking] to send the message through a UDP socket. The proxy calls
// [FromDatagram] with a received datagram and [Message.FlowKey].
// [github.com/rocecn/rocecn/node/proxy] translates messages to CNPs;
// [github.com/rocecn/rocecn/node/proxies] finds the proxy of a sender.
//
// Decoding does not verify the UDP checksum: use a UDP socket,
// rocev2.Datagram.VerifyChecksum or package message.
//
// Experimental: this package may change in a minor release.
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

// Port is the UDP destination port unless configured otherwise. The draft's
// port, TBD1, is not assigned yet; once it is, Port has that value.
const Port = ExperimentalPort

// ExperimentalPort is one of the experimental ports of RFC 4727. It does not change:
// a configuration that names it keeps it when another port is assigned.
const ExperimentalPort = 1022

// Lengths in octets of the fixed part, before the invoking packet, by the family of
// the five-tuple.
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
// D7: revision -03 of the draft has no picture. The fields are in the order of its
// text, padded to a 32-bit boundary as in the related FCN.
type Message struct {
	// FiveTuple is that of the congested flow, inside any tunnel; its addresses
	// are both IPv4 or both IPv6. Src is the sender that should slow down.
	rocev2.FiveTuple
	Level    uint8  // congestion level (CL), 0 lowest … 7 highest
	Reserved uint32 // 21 bits: zero on send, ignored on receipt, kept

	// Invoking is a packet of the flow, from its outermost IP header on, as the
	// congested node received it. It may be truncated or empty. Decode does not
	// check it; BTH does.
	Invoking []byte
}

// layout has the offsets of the fields in the fixed part. The 24 bits at level
// hold the level and the reserved bits.
type layout struct{ src, dst, protocol, srcPort, dstPort, level, size int }

// A revised order of the fields (D7) changes these two lines, and with another
// size SizeIPv4 and SizeIPv6.
var (
	layout4 = layout{src: 0, dst: 4, protocol: 8, srcPort: 9, dstPort: 11, level: 13, size: SizeIPv4}
	layout6 = layout{src: 0, dst: 16, protocol: 32, srcPort: 33, dstPort: 35, level: 37, size: SizeIPv6}
)

// Errors of decoding, encoding and BTH.
var (
	errTruncatedIPv4 = wireerr.New("proxymsg", "message",
		"truncated: shorter than 16 octets, the fixed part with IPv4 addresses", wireerr.Truncated)
	errTruncatedIPv6 = wireerr.New("proxymsg", "message",
		"truncated: shorter than 40 octets, the fixed part with IPv6 addresses", wireerr.Truncated)
	errNoInvoking = wireerr.New("proxymsg", "invoking packet", "missing", wireerr.Truncated)
	errAddress    = wireerr.New("proxymsg", "five-tuple", "source and destination are not both IPv4 or both IPv6",
		wireerr.Range)
	errLevelRange    = wireerr.New("proxymsg", "congestion level", "over 7", wireerr.Range)
	errReservedRange = wireerr.New("proxymsg", "Reserved", "over 21 bits", wireerr.Range)
)

// Decode sets m from b, the data of a UDP datagram; m aliases b. The message does
// not carry the family of its addresses: f is the family, or 0 for the rules of
// [Family]. On error m is unchanged.
func (m *Message) Decode(b []byte, f Family) error { return m.decode(b, len(b), f) }

// FromDatagram returns the message in a decoded UDP datagram, which it aliases.
// f is as for Decode. FromDatagram does not check the ports of d. If d is
// truncated, so is Invoking.
func FromDatagram(d *rocev2.Datagram, f Family) (Message, error) {
	var m Message
	err := m.decode(d.Data, int(d.Length)-8, f)
	return m, err
}

// decode decodes a message of which sent octets were sent and b was captured.
func (m *Message) decode(b []byte, sent int, f Family) error {
	if f == 0 {
		var err error
		if f, err = inferFamily(b, sent); err != nil {
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

// AppendBinary appends the message with all of Invoking, without a UDP header.
// If a value does not fit its field, it returns b unchanged and an error that
// matches rocecn.ErrRange.
func (m *Message) AppendBinary(b []byte) ([]byte, error) {
	if err := m.rangeError(); err != nil {
		return b, err
	}
	l := m.layout()
	out := slices.Grow(b, l.size+len(m.Invoking))[:len(b)+l.size]
	h := out[len(b):]
	writeAddr(h[l.src:], m.Src)
	writeAddr(h[l.dst:], m.Dst)
	h[l.protocol] = m.Protocol
	binary.BigEndian.PutUint16(h[l.srcPort:], m.SrcPort)
	binary.BigEndian.PutUint16(h[l.dstPort:], m.DstPort)
	h[l.level] = m.Level<<5 | uint8(m.Reserved>>16)
	binary.BigEndian.PutUint16(h[l.level+1:], uint16(m.Reserved))
	return append(out, m.Invoking...), nil
}

// rangeError returns an error if a value does not fit its field.
func (m *Message) rangeError() error {
	switch {
	case !m.isOneFamily():
		return errAddress
	case m.Level > MaxLevel:
		return errLevelRange
	case m.Reserved > maxReserved:
		return errReservedRange
	}
	return nil
}

// isOneFamily reports whether both addresses are IPv4 or both are IPv6.
func (m *Message) isOneFamily() bool { return m.Src.Is4() && m.Dst.Is4() || m.Src.Is6() && m.Dst.Is6() }

func (m *Message) layout() *layout {
	if m.Src.Is4() {
		return &layout4
	}
	return &layout6
}

func writeAddr(b []byte, a netip.Addr) {
	if a.Is4() {
		octets := a.As4()
		copy(b, octets[:])
		return
	}
	octets := a.As16()
	copy(b, octets[:])
}

// BTH returns the Base Transport Header of the invoking packet, inside all its
// tunnels. DestQP is the queue pair of the flow's receiver; for a CNP the proxy
// must know that of the sender. Octets after the BTH may be missing. The error
// matches rocecn.ErrTruncated if there is no invoking packet; otherwise, if it
// is not RoCEv2 or ends too early, it is one of package rocev2.
func (m *Message) BTH() (h bth.Header, err error) {
	d, err := m.datagram()
	if err != nil {
		return h, err
	}
	_, err = h.Decode(d.Data)
	return h, err
}

// FlowKey returns the key of the message's flow: the addresses of the
// five-tuple and the queue pair from BTH. Its errors are those of BTH.
func (m *Message) FlowKey() (k rocev2.FlowKey, err error) {
	h, err := m.BTH()
	if err != nil {
		return k, err
	}
	return rocev2.FlowKey{Src: m.Src, Dst: m.Dst, DestQP: h.DestQP}, nil
}

// datagram returns the RoCEv2 datagram in the invoking packet.
func (m *Message) datagram() (d rocev2.Datagram, err error) {
	if len(m.Invoking) == 0 {
		return d, errNoInvoking
	}
	var f rocev2.Frame
	m.frame(&f)
	err = f.Inner().Datagram(&d, rocev2.Port)
	return d, err
}

// frame decodes the invoking packet, which may be truncated. The methods of f return the errors.
func (m *Message) frame(f *rocev2.Frame) {
	f.Decode(m.Invoking, rocev2.DecodeOptions{Link: rocev2.LinkIP, AllowTruncated: true})
}

// String returns the message in a line, with the length of the invoking packet.
func (m Message) String() string {
	return fmt.Sprintf("%v to %v, protocol %d, level %d, reserved %#x, %d octets of invoking packet",
		netip.AddrPortFrom(m.Src, m.SrcPort), netip.AddrPortFrom(m.Dst, m.DstPort), m.Protocol, m.Level, m.Reserved,
		len(m.Invoking))
}
