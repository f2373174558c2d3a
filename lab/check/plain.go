package check

import (
	"math"
	"time"

	"github.com/rocecn/rocecn/lab"
	"github.com/rocecn/rocecn/lab/sim"
	"github.com/rocecn/rocecn/node/reaction"
)

// A plain is an independent model of flows to one port: no events, frames, messages or roles. A slot is the time of a
// packet at the port. In each slot flows get credit by their rates, one packet leaves, and marks of a delay ago are
// reported. It shares only the reaction point with the laboratory.
type plain struct {
	line         uint64
	red          lab.RED
	there, back  []time.Duration // of each flow: to the port, and from there on to the sender
	wire, packet int             // octets of a packet: on the wire, in the queue
	config       func(line uint64) reaction.DCQCNConfig
	polls        bool // the receiver looks once every interval
	seed         uint64
}

// loop is the incast of settle: so many flows, for which it takes a quarter of the loop to the port.
func loop(flows int, line uint64, red lab.RED, delay time.Duration) *plain {
	m := &plain{line: line, red: red, wire: 1002, packet: 982, config: reaction.PaperDCQCN, seed: 1}
	for range flows {
		m.there, m.back = append(m.there, delay/4), append(m.back, delay*3/4)
	}
	return m
}

// plainly holds the results of a plain model.
type plainly struct {
	use, mean, deviation float64   // of the link, from 0 to 1; of the queue, in octets
	shares               []float64 // of the link, of each flow
}

func (t *trial) plain(m *plain, from, to time.Duration) (r plainly, err error) {
	const interval = 50 * time.Microsecond
	slot := time.Duration(m.wire) * 8 * time.Second / time.Duration(m.line)
	d, err := reaction.NewDCQCN(m.config(m.line))
	if err != nil {
		return r, err
	}
	random := sim.NewStream(m.seed, "plain", 0)
	flows := make([]struct {
		reaction.DCQCNFlow
		credit     float64
		last, poll time.Duration   // when a mark was reported, when a receiver that polls looks next
		marked     bool            // since it looked
		news, wire []time.Duration // when reports and packets come
		left       float64
	}, len(m.there))
	for i := range flows {
		flows[i].DCQCNFlow, flows[i].credit, flows[i].last = d.Start(), random.Float64(), -interval
	}
	var queue []int // the flows of the packets that wait
	var busy, squares, slots float64
	epoch := sim.Time(0).Clock()
	for now := time.Duration(0); now < to; now += slot {
		if err := t.ctx.Err(); err != nil {
			return r, err
		}
		at := epoch.Add(now)
		for i := range flows {
			f := &flows[i]
			for len(f.news) > 0 && f.news[0] <= now {
				f.Notified(at)
				f.news = f.news[1:]
			}
			f.Advance(at)
			if f.credit += float64(f.Rate()) / float64(m.line); f.credit >= 1 {
				f.credit--
				f.Sent(uint64(m.wire), at)
				f.wire = append(f.wire, now+m.there[i])
			}
			if f.poll > 0 && f.poll <= now {
				if f.poll += interval; f.marked {
					f.marked = false
					f.news = append(f.news, now+m.back[i])
				}
			}
			for len(f.wire) > 0 && f.wire[0] <= now {
				queue = append(queue, i)
				f.wire = f.wire[1:]
			}
		}
		if len(queue) > 0 {
			f, i := &flows[queue[0]], queue[0]
			queue = queue[1:]
			octets := float64(len(queue) * m.packet)
			p := (octets - float64(m.red.Min)) / float64(m.red.Max-m.red.Min) * m.red.Probability
			marked := octets >= float64(m.red.Max) || random.Float64() < p
			switch {
			case m.polls:
				f.marked = f.marked || marked
				if f.poll == 0 {
					f.poll = now + interval
				}
			case marked && now-f.last >= interval:
				f.last = now
				f.news = append(f.news, now+m.back[i])
			}
			if now >= from {
				busy++
				f.left++
			}
		}
		if now >= from {
			octets := float64(len(queue) * m.packet)
			r.mean += octets
			squares += octets * octets
			slots++
		}
	}
	r.mean /= slots
	r.use, r.deviation = busy/slots, math.Sqrt(max(squares/slots-r.mean*r.mean, 0))
	for i := range flows {
		r.shares = append(r.shares, flows[i].left/slots)
	}
	return r, nil
}
