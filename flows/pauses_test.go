package flows

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// observeXOFF gives a table a frame that pauses one priority for these quanta.
func observeXOFF(table *Table, frame uint64, at time.Duration, priority int, quanta uint16) {
	p := Packet{kind: pfcKind, pause: pause{mac: [6]byte{2}, enabled: 1 << priority}}
	p.pause.quanta[priority] = quanta
	table.Observe(&p, frame, time.Unix(1, 0).Add(at))
}

// A pause lasts from its first XOFF until the XON, or until the quanta have passed; their sum is
// the time that the priority was paused.
func TestPauses(t *testing.T) {
	table := New(Config{Series: true, LinkRate: 512_000_000}) // a quantum is 1 µs
	const µs = time.Microsecond
	observeXOFF(table, 1, 0, 3, 100)
	observeXOFF(table, 2, 50*µs, 3, 100) // continues to 150
	observeXOFF(table, 3, 200*µs, 3, 10)
	observeXOFF(table, 4, 203*µs, 3, 0)
	observeXOFF(table, 5, 203*µs, 5, 1000)
	observeXOFF(table, 6, 300*µs, 3, 0) // nothing was paused
	at := func(d time.Duration) time.Time { return time.Unix(1, 0).Add(d).UTC() }
	src := table.Snapshot().Links[0].Src
	want := []Pause{
		{src, 3, at(0), at(150 * µs), 150 * µs, 2, 1},
		{src, 3, at(200 * µs), at(203 * µs), 3 * µs, 1, 3},
		{src, 5, at(203 * µs), at(300 * µs), 97 * µs, 1, 5}, // until the last packet
	}
	require.Equal(t, want, table.Pauses())
	require.Equal(t, want, table.Pauses(), "a second call has the same result")

	whole := Packet{kind: pfcKind, pause: pause{mac: [6]byte{1}, whole: true, quanta: [8]uint16{7}}}
	table.Observe(&whole, 7, at(400*µs))
	table.Observe(&Packet{}, 8, at(500*µs))
	all := table.Pauses()
	require.Equal(t, Pause{[]byte{1, 0, 0, 0, 0, 0}, AllPriorities, at(400 * µs), at(407 * µs), 7 * µs, 1, 7}, all[0])
	require.Len(t, all, 4)
	require.Equal(t, at(500*µs), all[3].To)

	off := New(Config{})
	observeXOFF(off, 1, 0, 3, 100)
	require.Empty(t, off.Pauses())
}

// Beyond the limit, adjacent pauses are merged, except for the first ones.
func TestPausesAreBounded(t *testing.T) {
	table := New(Config{Series: true, LinkRate: 512_000_000})
	const n = 20_000
	for i := range uint64(n) {
		at := time.Duration(i) * 100 * time.Microsecond
		if i >= n/2 {
			at += time.Second // a long interruption
		}
		observeXOFF(table, i+1, at, 3, 40)
	}
	table.Observe(&Packet{}, n+1, time.Unix(10, 0))
	all := table.Pauses()
	require.LessOrEqual(t, len(all), maxPauses)
	require.Greater(t, len(all), exactPauses+exactPauses/4)
	var paused time.Duration
	var xoffs uint64
	for i, p := range all {
		paused, xoffs = paused+p.Paused, xoffs+p.XOFF
		if i < exactPauses {
			require.Equal(t, []any{uint64(1), 40 * time.Microsecond}, []any{p.XOFF, p.To.Sub(p.From)})
			require.EqualValues(t, i+1, p.Frame)
		}
		require.Less(t, p.To.Sub(p.From), 20*time.Millisecond)
		require.True(t, i == 0 || p.From.After(all[i-1].To))
	}
	require.Equal(t, table.Snapshot().Links[0].Priorities[3].Paused, paused)
	require.EqualValues(t, n, xoffs)

	table = New(Config{Series: true})
	for i := range maxPauseLists + 10 {
		p := pause{mac: [6]byte{2, byte(i >> 8), byte(i)}, whole: true, quanta: [8]uint16{7}}
		table.Observe(&Packet{kind: pfcKind, pause: p}, 1, time.Unix(1, 0))
	}
	require.Len(t, table.Pauses(), maxPauseLists)
}
