package lab

import (
	"context"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/lab/sim"
	messages "github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/congested"
	"github.com/rocecn/rocecn/node/reaction"
	"github.com/rocecn/rocecn/rocev2"
)

const (
	µs = sim.Microsecond
	ms = sim.Millisecond
)

// Networks share nothing: concurrent runs have the same results as separate ones.
func TestConcurrentRuns(t *testing.T) {
	run := func(v Variant) uint64 {
		cfg := dcqcn(v)
		cfg.HPCC, cfg.Pausing = hpccOf(5*time.Microsecond), pausing()
		n, _ := incast(cfg, 4, 100*sim.Gbps, µs)
		n.Until(200 * µs)
		return n.Print()
	}
	var prints [2][Variants]uint64
	var all sync.WaitGroup
	for i := range prints {
		for v := range Variants {
			all.Go(func() { prints[i][v] = run(Variant(v)) })
		}
	}
	all.Wait()
	require.Equal(t, prints[0], prints[1])
	require.Equal(t, prints[0][CNP], run(CNP))
}

func TestHistogram(t *testing.T) {
	wiretest.Alone(t)
	var h Histogram
	for v := range uint64(100_000) {
		require.InEpsilon(t, float64(v)+1, float64(bucketMiddle(bucketIndex(v)))+1, 1./64)
		if v > 0 {
			require.GreaterOrEqual(t, bucketIndex(v), bucketIndex(v-1))
		}
		h.Add(v, 2)
	}
	require.InDelta(t, 49_999.5, h.Mean(), 1e-6)
	require.InEpsilon(t, 50_000, float64(h.Quantile(0.5)), 1./64)
	require.InEpsilon(t, 99_000, float64(h.Quantile(0.99)), 1./64)
	require.InEpsilon(t, 28_867.5, h.Deviation(), 0.001)
	require.Equal(t, uint64(99_999), h.Max())
	require.Equal(t, uint64(99_999), h.Quantile(1))
	require.Equal(t, uint64(200_000), h.Count())
	var none Histogram
	require.Zero(t, none.Mean()+none.Deviation()+float64(none.Quantile(0.5)))
	require.InDelta(t, 1, Jain([]float64{3, 3, 3}), 1e-12)
	require.InDelta(t, 1./3, Jain([]float64{0, 0, 3}), 1e-12)
}

// The median of values and its interval: of nine from the second to the eighth, of sixteen from the fourth to the
// thirteenth (the table of Dixon and Massey for the sign test at 5 %).
func TestMedian(t *testing.T) {
	for _, c := range []struct {
		n           int
		m, from, to float64
	}{{1, 1, 1, 1}, {2, 1.5, 1, 2}, {5, 3, 1, 5}, {8, 4.5, 1, 8}, {9, 5, 2, 8}, {10, 5.5, 2, 9}, {12, 6.5, 3, 10},
		{16, 8.5, 4, 13}, {20, 10.5, 6, 15}, {25, 13, 8, 18}} {
		var values []float64
		for i := range c.n {
			values = append(values, float64((i*7)%c.n)+1)
		}
		if c.n%7 == 0 {
			continue
		}
		m, from, to := Median(values)
		require.Equal(t, []float64{c.m, c.from, c.to}, []float64{m, from, to}, "%d values", c.n)
	}

	// Of many the bounds are 1.96 deviations of the coins away.
	for _, n := range []int{1000, 1100, 20_000} {
		values := make([]float64, n)
		for i := range values {
			values[i] = float64(i)
		}
		m, from, to := Median(values)
		require.InDelta(t, m-0.98*math.Sqrt(float64(n)), from, 1.5)
		require.InDelta(t, m+0.98*math.Sqrt(float64(n)), to, 1.5)
	}
}

// star joins hosts to a switch by links of 1 µs; the last host is the receiver.
func star(cfg Config, senders int, rate sim.Rate, delay sim.Time) (*Network, *Port) {
	n := must(New(cfg))
	s := n.Switch()
	var out *Port
	for range senders + 1 {
		_, out = n.Link(n.Host(), s, rate, delay)
	}
	return n, out
}

func incast(cfg Config, senders int, rate sim.Rate, delay sim.Time) (*Network, *Port) {
	n, out := star(cfg, senders, rate, delay)
	jitter := sim.NewStream(cfg.Seed, "starts", 0)
	for i := range senders {
		f := must(n.Flow(n.Hosts()[i], n.Hosts()[senders], 0))
		n.RunAt(sim.Time(jitter.Below(uint64(µs))), f.Endless)
	}
	return n, out
}

func dcqcn(v Variant) Config {
	return Config{
		Seed: 1, Variant: v, RED: RED{Min: 100_000, Max: 400_000, Probability: 0.2},
		Interval: 50 * time.Microsecond, AckEvery: 16, Timeout: 10 * ms,
		DataPriority: 3, AckPriority: 3, NotificationPriority: 6,
		ReceiverDelay: µs, SwitchDelay: µs, SenderDelay: µs,
		Reaction: reaction.PaperDCQCN,
	}
}

