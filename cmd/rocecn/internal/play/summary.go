package play

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/cli"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/roles"
	"github.com/rocecn/rocecn/node"
)

// A summary counts lines by action and reason.
type summary struct {
	frames  int
	written int                // packets in OUT
	lines   map[roles.Line]int // by action and reason
}

func (s *summary) addLine(l *roles.Line) {
	if s.lines == nil {
		s.lines = map[roles.Line]int{}
	}
	s.lines[roles.Line{Action: l.Action, Reason: l.Reason}]++
}

// printTo writes the summary, each action on a line of its own:
//
//	frames: 253 read, 72 packets written
//	sent: 70
//	refused: 22 acknowledgement, 2 limited
func (s *summary) printTo(w io.Writer) {
	fmt.Fprintf(w, "frames: %d read, %s written\n", s.frames, cli.Count(s.written, "packet"))
	all := slices.SortedFunc(maps.Keys(s.lines), func(a, b roles.Line) int {
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
		if l.Reason != node.NoReason {
			fmt.Fprint(w, " ", l.Reason)
		}
	}
	if len(all) > 0 {
		fmt.Fprintln(w)
	}
}
