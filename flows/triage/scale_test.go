package triage

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/flows"
	"github.com/rocecn/rocecn/rocev2"
)

// The tests in this file compare results that are computed once for all flows with their definition, which compares
// each flow with every other.

var start = time.Date(2026, 11, 29, 9, 0, 0, 0, time.UTC)

func randomSpan(r *rand.Rand) (since, until time.Time) {
	since = start.Add(time.Duration(r.IntN(2000)) * time.Microsecond)
	return since, since.Add(time.Duration(r.IntN(300)) * time.Microsecond)
}

func TestSpans(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	require.False(t, (*spans)(nil).overlaps(start, start))
	for range 200 {
		s, all := new(spans), []span{}
		for range r.IntN(12) {
			since, until := randomSpan(r)
			s.add(since, until)
			all = append(all, span{since: since, until: until})
		}
		for range 20 {
			from, to := randomSpan(r)
			want := false
			for _, one := range all {
				want = want || spansOverlap(one.since, one.until, from, to)
			}
			require.Equal(t, want, s.overlaps(from, to))
		}
	}
}

func TestCountTogether(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		var sources [][]flows.Episode
		for range 1 + r.IntN(6) {
			f := &flows.Flow{Evidence: &flows.Evidence{}}
			for range 1 + r.IntN(5) {
				since, until := randomSpan(r)
				f.Evidence.Episodes = append(f.Evidence.Episodes, flows.Episode{Since: since, Until: until})
			}
			sources = append(sources, mergeEpisodes([]*flows.Flow{f}))
		}
		require.Equal(t, countEachTogether(sources), countTogether(sources))
	}
}

func TestNeighboursDuring(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for i := range 100 {
		var all []*flows.Flow
		step := i%2 == 1 // of the clock
		for range 1 + r.IntN(12) {
			f := &flows.Flow{Evidence: &flows.Evidence{}}
			f.Src = netip.AddrFrom4([4]byte{10, 0, 0, byte(r.IntN(4))})
			f.DSCP = 1 << r.IntN(2)
			s := f.Evidence.Sign(flows.SignCNP)
			s.Count = 1
			if s.Since, s.Until = randomSpan(r); step && r.IntN(3) == 0 {
				s.Until = s.Until.Add(-time.Second)
			}
			c := &f.Evidence.Control
			c.Judged = r.Uint64N(8)
			c.Slowed, c.After = r.Uint64N(c.Judged+1), float64(r.IntN(100))
			all = append(all, f)
		}
		n := newNeighbours(all)
		for _, f := range all {
			own := &f.Evidence.Control
			var want cnpSum
			for _, o := range all {
				c, s, span := &o.Evidence.Control, cnpSign(o), cnpSign(f)
				if o.Src != f.Src && dscpOf(o) == dscpOf(f) &&
					spansOverlap(s.Since, s.Until, span.Since, span.Until) {
					want.add(cnpSum{c.Judged, c.Slowed, c.After * float64(c.Judged)})
				}
			}
			ignores := own.Judged >= minJudged && float64(own.Slowed) <= mostSlowed*float64(own.Judged)
			require.Equal(t, ignores && want.judged >= minJudged &&
				float64(want.slowed) >= leastSlowed*float64(want.judged) &&
				own.After*float64(want.judged) >= rateSpared*want.after, n.slowedMore(f))
		}
	}
}

// Answers that match no flow are about the only flow that they can be about.
func TestFlowOfUnmatchedAnswers(t *testing.T) {
	a, b := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	flow := func(qp uint32, known bool) flows.Flow {
		f := flows.Flow{FlowKey: rocev2.FlowKey{Src: a, Dst: b, DestQP: 0x100 + qp}, Evidence: &flows.Evidence{}}
		if known {
			f.SrcQP, f.SrcQPFrom = qp, 1
		}
		return f
	}
	u := &flows.Unpaired{FlowKey: rocev2.FlowKey{Src: b, Dst: a, DestQP: 17}}
	for _, row := range []struct {
		name  string
		flows []flows.Flow
		want  int // index of the flow, or -1
	}{
		{"no flow", nil, -1},
		{"this queue pair", []flows.Flow{flow(16, true), flow(17, true)}, 1},
		{"another queue pair", []flows.Flow{flow(16, true)}, -1},
		{"unknown queue pair", []flows.Flow{flow(16, true), flow(17, false)}, 1},
		{"two unknown queue pairs", []flows.Flow{flow(16, false), flow(17, false)}, -1},
		{"this and an unknown queue pair", []flows.Flow{flow(17, true), flow(18, false)}, -1},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := &flows.Snapshot{Flows: row.flows}
			if f := newView(s).flowOf(u); row.want < 0 {
				require.Nil(t, f)
			} else {
				require.Same(t, &s.Flows[row.want], f)
			}
		})
	}
}

