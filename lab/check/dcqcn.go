package check

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/rocecn/rocecn/lab"
	"github.com/rocecn/rocecn/lab/fluid"
	"github.com/rocecn/rocecn/lab/sim"
	"github.com/rocecn/rocecn/node/congested"
	"github.com/rocecn/rocecn/node/reaction"
)

// steady is the steady state of an incast.
type steady struct {
	queue       *lab.Histogram
	marks       float64 // the share of packets that were marked: p
	alpha, cnps float64 // the mean of all flows; of one flow, a second
	estimate    float64 // U of HPCC, the mean of all flows
	jain, use   float64 // of the link, from 0 to 1
	most        float64
}

// measureSteady runs an incast, and measures its steady state from a time on.
func (t *trial) measureSteady(cfg lab.Config, flows int, rate sim.Rate, delay, from, to sim.Time) (s steady,
	err error) {
	n, out := t.star(cfg, flows, rate, delay)
	if err := startIncast(n, 10*µs, 0); err != nil {
		return s, err
	}
	if err := t.runUntil(n, from); err != nil {
		return s, err
	}
	meter, before, sent := out.Meter(), n.Counts(), out.Sent()
	octets := make([]float64, flows)
	for i, f := range n.Flows() {
		octets[i] = -float64(f.Octets())
	}
	samples := 0.
	for at := from; at < to; at += 20 * µs {
		if err := t.runUntil(n, at); err != nil {
			return s, err
		}
		for _, f := range n.Flows() {
			s.alpha += f.Alpha()
			s.estimate += f.Use()
		}
		samples += float64(flows)
	}
	if err := t.runUntil(n, to); err != nil {
		return s, err
	}
	out.Stop()
	for i, f := range n.Flows() {
		octets[i] += float64(f.Octets())
	}
	s.estimate /= samples
	s.queue, s.alpha, s.jain, s.most = &meter.Queue, s.alpha/samples, lab.Jain(octets), float64(out.Most())
	after := n.Counts()
	s.marks = float64(after.Marked-before.Marked) / float64(after.Packets-before.Packets)
	s.cnps = float64(after.Notified-before.Notified) / (to - from).Seconds() / float64(flows)
	s.use = float64(out.Sent()-sent) / float64(rate.Octets(to-from))
	return s, t.runToEnd(n)
}

// A5: HPCC's flows at one port estimate its use as U = η + N·R_AI/C, without a standing queue. If that exceeds 1, U is
// η·R/(R−R_AI), and the queue is the excess over 1, in units of a round trip T. This is the closed form for a fluid.
// Packets of N flows coincide at random: if all are sent in equal intervals and fill the link, √(πN/8) of them wait on
// average (the mean of the greatest value of a Brownian bridge). U includes them, as q÷(C·T), and the use of the link
// is lower by the same amount. A window must hold some packets, and the random queue must be short compared with C·T,
// so with many flows the packets are small.
func checkHPCC(t *trial) (rows []Row, err error) {
	const rate, rtt, off = 100 * sim.Gbps, 13 * time.Microsecond, 0.5
	for _, c := range []struct{ flows, payload int }{{1, 1024}, {2, 1024}, {16, 256}, {64, 256}, {100, 128},
		{125, 64}, {150, 64}, {200, 128}} {
		cfg := paper(lab.HPCC)
		cfg.Payload, cfg.AckEvery, cfg.TraceHops = c.payload, 1, 1
		cfg.HPCC = func(line uint64) reaction.HPCCConfig { return reaction.PaperHPCC(line, rtt) }
		s, err := t.measureSteady(cfg, c.flows, rate, 3200*sim.Nanosecond, 6*ms, 8*ms)
		if err != nil {
			return rows, err
		}
		place := fmt.Sprintf("HPCC, %d flows at 100 Gbit/s, ", c.flows)
		u := 95 + float64(c.flows)*0.04
		if u > 100 {
			each := 100e9 / float64(c.flows)
			u = 95 * each / (each - 40e6)
		}
		trip := float64(rate.Octets(sim.From(rtt)))
		stands, most := 0., math.Sqrt(math.Pi*float64(c.flows)/8)*float64(c.payload+header+48)
		if u >= 100 {
			stands = (u - 100) / 100 * trip
			most += stands + off/100*trip
		}
		queue := s.queue.Mean()
		use := min(u-queue/trip*100, 100)
		rows = append(rows,
			Between(place+"U", "%", u, u-off, u+off, s.estimate*100),
			Between(place+"use of the link: U without the queue", "%", use, use-off, min(use+off, 100), s.use*100),
			Between(place+"queue, mean", "octets", stands, max(stands-off/100*trip, 0), most, queue))
	}
	return rows, nil
}

