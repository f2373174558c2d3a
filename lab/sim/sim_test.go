package sim

import (
	"cmp"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/stretchr/testify/require"
)

func TestTimes(t *testing.T) {
	require.Equal(t, Time(80), (100 * Gbps).Time(1))
	require.Equal(t, Time(20), (400 * Gbps).Time(1))
	require.Equal(t, Time(10), (800 * Gbps).Time(1))
	require.Equal(t, 20480*Nanosecond/1000, (400 * Gbps).Time(1024), "20.48 ns")
	require.Equal(t, 8*Second, Rate(1e9).Time(1e9))
	require.Equal(t, Time(2_666_666_666_666), Rate(3).Time(1), "rounded down")
	require.Equal(t, Never, Rate(0).Time(1))
	require.Equal(t, Never, Rate(1).Time(math.MaxInt64))
	require.Equal(t, int64(500e6), (400 * Gbps).Octets(10*Millisecond))
	require.Equal(t, int64(1), (400 * Gbps).Octets(39))
	require.Equal(t, Never, From(math.MaxInt64))
	require.Equal(t, "12.5µs", (12_500 * Nanosecond).String())

	at := 1999 * Time(1)
	require.Equal(t, 1, at.Clock().Nanosecond(), "rounded down")
	require.Equal(t, Nanosecond, FromClock(at.Clock()))
	require.Equal(t, 55*Microsecond, From(55*time.Microsecond))
}

// recorder notes the events that run.
type recorder struct {
	sim *Sim
	ran []uint32
	at  []Time
}

func (r *recorder) Handle(arg uint32) {
	r.ran, r.at = append(r.ran, arg), append(r.at, r.sim.Now())
}

func TestTies(t *testing.T) {
	var s Sim
	r := &recorder{sim: &s}
	id := s.Add(r)
	first := s.Order(Departure)
	s.Schedule(7, Application, id, 6)
	s.Schedule(7, Departure, id, 5)
	s.Schedule(7, Timer, id, 3)
	s.Schedule(7, Arrival, id, 1)
	s.Schedule(7, Arrival, id, 2)
	s.Schedule(6, Application, id, 0)
	s.Schedule(8, Arrival, id, 7)
	s.AtOrder(7, first, id, 4)
	s.Until(7)
	require.Equal(t, []uint32{0, 1, 2, 3, 4, 5, 6}, r.ran)
	require.Equal(t, Time(7), s.Now())
	require.Equal(t, 1, s.Pending())
	require.Panics(t, func() { s.Schedule(6, Arrival, id, 0) })
	s.Until(100)
	require.Equal(t, Time(100), s.Now())
	require.EqualValues(t, 8, s.Events())
}

// many schedules random events from events, so that the heap is used in every
// order of pushing and taking.
type many struct {
	sim    *Sim
	id     ID
	random *rand.Rand
	left   int
	orders []event
	stop   int
	reads  [readSteps]int
}

func (m *many) Handle(arg uint32) {
	m.orders = append(m.orders, event{at: m.sim.Now(), arg: arg})
	if len(m.orders) == m.stop {
		m.sim.Stop()
	}
	for range m.random.IntN(3) {
		if m.left--; m.left >= 0 {
			m.sim.Schedule(m.sim.Now()+Time(m.random.IntN(5)), Class(m.random.IntN(4)), m.id, uint32(m.left))
		}
	}
}

// ReadAhead counts its calls, by step.
func (m *many) ReadAhead(_ uint32, step int) uint64 {
	m.reads[step]++
	return 1
}

// All events run, once and in order, against a list that is sorted, in batches and without, in one call and in parts.
func TestOrderOfMany(t *testing.T) {
	for seed := range uint64(100) {
		var s Sim
		first := []int{20, 2 * manyEvents}[seed%2]
		m := &many{sim: &s, random: rand.New(rand.NewPCG(seed, 1)), left: 3000 + first}
		m.id = s.Add(m)
		for i := range first {
			m.left--
			s.Schedule(Time(i%3), Arrival, m.id, uint32(m.left))
		}
		for s.Part(Never-1, []uint64{7, math.MaxUint64}[seed/2%2]) {
		}
		require.Equal(t, first > manyEvents, m.reads[0] > manyEvents)
		require.Equal(t, [readSteps]int{m.reads[0], m.reads[0], m.reads[0]}, m.reads)
		require.Zero(t, s.Pending())
		require.EqualValues(t, len(m.orders), s.Events())
		require.True(t, slices.IsSortedFunc(m.orders, func(a, b event) int { return cmp.Compare(a.at, b.at) }))
		seen := map[uint32]bool{}
		for _, e := range m.orders {
			require.False(t, seen[e.arg])
			seen[e.arg] = true
		}
	}
}

