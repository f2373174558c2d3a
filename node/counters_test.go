package node_test

import (
	"maps"
	"sync"
	"testing"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/node"
	"github.com/stretchr/testify/require"
)

// Each Decision is counted as what it is, once, and a mark beside that.
func TestCounters(t *testing.T) {
	var c, sum node.Counters
	for _, d := range []node.Decision{
		{}, // no say in it
		{Action: node.Sent, Kind: message.CNP},
		{Action: node.Sent, Kind: message.CNP, MarkECN: true},
		{Action: node.Sent, Kind: message.FastCNP},
		{Action: node.Marked, Reason: node.Limited, MarkECN: true},
		{Action: node.Forwarded},
		{Action: node.Forwarded, Reason: node.TableFull},
		{Action: node.Learned},
		{Action: node.Taken, Kind: message.PPFC},
		{Action: node.Dropped, Kind: message.FCN},
		{Action: node.Passed},
		{Reason: node.Limited, Kind: message.CNP},
	} {
		refused := d.Action == node.Nothing && d.Reason != node.Accepted
		c.Decided(&d)
		require.Equal(t, refused, d.Action == node.Refused)
		require.True(t, !refused || d.Kind == message.Other, "of a refusal nothing is sent")
	}
	c.Inc(node.Count{Action: node.Again})
	all := map[node.Count]uint64{
		{Action: node.Sent, Kind: message.CNP}: 2, {Action: node.Sent, Kind: message.FastCNP}: 1, {Action: node.Marked}: 2,
		{Action: node.Forwarded}: 1, {Action: node.Learned}: 1, {Action: node.Taken, Kind: message.PPFC}: 1,
		{Action: node.Dropped, Kind: message.FCN}: 1, {Action: node.Passed}: 1, {Action: node.Again}: 1,
		{Action: node.Refused, Reason: node.Limited}: 2, {Action: node.Refused, Reason: node.TableFull}: 1,
	}
	require.Equal(t, all, maps.Collect(c.All()))
	for count, n := range all {
		require.Equal(t, n, c.Of(count), count)
	}
	require.EqualValues(t, 3, c.Of(node.Count{Action: node.Sent}), "all kinds")
	require.EqualValues(t, 3, c.Of(node.Count{Action: node.Refused}), "all reasons")
	require.Zero(t, c.Of(node.Count{Action: 99, Kind: 99, Reason: 99}))
	require.Zero(t, c.Of(node.Count{Action: 99}))

	sum.Add(&c)
	sum.Add(&c)
	for count, n := range all {
		require.Equal(t, 2*n, sum.Of(count), count)
	}
	for range c.All() {
		break
	}
	d := node.Decision{Action: node.Sent, Kind: message.CNP}
	wiretest.NoAllocs(t, "Decided", func() { c.Decided(&d) })
}

func TestCountPrints(t *testing.T) {
	for count, want := range map[node.Count]string{
		{}: "nothing", {Action: node.Sent, Kind: message.FastCNP}: "sent_fastcnp", {Action: node.Marked}: "marked",
		{Action: node.Refused, Reason: node.UnknownQP}: "refused_unknown_qp", {Action: node.FellBack}: "fell_back",
	} {
		require.Equal(t, want, count.String())
	}
	for a := node.Nothing; a <= node.NotECNCapable; a++ {
		text, err := a.MarshalText()
		require.NoError(t, err)
		got := a + 1
		require.NoError(t, got.UnmarshalText(text))
		require.Equal(t, a, got)
	}
	a := node.Sent
	require.Error(t, a.UnmarshalText([]byte("sold")))
	require.Equal(t, "Action(20)", (node.NotECNCapable + 1).String())
}

// Counters are read, and added up, while others count: for the race detector.
func TestCountersAreReadMeanwhile(t *testing.T) {
	var c, sum node.Counters
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for range 1000 {
				c.Decided(&node.Decision{Reason: node.Limited})
			}
		})
	}
	for before := uint64(0); before < 2000; {
		n := c.Of(node.Count{Action: node.Refused})
		require.GreaterOrEqual(t, n, before)
		before = n
		sum.Add(&c)
		for _, n := range c.All() {
			require.LessOrEqual(t, n, uint64(2000))
		}
	}
	wg.Wait()
	require.EqualValues(t, 2000, c.Of(node.Count{Action: node.Refused, Reason: node.Limited}))
}
