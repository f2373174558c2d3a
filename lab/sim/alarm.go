package sim

// An Alarm is a timer that is set again and again, mostly to later times. Only
// where it is set to an earlier one does that cost an event; a later one is seen
// when the event that is pending runs.
type Alarm struct {
	due     Time // Never: not set
	pending Time // of the event that counts; Never: none does
	class   Class
	to      ID
	arg     uint32
}

// NewAlarm returns an Alarm that is not set, and runs this event.
func NewAlarm(class Class, to ID, arg uint32) Alarm {
	return Alarm{due: Never, pending: Never, class: class, to: to, arg: arg}
}

// Set sets the time; Never stops the alarm.
func (a *Alarm) Set(s *Sim, at Time) {
	a.due = at
	if at < a.pending {
		a.pending = at
		s.At(at, a.class, a.to, a.arg)
	}
}

// Rings says whether the event that runs is the alarm. It must be asked once in
// each event of the alarm. An alarm that has rung is not set any more.
func (a *Alarm) Rings(s *Sim) bool {
	if s.now != a.pending {
		return false // of a time that was given up for an earlier one
	}
	a.pending = Never
	if a.due > s.now {
		if a.due != Never {
			a.Set(s, a.due)
		}
		return false
	}
	return true
}
