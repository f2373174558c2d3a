package scenario

import (
	"github.com/rocecn/rocecn/lab"
	"github.com/rocecn/rocecn/lab/sim"
)

// poisson posts messages between random hosts. A message uses an idle queue
// pair or a new one; both start as a new flow, unless queue pairs are persistent.
type poisson struct {
	r                      *run
	number                 int // of the traffic
	id                     sim.ID
	sizes                  distribution
	arrivals, draws, pairs sim.Stream
	mean                   sim.Time
	rate                   sim.Rate
	persistent             bool
	idle                   map[[2]int][]*lab.Flow
	mine                   map[*lab.Flow][2]int

	burst int   // hosts that send to one at the same time; 0: a message at a time
	size  int64 // of their messages
}

func (p *poisson) Handle(uint32) {
	n := p.r.net
	hosts := len(n.Hosts())
	if p.burst > 0 {
		order := shuffleNumbers(hosts, &p.pairs)
		for _, from := range order[1 : p.burst+1] {
			p.postMessage([2]int{from, order[0]}, p.size)
		}
	} else {
		from := int(p.pairs.Below(uint64(hosts)))
		to := int(p.pairs.Below(uint64(hosts - 1)))
		if to >= from {
			to++
		}
		p.postMessage([2]int{from, to}, p.sizes.drawOctets(p.draws.Float64()))
	}
	if p.r.result.Err == nil {
		n.Sim.Schedule(n.Sim.Now()+p.arrivals.Exponential(p.mean), sim.Application, p.id, 0)
	}
}

// postMessage posts a message from one host to another.
func (p *poisson) postMessage(pair [2]int, octets int64) {
	n := p.r.net
	var f *lab.Flow
	if idle := p.idle[pair]; len(idle) > 0 {
		f = idle[len(idle)-1]
		p.idle[pair] = idle[:len(idle)-1]
		if !p.persistent {
			f.Renew()
		}
	} else {
		var err error
		if f, err = n.Flow(n.Hosts()[pair[0]], n.Hosts()[pair[1]], p.rate); err != nil {
			p.r.result.Err = err
			n.Sim.Stop()
			return
		}
		p.mine[f] = pair
		p.r.later = append(p.r.later, p.number)
	}
	f.Post(octets)
}

// countFinished makes a queue pair idle.
func (p *poisson) countFinished(f *lab.Flow) {
	if pair, ok := p.mine[f]; ok {
		p.idle[pair] = append(p.idle[pair], f)
	}
}
