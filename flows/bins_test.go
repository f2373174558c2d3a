package flows

import (
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/internal/traffic"
)

// From the first trouble on there are narrow bins. Their sum equals the wide bins of the same time.
func TestOnset(t *testing.T) {
	s := newSeries() // at 100 ns
	addOctets := func(at int64, c uint32) {
		for _, b := range s.talliesAt(at) {
			b.IPOctets += 1000
			b.CE += c
		}
	}
	for at := int64(100); at < 1_000_000_000; at += 1_000_000 {
		if at == 500_000_100 {
			s.beginOnset(at + 3333)
			for i := range int64(20) {
				addOctets(at+3333+i*2000, 1)
			}
		}
		addOctets(at, 0)
	}
	s.beginOnset(900_000_000) // only the first trouble begins them
	got := s.toSeries()
	require.Equal(t, 999*time.Millisecond, got.End.Sub(got.Start))
	var sum Tally
	narrow := 0
	for i, b := range got.Bins {
		sum.addNext(&b.Tally)
		if b.To-b.From <= onsetWidth {
			narrow++
			require.GreaterOrEqual(t, b.From, 500*time.Millisecond)
			require.Less(t, b.From, 500*time.Millisecond+seriesBins*onsetWidth)
		} else {
			require.Zero(t, b.CE, "bin %d, %v to %v", i, b.From, b.To)
		}
	}
	require.EqualValues(t, 20, sum.CE)
	require.EqualValues(t, 1_020_000, sum.IPOctets)
	require.GreaterOrEqual(t, narrow, 200)
	for i := range got.Bins[1:] {
		require.Equal(t, got.Bins[i].To, got.Bins[i+1].From)
	}
}

// An answer from before the onset is counted once, even if its flow becomes known later.
func TestAnswerBeforeOnset(t *testing.T) {
	s := newSeries()
	s.beginOnset(50_000_000)
	for range 3 {
		s.recordNAK(&reply{at: 40_000_000})
	}
	naks := uint32(0)
	for _, b := range s.toSeries().Bins {
		naks += b.NAKs
	}
	require.EqualValues(t, 3, naks)
}

// The bins before and after the narrow ones have the rest of the counts, divided by the time, and
// their PSNs are continuous.
func TestSurround(t *testing.T) {
	whole := Bin{0, 100, Tally{IPOctets: 1000, CE: 12, RTT: 9, First: 5, Last: 50, Sequenced: true}}
	inside := []Bin{
		{20, 22, Tally{IPOctets: 300, CE: 1, RTT: 7}},
		{22, 24, Tally{IPOctets: 100, CE: 1, First: 10, Last: 20, Sequenced: true}},
	}
	require.Equal(t, []Bin{
		{0, 20, Tally{IPOctets: 125, CE: 2, RTT: 9, First: 5, Last: 10, Sequenced: true}},
		inside[0], inside[1],
		{24, 100, Tally{IPOctets: 475, CE: 8, RTT: 9, First: 20, Last: 50, Sequenced: true}},
	}, surround(&whole, inside))
	inside[1].RTT = 9 // the longest; the other round trips are unknown
	got := surround(&Bin{20, 50, whole.Tally}, inside)
	require.Len(t, got, 3)
	require.Equal(t, Tally{IPOctets: 600, CE: 10, First: 20, Last: 50, Sequenced: true}, got[2].Tally)
	got = surround(&Bin{20, 24, whole.Tally}, inside)
	require.Len(t, got, 2, "all lists are full")
	require.EqualValues(t, 900, got[0].IPOctets)
}

// The last bin ends at the end of the series; a short one is merged with the previous bin.
func TestLastBinEnds(t *testing.T) {
	three := func() []Bin {
		return []Bin{{0, 10, Tally{CE: 1}}, {10, 20, Tally{CE: 2}}, {20, 30, Tally{CE: 4}}}
	}
	for _, c := range []struct {
		end, to time.Duration
		bins    int
		ce      uint32
	}{
		{30, 30, 3, 4}, {31, 30, 3, 4}, {25, 25, 3, 4}, {24, 24, 2, 6}, {20, 20, 2, 6},
	} {
		got := endLastAt(three(), c.end)
		require.Len(t, got, c.bins, c)
		last := got[len(got)-1]
		require.Equal(t, c.to, last.To)
		require.Equal(t, c.ce, last.CE)
	}
	require.Equal(t, three()[:1], endLastAt(three()[:1], 0), "one packet")
	require.Empty(t, endLastAt(nil, 5))
}

