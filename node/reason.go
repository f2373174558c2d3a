// Package node is what the roles below it have in common: the reasons for
// which they say nothing, and how they find the queue pair that sends a flow.
//
// A role is what one of the drafts asks of one kind of node: the congested
// switch, the receiver, the sender, the proxy, the ingress PE, the border. Each
// is a package of its own, a state machine without I/O: octets and the time go
// in, octets and a verdict come out. No role starts a goroutine or reads a clock,
// every table has a maximum, and the zero configuration of each is off.
package node

import (
	"errors"
	"math"

	"github.com/rocecn/rocecn/internal/enumtext"
)

// A Reason says why a role refused a packet. It is no error, as Accepted is none: see Err.
type Reason uint8

// The reasons. Accepted, the zero value, is none.
const (
	Accepted        Reason = iota
	Disabled               // the role is off
	NotCapable             // the sender does not understand the message, or the packet is not ECN-capable
	Acknowledgement        // nothing answers an acknowledgement
	Notification           // nothing answers a notification
	Fragment               // nothing answers a fragment
	Address                // the sender's address is no unicast address that can be reached
	OwnAddress             // the packet is the node's own
	NotTunnelled           // FCN is for packets in an IPv6 tunnel
	Tunnelled              // the node cannot reach the sender, or the notification came in a tunnel
	NoMethod               // no way of notifying this sender is configured
	NoProxy                // no proxy is known for this sender
	Limited                // a rate limit holds
	Broken                 // the octets do not parse
	ICRC                   // the ICRC does not match
	Checksum               // the UDP checksum is wrong
	NotOurs                // not addressed to this node
	Denied                 // the access list does not have the source
	UnknownQP              // the sender's queue pair is not known
	AmbiguousQP            // more than one queue pair could be the sender's
	UnknownLabel           // no flow has this label
	TupleMismatch          // the five-tuple is not the invoking packet's
	TableFull              // no room for another flow
	UnknownOption          // a notification with an option that must not be skipped, and that is not known

	reasons = iota
)

var reasonTexts = [reasons]string{
	"", "disabled", "not_capable", "acknowledgement", "notification", "fragment", "address", "own_address",
	"not_tunnelled", "tunnelled", "no_method", "no_proxy", "limited", "broken", "icrc", "checksum", "not_ours",
	"denied", "unknown_qp",
	"ambiguous_qp", "unknown_label", "tuple_mismatch", "table_full", "unknown_option",
}

// String returns the reason in lower case, as `rocecn play` prints it; the
// empty string for Accepted.
func (r Reason) String() string { return enumtext.Name(r, reasonTexts[:], "Reason") }

// Err returns nil for Accepted; for every other reason the error whose text is
// what String returns, after "node: ". The same reason gives the same error, so
// that errors.Is matches it with node.Limited.Err(), and nothing is allocated.
func (r Reason) Err() error {
	return errs[r]
}

// errs are the errors of all values that a Reason can have, built once.
var errs = func() (errs [math.MaxUint8 + 1]error) {
	for i := range errs {
		if r := Reason(i); r != Accepted {
			errs[i] = errors.New("node: " + r.String())
		}
	}
	return errs
}()

// MarshalText returns what String does.
func (r Reason) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText sets r to the reason that String returns the text for.
func (r *Reason) UnmarshalText(text []byte) error {
	return enumtext.Unmarshal(r, text, "node", "reason")
}