// hpccOf returns HPCC's parameters for a round trip.
func hpccOf(rtt time.Duration) func(line uint64) reaction.HPCCConfig {
	return func(line uint64) reaction.HPCCConfig { return reaction.PaperHPCC(line, rtt) }
}

// pausing holds from 100 KB on and stops from 400 KB on, for up to a millisecond.
func pausing() Pausing {
	return Pausing{
		Up: []uint64{100_000, 400_000}, Down: []uint64{50_000, 200_000},
		From: congested.PauseFrom{Hold: 1, Stop: 2}, For: time.Millisecond, Interval: 2 * time.Microsecond,
	}
}

// Each variant notifies as it says, and adds up.
func TestVariants(t *testing.T) {
	wiretest.Alone(t)
	peaks := map[Variant]int64{}
	for v := range Variant(Variants) {
		cfg := dcqcn(v)
		cfg.HPCC, cfg.Pausing = hpccOf(5*time.Microsecond), pausing()
		n, out := incast(cfg, 8, 100*sim.Gbps, µs)
		n.Until(2 * ms)
		require.NoError(t, n.Check())
		c := n.Counts()
		peaks[v] = out.Most()
		in := func(all ...Variant) bool { return slices.Contains(all, v) }
		require.Equal(t, in(CNP, CNPPolled, FastCNPMarks, FCN, PPFCAndCNP), c.Marked > 0 && c.CNPs > 0, v)
		require.Equal(t, in(FastCNP, FastCNPMarks, Oracle, HPCCFastCNP, HPCCFastCNPOwn, HPCCBoth), c.FastCNPs > 0, v)
		require.Equal(t, in(Proxy), c.Proxied > 0, v)
		require.Equal(t, in(PPFC, PPFCAndCNP), c.PPFCs > 0 && c.Released > 0 && c.Braked > 0, v)
		require.Equal(t, !in(None, HPCC, PPFC), c.Notified > 0 && c.Congested > 0, v)
		require.Equal(t, !in(None, HPCC, Oracle), c.Notice > 0, v)
		require.GreaterOrEqual(t, c.CNPs+c.FastCNPs, c.Notified, v)
		require.Zero(t, c.Lost+c.Again+c.Pauses+c.FCNs+c.Unlabeled, v)
		require.Positive(t, c.Delivered, v)
		if in(HPCCFastCNP, HPCCFastCNPOwn) { // the news is in the switch's own record
			require.Equal(t, in(HPCCFastCNP), n.Flows()[0].Rate() == 100*sim.Gbps)
		}
	}
	require.Greater(t, peaks[None], 20*peaks[CNP])
	require.Greater(t, peaks[CNPPolled], peaks[CNP])
	require.Greater(t, peaks[CNP], peaks[FastCNP])
	require.Greater(t, peaks[FastCNP], peaks[Oracle])
	require.Equal(t, peaks[CNP], peaks[FCN], "there is no WAN: switches mark")
	require.Greater(t, peaks[None], 20*peaks[PPFC])
	require.LessOrEqual(t, peaks[HPCCBoth], peaks[HPCC])

	cfg := dcqcn(FastCNPMarks)
	cfg.Join = 50 * time.Microsecond
	n, _ := incast(cfg, 8, 100*sim.Gbps, µs)
	n.Until(2 * ms)
	require.Positive(t, n.Counts().Again, "the CNP reports the same as the Fast CNP")
}

// A wire on which much flies has one event to come, and takes no more memory than that.
func TestLongWire(t *testing.T) {
	wiretest.Alone(t)
	n, _ := star(dcqcn(None), 1, 400*sim.Gbps, 5*ms)
	must(n.Flow(n.Hosts()[0], n.Hosts()[1], 0)).Endless()
	n.Until(9 * ms)
	require.NoError(t, n.Check())
	require.Greater(t, n.pool.used, 300_000)
	require.Less(t, n.Sim.Pending(), 10)
}

