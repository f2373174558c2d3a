package flows

import (
	"encoding/binary"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/internal/traffic"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/rocev2"
)

// In a scan of many flows, a million in a long run, between the packets of a few connections, evicted flows are counted
// and memory stays within its limit.
func TestScan(t *testing.T) {
	made := traffic.Generate(3, traffic.Options{Connections: 6})
	config := Config{MaxFlows: 1 << 14}
	table := New(config)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	scans := wiretest.RoundsOrLong(200_000, 1_000_000)
	var d Decoder
	var p Packet
	n := 0
	for i, f := range made.Frames {
		d.Decode(&p, f.Data, rocev2.DecodeOptions{})
		table.Observe(&p, uint64(i+1), f.Time)
		for until := scans * (i + 1) / len(made.Frames); n < until; n++ {
			source := netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, 0x0A000000+uint32(n))))
			p = Packet{kind: requestKind, pkt: observation{Opcode: bth.RCSendOnly, AckReq: true,
				Flow: keyOf(rocev2.FlowKey{Src: source, Dst: source.Next(), DestQP: uint32(n)})}}
			if n%2 == 0 {
				p.pkt.Opcode, p.pkt.SrcQP = bth.UDSendOnly, 7
			}
			if n%5 == 0 {
				p.kind, p.pkt.Opcode = answerKind, bth.RCAcknowledge
			}
			table.Observe(&p, 1, f.Time)
		}
	}
	runtime.GC() // count memory in use only
	runtime.ReadMemStats(&after)
	require.Less(t, int64(after.HeapAlloc)-int64(before.HeapAlloc), int64(36<<20))
	require.EqualValues(t, len(table.loadIDs), table.loads.countUsed())
	require.LessOrEqual(t, table.loads.countUsed(), table.evidences.countUsed())
	require.Positive(t, table.Evicted().Flows)
	packets := table.Evicted().Packets
	for _, f := range table.Snapshot().Flows {
		packets += f.Packets
		if f.Packets == 0 {
			continue // responses to the requests of the capture
		}
		if made.Flows[f.FlowKey] == nil && !isManagement(f.DestQP) {
			require.EqualValues(t, 1, f.Packets)
		}
	}
	acks := table.Evicted().ACKs
	for _, u := range table.Snapshot().Unpaired {
		acks += u.ACKs
	}
	for _, f := range table.Snapshot().Flows {
		acks += f.ACKs
	}
	requests, answers := uint64(scans*4/5), uint64(scans/5)
	for _, f := range made.Frames {
		if d.Decode(&p, f.Data, rocev2.DecodeOptions{}); p.kind == requestKind {
			requests++
		} else if p.kind == answerKind && p.pkt.Opcode.Operation() == bth.OpAcknowledge &&
			p.pkt.Syndrome.Type() == bth.SyndromeACK {
			answers++
		}
	}
	require.Equal(t, requests, packets, "every request is counted")
	require.Equal(t, answers, acks, "every answer is counted")
	require.LessOrEqual(t, table.streams.Len(), config.MaxFlows)
}

// Active connections are not evicted.
func TestScanLeavesConnections(t *testing.T) {
	s := newScript(t)
	s.Table = New(Config{MaxFlows: 4096})
	s.capture.sampling.recovered = 1000 // not a sample of the packets
	s.exchangeCM(7, 0, 1024)
	scan := uint32(wiretest.RoundsOrLong(500, 2000))
	for i := range uint32(100) {
		s.sendOnly(2 * i).answerACK(2 * i)
		for n := range scan {
			other := s.keyAB()
			other.Src[0], other.QP = 1, other.QP&^maxQP|(scan*i+n)
			s.observe(Packet{kind: requestKind, pkt: observation{Opcode: bth.RCSendOnly, Flow: other}})
		}
	}
	f := s.onlyFlow()
	require.EqualValues(t, 100, f.Packets)
	require.EqualValues(t, 100, f.ACKs)
	require.EqualValues(t, 99, f.PSN.Unseen)
	require.Positive(t, s.Evicted().Flows)
}