// A6: queue, p, α and CNPs of equal flows. The model describes a receiver that polls; one that answers immediately
// gives higher values. At 100 Gbit/s the ramp is so steep that the fixed point is close to KMin, and stable only in a
// short loop.
func fixedPoint(t *trial) (rows []Row, err error) {
	const seeds = 9
	for _, flows := range []int{2, 4, 8} {
		more, err := t.fixedPointOf(flows, 15, 600*ms)
		rows = append(rows, more...)
		if err != nil {
			return rows, err
		}
	}
	for _, flows := range []int{2, 8, 16, 32, 64} {
		end := 150 * ms
		if flows == 2 { // these oscillate most slowly
			end = 250 * ms
		}
		more, err := t.steepOf(flows, seeds, end)
		rows = append(rows, more...)
		if err != nil {
			return rows, err
		}
	}
	return rows, nil
}

// overSeeds has the results of settle for each seed.
type overSeeds struct{ queue, marks, cnps, alpha, jain []float64 }

func (t *trial) overSeeds(seeds int, cfg lab.Config, flows int, rate sim.Rate, end sim.Time) (o overSeeds, err error) {
	for seed := range seeds {
		cfg.Seed = uint64(seed)
		s, err := t.measureSteady(cfg, flows, rate, µs/4, 100*ms, end)
		if err != nil {
			return o, err
		}
		o.queue = append(o.queue, s.queue.Mean())
		o.marks, o.cnps = append(o.marks, s.marks), append(o.cnps, s.cnps)
		o.alpha, o.jain = append(o.alpha, s.alpha), append(o.jain, s.jain)
	}
	return o, nil
}

// fixedPointOf returns the rows for this many flows at 40 Gbit/s, from 100 ms on.
func (t *trial) fixedPointOf(flows, seeds int, end sim.Time) (rows []Row, err error) {
	polled, err := t.overSeeds(seeds, paper(lab.CNPPolled), flows, 40e9, end)
	if err != nil {
		return nil, err
	}
	once, err := t.overSeeds(seeds, paper(lab.CNP), flows, 40e9, end)
	if err != nil {
		return nil, err
	}
	m := fluid.Paper(flows)
	m.Packet = 1002
	at := m.Fixed()
	place := fmt.Sprintf("%d flows at 40 Gbit/s, ", flows)
	if flows <= 4 { // more flows oscillate
		rows = append(rows,
			rowWithin(place+"polled, queue", "octets", at.Queue, 0.1, polled.queue...),
			rowWithin(place+"polled, p", "", at.P, 0.1, polled.marks...),
			rowWithin(place+"polled, CNPs", "/s", at.CNPs, 0.1, polled.cnps...),
			rowWithin(place+"polled, α, falling at the end of whole intervals", "", m.PolledAlpha(), 0.1,
				polled.alpha...),
			Between(place+"answered immediately, queue", "octets",
				at.Queue*1.3, at.Queue*1.2, at.Queue*1.4, once.queue...),
			Between(place+"answered immediately, p", "", at.P*1.3, at.P*1.2, at.P*1.4, once.marks...),
			Between(place+"answered immediately, CNPs", "/s", at.CNPs*1.15, at.CNPs*1.05, at.CNPs*1.25, once.cnps...))
	}
	if flows == 4 { // with 2 flows α falls in steps that are too large
		rows = append(rows, rowWithin(place+"polled, α", "", at.Alpha, 0.1, polled.alpha...))
	}
	ratio := make([]float64, seeds)
	for i := range ratio {
		ratio[i] = once.queue[i] / polled.queue[i]
	}
	if flows <= 4 {
		rows = append(rows, Between(place+"queue, answered immediately ÷ polled", "", 1.35, 1.2, 1.5, ratio...))
	} else { // polled, they oscillate, and the mean is below the fixed point
		expected, err := t.plainRatio(flows, end)
		if err != nil {
			return rows, err
		}
		rows = append(rows,
			rowWithin(place+"queue, answered immediately ÷ polled, by packets", "", expected, 0.05, ratio...))
	}
	return append(rows,
		Between(place+"Jain's index, the least", "", 1, 0.99, 1,
			min(slices.Min(polled.jain), slices.Min(once.jain)))), nil
}

