package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
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
	require.NoError(t, right.judge())
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
		require.Error(t, r.judge(), i)
	}
}

// A case without the status of its client, as of a run that broke off, is not right.
func TestReadBrokenOff(t *testing.T) {
	folder := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, "queue.txt"), nil, 0o600))
	_, err := testCase{folder: folder}.read()
	require.Error(t, err)
}
