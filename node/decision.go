package node

import (
	"net/netip"
	"time"

	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/internal/enumtext"
	"github.com/rocecn/rocecn/ioam"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/qpmap"
)

// An Action is the action of a role on a packet.
type Action uint8

// The actions. NoAction, the zero value, is for traffic that the role does not handle.
const (
	NoAction        Action = iota
	ActionSent             // a notification was appended, for the sender or on its behalf
	ActionMarked           // the packet must be marked with CE, and no notification was sent
	ActionForwarded        // the packet was appended in a tunnel (ingress)
	ActionLearned          // the packet taught a queue pair, a label, or that a sender does not support Fast CNP
	ActionAccepted         // a notification was accepted: Decision.Request is its request
	ActionDropped          // the packet may not cross (border)
	ActionPassed           // the packet may cross (border)
	ActionRefused          // nothing was done; Decision.Reason is the reason

	actions = iota
)

var actionTexts = [actions]string{
	"", "sent", "marked", "forwarded", "learned", "accepted", "dropped", "passed", "refused",
}

// String returns the action in lower case, as `rocecn play` prints it; the empty string for NoAction.
func (a Action) String() string {
	if a == NoAction {
		return ""
	}
	return enumtext.Name(a, actionTexts[:], "Action")
}

// MarshalText returns the text of String.
func (a Action) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText sets a to the action that String returns the text for.
func (a *Action) UnmarshalText(text []byte) error {
	return enumtext.Unmarshal(a, text, "node", "action")
}

// A Decision is the decision of a role about a frame, or an action that was due. Fields that do not apply are zero.
type Decision struct {
	Action  Action
	Reason  Reason       // reason for which the role did nothing or less than usual, or NoReason
	Request Request      // request of an accepted notification
	Packet  message.Kind // kind of the packet, as far as the role has decoded it
	Message message.Kind // kind of the notification that was appended, accepted or dropped, or KindOther

	// Origin is the node that sent an accepted notification: the receiver of the flow, or a node of the network.
	Origin fastcnp.Origin
	// Repeated is true if an accepted CNP or Fast CNP reports congestion that was reported before, within
	// Config.Window of the sender. Request is then NoRequest, because the rate must not be reduced again.
	Repeated bool

	KnownQP bool  // SrcQP is known
	Level   uint8 // congestion level in the message
	Option  uint8 // number of the option of a Fast CNP that was appended: 1 or 2
	MarkECN bool  // the caller must set CE on the packet, with SetECN of its outer view

	OwnRecord bool // the trace of the appended Fast CNP has the node's own record (congested)

	Port uint16 // congested port in an accepted PPFC

	// SrcPort is the UDP source port of an accepted Fast CNP: that of the congested packet, if the switch has copied it
	// (D6).
	SrcPort uint16

	Label uint32 // flow label of the flow in the outer header, or 0 for none (ingress)

	// SrcQP is the queue pair that sends the flow, valid if KnownQP is set. It is the queue pair in an appended CNP,
	// the host's own for an accepted notification, and the learned one with ActionLearned.
	SrcQP uint32

	Pause time.Duration // duration of the stop or hold that an accepted PPFC requests; 0 with RequestResume

	// Trace is the trace of an accepted Fast CNP with option 2, or nil. It aliases the frame.
	Trace *ioam.Trace

	To netip.Addr // destination of the packet that was appended

	// From is the source of a message for the role, even if the role rejects it: a notification (sender, pause), an
	// FCN (ingress), a proxy message (proxy), or an ICMPv6 Parameter Problem (congested). It is the zero Addr for
	// other packets, for other roles, and if the headers of the message cannot be read.
	From netip.Addr

	// Flow is the flow of the packet or of the notification, in the direction of its data packets. A CNP does not
	// identify the flow: only Flow.Src is set (sender).
	Flow qpmap.Key
}
