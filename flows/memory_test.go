package flows

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// A connection has two flows, one in each direction, of at most 1.5 KB each, with everything that is needed to pair
// them: in turns, so that none is paired before all have begun.
func TestMemoryOfConnections(t *testing.T) {
	const n, most = 10_000, 2 * 1536
	c := newConnections(n)
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC() // of objects that finalizers kept
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	table := New(Config{Seed: 1})
	for range 4 {
		for i := range n {
			c.send(i, table)
		}
	}
	table.processWaiting()
	used := heap() - before
	k, _ := c.keyOf(n - 1)
	require.NotZero(t, table.findStream(&k).pairing.srcQPBy)
	require.LessOrEqual(t, int(used/n), most)
}
