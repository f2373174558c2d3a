// Package node has what all roles share: [Role], [Decision], its [Action] and [Reason], [Counters], and [Pairs], which
// say what queue pair sends a flow.
//
// A role is what one of the drafts asks of one kind of node: the congested switch, the receiver, the sender, the proxy,
// the ingress PE, the border. Each is a package of its own, a state machine without I/O: a frame and the time go in, a
// packet to send and a Decision come out. No role starts a goroutine or reads a clock. Times are those of packets, and
// may jump back. The zero Time, of a packet whose time is not known, stands for the time of the packet before.
//
// A role allocates all its memory when it is first enabled; every table has a maximum size. It is not safe for
// concurrent use, but for its Counters: use one instance a core, each for the flows that the core sees.
//
// # The words of a Config
//
// The zero Config of each role is off. The Configs of all roles use the same words, as far as they have them:
//
//	Enabled           without it nothing is sent or accepted
//	Self4, Self6      the node's own addresses; one of them is needed, unless the Config says otherwise
//	Accept            the nodes whose messages are accepted; nil has none
//	QPs               which queue pairs send which flows; nil knows none. A [Learner] learns from every packet
//	In, InPerSource   rates of the messages of all nodes, and of each, so that one cannot use up what others need.
//	                  A message of a node on the list is charged to both before it is read, even if it is refused
//	PerFlow, Out      the shortest time between two messages that are sent about one flow, and the rate of all.
//	                  Only what is sent is charged
//	Accepted, AcceptedPerSource
//	                  rates of the messages of all nodes, and of each, that the sender accepts. Only what is accepted
//	                  is charged
//	MaxFlows, …       how many entries a table has; 0 stands for the default. A full table evicts an old entry
//	Seed              of the hash tables, so that an attacker cannot choose keys that collide, and of the labels of
//	                  an ingress PE. 0 stands for a random one, drawn when the role is first enabled
//
// By default there is no limit. What one limit refuses is not charged to the others.
//
// Experimental: this package may change in a minor release.
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

// MarshalText returns what String does.
func (r Reason) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText sets r to the reason that String returns the text for.
func (r *Reason) UnmarshalText(text []byte) error {
	return enumtext.Unmarshal(r, text, "node", "reason")
}
