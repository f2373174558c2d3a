package check

import (
	"fmt"

	"github.com/rocecn/rocecn/lab"
	"github.com/rocecn/rocecn/lab/sim"
)

// A1: one packet, and the last packet of a message, through up to six switches.
// A single packet takes the sum of its times; after other packets, one packet
// leaves in each packet time of the slowest link.
func latency(t *trial) (rows []Row, err error) {
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
			if err := t.until(n, ms); err != nil {
				return rows, err
			}
			what := fmt.Sprintf("%d switches, packet %d", switches, packets)
			rows = append(rows, exactly(what, "ps", float64(expected), float64(arrived)))
			if err := t.ends(n); err != nil {
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
		p.n.Sim.At(p.n.Sim.Now()+p.random.Exponential(p.mean), sim.Application, p.id, 0)
	}
}

// A2: Poisson arrivals at a port of 100 Gbit/s by a link that is a thousand times
// as fast.
func waiting(t *trial) (rows []Row, err error) {
	for _, c := range []struct {
		load, share float64
		packets     int
	}{{0.3, 0.02, 400_000}, {0.5, 0.02, 400_000}, {0.8, 0.02, 1_000_000}, {0.9, 0.05, 1_000_000}} {
		const out = 100 * sim.Gbps
		n := t.network(quiet())
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
		n.Sim.At(0, sim.Application, p.id, 0)
		if err := t.until(n, 100*sim.Second); err != nil {
			return rows, err
		}
		if err := t.ends(n); err != nil {
			return rows, err
		}
		expected := c.load / (2 * (1 - c.load)) * float64(service) / 1000
		count := float64(c.packets)
		rows = append(rows,
			within(fmt.Sprintf("load %v, mean wait", c.load), "ns", expected, c.share, sum/count/1000),
			within(fmt.Sprintf("load %v, share without wait", c.load), "", 1-c.load, c.share, none/count))
	}
	return rows, nil
}

// A3: flows on one host, each at its rate, and acknowledgements, which never wait
// for more than the frame that is on the wire.
func pacing(t *trial) (rows []Row, err error) {
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
		n.At(sim.Time(i)*stagger, f.Endless)
	}
	n.Delivered = func(f *lab.Flow, _ sim.Time) { got[f.Number()]++ }
	if err := t.until(n, length); err != nil {
		return rows, err
	}
	for i, rate := range rates {
		// The k-th packet is due k intervals after the start. Of those that could have arrived, the last one may have
		// waited for packets of other flows, and still be on its way.
		const packet = 1024 + header + gap
		onTheWay := 2*µs + 2*line.Time(packet)
		expected := float64((length-onTheWay-sim.Time(i)*stagger)/rate.Time(packet) + 1)
		rows = append(rows, between(fmt.Sprintf("packets at %d Gbit/s in 10 ms", rate/1e9), "", expected,
			expected-1, expected, got[i]))
	}
	if err := t.ends(n); err != nil {
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
		n.At(sim.Time(i)*20*µs+sim.Time(moments.Below(uint64(10*µs))), func() { probe.Post(1024) })
	}
	if err := t.until(n, 30*ms); err != nil {
		return rows, err
	}
	frame, ack := line.Time(1024+header+gap), line.Time(header+4+gap)
	return append(rows, between("the longest wait of 1,000 round trips against full load", "ps",
		float64(2*frame), float64(frame), float64(2*frame+2*ack), float64(most-n.Alone(to, from, 1024)))), t.ends(n)
}

// A4: the headroom that PFC needs, with links of up to 80 km.
func headroom(t *trial) (rows []Row, err error) {
	const fast, slow, stalled = 40 * sim.Gbps, 10 * sim.Gbps, 10 * sim.Gbps / 1000
	const frame = 1024 + header
	for _, km := range []int{0, 1, 10, 80} {
		delay := sim.Time(km) * 5 * µs
		// From the frame that exceeds the limit to the last one that arrives:
		// the frames on the wires at both ends, the pause, and the delay in
		// both directions.
		most := 2*delay + 500*sim.Nanosecond + fast.Time(header+4+gap) + fast.Time(64+gap) + fast.Time(frame+gap)
		formula := float64(fast.Octets(most)) / (frame + gap) * frame
		run := func(room, xoff, xon int64, slow sim.Rate) (n *lab.Network, use float64, err error) {
			cfg := quiet()
			cfg.PauseDelay, cfg.AckEvery = 500*sim.Nanosecond, 16
			cfg.Buffer = lab.Buffer{Total: 100_000_000, Alpha: 1, PFC: true, XOFF: xoff, XON: xon, Headroom: room}
			n, links := t.chain(cfg, []sim.Rate{fast, fast, slow}, []sim.Time{0, delay, 0})
			f, err := n.Flow(n.Hosts()[0], n.Hosts()[1], 0)
			if err != nil {
				return nil, 0, err
			}
			f.Endless()
			if err := t.until(n, ms+4*delay); err != nil {
				return nil, 0, err
			}
			sent := links[2].Sent()
			if err := t.until(n, 4*ms+20*delay); err != nil {
				return nil, 0, err
			}
			use = float64(links[2].Sent()-sent) / float64(slow.Octets(3*ms+16*delay)) * 100
			return n, use, t.ends(n)
		}
		n, _, err := run(int64(formula)+2*frame, 100_000, 10_000, stalled)
		if err != nil {
			return rows, err
		}
		needed := n.Switches()[1].Headroom()
		place := fmt.Sprintf("%d km, ", km)
		rows = append(rows,
			between(place+"headroom needed", "octets", formula, formula-2*frame, formula+frame, float64(needed)),
			exactly(place+"lost with that", "packets", 0, float64(n.Counts().Lost)))
		if n, _, err = run(needed-1, 100_000, 10_000, stalled); err != nil {
			return rows, err
		}
		rows = append(rows, between(place+"lost with one octet less", "packets", 1, 1, 1e6, float64(n.Counts().Lost)))
		if km < 80 {
			continue
		}

		// Until data arrives again, after 2·delay, there must be enough left to
		// send.
		enough := slow.Octets(2*delay) + 20*frame
		for _, c := range []struct {
			what                string
			keeps               int64
			expected, low, high float64
		}{{"use of the slow link, 2·delay kept", enough, 100, 99.9, 100.1}, {"with a tenth of that",
			enough / 10, 85, 70, 95}} {
			n, use, err := run(int64(formula)+2*frame, c.keeps+20*frame, 20*frame, slow)
			if err != nil {
				return rows, err
			}
			rows = append(rows, between(place+c.what, "%", c.expected, c.low, c.high, use),
				exactly(place+"lost", "packets", 0, float64(n.Counts().Lost)))
		}
	}
	return rows, nil
}
