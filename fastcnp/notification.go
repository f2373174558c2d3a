package fastcnp

import (
	"cmp"
	"fmt"
	"net/netip"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/cnp"
	"github.com/rocecn/rocecn/internal/enumtext"
	"github.com/rocecn/rocecn/internal/wire"
	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/ipv6opt"
	"github.com/rocecn/rocecn/ppfc"
	"github.com/rocecn/rocecn/rocev2"
)

// Notification is a Fast CNP (FAST section 4):
//
//	IPv6 | Destination Options with option 1 or 2 | UDP | BTH, opcode 0x81 |
//	16 reserved octets | ICRC
type Notification struct {
	Src        netip.Addr   // address of the switch, or of the receiver
	Dst        netip.Addr   // source address of the congested packet
	CNP        cnp.CNP      // DestQP is that of the congested packet, not the sender's own queue pair
	Option     Option       // option 1 or 2
	OptionType ipv6opt.Type // type of the option; in AppendPacket 0 stands for that of Config.CodePoints
	Offset     int          // offset of the option type from the start of the IPv6 header; AppendPacket ignores it
}

// String returns the addresses, the fields of the option, then those of the CNP.
func (n Notification) String() string {
	return fmt.Sprintf("%v > %v %v; %v", n.Src, n.Dst, n.Option, n.CNP)
}

// optionType returns the type with which the option of n is encoded.
func (n *Notification) optionType(c CodePoints) ipv6opt.Type {
	if n.Option.Number == 2 {
		return cmp.Or(n.OptionType, c.Option2)
	}
	return cmp.Or(n.OptionType, c.Option1)
}

// Errors of FromPacket, in addition to those of an invalid option.
var (
	// ErrNotFastCNP is the error for a CNP without a Fast CNP option.
	ErrNotFastCNP = wireerr.New("fastcnp", "Destination Options", "no Fast CNP option: a CNP", wireerr.Other)
	errSecond     = wireerr.New("fastcnp", "Destination Options", "more than one Fast CNP option", wireerr.Malformed)
	errOverrun    = wireerr.New("fastcnp", "Destination Options", "Opt Data Len of an option exceeds the header",
		wireerr.Malformed)
)

// FromPacket decodes the Fast CNP in p, with the option types c. Its trace aliases the
// packet. The error matches rocecn.ErrOther if the packet is not a CNP, and is
// [ErrNotFastCNP], which also matches it, for a CNP without the option. Other errors
// mean that the packet is an invalid Fast CNP. On error n is the zero Notification.
//
// The option may be anywhere in a Destination Options header. FromPacket rejects a
// second Fast CNP option and any option that is longer than its header: otherwise a
// Fast CNP could be taken for a CNP, in which DestQP has another meaning.
func FromPacket(p *rocev2.Packet, c CodePoints) (n Notification, err error) {
	c = c.withDefaults()
	if err := c.checkTypes(); err != nil {
		return n, err
	}
	var invalid error
	switch size := p.PayloadLen(); {
	case p.BTH.Opcode != bth.CNP:
		return n, wireerr.NotCNP
	case size == cnp.ReservedSize:
	case p.BTH.Resv6&ppfc.Bit != 0:
		return n, wireerr.IsPPFC
	default:
		invalid = wireerr.CNPLength
	}
	// Whether an invalid packet is a Fast CNP or a CNP depends on the option.
	o, offset, err := findOption(p, c)
	switch {
	case err != nil:
		return n, err
	case invalid != nil:
		var option Option
		return n, cmp.Or(option.decodeTyped(&o, c), invalid)
	}
	if err := n.Option.decodeTyped(&o, c); err != nil {
		return n, err
	}
	n.OptionType, n.Offset = o.Type, offset
	n.Src, n.Dst = p.Src, p.Dst
	n.CNP = cnp.CNP{Header: p.BTH.Header}
	copy(n.CNP.Reserved[:], p.Payload) // fewer if the capture truncated them
	return n, nil
}

// findOption returns the Fast CNP option in the Destination Options of the
// innermost IPv6 header, and its offset from the start of that header.
func findOption(p *rocev2.Packet, c CodePoints) (found ipv6opt.Option, offset int, err error) {
	var h ipv6opt.Header
	// faster than p.Extensions()
	for next, ext := p.NextHeader, p.Ext; len(ext) > 0 && p.Src.Is6(); next = h.NextHeader {
		start := wire.IPv6Size + len(p.Ext) - len(ext)
		if ext, err = h.Decode(ext); err != nil {
			return found, 0, err
		}
		if next != ipv6opt.DestinationOptions {
			continue
		}
		for o, err := range h.All() {
			switch {
			case err != nil: // this may be the Fast CNP option, or one may follow
				return found, 0, errOverrun
			case o.Type != c.Option1 && o.Type != c.Option2:
			case offset != 0:
				return found, 0, errSecond
			default:
				found, offset = o, start+int(o.Offset)
			}
		}
	}
	if offset == 0 {
		return found, 0, ErrNotFastCNP
	}
	return found, offset, nil
}

// Origin is the kind of node that sent a Fast CNP (FAST section 4).
type Origin uint8

// The origins.
const (
	OriginNetwork  Origin = iota // a switch on the path
	OriginReceiver               // the receiver of the congested packet
)

// String returns "network" or "receiver".
func (o Origin) String() string { return enumtext.Name(o, origins[:], "Origin") }

var origins = [...]string{"network", "receiver"}

// Origin returns OriginReceiver if the source address is the original destination,
// otherwise OriginNetwork (FAST section 4).
func (n *Notification) Origin() Origin {
	if n.Src == n.Option.OriginalDst {
		return OriginReceiver
	}
	return OriginNetwork
}

// FlowKey returns the key of the congested flow, in the direction of its data packets.
// With it the sender finds its own queue pair (FAST section 4).
func (n *Notification) FlowKey() rocev2.FlowKey {
	return rocev2.FlowKey{Src: n.Dst, Dst: n.Option.OriginalDst, DestQP: n.CNP.DestQP}
}
