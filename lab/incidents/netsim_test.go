package incidents

import (
	"go/parser"
	"go/token"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/flows/triage"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/lab/incidents/netsim"
)

// causeByName returns the cause with a name.
func causeByName(name string) triage.Cause {
	for _, c := range triage.Causes() {
		if c.String() == name {
			return c
		}
	}
	panic("no cause " + name)
}

// simulate makes the n-th incident of package netsim, of a total.
func simulate(_ *testing.T, n, total int, seed uint64) incident {
	r := rand.New(rand.NewPCG(seed, uint64(n)))
	names := netsim.Names()
	var chosen []string
	switch healthy, doubles := total/5, total/3; {
	case n < healthy:
	case n < healthy+doubles:
		for len(chosen) < 2 {
			if c := names[r.IntN(len(names))]; !netsim.IsAlone(c) && (len(chosen) == 0 || chosen[0] != c) {
				chosen = append(chosen, c)
			}
		}
	default:
		chosen = []string{names[(n-healthy-doubles)%len(names)]}
	}
	return simulated(netsim.Make(r.Uint64(), chosen...))
}

// simulated returns an incident of package netsim.
func simulated(made netsim.Incident) incident {
	in := incident{name: made.Name, truth: truth{}, also: truth{}, events: made.Events}
	for c, parties := range made.Causes {
		in.truth.add(causeByName(c), parties...)
	}
	for c, parties := range made.Also {
		in.also.add(causeByName(c), parties...)
	}
	for _, f := range made.Frames {
		in.frames = append(in.frames, frame{f.At, f.Octets})
	}
	for _, d := range made.Discards {
		in.discards = append(in.discards, discard{frame{d.At, d.Octets}, d.Agent, d.Port, d.Queue})
	}
	return in
}

// Each cause is found in a small capture of it, and described with the facts that an operator needs.
func TestEachCause(t *testing.T) {
	for _, row := range []struct{ cause, text, next string }{
		{"pause storm", "paused priority 3 of its link, from frame", "receives too slowly"},
		{"endless pause", "The pause did not end within the capture", "PFC watchdog"},
		{"incast", "senders send to", "the last switch's port to this receiver"},
		{"one path", "the flows with the UDP source ports", "ECMP chooses the path by the source port"},
		{"no CNP", "the capture has no CNP from it, although", "np_cnp_sent"},
		{"CNP unheeded", "did not slow down", "rp_cnp_handled"},
		{"not ECN-capable", "are Not-ECT", "ECT(0)"},
		{"other DSCP", "that DSCP is lossless here", "set its traffic class to that DSCP"},
		{"too many notifications", "CNPs come too often", "minimum interval"},
		{"receiver not ready", "had no receive posted", "post more receives"},
		{"retransmission storm", "(go-back-N)", "Look for drops"},
		{"timeout", "it waited", "Look for drops"},
		{"reordering", "none of them was lost", "spraying"},
		{"discarded", "no_buffer_space", "The queue was full"},
		{"wrong ICRC", "have a wrong ICRC", "Check the program or adapter"},
		{"MTU", "do not get through", "ping -M do -s"},
		{"path down", "became silent together", "a link that went down or a route that changed"},
		{"gave up", "transport retry counter exceeded", "queue pair on the receiver"},
		{"trimmed", "A switch trimmed", "Find the switch"},
		{"loss", "The lost packets", "Look for drops"},
		{"repeats", "the capture contains no answers", "Capture at a second point"},
		{"congestion", "had CE", "The queue is before this capture point"},
		{"refused", "That ends the connection.", "Check"},
		{"corrupt", "had a wrong ICRC", "CRC and symbol errors"},
		{"not captured", "acknowledged but not captured", "Reduce the load of the capture"},
	} {
		t.Run(row.cause, func(t *testing.T) {
			in := simulated(netsim.Make(7, row.cause))
			verdicts := explain(&in)
			requireEvidence(t, &in, verdicts)
			require.True(t, compareVerdicts(&in, verdicts).right, "%v", verdicts)
			found := false
			for _, v := range verdicts {
				if v.Cause.String() == row.cause {
					require.Contains(t, v.Text, row.text)
					found = found || strings.Contains(v.Next, row.next)
				}
			}
			require.True(t, found, "%v", verdicts)
		})
	}
}

// Package netsim shares no code with the code under test: it imports the standard library only.
func TestNetsimIsIndependent(t *testing.T) {
	files := wiretest.Must(filepath.Glob("netsim/*.go"))(t)
	require.NotEmpty(t, files)
	for _, file := range files {
		f := wiretest.Must(parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly))(t)
		for _, i := range f.Imports {
			require.NotContains(t, i.Path.Value, ".", file)
		}
	}
}
