package play

import (
	"fmt"
	"io"
	"net/netip"
	"time"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/cli"
	"github.com/rocecn/rocecn/node"
)

// A line is what a role has to say of a frame: one JSON object. A key that does
// not apply is not there.
type line struct {
	Frame  int         `json:"frame"`
	Time   jsonTime    `json:"time,omitzero"`
	Role   string      `json:"role"`
	Action action      `json:"action"`
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

// An action is what a role did with a frame. The zero value is nothing, and
// gives no line.
type action uint8

const (
	silent    action = iota
	sent             // a notification
	marked           // only ECN
	forwarded        // ingress: in a tunnel
	learned          // a queue pair, or that a sender is not capable
	accepted         // a notification
	dropped          // border
	passed           // border
	refused          // for a reason

	actions = iota
)

var actionNames = [actions]string{"", "sent", "marked", "forwarded", "learned", "accepted", "dropped", "passed", "refused"}

func (a action) String() string { return actionNames[a] }

func (a action) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// refuse returns the line of a frame that is refused.
func refuse(r node.Reason) line { return line{Action: refused, Reason: r} }

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
	written int // packets in OUT
	lines   [actions][node.Reasons]int
}

func (s *summary) add(l *line) { s.lines[l.Action][l.Reason]++ }

// print writes the summary, each action on a line of its own:
//
//	frames: 253 read, 72 packets written
//	sent: 70
//	refused: 22 acknowledgement, 2 limited
func (s *summary) print(w io.Writer) {
	fmt.Fprintf(w, "frames: %d read, %s written\n", s.frames, cli.Count(s.written, "packet"))
	for a := sent; a < actions; a++ {
		separator := fmt.Sprintf("%v: ", a)
		for reason, n := range s.lines[a] {
			if n == 0 {
				continue
			}
			fmt.Fprintf(w, "%s%d", separator, n)
			if reason != 0 {
				fmt.Fprint(w, " ", node.Reason(reason).String())
			}
			separator = ", "
		}
		if separator == ", " {
			fmt.Fprintln(w)
		}
	}
}
