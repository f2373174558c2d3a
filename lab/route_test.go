package lab

import (
	"context"
	"testing"

	"github.com/rocecn/rocecn/lab/sim"
	"github.com/stretchr/testify/require"
)

// ends is a context that has ended when it was asked so many times.
type ends struct {
	context.Context
	left int
}

func (c *ends) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

// An interrupt during the computation of paths or the creation of roles takes effect at the next node; running the
// network again gives the same run.
func TestInterruptedRoute(t *testing.T) {
	build := func() *Network {
		n, _ := incast(dcqcn(FastCNP), 8, 100*sim.Gbps, µs)
		return n
	}
	want := build()
	want.Until(100 * µs)
	const places = 9 + 1 + 9 + 1 // hosts and switches, twice
	for asked := range places {
		n := build()
		require.ErrorIs(t, n.Run(&ends{t.Context(), asked}, 100*µs, nil), context.Canceled)
		require.Zero(t, n.Sim.Events(), "%d", asked)
		require.NoError(t, n.Check())
		require.NoError(t, n.Run(t.Context(), 100*µs, nil))
		require.Equal(t, want.Print(), n.Print(), "%d", asked)
	}
	n := build()
	require.ErrorIs(t, n.Run(&ends{t.Context(), places + 1}, sim.Second, nil), context.Canceled)
	require.EqualValues(t, 100_000, n.Sim.Events(), "events between two looks at the context")
}

// A flow needs hosts with links.
func TestFlowWithoutLink(t *testing.T) {
	n := must(New(dcqcn(CNP)))
	a, b, s := n.Host(), n.Host(), n.Switch()
	n.Link(a, s, sim.Gbps, 0)
	_, err := n.Flow(a, b, 0)
	require.ErrorIs(t, err, errLink)
	_, err = n.Flow(b, a, sim.Gbps)
	require.ErrorIs(t, err, errLink)
}