// plainRatio returns the same ratio in the model by packets: the median of some seeds.
func (t *trial) plainRatio(flows int, end sim.Time) (ratio float64, err error) {
	var ratios []float64
	for seed := range uint64(9) {
		var means [2]float64
		for i, polls := range []bool{true, false} {
			m := loop(flows, 40e9, paper(lab.CNP).RED, time.Microsecond)
			m.seed, m.polls = seed, polls
			r, err := t.plain(m, 100*time.Millisecond, time.Duration(end/sim.Nanosecond))
			if err != nil {
				return 0, err
			}
			means[i] = r.mean
		}
		ratios = append(ratios, means[1]/means[0])
	}
	ratio, _, _ = lab.Median(ratios)
	return ratio, nil
}

// plainQueue returns the mean queue with receivers that poll in the model by packets: the median of some seeds.
func (t *trial) plainQueue(flows int, red lab.RED, end sim.Time) (queue float64, err error) {
	var means []float64
	for seed := range uint64(18) {
		m := loop(flows, 100e9, red, time.Microsecond)
		m.seed, m.polls = seed, true
		r, err := t.plain(m, 100*time.Millisecond, time.Duration(end/sim.Nanosecond))
		if err != nil {
			return 0, err
		}
		means = append(means, r.mean)
	}
	queue, _, _ = lab.Median(means)
	return queue, nil
}

// steepOf returns the rows for this many flows at 100 Gbit/s with a ramp from 100 to 400 KB, 20 %. With a receiver that
// answers immediately the fixed point of the loop is stable, and packets oscillate about it. One that polls is 25 µs
// later on average: then the fluid model oscillates as well, and is integrated over time. In the deep oscillation of
// few flows the queue is empty most of the time, and its mean depends on single cuts, which the fluid model does not
// have: it is compared with packets. The mean of a run then differs by 11 % between seeds in both, so the standard
// error of the difference between the medians of 9 and 18 seeds is 1.25·11 %·√(1/9 + 1/18) = 5.6 %; three are allowed.
func (t *trial) steepOf(flows, seeds int, end sim.Time) (rows []Row, err error) {
	m := fluid.Paper(flows)
	m.Packet, m.Rate, m.KMin, m.KMax, m.PMax = 1002, 100e9, 100e3, 400e3, 0.2
	red := lab.RED{Min: 100_000, Max: 400_000, Probability: 0.2}
	polled, once := paper(lab.CNPPolled), paper(lab.CNP)
	polled.RED, once.RED = red, red
	late, err := t.overSeeds(seeds, polled, flows, 100e9, end)
	if err != nil {
		return nil, err
	}
	soon, err := t.overSeeds(seeds, once, flows, 100e9, end)
	if err != nil {
		return nil, err
	}
	packets, err := t.plain(loop(flows, 100e9, red, time.Microsecond), 100*time.Millisecond, 200*time.Millisecond)
	if err != nil {
		return nil, err
	}
	const trip, wait = 1e-6, 25e-6
	at := m.Fixed()
	place := fmt.Sprintf("%d flows at 100 Gbit/s, ", flows)
	rows = []Row{
		rowWithin(place+"answered immediately, queue, fixed point", "octets", at.Queue, 0.12, soon.queue...),
		rowWithin(place+"answered immediately, queue, by packets", "octets", packets.mean, 0.03, soon.queue...),
	}
	if flows <= 8 {
		expected, err := t.plainQueue(flows, red, end)
		if err != nil {
			return nil, err
		}
		return append(rows, rowWithin(place+"polled, queue, by packets", "octets", expected, 0.17, late.queue...)), nil
	}
	_, swinging := modelled(m, trip+wait, 0.2, 0.4)
	return append(rows, rowWithin(
		fmt.Sprintf("%spolled, queue, fluid model, its phase margin being %.0f°", place, m.Margin(trip+wait)),
		"octets", swinging, 0.2, late.queue...)), nil
}

