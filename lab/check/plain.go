package check

import (
	"math"
	"time"

	"github.com/rocecn/rocecn/lab"
	"github.com/rocecn/rocecn/lab/sim"
	"github.com/rocecn/rocecn/node/reaction"
)

// plain is the incast of settle in an independent model: no events, frames, messages or roles. A slot is the
// time of a packet at the port. In each slot flows get credit by their rates, one packet leaves, and marks of a
// loop's delay ago are reported. It shares only the reaction point with the laboratory.
func (t *trial) plain(flows int, line uint64, red lab.RED, delay, from, to time.Duration) (
	use, mean, deviation float64, err error,
) {
	const packet, interval = 1002, 50 * time.Microsecond
	slot := packet * 8 * time.Second / time.Duration(line)
	d, err := reaction.New(reaction.Paper(line))
	if err != nil {
		return 0, 0, 0, err
	}
	type event struct {
		at   time.Duration
		flow int
	}
	random := sim.NewStream(1, "plain", 0)
	all, credit, last := make([]reaction.Flow, flows), make([]float64, flows), make([]time.Duration, flows)
	for i := range all {
		all[i], credit[i], last[i] = d.Start(), random.Float64(), -interval
	}
	var news, wire []event
	var queue []int // the flows of the packets that wait
	var busy, squares, slots float64
	epoch := sim.Time(0).Clock()
	for now := time.Duration(0); now < to; now += slot {
		if err := t.ctx.Err(); err != nil {
			return 0, 0, 0, err
		}
		at := epoch.Add(now)
		for len(news) > 0 && news[0].at <= now {
			all[news[0].flow].Notify(at)
			news = news[1:]
		}
		for i := range all {
			all[i].Look(at)
			if credit[i] += float64(all[i].Rate()) / float64(line); credit[i] >= 1 {
				credit[i]--
				all[i].Sent(packet, at)
				wire = append(wire, event{now + delay/4, i})
			}
		}
		for len(wire) > 0 && wire[0].at <= now {
			queue = append(queue, wire[0].flow)
			wire = wire[1:]
		}
		if len(queue) > 0 {
			i := queue[0]
			queue = queue[1:]
			octets := float64(len(queue) * packet)
			p := (octets - float64(red.Min)) / float64(red.Max-red.Min) * red.Probability
			if (octets >= float64(red.Max) || random.Float64() < p) && now-last[i] >= interval {
				last[i] = now
				news = append(news, event{now + delay*3/4, i})
			}
			if now >= from {
				busy++
			}
		}
		if now >= from {
			octets := float64(len(queue) * packet)
			mean += octets
			squares += octets * octets
			slots++
		}
	}
	mean /= slots
	return busy / slots, mean, math.Sqrt(max(squares/slots-mean*mean, 0)), nil
}
