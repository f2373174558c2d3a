package ipv6opt

import (
	"strconv"

	"github.com/rocecn/rocecn/internal/enumtext"
)

// Type is the Option Type (RFC 8200 section 4.2). All 8 bits identify the option.
// The three high bits also specify the treatment of the option by a node that does
// not know it.
//
//	 0 1 2 3 4 5 6 7
//	+---+-+---------+
//	|act|c|  rest   |
//	+---+-+---------+
type Type uint8

// The two padding options (RFC 8200 section 4.2).
const (
	Pad1 Type = 0x00 // one octet, without length and data
	PadN Type = 0x01 // two or more octets
)

// Action returns the action of a node that does not know the option (act).
func (t Type) Action() Action { return Action(t >> 6) }

// MayChange reports whether nodes on the path may change the option's data (chg).
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

// Action is the action of a node that does not know the type of an option
// (RFC 8200 section 4.2).
type Action uint8

// The four actions.
const (
	ActionSkip                       Action = iota // skip the option
	ActionDiscard                                  // drop the packet
	ActionDiscardICMP                              // drop the packet, send ICMPv6 Parameter Problem, code 2
	ActionDiscardICMPUnlessMulticast               // the same, but send nothing if the destination is multicast
)

// String returns the action in words.
func (a Action) String() string { return enumtext.Name(a, actions[:], "Action") }

var actions = [...]string{"skip", "discard", "discard, send ICMP", "discard, send ICMP unless multicast"}