// A7: another flow joins those that share a port. It has converged when any two flows differ by less than a
// tenth of the fair share. Flows are cut at random, so the mean of each flow over the seeds is compared. DCQCN
// as published is compared with the fluid model; with cuts as in the authors' proof of convergence, it is
// compared with their discrete model and with their bound, which is for flows of the same α.
func checkConvergence(t *trial) (rows []Row, err error) {
	for _, flows := range []int{2, 10} {
		what := fmt.Sprintf("%d flows and one more", flows)
		took, err := t.timeToShare(paper(lab.CNP), flows, 24)
		if err != nil {
			return rows, err
		}
		expected, bound := modelShared(flows), fluid.Paper(flows)
		rows = append(rows, Between(what+": the fluid model, and the published bound", "ms", expected, expected*0.75,
			min(expected*1.25, bound.Bound()*1000), took))

		m := fluid.Paper(flows + 1)
		if took, err = t.timeToShare(proven(1), flows, 24); err != nil {
			return rows, err
		}
		rows = append(rows, rowWithin(what+", as in the proof: the discrete model", "ms", m.Joining(1)*1000, 0.25,
			took))

		alpha := m.RestingAlpha()
		if took, err = t.timeToShare(proven(alpha), flows, 8); err != nil {
			return rows, err
		}
		// Packets are faster than the discrete model, which has no cuts while the queue that the new flow has
		// caused drains.
		rows = append(rows, Between(what+" of the same α, as in the proof: the bound", "ms",
			m.Bound()*1000, m.Joining(alpha)*1000/2, m.Bound()*1000, took))
	}
	return rows, nil
}

const (
	join   = 100 * ms
	window = 2 * ms
)

// timeToShare returns the number of milliseconds after which the means of the flows over the seeds differ by less
// than a tenth of the fair share, in windows of 2 ms.
func (t *trial) timeToShare(cfg lab.Config, flows int, seeds uint64) (took float64, err error) {
	const windows = 60
	networks := make([]*lab.Network, seeds)
	for seed := range networks {
		cfg.Seed = uint64(seed)
		networks[seed], _ = t.star(cfg, flows+1, 40e9, µs)
		if err := startIncast(networks[seed], 10*µs, join); err != nil {
			return 0, err
		}
		if err := t.runUntil(networks[seed], join); err != nil {
			return 0, err
		}
	}
	took = math.Inf(1)
	for i := range windows {
		sum, newest := 0., 0.
		for _, n := range networks {
			for _, f := range n.Flows() {
				sum -= float64(f.Octets())
			}
			last := n.Flows()[flows]
			newest -= float64(last.Octets())
			if err := t.runUntil(n, join+sim.Time(i+1)*window); err != nil {
				return 0, err
			}
			for _, f := range n.Flows() {
				sum += float64(f.Octets())
			}
			newest += float64(last.Octets())
		}
		others := (sum - newest) / float64(flows)
		if i > 0 && math.Abs(newest-others) < sum/float64(flows+1)/10 {
			took = (sim.Time(i)*window + window/2).Seconds() * 1000 // the middle of the window
			break
		}
	}
	for _, n := range networks {
		if err := t.runToEnd(n); err != nil {
			return 0, err
		}
	}
	return took, nil
}

// modelShared returns the same of the fluid model.
func modelShared(flows int) (took float64) {
	m := fluid.Paper(flows + 1)
	m.Packet = 1002
	took = math.Inf(1)
	classes := []fluid.Class{{Flows: float64(flows)}, {Flows: 1, Start: join.Seconds()}}
	m.Run(classes, false, 4e-6, 1e-6, 0.25, func(x fluid.Moment) {
		fair := m.Rate / m.Flows
		if x.Time > join.Seconds() && math.IsInf(took, 1) && math.Abs(x.Rates[0]-x.Rates[1]) < fair/10 &&
			x.Time > join.Seconds()+1e-3 { // not while the new flow still slows down from the rate of the port
			took = (x.Time - join.Seconds()) * 1000
		}
	})
	return took
}

