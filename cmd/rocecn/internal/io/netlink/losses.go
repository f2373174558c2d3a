package netlink

import "sync/atomic"

// Losses counts what was lost of a numbered sequence of messages. An overrun of the
// socket says that some were, before the numbers say how many: it counts as one
// until then. One that comes late, since two CPUs send at once, is no loss any more.
// Total may be called by any goroutine.
type Losses struct {
	total   atomic.Uint64
	next    uint32
	started bool
	overrun bool // counted as one loss
}

// Number counts what is missing before the message with this number.
func (l *Losses) Number(n uint32) {
	const late = 64 // behind the last one at most; else the numbers have begun again
	gap := n - l.next
	switch {
	case !l.started:
	case gap > 0 && -gap <= late:
		if l.total.Load() > 0 {
			l.total.Add(^uint64(0))
		}
		return
	case gap > 0 && gap < 1<<31:
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
