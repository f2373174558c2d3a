package run

import (
	"testing"

	"github.com/rocecn/rocecn/filter"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/bpf"
)

// With filter = "pairs", a learner of real captures learns nearly all pairs, no wrong ones, and receives fewer
// packets.
func TestPairsFilter(t *testing.T) {
	raw, err := (&filter.Capture{Selection: filter.Pairs}).Program(rocev2.LinkEthernet)
	require.NoError(t, err)
	program, ok := bpf.Disassemble(raw)
	require.True(t, ok)
	vm, err := bpf.NewVM(program)
	require.NoError(t, err)
	for _, name := range []string{
		"real/nvme4.eth0.pcap.gz", "real/r6-loss2.eth0.pcap.gz", "real/write4-loss1.eth0.pcap.gz",
		"real/write4-red-ect.eth0.pcap.gz", "real/send4-reorder.eth0.pcap.gz", "real/w4-reddrop-q4.eth1.pcap.gz",
	} {
		all, some := qpmap.New(qpmap.Config{}), qpmap.New(qpmap.Config{})
		var packets, seen, known, knownToo int
		for _, c := range wiretest.Capture(t, name) {
			var f rocev2.Frame
			var p rocev2.Packet
			f.Decode(c.Data, rocev2.DecodeOptions{Cut: true})
			if f.Outer().Packet(&p) != nil {
				continue
			}
			now := c.Time
			packets++
			all.Observe(&p, 0, now)
			if verdict, err := vm.Run(c.Data); err == nil && verdict != 0 {
				seen++
				some.Observe(&p, 0, now)
			}
			k := qpmap.Key{FlowKey: rocev2.FlowKey{Src: p.Src, Dst: p.FinalDst(), DestQP: p.BTH.DestQP}}
			one, err := all.SourceQP(k, now)
			if err == nil {
				known++
			}
			other, wrong := some.SourceQP(k, now)
			if wrong == nil {
				knownToo++
			}
			if err == nil && wrong == nil {
				require.Equal(t, one.SrcQP, other.SrcQP, "%s %v", name, k)
			}
		}
		t.Logf("%s: sees %d of %d packets, knows %d of %d", name, seen, packets, knownToo, known)
		require.Positive(t, known, name)
		require.Greater(t, knownToo*100, known*96, name)
		require.Less(t, seen*10, packets*7, name)
	}
}