// bursts schedules events while others are pending.
type bursts struct {
	sim   *Sim
	id    ID
	times []Time
	next  int // number of events that each event schedules
	most  int // events of the batch
}

// Handle schedules the next events, the later ones first.
func (b *bursts) Handle(arg uint32) {
	b.times = append(b.times, b.sim.Now())
	if arg == 0 {
		return
	}
	for i := range b.next {
		b.sim.Schedule(b.sim.Now()+Time(b.next-i), Arrival, b.id, uint32(i/(b.next-1))*(arg-1))
	}
	b.most = max(b.most, b.sim.near.len())
}

// A batch with a last event far in the future stays small, however many events run before that one.
func TestBatchIsBounded(t *testing.T) {
	for _, c := range []struct {
		name   string
		next   int
		rounds int
	}{
		{"two events from one", 2, 20_000},
		{"more events from one than a batch has", 3 * maxBatch, 100},
	} {
		t.Run(c.name, func(t *testing.T) {
			const far = 2 * manyEvents
			s := new(Sim)
			b := &bursts{sim: s, next: c.next}
			b.id = s.Add(b)
			for i := range far {
				s.Schedule(Second+Time(i), Timer, b.id, 0)
			}
			s.Schedule(0, Arrival, b.id, uint32(c.rounds))
			s.Until(Second - 1)
			require.EqualValues(t, 1+c.next*c.rounds, s.Events())
			require.LessOrEqual(t, b.most, maxBatch)
			require.LessOrEqual(t, cap(s.near.events), 4*maxBatch)
			require.Equal(t, far, s.Pending())
			s.Until(2 * Second)
			require.EqualValues(t, 1+c.next*c.rounds+far, s.Events())
			require.True(t, slices.IsSorted(b.times))
		})
	}
}

func TestStop(t *testing.T) {
	var s Sim
	m := &many{sim: &s, random: rand.New(rand.NewPCG(1, 1)), stop: 2}
	m.id = s.Add(m)
	for i := range 5 {
		s.Schedule(Time(i), Arrival, m.id, 0)
	}
	s.Until(100)
	require.Equal(t, Time(1), s.Now())
	s.Until(100)
	require.Len(t, m.orders, 5)
}

type alarmed struct {
	sim   *Sim
	alarm Alarm
	rang  []Time
	runs  int
}

func (a *alarmed) Handle(uint32) {
	a.runs++
	if a.alarm.Rings(a.sim) {
		a.rang = append(a.rang, a.sim.Now())
	}
}

func TestAlarm(t *testing.T) {
	for _, c := range []struct {
		name string
		set  []Time // at times 0, 1, 2 …
		rang []Time
		runs int
	}{
		{"once", []Time{10}, []Time{10}, 1},
		{"later and later", []Time{10, 20, 30, 40}, []Time{40}, 2},
		{"earlier", []Time{30, 20, 10}, []Time{10}, 3},
		{"earlier, later", []Time{30, 10, 40}, []Time{40}, 3},
		{"earlier, back", []Time{30, 10, 30}, []Time{30}, 3},
		{"stopped", []Time{10, Never}, nil, 1},
		{"stopped, set", []Time{10, Never, 20}, []Time{20}, 2},
		{"now", []Time{0, 1}, []Time{0, 1}, 2},
		{"the same", []Time{10, 10}, []Time{10}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			var s Sim
			a := &alarmed{sim: &s}
			a.alarm = NewAlarm(Timer, s.Add(a), 0)
			for i, at := range c.set {
				s.Until(Time(i))
				a.alarm.Set(&s, at)
			}
			s.Until(1000)
			require.Equal(t, c.rang, a.rang)
			require.Equal(t, c.runs, a.runs)
		})
	}
}

