package reaction

import (
	"time"

	"github.com/rocecn/rocecn/node"
)

// asksToSlowDown reports whether a sender's decision asks a known queue pair of its own to reduce its rate.
func asksToSlowDown(d *node.Decision) bool { return d.Request == node.RequestSlowDown && d.KnownQP }

// React carries out the request of a decision about this queue pair: Notified for [node.RequestSlowDown], nothing
// for all other requests. Those of PPFC are for a [Brake].
func (f *DCQCNFlow) React(d *node.Decision, now time.Time) {
	if asksToSlowDown(d) {
		f.Notified(now)
	}
}

// React carries out the request of a decision about this queue pair: Notified for [node.RequestSlowDown] by a Fast
// CNP with a trace, with the hops of that trace as [Hops] has them; nothing for all other requests.
func (f *HPCCFlow) React(d *node.Decision, hops []Hop, now time.Time) {
	if asksToSlowDown(d) && d.Trace != nil {
		f.Notified(hops, now)
	}
}