// Packets of an evicted flow that returns are not counted for another flow.
func TestEvictedFlowReturns(t *testing.T) {
	table := New(Config{MaxFlows: 16})
	random := uint32(1)
	for i := range wiretest.Rounds(20_000) {
		random = random*1664525 + 1013904223
		qp := random >> 8 % 64
		s := script{Table: table, a: netip.MustParseAddr("192.0.2.1"), b: netip.MustParseAddr("192.0.2.2"),
			qpA: 1000 + qp, qpB: 2000 + qp}
		s.frame, s.now = uint64(i), time.Unix(int64(i), 0)
		if i%3 == 0 {
			s.answerACK(uint32(i))
		} else {
			s.sendOnly(uint32(i))
		}
		for _, f := range table.Snapshot().Flows {
			if f.SrcQPFrom != 0 {
				require.Equal(t, f.DestQP-1000, f.SrcQP)
			}
		}
	}
	var table2 = New(Config{})
	require.Zero(t, table2.Evicted())
}

// Counts of trimmed packets and of responses are kept when their flow is evicted.
func TestEvictedCounts(t *testing.T) {
	s := newScript(t)
	s.Table = New(Config{MaxFlows: 4})
	s.exchangeCM(7, 10, 1024).sendRead(10, 4096).respond(10, 4, 0, 3, 1, 3)
	s.observe(Packet{kind: trimmedKind, pkt: observation{Opcode: bth.RCRDMAReadResponseMiddle, Flow: s.keyBA(),
		PSN: 12}})
	want := s.flowBA()
	require.Equal(t, ResponsePSN{Gaps: 1, Missing: 2, Late: 1, Retransmitted: 1}, want.Responses.PSN)
	for qp := range uint32(40) {
		s.qpB = 100 + qp
		s.sendOnly(1)
	}
	e := s.Evicted()
	require.EqualValues(t, 1, e.Trimmed)
	require.Equal(t, want.Responses.PSN, e.ResponsePSN)
	require.Equal(t, e, s.Changes().Evicted)
	require.Zero(t, s.Changes().Evicted.ResponsePSN)
}

// Each shard reports whether the whole capture has one direction only.
func TestOneWayShards(t *testing.T) {
	for _, answers := range []bool{false, true} {
		made := traffic.Generate(3, traffic.Options{Connections: 6})
		var d Decoder
		var packets []Packet
		for _, f := range made.Frames {
			var p Packet
			if d.Decode(&p, f.Data, rocev2.DecodeOptions{}); p.kind == requestKind && p.pkt.Flow.DestQP() > 1 ||
				answers && p.kind == answerKind {
				packets = append(packets, p)
			}
		}
		for shard := range 7 {
			table := New(Config{Shard: shard, Shards: 7})
			for i := range packets {
				table.Observe(&packets[i], uint64(i+1), time.Unix(1, int64(i)*1000))
			}
			require.Equal(t, !answers, table.Snapshot().Capture.OneWay, "shard %d", shard)
		}
	}
}

// The sum over all shards equals a single table.
func TestShards(t *testing.T) {
	for seed := range uint64(20) {
		made := traffic.Generate(seed, traffic.Options{Connections: 6, NoCM: seed%2 == 0})
		whole := tableOf(made, Config{}).Snapshot()
		var parts Snapshot
		for i := range 7 {
			part := tableOf(made, Config{Shard: i, Shards: 7}).Snapshot()
			parts.Flows = append(parts.Flows, part.Flows...)
			parts.Unpaired = append(parts.Unpaired, part.Unpaired...)
			parts.Links = append(parts.Links, part.Links...)
		}
		require.ElementsMatch(t, whole.Flows, parts.Flows)
		require.ElementsMatch(t, whole.Unpaired, parts.Unpaired)
		require.ElementsMatch(t, whole.Links, parts.Links)
	}
}

