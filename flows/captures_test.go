package flows

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
)

// observeFile returns a table with the packets of a capture.
func observeFile(t testing.TB, name string) *Table {
	t.Helper()
	table := New(Config{})
	var d Decoder
	var p Packet
	for _, r := range wiretest.Capture(t, name) {
		d.Decode(&p, r.Data, rocev2.DecodeOptions{AllowTruncated: len(r.Data) < r.OrigLen})
		table.Observe(&p, uint64(r.Number), r.Time)
	}
	return table
}

func TestCaptures(t *testing.T) {
	for _, c := range []struct {
		name    string
		repeats uint64
	}{
		{"rxe-perf4.pcap", 0}, {"rxe-rping6.pcap", 0}, {"rxe-vlan4.pcap", 0}, {"rxe-ucmatose4.pcap", 0},
		{"rxe-verbs6.pcap", 3}, {"rxe-udaddy6.pcap", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			table := observeFile(t, c.name)
			var sum PSN
			for _, f := range table.Snapshot().Flows {
				t.Logf("%s %v %v src %d %v: %d packets, %+v %+v acks %d rnr %d mtu %d %v wrong %d", c.name, f.FlowKey,
					f.Transport, f.SrcQP, f.SrcQPFrom, f.Packets, f.PSN, f.Causes, f.ACKs, f.RNRNAKs, f.MTU, f.messages,
					f.ICRCWrong)
				if f.RTT != nil {
					t.Log(f.RTT.Count(), f.RTT.Min(), f.RTT.Percentile(.5), f.RTT.Percentile(.99))
				}
				sum.Gaps += f.PSN.Gaps
				sum.Missing += f.PSN.Missing
				sum.Retransmitted += f.PSN.Retransmitted
			}
			for _, u := range table.Snapshot().Unpaired {
				t.Logf("%s unpaired %v: %+v", c.name, u.FlowKey, u.Answers)
			}
			require.Equal(t, PSN{Retransmitted: c.repeats}, sum)
		})
	}
}

// Pairs learned from PSNs are the same as those learned from connection management.
func TestLearningWithoutCM(t *testing.T) {
	for _, name := range []string{"rxe-ucmatose4.pcap", "rxe-rping6.pcap"} {
		with, without := observeFile(t, name), New(Config{})
		var d Decoder
		var p Packet
		for _, r := range wiretest.Capture(t, name) {
			if d.Decode(&p, r.Data, rocev2.DecodeOptions{}); p.pkt.CM.Attribute == 0 {
				without.Observe(&p, uint64(r.Number), r.Time)
			}
		}
		want := map[rocev2.FlowKey]uint32{}
		for _, f := range with.Snapshot().Flows {
			if f.Sequenced {
				require.Equal(t, qpmap.BasisCM, f.SrcQPFrom, name)
				want[f.FlowKey] = f.SrcQP
			}
		}
		require.NotEmpty(t, want)
		for _, f := range without.Snapshot().Flows {
			if f.Sequenced {
				require.Equal(t, qpmap.BasisVotes, f.SrcQPFrom, name)
				require.Equal(t, want[f.FlowKey], f.SrcQP, name)
				delete(want, f.FlowKey)
			}
		}
		require.Empty(t, want)
	}
}
