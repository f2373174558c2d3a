package reaction

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/ioam"
	"github.com/stretchr/testify/require"
)

func hpccFlow(t *testing.T, change func(*HPCCConfig)) *HPCCFlow {
	cfg := PaperHPCC(100e9, 10*µs)
	change(&cfg)
	h := wiretest.Must(NewHPCC(cfg))(t)
	f := h.Start()
	return &f
}

// The paper's equations, by hand: a port of 100 Gbit/s, T of 10 µs, which is
// 125,000 octets.
func TestHPCCStepByStep(t *testing.T) {
	f := hpccFlow(t, func(*HPCCConfig) {})
	hop := func(at time.Duration, sent, queue uint64) []Hop {
		return []Hop{{B: 100e9, QLen: queue, TxBytes: sent, TS: at}}
	}
	require.EqualValues(t, 125_000, f.Window(1000))
	f.Acknowledged(1, 100, hop(0, 0, 50_000))
	require.EqualValues(t, 100e9, f.Rate(), "the first one is only kept")

	// Half of T later: 62,500 octets are all of the link, and at least 25,000
	// waited, a fifth of 125,000: u = 1.2, U = 1·½ + 1.2·½ = 1.1.
	f.Acknowledged(50, 200, hop(5*µs, 62_500, 25_000))
	require.InDelta(t, 1.1, f.Use(), 1e-12)
	fast := 100e9/(1.1/0.95) + 40e6
	require.InDelta(t, fast, float64(f.Rate()), 1, "it reacts immediately")

	// u = 1 again over half of T: U = 1.05; from the same base, as the round trip is not over.
	f.Acknowledged(100, 200, hop(10*µs, 125_000, 0))
	require.InDelta(t, 1.05, f.Use(), 1e-12)
	require.InDelta(t, 100e9/(1.05/0.95)+40e6, float64(f.Rate()), 1)

	// Number 101 ends it. A whole T has passed: U is u, a half of the link.
	f.Acknowledged(101, 250, hop(20*µs, 187_500, 0))
	require.InDelta(t, 0.5, f.Use(), 1e-12)
	require.EqualValues(t, 100e9, f.Rate(), "no more than the port has")

	f.Acknowledged(251, 300, hop(40*µs, 187_500+500_000, 0)) // two T: twice the link is no more than u = 2
	require.InDelta(t, 2, f.Use(), 1e-12)
	cut := 100e9*0.95/2 + 40e6
	require.InDelta(t, cut, float64(f.Rate()), 1)
	f.Acknowledged(300, 310, hop(50*µs, 687_500+118_750, 0)) // not beyond 300
	f.Acknowledged(301, 310, hop(60*µs, 806_250+118_750, 0)) // η: R_AI alone
	require.InDelta(t, cut+40e6, float64(f.Rate()), 1)
	require.InDelta(t, cut/8*10e-6, float64(f.Window(100)), 100)
}

// The busiest of several hops counts; with stages the rate rises by R_AI before
// it is multiplied.
func TestHPCCHopsAndStages(t *testing.T) {
	f := hpccFlow(t, func(c *HPCCConfig) { c.MaxStage = 2 })
	at := func(n int) []Hop {
		d := time.Duration(n) * 10 * µs
		return []Hop{
			{B: 400e9, TxBytes: uint64(n) * 125_000, TS: d},      // a quarter
			{B: 100e9, TxBytes: uint64(n) * 250_000, TS: d + 77}, // twice
			{B: 100e9, TxBytes: uint64(n) * 62_500, TS: d},
		}
	}
	f.Acknowledged(1, 10, at(0))
	f.Acknowledged(11, 20, at(1))
	require.InDelta(t, 2, f.Use(), 1e-9)
	base := float64(f.Rate())
	idle := func(n int, number uint64) {
		f.Acknowledged(number, number+9, []Hop{at(1)[0], at(1)[1], {B: 100e9,
			TxBytes: 62_500 + uint64(n)*12_500, TS: time.Duration(n+1) * 10 * µs}})
	}
	idle(1, 21) // the two others' clocks stand
	require.InDelta(t, 0.1, f.Use(), 1e-9)
	require.InDelta(t, base+40e6, float64(f.Rate()), 2)
	idle(2, 31)
	require.InDelta(t, base+80e6, float64(f.Rate()), 2)
	idle(3, 41)
	require.InDelta(t, math.Min((base+80e6)*9.5+40e6, 100e9), float64(f.Rate()), 1000)

	before := f.Rate()
	f.Acknowledged(51, 60, at(9)[:2]) // a new path resets the state
	require.Equal(t, before, f.Rate())
	f.Acknowledged(52, 60, nil)
	require.Equal(t, before, f.Rate())
}

