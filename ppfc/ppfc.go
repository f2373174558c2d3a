// Package ppfc encodes and decodes the notification of Precise Priority-based
// Flow Control (PPFC section 3, draft-xz-rtgwg-ppfc-rocv2-00): an extension
// after the BTH with which a congested node asks the ingress of the network, or
// the sender itself, to stop or resume sending, or reports an alarm or a hold.
//
//	sender <───────── ingress <───────── congested node ─ ─ ─> receiver
//	       stop, resume, alarm, hold, with duration and flow
//
// The congested node calls [AppendFor] with the congested packet. The ingress
// or sender calls [FromPacket] with a received packet, and ends the pause when
// its duration has passed: [github.com/rocecn/rocecn/node/pause] is that role.
// Decoding does not verify the ICRC: call rocev2.Packet.VerifyICRC, or use
// package message.
//
// Experimental: this package may change in a minor release.
package ppfc

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/internal/enumtext"
	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/rocev2"
)

// Bit is the P bit in Resv6, the top bit of the six, and also in octet 4 of the
// BTH. It distinguishes a PPFC notification from a CNP, which has the same
// opcode, 0x81 (PPFC section 3).
const Bit = 0x20

// Lengths in octets of an extension with an IPv4 or an IPv6 address.
const (
	SizeIPv4 = 12
	SizeIPv6 = 24
)

// MaxPause is the longest pause that a notification can request, 65.535 ms.
const MaxPause = 0xFFFF * time.Microsecond

// Type is the action that a notification requests of the ingress or the sender,
// 2 bits.
type Type uint8

// The types (PPFC section 3).
const (
	Stop   Type = 0
	Resume Type = 1
	Alarm  Type = 2
	Hold   Type = 3
)

// String returns "stop", "resume", "alarm" or "hold".
func (t Type) String() string { return enumtext.Name(t, types[:], "Type") }

var types = [...]string{"stop", "resume", "alarm", "hold"}

// MarshalText returns the text of String.
func (t Type) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText sets t to the type that String returns the text for.
func (t *Type) UnmarshalText(text []byte) error { return enumtext.Unmarshal(t, text, "ppfc", "type") }

// A Notification is a PPFC notification from its BTH up to the ICRC (PPFC
// section 3): a BTH with opcode 0x81 and the P bit, then the extension.
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	| Opcode (0x81) |S|M|Pad| TVer  |         Partition Key         |
//	|F|B|1|  Resv5  |         Destination Queue Pair (24)           |
//	|A|    Resv7    |         Packet Sequence Number (24)           |
//	~   Congested Destination IP (32 bits IPv4, 128 bits IPv6)      ~
//	|         Flags (14)        |PT |        Congestion Port        |
//	|            Reserved           |        Pause Duration         |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//
// D10: no field names the address family. 12 octets between BTH and ICRC are
// an IPv4 extension, 24 an IPv6 one, independent of the IP header; any other
// length is an error.
//
// D11: the extension replaces the 16 reserved octets of a CNP. Flags and reserved
// bits are kept on decode and written as given. The ICRC masks octet 4, with the
// P bit.
type Notification struct {
	bth.Header
	Extension
}

// An Extension is the part of a notification after its BTH (PPFC section 3).
type Extension struct {
	// Congested is the Congested Destination IP; a zone is not sent. It is the
	// destination of the flow, as the name in the draft suggests, or the address of
	// the congested node, as its text says: a receiver must accept both (D15).
	Congested netip.Addr
	Flags     uint16        // 14 bits
	Type      Type          // PT, 2 bits
	Port      uint16        // Congestion Port: identifies the congested port
	Reserved  uint16        // kept
	Pause     time.Duration // Pause Duration: whole microseconds, 0 to 65535
}

// Errors of decoding and encoding. Those about another message match rocecn.ErrOther.
var (
	errTruncated = wireerr.New("ppfc", "notification",
		"truncated: shorter than BTH and extension, 24 octets over IPv4 and 36 over IPv6", wireerr.Truncated)
	errNotPPFC    = wireerr.New("ppfc", "opcode", "not 0x81", wireerr.Other)
	errCNP        = wireerr.New("ppfc", "P", "not set: a CNP, not a PPFC notification", wireerr.Other)
	errCongested  = wireerr.New("ppfc", "Congested Destination IP", "not an IP address", wireerr.Range)
	errFlagsRange = wireerr.New("ppfc", "Flags", "over 14 bits", wireerr.Range)
	errTypeRange  = wireerr.New("ppfc", "PT", "over 2 bits", wireerr.Range)
	errPauseRange = wireerr.New("ppfc", "Pause Duration",
		"not a whole number of microseconds from 0 to 65535", wireerr.Range)
)

// New returns the notification with this extension for the queue pair destQP.
// Its BTH is that of cnp.New with the P bit. pKey is the P_Key of the data; 0
// stands for bth.DefaultPKey.
func New(destQP uint32, pKey uint16, e Extension) Notification {
	pKey = cmp.Or(pKey, bth.DefaultPKey)
	return Notification{bth.Header{Opcode: bth.CNP, PKey: pKey, BECN: true, Resv6: Bit, DestQP: destQP}, e}
}

// Decode sets n from all of b, from the BTH up to the ICRC, which b must not
// include: the address family follows from the length (D10). On error n is
// unchanged.
func (n *Notification) Decode(b []byte) error {
	if len(b) < bth.Size+SizeIPv4 {
		return errTruncated
	}
	if err := checkKind(bth.Opcode(b[0]), b[4], len(b)-bth.Size); err != nil {
		return err
	}
	if len(b) != bth.Size+SizeIPv4 && len(b) != bth.Size+SizeIPv6 {
		return wireerr.PPFCLength
	}
	extension, err := n.Header.Decode(b)
	if err != nil {
		return err
	}
	n.readFields(extension)
	return nil
}

