package reaction

import (
	"time"

	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/sender"
)

// news says whether what a sender decided asks a queue pair of its own to slow down: a
// CNP or a Fast CNP that it took, and no second report of the same congestion.
func news(d *sender.Decision) bool {
	return d.Action == node.Accepted && d.KnownQP && !d.Again &&
		(d.Message == message.CNP || d.Message == message.FastCNP)
}

// Hear does what a sender's decision about this queue pair asks for: Notified for a CNP
// or a Fast CNP that is news, nothing for all else. What PPFC asks for is for a [Brake].
func (f *DCQCNFlow) Hear(d *sender.Decision, now time.Time) {
	if news(d) {
		f.Notified(now)
	}
}

// Hear does what a sender's decision about this queue pair asks for: Notified for a Fast CNP
// that is news, with the hops of its trace as [Hops] has them; nothing for all else.
func (f *HPCCFlow) Hear(d *sender.Decision, hops []Hop, now time.Time) {
	if news(d) && d.Trace != nil {
		f.Notified(hops, now)
	}
}
