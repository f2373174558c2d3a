package node

import "github.com/rocecn/rocecn/internal/enumtext"

// A Reason is the reason why a role rejected a packet. It is not an error, as NoReason is a Reason, too.
type Reason uint8

// The reasons. NoReason, the zero value, means that nothing was rejected.
const (
	NoReason              Reason = iota
	ReasonDisabled               // the role is off
	ReasonNotCapable             // the sender does not understand the message, or the packet is not ECN-capable
	ReasonAcknowledgement        // acknowledgements are not answered
	ReasonNotification           // notifications are not answered
	ReasonFragment               // fragments are not answered
	ReasonAddress                // the sender's address is not a unicast address that can be reached
	ReasonOwnAddress             // the node has sent the packet itself
	ReasonNotTunnelled           // the packet is not in an IPv6 tunnel, as FCN requires
	ReasonTunnelled              // the node may not reach the sender, or the notification came in a tunnel
	ReasonNoMethod               // no way of notifying this sender is configured
	ReasonNoProxy                // no proxy is known for this sender
	ReasonLimited                // a rate limit holds
	ReasonBroken                 // the octets cannot be decoded
	ReasonICRC                   // the ICRC does not match
	ReasonChecksum               // the UDP checksum is wrong
	ReasonNotOurs                // not addressed to this node
	ReasonDenied                 // the access list does not have the source
	ReasonUnknownQP              // the sender's queue pair is not known
	ReasonAmbiguousQP            // more than one queue pair could be the sender's
	ReasonUnknownLabel           // no flow has this label
	ReasonTupleMismatch          // the five-tuple differs from the invoking packet's
	ReasonTableFull              // no room for another flow
	ReasonUnknownOption          // the notification has an unknown option that must not be skipped
	ReasonAmbiguousLabel         // more than one flow has this label
	ReasonTrimmed                // a switch has trimmed the packet, which has no ICRC any longer

	reasons = iota
)

var reasonTexts = [reasons]string{
	"", "disabled", "not_capable", "acknowledgement", "notification", "fragment", "address", "own_address",
	"not_tunnelled", "tunnelled", "no_method", "no_proxy", "limited", "broken", "icrc", "checksum", "not_ours",
	"denied", "unknown_qp",
	"ambiguous_qp", "unknown_label", "tuple_mismatch", "table_full", "unknown_option", "ambiguous_label",
	"trimmed",
}

// String returns the reason in lower case, as `rocecn play` prints it; the
// empty string for NoReason.
func (r Reason) String() string {
	if r == NoReason {
		return ""
	}
	return enumtext.Name(r, reasonTexts[:], "Reason")
}

// MarshalText returns the text of String.
func (r Reason) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText sets r to the reason that String returns the text for.
func (r *Reason) UnmarshalText(text []byte) error {
	return enumtext.Unmarshal(r, text, "node", "reason")
}
