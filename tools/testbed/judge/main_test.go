package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/message"
)

// The output of tc of iproute2 6.1 for a queue that has dropped and one that has marked.
func TestQueueCounts(t *testing.T) {
	const htb = "qdisc htb 1: root refcnt 2 r2q 10 default 0x2 direct_packets_stat 0 direct_qlen 1000\n" +
		" Sent 651909 bytes 635 pkt (dropped 7, overlimits 482 requeues 0) \n backlog 0b 0p requeues 0\n"
	drops, marks := queueCounts(htb + "qdisc red 10: parent 1:1 limit 1000000b min 5000b max 20000b ecn \n" +
		" Sent 648720 bytes 600 pkt (dropped 3, overlimits 400 requeues 0) \n backlog 0b 0p requeues 0\n" +
		"  marked 400 early 3 pdrop 0 other 0 \n")
	require.Equal(t, []int{3, 400}, []int{drops, marks})
	drops, marks = queueCounts(htb)
	require.Equal(t, []int{0, 0}, []int{drops, marks}, "no queue 10:")
}

// The output of perftest 4.5 for two queue pairs.
func TestPrintedPairs(t *testing.T) {
	require.Equal(t, map[[2]int]bool{{17, 35}: true, {35, 17}: true, {18, 36}: true, {36, 18}: true}, printedPairs(
		" local address: LID 0000 QPN 0x0011 PSN 0xf8c933 RKey 0x00028c VAddr 0x0055eec0c87710\n"+
			" GID: 253:00:00:01:00:00:00:00:00:00:00:00:00:00:00:01\n"+
			" local address: LID 0000 QPN 0x0012 PSN 0x7ce6a1 RKey 0x00028c VAddr 0x0055eec0c88a98\n"+
			" remote address: LID 0000 QPN 0x0023 PSN 0xc40c14 RKey 0x000423 VAddr 0x00564403965710\n"+
			" remote address: LID 0000 QPN 0x0024 PSN 0x8a866e RKey 0x000423 VAddr 0x00564403966a98\n"))
}

// Each thing that can be wrong is wrong.
func TestJudge(t *testing.T) {
	right := result{packets: 1, lost: 2, drops: 2, ce: 3, marks: 3, printed: true, pairs: 4, pairsRight: 4}
	require.NoError(t, right.judgeResult())
	for i, change := range []func(*result){
		func(r *result) { r.status = 1 },
		func(r *result) { r.packets = 0 },
		func(r *result) { r.lost++ },
		func(r *result) { r.ce-- },
		func(r *result) { r.added++ },
		func(r *result) { r.icrcWrong++ },
		func(r *result) { r.cut++ },
		func(r *result) { r.pairsRight-- },
		func(r *result) { r.pairsElse++ },
	} {
		r := right
		change(&r)
		require.Error(t, r.judgeResult(), i)
	}
}

// A case without the status of its client, as of a run that broke off, is not right.
func TestReadBrokenOff(t *testing.T) {
	folder := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, "queue.txt"), nil, 0o600))
	_, err := testCase{folder: folder}.readResult()
	require.Error(t, err)
}

// Captures of two senders become one, in the order of time; of a case that has none
// there is an error, and one that has its capture keeps it.
func TestMerge(t *testing.T) {
	folder := t.TempDir()
	write := func(name string, seconds ...int64) {
		var b bytes.Buffer
		w := wiretest.Must(capture.NewWriter(&b, capture.Ethernet, time.Nanosecond))(t)
		for _, s := range seconds {
			require.NoError(t, w.Write(&capture.Record{Data: []byte{byte(s)}, Time: time.Unix(s, 7)}))
		}
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), b.Bytes(), 0o600))
	}
	merged := func() (seconds []byte) {
		for r, err := range capture.File(filepath.Join(folder, "before.pcap")) {
			require.NoError(t, err)
			require.Equal(t, time.Unix(int64(r.Data[0]), 7).UTC(), r.Time)
			seconds = append(seconds, r.Data[0])
		}
		return seconds
	}
	require.ErrorIs(t, mergeResults(folder), os.ErrNotExist)
	write("before.sender.pcap", 1, 4, 5)
	write("before.sender2.pcap", 2, 3, 6)
	require.NoError(t, mergeResults(folder))
	require.Equal(t, []byte{1, 2, 3, 4, 5, 6}, merged())
	write("before.pcap", 9)
	require.NoError(t, mergeResults(folder))
	require.Equal(t, []byte{9}, merged())
}