// The rate stays between the minimum and the port's rate for any state of the hops.
func TestHPCCHostile(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	f := hpccFlow(t, func(*HPCCConfig) {})
	values := []uint64{0, 1, 1000, 1e9, math.MaxUint64}
	for range wiretest.Rounds(100_000) {
		hops := make([]Hop, random.IntN(20))
		for i := range hops {
			pick := func() uint64 { return values[random.IntN(len(values))] }
			hops[i] = Hop{B: pick(), QLen: pick(), TxBytes: pick(), TS: time.Duration(pick())}
		}
		f.Acknowledged(random.Uint64N(100), random.Uint64N(100), hops)
		require.GreaterOrEqual(t, f.Rate(), uint64(1e6))
		require.LessOrEqual(t, f.Rate(), uint64(100e9))
		require.False(t, math.IsNaN(f.Use()))
	}
}

func TestHPCCOff(t *testing.T) {
	h := wiretest.Must(NewHPCC(HPCCConfig{Line: 25e9}))(t)
	f := h.Start()
	f.Acknowledged(1, 2, []Hop{{B: 1}})
	require.EqualValues(t, 25e9, f.Rate())
	require.EqualValues(t, uint64(math.MaxUint64), f.Window(1000))
}

func TestHPCCWrongConfigs(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*HPCCConfig)
	}{
		{"Line", func(c *HPCCConfig) { c.Line = 0 }},
		{"Min", func(c *HPCCConfig) { c.Min = c.Line + 1 }},
		{"Eta", func(c *HPCCConfig) { c.Eta = math.NaN() }},
		{"BaseRTT", func(c *HPCCConfig) { c.BaseRTT = 0 }},
		{"RAI", func(c *HPCCConfig) { c.RAI = maxLine + 1 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := PaperHPCC(100e9, 10*µs)
			c.change(&cfg)
			_, err := NewHPCC(cfg)
			var wrong *ConfigError
			require.True(t, errors.As(err, &wrong))
			require.Equal(t, c.name, wrong.Key)
		})
	}
}

func TestHPCCNoAllocations(t *testing.T) {
	f := hpccFlow(t, func(*HPCCConfig) {})
	n := uint64(0)
	hops := make([]Hop, 5)
	wiretest.NoAllocs(t, "a flow", func() {
		n++
		for i := range hops {
			hops[i] = Hop{B: 100e9, TxBytes: n * 1000, TS: time.Duration(n) * 80}
		}
		f.Acknowledged(n, n+100, hops)
	})
}

// A port of 100 Gbit/s and T of 10 µs, which is 125,000 octets; notifications that say how
// many wait.
func TestHPCCNotifiedStepByStep(t *testing.T) {
	f := hpccFlow(t, func(c *HPCCConfig) { c.RAI = 100e6 })
	at := func(d time.Duration) time.Time { return start.Add(d) }
	waiting := func(octets uint64) []Hop { return []Hop{{B: 400e9, QLen: 0}, {B: 100e9, QLen: octets}} }
	_, ok := f.Next()
	require.False(t, ok)

	f.Notified(waiting(0), at(0)) // nothing waits anywhere: no news
	require.EqualValues(t, 100e9, f.Rate())
	_, ok = f.Next()
	require.False(t, ok)

	// u = 1 + 62,500 ÷ 125,000 = 1.5, and U takes this value immediately; R = 100·0.95÷1.5 + 0.1.
	f.Notified(waiting(62_500), at(0))
	require.InDelta(t, 1.5, f.Use(), 1e-12)
	first := 100e9*0.95/1.5 + 100e6
	require.InDelta(t, first, float64(f.Rate()), 1)

	// Half a T later, u = 1.25: U = 1.375, from the same R_c, as the round trip is not over.
	f.Notified(waiting(31_250), at(5*µs))
	require.InDelta(t, 1.375, f.Use(), 1e-12)
	require.InDelta(t, first*0.95/1.375+100e6, float64(f.Rate()), 1)
	f.Notified(waiting(31_250), at(5*µs)) // at the same time: nothing is averaged
	second := first*0.95/1.375 + 100e6
	require.InDelta(t, second, float64(f.Rate()), 1)

	// T after the last one nothing has come: R_AI, and again after each further T.
	next, ok := f.Next()
	require.True(t, ok)
	require.True(t, next.Equal(at(15*µs)))
	f.Advance(at(15*µs - 1))
	require.InDelta(t, second, float64(f.Rate()), 1)
	f.Advance(at(15 * µs))
	require.InDelta(t, second+100e6, float64(f.Rate()), 2)
	f.Advance(at(44 * µs))
	require.InDelta(t, second+300e6, float64(f.Rate()), 2)
	next, _ = f.Next()
	require.True(t, next.Equal(at(45*µs)))
	f.Advance(at(time.Hour))
	require.EqualValues(t, 100e9, f.Rate())
	_, ok = f.Next()
	require.False(t, ok, "at the rate of the port nothing is left to be done")
	f.Advance(at(-time.Hour))
	require.EqualValues(t, 100e9, f.Rate())
}

