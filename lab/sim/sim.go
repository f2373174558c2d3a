// Package sim runs events in the order of their time: the core of the
// laboratory.
//
// Time is in whole picoseconds, so that an octet at 400 Gbit/s, 20 ps, and at 800 Gbit/s, 10 ps, is exact.
// Events at the same time run by class, and within a class in the order of their numbers. A run uses no
// goroutine, clock or iteration over maps: the same input gives the same events on every machine.
package sim

import (
	"math"
	"math/bits"
	"strconv"
	"time"
)

// A Time is a time or a duration in picoseconds; 64 bits last for 106 days.
type Time int64

// Durations.
const (
	Nanosecond  Time = 1000
	Microsecond      = 1000 * Nanosecond
	Millisecond      = 1000 * Microsecond
	Second           = 1000 * Millisecond

	// Never is later than any event.
	Never Time = math.MaxInt64
)

// epoch is the date at which a run begins.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// Clock returns t as the time for roles, in whole nanoseconds, rounded down.
func (t Time) Clock() time.Time { return epoch.Add(time.Duration(t / Nanosecond)) }

// FromClock is the inverse of Clock.
func FromClock(t time.Time) Time { return From(t.Sub(epoch)) }

// From returns a duration as a Time; one over 106 days as Never.
func From(d time.Duration) Time {
	if int64(d) > math.MaxInt64/int64(Nanosecond) {
		return Never
	}
	return Time(d) * Nanosecond
}

// Seconds returns t in seconds.
func (t Time) Seconds() float64 { return float64(t) / float64(Second) }

// String returns t in microseconds, as in "12.5µs".
func (t Time) String() string {
	return strconv.FormatFloat(float64(t)/float64(Microsecond), 'g', -1, 64) + "µs"
}

// A Rate is in bits a second.
type Rate uint64

// Gbps is 10^9 bits a second.
const Gbps Rate = 1e9

// Time returns the time that these octets take, rounded down; Never at a rate of 0.
func (r Rate) Time(octets int64) Time {
	hi, lo := bits.Mul64(uint64(octets), 8*uint64(Second))
	if hi >= uint64(r) {
		return Never
	}
	t, _ := bits.Div64(hi, lo, uint64(r))
	return Time(min(t, uint64(Never)))
}

// Octets returns the number of whole octets that pass in a time.
func (r Rate) Octets(t Time) int64 {
	hi, lo := bits.Mul64(uint64(t), uint64(r))
	if hi >= 8*uint64(Second) {
		return math.MaxInt64
	}
	n, _ := bits.Div64(hi, lo, 8*uint64(Second))
	return int64(min(n, math.MaxInt64))
}

// A Class orders events at the same time.
type Class uint8

// The classes, in order: timers run after arrivals at the same time, and departures after both.
const (
	Arrival Class = iota
	Timer
	Departure
	Application
)

// A Handler runs events. The argument is the one with which the event was scheduled.
type Handler interface{ Handle(arg uint32) }

// An ID identifies a Handler in the events of one Sim.
type ID uint32

// A Sim holds the pending events. The zero Sim is at time 0 and has none.
type Sim struct {
	now      Time
	number   uint64 // of the last event
	run      uint64
	heap     heap
	near     batch
	handlers []Handler
	readers  []Reader // by ID; nil for those that are none
	stopped  bool
}

// Add returns the ID of a Handler, which may be a [Reader] as well.
func (s *Sim) Add(h Handler) ID {
	s.handlers = append(s.handlers, h)
	r, _ := h.(Reader)
	s.readers = append(s.readers, r)
	return ID(len(s.handlers) - 1)
}

// Now returns the time of the event that runs.
func (s *Sim) Now() Time { return s.now }

// Events returns the number of events that have run.
func (s *Sim) Events() uint64 { return s.run }

// Pending returns the number of pending events.
func (s *Sim) Pending() int { return s.heap.len() + s.near.len() }

// Schedule schedules an event, which must not be in the past.
func (s *Sim) Schedule(at Time, class Class, to ID, arg uint32) {
	s.AtOrder(at, s.Order(class), to, arg)
}

// An Order is the position of an event among those of the same time.
type Order uint64

const classShift = 62

// Order returns the next position in a class, for an event that is scheduled
// later with [Sim.AtOrder].
func (s *Sim) Order(class Class) Order {
	s.number++
	return Order(uint64(class)<<classShift | s.number)
}

// AtOrder schedules an event with a position from Order.
func (s *Sim) AtOrder(at Time, order Order, to ID, arg uint32) {
	if at < s.now {
		panic("sim: an event in the past")
	}
	e := event{at, order, to, arg}
	if s.near.isBeforeLast(&e) {
		s.near.insert(e)
		if s.near.len() <= maxBatch {
			return
		}
		e = s.near.removeLast()
	}
	s.heap.push(e)
}

// Stop ends Until after the event that runs.
func (s *Sim) Stop() { s.stopped = true }

// Until runs all events up to and including a time, which then is the current
// one. After Stop the current time is that of the last event.
func (s *Sim) Until(end Time) { s.Part(end, math.MaxUint64) }

// Part runs at most this number of events up to a time, like Until, and reports
// whether more may be left. If so, and after Stop, the current time is that of
// the last event.
func (s *Sim) Part(end Time, most uint64) (more bool) {
	s.stopped = false
	last := s.run + min(most, math.MaxUint64-s.run)
	for s.Pending() > 0 && !s.stopped {
		if s.near.len() == 0 && s.heap.len() >= manyEvents {
			s.fillBatch()
		}
		var e event
		inBatch := s.near.len() > 0
		if inBatch {
			e = s.near.events[s.near.first]
		} else {
			e = s.heap.first()
		}
		if e.at > end {
			break
		}
		if s.run == last {
			return true
		}
		if inBatch {
			s.near.first++
		} else {
			s.heap.removeFirst()
		}
		s.now = e.at
		s.run++
		s.handlers[e.to].Handle(e.arg)
	}
	if !s.stopped {
		s.now = max(s.now, end)
	}
	return false
}
