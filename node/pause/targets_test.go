package pause

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
)

// Targets that differ have keys that differ: a flow and a port of the same number,
// an IPv4 address and the IPv6 address that maps it.
func TestKeys(t *testing.T) {
	four, mapped := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("::ffff:192.0.2.1")
	keys := map[key]Target{}
	for _, target := range []Target{
		FlowTarget(four, 7), FlowTarget(four, 8), FlowTarget(mapped, 7),
		FlowTarget(netip.MustParseAddr("192.0.2.2"), 7), FlowTarget(four, 0xFFFFFF),
		PortTarget(four, 7), PortTarget(four, 8), PortTarget(mapped, 7), PortTarget(four, 0xFFFF), FlowTarget(four, 0),
		PortTarget(four, 0),
	} {
		k := keyOf(&target)
		require.NotContains(t, keys, k, "%+v", target)
		keys[k] = target
		again := keyOf(&target)
		require.Equal(t, k, again)
	}
}

// The state that ends first is that of the target at the top, whichever comes,
// goes or changes.
func TestHeap(t *testing.T) {
	table := newTargets(16)
	k := func(n int) *key { return &key{id: uint32(n)} }
	for step := range 2000 {
		n, until := step*step*7%23, int64(1+step*step*31%97)
		switch step % 5 {
		case 0, 1, 2:
			table.setState(k(n), StateStopped+State(step%endingStates), until)
		case 3:
			table.clearState(k(n), StateStopped+State(step%endingStates))
		default:
			table.clearAll(k(n))
		}
		for at := 2; at < len(table.heap); at++ {
			require.LessOrEqual(t, table.endOf(uint32(at/2)), table.endOf(uint32(at)), "step %d", step)
			require.EqualValues(t, at, table.entries.Value(table.heap[at]).at)
		}
		require.Equal(t, table.entries.Len(), len(table.heap)-1)
		first, ok := table.nextEnd()
		require.Equal(t, len(table.heap) > 1, ok)
		if ok {
			require.Equal(t, table.endOf(1), first)
		}
	}
}

// A full table evicts the target with the state that ends first.
func TestMakesRoom(t *testing.T) {
	table := newTargets(3)
	for n, until := range []int64{30, 20, 10, 40, 50} {
		require.Equal(t, n >= 3, table.setState(&key{id: uint32(n)}, StateStopped, until))
	}
	for n, want := range []bool{true, false, false, true, true} {
		e, _ := table.find(&key{id: uint32(n)})
		require.Equal(t, want, e != nil, n)
	}
}
