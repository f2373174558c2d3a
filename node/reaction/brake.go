package reaction

import (
	"time"

	"github.com/rocecn/rocecn/node/pause"
)

// A Brake limits the rate of one queue pair as a PPFC requests: it stops the
// queue pair, or holds it at the rate that it had at the time of the request.
// [pause.Role] decides which notifications to accept, and limits their
// duration. Call Set after each notification, and again at the time that Next
// returns, because a hold may outlast a stop. The zero Brake does not limit the
// rate.
type Brake struct {
	state pause.State
	until time.Time
	held  uint64
}

// Set sets the state of the queue pair, the time at which this state ends, and
// the current rate in bits a second. A hold that is repeated, or continues
// after a stop, keeps the rate of the first call.
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

// Rate returns the permitted rate of the queue pair in bits a second, given the
// rate of its reaction point. 0 means that it must not send.
func (b *Brake) Rate(rate uint64, now time.Time) uint64 {
	switch {
	case b.until.IsZero() || !now.Before(b.until):
		return rate
	case b.state == pause.StateStopped:
		return 0
	}
	return min(rate, b.held)
}

// Next returns the time at which the limit ends; ok is false if there is none.
func (b *Brake) Next() (at time.Time, ok bool) { return b.until, !b.until.IsZero() }
