package lab

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/lab/sim"
	messages "github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/rocev2"
)

// A tap receives the arriving packets with correct octets, and changes nothing.
func TestTap(t *testing.T) {
	run := func(taps bool) (print uint64, seen map[string]int) {
		seen = map[string]int{}
		cfg := dcqcn(CNP)
		cfg.RED = RED{Min: 5000, Max: 20_000, Probability: 0.5}
		n := wiretest.Must(New(cfg))(t)
		s, receiver := n.Switch(), n.Host()
		at, from := n.Link(receiver, s, 10*sim.Gbps, sim.Microsecond)
		for range 3 {
			h := n.Host()
			n.Link(h, s, 10*sim.Gbps, sim.Microsecond)
			f := wiretest.Must(n.Flow(h, receiver, 0))(t)
			n.RunAt(0, func() { f.Post(100_000) })
		}
		if taps {
			var frame rocev2.Frame
			var m messages.Message
			for _, p := range []*Port{at, from} {
				p.Tap(func(octets []byte) {
					frame.Decode(octets, rocev2.DecodeOptions{})
					m.DecodeFrame(&frame, messages.Config{})
					seen[m.Kind.String()]++
				})
			}
		}
		n.Until(sim.Millisecond)
		return n.Print(), seen
	}
	with, seen := run(true)
	without, _ := run(false)
	require.Equal(t, without, with)
	require.Equal(t, 3*98, seen["data"], "of 1,024 octets: %v", seen)
	require.Positive(t, seen["cnp"])
	require.Positive(t, seen["ack"])
	require.Len(t, seen, 3, "%v", seen)
}
