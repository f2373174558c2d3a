package node

import (
	"net/netip"

	"github.com/rocecn/rocecn/internal/enumtext"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/qpmap"
)

// An Action is what a role did with a packet.
type Action uint8

// The actions. Nothing, the zero value, is for traffic in which the role has no say.
const (
	Nothing   Action = iota
	Sent             // a notification was appended, for the sender or on its behalf
	Marked           // the packet is to be marked with CE, and no notification was sent
	Forwarded        // the packet was appended in a tunnel (ingress)
	Learned          // the packet taught a queue pair, or that a sender does not understand Fast CNPs
	Taken            // a notification was accepted: the program has something to do
	Dropped          // the packet may not cross (border)
	Passed           // the packet may cross (border)
	Refused          // nothing was done: Decision.Reason says why

	// What follows is counted beside what a Decision says, and is the Action of none.

	Again         // notifications that were accepted, but were no news (sender)
	FellBack      // notifications that were sent since the node cannot mark (congested)
	Resumed       // flows that were let run again (congested, pause)
	Stopped       // flows that were stopped (pause)
	Held          // flows that may not become faster (pause)
	Alarmed       // alarms (pause)
	Forgotten     // flows that made room for others (congested, pause)
	Observed      // packets that were shown to the table of queue pairs (proxy)
	Opened        // flows that got a label (ingress)
	Unlabelled    // packets that were forwarded with label 0, whatever they are (ingress)
	NotECNCapable // packets that were forwarded with a label, but that no node may mark (ingress)

	actions = iota
)

var actionTexts = [actions]string{
	"", "sent", "marked", "forwarded", "learned", "accepted", "dropped", "passed", "refused",
	"again", "fell_back", "resumed", "stopped", "held", "alarmed", "forgotten", "observed", "opened", "unlabelled",
	"not_ecn_capable",
}

// String returns the action in lower case, as `rocecn play` prints it: the empty string for Nothing, "accepted" for
// Taken.
func (a Action) String() string { return enumtext.Name(a, actionTexts[:], "Action") }

// MarshalText returns what String does.
func (a Action) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText sets a to the action that String returns the text for.
func (a *Action) UnmarshalText(text []byte) error {
	return enumtext.Unmarshal(a, text, "node", "action")
}

// A Decision is what a role says of a packet. Roles that have more to say embed it. What does not apply is zero.
type Decision struct {
	Action Action
	Reason Reason       // Accepted, or why no more was done
	Packet message.Kind // what the packet is, as far as that was looked at

	Kind message.Kind // of the notification: of the one that was appended, accepted or dropped; Other for none
	To   netip.Addr   // where what was appended goes
	From netip.Addr   // where the packet came from, if it is a message

	// Flow is the flow that the notification, or the packet, is about, as its data packets have it.
	Flow qpmap.Key
	// SrcQP is the queue pair that sends the flow, if KnownQP: of a CNP that was appended the one that it names, of a
	// notification that was accepted the host's own, of a packet that taught one that one.
	SrcQP   uint32
	KnownQP bool

	Level   uint8 // of the congestion, as the message has it
	Option  uint8 // of a Fast CNP that was appended: 1 or 2
	MarkECN bool  // set CE on the packet, with rocev2.SetECN on its outermost IP header
}