// After every flow has allocated its memory, a network runs without allocating, in all variants, and its packets take
// no more memory in a longer run.
func TestNoAllocations(t *testing.T) {
	wiretest.Alone(t)
	for v := range Variant(Variants) {
		cfg := dcqcn(v)
		cfg.RED = RED{Min: 5000, Max: 200_000, Probability: 0.01}
		cfg.HPCC, cfg.Pausing = hpccOf(10*time.Microsecond), pausing()
		cfg.Pausing.Up, cfg.Pausing.Down = []uint64{20_000, 100_000}, []uint64{10_000, 50_000}
		cfg.Timeout = 0
		n, _ := star(cfg, 4, 40*sim.Gbps, µs)
		rate := sim.Rate(0)
		if v == None {
			rate = 9 * sim.Gbps // the queue must not grow
		}
		for i, h := range n.Hosts()[:4] {
			n.RunAt(sim.Time(i)*100*sim.Nanosecond, must(n.Flow(h, n.Hosts()[4], rate)).Endless)
		}
		n.Until(20 * ms)
		before, pages := n.Counts(), len(n.pool.pages)
		wiretest.NoAllocs(t, v.String(), func() { n.Until(n.Sim.Now() + 50*µs) })
		n.Until(30 * ms)
		require.Equal(t, pages, len(n.pool.pages), v)
		c := n.Counts()
		require.True(t, v.HPCC() || v.Decides() == (c.Notified > before.Notified), v)
		require.Equal(t, v.usesPPFC(), c.Braked > before.Braked, v)
	}
	for _, row := range []struct {
		name   string
		change func(*Config)
	}{
		{"fcn, WAN", func(c *Config) { c.Variant = FCN }},
		{"fcn, WAN, learning", func(c *Config) { c.Variant, c.Cold = FCN, true }},
		{"proxy, learning", func(c *Config) { c.Variant, c.Cold = Proxy, true }},
		{"fastcnp, learning", func(c *Config) { c.Variant, c.ColdHosts = FastCNP, true }},
		{"fcn, a window", func(c *Config) { c.Window = 1 << 20 }},
		{"ppfc and CNP, of the PE", func(c *Config) {
			c.Variant, c.Pausing.Ingress, c.RED = PPFCAndCNP, true, RED{Min: 5000, Max: 200_000, Probability: 0.01}
			c.Pausing.Up, c.Pausing.Down = []uint64{20_000, 100_000}, []uint64{10_000, 50_000}
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			cfg := dcqcn(FCN)
			cfg.Pausing = pausing()
			row.change(&cfg)
			n, _ := wan(cfg, 2, 100*sim.Gbps, 10*µs)
			n.Until(20 * ms)
			before := n.Counts()
			wiretest.NoAllocs(t, row.name, func() { n.Until(n.Sim.Now() + 50*µs) })
			n.Until(40 * ms)
			c := n.Counts()
			require.Positive(t, c.FCNs+c.Proxied+c.Braked+c.FastCNPs)
			require.True(t, cfg.Cold || cfg.Variant != FCN || c.FCNs > before.FCNs)
		})
	}
}

// A message that is alone takes as long as Alone says, to the picosecond.
func TestAlone(t *testing.T) {
	wiretest.Alone(t)
	speeds := []sim.Rate{100e9, 40e9, 400e9, 10e9, 25e9}
	for _, octets := range []int64{1, 4, 1000, 1024, 1025, 2048, 5000, 100_001, 1_000_000} {
		for switches := 1; switches < len(speeds); switches++ {
			n := must(New(Config{Pipeline: 600 * sim.Nanosecond, AckEvery: 16, AckPriority: 6, DataPriority: 3}))
			var at Node = n.Host()
			for i := range switches {
				next := n.Switch()
				n.Link(at, next, speeds[i], sim.Time(i)*µs)
				at = next
			}
			n.Link(at, n.Host(), speeds[switches], 3*µs)
			from, to := n.Hosts()[0], n.Hosts()[1]
			took := sim.Time(0)
			n.Done = func(_ *Flow, size int64, posted sim.Time) {
				require.Equal(t, octets, size)
				took = n.Sim.Now() - posted
			}
			must(n.Flow(from, to, 0)).Post(octets)
			n.Until(10 * ms)
			require.NoError(t, n.Check())
			require.Equal(t, n.Alone(from, to, octets), took, "%d octets, %d switches", octets, switches)
		}
	}
}

// The same holds at the rate of a flow, except that its first packets arrive one packet earlier after a pause.
func TestAloneAtRate(t *testing.T) {
	for _, rate := range []sim.Rate{3e9, 25e9, 77e9} {
		for _, octets := range []int64{1, 1025, 5000, 100_001} {
			n, _ := star(Config{Pipeline: 600 * sim.Nanosecond, AckEvery: 16}, 1, 40*sim.Gbps, µs)
			var took []sim.Time
			n.Done = func(_ *Flow, _ int64, posted sim.Time) { took = append(took, n.Sim.Now()-posted) }
			f := must(n.Flow(n.Hosts()[0], n.Hosts()[1], rate))
			f.Post(octets)
			n.RunAt(5*ms, func() { f.Post(octets) })
			n.Until(10 * ms)
			require.NoError(t, n.Check())
			alone := f.Alone(octets)
			require.GreaterOrEqual(t, alone, n.Alone(f.Source(), f.Destination(), octets))
			require.Equal(t, alone, took[0], "%d octets at %d", octets, rate)
			require.LessOrEqual(t, alone-took[1], rate.Time(1126), "one packet sooner at most")
		}
	}
}

// So it is through a WAN, where each packet is longer by its tunnel, both ways.
func TestAloneInTunnel(t *testing.T) {
	wiretest.Alone(t)
	for _, slow := range []int{0, 1, 2, 3, 4, 5, -1} {
		for _, octets := range []int64{1, 1000, 1024, 1025, 5000, 100_001} {
			n := must(New(Config{Pipeline: 600 * sim.Nanosecond, AckEvery: 16, AckPriority: 6, DataPriority: 3}))
			line := []Node{n.Host(), n.Switch(), n.PE(), n.Router(), n.PE(), n.Switch(), n.Host()}
			for i := range line[1:] {
				rate := 100 * sim.Gbps
				if i == slow {
					rate = 7 * sim.Gbps
				}
				n.Link(line[i], line[i+1], rate, sim.Time(i)*µs)
			}
			from, to := n.Hosts()[0], n.Hosts()[1]
			took := sim.Time(0)
			n.Done = func(_ *Flow, _ int64, posted sim.Time) { took = n.Sim.Now() - posted }
			must(n.Flow(from, to, 0)).Post(octets)
			n.Until(10 * ms)
			require.NoError(t, n.Check())
			require.Equal(t, n.Alone(from, to, octets), took, "%d octets, link %d slow", octets, slow)
		}
	}
}

