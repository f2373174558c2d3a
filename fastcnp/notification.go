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

// A Notification is a Fast CNP (FAST section 4):
//
//	IPv6 | Destination Options with option 1 or 2 | UDP | BTH, OpCode 0x81 |
//	16 reserved octets | ICRC
//
// Src is an address of the switch, Dst the source address
// of the congested packet. CNP.DestQP is the DestQP of the congested packet,
// not the sender's own queue pair.
type Notification struct {
	Src, Dst   netip.Addr
	CNP        cnp.CNP
	Option     Option
	OptionType ipv6opt.Type // as sent; AppendPacket takes 0 for that of Config.CodePoints
	// of the option's type octet from the start of the IPv6 header; AppendPacket does not use it
	Offset int
}

// String returns the addresses, the fields of the option, then those of the CNP.
func (n Notification) String() string {
	return fmt.Sprintf("%v > %v %v; %v", n.Src, n.Dst, n.Option, n.CNP)
}

// optionType returns the option type that n is sent with.
func (n *Notification) optionType(c CodePoints) ipv6opt.Type {
	if n.Option.Number == 2 {
		return cmp.Or(n.OptionType, c.Option2)
	}
	return cmp.Or(n.OptionType, c.Option1)
}

// What FromPacket may return beside the errors of a broken option.
var (
	// ErrNotFastCNP: the packet is a CNP without a Fast CNP option.
	ErrNotFastCNP = wireerr.New("fastcnp", "Destination Options", 0, "no Fast CNP option: a CNP", wireerr.Other)
	errSecond     = wireerr.New("fastcnp", "Destination Options", 0, "more than one Fast CNP option", wireerr.Malformed)
	errOverrun    = wireerr.New("fastcnp", "Destination Options", 0, "an option runs beyond the header of the CNP",
		wireerr.Malformed)
)

// FromPacket is [Notification.DecodePacket] for options of Option1Type and
// Option2Type, for those who want a value.
func FromPacket(p *rocev2.Packet) (n Notification, err error) {
	err = n.DecodePacket(p, CodePoints{})
	return n, err
}

// FromPacket is [Notification.DecodePacket] for those who want a value.
func (c CodePoints) FromPacket(p *rocev2.Packet) (n Notification, err error) {
	err = n.DecodePacket(p, c)
	return n, err
}

// DecodePacket sets n to the Fast CNP in a decoded packet, with options of these
// types; its trace aliases the packet. For packets that are not CNPs, in which
// the option types mean nothing, the error is of rocecn.ErrOther, and so is
// [ErrNotFastCNP], for a CNP without the option. Every other error means a broken
// Fast CNP. On error n is unchanged.
//
// The option may be anywhere in a Destination Options header. A second Fast CNP
// option is an error, and so is any option that overruns such a header:
// otherwise a Fast CNP could be taken for a CNP, whose DestQP means another
// queue pair.
func (n *Notification) DecodePacket(p *rocev2.Packet, c CodePoints) error {
	c = c.withDefaults()
	if err := c.checkTypes(); err != nil {
		return err
	}
	var broken error
	switch n := p.PayloadLen(); {
	case p.BTH.Opcode != bth.CNP:
		return wireerr.NotCNP
	case n == cnp.ReservedSize:
	case p.BTH.Resv6&ppfc.Bit != 0:
		return wireerr.IsPPFC
	default:
		broken = wireerr.CNPLength
	}
	// The option shows whether a broken packet is a Fast CNP or a CNP.
	o, at, err := findOption(p, c)
	switch {
	case err != nil:
		return err
	case broken != nil:
		var option Option
		return cmp.Or(option.decodeTyped(&o, c), broken)
	}
	if err := n.Option.decodeTyped(&o, c); err != nil {
		return err
	}
	n.OptionType, n.Offset = o.Type, at
	n.Src, n.Dst = p.Src, p.Dst
	n.CNP = cnp.CNP{Header: p.BTH.Header}
	copy(n.CNP.Reserved[:], p.Payload) // fewer where the capture cut them
	return nil
}

// findOption returns the Fast CNP option in the Destination Options of the
// innermost IPv6 header, and its offset from the start of that header.
func findOption(p *rocev2.Packet, c CodePoints) (found ipv6opt.Option, offset int, err error) {
	var h ipv6opt.Header
	// as p.Extensions(), but faster
	for next, ext := p.NextHeader, p.Ext; len(ext) > 0 && p.Src.Is6(); next = h.NextHeader {
		at := wire.IPv6Size + len(p.Ext) - len(ext)
		if ext, err = h.Decode(ext); err != nil {
			return found, 0, err
		}
		if next != ipv6opt.DestinationOptions {
			continue
		}
		for o, err := range h.All() {
			switch {
			case err != nil: // the broken option may be a Fast CNP's, or one may follow it
				return found, 0, errOverrun
			case o.Type != c.Option1 && o.Type != c.Option2:
			case offset != 0:
				return found, 0, errSecond
			default:
				found, offset = o, at+int(o.Offset)
			}
		}
	}
	if offset == 0 {
		return found, 0, ErrNotFastCNP
	}
	return found, offset, nil
}

// Origin says who sent a Fast CNP.
type Origin uint8

// A Fast CNP comes from the receiver of the congested packet or from a switch
// on the way (FAST section 4).
const (
	OriginNetwork Origin = iota
	OriginReceiver
)

// String returns "network" or "receiver".
func (o Origin) String() string { return enumtext.Name(o, origins[:], "Origin") }

var origins = [...]string{"network", "receiver"}

// Origin compares the source address with the original destination: if they are
// equal, the receiver sent the Fast CNP (FAST section 4).
func (n *Notification) Origin() Origin {
	if n.Src == n.Option.OriginalDst {
		return OriginReceiver
	}
	return OriginNetwork
}

// FlowKey returns the key of the congested flow, as in its data packets. The
// sender finds its own queue pair by it (FAST section 4).
func (n *Notification) FlowKey() rocev2.FlowKey {
	return rocev2.FlowKey{Src: n.Dst, Dst: n.Option.OriginalDst, DestQP: n.CNP.DestQP}
}