// A8: ten flows are stable in a short loop and oscillate in a long one. So do sixty-four if everything above
// KMax is marked: in the fluid model, in another packet model, and here. If the ramp continues above KMax the
// fluid model is stable, and packets oscillate.
func checkStability(t *trial) (rows []Row, err error) {
	red := paper(lab.CNP).RED
	longer := lab.RED{Min: red.Min, Max: red.Min + 100*(red.Max-red.Min), Probability: 1}
	for _, c := range []struct {
		flows  int
		loop   sim.Time
		red    lab.RED
		swings bool
	}{
		{10, 4 * µs, red, false}, {10, 22 * µs, red, false}, {10, 85 * µs, red, true}, {10, 202 * µs, red, true},
		{64, 4 * µs, red, false}, {64, 85 * µs, red, true}, {64, 85 * µs, longer, true},
	} {
		var uses, queues, swings []float64
		for seed := range uint64(5) {
			cfg := paper(lab.CNP)
			cfg.Seed, cfg.RED = seed, c.red
			s, err := t.measureSteady(cfg, c.flows, 40e9, c.loop/4, 100*ms, 200*ms)
			if err != nil {
				return rows, err
			}
			uses, queues = append(uses, s.use*100), append(queues, s.queue.Mean())
			swings = append(swings, s.queue.Deviation()/s.queue.Mean())
		}
		packets, err := t.plain(loop(c.flows, 40e9, c.red, time.Duration(c.loop/sim.Nanosecond)), 100*time.Millisecond,
			200*time.Millisecond)
		if err != nil {
			return rows, err
		}
		place := fmt.Sprintf("%d flows, loop of %v, ", c.flows, c.loop)
		if c.red != red {
			place += "longer ramp, "
		}
		rows = append(rows,
			Between(place+"use of the link, by packets", "%", packets.use*100, packets.use*100-2,
				min(packets.use*100+2, 100.01), uses...),
			rowWithin(place+"queue, by packets", "octets", packets.mean, 0.2, queues...))
		expected := packets.deviation / packets.mean
		switch { // oscillation begins near a loop of 22 µs
		case c.swings:
			rows = append(rows, Between(place+"deviation ÷ mean", "", expected, 0.65, 2, swings...))
		case c.loop == 4*µs:
			rows = append(rows, Between(place+"deviation ÷ mean", "", expected, 0, 0.5, swings...))
		}
		if c.red == red {
			use := modelUse(c.flows, c.loop)
			rows = append(rows, Between(place+"use of the link, fluid model", "%", use, use-3, min(use+3, 100.01),
				uses...))
		}
	}
	return rows, nil
}