// manyFlows returns n flows of different sources to one receiver, all with the same trouble.
func manyFlows(trouble string, n int) *flows.Snapshot {
	s := &flows.Snapshot{}
	for i := range n {
		f := flows.Flow{Sequenced: true, Evidence: &flows.Evidence{}}
		f.Src = netip.AddrFrom4([4]byte{10, 1 + byte(i>>16), byte(i >> 8), byte(i)})
		f.Dst, f.DestQP = netip.AddrFrom4([4]byte{10, 0, 0, 1}), 0x100+uint32(i)
		f.DSCP, f.Packets, f.Data.Packets, f.Data.IPOctets = 1<<26, 100, 100, 100_000
		sign := func(kind flows.SignKind, count uint64) {
			*f.Evidence.Sign(kind) = flows.Sign{Count: count, First: 1, Last: count, Since: start,
				Until: start.Add(10 * time.Millisecond)}
		}
		sign(flows.SignRequest, 100)
		sign(flows.SignAnswer, 50)
		switch trouble {
		case "marks":
			sign(flows.SignCE, 50)
			sign(flows.SignCNP, 40)
			for j := range 24 {
				at := start.Add(time.Duration(j)*400*time.Microsecond + time.Duration(i%7)*time.Microsecond)
				f.Evidence.Episodes = append(f.Evidence.Episodes, flows.Episode{Since: at, Until: at})
			}
		case "CNPs ignored":
			sign(flows.SignCE, 50)
			sign(flows.SignCNP, 40)
			f.Evidence.Control = flows.Control{Judged: 40, Slowed: 36, Before: 100e6, After: 50e6, Fastest: 200e6,
				Unheeded: *f.Evidence.Sign(flows.SignCNP)}
			if i%2 == 0 {
				f.Evidence.Control.Slowed, f.Evidence.Control.After = 0, 100e6
			}
		case "losses":
			f.PSN.Lost, f.Causes.NAK = 3, 3
			sign(flows.SignGap, 3)
			sign(flows.SignNAK, 3)
		case "gave up":
			f.GaveUp = &flows.GaveUp{Frame: 9, Retries: 7}
			f.Causes.Timeout, f.Evidence.MaxTimeout = 7, time.Second
			sign(flows.SignAfterTimeout, 7)
		case "refused":
			*f.NAK(bth.NAKRemoteAccess) = 1
			sign(flows.SignRefused, 1)
		case "unmatched":
			u := flows.Unpaired{FlowKey: rocev2.FlowKey{Src: f.Dst, Dst: f.Src, DestQP: uint32(i)}, WithQP: true,
				Refused: *f.Evidence.Sign(flows.SignAnswer)}
			u.ACKs = 5
			*u.NAK(bth.NAKRemoteAccess) = 1
			s.Unpaired = append(s.Unpaired, u)
		}
		s.Flows = append(s.Flows, f)
	}
	return s
}

// The time grows with the number of flows, also if all have the same receiver and the same trouble.
func BenchmarkExplain(b *testing.B) {
	for _, trouble := range []string{"marks", "CNPs ignored", "losses", "gave up", "refused", "unmatched"} {
		for _, n := range []int{1000, 10_000, 100_000} {
			b.Run(fmt.Sprintf("%s/%d", trouble, n), func(b *testing.B) {
				s := manyFlows(trouble, n)
				for b.Loop() {
					require.NotEmpty(b, Explain(s))
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/flow")
			})
		}
	}
}
