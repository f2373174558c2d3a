package check

import (
	"fmt"
	"slices"
	"time"

	"github.com/rocecn/rocecn/lab"
	"github.com/rocecn/rocecn/lab/fluid"
	"github.com/rocecn/rocecn/lab/sim"
	"github.com/rocecn/rocecn/node/reaction"
)

// steady is what an incast comes to.
type steady struct {
	queue       *lab.Histogram
	alpha, cnps float64 // the mean of all flows; of one flow, a second
	estimate    float64 // U of HPCC, the mean of all flows
	jain, use   float64 // of the link, from 0 to 1
	most        float64
}

// settle runs an incast, and measures it from a time on.
func settle(cfg lab.Config, flows int, rate sim.Rate, delay, from, to sim.Time) (s steady, err error) {
	n, out := star(cfg, flows, rate, delay)
	if err := incast(n, 10*µs, 0); err != nil {
		return s, err
	}
	n.Until(from)
	meter, before, sent := out.Meter(), n.Counts(), out.Sent()
	octets := make([]float64, flows)
	for i, f := range n.Flows() {
		octets[i] = -float64(f.Octets())
	}
	samples := 0.
	for at := from; at < to; at += 20 * µs {
		n.Until(at)
		for _, f := range n.Flows() {
			s.alpha += f.Alpha()
			s.estimate += f.Use()
		}
		samples += float64(flows)
	}
	n.Until(to)
	out.Stop()
	for i, f := range n.Flows() {
		octets[i] += float64(f.Octets())
	}
	s.estimate /= samples
	s.queue, s.alpha, s.jain, s.most = &meter.Queue, s.alpha/samples, lab.Jain(octets), float64(out.Most())
	s.cnps = float64(n.Counts().Notified-before.Notified) / (to - from).Seconds() / float64(flows)
	s.use = float64(out.Sent()-sent) / float64(rate.Octets(to-from))
	return s, n.Check()
}

// A5: what flows of HPCC at one port estimate of it is η + N·R_AI/C, and no queue
// stands. Packets of flows that meet by chance count to the estimate, so that the
// link itself is used a little less. From 145 flows on a window is less than a
// packet, and neither holds.
func hpcc() (rows []Row, err error) {
	const rate, rtt = 100 * sim.Gbps, 13 * time.Microsecond
	for _, flows := range []int{1, 2, 16, 64, 100} {
		cfg := paper(lab.HPCC)
		cfg.Payload, cfg.AckEvery = 1024, 1
		cfg.HPCC = func(line uint64) reaction.HPCCConfig { return reaction.PaperHPCC(line, rtt) }
		s, err := settle(cfg, flows, rate, 3200*sim.Nanosecond, 6*ms, 8*ms)
		if err != nil {
			return nil, err
		}
		place := fmt.Sprintf("HPCC, %d flows at 100 Gbit/s, ", flows)
		u := 95 + float64(flows)*0.04
		rows = append(rows,
			between(place+"U", "%", u, u-0.5, u+0.5, s.estimate*100),
			between(place+"use of the link", "%", u, u-4, u+0.1, s.use*100),
			between(place+"queue, mean", "octets", 0, 0, 8*1106, s.queue.Mean()))
	}
	return rows, nil
}

// A6: queue, α and CNPs of equal flows. A receiver that polls is what the model
// describes; one that answers at once comes out higher.
func fixedPoint() (rows []Row, err error) {
	for _, flows := range []int{2, 4, 8} {
		more, err := fixedPointOf(flows, 3, 600*ms)
		if err != nil {
			return nil, err
		}
		rows = append(rows, more...)
	}
	return rows, nil
}