// measured returns the results in which the variations of a network below must agree.
func measured(t *testing.T, n *Network, out *Port, end sim.Time) (peak, sent float64, c Counts) {
	n.Until(end)
	require.NoError(t, n.Check())
	require.Positive(t, n.Counts().Notified+n.Counts().Braked)
	return float64(out.Most()), float64(out.Sent()), n.Counts()
}

// Check finds a frame on a wire that was taken away, a packet that is in no queue or link, and a wrong account.
func TestCheck(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(n *Network, out *Port)
	}{
		{"in a pause", func(n *Network, out *Port) { r, k := n.pool.get(); out.transmitPacket(r, k) }},
		{"packets wait", func(n *Network, _ *Port) { n.pool.get() }},
		{"packets of data", func(n *Network, _ *Port) { n.count.Packets++ }},
		{"octets sent", func(n *Network, _ *Port) { n.count.Octets++ }},
		{"overtook", func(n *Network, _ *Port) { n.count.Reordered++ }},
		{"the buffer says", func(n *Network, _ *Port) { n.switches[0].used++ }},
		{"the account says", func(n *Network, _ *Port) { n.switches[0].ports[2].in.own++ }},
		{"queue 3 has", func(_ *Network, out *Port) { out.queues[3].octets-- }},
		{"are stored", func(n *Network, _ *Port) { n.switches[0].stored++ }},
		{"octets wait, ", func(n *Network, _ *Port) { n.switches[0].over-- }},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := dcqcn(CNP)
			cfg.Buffer = Buffer{Total: 10_000_000, Alpha: 1, PFC: true, XOFF: 50_000, XON: 3000, Headroom: 60_000,
				Reserve: 4096}
			n, out := incast(cfg, 8, 100*sim.Gbps, µs)
			n.Until(20 * µs)
			require.NoError(t, n.Check())
			c.spoil(n, out)
			require.ErrorContains(t, n.Check(), c.name)
		})
	}
	// In a pause no wire has to be taken.
	n, out := star(dcqcn(None), 1, 100*sim.Gbps, µs)
	n.Until(0)
	out.pausePriority(3, ms)
	r, k := n.pool.get()
	k.prio = 3
	out.transmitPacket(r, k)
	require.ErrorContains(t, n.Check(), "in a pause")
}

// The print depends on every octet of the arrivals, not only on their length.
func TestPrintOfOctets(t *testing.T) {
	n, out := star(dcqcn(None), 1, 100*sim.Gbps, µs)
	notice := func(ip ...byte) *packet {
		_, k := n.pool.get()
		k.kind, k.octets = message, 40
		n.pool.setOctets(k, append(n.pool.buffer(k), ip...))
		return k
	}
	ip := []byte("0123456789abcdefghijk")
	prints := map[uint64]bool{}
	print := func(k *packet) {
		n.print = 1
		n.recordPacket(out, k)
		prints[n.print] = true
	}
	print(notice(ip...))
	print(notice(ip...))
	require.Len(t, prints, 1)
	for i := range ip {
		for bit := range 8 {
			other := slices.Clone(ip)
			other[i] ^= 1 << bit
			print(notice(other...))
		}
	}
	require.Len(t, prints, 1+8*len(ip))

	clear(prints)
	whole := packet{kind: data, octets: 1000, egress: 3, label: 7, flow: 1, number: 2}
	print(&whole)
	for _, change := range []func(k *packet){
		func(k *packet) { k.ce = true }, func(k *packet) { k.number++ }, func(k *packet) { k.flow++ },
		func(k *packet) { k.label++ }, func(k *packet) { k.octets++ }, func(k *packet) { k.kind = ack },
	} {
		k := whole
		change(&k)
		print(&k)
	}
	require.Len(t, prints, 7)
}

// A reaction point of the caller's own runs as the laboratory's does: with the same one the run is the same.
func TestControl(t *testing.T) {
	wiretest.Alone(t)
	run := func(change func(*Config)) *Network {
		cfg := dcqcn(CNP)
		change(&cfg)
		n, _ := star(cfg, 8, 40*sim.Gbps, µs)
		for i, h := range n.Hosts()[:8] {
			f := must(n.Flow(h, n.Hosts()[8], 0))
			n.RunAt(sim.Time(i)*µs, func() { f.Post(1_000_000) })
			n.RunAt(ms+sim.Time(i)*µs, func() { f.Renew(); f.Post(300_000) })
		}
		n.Until(4 * ms)
		require.NoError(t, n.Check())
		require.Positive(t, n.Counts().Notified)
		return n
	}
	want, got := run(func(*Config) {}), run(func(cfg *Config) {
		cfg.Reaction = nil
		cfg.Control = func(line uint64) Control {
			return &dcqcnControl{DCQCNFlow: must(reaction.NewDCQCN(reaction.PaperDCQCN(line))).Start()}
		}
	})
	require.Equal(t, want.Print(), got.Print())
	require.Equal(t, want.Flows()[3].Rate(), got.Flows()[3].Rate())
}