// Only the first eight hops count, as for acknowledgements.
func TestHPCCNotifiedOfManyHops(t *testing.T) {
	hops := make([]Hop, 9)
	for i := range hops {
		hops[i].B = 100e9
	}
	f := hpccFlow(t, func(*HPCCConfig) {})
	hops[8].QLen = 125_000
	f.Notified(hops, start)
	require.EqualValues(t, 100e9, f.Rate())
	hops[7].QLen = 125_000
	f.Notified(hops, start)
	require.InDelta(t, 100e9*0.95/2+40e6, float64(f.Rate()), 1)
}

// Where acknowledgements come too they alone bring the rate up again.
func TestHPCCNotifiedAndAcknowledged(t *testing.T) {
	f := hpccFlow(t, func(*HPCCConfig) {})
	f.Acknowledged(1, 10, []Hop{{B: 100e9}})
	f.Notified([]Hop{{B: 100e9, QLen: 125_000}}, start)
	rate := f.Rate()
	require.InDelta(t, 100e9*0.95/2+40e6, float64(rate), 1)
	_, ok := f.Next()
	require.False(t, ok)
	f.Advance(start.Add(time.Hour))
	require.Equal(t, rate, f.Rate())
	f.Acknowledged(11, 20, []Hop{{B: 100e9, TxBytes: 12_500, TS: 10 * µs}}) // a tenth of the link
	require.Greater(t, f.Rate(), rate)
}

// Of two flows that begin alike one is notified: the other does not see that.
func TestHPCCTwoHistories(t *testing.T) {
	h := wiretest.Must(NewHPCC(PaperHPCC(100e9, 10*µs)))(t)
	a, b := h.Start(), h.Start()
	for i := range 10 {
		a.Notified([]Hop{{B: 100e9, QLen: 125_000}}, start.Add(time.Duration(i)*20*µs))
	}
	require.Less(t, a.Rate(), uint64(10e9))
	require.EqualValues(t, 100e9, b.Rate())
	require.EqualValues(t, 1, b.Use())
}

// At 400 Gbit/s and more nothing overflows, for any state of the hops.
func TestHPCCFastPorts(t *testing.T) {
	for _, line := range []uint64{400e9, 1600e9, maxLine} {
		f := hpccFlow(t, func(c *HPCCConfig) { c.Line, c.BaseRTT, c.RAI = line, time.Hour, maxLine })
		require.Positive(t, f.Window(1000))
		for i := range 100 {
			f.Notified([]Hop{{B: line, QLen: math.MaxUint64}, {}}, start.Add(time.Duration(i)*time.Hour))
			require.LessOrEqual(t, f.Rate(), line)
			require.GreaterOrEqual(t, f.Rate(), uint64(1e6))
		}
		f.Advance(start.AddDate(200, 0, 0))
		require.Equal(t, line, f.Rate())
	}
}

// The octets of a trace as RFC 9197 section 4.4 has them: two nodes with node_id and
// hop limit, times and depths of queues, newest first; the third has no depth.
func TestHops(t *testing.T) {
	data := []byte{
		0x00, 0x01, 4 << 3, 0x00, // namespace 1, 4 words a node, no flags, nothing left
		0xB2, 0x00, 0x00, 0x00, // bits 0, 2, 3, 6
		63, 0, 0, 7, 0, 0, 0x10, 0, 0, 0, 0, 5, 0, 1, 0x86, 0xA0, // node 7 at 4096 s and 5 ns: 100,000
		64, 0, 0, 6, 0, 0, 0x0F, 0xFF, 0, 0, 0, 1, 0, 0, 0, 0, // node 6 at 4095 s and 1 ns: none
		65, 0, 0, 5, 0, 0, 0x0F, 0xFF, 0, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF, // node 5 does not say
		66, 0, 0, 9, 0, 0, 0x0F, 0xFF, 0, 0, 0, 0, 0, 0, 0, 9, // node 9: unknown bandwidth
	}
	var trace ioam.Trace
	require.NoError(t, trace.Decode(ioam.Option{Type: ioam.OptTypePreallocated, Data: data}))
	bandwidth := func(n ioam.Node) uint64 {
		id, _ := n.NodeID()
		return map[uint32]uint64{5: 1e9, 6: 40e9, 7: 100e9}[id]
	}
	require.Equal(t, []Hop{
		{B: 100e9, QLen: 100_000, TS: 4096*time.Second + 5},
		{B: 40e9, TS: 4095*time.Second + 1},
	}, Hops(nil, &trace, ioam.TimeFormatPTP, bandwidth)[:2])
	hops := make([]Hop, 0, MaxHops)
	wiretest.NoAllocs(t, "hops", func() { hops = Hops(hops[:0], &trace, ioam.TimeFormatPTP, bandwidth) })
	require.Len(t, hops, 2)
}
