package check

import (
	"fmt"

	"github.com/rocecn/rocecn/lab"
	"github.com/rocecn/rocecn/lab/sim"
)

// A1: one packet, and the last packet of a message, through up to six switches.
// A single packet takes the sum of its times; after other packets, one packet
// leaves in each packet time of the slowest link.
func checkLatency(t *trial) (rows []Row, err error) {
	speeds := []sim.Rate{100e9, 40e9, 400e9, 10e9, 25e9, 800e9, 50e9}
	for switches := 1; switches <= 6; switches++ {
		for _, packets := range []int64{1, 50} {
			cfg := quiet()
			cfg.Pipeline = 700 * sim.Nanosecond
			rates := speeds[:switches+1]
			var delays []sim.Time
			var expected, slowest sim.Time
			for i, rate := range rates {
				delays = append(delays, sim.Time(i+1)*µs/3)
				one := rate.Time(1024 + header + gap)
				expected += one + delays[i]
				slowest = max(slowest, one)
			}
			expected += sim.Time(switches)*cfg.Pipeline + sim.Time(packets-1)*slowest
			n, _ := t.chain(cfg, rates, delays)
			f, err := n.Flow(n.Hosts()[0], n.Hosts()[1], 0)
			if err != nil {
				return rows, err
			}
			var arrived sim.Time
			n.Delivered = func(*lab.Flow, sim.Time) { arrived = n.Sim.Now() }
			f.Post(packets * 1024)
			if err := t.runUntil(n, ms); err != nil {
				return rows, err
			}
			what := fmt.Sprintf("%d switches, packet %d", switches, packets)
			rows = append(rows, rowExactly(what, "ps", float64(expected), float64(arrived)))
			if err := t.runToEnd(n); err != nil {
				return rows, err
			}
		}
	}
	return rows, nil
}

// poisson posts messages of one packet, with random times between them.
type poisson struct {
	n      *lab.Network
	f      *lab.Flow
	id     sim.ID
	random sim.Stream
	mean   sim.Time
	left   int
}

func (p *poisson) Handle(uint32) {
	p.f.Post(1024)
	if p.left--; p.left > 0 {
		p.n.Sim.Schedule(p.n.Sim.Now()+p.random.Exponential(p.mean), sim.Application, p.id, 0)
	}
}

// A2: Poisson arrivals at a port of 100 Gbit/s by a link that is a thousand times
// as fast.
func checkWaiting(t *trial) (rows []Row, err error) {
	for _, c := range []struct {
		load, share float64
		packets     int
	}{{0.3, 0.02, 400_000}, {0.5, 0.02, 400_000}, {0.8, 0.02, 1_000_000}, {0.9, 0.05, 1_000_000}} {
		const out = 100 * sim.Gbps
		n := t.newNetwork(quiet())
		s, from, to := n.Switch(), n.Host(), n.Host()
		n.Link(from, s, 1000*out, 0)
		n.Link(to, s, out, 0)
		f, err := n.Flow(from, to, 0)
		if err != nil {
			return rows, err
		}
		service := out.Time(1024 + header + gap)
		alone := service + (1000 * out).Time(1024+header+gap)
		var sum, none float64
		n.Delivered = func(_ *lab.Flow, sent sim.Time) {
			wait := n.Sim.Now() - sent - alone
			sum += float64(wait)
			if wait <= 0 {
				none++
			}
		}
		p := &poisson{n: n, f: f, random: n.Stream("arrivals", 0), mean: sim.Time(float64(service) / c.load),
			left: c.packets}
		p.id = n.Sim.Add(p)
		n.Sim.Schedule(0, sim.Application, p.id, 0)
		if err := t.runUntil(n, 100*sim.Second); err != nil {
			return rows, err
		}
		if err := t.runToEnd(n); err != nil {
			return rows, err
		}
		expected := c.load / (2 * (1 - c.load)) * float64(service) / 1000
		count := float64(c.packets)
		rows = append(rows,
			rowWithin(fmt.Sprintf("load %v, mean wait", c.load), "ns", expected, c.share, sum/count/1000),
			rowWithin(fmt.Sprintf("load %v, share without wait", c.load), "", 1-c.load, c.share, none/count))
	}
	return rows, nil
}