// fixedPointOf returns the rows for so many flows: the means of some seeds, from
// 100 ms on.
func fixedPointOf(flows int, seeds uint64, end sim.Time) (rows []Row, err error) {
	var mean [2]steady
	var queue [2]float64
	for i, v := range []lab.Variant{lab.CNPPolled, lab.CNP} {
		mean[i].jain = 1
		for seed := range seeds {
			cfg := paper(v)
			cfg.Seed = seed
			s, err := settle(cfg, flows, 40e9, µs/4, 100*ms, end)
			if err != nil {
				return nil, err
			}
			queue[i] += s.queue.Mean() / float64(seeds)
			mean[i].alpha += s.alpha / float64(seeds)
			mean[i].cnps += s.cnps / float64(seeds)
			mean[i].jain = min(mean[i].jain, s.jain)
		}
	}
	m := fluid.Paper(flows)
	m.Packet = 1002
	at := m.Fixed()
	polled, once := &mean[0], &mean[1]
	place := fmt.Sprintf("%d flows at 40 Gbit/s, ", flows)
	if flows <= 4 { // more of them swing
		rows = append(rows,
			within(place+"polled, queue", "octets", at.Queue, 0.1, queue[0]),
			within(place+"polled, CNPs", "/s", at.CNPs, 0.1, polled.cnps),
			within(place+"polled, α", "", at.Alpha, 0.15, polled.alpha),
			between(place+"at once, queue", "octets", at.Queue*1.3, at.Queue*1.15, at.Queue*1.4, queue[1]),
			between(place+"at once, CNPs", "/s", at.CNPs*1.15, at.CNPs*1.05, at.CNPs*1.25, once.cnps))
	}
	return append(rows,
		between(place+"queue at once ÷ polled", "", 1.35, 1.2, 1.5, queue[1]/queue[0]),
		between(place+"Jain's index, the least", "", 1, 0.99, 1, min(polled.jain, once.jain))), nil
}

// A7: another flow joins those that share a port, and soon has as much as they.
func convergence() (rows []Row, err error) {
	for _, c := range []struct {
		flows int
		bound float64 // ms, of the fluid model
	}{{2, 96.9}, {10, 35.9}} {
		const join, window = 100 * ms, 4 * ms
		n, _ := star(paper(lab.CNP), c.flows+1, 40e9, µs)
		if err := incast(n, 10*µs, join); err != nil {
			return nil, err
		}
		n.Until(join)
		before := make([]float64, c.flows+1)
		got := make([]float64, c.flows+1)
		took := sim.Never
		for at := sim.Time(0); at < 150*ms && took == sim.Never; at += window {
			for i, f := range n.Flows() {
				before[i] = float64(f.Octets())
			}
			n.Until(join + at + window)
			sum := 0.
			for i, f := range n.Flows() {
				got[i] = float64(f.Octets()) - before[i]
				sum += got[i]
			}
			// The newcomer is within a tenth of a fair share of the mean of the others.
			fair := sum / float64(c.flows+1)
			others := (sum - got[c.flows]) / float64(c.flows)
			if d := got[c.flows] - others; d < fair/10 && d > -fair/10 {
				took = at + window
			}
		}
		rows = append(rows, between(fmt.Sprintf("%d flows and one more, until it has its share", c.flows), "ms",
			c.bound, float64(window/ms), c.bound, took.Seconds()*1000))
	}
	return rows, nil
}

// A8: ten flows are stable in a short loop and swing in a long one. Sixty-four
// are stable in a short one; the authors of the model report that they are in the
// long one too.
func stability() (rows []Row, err error) {
	for _, c := range []struct {
		flows               int
		loop                sim.Time
		expected, low, high float64
		differs             string
	}{
		{10, 4 * µs, 100, 99.5, 100.01, ""},
		{10, 22 * µs, 99.8, 99, 100.01, ""},
		{10, 85 * µs, 93, 90, 96, ""},
		{10, 202 * µs, 84, 81, 87, ""},
		{64, 4 * µs, 100, 99.5, 100.01, ""},
		{64, 85 * µs, 100, 99, 100.01, "swings here, by packets; stable in the fluid model"},
	} {
		s, err := settle(paper(lab.CNP), c.flows, 40e9, c.loop/4, 100*ms, 200*ms)
		if err != nil {
			return nil, err
		}
		row := between(fmt.Sprintf("%d flows, loop of %v, use of the link", c.flows, c.loop), "%", c.expected,
			c.low, c.high, s.use*100)
		row.Differs = c.differs
		rows = append(rows, row)
	}
	return rows, nil
}

