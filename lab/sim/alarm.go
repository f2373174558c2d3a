package sim

// An Alarm is a timer that is set again and again, mostly to later times.
// Setting it to an earlier time costs an event; for a later time it waits for
// the pending event.
type Alarm struct {
	due     Time // Never: not set
	pending Time // of the valid event; Never: there is none
	class   Class
	to      ID
	arg     uint32
}

// NewAlarm returns an Alarm that runs this event. It is not set.
func NewAlarm(class Class, to ID, arg uint32) Alarm {
	return Alarm{due: Never, pending: Never, class: class, to: to, arg: arg}
}

// Set sets the time; Never stops the alarm.
func (a *Alarm) Set(s *Sim, at Time) {
	a.due = at
	if at < a.pending {
		a.pending = at
		s.Schedule(at, a.class, a.to, a.arg)
	}
}

// Rings reports whether the current event is the alarm. Call it once in each event of the alarm. Then the alarm is no
// longer set.
func (a *Alarm) Rings(s *Sim) bool {
	if s.now != a.pending {
		return false // this event was replaced by an earlier one
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