// Four packets of 100 octets arrive 1 ms apart, and leave each 10 ms; the third is
// dropped and comes again. The fourth finds two, the repeat finds none. With the second
// there are 200 octets in the queue.
func TestQueue(t *testing.T) {
	data := func(ms int, psn uint32) packet {
		return packet{at: timeAt(ms), kind: message.KindData, id: packetID{psn: psn}, size: 100}
	}
	var q queueRun
	q.queueBegin([]packet{
		data(0, 1), data(1, 2), data(2, 3), data(3, 4),
		{at: timeAt(2), kind: message.KindCNP}, {at: timeAt(8), kind: message.KindCNP},
		{at: timeAt(9), kind: message.KindFastCNP},
		data(50, 3), {at: timeAt(70), kind: message.KindAck},
	}, []packet{
		data(10, 1), data(20, 2), data(30, 4), {at: timeAt(31), kind: message.KindAck}, data(60, 3),
	}, 200, time.Time{})
	require.Equal(t, queueRun{
		sent: 5, drops: 1, depths: []int{0, 100, 200, 0}, took: 70 * time.Millisecond,
		notifications: 3, congested: true, notified: true, news: time.Millisecond,
		deep: 49 * time.Millisecond,
	}, q)
}

// The load begins with the third packet of a queue pair, for any packet numbers. Earlier packets
// are in the queue, and are not measured.
func TestQueueBegins(t *testing.T) {
	last := uint32(0xFFFFFF)
	before := []packet{
		data(0, 7, last), data(1, 8, 5), {at: timeAt(2), kind: message.KindCNP}, data(3, 7, 0), data(10, 7, 1),
		{at: timeAt(12), kind: message.KindCNP}, {at: timeAt(40), kind: message.KindAck},
	}
	for i := range before {
		before[i].size = 100
	}
	begin := measurementBegin(before, 2)
	require.Equal(t, timeAt(10), begin)
	var q queueRun
	congested := q.queueBegin(before, []packet{data(9, 7, last), data(20, 8, 5), data(30, 7, 0), data(35, 7, 1)}, 200,
		begin)
	require.Equal(t, timeAt(10), congested)
	require.Equal(t, queueRun{
		sent: 1, depths: []int{200}, took: 30 * time.Millisecond,
		notifications: 1, congested: true, notified: true, news: 2 * time.Millisecond,
	}, q)
	require.Zero(t, measurementBegin(before, 3))
}

func TestQuantile(t *testing.T) {
	require.Equal(t, 0, quantile(nil, 50))
	require.Equal(t, 2, quantile([]int{3, 1, 2}, 50))
	require.Equal(t, 2, quantile([]int{3, 1, 2}, 99))
	require.Equal(t, 7, quantile([]int{7}, 99))
}

func timeAt(ms int) time.Time { return time.Unix(1, 0).Add(time.Duration(ms) * time.Millisecond) }

func data(ms int, qp, psn uint32) packet {
	return packet{at: timeAt(ms), kind: message.KindData, id: packetID{qp: qp, psn: psn}}
}

func answer(ms int, qp, psn uint32) packet {
	return packet{at: timeAt(ms), kind: message.KindAck, id: packetID{qp: qp, psn: psn}}
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
	ahead, within, ok := compareClocks(sender, beforeQueue, timeAt(30))
	require.Equal(t, []any{999 * time.Millisecond, 3 * time.Millisecond, true}, []any{ahead, within, ok})
	_, _, ok = compareClocks(sender, beforeQueue[:3], timeAt(30))
	require.False(t, ok, "nothing came back")
}

// fastcnp.pcap has Fast CNPs to 2001:db8:1::a, which tshark shows, and no CNP.
func TestNotified(t *testing.T) {
	pcap := wiretest.Must(os.ReadFile("../../../testdata/fastcnp.pcap"))(t)
	for _, row := range []struct{ name, want string }{
		{"", ""},
		{"2001:db8:1::a fastcnp\n", ""},
		{"2001:db8:1::a cnp\n", "2001:db8:1::a got no cnp"},
		{"2001:db8:1::a fastcnp\n::b fastcnp\n", "::b got no fastcnp"},
		{"2001:db8:1::a letter\n", `message: kind: "letter": want other, error, data, ack, cnp, ` +
			`fastcnp, ppfc, fcn, proxy, pfc, pause or unknown_option`},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := testCase{folder: t.TempDir()}
			require.NoError(t, os.WriteFile(filepath.Join(c.folder, "before.pcap"), pcap, 0o600))
			require.NoError(t, os.WriteFile(filepath.Join(c.folder, "told"), []byte(row.name), 0o600))
			err := c.checkNotified()
			if row.want == "" {
				require.NoError(t, err)
			} else {
				require.EqualError(t, err, row.want)
			}
		})
	}
}