// A network of half the rates and twice the times is the same network, slower.
func TestScaling(t *testing.T) {
	wiretest.Alone(t)
	for _, v := range []Variant{CNP, FastCNP, Proxy, PPFC} {
		t.Run(v.String(), func(t *testing.T) { scaling(t, v) })
	}
}

func scaling(t *testing.T, v Variant) {
	build := func(k sim.Time) (*Network, *Port) {
		cfg := dcqcn(v)
		cfg.ProxyDelay, cfg.Pausing = k*µs, pausing()
		cfg.Pausing.For, cfg.Pausing.Interval = cfg.Pausing.For*time.Duration(k), cfg.Pausing.Interval*time.Duration(k)
		cfg.ReceiverDelay, cfg.SwitchDelay, cfg.SenderDelay, cfg.Pipeline = k*µs, k*µs, k*µs, k*µs/2
		cfg.Interval *= time.Duration(k)
		cfg.Reaction = func(line uint64) reaction.DCQCNConfig {
			c := reaction.PaperDCQCN(line)
			c.Additive, c.Min = c.Additive/uint64(k), c.Min/uint64(k)
			c.Timer, c.AlphaTimer = c.Timer*time.Duration(k), c.AlphaTimer*time.Duration(k)
			return c
		}
		n, out := star(cfg, 8, 200*sim.Gbps/sim.Rate(k), k*µs)
		for i, h := range n.Hosts()[:8] {
			f := must(n.Flow(h, n.Hosts()[8], 0))
			n.RunAt(sim.Time(i)*k*100*sim.Nanosecond, f.Endless)
		}
		return n, out
	}
	n1, out1 := build(1)
	n2, out2 := build(2)
	peak1, sent1, c1 := measured(t, n1, out1, 4*ms)
	peak2, sent2, c2 := measured(t, n2, out2, 8*ms)
	require.InEpsilon(t, peak1, peak2, 0.001)
	require.InEpsilon(t, sent1, sent2, 0.001)
	require.InDelta(t, c1.FastCNPs+c1.CNPs, c2.FastCNPs+c2.CNPs, 1)
	require.InEpsilon(t, float64(c1.PPFCs)+1, float64(c2.PPFCs)+1, 0.01)
}

// Whether hosts are made in one order or the other changes nothing that matters, where their ports have the same
// numbers: RED draws by these.
func TestRenumbering(t *testing.T) {
	wiretest.Alone(t)
	build := func(first bool) (*Network, *Port) {
		n := must(New(dcqcn(CNP)))
		s := n.Switch()
		var to *Host
		if first {
			to = n.Host()
		}
		var from []*Host
		for range 8 {
			h := n.Host()
			n.Link(h, s, 100*sim.Gbps, µs)
			from = append(from, h)
		}
		if !first {
			to = n.Host()
		}
		_, out := n.Link(to, s, 100*sim.Gbps, µs)
		for i, h := range from {
			f := must(n.Flow(h, to, 0))
			n.RunAt(sim.Time(i)*100*sim.Nanosecond, f.Endless)
		}
		return n, out
	}
	n1, out1 := build(true)
	n2, out2 := build(false)
	peak1, sent1, _ := measured(t, n1, out1, 4*ms)
	peak2, sent2, _ := measured(t, n2, out2, 4*ms)
	require.InEpsilon(t, peak1, peak2, 0.01)
	require.InEpsilon(t, sent1, sent2, 0.01)
}

// A link may as well be two of half its delay, with a switch between them that
// takes next to no time.
func TestSplitLink(t *testing.T) {
	wiretest.Alone(t)
	build := func(split bool) (*Network, *Port) {
		n := must(New(dcqcn(CNP)))
		s := n.Switch()
		var out *Port
		for range 8 {
			n.Link(n.Host(), s, 100*sim.Gbps, µs)
		}
		if split {
			far := n.Switch()
			out, _ = n.Link(s, far, 100*sim.Gbps, 2*µs)
			n.Link(far, n.Host(), 100_000*sim.Gbps, 2*µs)
		} else {
			out, _ = n.Link(s, n.Host(), 100*sim.Gbps, 4*µs)
		}
		for i, h := range n.Hosts()[:8] {
			f := must(n.Flow(h, n.Hosts()[8], 0))
			n.RunAt(sim.Time(i)*100*sim.Nanosecond, f.Endless)
		}
		return n, out
	}
	n1, out1 := build(false)
	n2, out2 := build(true)
	peak1, sent1, _ := measured(t, n1, out1, 4*ms)
	peak2, sent2, _ := measured(t, n2, out2, 4*ms)
	require.InEpsilon(t, peak1, peak2, 0.01)
	require.InEpsilon(t, sent1, sent2, 0.01)
}