// F: the phase margins of the fluid model against those that its authors publish. If their simplifications
// change the sign, the row notes it.
func checkMargins(*trial) (rows []Row, err error) {
	for _, c := range fluid.Figures {
		m := c.Params()
		got, exact := m.Published(c.Delay), m.Margin(c.Delay)
		what := fmt.Sprintf("%d flows, loop of %.0f µs", c.Flows, c.Delay*1e6)
		if c.KMax != 200e3 {
			what += ", R_AI 10 Mbit/s, KMax 1,000 KB"
		}
		if exact > 0 != (got > 0) {
			what += fmt.Sprintf(" (%.1f without simplifications)", exact)
		}
		row := Between(what, "degrees", c.Margin, c.Margin-0.6, c.Margin+0.6, got)
		if c.Margin > 0 {
			row.Low = max(row.Low, 0)
		} else {
			row.High = min(row.High, 0)
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// modelUse returns the use of the 40 Gbit/s link in the fluid model, in percent.
func modelUse(flows int, loop sim.Time) float64 {
	m := fluid.Paper(flows)
	m.Packet = 1002
	use, _ := modelled(m, loop.Seconds(), 0.1, 0.2)
	return use
}

// modelled runs the fluid model, and returns the mean use of the link, in percent, and the mean queue.
func modelled(m fluid.Params, loop, from, to float64) (use, queue float64) {
	n := 0.
	m.Run([]fluid.Class{{Flows: m.Flows}}, false, loop, 1e-6, to, func(x fluid.Moment) {
		if x.Time >= from {
			use += x.Use
			queue += x.Queue
			n++
		}
	})
	return use / n * 100, queue / n
}

// A9: the time of the first cut, with congestion at each hop of a path, and the resulting reduction of the queue.
func checkSaved(t *trial) (rows []Row, err error) {
	const fast = 100 * sim.Gbps
	const hops = 6
	for hop := 1; hop <= hops; hop++ {
		for _, v := range []lab.Variant{lab.CNP, lab.FastCNP, lab.Proxy, lab.FCN, lab.PPFC, lab.Oracle} {
			if v == lab.FCN && hop == hops {
				continue // the egress PE's own port to the receiver is outside the WAN: it marks
			}
			expected, measured, err := t.firstCut(hop, hops, v, elsewhere{})
			if err != nil {
				return rows, err
			}
			what := fmt.Sprintf("congested at hop %d of %d, %v: first cut after", hop, hops, v)
			rows = append(rows, rowExactly(what, "ps", float64(expected), float64(measured)))
		}
		if hop == 1 || hop == hops {
			continue // the PEs ask the sender directly
		}
		expected, measured, err := t.firstCut(hop, hops, lab.PPFC, elsewhere{ingress: true})
		if err != nil {
			return rows, err
		}
		what := fmt.Sprintf("congested at hop %d of %d, ppfc to the ingress PE: first stop after", hop, hops)
		rows = append(rows, rowExactly(what, "ps", float64(expected), float64(measured)))
	}
	for away := 1; away <= 2; away++ {
		expected, measured, err := t.firstCut(3, hops, lab.Proxy, elsewhere{proxy: away})
		if err != nil {
			return rows, err
		}
		what := fmt.Sprintf("congested at hop 3 of %d, proxy %d beside the first switch: first cut after", hops, away)
		rows = append(rows, rowExactly(what, "ps", float64(expected), float64(measured)))
	}
	for _, c := range []struct {
		flows int
		leg   sim.Time
	}{{8, µs / 2}, {8, µs}, {8, 2 * µs}, {8, 5 * µs}, {32, µs}, {32, 5 * µs}} {
		const seeds = 30
		var saves []float64
		for seed := range uint64(seeds) {
			var most [2]float64
			for i, v := range []lab.Variant{lab.CNP, lab.FastCNP} {
				cfg := paper(v)
				cfg.Seed, cfg.Payload, cfg.RED = seed, 1024, lab.RED{Min: 100_000, Max: 400_000, Probability: 0.2}
				n, out := t.uneven(cfg, c.flows, fast, µs, c.leg)
				if err := startIncast(n, 200*sim.Nanosecond, 0); err != nil {
					return rows, err
				}
				if err := t.runUntil(n, 400*µs); err != nil { // the peak is where each flow was cut some times
					return rows, err
				}
				most[i] = float64(out.Most())
				if err := t.runToEnd(n); err != nil {
					return rows, err
				}
			}
			saves = append(saves, most[0]-most[1])
		}
		// The CNP's path is longer by the leg in both directions, by the marked
		// packet, and by the difference of its length to the other
		// notification's on that leg.
		extra := 2*c.leg + fast.Time(1024+header+gap) + 2*fast.Time(80+18+gap) - fast.Time(104+18+gap)
		expected := float64(c.flows-1) * float64(fast.Octets(extra)) * (1024 + header) / (1024 + header + gap)
		rows = append(rows, rowWithin(fmt.Sprintf("%d flows, receiver %v behind the queue: peak saved", c.flows, c.leg),
			"octets", expected, 0.03, saves...))
	}
	return rows, nil
}

// elsewhere is the destination of notifications, if it is not the variant's default.
type elsewhere struct {
	ingress bool // PPFCs go to the ingress PE
	proxy   int  // links between the first switch and the proxy
}

// firstCut returns when a flow through a chain of switches is cut first,
// counted from the decision: as the sum of the times on the way, and as
// measured. The link after one of the switches is slow.
func (t *trial) firstCut(hop, hops int, v lab.Variant, other elsewhere) (way, measured sim.Time, err error) {
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
	cfg.EdgeDelay = 900 * sim.Nanosecond
	cfg.Pausing = lab.Pausing{Up: []uint64{50_000}, For: time.Millisecond, Ingress: other.ingress} // stop
	n, _ := t.chain(cfg, rates, delays)
	const proxyRate, far = 40 * sim.Gbps, 300 * sim.Nanosecond
	proxy := n.Switches()[0]
	for range other.proxy {
		next := n.Switch()
		n.Link(proxy, next, proxyRate, far)
		proxy = next
	}
	n.ProxyAt(n.Switches()[0], proxy)
	f, err := n.Flow(n.Hosts()[0], n.Hosts()[1], 0)
	if err != nil {
		return 0, 0, err
	}
	f.Endless()
	for f.FirstCut() == sim.Never && n.Sim.Now() < 10*ms {
		if err := t.runUntil(n, n.Sim.Now()+µs); err != nil {
			return 0, 0, err
		}
	}
	measured = f.FirstCut() - n.Counts().Onset

	// Octets on the wire.
	const cnp, fast, told, fcn, ppfc = 80 + 18 + gap, 104 + 18 + gap, 1280 + 18 + gap, 52 + 18 + gap, 88 + 18 + gap
	link := func(i int, octets int64) sim.Time {
		t := rates[i].Time(octets) + delays[i]
		if i > 0 && i < hops { // between switches
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
		way += cfg.Pipeline // the last link of this direction ends at a switch, of the other at the receiver
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
		way += sim.Time(other.proxy) * (proxyRate.Time(told) + proxyRate.Time(cnp) + 2*(far+cfg.Pipeline))
	case lab.FCN: // the first switch is the PE; congestion there needs no FCN
		way = cfg.EdgeDelay + cfg.SenderDelay
		if hop > 1 {
			way += cfg.SwitchDelay
		}
		for i := hop - 1; i > 0; i-- {
			way += link(i, fcn)
		}
		way += link(0, cnp)
	case lab.PPFC:
		way = cfg.SwitchDelay
		for i := hop - 1; i > 0; i-- {
			way += link(i, ppfc)
		}
		if other.ingress {
			way += cfg.EdgeDelay
		} else {
			way += link(0, ppfc) + cfg.SenderDelay
		}
	}
	return way, measured, t.runToEnd(n)
}

// A10: the counters of every variant are consistent, a run can be repeated, and
// another seed gives another run with similar results. FCN runs in networks
// with routers that send FCNs.
func checkSums(t *trial) (rows []Row, err error) {
	for v := range lab.Variant(lab.Variants) {
		var prints []uint64
		var most []float64
		for _, seed := range []uint64{1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10} {
			cfg := paper(v)
			cfg.Seed = seed
			cfg.Buffer = lab.Buffer{Total: 4_000_000, Alpha: 1, PFC: true, XON: 3000, Headroom: 50_000, Reserve: 4096}
			cfg.Pausing = lab.Pausing{Up: []uint64{50_000, 200_000}, Down: []uint64{20_000, 100_000},
				From: congested.PauseFrom{Hold: 1, Stop: 2}, For: 100 * time.Microsecond,
				Interval: 5 * time.Microsecond}
			cfg.HPCC = func(line uint64) reaction.HPCCConfig { return reaction.PaperHPCC(line, 5*time.Microsecond) }
			build := t.star
			if v == lab.FCN {
				build = t.wan
			}
			n, out := build(cfg, 8, 40e9, µs)
			if err := startIncast(n, 10*µs, 0); err != nil {
				return rows, err
			}
			if err := t.runUntil(n, 3*ms); err != nil {
				return rows, err
			}
			if err := t.runToEnd(n); err != nil {
				return rows, fmt.Errorf("%v: %w", v, err)
			}
			if c := n.Counts(); v == lab.FCN && (c.FCNs == 0 || c.CNPs == 0 || c.Marked > 0) {
				return rows, fmt.Errorf("%v: %d FCNs, %d CNPs, %d marks", v, c.FCNs, c.CNPs, c.Marked)
			}
			prints = append(prints, n.Print())
			most = append(most, float64(out.Most()))
		}
		same := 0.
		if prints[0] == prints[1] {
			same = 1
		}
		slices.Sort(prints)
		rows = append(rows,
			rowExactly(fmt.Sprintf("%v: the same run again", v), "", 1, same),
			rowExactly(fmt.Sprintf("%v: ten seeds, so many runs", v), "", 10, float64(len(slices.Compact(prints)))),
			rowWithin(fmt.Sprintf("%v: peak of the queue, of nine other seeds", v), "octets", most[0], 0.1,
				most[2:]...))
	}
	return rows, nil
}

// B1: two flows to one host, with round trips of 2 µs and 1.77 ms (80 km), as Microsoft measured them with
// first-generation network cards ("Empowering Azure Storage with RDMA", NSDI 2023, appendix B): about 17 Gbit/s each,
// the queue up to 1.36 MB. These cards have the receiver that the paper describes. The paper does not describe their
// increase of the rate: here it is the one that their vendor documents. With the increase of the DCQCN paper, which no
// card implements, the result is compared with a model by packets.
func checkAzure(t *trial) (rows []Row, err error) {
	for i, c := range []struct {
		name   string
		config func(uint64) reaction.DCQCNConfig
	}{{"the cards' increase", documented}, {"the paper's increase", reaction.PaperDCQCN}} {
		measured, err := t.twoRoundTrips(c.config)
		if err != nil {
			return rows, err
		}
		if i == 0 {
			rows = append(rows,
				Between("the near flow", "Gbit/s", 17, 15, 20, measured.near...),
				Between("the far flow", "Gbit/s", 17, 15, 20, measured.far...),
				Between("near ÷ far", "", 1, 0.9, 1.1, measured.ratio...),
				Between("queue, 99th percentile", "octets", 1.36e6, 1.1e6, 1.7e6, measured.queue...))
		}
		var shares [2][]float64
		var ratio []float64
		for seed := range uint64(12) {
			m := &plain{line: 40e9, red: azureRED, wire: azurePayload + header + gap, packet: azurePayload + header,
				there: []time.Duration{500, 884_500}, back: []time.Duration{1500, 885_500}, config: c.config,
				seed: seed}
			r, err := t.plain(m, 200*time.Millisecond, 1200*time.Millisecond)
			if err != nil {
				return rows, err
			}
			for i := range shares {
				shares[i] = append(shares[i], r.shares[i]*40*azurePayload/float64(m.wire))
			}
			ratio = append(ratio, r.shares[0]/r.shares[1])
		}
		middle := func(values []float64) float64 { m, _, _ := lab.Median(values); return m }
		rows = append(rows,
			rowWithin(c.name+", by packets: the near flow", "Gbit/s", middle(shares[0]), 0.03, measured.near...),
			rowWithin(c.name+", by packets: the far flow", "Gbit/s", middle(shares[1]), 0.03, measured.far...),
			rowWithin(c.name+", by packets: near ÷ far", "", middle(ratio), 0.03, measured.ratio...))
	}
	return rows, nil
}

const azurePayload = 1024 // a path MTU of queue pairs

var azureRED = lab.RED{Min: 1_000_000, Max: 2_000_000, Probability: 0.05}

// documented is DCQCN of the paper with the increase that NVIDIA documents for its network cards, without the byte
// counter, because the unit of that is not documented.
func documented(line uint64) reaction.DCQCNConfig {
	c, card := reaction.PaperDCQCN(line), reaction.ConnectX(line)
	c.Timer, c.ByteCounter, c.Stages, c.Additive, c.Hyper = card.Timer, 0, card.Stages, card.Additive, card.Hyper
	return c
}

// roundTrips holds the results for two flows of different round trips, by seed.
type roundTrips struct{ near, far, ratio, queue []float64 }

// twoRoundTrips runs the network of B1. Each host has up to 160 writes of 64 KB under way.
func (t *trial) twoRoundTrips(config func(line uint64) reaction.DCQCNConfig) (r roundTrips, err error) {
	const rate, writes, write = 40 * sim.Gbps, 160, 64 << 10
	const from, end = 200 * ms, 1200 * ms
	for seed := range uint64(24) {
		cfg := paper(lab.CNP)
		cfg.Seed, cfg.Payload, cfg.RED, cfg.Reaction = seed+1, azurePayload, azureRED, config
		n := t.newNetwork(cfg)
		n.Done = func(f *lab.Flow, octets int64, _ sim.Time) { f.Post(octets) }
		s := n.Switch()
		hosts := []*lab.Host{n.Host(), n.Host()}
		to := n.Host()
		n.Link(hosts[0], s, rate, µs/2)
		n.Link(hosts[1], s, rate, 884_500*sim.Nanosecond)
		_, out := n.Link(to, s, rate, µs/2)
		for _, h := range hosts {
			f, err := n.Flow(h, to, 0)
			if err != nil {
				return r, err
			}
			for range writes {
				f.Post(write)
			}
		}
		if err := t.runUntil(n, from); err != nil {
			return r, err
		}
		meter := out.Meter()
		var gbps [2]float64
		for i, f := range n.Flows() {
			gbps[i] = -float64(f.Octets())
		}
		if err := t.runUntil(n, end); err != nil {
			return r, err
		}
		out.Stop()
		for i, f := range n.Flows() {
			gbps[i] = (gbps[i] + float64(f.Octets())) * 8 / 1e9 / (end - from).Seconds()
		}
		r.near, r.far, r.ratio = append(r.near, gbps[0]), append(r.far, gbps[1]), append(r.ratio, gbps[0]/gbps[1])
		r.queue = append(r.queue, float64(meter.Queue.Quantile(0.99)))
		if err := t.runToEnd(n); err != nil {
			return r, err
		}
	}
	return r, nil
}
