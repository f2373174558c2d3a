package flows

import (
	"maps"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/rocev2"
)

// Each count that is trouble adds to Trouble once, and no other does.
func TestTrouble(t *testing.T) {
	const none = 1 << 20
	f := Flow{
		Requests: Requests{Packets: none, IPOctets: none, Truncated: none, ECN: [4]uint64{none, none, none, none},
			ICRCWrong: 2},
		Responses: Responses{Packets: none, ECN: [4]uint64{none, none, none, none}, PSN: ResponsePSN{Gaps: none,
			Missing: none + 1<<18, Late: none, Copies: none, Retransmitted: 1 << 19}, ICRCWrong: 1 << 20},
		Data: Data{Packets: none, CE: 1},
		PSN: PSN{Connections: none, Gaps: none, Missing: none, Late: none, Copies: none, Retransmitted: 4, Unseen: 8,
			Lost:     16,
			Unjudged: 32},
		Answers: Answers{ACKs: none, naks: [5]uint64{64, 128, 256, 512, 1024}, RNRNAKs: 2048, CNPs: 4096,
			FastCNPs: 8192,
			PPFC:     16384,
			FCN:      32768, Proxy: 65536},
	}
	require.EqualValues(t, 1<<17-1+1<<18+1<<19+1<<20, f.Trouble())
	require.EqualValues(t, 56, f.PSN.NeverSeen())
	require.EqualValues(t, none+1<<17-1-1-2-4-56, f.Total())
}

// newFlow returns a flow with counts that are different multiples of n.
func newFlow(n uint64) Flow {
	f := Flow{
		FlowKey: rocev2.FlowKey{Src: netip.MustParseAddr("192.0.2.1"), Dst: netip.MustParseAddr("192.0.2.2"),
			DestQP: 17},
		First: time.Unix(1, 0), Last: time.Unix(2, int64(n)), Spacing: -1,
		Requests: Requests{Packets: n, IPOctets: 2 * n, PayloadOctets: 3 * n, ICRCWrong: 4 * n, Truncated: 5 * n,
			ECN: [4]uint64{6 * n, 7 * n, 8 * n, 9 * n}},
		Responses: Responses{Packets: 60 * n, IPOctets: 61 * n, PayloadOctets: 62 * n, ICRCWrong: 63 * n,
			Truncated: 64 * n, ECN: [4]uint64{65 * n, 66 * n, 67 * n, 68 * n},
			PSN: ResponsePSN{Gaps: 69 * n, Missing: 70 * n, Late: 71 * n, Retransmitted: 72 * n, Copies: 73 * n}},
		Data: Data{Packets: 74 * n, IPOctets: 75 * n, PayloadOctets: 76 * n, CE: 77 * n},
		PSN: PSN{Gaps: 10 * n, Missing: 11 * n, Late: 12 * n, Retransmitted: 13 * n, Copies: 14 * n, Unseen: 15 * n,
			Lost:     16 * n,
			Unjudged: 17 * n},
		Causes:  Retransmissions{NAK: 18 * n, RNR: 19 * n, Read: 20 * n, Timeout: 21 * n},
		Answers: answersOf(n),
	}
	for kind := range f.messages {
		f.messages[kind] = Messages{Begun: uint64(40+kind) * n, Complete: uint64(50+kind) * n}
	}
	return f
}

func answersOf(n uint64) Answers {
	return Answers{ACKs: 22 * n, naks: [5]uint64{23 * n, 24 * n, 25 * n, 26 * n, 27 * n}, RNRNAKs: 28 * n, CNPs: 29 * n,
		FastCNPs: 30 * n,
		PPFC:     31 * n, FCN: 32 * n, Proxy: 33 * n}
}