// A notification without delay is the limit of notifications with small delays.
func TestOracleIsTheLimit(t *testing.T) {
	wiretest.Alone(t)
	peak := func(v Variant, delay sim.Time) float64 {
		cfg := dcqcn(v)
		cfg.SwitchDelay, cfg.SenderDelay = delay, delay
		n := must(New(cfg))
		s := n.Switch()
		for range 8 { // the notification has this way; data come by it too, a little later
			n.LinkUneven(n.Host(), s, 100*sim.Gbps, µs, delay)
		}
		out, _ := n.Link(s, n.Host(), 100*sim.Gbps, µs)
		for i, h := range n.Hosts()[:8] {
			f := must(n.Flow(h, n.Hosts()[8], 0))
			n.RunAt(sim.Time(i)*100*sim.Nanosecond, f.Endless)
		}
		most, _, _ := measured(t, n, out, ms)
		return most
	}
	oracle := peak(Oracle, 0)
	before := 1.
	for _, delay := range []sim.Time{4 * µs, µs, µs / 4, 0} {
		off := peak(FastCNP, delay)/oracle - 1
		require.Less(t, off, before)
		before = off
	}
	require.InDelta(t, 0, before, 0.005, "the rest is the octets on the wire")
}

// Flows of one host: one that was cut does not slow another one, which has its own history.
func TestTwoHistories(t *testing.T) {
	n, _ := star(dcqcn(None), 1, 40*sim.Gbps, µs)
	a := must(n.Flow(n.Hosts()[0], n.Hosts()[1], 20e9))
	b := must(n.Flow(n.Hosts()[0], n.Hosts()[1], 20e9))
	a.Endless()
	b.Endless()
	accepted := node.Decision{Action: node.ActionAccepted, Message: messages.KindCNP, Request: node.RequestSlowDown,
		KnownQP: true}
	n.RunAt(100*µs, func() { a.applyNotification(&accepted); a.applyNotification(&accepted) })
	n.Until(200 * µs)
	require.Equal(t, 20*sim.Gbps, b.Rate())
	require.Less(t, a.Rate(), 10*sim.Gbps)
	require.InEpsilon(t, 20e9*200e-6/8, float64(b.Octets()), 0.12)
	require.Less(t, float64(a.Octets()), 0.8*float64(b.Octets()))
}

// A pause of all quanta lasts as long as the standard says, and ends then.
func TestPauseExpires(t *testing.T) {
	for _, c := range []struct {
		rate sim.Rate
		want sim.Time
	}{{40e9, 838_848 * 1000}, {100e9, 335_539_200}, {400e9, 83_884_800}} {
		t.Run(fmt.Sprint(c.rate), func(t *testing.T) {
			n, out := star(dcqcn(None), 1, c.rate, 0)
			f := must(n.Flow(n.Hosts()[0], n.Hosts()[1], 0))
			f.Endless()
			n.Until(10 * µs)
			n.sendPause(n.Switches()[0].Ports()[0], maxQuanta)
			n.Until(20 * µs)
			stopped := out.Sent()
			from := n.Hosts()[0].Port()
			n.Until(c.want + 9*µs)
			require.Equal(t, stopped, out.Sent())
			n.Until(c.want + 12*µs)
			require.Greater(t, out.Sent(), stopped)
			require.Equal(t, c.want, from.Paused(), c.rate)
		})
	}
}

// Lost packets are retransmitted, and each message arrives complete and in order, with any window.
func TestLoss(t *testing.T) {
	for _, window := range []int64{0, 64 * 1024} {
		losesAndRepeats(t, window)
	}
}

func losesAndRepeats(t *testing.T, window int64) {
	cfg := dcqcn(CNP)
	cfg.Buffer, cfg.Timeout, cfg.Window = Buffer{Total: 100_000, Alpha: 1}, 200*µs, window
	n, _ := star(cfg, 8, 100*sim.Gbps, µs)
	finished := map[int]int64{}
	n.Done = func(f *Flow, octets int64, _ sim.Time) { finished[f.Number()] += octets }
	for i, h := range n.Hosts()[:8] {
		f := must(n.Flow(h, n.Hosts()[8], 0))
		n.RunAt(sim.Time(i)*100, func() {
			f.Post(150_000)
			f.Post(1)
			f.Post(4096)
		})
	}
	n.Until(100 * ms)
	require.NoError(t, n.Check())
	require.Greater(t, n.Counts().LostData, uint64(100))
	require.Len(t, finished, 8)
	for i, octets := range finished {
		require.EqualValues(t, 150_000+1+4096, octets, "flow %d", i)
	}
	require.Zero(t, n.pool.used, "the network is empty")
}

// A flow with packets so long that the timeout comes before an acknowledgement is due continues all the same: the first
// retransmission is acknowledged, and with it all packets that have arrived.
func TestSlowFlow(t *testing.T) {
	cfg := dcqcn(None) // an acknowledgement every 16 packets of 9 ms each, a timeout of 10 ms
	n, _ := star(cfg, 1, 100*sim.Gbps, µs)
	f := must(n.Flow(n.Hosts()[0], n.Hosts()[1], sim.Rate(1e6)))
	f.Post(100 * 1024)
	n.Until(3 * sim.Second)
	require.NoError(t, n.Check())
	require.Empty(t, maps.Collect(f.Waiting()))
	require.Less(t, f.draws, uint32(2*100+1), "one retransmission a timeout")
}

