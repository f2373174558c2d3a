package play

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/cli"
	"github.com/rocecn/rocecn/node"
)

// A line is what a role has to say of a frame: one JSON object. A key that does not apply is not there.
type line struct {
	Frame  int         `json:"frame"`
	Time   jsonTime    `json:"time,omitzero"`
	Role   string      `json:"role"`
	Action node.Action `json:"action"`
	Reason node.Reason `json:"reason"`

	Kind    string     `json:"kind,omitempty"`     // sent, dropped, accepted by the proxy: of the message
	To      netip.Addr `json:"to,omitzero"`        // sent: where it goes
	MarkECN *bool      `json:"mark_ecn,omitempty"` // switch, on every line
	Option  uint8      `json:"option,omitempty"`   // sent: of a Fast CNP, 1 or 2
	Label   *uint32    `json:"label,omitempty"`    // forwarded: the outer flow label
	QP      *uint32    `json:"qp,omitempty"`       // learned, accepted: the queue pair
	Origin  string     `json:"origin,omitempty"`   // accepted: network or receiver
	Again   *bool      `json:"again,omitempty"`    // accepted by the sender: reported before
	State   string     `json:"state,omitempty"`    // accepted PPFC: what the flow is now
	PauseUS *uint32    `json:"pause_us,omitempty"` // accepted PPFC: for how long
}

// lineOf returns the line of a Decision, as far as those of all roles are alike.
func lineOf(d *node.Decision) line {
	l := line{Action: d.Action, Reason: d.Reason}
	switch d.Action {
	case node.Sent:
		l.Kind, l.To, l.Option = d.Kind.String(), d.To, d.Option
	case node.Dropped:
		l.Kind = d.Kind.String()
	case node.Learned, node.Taken:
		if d.KnownQP {
			l.QP = &d.SrcQP
		}
	}
	return l
}

// jsonTime is text with microseconds, with nanoseconds where there are any.
type jsonTime time.Time

func (t jsonTime) IsZero() bool { return time.Time(t).IsZero() }

func (t jsonTime) MarshalText() ([]byte, error) {
	layout := "2006-01-02T15:04:05.000000Z"
	if time.Time(t).Nanosecond()%1000 != 0 {
		layout = "2006-01-02T15:04:05.000000000Z"
	}
	return time.Time(t).AppendFormat(make([]byte, 0, len(layout)), layout), nil
}

// A summary counts lines by action and reason.
type summary struct {
	frames  int
	written int          // packets in OUT
	lines   map[line]int // by action and reason
}

func (s *summary) add(l *line) {
	if s.lines == nil {
		s.lines = map[line]int{}
	}
	s.lines[line{Action: l.Action, Reason: l.Reason}]++
}

// print writes the summary, each action on a line of its own:
//
//	frames: 253 read, 72 packets written
//	sent: 70
//	refused: 22 acknowledgement, 2 limited
func (s *summary) print(w io.Writer) {
	fmt.Fprintf(w, "frames: %d read, %s written\n", s.frames, cli.Count(s.written, "packet"))
	all := slices.SortedFunc(maps.Keys(s.lines), func(a, b line) int {
		return cmp.Or(cmp.Compare(a.Action, b.Action), cmp.Compare(a.Reason, b.Reason))
	})
	for i, l := range all {
		switch {
		case i == 0:
			fmt.Fprintf(w, "%v: ", l.Action)
		case all[i-1].Action != l.Action:
			fmt.Fprintf(w, "\n%v: ", l.Action)
		default:
			fmt.Fprint(w, ", ")
		}
		fmt.Fprint(w, s.lines[l])
		if l.Reason != node.Accepted {
			fmt.Fprint(w, " ", l.Reason)
		}
	}
	if len(all) > 0 {
		fmt.Fprintln(w)
	}
}
