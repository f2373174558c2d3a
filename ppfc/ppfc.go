// Package ppfc encodes and decodes the Precise Priority-based Flow Control
// notification (PPFC section 3, draft-xz-rtgwg-ppfc-rocv2): an extension
// behind the BTH with which a congested node tells a sender to stop, to resume,
// to take heed or to hold.
package ppfc

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/rocev2"
)

// The lengths of an extension in octets.
const (
	SizeIPv4 = 12
	SizeIPv6 = 24
)

// MaxPause is the longest pause that a notification can ask for.
const MaxPause = 0xFFFF * time.Microsecond

// Type says what the sender is to do.
type Type uint8

// The types (PPFC section 3).
const (
	Stop   Type = 0
	Resume Type = 1
	Alarm  Type = 2
	Hold   Type = 3
)

// String returns "stop", "resume", "alarm" or "hold".
func (t Type) String() string {
	switch t {
	case Stop:
		return "stop"
	case Resume:
		return "resume"
	case Alarm:
		return "alarm"
	case Hold:
		return "hold"
	}
	return "Type(" + strconv.Itoa(int(t)) + ")"
}

// A Notification is a PPFC notification from its BTH up to the ICRC (PPFC
// section 3): a BTH with OpCode 0x81 and the P bit, then the extension.
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	| OpCode (0x81) |S|M|Pad| TVer  |         Partition Key         |
//	|F|B|1|  Resv5  |         Destination Queue Pair (24)           |
//	|A|    Resv7    |         Packet Sequence Number (24)           |
//	~   Congested Destination IP (32 bits IPv4, 128 bits IPv6)      ~
//	|         Flags (14)        |PT |        Congestion Port        |
//	|            Reserved           |        Pause Duration         |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//
// D10: no field names the address family. 12 octets between BTH and ICRC are
// an IPv4 extension, 24 an IPv6 one, whatever carries the packet; any other
// length is an error.
//
// D11: the extension stands in the place of a CNP's 16 reserved octets. Flags
// and reserved bits are kept on decode and written as given. The P bit, like
// all of octet 4, is masked in the ICRC.
type Notification struct {
	bth.Header
	Congested netip.Addr    // Congested Destination IP; a zone is not sent
	Flags     uint16        // 14 bits
	Type      Type          // PT, 2 bits
	Port      uint16        // Congestion Port: identifies the congested port
	Reserved  uint16        // kept
	Pause     time.Duration // Pause Duration: whole microseconds, 0 to 65535
}

// What decoding and encoding refuse; ErrNotPPFC and ErrP say that the octets
// are another message.
var (
	ErrTruncated  = wireerr.Old("ppfc: truncated: 12 octets of BTH and 12 (IPv4) or 24 (IPv6) of extension needed", wireerr.Truncated)
	ErrNotPPFC    = wireerr.Old("ppfc: BTH OpCode is not 0x81")
	ErrP          = wireerr.Old("ppfc: the P bit is not set: a CNP, no PPFC notification")
	ErrLength     = wireerr.Old("ppfc: neither 12 octets (IPv4) nor 24 (IPv6) between BTH and ICRC", wireerr.Malformed)
	ErrCongested  = wireerr.Old("ppfc: Congested Destination IP is no address", wireerr.Range)
	ErrFlagsRange = wireerr.Old("ppfc: Flags over 14 bits", wireerr.Range)
	ErrTypeRange  = wireerr.Old("ppfc: PT over 2 bits", wireerr.Range)
	ErrPauseRange = wireerr.Old("ppfc: Pause Duration is not in whole microseconds from 0 to 65535", wireerr.Range)
)

// New returns the BTH of a notification: as a CNP's, with the P bit.
func New(destQP uint32, pKey uint16) Notification {
	return Notification{Header: bth.Header{Opcode: bth.CNP, PKey: pKey, BECN: true, Resv6: bth.P, DestQP: destQP}}
}

// Decode sets n from b, which must end where the ICRC begins: its length
// tells the address family (D10). On error n is unchanged.
func (n *Notification) Decode(b []byte) error {
	if len(b) < bth.Size+SizeIPv4 {
		return ErrTruncated
	}
	if err := recognise(bth.Opcode(b[0]), b[4]); err != nil {
		return err
	}
	if len(b) != bth.Size+SizeIPv4 && len(b) != bth.Size+SizeIPv6 {
		return ErrLength
	}
	extension, err := n.Header.Decode(b)
	if err != nil {
		return err
	}
	n.set(extension)
	return nil
}

