package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/message"
)

func timeAt(ms int) time.Time { return time.Unix(1, 0).Add(time.Duration(ms) * time.Millisecond) }

func data(ms int, qp, psn uint32) packet {
	return packet{at: timeAt(ms), kind: message.Data, id: packetID{qp: qp, psn: psn}}
}

func answer(ms int, qp, psn uint32) packet {
	return packet{at: timeAt(ms), kind: message.Ack, id: packetID{qp: qp, psn: psn}}
}

// The log of the agent when it has learned a queue pair, is notified for it before the load begins
// and twice after that, and then for another one.
func TestReadCuts(t *testing.T) {
	begin := time.Date(2026, 11, 23, 16, 25, 11, 700e6, time.UTC)
	cuts, err := readCuts(`{"time":"2026-11-23T16:25:11.5Z","level":"INFO","msg":"decision","action":"learned","qp":53}
{"time":"2026-11-23T16:25:11.6Z","level":"INFO","msg":"decision","action":"accepted","qp":53,"rate_bps":1000000}
{"time":"2026-11-23T16:25:11.781000001Z","level":"INFO","msg":"decision","action":"accepted","qp":53,"rate_bps":1000000}
{"time":"2026-11-23T16:25:11.9Z","level":"INFO","msg":"decision","action":"accepted","qp":53,"rate_bps":500000}
{"time":"2026-11-23T16:25:12Z","level":"INFO","msg":"decision","action":"accepted","qp":54,"rate_bps":0}
`, begin)
	require.NoError(t, err)
	require.Equal(t, map[uint32]time.Time{
		53: time.Date(2026, 11, 23, 16, 25, 11, 781000001, time.UTC),
		54: time.Date(2026, 11, 23, 16, 25, 12, 0, time.UTC),
	}, cuts)
	_, err = readCuts("time=2026-11-23T16:25:11.5Z level=INFO\n", begin)
	require.Error(t, err)
}

// Of two queue pairs one is slowed down, in the middle of a message: its next one is the
// first that is slower.
func TestFirstSlower(t *testing.T) {
	first := func(ms int, qp, psn uint32) packet {
		p := data(ms, qp, psn)
		p.id.opcode = bth.RCRDMAWriteFirst
		return p
	}
	run := []packet{
		first(0, 7, 1), data(1, 7, 2), first(2, 8, 100), data(3, 8, 101), answer(20, 70, 2), answer(21, 80, 101),
		first(30, 7, 3), first(32, 8, 102), data(33, 7, 4), data(34, 8, 103), first(40, 8, 104), first(50, 7, 5),
	}
	cut := func(ms int) map[uint32]time.Time { return map[uint32]time.Time{70: timeAt(ms)} }
	slower, ok := firstSlower(run, cut(31))
	require.Equal(t, []any{timeAt(50), true}, []any{slower, ok})
	slower, _ = firstSlower(run, cut(29))
	require.Equal(t, timeAt(30), slower)
	_, ok = firstSlower(run, cut(50))
	require.False(t, ok, "slowed down when all was sent")
	_, ok = firstSlower(run, map[uint32]time.Time{71: timeAt(0)})
	require.False(t, ok, "another queue pair was")
}

// The switch's clock is 1 s ahead. Packets take 2 ms at least in one direction and 4 ms in
// the other, so that half of the difference is the mistake; and one that is too far away in
// time, when the clocks were others, does not count.
func TestClocks(t *testing.T) {
	sender := []packet{data(0, 7, 1), data(10, 7, 2), data(20, 7, 2), answer(54, 70, 1), data(3000, 7, 3)}
	beforeQueue := []packet{
		data(1005, 7, 1), data(1012, 7, 2), data(1023, 7, 2), answer(1050, 70, 1), data(3900, 7, 3),
	}
	ahead, within, ok := clocks(sender, beforeQueue, timeAt(30))
	require.Equal(t, []any{999 * time.Millisecond, 3 * time.Millisecond, true}, []any{ahead, within, ok})
	_, _, ok = clocks(sender, beforeQueue[:3], timeAt(30))
	require.False(t, ok, "nothing came back")
}