// Changes are the difference of each count, or 0 if it fell.
func TestSinceCounters(t *testing.T) {
	snapshot := func(n uint64) *Snapshot {
		link := Link{Src: []byte{1}}
		link.Priorities[5] = Priority{XOFF: n, XON: 2 * n, Paused: time.Duration(3 * n)}
		link.All = Priority{XOFF: 4 * n}
		f := newFlow(n)
		return &Snapshot{
			Flows:    []Flow{f},
			Unpaired: []Unpaired{{FlowKey: f.FlowKey, WithQP: true, Answers: answersOf(n)}},
			Links:    []Link{link},
			Evicted: Evicted{Flows: n, Packets: 2 * n, IPOctets: 3 * n, Answers: answersOf(n),
				ECN:    [4]uint64{4 * n, 5 * n, 6 * n, 7 * n},
				Causes: Retransmissions{8 * n, 9 * n, 10 * n, 11 * n, 12 * n}},
		}
	}
	old, now := snapshot(3), snapshot(10)
	old.Flows[0].Mean, now.Flows[0].Mean = 1, 2
	old.Flows[0].Peak, now.Flows[0].Peak = 1, 2
	got, want := now.changesSince(old), snapshot(7)
	want.Flows[0].Last, want.Flows[0].Peak = now.Flows[0].Last, 2
	require.Equal(t, want, got)
	require.EqualValues(t, 10, now.Flows[0].Packets, "the snapshot stays as it is")

	old, now = snapshot(3), snapshot(3)
	now.Flows[0].PSN.Lost, now.Flows[0].PSN.Unseen = 0, 93 // all 48 lost ones turned out to be received
	got = now.changesSince(old)
	require.Len(t, got.Flows, 1)
	require.Equal(t, PSN{Unseen: 48}, got.Flows[0].PSN)
	require.Empty(t, got.Unpaired)
	require.Empty(t, got.Links)

	// Nothing changed except for an event that no count shows.
	now = snapshot(3)
	require.Empty(t, now.changesSince(old).Flows)
	now.Flows[0].Last = time.Unix(3, 0)
	require.Len(t, now.changesSince(old).Flows, 1)
	now = snapshot(3)
	now.Flows[0].CNPs++
	require.EqualValues(t, 1, now.changesSince(old).Flows[0].CNPs)

	// An evicted flow that came back is a new flow.
	for _, back := range []func(f *Flow){
		func(f *Flow) { f.First = time.Unix(1, 1) }, func(f *Flow) { f.Data.Packets-- },
	} {
		now = snapshot(3)
		back(&now.Flows[0])
		require.Equal(t, now.Flows, now.changesSince(old).Flows)
	}

	// Its distributions contain new values only.
	old, now = snapshot(3), snapshot(4)
	of := func(times ...time.Duration) *Histogram {
		h := new(Histogram)
		for _, d := range times {
			h.Add(d)
		}
		return h
	}
	old.Flows[0].RTT, now.Flows[0].RTT = of(5, 700), of(5, 700, 11, 13)
	old.Flows[0].AfterCE, now.Flows[0].AfterCE = of(2), of(2, 3)
	got = now.changesSince(old)
	requireSameHistogram(t, of(11, 13), got.Flows[0].RTT)
	requireSameHistogram(t, of(3), got.Flows[0].AfterCE)
	require.EqualValues(t, 4, now.Flows[0].RTT.Count())
	old.Flows[0].RTT, old.Flows[0].AfterCE = nil, nil
	got = now.changesSince(old)
	require.EqualValues(t, 4, got.Flows[0].RTT.Count())
	require.EqualValues(t, 2, got.Flows[0].AfterCE.Count())
}

// Unmatched answers are ordered by key, those without a queue pair first, and merged.
func TestUnpairedOrder(t *testing.T) {
	a, b := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	u := func(src netip.Addr, qp uint32, with bool, acks uint64) Unpaired {
		return Unpaired{FlowKey: rocev2.FlowKey{Src: src, Dst: b, DestQP: qp}, WithQP: with,
			Answers: Answers{ACKs: acks}}
	}
	want := []Unpaired{u(a, 0, false, 10), u(a, 0, true, 5), u(a, 9, true, 16), u(b, 0, false, 32)}
	parts := []Unpaired{u(a, 0, false, 2), u(b, 0, false, 32), u(a, 0, true, 1), u(a, 0, false, 8), u(a, 9, true, 16),
		u(a, 0, true, 4)}
	for range parts {
		s := &Snapshot{Unpaired: append([]Unpaired(nil), parts...)}
		s.sortByKey()
		require.Equal(t, want, s.Unpaired)
		parts = append(parts[1:], parts[0])
	}
}

func TestAddAnswers(t *testing.T) {
	a, b := answersOf(2), answersOf(3)
	a.setLast(7)
	a.addCounts(&b)
	want := answersOf(5)
	want.setLast(7)
	require.Equal(t, want, a)
	for _, c := range []struct{ first, second, want int64 }{{7, 9, 9}, {9, 7, 9}, {-5, -9, -5}, {0, 0, 0}} {
		var a, b Answers
		a.setLast(c.first)
		b.setLast(c.second)
		a.addCounts(&b)
		require.Equal(t, c.want, a.last)
	}
	a = Answers{}
	a.setLast(-5) // before 1970, but set
	require.EqualValues(t, -5, a.last)
}

func TestPSNsOfREADs(t *testing.T) {
	read, write := &roles[bth.RCRDMAReadRequest], &roles[bth.RCRDMAWriteOnly]
	for _, c := range []struct {
		mtu     uint16
		p       Packet
		r       *opcodeRole
		n, more uint32
	}{
		{1024, Packet{pkt: observation{DMA: 5000}}, write, 1, 0},
		{1024, Packet{pkt: observation{DMA: 5000}}, read, 5, 0},
		{0, Packet{pkt: observation{DMA: 5000}}, read, 1, 19},
		{0, Packet{pkt: observation{DMA: 256}}, read, 1, 0},
		{1024, Packet{pkt: observation{DMA: 5000}, noHeaders: true}, read, 1, 65535},
		{0, Packet{noHeaders: true}, write, 1, 0},
	} {
		n, more := countPSNs(&c.p, c.r, c.mtu)
		require.Equal(t, [2]uint32{c.n, c.more}, [2]uint32{n, more}, "%+v", c)
	}
}