// The sum of all changes equals the last snapshot.
func TestSince(t *testing.T) {
	made := traffic.Generate(11, traffic.Options{Connections: 6})
	table := New(Config{})
	var d Decoder
	var p Packet
	old := table.Snapshot()
	type counts struct{ packets, octets, missing, repeats, acks, notices uint64 }
	sums := map[rocev2.FlowKey]counts{}
	add := func() {
		now := table.Snapshot()
		for _, f := range now.changesSince(old).Flows {
			c := sums[f.FlowKey]
			c.packets += f.Packets
			c.octets += f.IPOctets
			c.missing += f.PSN.Missing
			c.repeats += f.PSN.Retransmitted
			c.acks += f.ACKs
			c.notices += f.FastCNPs + f.PPFC + f.Proxy + f.Answers.CNPs
			sums[f.FlowKey] = c
		}
		old = now
	}
	for i, f := range made.Frames {
		d.Decode(&p, f.Data, rocev2.DecodeOptions{})
		table.Observe(&p, uint64(i+1), f.Time)
		if i%17 == 0 {
			add()
		}
	}
	add()
	require.Empty(t, table.Snapshot().changesSince(old).Flows)
	for _, f := range table.Snapshot().Flows {
		require.Equal(t, counts{f.Packets, f.IPOctets, f.PSN.Missing, f.PSN.Retransmitted, f.ACKs,
			f.FastCNPs + f.PPFC + f.Proxy + f.Answers.CNPs}, sums[f.FlowKey])
	}
}

// The trimmed and the discarded packets of a flow count as evicted with it.
func TestEvictedTrimmedAndDiscarded(t *testing.T) {
	s := newScript(t)
	s.pairFlow().sendOnly(99, 100).trim(101, 102).sendOnly(103).answerNAK(101)
	request := Packet{kind: requestKind, pkt: observation{Opcode: bth.RCSendOnly, Flow: s.keyAB(), PSN: 104}}
	for _, reason := range []string{"acl", "acl", "red"} {
		require.True(t, s.ObserveDiscard(&request, EgressQueue{Agent: s.a}, reason, s.now))
	}
	f := s.onlyFlow()
	require.Equal(t, []uint64{2, 1}, []uint64{f.Trimmed, f.TrimmedRecovered})
	k := s.keyAB()
	s.dropStream(s.findStream(&k).id)
	e := s.Evicted()
	require.Equal(t, []uint64{2, 1, 3}, []uint64{e.Trimmed, e.TrimmedRecovered, e.Discarded})
}

// Changes counts the packets of an evicted flow since the last call only.
func TestChangesOfEvicted(t *testing.T) {
	s := newScript(t)
	request := Packet{kind: requestKind, pkt: observation{Opcode: bth.RCSendOnly, Flow: s.keyAB(), PSN: 104}}
	discard := func(n int) {
		for range n {
			require.True(t, s.ObserveDiscard(&request, EgressQueue{Agent: s.a}, "acl", s.now))
		}
	}
	s.pairFlow().sendOnly(99, 100).trim(101, 102).sendOnly(103).answerNAK(101)
	discard(3)
	before := s.Changes().Flows
	require.Len(t, before, 1)
	require.Equal(t, []uint64{2, 1}, []uint64{before[0].Trimmed, before[0].TrimmedRecovered})
	s.trim(105).sendOnly(106).answerNAK(105)
	discard(2)
	packets := s.onlyFlow().Packets
	k := s.keyAB()
	s.dropStream(s.findStream(&k).id)
	e := s.Changes().Evicted
	require.Equal(t, []uint64{1, packets - before[0].Packets, 1, 1, 2},
		[]uint64{e.Flows, e.Packets, e.Trimmed, e.TrimmedRecovered, e.Discarded})
	require.Equal(t, packets, s.Evicted().Packets, "of the whole flow")
	require.EqualValues(t, 5, s.Evicted().Discarded)
	e = s.Changes().Evicted
	require.Zero(t, e.Flows+e.Packets+e.Trimmed+e.Discarded)
}
