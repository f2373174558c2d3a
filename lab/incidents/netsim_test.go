package incidents

import (
	"math/rand/v2"
	"testing"

	"github.com/rocecn/rocecn/flows/triage"
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
	made := netsim.Make(r.Uint64(), chosen...)
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
