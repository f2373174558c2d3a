package reaction

import (
	"time"

	"github.com/rocecn/rocecn/node/pause"
)

// A Brake limits the rate of one queue pair as a PPFC requests, on top of its reaction point: it stops the queue
// pair, or holds it at the rate that it had at the time of the request. [pause.Role] decides which notifications
// count, and limits their duration. Set the state of the Brake after each notification, and again at the time that
// Next returns, because a hold may outlast a stop. The zero Brake is open.
type Brake struct {
	state pause.State
	until time.Time
	held  uint64
}

// Set sets the state of the queue pair, the end of that state, and the current rate in bits a second. A hold that is
// repeated, or continues after a stop, keeps the rate of the first call.
func (b *Brake) Set(s pause.State, until time.Time, rate uint64) {
	switch s {
	case pause.StateStopped, pause.StateHeld:
		if b.state != pause.StateStopped && b.state != pause.StateHeld {
			b.held = rate
		}
	default:
		until = time.Time{}
	}
	b.state, b.until = s, until
}

// Rate returns at which rate the queue pair may send, of the one that its reaction
// point gives; 0 is not at all.
func (b *Brake) Rate(rate uint64, now time.Time) uint64 {
	switch {
	case b.until.IsZero() || !now.Before(b.until):
		return rate
	case b.state == pause.StateStopped:
		return 0
	}
	return min(rate, b.held)
}

// Next returns when the Brake opens by itself, if it is not open.
func (b *Brake) Next() (at time.Time, ok bool) { return b.until, !b.until.IsZero() }
