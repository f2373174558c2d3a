package triage

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
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

// mergeEpisodes ignores episodes that end before they begin: the clock was set back meanwhile.
func TestSetBackEpisodes(t *testing.T) {
	at := func(s int64) time.Time { return time.Unix(1795254649+s, 0) }
	back := flows.Episode{Since: at(9), Until: at(3)}
	early, late := flows.Episode{Since: at(1), Until: at(2)}, flows.Episode{Since: at(20), Until: at(21)}
	got := mergeEpisodes([]*flows.Flow{
		{Evidence: &flows.Evidence{Episodes: []flows.Episode{late, back}}},
		{Evidence: &flows.Evidence{Episodes: []flows.Episode{early}}},
	})
	require.Equal(t, []flows.Episode{early, late}, got)
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
		var want []int
		for i, own := range sources {
			for _, e := range own {
				n := 0
				for j, others := range sources {
					if i != j && slices.ContainsFunc(others, func(o flows.Episode) bool {
						return spansOverlap(o.Since.Add(-sameCongestion), o.Until.Add(sameCongestion), e.Since, e.Until)
					}) {
						n++
					}
				}
				want = append(want, n)
			}
		}
		require.Equal(t, want, countTogether(sources))
	}
}

func TestNeighbours(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	seen := [2]int{}
	for i := range 400 {
		var all []*flows.Flow
		step := i%2 == 1 // of the clock
		for range 1 + r.IntN(12) {
			f := &flows.Flow{Evidence: &flows.Evidence{}}
			f.Src = netip.AddrFrom4([4]byte{10, 0, 0, byte(r.IntN(5))})
			f.DSCP = 1 << r.IntN(2)
			s := f.Evidence.Sign(flows.SignCNP)
			s.Count = 1 + r.Uint64N(50)
			if s.Since, s.Until = randomSpan(r); step && r.IntN(3) == 0 {
				s.Until = s.Until.Add(-time.Second)
			} else if r.IntN(2) == 0 {
				s.Until = s.Until.Add(10 * time.Millisecond)
			}
			c := &f.Evidence.Control
			c.Judged = r.Uint64N(50)
			c.Slowed, c.After = r.Uint64N(c.Judged+1), float64(r.IntN(100))
			if c.Fastest = 100; r.IntN(3) == 0 {
				c.Slowed, c.After, s.Count = 0, float64(100+r.IntN(100)), 50
			}
			all = append(all, f)
		}
		n := newNeighbours(all)
		for _, f := range all {
			own, span := &f.Evidence.Control, cnpSign(f)
			var judged, slowed, after uint64
			faster, sources := true, map[netip.Addr]bool{}
			for _, o := range all {
				c, s := &o.Evidence.Control, cnpSign(o)
				if o.Src == f.Src || dscpOf(o) != dscpOf(f) || !spansOverlap(s.Since, s.Until, span.Since, span.Until) {
					continue
				}
				judged, slowed, after = judged+c.Judged, slowed+c.Slowed, after+uint64(c.After)*c.Judged
				if c.Judged < minJudged {
					continue
				}
				lasted, ownLasted := s.Until.Sub(s.Since), span.Until.Sub(span.Since)
				faster = faster && own.After >= rateAbove*c.After &&
					float64(s.Count)*float64(ownLasted) <= float64(span.Count)*float64(lasted)
				if c.After <= mostKept*c.Fastest {
					sources[o.Src] = true
				}
			}
			ignores := own.Judged >= minJudged && float64(own.Slowed) <= mostSlowed*float64(own.Judged)
			slowedMore := ignores && judged >= minJudged && float64(slowed) >= leastSlowed*float64(judged) &&
				own.After*float64(judged) >= rateSpared*float64(after)
			require.Equal(t, slowedMore, n.slowedMore(f))
			areSlower := faster && own.Judged >= minCompared && span.Until.Sub(span.Since) >= minTogether &&
				own.After >= leastKept*own.Before && len(sources) >= 2
			require.Equal(t, areSlower, n.areSlower(f))
			for i, holds := range []bool{slowedMore, areSlower} {
				if holds {
					seen[i]++
				}
			}
		}
	}
	require.Positive(t, seen[0])
	require.Positive(t, seen[1])
}

// The sum of neighbours that all stopped is 0, also if other flows have rates that floating point rounds.
func TestNeighboursThatStopped(t *testing.T) {
	flow := func(src byte, qp uint32, judged, slowed uint64, after float64, since time.Duration) *flows.Flow {
		f := &flows.Flow{Evidence: &flows.Evidence{}}
		f.Src, f.DestQP, f.DSCP = netip.AddrFrom4([4]byte{10, 0, 0, src}), qp, 1
		f.Evidence.Control = flows.Control{Judged: judged, Slowed: slowed, After: after}
		*f.Evidence.Sign(flows.SignCNP) = flows.Sign{Count: judged, Since: start.Add(since),
			Until: start.Add(since + time.Millisecond)}
		return f
	}
	one := flow(2, 1, 10, 0, 0, 0)
	all := []*flows.Flow{one, flow(3, 2, 10, 10, 0, 0)}
	for i := range uint32(20) {
		rate := 1e9/3 + float64(i)/7
		all = append(all, flow(2, 100+i, 7, 0, rate, 0), flow(4, 200+i, 7, 0, rate*1e3, -time.Second))
	}
	require.True(t, newNeighbours(all).slowedMore(one), "0 is at least 1.2 times 0")
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

// manyFlows returns n flows to one receiver, of different sources unless trouble is "one source", all with the same
// trouble.
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
		case "one source", "disjoint times": // flows that ignore their CNPs
			f.Evidence.Control = flows.Control{Judged: 40, Before: 100e6, After: 100e6, Fastest: 200e6}
			sign(flows.SignCE, 50)
			sign(flows.SignCNP, 40)
			if trouble == "one source" {
				f.Src = netip.AddrFrom4([4]byte{10, 0, 0, 2})
				break
			}
			s := f.Evidence.Sign(flows.SignCNP)
			s.Since, s.Until = s.Since.Add(time.Duration(i)*time.Second), s.Until.Add(time.Duration(i)*time.Second)
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
	for _, trouble := range []string{"marks", "CNPs ignored", "one source", "disjoint times", "losses", "gave up",
		"refused", "unmatched"} {
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
