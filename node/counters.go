package node

import (
	"iter"
	"sync/atomic"

	"github.com/rocecn/rocecn/internal/enumtext"
	"github.com/rocecn/rocecn/message"
)

// A Count identifies one of the [Counters]: that of an Action, or that of an Effect. The other fields are zero.
type Count struct {
	Action  Action
	Message message.Kind // kind of the notification, only with ActionSent, ActionAccepted and ActionDropped
	Reason  Reason       // reason, only with ActionRefused
	Effect  Effect       // effect, only with NoAction
}

// String returns the name of the counter, as in "sent_cnp", "refused_limited" and "opened".
func (c Count) String() string {
	switch {
	case c.Effect != 0:
		return c.Effect.String()
	case c.Message != message.KindOther:
		return c.Action.String() + "_" + c.Message.String()
	case c.Reason != NoReason:
		return c.Action.String() + "_" + c.Reason.String()
	case c.Action == NoAction:
		return "nothing"
	}
	return c.Action.String()
}

// An Effect is an event that a role counts in addition to its Decisions.
type Effect uint8

// The effects. The zero value is that of a [Count] with an Action.
const (
	EffectRepeated      Effect = iota + 1 // a notification was accepted, but repeats an earlier report (sender)
	EffectFellBack                        // a notification was sent because the node cannot mark (congested)
	EffectResumed                         // a flow was resumed (congested, pause)
	EffectStopped                         // a flow was stopped (pause)
	EffectHeld                            // a flow was held at its rate (pause)
	EffectAlarmed                         // an alarm was accepted (pause)
	EffectForgotten                       // a flow was evicted from a full table (congested, pause)
	EffectObserved                        // a packet taught a queue pair (proxy)
	EffectOpened                          // a flow got a label (ingress)
	EffectUnlabelled                      // a packet was forwarded with label 0, RoCEv2 or not (ingress)
	EffectNotECNCapable                   // a packet was forwarded with a label but is Not-ECT (ingress)

	effects = iota + 1
)

var effectTexts = [effects]string{
	"", "again", "fell_back", "resumed", "stopped", "held", "alarmed", "forgotten", "observed", "opened", "unlabelled",
	"not_ecn_capable",
}

// String returns the effect in lower case.
func (e Effect) String() string { return enumtext.Name(e, effectTexts[:], "Effect") }

// Counters count the decisions and effects of a role. Any goroutine may read them while the role works. The zero
// value is ready for use.
type Counters struct {
	n       [actions][columns]atomic.Uint64
	effects [effects]atomic.Uint64
}

// columns is the number of reasons; there are fewer kinds of messages.
const columns = reasons

// counterFor returns the counter of a Count. ActionRefused is counted by reason, the other actions by kind; for other
// Counts it returns a counter that is thrown away.
func (c *Counters) counterFor(k Count) *atomic.Uint64 {
	if k.Effect != 0 {
		if k != (Count{Effect: k.Effect}) || int(k.Effect) >= effects {
			return new(atomic.Uint64)
		}
		return &c.effects[k.Effect]
	}
	column, other := int(k.Message), int(k.Reason)
	if k.Action == ActionRefused {
		column, other = other, column
	}
	if int(k.Action) >= actions || column >= columns || other != 0 {
		return new(atomic.Uint64)
	}
	return &c.n[k.Action][column]
}

// Load returns a counter. With KindOther and NoReason it returns the sum over all kinds and reasons of the Action.
func (c *Counters) Load(k Count) (n uint64) {
	if k.Effect != 0 || k.Message != message.KindOther || k.Reason != NoReason || k.Action >= actions {
		return c.counterFor(k).Load()
	}
	for i := range c.n[k.Action] {
		n += c.n[k.Action][i].Load()
	}
	return n
}

// All yields the counters that are not 0.
func (c *Counters) All() iter.Seq2[Count, uint64] {
	return func(yield func(Count, uint64) bool) {
		for action := range Action(actions) {
			for column := range c.n[action] {
				k := Count{Action: action, Message: message.Kind(column)}
				if action == ActionRefused {
					k = Count{Action: action, Reason: Reason(column)}
				}
				if n := c.n[action][column].Load(); n > 0 && !yield(k, n) {
					return
				}
			}
		}
		for effect := range Effect(effects) {
			if n := c.effects[effect].Load(); n > 0 && !yield(Count{Effect: effect}, n) {
				return
			}
		}
	}
}

// Inc adds 1 to a counter. It is for implementations of [Role].
func (c *Counters) Inc(k Count) { c.counterFor(k).Add(1) }

// Settle counts a Decision by its Action, and by its Reason, which a packet that was forwarded or marked may have as
// well. A Decision with a Reason and NoAction gets ActionRefused first. It is for implementations of [Role].
func (c *Counters) Settle(d *Decision) {
	if d.Reason != NoReason && d.Action == NoAction {
		d.Action, d.Message = ActionRefused, message.KindOther
	}
	if d.MarkECN {
		c.increment(ActionMarked, 0)
	}
	if d.Reason != NoReason {
		c.increment(ActionRefused, int(d.Reason))
	}
	switch d.Action {
	case ActionSent, ActionAccepted, ActionDropped:
		c.increment(d.Action, int(d.Message))
	case ActionForwarded, ActionLearned, ActionPassed:
		c.increment(d.Action, 0)
	}
}

// increment adds one to the counter of an Action, and of a reason or a kind of message if there is one.
func (c *Counters) increment(a Action, column int) {
	if column < columns {
		c.n[a][column].Add(1)
	}
}
