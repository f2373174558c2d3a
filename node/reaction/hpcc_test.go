package reaction

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/stretchr/testify/require"
)

func hpccFlow(t *testing.T, change func(*HPCCConfig)) *HPCCFlow {
	cfg := PaperHPCC(100e9, 10*µs)
	change(&cfg)
	h, err := NewHPCC(cfg)
	require.NoError(t, err)
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
	require.InDelta(t, fast, float64(f.Rate()), 1, "it reacts at once")

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
	f.Acknowledged(51, 60, at(9)[:2]) // another path begins anew
	require.Equal(t, before, f.Rate())
	f.Acknowledged(52, 60, nil)
	require.Equal(t, before, f.Rate())
}

// Whatever the hops say, the rate stays between the least and the port's.
func TestHPCCHostile(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	f := hpccFlow(t, func(*HPCCConfig) {})
	values := []uint64{0, 1, 1000, 1e9, math.MaxUint64}
	for range 100_000 {
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
	h, err := NewHPCC(HPCCConfig{Line: 25e9})
	require.NoError(t, err)
	f := h.Start()
	f.Acknowledged(1, 2, []Hop{{B: 1}})
	require.EqualValues(t, 25e9, f.Rate())
	require.EqualValues(t, uint64(math.MaxUint64), f.Window(1000))
	var none HPCCFlow
	require.Equal(t, HPCCFlow{}, none.Again())
}

func TestHPCCWrongConfigs(t *testing.T) {
	for key, change := range map[string]func(*HPCCConfig){
		"Line":    func(c *HPCCConfig) { c.Line = 0 },
		"Min":     func(c *HPCCConfig) { c.Min = c.Line + 1 },
		"Eta":     func(c *HPCCConfig) { c.Eta = math.NaN() },
		"BaseRTT": func(c *HPCCConfig) { c.BaseRTT = 0 },
		"RAI":     func(c *HPCCConfig) { c.RAI = MaxLine + 1 },
	} {
		cfg := PaperHPCC(100e9, 10*µs)
		change(&cfg)
		_, err := NewHPCC(cfg)
		var wrong *ConfigError
		require.True(t, errors.As(err, &wrong), key)
		require.Equal(t, key, wrong.Key)
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