func TestKindNames(t *testing.T) {
	require.Equal(t, "SEND", MessageSend.String())
	require.Equal(t, "ATOMIC WRITE", MessageAtomicWrite.String())
	require.Equal(t, "MessageKind(6)", noMessage.String())
	require.Equal(t, "MessageKind(200)", MessageKind(200).String())
}

// The mean rate covers the time from the first packet to the last, and the peak is that of the
// busiest 100 ms window.
func TestPeak(t *testing.T) {
	const ms = 1_000_000
	for _, c := range []struct {
		name  string
		at    []int64 // of packets of 1000 octets
		octet uint64  // octets in the busiest window
	}{
		{"one window", []int64{0, 50 * ms, 100*ms - 1}, 3000},
		{"the next one", []int64{0, 100 * ms, 199 * ms, 200 * ms}, 2000},
		{"the first is the busiest", []int64{0, 1, 2, 100 * ms, 101 * ms}, 3000},
		{"back", []int64{0, 150 * ms, 50 * ms, 160 * ms}, 3000},
	} {
		t.Run(c.name, func(t *testing.T) {
			var p peak
			for _, at := range c.at {
				p.addOctets(at, 1000)
			}
			require.Equal(t, c.octet, p.most)
		})
	}
	f := flow{first: 5, last: 5 + 1e9, Requests: Requests{Packets: 3, IPOctets: 500}, peak: peak{most: 100}}
	mean, most := f.meanAndPeak()
	require.Equal(t, []float64{4000, 8000}, []float64{mean, most}) // 500 octets in 1 s, 100 in 100 ms
	f.last = 5 + 1e7
	mean, most = f.meanAndPeak()
	require.Equal(t, []float64{400000, 400000}, []float64{mean, most}, "in less than a window")
	f.Packets = 2
	mean, most = f.meanAndPeak()
	require.Equal(t, []float64{0, 0}, []float64{mean, most})
	f.Packets, f.last = 3, 5
	mean, most = f.meanAndPeak()
	require.Equal(t, []float64{0, 0}, []float64{mean, most})
}

// Counts by kind can be read, changed and iterated in order; unknown kinds have no counts.
func TestCountsByKind(t *testing.T) {
	var f Flow
	var e Evidence
	f.Message(MessageFlush).Begun = 4
	*f.NAK(bth.NAKRemoteAccess) = 5
	e.Sign(SignCE).Count = 6
	require.EqualValues(t, 5, f.Total())
	require.Equal(t, Messages{Begun: 4}, maps.Collect(f.Messages())[MessageFlush])
	require.EqualValues(t, 5, maps.Collect(f.NAKs())[bth.NAKRemoteAccess])
	require.EqualValues(t, 6, e.Sign(SignCE).Count)

	f.Message(255).Begun, *f.NAK(31), e.Sign(255).Count = 7, 7, 7
	require.Zero(t, *f.Message(255))
	require.Zero(t, *f.NAK(31))
	require.Zero(t, *e.Sign(255))
	require.EqualValues(t, 5, f.Total())

	var messages []MessageKind
	for k := range f.Messages() {
		if messages = append(messages, k); k == MessageRead {
			break
		}
	}
	require.Equal(t, []MessageKind{MessageSend, MessageWrite, MessageRead}, messages)
	var codes []bth.NAKCode
	for code := range f.NAKs() {
		if codes = append(codes, code); code == bth.NAKRemoteAccess {
			break
		}
	}
	require.Equal(t, []bth.NAKCode{0, 1, 2}, codes)
}

// requireSameHistogram requires equal buckets and limits, however many empty buckets there are around them.
func requireSameHistogram(t *testing.T, want, got *Histogram) {
	t.Helper()
	buckets := func(h *Histogram) map[int]uint64 {
		all := map[int]uint64{}
		for i, n := range h.counts {
			if n > 0 {
				all[h.first+i] = n
			}
		}
		return all
	}
	require.Equal(t, buckets(want), buckets(got))
	require.Equal(t, []any{want.n, want.min, want.max}, []any{got.n, got.min, got.max})
}

// A histogram keeps its buckets when it is extended in either direction, up to its limits.
func TestHistogramExtends(t *testing.T) {
	for _, c := range []struct {
		name  string
		times []time.Duration
	}{
		{"up", []time.Duration{1, 20, 1000, time.Second, 20 * time.Minute}},
		{"down", []time.Duration{20 * time.Minute, time.Second, 1000, 20, 0, -1}},
		{"both ways", []time.Duration{1000, 1, time.Hour, 900, 5, 1000}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var h Histogram
			want := map[int]uint64{}
			for _, d := range c.times {
				h.Add(d)
				want[bucketOf(max(d, 0))]++
			}
			got := map[int]uint64{}
			for i, n := range h.counts {
				if n > 0 {
					got[h.first+i] = n
				}
			}
			require.Equal(t, want, got)
			require.GreaterOrEqual(t, h.first, 0)
			require.LessOrEqual(t, h.first+len(h.counts), histogramSize)
			require.EqualValues(t, len(c.times), h.Count())
		})
	}
}