// FromPacket returns the notification in a decoded packet. It returns
// ErrNotPPFC or ErrP for packets of another kind, ErrLength for a broken
// notification, ErrTruncated for one that the capture cut.
func FromPacket(p *rocev2.Packet) (Notification, error) {
	var n Notification
	if err := recognise(p.BTH.Opcode, p.BTH.Resv6); err != nil {
		return n, err
	}
	if size := p.PayloadLen(); size != SizeIPv4 && size != SizeIPv6 {
		return n, ErrLength
	} else if len(p.Payload) < size {
		return n, ErrTruncated
	}
	n.Header = p.BTH.Header
	n.set(p.Payload)
	return n, nil
}

// recognise tells a notification from other opcodes and from a CNP (octet 4
// is F, B, and Resv6, whose top bit is P).
func recognise(op bth.Opcode, octet4 uint8) error {
	switch {
	case op != bth.CNP:
		return ErrNotPPFC
	case octet4&bth.P == 0:
		return ErrP
	}
	return nil
}

// set reads an extension of one of the two lengths.
func (n *Notification) set(extension []byte) {
	fields := (*[8]byte)(extension[len(extension)-8:])
	if len(extension) == SizeIPv4 {
		n.Congested = netip.AddrFrom4([4]byte(extension))
	} else {
		n.Congested = netip.AddrFrom16([16]byte(extension))
	}
	flags := binary.BigEndian.Uint16(fields[0:])
	n.Flags, n.Type = flags>>2, Type(flags&3)
	n.Port = binary.BigEndian.Uint16(fields[2:])
	n.Reserved = binary.BigEndian.Uint16(fields[4:])
	n.Pause = time.Duration(binary.BigEndian.Uint16(fields[6:])) * time.Microsecond
}

// AppendBinary appends BTH and extension, without the ICRC. A value that does
// not fit its field, another opcode and a P bit that is not set are errors.
func (n *Notification) AppendBinary(b []byte) ([]byte, error) {
	out, err := n.Header.AppendBinary(slices.Grow(b, bth.Size+SizeIPv6))
	if err == nil {
		out, err = n.appendExtension(out)
	}
	if err != nil {
		return b, err
	}
	return out, nil
}

// fits says what keeps the extension from being encoded.
func (n *Notification) fits() error {
	switch {
	case !n.Congested.IsValid():
		return ErrCongested
	case n.Flags >= 1<<14:
		return ErrFlagsRange
	case n.Type > Hold:
		return ErrTypeRange
	case !n.pauseFits():
		return ErrPauseRange
	}
	return nil
}

func (n *Notification) pauseFits() bool {
	return n.Pause >= 0 && n.Pause <= MaxPause && n.Pause%time.Microsecond == 0
}

func (n *Notification) appendExtension(b []byte) ([]byte, error) {
	if err := recognise(n.Opcode, n.Resv6); err != nil {
		return b, err
	}
	if err := n.fits(); err != nil {
		return b, err
	}
	if n.Congested.Is4() {
		a := n.Congested.As4()
		b = append(b, a[:]...)
	} else {
		a := n.Congested.As16()
		b = append(b, a[:]...)
	}
	b = binary.BigEndian.AppendUint16(b, n.Flags<<2|uint16(n.Type))
	b = binary.BigEndian.AppendUint16(b, n.Port)
	b = binary.BigEndian.AppendUint16(b, n.Reserved)
	return binary.BigEndian.AppendUint16(b, uint16(n.Pause/time.Microsecond)), nil
}

// MarshalBinary returns BTH and extension, without the ICRC.
func (n *Notification) MarshalBinary() ([]byte, error) { return n.AppendBinary(nil) }

// UnmarshalBinary is Decode.
func (n *Notification) UnmarshalBinary(b []byte) error { return n.Decode(b) }

// String returns the extension's fields, then the BTH's.
func (n Notification) String() string {
	s := fmt.Sprintf("%v %v port %d of %v", n.Type, n.Pause, n.Port, n.Congested)
	if n.Flags != 0 || n.Reserved != 0 {
		s += fmt.Sprintf(" Flags %#x Reserved %#x", n.Flags, n.Reserved)
	}
	return s + "; " + n.Header.String()
}