// A9: when the first cut comes, with congestion at each hop of a path, and how much
// lower the queue stays.
func saved() (rows []Row, err error) {
	const fast = 100 * sim.Gbps
	const hops = 6
	for hop := 1; hop <= hops; hop++ {
		for _, v := range []lab.Variant{lab.CNP, lab.FastCNP, lab.Proxy, lab.Oracle} {
			expected, measured, err := firstCut(hop, hops, v)
			if err != nil {
				return nil, err
			}
			what := fmt.Sprintf("congested at hop %d of %d, %v: first cut after", hop, hops, v)
			rows = append(rows, exactly(what, "ps", float64(expected), float64(measured)))
		}
	}
	for _, c := range []struct {
		flows int
		leg   sim.Time
	}{{8, µs / 2}, {8, µs}, {8, 2 * µs}, {8, 5 * µs}, {32, µs}, {32, 5 * µs}} {
		const seeds = 5
		var most [2]float64 // the mean of them
		for i, v := range []lab.Variant{lab.CNP, lab.FastCNP} {
			for seed := range uint64(seeds) {
				cfg := paper(v)
				cfg.Seed, cfg.Payload, cfg.RED = seed, 1024, lab.RED{Min: 100_000, Max: 400_000, Probability: 0.2}
				n, out := uneven(cfg, c.flows, fast, µs, c.leg)
				if err := incast(n, 200*sim.Nanosecond, 0); err != nil {
					return nil, err
				}
				n.Until(ms)
				most[i] += float64(out.Most()) / seeds
			}
		}
		// The CNP's way is longer by the leg there and back, by the packet that is
		// marked, and by what it is longer on that leg and shorter on the other.
		extra := 2*c.leg + fast.Time(1024+header+gap) + 2*fast.Time(80+18+gap) - fast.Time(104+18+gap)
		expected := float64(c.flows-1) * float64(fast.Octets(extra)) * (1024 + header) / (1024 + header + gap)
		room := max(expected*0.03, float64(c.flows)*(1024+header)) // 3 %, or a packet of each flow
		rows = append(rows, between(fmt.Sprintf("%d flows, receiver %v behind the queue: peak saved", c.flows,
			c.leg), "octets",
			expected, expected-room, expected+room, most[0]-most[1]))
	}
	return rows, nil
}

// firstCut returns when a flow through a row of switches is cut first, counted from
// the decision: the sum of the times on the way, and what was measured. The link
// behind one of the switches is slow.
func firstCut(hop, hops int, v lab.Variant) (way, measured sim.Time, err error) {
	rates, delays := make([]sim.Rate, hops+1), make([]sim.Time, hops+1)
	for i := range rates {
		rates[i], delays[i] = 100*sim.Gbps, sim.Time(i+1)*µs
	}
	rates[hop] /= 2
	cfg := paper(v)
	cfg.Payload, cfg.AckEvery = 4096, 1<<30
	cfg.RED = lab.RED{Min: 50_000, Max: 50_000, Probability: 1}
	cfg.Pipeline, cfg.ReceiverDelay = 600*sim.Nanosecond, 1500*sim.Nanosecond
	cfg.SwitchDelay, cfg.ProxyDelay, cfg.SenderDelay = µs, 700*sim.Nanosecond, 2*µs
	n, _ := chain(cfg, rates, delays)
	f, err := n.Flow(n.Hosts()[0], n.Hosts()[1], 0)
	if err != nil {
		return 0, 0, err
	}
	f.Endless()
	for f.FirstCut() == sim.Never && n.Sim.Now() < 10*ms {
		n.Until(n.Sim.Now() + µs)
	}
	measured = f.FirstCut() - n.Counts().Onset

	const cnp, fast, told = 80 + 18 + gap, 104 + 18 + gap, 1280 + 18 + gap // octets on the wire
	link := func(i int, octets int64) sim.Time {
		t := rates[i].Time(octets) + delays[i]
		if i > 0 && i < hops { // to a switch, in either direction
			t += cfg.Pipeline
		}
		return t
	}
	switch v {
	case lab.CNP:
		way = cfg.ReceiverDelay + cfg.SenderDelay
		for i := hop; i <= hops; i++ {
			way += link(i, 4096+header+gap)
		}
		way += cfg.Pipeline // the last link back is to a switch, there it was to the receiver
		for i := hops; i >= 0; i-- {
			way += link(i, cnp)
		}
	case lab.FastCNP:
		way = cfg.SwitchDelay + cfg.SenderDelay
		for i := hop - 1; i >= 0; i-- {
			way += link(i, fast)
		}
	case lab.Proxy: // the first switch
		way = cfg.SwitchDelay + cfg.ProxyDelay + cfg.SenderDelay
		for i := hop - 1; i > 0; i-- {
			way += link(i, told)
		}
		way += link(0, cnp)
	}
	return way, measured, nil
}

