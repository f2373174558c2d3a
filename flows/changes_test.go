package flows

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/internal/traffic"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/rocev2"
)

// Changes returns the difference of two snapshots.
func TestChanges(t *testing.T) {
	for seed := range uint64(wiretest.Rounds(30)) {
		made := traffic.Generate(seed, traffic.Options{Connections: 6, NoCM: seed%2 == 0})
		table := New(Config{})
		var d Decoder
		var p Packet
		var old *Snapshot
		step := int(seed*seed%97 + 1)
		for i, f := range made.Frames {
			d.Decode(&p, f.Data, rocev2.DecodeOptions{})
			table.Observe(&p, uint64(i+1), f.Time)
			if i%step != 0 && i != len(made.Frames)-1 {
				continue
			}
			now := table.Snapshot()
			want := now
			if old != nil {
				want = now.changesSince(old)
			} else {
				want = now.changesSince(&Snapshot{})
			}
			got := table.Changes()
			require.Equal(t, want.Flows, got.Flows, "seed %d, frame %d", seed, i+1)
			require.Equal(t, want.Unpaired, got.Unpaired, "seed %d, frame %d", seed, i+1)
			require.Equal(t, want.Links, got.Links)
			require.Equal(t, want.Evicted, got.Evicted)
			old = now
		}
		require.Equal(t, &Snapshot{Stats: table.Stats()}, table.Changes())
	}
}

// A flow counts each response and each trimmed packet in one interval, also if its first request comes
// after its responses.
func TestChangesOfResponses(t *testing.T) {
	s := newScript(t)
	next := func() Flow {
		s.now = s.now.Add(time.Second)
		all := s.Changes().Flows
		require.Len(t, all, 1)
		return all[0]
	}
	first := timeOf(s.now.UnixNano())
	s.answerOp(bth.RCRDMAReadResponseMiddle, 0, 1, 2, 3)
	f := next()
	require.Equal(t, []uint64{0, 3, 3}, []uint64{f.Packets, f.Responses.Packets, f.Data.Packets})
	s.observe(Packet{kind: requestKind, pkt: observation{Opcode: bth.RCSendOnly, Flow: s.keyBA(), PSN: 9}})
	f = next()
	require.Equal(t, []uint64{1, 0, 1}, []uint64{f.Packets, f.Responses.Packets, f.Data.Packets})
	require.Equal(t, first, f.First)
	s.observe(Packet{kind: trimmedKind, pkt: observation{Opcode: bth.RCSendOnly, Flow: s.keyBA(), PSN: 10}})
	f = next()
	require.Equal(t, []uint64{0, 0, 1}, []uint64{f.Packets, f.Data.Packets, f.Trimmed})
}

// The time of Changes depends on the number of changed flows, and its memory on the limit.
func TestChangesCost(t *testing.T) {
	const n = 1000
	table := New(Config{MaxFlows: n})
	s := newScript(t)
	now := s.now
	observe := func(qp uint32) {
		p := Packet{kind: requestKind, pkt: observation{Opcode: bth.RCSendOnly, Flow: s.keyAB()}}
		p.pkt.Flow.QP = qp
		now = now.Add(time.Microsecond)
		table.Observe(&p, 1, now)
	}
	for qp := range uint32(n) {
		observe(qp + 2)
	}
	require.Len(t, table.Changes().Flows, n)
	observe(7)
	observe(7)
	require.Len(t, table.changes.touched, 1)
	changed := table.Changes().Flows
	require.Len(t, changed, 1)
	require.EqualValues(t, 2, changed[0].Packets)
	require.EqualValues(t, 7, changed[0].DestQP)
	for qp := range uint32(20 * n) { // all except the last ones are evicted
		observe(qp + 2*n)
		require.LessOrEqual(t, len(table.changes.touched), 64+2*n+1)
	}
	out := table.Changes()
	require.Len(t, out.Flows, n)
	require.EqualValues(t, 20*n, out.Evicted.Flows)
	require.LessOrEqual(t, len(table.changes.before), n+1)
}