// With a window of four packets, of which the last is acknowledged, each four take the time that they take alone.
func TestWindow(t *testing.T) {
	cfg := dcqcn(None)
	cfg.Window, cfg.AckEvery = 5*1024-1, 4
	n, _ := star(cfg, 1, 100*sim.Gbps, 100*µs)
	from, to := n.Hosts()[0], n.Hosts()[1]
	f := must(n.Flow(from, to, 0))
	var done []sim.Time
	n.Done = func(*Flow, int64, sim.Time) { done = append(done, n.Sim.Now()) }
	f.Post(40 * 1024)
	four := n.Alone(from, to, 4*1024)
	for n.Sim.Now() < 10*four {
		n.Until(n.Sim.Now() + µs)
		require.LessOrEqual(t, f.next-f.unacked, uint32(4))
	}
	require.Equal(t, []sim.Time{10 * four}, done)
	require.NoError(t, n.Check())
}

// A packet is one line of a processor's cache, which the garbage collector does not scan.
func TestPacketSize(t *testing.T) {
	of := reflect.TypeFor[packet]()
	require.EqualValues(t, 64, of.Size())
	for i := range of.NumField() {
		require.Contains(t, []reflect.Kind{reflect.Bool, reflect.Uint8, reflect.Int32, reflect.Uint32, reflect.Int64},
			of.Field(i).Type.Kind(), of.Field(i).Name)
	}
}

// A meter weighs each depth by its duration.
func TestMeter(t *testing.T) {
	m := Meter{since: 100, depth: 7}
	m.advanceTo(110, 20) // 10 of depth 7
	m.advanceTo(110, 30)
	m.advanceTo(140, 0) // 30 of depth 30
	m.advanceTo(200, 5) // 60 of depth 0
	m.stop(200)
	require.Equal(t, uint64(100), m.Queue.Count())
	require.InDelta(t, (10*7.+30*30)/100, m.Queue.Mean(), 1e-12)
	require.Equal(t, uint64(30), m.Queue.Max())
}

func TestHostHasOneLink(t *testing.T) {
	n := must(New(Config{}))
	h, s := n.Host(), n.Switch()
	n.Link(h, s, sim.Gbps, 0)
	require.Panics(t, func() { n.Link(h, s, sim.Gbps, 0) })
}

// An acknowledgement that arrives when the sender has gone back lets it continue after the packets that arrived.
func TestAcknowledgedAfterGoingBack(t *testing.T) {
	n, _ := star(dcqcn(None), 1, 100*sim.Gbps, 100*µs)
	f := must(n.Flow(n.Hosts()[0], n.Hosts()[1], 0))
	f.Post(10 * 1024)
	f.Post(10 * 1024)
	n.Until(50 * µs)
	require.EqualValues(t, 20, f.next)
	f.goBackN()
	require.EqualValues(t, 1, f.next, "the first one is on the wire again")
	f.handleAck(0, &packet{kind: ack, number: 16})
	require.EqualValues(t, 16, f.next)
	require.Equal(t, 1, f.sending)
	require.Equal(t, map[int64]sim.Time{10 * 1024: 0}, maps.Collect(f.Waiting()))
	f.handleAck(0, &packet{kind: ack, number: 21}) // beyond the posted packets
	require.EqualValues(t, 16, f.unacked)
	n.Until(10 * ms)
	require.NoError(t, n.Check())
	require.Empty(t, maps.Collect(f.Waiting()))
}

// Four flows of 40 Gbit/s share a port, at their fixed point: an op is 100 µs.
func BenchmarkLab(b *testing.B) {
	for _, v := range []Variant{None, CNP, FastCNP, PPFC, HPCC, HPCCFastCNPOwn} {
		b.Run(v.String(), func(b *testing.B) {
			cfg := dcqcn(v)
			cfg.RED = RED{Min: 5000, Max: 200_000, Probability: 0.01}
			cfg.HPCC, cfg.Pausing = hpccOf(10*time.Microsecond), pausing()
			n, _ := star(cfg, 4, 40*sim.Gbps, µs)
			rate := 40 * sim.Gbps
			if v == None {
				rate /= 4 // the queue must not grow
			}
			for _, h := range n.Hosts()[:4] {
				must(n.Flow(h, n.Hosts()[4], rate)).Endless()
			}
			n.Until(30 * ms)
			events, hops := n.Sim.Events(), n.Counts().Hops
			b.ReportAllocs()
			b.ResetTimer()
			began := wiretest.CPUTime()
			for range b.N {
				n.Until(n.Sim.Now() + 100*µs)
			}
			s := (wiretest.CPUTime() - began).Seconds() * 1e6
			b.ReportMetric(float64(n.Sim.Events()-events)/s, "Mevents/s")
			b.ReportMetric(float64(n.Counts().Hops-hops)/s, "Mhops/s")
		})
	}
}