// A3: flows on one host, each at its rate, and acknowledgements, which never wait
// for more than the frame that is on the wire.
func checkPacing(t *trial) (rows []Row, err error) {
	const line, length, stagger = 100 * sim.Gbps, 10 * ms, 50 * sim.Nanosecond
	cfg := quiet()
	cfg.AckEvery = 1 << 30
	n, _ := t.star(cfg, 1, line, µs)
	from, to := n.Hosts()[0], n.Hosts()[1]
	rates := []sim.Rate{1e9, 2e9, 3e9, 5e9, 7e9, 11e9, 13e9, 17e9}
	got := make([]float64, len(rates))
	for i, rate := range rates {
		f, err := n.Flow(from, to, rate)
		if err != nil {
			return rows, err
		}
		n.RunAt(sim.Time(i)*stagger, f.Endless)
	}
	n.Delivered = func(f *lab.Flow, _ sim.Time) { got[f.Number()]++ }
	if err := t.runUntil(n, length); err != nil {
		return rows, err
	}
	for i, rate := range rates {
		// The k-th packet is due k intervals after the start. The last packet that could have arrived may have waited
		// for packets of other flows, and still be on its way.
		const packet = 1024 + header + gap
		onTheWay := 2*µs + 2*line.Time(packet)
		expected := float64((length-onTheWay-sim.Time(i)*stagger)/rate.Time(packet) + 1)
		rows = append(rows, Between(fmt.Sprintf("packets at %d Gbit/s in 10 ms", rate/1e9), "", expected,
			expected-1, expected, got[i]))
	}
	if err := t.runToEnd(n); err != nil {
		return rows, err
	}

	// A packet while the opposite direction is fully loaded: its
	// acknowledgement waits for the frame on the wire at the host and at the
	// switch, but not for the queue there, and the packet itself waits for an acknowledgement at each.
	n, _ = t.star(quiet(), 2, line, µs)
	from, to = n.Hosts()[0], n.Hosts()[2]
	load, err := n.Flow(from, to, 0)
	if err != nil {
		return rows, err
	}
	more, err := n.Flow(n.Hosts()[1], to, line/20) // makes a queue, which only grows
	if err != nil {
		return rows, err
	}
	probe, err := n.Flow(to, from, 0)
	if err != nil {
		return rows, err
	}
	load.Endless()
	more.Endless()
	most := sim.Time(0)
	n.Done = func(_ *lab.Flow, _ int64, posted sim.Time) { most = max(most, n.Sim.Now()-posted) }
	moments := n.Stream("probes", 0)
	for i := range 1000 {
		n.RunAt(sim.Time(i)*20*µs+sim.Time(moments.Below(uint64(10*µs))), func() { probe.Post(1024) })
	}
	if err := t.runUntil(n, 30*ms); err != nil {
		return rows, err
	}
	frame, ack := line.Time(1024+header+gap), line.Time(header+4+gap)
	return append(rows, Between("the longest wait of 1,000 round trips against full load", "ps",
		float64(2*frame), float64(frame), float64(2*frame+2*ack), float64(most-n.Alone(to, from, 1024)))), t.runToEnd(n)
}

// A4: the headroom that PFC needs, with links of up to 80 km. Until a pause takes effect there arrive
//
//	2·delay·rate   what is under way, and what is sent until the pause has come
//	a frame        on the wire at the switch that pauses: the pause waits for it
//	a frame        on the wire at the paused one, which ends it
//	the pause      while it is sent
//	response       of the paused one
//	the pipeline   of the switch that pauses: frames in it are not yet in the queue
//
// Headroom is filled by whole frames, so the sum is rounded up to the next one. It needs the worst case: a frame that
// has just begun at the switch that pauses. So the first run finds the moment of the pause, and in the others a frame
// begins directly before it.
func checkHeadroom(t *trial) (rows []Row, err error) {
	const fast, stalled = 40 * sim.Gbps, 10 * sim.Gbps / 1000
	const frame = 1024 + header
	for _, km := range []int{0, 1, 10, 80} {
		delay := sim.Time(km) * 5 * µs
		needs := headroomOf(fast, delay)
		link := pfcLink{fast: fast, slow: stalled, delay: delay, xoff: 100_000, xon: 10_000, headroom: needs}
		link.octets = (link.xoff + needs + link.xoff/2) / frame * 1024 // the switch before has no need to pause
		moment, err := t.pauseOf(link)
		if err != nil {
			return rows, err
		}
		link.against = moment
		end := 4*ms + 20*delay
		n, _, err := t.measurePaused(link, 0, end)
		if err != nil {
			return rows, err
		}
		place := fmt.Sprintf("%d km, ", km)
		again := 1 + int64((end-moment)/(fast.Time(64*0xFFFF)/2)) // a pause is repeated when half of it is over
		rows = append(rows,
			rowExactly(place+"headroom used", "octets", float64(needs), float64(n.Switches()[1].Headroom())),
			rowExactly(place+"lost with that", "packets", 0, float64(n.Counts().Lost)),
			rowExactly(place+"pauses", "", float64(again), float64(n.Counts().Pauses)))
		link.headroom -= frame
		if n, _, err = t.measurePaused(link, 0, end); err != nil {
			return rows, err
		}
		rows = append(rows, rowExactly(place+"lost with a packet less", "packets", 1, float64(n.Counts().Lost)))
	}
	more, err := t.longPFC()
	return append(rows, more...), err
}

// headroomOf returns the octets of headroom that a link needs.
func headroomOf(rate sim.Rate, delay sim.Time) int64 {
	const frame = 1024 + header
	one := rate.Time(frame + gap)
	time := 2*delay + 2*one + rate.Time(64+gap) + pauseResponse + pausePipeline
	return int64((time+one-1)/one) * frame
}