// IsNotification reports whether a decoded packet is a notification, valid or not: opcode
// 0x81, the P bit, and not the length of a CNP (D18).
func IsNotification(p *rocev2.Packet) bool {
	return checkKind(p.BTH.Opcode, p.BTH.Resv6, p.PayloadLen()) == nil
}

// FromPacket returns the notification in a decoded packet. The error matches
// rocecn.ErrOther for packets of another kind, rocecn.ErrMalformed for an invalid
// notification, and rocecn.ErrTruncated for one that the capture truncated.
func FromPacket(p *rocev2.Packet) (Notification, error) {
	var n Notification
	size := p.PayloadLen()
	if err := checkKind(p.BTH.Opcode, p.BTH.Resv6, size); err != nil {
		return n, err
	}
	if size != SizeIPv4 && size != SizeIPv6 {
		return n, wireerr.PPFCLength
	} else if len(p.Payload) < size {
		return n, errTruncated
	}
	n.Header = p.BTH.Header
	n.readFields(p.Payload)
	return n, nil
}

// checkKind rejects other opcodes and CNPs. octet4 of the BTH has F, B and Resv6
// with P as its top bit; n is the number of octets between BTH and ICRC. With 16
// octets it is a CNP even if P is set, since reserved bits are ignored on receipt
// (D18).
func checkKind(op bth.Opcode, octet4 uint8, n int) error {
	switch {
	case op != bth.CNP:
		return errNotPPFC
	case octet4&Bit == 0, n == cnpReserved:
		return errCNP
	}
	return nil
}

// cnpReserved is the number of octets between BTH and ICRC in a CNP.
const cnpReserved = 16

// readFields sets e from an extension of one of the two lengths.
func (e *Extension) readFields(extension []byte) {
	fields := (*[8]byte)(extension[len(extension)-8:])
	if len(extension) == SizeIPv4 {
		e.Congested = netip.AddrFrom4([4]byte(extension))
	} else {
		e.Congested = netip.AddrFrom16([16]byte(extension))
	}
	flags := binary.BigEndian.Uint16(fields[0:])
	e.Flags, e.Type = flags>>2, Type(flags&3)
	e.Port = binary.BigEndian.Uint16(fields[2:])
	e.Reserved = binary.BigEndian.Uint16(fields[4:])
	e.Pause = time.Duration(binary.BigEndian.Uint16(fields[6:])) * time.Microsecond
}

// AppendBinary appends the BTH and the extension, without the ICRC. It returns
// b unchanged and an error if a value does not fit its field, if the opcode is
// not 0x81, or if the P bit is not set.
func (n Notification) AppendBinary(b []byte) ([]byte, error) {
	if err := n.headerError(); err != nil {
		return b, err
	}
	out, err := n.Header.AppendBinary(slices.Grow(b, bth.Size+SizeIPv6))
	if err == nil {
		out, err = n.Extension.AppendBinary(out)
	}
	if err != nil {
		return b, err
	}
	return out, nil
}

// headerError returns an error if the BTH is not that of a notification.
func (n *Notification) headerError() error { return checkKind(n.Opcode, n.Resv6, SizeIPv4) }

// rangeError returns an error if a value does not fit its field.
func (e *Extension) rangeError() error {
	switch {
	case !e.Congested.IsValid():
		return errCongested
	case e.Flags >= 1<<14:
		return errFlagsRange
	case e.Type > Hold:
		return errTypeRange
	case !e.pauseFits():
		return errPauseRange
	}
	return nil
}

func (e *Extension) pauseFits() bool {
	return e.Pause >= 0 && e.Pause <= MaxPause && e.Pause%time.Microsecond == 0
}

// AppendBinary appends the 12 or 24 octets of the extension. If a value does
// not fit its field, it returns b unchanged and an error that matches
// rocecn.ErrRange.
func (e *Extension) AppendBinary(b []byte) ([]byte, error) {
	if err := e.rangeError(); err != nil {
		return b, err
	}
	if e.Congested.Is4() {
		a := e.Congested.As4()
		b = append(b, a[:]...)
	} else {
		a := e.Congested.AsSlice()
		b = binary.BigEndian.AppendUint64(b, binary.BigEndian.Uint64(a))
		b = binary.BigEndian.AppendUint64(b, binary.BigEndian.Uint64(a[8:]))
	}
	return binary.BigEndian.AppendUint64(b, e.packFields()), nil
}

// packFields returns the 8 octets after the address.
func (e *Extension) packFields() uint64 {
	return uint64(e.Flags)<<50 | uint64(e.Type)<<48 | uint64(e.Port)<<32 |
		uint64(e.Reserved)<<16 | uint64(e.Pause/time.Microsecond)
}

// String returns the fields of the extension, then those of the BTH.
func (n Notification) String() string { return n.Extension.String() + "; " + n.Header.String() }

// String returns the fields, and Flags and Reserved unless they are 0.
func (e Extension) String() string {
	s := fmt.Sprintf("%v %v port %d of %v", e.Type, e.Pause, e.Port, e.Congested)
	if e.Flags != 0 || e.Reserved != 0 {
		s += fmt.Sprintf(" Flags %#x Reserved %#x", e.Flags, e.Reserved)
	}
	return s
}
