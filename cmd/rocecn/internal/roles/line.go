package roles

import (
	"net/netip"
	"time"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/cli"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/pause"
)

// A Line is a decision as one JSON object. A key that does not apply is omitted.
type Line struct {
	Frame  int         `json:"frame"`
	Time   cli.Time    `json:"time,omitzero"`
	Role   string      `json:"role"`
	Action node.Action `json:"action"`
	Reason node.Reason `json:"reason"`

	Kind    string     `json:"kind,omitempty"`     // sent, dropped, accepted by the proxy: of the message
	To      netip.Addr `json:"to,omitzero"`        // sent: where it goes
	MarkECN *bool      `json:"mark_ecn,omitempty"` // switch, on every line
	Option  uint8      `json:"option,omitempty"`   // sent: of a Fast CNP, 1 or 2
	// sent, option 2: whether the trace contains the node's own record
	OwnRecord *bool   `json:"own_record,omitempty"`
	Label     *uint32 `json:"label,omitempty"`    // forwarded, learned: the outer flow label
	QP        *uint32 `json:"qp,omitempty"`       // learned, accepted: the queue pair
	Origin    string  `json:"origin,omitempty"`   // accepted: network or receiver
	Again     *bool   `json:"again,omitempty"`    // accepted by the sender: reported before
	State     string  `json:"state,omitempty"`    // accepted PPFC: state of the flow
	PauseUS   *uint32 `json:"pause_us,omitempty"` // accepted PPFC: duration
	RateBPS   *uint64 `json:"rate_bps,omitempty"` // accepted by the sender: bits a second, 0 while stopped

	Src    netip.Addr `json:"src,omitzero"`      // sender of the flow that the decision is about
	Dst    netip.Addr `json:"dst,omitzero"`      // destination of this flow
	DestQP uint32     `json:"dest_qp,omitempty"` // queue pair there
	From   netip.Addr `json:"from,omitzero"`     // source of a message for the role
	Level  *uint8     `json:"level,omitempty"`   // switch: congestion level of the packet
	Depth  *uint64    `json:"depth,omitempty"`   // run: depth of its queue in octets, if it is known
}

// NewLine returns the line about a decision of a role of this name, about a frame of this number and time.
func NewLine(name string, r node.Role, d *node.Decision, frame int, at time.Time) Line {
	l := Line{
		Frame: frame, Time: cli.Time(at), Role: name, Action: d.Action, Reason: d.Reason,
		Src: d.Flow.Src, Dst: d.Flow.Dst, DestQP: d.Flow.DestQP, From: d.From,
	}
	switch d.Action {
	case node.ActionSent:
		l.Kind, l.To, l.Option = d.Message.String(), d.To, d.Option
		if d.Option == 2 {
			l.OwnRecord = &d.OwnRecord
		}
	case node.ActionDropped:
		l.Kind = d.Message.String()
	case node.ActionLearned, node.ActionAccepted:
		if d.KnownQP {
			l.QP = &d.SrcQP
		}
	}
	if d.Message == message.KindPPFC && d.Request != node.NoRequest {
		us := uint32(d.Pause / time.Microsecond)
		l.State, l.PauseUS = pause.StateAfter(d.Request).String(), &us
	}
	switch r := r.(type) {
	case *Switch:
		l.MarkECN = &d.MarkECN
		if level := r.Level; level != UnknownLevel {
			l.Level = &level
		}
	case *Ingress:
		if d.Action == node.ActionForwarded || d.Action == node.ActionLearned && d.Label != 0 {
			l.Label = &d.Label
		}
	case *Proxy:
		if d.Action == node.ActionAccepted {
			l.Kind, l.QP = d.Message.String(), nil
		}
	case *Sender:
		if d.Action == node.ActionAccepted {
			l.Origin, l.Again = d.Origin.String(), &d.Repeated
		}
		if r.rated {
			l.RateBPS = &r.rate
		}
	}
	return l
}
