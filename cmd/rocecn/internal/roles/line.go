package roles

import (
	"net/netip"
	"time"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/cli"
	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/node"
)

// A Verdict is what a role has to say of a frame, nothing where its Action is
// node.Nothing.
type Verdict struct {
	node.Decision
	Label  uint32 // forwarded, learned: of the outer header
	Origin fastcnp.Origin
	Again  bool          // reported before
	State  string        // accepted PPFC: what the flow is now
	Pause  time.Duration // and for how long
	Rate   uint64        // accepted by the sender: bits a second that the flow goes on at; 0: it is stopped

	Keys    Keys
	Unasked bool // it is about what was sent of the role's own accord, and no frame
}

// Keys say what else of a Verdict applies, whatever its Action.
type Keys uint8

// The keys.
const (
	MarkECN Keys = 1 << iota
	Label
	Origin // and Again
	State  // and Pause
	Kind   // of what was accepted, which has no queue pair
	Rate
)

// A Line is a Verdict as one JSON object. A key that does not apply is not there.
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
	// sent: the Fast CNP's trace contains the node's own record
	OwnRecord bool    `json:"own_record,omitempty"`
	Label     *uint32 `json:"label,omitempty"`    // forwarded, learned: the outer flow label
	QP        *uint32 `json:"qp,omitempty"`       // learned, accepted: the queue pair
	Origin    string  `json:"origin,omitempty"`   // accepted: network or receiver
	Again     *bool   `json:"again,omitempty"`    // accepted by the sender: reported before
	State     string  `json:"state,omitempty"`    // accepted PPFC: what the flow is now
	PauseUS   *uint32 `json:"pause_us,omitempty"` // accepted PPFC: for how long
	RateBPS   *uint64 `json:"rate_bps,omitempty"` // accepted by the sender: bits a second, 0 while stopped
}

// Line returns the line about a frame of this number and time.
func (v *Verdict) Line(role string, frame int, at time.Time) Line {
	l := Line{Frame: frame, Time: cli.Time(at), Role: role, Action: v.Action, Reason: v.Reason}
	switch v.Action {
	case node.Sent:
		l.Kind, l.To, l.Option, l.OwnRecord = v.Message.String(), v.To, v.Option, v.OwnRecord
	case node.Dropped:
		l.Kind = v.Message.String()
	case node.Learned, node.Accepted:
		if v.KnownQP {
			l.QP = &v.SrcQP
		}
	}
	if v.Keys&MarkECN != 0 {
		l.MarkECN = &v.MarkECN
	}
	if v.Keys&Label != 0 {
		l.Label = &v.Label
	}
	if v.Keys&Origin != 0 {
		l.Origin, l.Again = v.Origin.String(), &v.Again
	}
	if v.Keys&State != 0 {
		us := uint32(v.Pause / time.Microsecond)
		l.State, l.PauseUS = v.State, &us
	}
	if v.Keys&Rate != 0 {
		l.RateBPS = &v.Rate
	}
	if v.Keys&Kind != 0 {
		l.Kind, l.QP = v.Message.String(), nil
	}
	return l
}
