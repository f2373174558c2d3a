package netlink

import "sync/atomic"

// Losses counts what was lost of a numbered sequence of messages. An overrun of the
// socket says that some were, before the numbers say how many: it counts as one
// until then. One that comes late, since two CPUs send at once, is no loss any more.
// Total may be called by any goroutine.
type Losses struct {
	total    atomic.Uint64
	next     uint32
	received uint64 // bit n: the message n before the last one has come
	started  bool
	overrun  bool // counted as one loss
}

// Number counts what is missing before the message with this number. One that has come already, or is far behind the
// last one, begins the numbers again.
func (l *Losses) Number(n uint32) {
	gap := n - l.next
	behind := l.next - 1 - n
	switch {
	case !l.started:
		l.received = 0
	case behind < 64 && l.received>>behind&1 == 0: // late
		l.received |= 1 << behind
		if l.total.Load() > 0 {
			l.total.Add(^uint64(0))
		}
		return
	case gap < 1<<31:
		l.received <<= gap + 1
		if l.overrun && gap > 0 {
			gap, l.overrun = gap-1, false
		}
		l.total.Add(uint64(gap))
	default:
		l.received = 0
	}
	l.next, l.received, l.started = n+1, l.received|1, true
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
