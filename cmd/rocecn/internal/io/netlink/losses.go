package netlink

import "sync/atomic"

// Losses counts what was lost of a numbered sequence of messages. An overrun of the
// socket says that some were, before the numbers say how many: it counts as one
// until then. Total may be called by any goroutine.
type Losses struct {
	total   atomic.Uint64
	next    uint32
	started bool
	overrun bool // counted as one loss
}

// Number counts what is missing before the message with this number.
func (l *Losses) Number(n uint32) {
	gap := n - l.next
	if l.started && gap > 0 && gap < 1<<31 { // else the numbers have begun again
		if l.overrun {
			gap, l.overrun = gap-1, false
		}
		l.total.Add(uint64(gap))
	}
	l.next, l.started = n+1, true
}

// Overrun counts an overrun of the socket.
func (l *Losses) Overrun() {
	if !l.overrun {
		l.overrun = true
		l.total.Add(1)
	}
}

// Total returns how many are lost as far as is known.
func (l *Losses) Total() uint64 { return l.total.Load() }