// The numbers of SplitMix64 as published with its reference in C, for the state
// 1234567.
func TestStreamIsSplitMix64(t *testing.T) {
	s := Stream{key: 1234567}
	for _, want := range []uint64{
		6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821,
	} {
		require.Equal(t, want, s.Uint64())
	}
}

func TestStreams(t *testing.T) {
	const n = 100_000
	a, b := NewStream(1, "marks", 0), NewStream(1, "marks", 1)
	c, d := NewStream(1, "sizes", 0), NewStream(2, "marks", 0)
	sum, mean, same := 0.0, 0.0, 0
	count := make([]int, 7)
	for range n {
		x := a.Uint64()
		same += 64 - bits.OnesCount64(x^b.Uint64())
		require.NotEqual(t, x, c.Uint64())
		sum += d.Float64()
		mean += d.Exponential(Microsecond).Seconds() * 1e6
		count[d.Below(7)]++
	}
	require.InDelta(t, 0.5, sum/n, 0.005)
	require.InDelta(t, 1, mean/n, 0.02)
	require.InDelta(t, 32, float64(same)/n, 0.1, "streams agree in as many bits as chance has it")
	for _, k := range count {
		require.InDelta(t, n/7, k, 500)
	}
	require.Equal(t, a.Number(3, 4), a.Number(3, 4))
	require.NotEqual(t, a.Number(3, 4), a.Number(4, 3))
	require.NotEqual(t, a.Number(3, 4), b.Number(3, 4))
}

// holder schedules itself again: as many events are pending all the time.
type holder struct {
	sim    *Sim
	id     ID
	stream Stream
}

func (h *holder) Handle(arg uint32) {
	h.sim.Schedule(h.sim.Now()+Time(1+h.stream.Uint64()>>44), Arrival, h.id, arg)
}

func hold(pending int) *Sim {
	s := new(Sim)
	h := &holder{sim: s, stream: NewStream(1, "hold", 0)}
	h.id = s.Add(h)
	for i := range pending {
		s.Schedule(Time(h.stream.Uint64()>>44), Arrival, h.id, uint32(i))
	}
	return s
}

func TestNoAllocations(t *testing.T) {
	s := hold(1000)
	wiretest.NoAllocs(t, "events", func() { s.Until(s.Now() + Microsecond) })
}

func BenchmarkHold(b *testing.B) {
	for _, c := range []struct {
		name    string
		pending int
	}{{"100", 100}, {"1000", 1000}, {"10000", 10_000}, {"100000", 100_000}} {
		b.Run(c.name, func(b *testing.B) {
			s := hold(c.pending)
			step := Time(1<<20) / Time(c.pending) // about the time between two events
			b.ReportAllocs()
			b.ResetTimer()
			began := wiretest.CPUTime()
			for s.Events() < uint64(b.N) {
				s.Until(s.Now() + 1000*step)
			}
			b.ReportMetric(float64(s.Events())/(wiretest.CPUTime()-began).Seconds()/1e6, "Mevents/s")
		})
	}
}

// A part of a run ends after its events, and the parts are the run.
func TestPart(t *testing.T) {
	whole, parts := hold(100), hold(100)
	whole.Until(Millisecond)
	require.Greater(t, whole.Events(), uint64(100_000))
	steps := uint64(0)
	for parts.Part(Millisecond, 1000) {
		steps++
		require.Equal(t, 1000*steps, parts.Events())
	}
	require.Equal(t, whole.Events(), parts.Events())
	require.Equal(t, whole.Now(), parts.Now())
	require.False(t, parts.Part(Millisecond, 0), "nothing is left until then")
	require.True(t, parts.Part(2*Millisecond, 0))
}

// The earliest of four events is found at each place, by time, and at the same time by order.
func TestLeastOfFour(t *testing.T) {
	for place := range 4 {
		for _, first := range []event{{at: 4, order: 9}, {at: 5, order: 1}, {at: 0, order: 1 << 63}} {
			e := [4]event{{at: 5, order: 2}, {at: 5, order: 3}, {at: 6, order: 0}, {at: Never, order: 4}}
			e[place] = first
			require.Equal(t, place, leastOfFour(&e))
		}
	}
}
