package node

import (
	"errors"
	"math"

	"github.com/rocecn/rocecn/internal/enumtext"
)

// A Reason says why a role refused a packet. It is not an error, as NoReason is a Reason, too: see [Reason.Err].
type Reason uint8

// The reasons. NoReason, the zero value, means that nothing was refused.
const (
	NoReason        Reason = iota
	Disabled               // the role is off
	NotCapable             // the sender does not understand the message, or the packet is not ECN-capable
	Acknowledgement        // acknowledgements are not answered
	Notification           // notifications are not answered
	Fragment               // fragments are not answered
	Address                // the sender's address is not a unicast address that can be reached
	OwnAddress             // the node has sent the packet itself
	NotTunnelled           // the packet is not in an IPv6 tunnel, as FCN requires
	Tunnelled              // the node may not reach the sender, or the notification came in a tunnel
	NoMethod               // no way of notifying this sender is configured
	NoProxy                // no proxy is known for this sender
	Limited                // a rate limit holds
	Broken                 // the octets cannot be decoded
	ICRC                   // the ICRC does not match
	Checksum               // the UDP checksum is wrong
	NotOurs                // not addressed to this node
	Denied                 // the access list does not have the source
	UnknownQP              // the sender's queue pair is not known
	AmbiguousQP            // more than one queue pair could be the sender's
	UnknownLabel           // no flow has this label
	TupleMismatch          // the five-tuple differs from the invoking packet's
	TableFull              // no room for another flow
	UnknownOption          // the notification has an unknown option that must not be skipped
	AmbiguousLabel         // more than one flow has this label

	reasons = iota
)

var reasonTexts = [reasons]string{
	"", "disabled", "not_capable", "acknowledgement", "notification", "fragment", "address", "own_address",
	"not_tunnelled", "tunnelled", "no_method", "no_proxy", "limited", "broken", "icrc", "checksum", "not_ours",
	"denied", "unknown_qp",
	"ambiguous_qp", "unknown_label", "tuple_mismatch", "table_full", "unknown_option", "ambiguous_label",
}

// String returns the reason in lower case, as `rocecn play` prints it; the
// empty string for NoReason.
func (r Reason) String() string {
	if r == NoReason {
		return ""
	}
	return enumtext.Name(r, reasonTexts[:], "Reason")
}

// Err returns nil for NoReason, otherwise the error "node: " and the text of String. It
// returns the same value each time, so errors.Is can compare with node.Limited.Err(),
// and does not allocate.
func (r Reason) Err() error {
	return errs[r]
}

// errs has the error of every value of a Reason.
var errs = func() (errs [math.MaxUint8 + 1]error) {
	for i := range errs {
		if r := Reason(i); r != NoReason {
			errs[i] = errors.New("node: " + r.String())
		}
	}
	return errs
}()

// MarshalText returns the text of String.
func (r Reason) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText sets r to the reason that String returns the text for.
func (r *Reason) UnmarshalText(text []byte) error {
	return enumtext.Unmarshal(r, text, "node", "reason")
}