// Totals are the sum of all flows.
func TestTotals(t *testing.T) {
	for seed := range uint64(20) {
		made := traffic.Generate(seed, traffic.Options{Connections: 3})
		table := tableOf(made, Config{Series: true})
		var want, got Tally
		s := table.Snapshot()
		for _, f := range s.Flows {
			want.IPOctets += f.Data.IPOctets
			want.CE += uint32(f.Data.CE)
			want.CNPs += uint32(f.CNPs + f.FastCNPs)
			want.PPFC += uint32(f.PPFC)
			want.RNRNAKs += uint32(f.RNRNAKs)
			for _, n := range f.NAKs() {
				want.NAKs += uint32(n)
			}
			for _, b := range table.Series(f.FlowKey).Bins {
				want.Missing += b.Missing
				want.Late += b.Late
				want.Retransmitted += b.Retransmitted
				want.RTT = max(want.RTT, b.RTT)
			}
		}
		for _, u := range s.Unpaired {
			want.CNPs += uint32(u.CNPs + u.FastCNPs)
			want.PPFC += uint32(u.PPFC)
			want.RNRNAKs += uint32(u.RNRNAKs)
			for _, n := range u.NAKs() {
				want.NAKs += uint32(n)
			}
		}
		totals := table.Totals()
		require.LessOrEqual(t, len(totals.Bins), totalBins)
		for i := range totals.Bins {
			got.addNext(&totals.Bins[i].Tally)
		}
		require.Equal(t, want, got, seed)
	}
	require.Nil(t, New(Config{Series: true}).Totals())
	require.Nil(t, tableOf(traffic.Generate(1, traffic.Options{}), Config{}).Totals())
}

// Flows over the limit have wider bins, and no onset bins. Flows without trouble have a quarter of the places.
func TestSeriesLimits(t *testing.T) {
	all := seriesPools{maxFine: 1}
	ids := make([]uint32, 2)
	for i := range ids {
		s := all.beginSeries(&ids[i], 0)
		s.beginOnset(0)
		for _, b := range s.talliesAt(255_999) {
			b.CE++
		}
		require.EqualValues(t, []int64{1000, 8000}[i], s.bins.width)
		require.Equal(t, i == 0, s.onsetID != 0)
		require.Len(t, s.toSeries().Bins, []int{256, 32}[i])
	}
	all.releaseSeries(&ids[0])
	require.Zero(t, all.fine.countUsed()+all.onsets.countUsed())
	require.Len(t, all.beginSeries(&ids[0], 0).bins.tallies, seriesBins, "there is space again")
}

// A flow with wide bins has narrow ones from its first trouble on, if there is room, and loses no counts.
func TestRefinedSeries(t *testing.T) {
	all := seriesPools{maxFine: 2}
	ids := make([]uint32, 3)
	for i := range ids {
		all.beginSeries(&ids[i], 0)
	}
	for i, bins := range []int{256, 256, 32} {
		s := all.all.lookUp(ids[i])
		s.bins.tallies[s.binAt(20_000)].CE++
		s.beginOnset(20_000)
		s.bins.tallies[s.binAt(200_000)].CE++
		require.Len(t, s.bins.tallies, bins)
		ce := uint32(0)
		for _, b := range s.bins.tallies {
			ce += b.CE
		}
		require.EqualValues(t, 2, ce)
		require.EqualValues(t, []int64{1000, 1000, 8000}[i], s.bins.width)
	}
	require.EqualValues(t, 1, all.coarse.countUsed())
	for i := range ids {
		all.releaseSeries(&ids[i])
	}
	require.Zero(t, all.fine.countUsed()+all.coarse.countUsed()+all.onsets.countUsed())
}

// The memory for a series is as documented for Config.Series.
func TestSeriesMemory(t *testing.T) {
	const tally, mark = unsafe.Sizeof(Tally{}), unsafe.Sizeof(Mark{})
	flow := unsafe.Sizeof(series{}) + seriesBins*tally
	trouble := seriesBins*tally + seriesMarks*mark
	require.LessOrEqual(t, flow, uintptr(17<<10))
	require.LessOrEqual(t, trouble, uintptr(25<<10))
	require.LessOrEqual(t, unsafe.Sizeof(series{})+coarseBins*tally, uintptr(3<<10))
	room := maxFineSeries*(flow+seriesBins*tally) + maxMarkedSeries*seriesMarks*mark +
		maxQueueSeries*unsafe.Sizeof(queues{})
	require.LessOrEqual(t, room, uintptr(160<<20))
}