// A message that names a flow without requests is counted once, for its sender, even if that also
// sent other packets.
func TestUnpairedOnce(t *testing.T) {
	src, dst := netip.MustParseAddr("2001:db8::5"), netip.MustParseAddr("2001:db8::1")
	from := keyOf(rocev2.FlowKey{Src: src, Dst: dst, DestQP: 9})
	table := New(Config{})
	at := time.Unix(100, 0)
	for _, other := range []string{"2001:db8::2", "2001:db8::3"} { // two flows
		about := keyOf(rocev2.FlowKey{Src: dst, Dst: netip.MustParseAddr(other), DestQP: 9})
		table.Observe(&Packet{kind: fastKind, pkt: observation{Opcode: bth.CNP, Flow: from}, about: about}, 1, at)
	}
	table.Observe(&Packet{kind: cnpKind, pkt: observation{Opcode: bth.CNP, Flow: from}}, 2,
		at) // and one without a flow
	all := table.Snapshot()
	require.Len(t, all.Unpaired, 1)
	require.EqualValues(t, 2, all.Unpaired[0].FastCNPs)
	require.EqualValues(t, 1, all.Unpaired[0].CNPs)
	require.True(t, all.Unpaired[0].WithQP)
	require.Empty(t, all.changesSince(all).Unpaired)
	require.Equal(t, all.Unpaired, table.Changes().Unpaired)
	require.Empty(t, table.Changes().Unpaired)
}

// Times before 1970 and after 2242 count as 1970, so that differences fit.
func TestTimeRange(t *testing.T) {
	for _, c := range []struct {
		year int
		want bool
	}{
		{1, false}, {1700, false}, {1969, false}, {1970, true}, {2026, true}, {2242, true}, {2243, false},
		{9999, false}, {500000, false},
	} {
		t.Run(fmt.Sprint(c.year), func(t *testing.T) {
			at := time.Date(c.year, 3, 1, 0, 0, 0, 7, time.UTC)
			require.Equal(t, c.want, unixNano(at) == at.UnixNano() && unixNano(at) != 0, c.year)
			if !c.want {
				require.Zero(t, unixNano(at), c.year)
			}
		})
	}
	require.EqualValues(t, 7, unixNano(time.Unix(0, 7)))
	require.EqualValues(t, (1<<33-1)*1e9, unixNano(time.Unix(1<<33-1, 0)))
	require.Zero(t, unixNano(time.Unix(1<<33, 0)))
}

// Counts of the capture, and the first report of discarded packets, are those of the interval.
func TestChangesOfCapture(t *testing.T) {
	s := newScript(t)
	queue := EgressQueue{Agent: netip.MustParseAddr("192.0.2.250")}
	request := Packet{kind: requestKind, pkt: observation{Opcode: bth.RCSendOnly, Flow: s.keyAB(), PSN: 1}}
	next := func(trims int, reasons ...string) (got Capture, of []Discards) {
		for range trims {
			s.trim(5)
		}
		for _, reason := range reasons {
			s.now = s.now.Add(time.Second)
			require.True(t, s.ObserveDiscard(&request, queue, reason, s.now))
		}
		s.Observe(&Packet{unread: unreadGRE}, 1, s.now)
		changed := s.Changes()
		for i := range changed.Flows {
			of = append(of, changed.Flows[i].Discards...)
		}
		return changed.Capture, of
	}
	begun := s.now
	got, of := next(2, "acl", "acl")
	require.Equal(t, Capture{Trimmed: 2, Discarded: map[string]uint64{"acl": 2},
		Unread: map[string]uint64{"gre 0x0000": 1}}, got)
	require.Equal(t, []Discards{{queue, "acl", 2, begun.Add(time.Second), begun.Add(2 * time.Second)}}, of)
	got, of = next(1, "red", "acl")
	require.Equal(t, Capture{Trimmed: 1, Discarded: map[string]uint64{"acl": 1, "red": 1},
		Unread: map[string]uint64{"gre 0x0000": 1}}, got)
	require.ElementsMatch(t, []Discards{{queue, "red", 1, begun.Add(3 * time.Second), begun.Add(3 * time.Second)},
		{queue, "acl", 1, begun.Add(4 * time.Second), begun.Add(4 * time.Second)}}, of)
	require.Equal(t, begun.Add(time.Second), s.onlyFlow().Discards[0].First, "of the whole flow")
	got, of = next(0)
	require.Equal(t, Capture{Unread: map[string]uint64{"gre 0x0000": 1}}, got)
	require.Empty(t, of)
}