// A10: every variant adds up, a run can be repeated, and another seed is another
// run, but not by much.
func sums() (rows []Row, err error) {
	for v := range lab.Variant(lab.Variants) {
		var prints []uint64
		var most []float64
		for _, seed := range []uint64{1, 1, 2, 3, 4, 5} {
			cfg := paper(v)
			cfg.Seed = seed
			cfg.Buffer = lab.Buffer{Total: 4_000_000, Alpha: 1, PFC: true, XON: 3000, Headroom: 50_000}
			cfg.HPCC = func(line uint64) reaction.HPCCConfig { return reaction.PaperHPCC(line, 5*time.Microsecond) }
			n, out := star(cfg, 8, 40e9, µs)
			if err := incast(n, 10*µs, 0); err != nil {
				return nil, err
			}
			n.Until(3 * ms)
			if err := n.Check(); err != nil {
				return nil, fmt.Errorf("%v: %w", v, err)
			}
			prints = append(prints, n.Print())
			most = append(most, float64(out.Most()))
		}
		same, others := 0., 0.
		if prints[0] == prints[1] {
			same = 1
		}
		for _, p := range prints[2:] {
			if !slices.Contains(prints[:2], p) {
				others++
			}
		}
		rows = append(rows,
			exactly(fmt.Sprintf("%v: the same run again", v), "", 1, same),
			exactly(fmt.Sprintf("%v: four seeds, other runs", v), "", 4, others),
			within(fmt.Sprintf("%v: peak of the queue, of another seed", v), "octets", most[0], 0.1, most[2]))
	}
	return rows, nil
}

// B1: two flows to one host, of round trips of 2 µs and 1.77 ms (80 km), as
// Microsoft measured them with first-generation network cards ("Empowering Azure
// Storage with RDMA", NSDI 2023, appendix B): about 17 Gbit/s each, the queue up
// to 1.36 MB.
func azure() (rows []Row, err error) {
	cfg := paper(lab.CNP)
	cfg.RED = lab.RED{Min: 1_000_000, Max: 2_000_000, Probability: 0.05}
	n := lab.New(cfg)
	s := n.Switch()
	near, far, to := n.Host(), n.Host(), n.Host()
	const rate = 40 * sim.Gbps
	n.Link(near, s, rate, µs/2)
	n.Link(far, s, rate, 884_500*sim.Nanosecond)
	_, out := n.Link(to, s, rate, µs/2)
	for _, from := range []*lab.Host{near, far} {
		f, err := n.Flow(from, to, 0)
		if err != nil {
			return nil, err
		}
		f.Endless()
	}
	const from, end = 200 * ms, 1200 * ms
	n.Until(from)
	meter := out.Meter()
	var gbps [2]float64
	for i, f := range n.Flows() {
		gbps[i] = -float64(f.Octets())
	}
	n.Until(end)
	out.Stop()
	for i, f := range n.Flows() {
		gbps[i] = (gbps[i] + float64(f.Octets())) * 8 / 1e9 / (end - from).Seconds()
	}
	return []Row{
		between("the near flow", "Gbit/s", 17, 15, 20, gbps[0]),
		between("the far flow", "Gbit/s", 17, 15, 20, gbps[1]),
		between("near ÷ far", "", 1, 0.9, 1.1, gbps[0]/gbps[1]),
		between("queue, 99th percentile", "octets", 1.36e6, 1.1e6, 1.7e6, float64(meter.Queue.Quantile(0.99))),
	}, n.Check()
}
