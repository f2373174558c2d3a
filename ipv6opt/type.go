package ipv6opt

import (
	"strconv"

	"github.com/rocecn/rocecn/internal/enumtext"
)

// Type is an option's Type octet. It is compared as a whole; its three high
// bits also say what a node does with an option that it does not know
// (RFC 8200 section 4.2).
//
//	 0 1 2 3 4 5 6 7
//	+---+-+---------+
//	|act|c|  rest   |
//	+---+-+---------+
type Type uint8

// The two padding options (RFC 8200 section 4.2).
const (
	Pad1 Type = 0x00 // a single octet, without length and data
	PadN Type = 0x01 // two octets or more
)

// Action returns what a node that does not know the option does (act).
func (t Type) Action() Action { return Action(t >> 6) }

// MayChange reports whether the option's data may change on the way to the
// destination (chg).
func (t Type) MayChange() bool { return t&0x20 != 0 }

// IsPadding reports whether the type is [Pad1] or [PadN].
func (t Type) IsPadding() bool { return t <= PadN }

// String returns "Pad1", "PadN" or the octet, as in "0x31".
func (t Type) String() string {
	switch t {
	case Pad1:
		return "Pad1"
	case PadN:
		return "PadN"
	}
	return "0x" + strconv.FormatUint(0x100|uint64(t), 16)[1:]
}

// Action is what a node does on an option whose type it does not know
// (RFC 8200 section 4.2).
type Action uint8

// The four actions.
const (
	ActionSkip                       Action = iota // go on with the next option
	ActionDiscard                                  // drop the packet
	ActionDiscardICMP                              // and send an ICMPv6 Parameter Problem, code 2, that points at the type
	ActionDiscardICMPUnlessMulticast               // the same, but nothing is sent when the destination is multicast
)

// String returns the action in words.
func (a Action) String() string { return enumtext.Name(a, actions[:], "Action") }

var actions = [...]string{"skip", "discard", "discard, send ICMP", "discard, send ICMP unless multicast"}
