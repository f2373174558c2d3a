package netlink

import "sync/atomic"

// Losses counts lost messages of a numbered sequence. An overrun of the socket counts as one loss until the
// numbers show the exact count. A message that arrives late, since two CPUs send at the same time, no longer
// counts as lost. Total may be called by any goroutine.
type Losses struct {
	total    atomic.Uint64
	next     uint32
	received uint64 // bit n: the message n before the last one has arrived
	started  bool
	overrun  bool // an overrun counts as one loss
}

// Number counts the messages missing before the one with this number. A repeated number, or one far before the
// last, starts a new sequence.
func (l *Losses) Number(n uint32) {
	gap := n - l.next
	age := l.next - 1 - n
	switch {
	case !l.started:
		l.received = 0
	case age < 64 && l.received>>age&1 == 0: // out of order
		l.received |= 1 << age
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

// Total returns the number of lost messages, as far as known.
func (l *Losses) Total() uint64 { return l.total.Load() }
