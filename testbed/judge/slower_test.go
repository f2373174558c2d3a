package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/message"
)

func at(ms int) time.Time { return time.Unix(1, 0).Add(time.Duration(ms) * time.Millisecond) }

func data(ms int, qp, psn uint32) packet {
	return packet{at: at(ms), kind: message.Data, id: packetID{qp: qp, psn: psn}}
}

func answer(ms int, qp, psn uint32, nak bool) packet {
	return packet{at: at(ms), kind: message.Ack, id: packetID{qp: qp, psn: psn}, nak: nak}
}

// What the agent logs when it has learned a queue pair, is told of it twice, and then of
// another one.
func TestReadCuts(t *testing.T) {
	cuts, err := readCuts(`{"time":"2026-11-23T16:25:11.5Z","level":"INFO","msg":"decision","action":"learned","qp":53}
{"time":"2026-11-23T16:25:11.781000001Z","level":"INFO","msg":"decision","action":"accepted","qp":53,"rate_bps":1000000}
{"time":"2026-11-23T16:25:11.9Z","level":"INFO","msg":"decision","action":"accepted","qp":53,"rate_bps":500000}
{"time":"2026-11-23T16:25:12Z","level":"INFO","msg":"decision","action":"accepted","qp":54,"rate_bps":0}
`)
	require.NoError(t, err)
	require.Equal(t, map[uint32]time.Time{
		53: time.Date(2026, 11, 23, 16, 25, 11, 781000001, time.UTC),
		54: time.Date(2026, 11, 23, 16, 25, 12, 0, time.UTC),
	}, cuts)
	_, err = readCuts("time=2026-11-23T16:25:11.5Z level=INFO\n")
	require.Error(t, err)
}

// A queue pair has three packets on its way at most; packet numbers begin anew after
// 0xFFFFFF. It is slowed down when it has sent four, and the first answer has come, which
// allowed the fourth: the fifth is the first that is slower.
func TestFirstSlower(t *testing.T) {
	const last = 0xFFFFFF
	run := []packet{
		data(0, 7, last-1), data(1, 7, last), data(2, 7, 0), answer(20, 70, last-1, false), data(21, 7, 1),
		answer(40, 70, last, false), data(42, 7, 2), answer(41, 70, 0, false), data(43, 7, 3),
	}
	cut := func(ms int) map[uint32]time.Time { return map[uint32]time.Time{70: at(ms)} }
	first, ok := firstSlower(run, cut(30), 3)
	require.Equal(t, []any{at(42), true}, []any{first, ok})
	first, _ = firstSlower(run, cut(10), 3) // the fourth
	require.Equal(t, at(21), first)
	_, ok = firstSlower(run, cut(50), 3)
	require.False(t, ok, "slowed down when all was sent")
	_, ok = firstSlower(run, map[uint32]time.Time{71: at(0)}, 3)
	require.False(t, ok, "another queue pair was")

	// Of repeats those count that were asked for after that, and not the others.
	run = []packet{
		data(0, 7, 1), data(1, 7, 2), answer(10, 70, 1, false), data(11, 7, 3),
		answer(20, 70, 2, true), data(31, 7, 2), data(32, 7, 3),
	}
	first, ok = firstSlower(run, cut(15), 3)
	require.Equal(t, []any{at(31), true}, []any{first, ok})
	_, ok = firstSlower(run, cut(30), 3)
	require.False(t, ok)
}

// The switch's clock is 1 s ahead. Packets take 2 ms at least in one direction and 4 ms in
// the other, so that half of the difference is the mistake; and one that is too far away in
// time, when the clocks were others, does not count.
func TestClocks(t *testing.T) {
	sender := []packet{data(0, 7, 1), data(10, 7, 2), data(20, 7, 2), answer(54, 70, 1, false), data(3000, 7, 3)}
	beforeQueue := []packet{
		data(1005, 7, 1), data(1012, 7, 2), data(1023, 7, 2), answer(1050, 70, 1, false), data(3900, 7, 3),
	}
	ahead, within, ok := clocks(sender, beforeQueue, at(30))
	require.Equal(t, []any{999 * time.Millisecond, 3 * time.Millisecond, true}, []any{ahead, within, ok})
	_, _, ok = clocks(sender, beforeQueue[:3], at(30))
	require.False(t, ok, "nothing came back")
}