const (
	pauseResponse = 500 * sim.Nanosecond
	pausePipeline = 600 * sim.Nanosecond
)

// longPFC is 80 km at 100 Gbit/s, paused from 6 MB on. Once data may come again, it takes 2·delay until it is there. A
// link of 50 Gbit/s has enough to send until then, one of 80 Gbit/s has not. In a period of that,
//
//	sent until data comes, and then nothing    2·delay
//	it fills up again, at fast − slow          XOFF÷(fast−slow)
//	a pause is on its way, and it fills on     2·delay
//	it empties down to XOFF                    2·delay·(fast−slow)÷slow
//
// XOFF being octets of frames, and the rates those of the wire.
func (t *trial) longPFC() (rows []Row, err error) {
	const fast, delay, xoff, frame = 100 * sim.Gbps, 400 * µs, 6_000_000, 1024 + header
	for _, slow := range []sim.Rate{50 * sim.Gbps, 80 * sim.Gbps} {
		const wire = xoff / frame * (frame + gap)
		trip := 2*delay + pauseResponse + pausePipeline + fast.Time(64+gap) + 2*fast.Time(frame+gap)
		fills := (fast - slow).Time(wire) + trip
		empties := sim.Time(float64(trip) * float64(fast-slow) / float64(slow))
		period, idle := trip+fills+empties, max(trip-slow.Time(wire), 0)
		link := pfcLink{fast: fast, slow: slow, delay: delay, xoff: xoff, headroom: headroomOf(fast, delay)}
		n, use, err := t.measurePaused(link, 3*period, 10*period)
		if err != nil {
			return rows, err
		}
		expected := 100.
		if idle > 0 {
			expected = 100 * (1 - float64(idle)/float64(period))
		}
		place := fmt.Sprintf("80 km, 100 Gbit/s, XOFF 6 MB, behind it %d Gbit/s: ", slow/sim.Gbps)
		rows = append(rows, Between(place+"its use", "%", expected, expected-0.1, min(expected+0.1, 100.01), use),
			rowExactly(place+"lost", "packets", 0, float64(n.Counts().Lost)))
	}
	return rows, nil
}

// A pfcLink is a link between two switches, with PFC, and a slower link from the second one to the receiver.
type pfcLink struct {
	fast, slow          sim.Rate
	delay               sim.Time
	xoff, xon, headroom int64
	octets              int64    // that are sent; 0: there is no end
	against             sim.Time // a frame the other way begins right before that; 0: none does
}

func (t *trial) pfcNetwork(l pfcLink) (n *lab.Network, after *lab.Port, err error) {
	const frame = 1024 + header
	cfg := quiet()
	cfg.PauseDelay, cfg.Pipeline, cfg.AckEvery = pauseResponse, pausePipeline, 1<<30
	cfg.Buffer = lab.Buffer{Total: 100_000_000, Alpha: 1, PFC: true, XOFF: l.xoff, XON: l.xon, Headroom: l.headroom}
	n, links := t.chain(cfg, []sim.Rate{l.fast, l.fast, l.slow}, []sim.Time{0, l.delay, 0})
	f, err := n.Flow(n.Hosts()[0], n.Hosts()[1], 0)
	if err != nil {
		return nil, nil, err
	}
	other := n.Host()
	n.Link(other, n.Switches()[1], l.fast, 0)
	back, err := n.Flow(other, n.Hosts()[0], 1e5) // its second packet comes when all is over
	if err != nil {
		return nil, nil, err
	}
	if l.octets > 0 {
		f.Post(l.octets)
	} else {
		f.Endless()
	}
	if at := l.against - 1 - l.fast.Time(frame+gap) - pausePipeline; l.against > 0 {
		n.RunAt(at, back.Endless)
	}
	return n, links[2], nil
}

// pauseOf returns when the first pause is made.
func (t *trial) pauseOf(l pfcLink) (at sim.Time, err error) {
	n, _, err := t.pfcNetwork(l)
	if err != nil {
		return 0, err
	}
	if err := t.runUntil(n, 0); err != nil {
		return 0, err
	}
	for n.Counts().Pauses == 0 && n.Sim.Part(20*ms, 1) {
	}
	return n.Sim.Now(), t.runToEnd(n)
}

// measurePaused runs such a network, and returns the use of the slow link from a time on, in percent.
func (t *trial) measurePaused(l pfcLink, from, to sim.Time) (n *lab.Network, use float64, err error) {
	n, after, err := t.pfcNetwork(l)
	if err != nil {
		return nil, 0, err
	}
	if err := t.runUntil(n, from); err != nil {
		return nil, 0, err
	}
	sent := after.Sent()
	if err := t.runUntil(n, to); err != nil {
		return nil, 0, err
	}
	return n, float64(after.Sent()-sent) / float64(l.slow.Octets(to-from)) * 100, t.runToEnd(n)
}