// A tap receives the arriving packets with correct octets, and changes nothing.
func TestTap(t *testing.T) {
	run := func(taps bool) (print uint64, seen map[string]int) {
		seen = map[string]int{}
		cfg := dcqcn(CNP)
		cfg.RED = RED{Min: 5000, Max: 20_000, Probability: 0.5}
		n := wiretest.Must(New(cfg))(t)
		s, receiver := n.Switch(), n.Host()
		at, from := n.Link(receiver, s, 10*sim.Gbps, sim.Microsecond)
		for range 3 {
			h := n.Host()
			n.Link(h, s, 10*sim.Gbps, sim.Microsecond)
			f := wiretest.Must(n.Flow(h, receiver, 0))(t)
			n.RunAt(0, func() { f.Post(100_000) })
		}
		if taps {
			var frame rocev2.Frame
			var m messages.Message
			for _, p := range []*Port{at, from} {
				p.Tap(func(octets []byte) {
					frame.Decode(octets, rocev2.DecodeOptions{})
					m.DecodeView(frame.Outer(), messages.Config{})
					seen[m.Kind.String()]++
				})
			}
		}
		n.Until(sim.Millisecond)
		return n.Print(), seen
	}
	with, seen := run(true)
	without, _ := run(false)
	require.Equal(t, without, with)
	require.Equal(t, 3*98, seen["data"], "of 1,024 octets: %v", seen)
	require.Positive(t, seen["cnp"])
	require.Positive(t, seen["ack"])
	require.Len(t, seen, 3, "%v", seen)
}

// ends is a context that has ended when it was asked so many times.
type ends struct {
	context.Context
	left int
}

func (c *ends) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

// An interrupt during the computation of paths or the creation of roles takes effect at the next node; running the
// network again gives the same run.
func TestInterruptedRoute(t *testing.T) {
	build := func() *Network {
		n, _ := incast(dcqcn(FastCNP), 8, 100*sim.Gbps, µs)
		return n
	}
	want := build()
	want.Until(100 * µs)
	const places = 9 + 1 + 9 + 1 // hosts and switches, twice
	for asked := range places {
		n := build()
		require.ErrorIs(t, n.Run(&ends{t.Context(), asked}, 100*µs, nil), context.Canceled)
		require.Zero(t, n.Sim.Events(), "%d", asked)
		require.NoError(t, n.Check())
		require.NoError(t, n.Run(t.Context(), 100*µs, nil))
		require.Equal(t, want.Print(), n.Print(), "%d", asked)
	}
	n := build()
	require.ErrorIs(t, n.Run(&ends{t.Context(), places + 1}, sim.Second, nil), context.Canceled)
	require.EqualValues(t, 100_000, n.Sim.Events(), "events between two looks at the context")
}

// A flow needs hosts with links.
func TestFlowWithoutLink(t *testing.T) {
	n := must(New(dcqcn(CNP)))
	a, b, s := n.Host(), n.Host(), n.Switch()
	n.Link(a, s, sim.Gbps, 0)
	_, err := n.Flow(a, b, 0)
	require.ErrorIs(t, err, errLink)
	_, err = n.Flow(b, a, sim.Gbps)
	require.ErrorIs(t, err, errLink)
}

// Ports decide about a packet independently: with the probability p at each of h switches, the share of packets
// that arrive marked is 1−(1−p)^h, and Fast CNPs a packet are p·h.
func TestREDOfSeveralPorts(t *testing.T) {
	wiretest.Alone(t)
	const p = 0.1
	for h := 1; h <= 6; h++ {
		for _, v := range []Variant{CNP, FastCNP} {
			n := must(New(Config{
				Seed: 1, Variant: v, AckEvery: 64, DataPriority: 3, AckPriority: 3, NotificationPriority: 6,
				// The middle of a ramp so long that the queue does not matter.
				RED: RED{Min: -1e12, Max: 1e12, Probability: 2 * p},
			}))
			from, to := n.Host(), n.Host()
			at := Node(from)
			for range h {
				s := n.Switch()
				n.Link(at, s, 100*sim.Gbps, sim.Microsecond)
				at = s
			}
			n.Link(at, to, 100*sim.Gbps, sim.Microsecond)
			f, err := n.Flow(from, to, 10*sim.Gbps)
			if err != nil {
				t.Fatal(err)
			}
			f.Endless()
			n.Until(20 * sim.Millisecond)
			c := n.Counts()
			packets := float64(c.Delivered)
			got, share := float64(c.CNPs)/packets, 1-math.Pow(1-p, float64(h))
			off := 5 * math.Sqrt(share*(1-share)/packets)
			if v == FastCNP {
				got, share = float64(c.FastCNPs)/packets, p*float64(h)
				off = 5 * math.Sqrt(p*(1-p)*float64(h)/packets)
			}
			off += 10 / packets // on the way at the end
			if math.Abs(got-share) > off {
				t.Errorf("%v, %d switches: %.4f notifications a packet of %d, should be %.4f ± %.4f", v, h, got,
					c.Delivered, share, off)
			}
		}
	}
}
