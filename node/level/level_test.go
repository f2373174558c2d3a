package level

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOf(t *testing.T) {
	three := Thresholds{Up: []uint64{100, 200, 400}, Down: []uint64{50, 150, 300}}
	for _, c := range []struct {
		t     Thresholds
		queue uint64
		was   uint8
		want  uint8
	}{
		{three, 0, 0, 0},
		{three, 99, 0, 0},
		{three, 100, 0, 1},
		{three, 99, 1, 1}, // between Down and Up the level stays
		{three, 50, 1, 1},
		{three, 49, 1, 0},
		{three, 400, 0, 3}, // all the way in one step
		{three, math.MaxUint64, 0, 3},
		{three, 0, 3, 0},
		{three, 160, 3, 2},
		{three, 160, 1, 1},
		{three, 300, 3, 3},
		{three, 299, 3, 2},
		{three, 500, 200, 3}, // a level that there is not
		{three, 10, 200, 0},
		{Thresholds{}, 1000, 5, 0},
		{Thresholds{Up: []uint64{10}}, 10, 0, 1}, // without Down, Up serves
		{Thresholds{Up: []uint64{10}}, 9, 1, 0},
		{Thresholds{Up: []uint64{10}, Down: []uint64{20}}, 15, 1, 1}, // a Down above Up too
		{Thresholds{Up: []uint64{10}, Down: []uint64{20}}, 15, 0, 1},
		{Thresholds{Up: []uint64{0}}, 0, 0, 1},
		{three, 199, 1, 1}, // at every threshold, and next to it
		{three, 200, 1, 2},
		{three, 150, 2, 2},
		{three, 149, 2, 1},
		{three, 399, 2, 2},
		{three, 400, 2, 3},
		{three, 50, 3, 1},
		{Thresholds{Up: []uint64{10, 20}, Down: []uint64{5}}, 20, 2, 2}, // a Down that is shorter
		{Thresholds{Up: []uint64{10, 20}, Down: []uint64{5}}, 19, 2, 1},
		{Thresholds{Up: []uint64{10, 20}, Down: []uint64{5}}, 5, 1, 1},
		{Thresholds{Up: []uint64{10, 20}, Down: []uint64{5}}, 4, 2, 0},
		{Thresholds{Up: []uint64{10}, Down: []uint64{5, 1}}, 4, 1, 0}, // one that is longer
		{Thresholds{Up: []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9}}, 100, 0, 7},
		{Thresholds{Up: []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9}}, 100, 9, 7},
	} {
		require.Equal(t, c.want, c.t.Level(c.queue, c.was), "%+v", c)
	}
}

func TestMessages(t *testing.T) {
	for level, want := range [...]struct{ fcn, proxy uint8 }{{1, 0}, {1, 1}, {2, 2}, {3, 3}, {4, 4}, {5, 5}, {6, 6},
		{7, 7}, {7, 7}} {
		require.Equal(t, want.fcn, ToFCN(uint8(level)))
		require.Equal(t, want.proxy, ToProxy(uint8(level)))
	}
}

// A queue fills and drains.
func Example() {
	t := Thresholds{Up: []uint64{64 << 10, 256 << 10}, Down: []uint64{32 << 10, 128 << 10}}
	level := uint8(0)
	for _, kib := range []uint64{10, 70, 60, 300, 130, 40, 10} {
		level = t.Level(kib<<10, level)
		fmt.Print(level, " ")
	}
	// Output: 0 1 1 2 2 1 0
}
