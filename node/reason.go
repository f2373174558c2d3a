package node

import "github.com/rocecn/rocecn/internal/enumtext"

// A Reason is the reason for which a role rejected a packet. It does not implement error, because a Decision without a
// reason has NoReason.
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
	ReasonOwnAddress             // the packet was sent by the node itself
	ReasonNotTunnelled           // the packet is not in an IPv6 tunnel, as FCN requires
	ReasonTunnelled              // the sender may be unreachable, or the notification came in a tunnel (D17)
	ReasonNoMethod               // no method to notify this sender is configured
	ReasonNoProxy                // no proxy is known for this sender
	ReasonLimited                // a rate limit is exceeded
	ReasonBroken                 // the octets cannot be decoded
	ReasonICRC                   // the ICRC does not match
	ReasonChecksum               // the UDP checksum is wrong
	ReasonNotOurs                // the packet is not addressed to this node
	ReasonDenied                 // the source is not in the access list
	ReasonUnknownQP              // the sender's queue pair is not known
	ReasonAmbiguousQP            // more than one queue pair could be the sender's
	ReasonUnknownLabel           // no flow has this label
	ReasonTupleMismatch          // the five-tuple of a proxy message differs from that of its invoking packet
	ReasonTableFull              // the table of flows is full
	ReasonUnknownOption          // the notification has an unknown option that must not be skipped
	ReasonAmbiguousLabel         // more than one flow has this label
	ReasonTrimmed                // a switch has trimmed the packet, so it has no ICRC
	ReasonUnconfirmed            // the first rejection of a Fast CNP: a second one has to confirm it
	ReasonPSNMismatch            // the sender's queue pair is known, but the PSN of the packet is not of its connection

	reasons = iota
)

var reasonTexts = [reasons]string{
	"", "disabled", "not_capable", "acknowledgement", "notification", "fragment", "address", "own_address",
	"not_tunnelled", "tunnelled", "no_method", "no_proxy", "limited", "broken", "icrc", "checksum", "not_ours",
	"denied", "unknown_qp",
	"ambiguous_qp", "unknown_label", "tuple_mismatch", "table_full", "unknown_option", "ambiguous_label",
	"trimmed", "unconfirmed", "psn_mismatch",
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
