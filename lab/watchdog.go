package lab

import "github.com/rocecn/rocecn/lab/sim"

// setWatchdog sets the watchdog of a switch's port when the data class was paused, and stops it when it no longer is.
// was are the priorities that were paused before.
func (p *Port) setWatchdog(was uint16) {
	wait, class := p.net.cfg.Buffer.Watchdog, uint16(1)<<p.net.cfg.DataPriority
	if _, ok := p.owner.(*Switch); !ok || wait == 0 || (was^p.paused)&class == 0 {
		return
	}
	p.drops = false
	if p.paused&class != 0 {
		p.watch.Set(&p.net.Sim, p.net.Sim.Now()+wait)
	} else {
		p.watch.Set(&p.net.Sim, sim.Never)
	}
}

// handleStorm handles a pause that has lasted for too long: it empties the data queue.
func (p *Port) handleStorm() {
	n, s, q := p.net, p.owner.(*Switch), p.dataQueue()
	if q.head == 0 { // no packet waits: check again later
		p.watch.Set(&n.Sim, n.Sim.Now()+n.cfg.Buffer.Watchdog)
		return
	}
	p.drops = true
	n.count.Storms++
	p.ready &^= 1 << n.cfg.DataPriority
	for q.head != 0 {
		r, k := q.pop(&n.pool)
		if k.kept {
			s.releaseBuffer(k)
		}
		n.countLost(r, k)
	}
	p.depthChanged(q)
}
