// Package pause is the state of a host or an ingress that receives PPFCs (PPFC section 3): it decides which
// notifications to accept, and keeps the state of each target until it ends.
//
//	stop    send nothing until resume, or for Pause Duration
//	hold    do not send faster than now, until resume, or for Pause Duration
//	alarm   nothing changes, but an operator should know
//	resume  ends stop, hold and alarm
//
// The meanings are those that the names suggest: the draft refers to another one for them
// (draft-xz-rtgwg-ppfc-notification).
//
// No state lasts longer than Config.MaxPause, so that a lost resume does not stop a flow for ever. Call State before
// sending, or at the time that Next returns.
//
// Experimental: this package may change in a minor release.
package pause

import (
	"net/netip"
	"time"

	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/internal/clock"
	"github.com/rocecn/rocecn/internal/enumtext"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/acl"
	"github.com/rocecn/rocecn/node/internal/role"
	"github.com/rocecn/rocecn/ppfc"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
)

// A State is the permission of a target to send.
type State uint8

// The states. If a target is in several states, the first of StateStopped, StateHeld and StateAlarmed is reported.
const (
	StateRunning State = iota
	StateStopped
	StateHeld
	StateAlarmed
)

var states = [...]string{"running", "stopped", "held", "alarmed"}

// String returns the state in lower case.
func (s State) String() string { return enumtext.Name(s, states[:], "State") }

// MarshalText returns the text of String.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText sets s to the state that String returns the text for.
func (s *State) UnmarshalText(text []byte) error {
	return enumtext.Unmarshal(s, text, "pause", "state")
}

// A Target is the flow or the port that a notification names. The draft calls the address in it both the congested
// destination and the address of the congested node, and does not say which host's queue pair DestQP is (D15). So a
// notification can mean:
//
//   - a flow, by the destination of its data packets and their DestQP, as a Fast CNP does;
//   - a port of the congested node, if the address is that of the notification's sender and the host has no such flow.
type Target struct {
	Addr   netip.Addr // the flow's destination, or the node
	DestQP uint32     // of a flow: its receiver's queue pair, 24 bits
	Port   uint16     // of a node: the congested port
	Node   bool       // which of the two it is
	Domain uint32     // such as a VPN, which may have addresses of its own
}

// FlowTarget returns the target that is a flow.
func FlowTarget(dst netip.Addr, destQP uint32) Target { return Target{Addr: dst, DestQP: destQP} }

// PortTarget returns the target that is a port of a congested node.
func PortTarget(addr netip.Addr, port uint16) Target {
	return Target{Addr: addr, Port: port, Node: true}
}

// Config is the configuration, in the words of package [node].
type Config struct {
	Enabled      bool
	Self4, Self6 netip.Addr
	Accept       *acl.List
	QPs          node.Pairs    // of a host
	MaxPause     time.Duration // no state lasts longer; 0 stands for ppfc.MaxPause, the longest that PPFCs ask for

	In, InPerSource node.Rate
	MaxSources      int // for InPerSource, 24 octets each; 4,096 by default
	// MaxTargets is the number of targets that are kept, 64 octets each; 65,536 by default. When the table is full, a
	// new target evicts the one with the state that ends first, which then runs.
	MaxTargets int
	Seed       uint64
}

// A Role has the targets that are not running.
type Role struct {
	cfg      Config
	self     role.Self
	qps      role.Pairs
	memory   role.Memory
	latest   role.Latest
	intake   role.Intake
	counters node.Counters
	packet   rocev2.Packet
	target   Target // of the last notification that was accepted
	targets  targets
	clock    clock.Clock
}

// New returns a Role; see [node.Role].
func New(cfg Config) (*Role, error) {
	return role.New(&Role{}, cfg)
}

// Configure changes the rules. States stay, and end when they would have ended.
func (t *Role) Configure(cfg Config) error {
	self := role.Self{V4: cfg.Self4, V6: cfg.Self6}
	if cfg.MaxPause == 0 || cfg.MaxPause > ppfc.MaxPause {
		cfg.MaxPause = ppfc.MaxPause
	}
	if cfg.Enabled {
		sizes := []role.Size{{Name: "MaxTargets", N: cfg.MaxTargets, Default: 1 << 16},
			{Name: "MaxSources", N: cfg.MaxSources, Default: 1 << 12}}
		first, err := t.memory.Configure("pause", cfg.Seed, sizes, self.Needed(), role.CheckTime("MaxPause",
			cfg.MaxPause),
			role.CheckRate("In", cfg.In), role.CheckRate("InPerSource", cfg.InPerSource))
		if err != nil {
			return err
		}
		if first {
			t.targets = newTargets(t.memory.Size(0))
		}
		t.intake.Configure(cfg.Accept, cfg.In, cfg.InPerSource, t.memory.Size(1), t.memory.Seed())
	}
	t.cfg, t.self, t.qps = cfg, self, role.PairsOf(cfg.QPs)
	t.intake.On, t.intake.Self = cfg.Enabled, self
	return nil
}

// Counters returns the counters. Any goroutine may read it.
func (t *Role) Counters() *node.Counters { return &t.counters }

// Receive decides about a packet, and applies its request. It appends nothing to out. For a packet that is no PPFC
// the Action is node.NoAction, as it is for all with Event.Observe. If a PPFC is not accepted, the first of these
// reasons is given: ReasonDisabled; ReasonNotOurs (to another node); ReasonTunnelled (access list and border saw
// only the outer header, D17); ReasonDenied; ReasonLimited; ReasonBroken (octets are missing, or there are too
// many); ReasonICRC.
//
// If it is accepted, Decision.Request is the request, which holds for Pause, at most MaxPause: a target that has to
// stop does so even if a later request is to hold or an alarm. [Role.Target] is the target; if KnownQP, it is a flow of
// the host: Flow, which SrcQP sends.
func (t *Role) Receive(out []byte, f *rocev2.Frame, e node.Event) (sent []byte, d node.Decision) {
	if f != nil && !e.Observe {
		d.Reason = t.receivePPFC(f, e.Domain, &d, t.latest.Or(e.Now))
		t.counters.Settle(&d)
	}
	return out, d
}

// Due ends the states that have expired. It appends nothing to out. A program need not call it: Receive, State and
// Next do the same.
func (t *Role) Due(out []byte, now time.Time) (sent []byte, d node.Decision) {
	t.Next(now)
	return out, d
}

// Target returns the target of the last notification that was accepted.
func (t *Role) Target() Target { return t.target }

func (t *Role) receivePPFC(f *rocev2.Frame, domain uint32, d *node.Decision, now time.Time) node.Reason {
	p := &t.packet
	// A packet that a capture has truncated is rejected after the list and the limits, not here.
	v := f.Outer()
	v.Cut = true
	if v.Mirrored() || v.Packet(p) != nil || !ppfc.IsNotification(p) {
		return node.NoReason
	}
	d.Packet = message.KindPPFC
	if t.intake.Check(d, &p.Datagram, now); d.Reason != node.NoReason {
		return d.Reason
	}
	n, err := ppfc.FromPacket(p)
	if err != nil {
		return node.ReasonBroken
	}
	if _, err := icrc.Verify(p.IP); err != nil {
		return node.ReasonICRC
	}
	d.Action, d.Message = node.ActionAccepted, message.KindPPFC
	t.findTarget(d, &n, domain, now)
	t.applyRequest(d, &n, now)
	return node.NoReason
}

// findTarget sets the target of a notification (D15).
func (t *Role) findTarget(d *node.Decision, n *ppfc.Notification, domain uint32, now time.Time) {
	t.target = FlowTarget(n.Congested, n.DestQP)
	k := qpmap.Key{
		FlowKey: rocev2.FlowKey{Src: t.self.Like(n.Congested), Dst: n.Congested, DestQP: n.DestQP}, Domain: domain,
	}
	qp, reason := t.qps.SourceQP(&k, now)
	switch {
	case reason == node.NoReason:
		d.Flow, d.SrcQP, d.KnownQP = k, qp, true
	case n.Congested == d.From:
		t.target = PortTarget(n.Congested, n.Port)
	}
	t.target.Domain = domain
}

// applyRequest puts the target into the state that a notification asks for.
func (t *Role) applyRequest(d *node.Decision, n *ppfc.Notification, now time.Time) {
	now = t.latest.Or(now)
	at := t.clock.Ticks(now)
	t.targets.expire(at)
	k := keyOf(&t.target)
	d.Request, d.Port = role.RequestOf(n.Type), n.Port
	if d.Request != node.RequestResume {
		d.Pause = min(n.Pause, t.cfg.MaxPause)
	}
	state := StateAfter(d.Request)
	t.counters.Inc(node.Count{Effect: stateEffects[state]})
	switch {
	case state == StateRunning:
		t.targets.clearAll(&k)
	case d.Pause == 0: // over at the same time
		t.targets.clearState(&k, state)
	case t.targets.setState(&k, state, at+int64(d.Pause)):
		t.counters.Inc(node.Count{Effect: node.EffectForgotten})
	}
}

// counted has the counters of the states.
var stateEffects = [...]node.Effect{StateRunning: node.EffectResumed, StateStopped: node.EffectStopped,
	StateHeld: node.EffectHeld, StateAlarmed: node.EffectAlarmed}

// StateAfter returns the state that a request leads to.
func StateAfter(r node.Request) State {
	switch r {
	case node.RequestStop:
		return StateStopped
	case node.RequestHold:
		return StateHeld
	case node.RequestAlarm:
		return StateAlarmed
	}
	return StateRunning
}

// State returns the state of a target, and when that ends if no notification comes before: the zero Time for Running.
func (t *Role) State(target Target, now time.Time) (State, time.Time) {
	now = t.latest.Or(now)
	at := t.clock.Ticks(now)
	k := keyOf(&target)
	if e, _ := t.targets.find(&k); e != nil {
		for n, until := range e.until {
			if until > at {
				return StateStopped + State(n), now.Add(time.Duration(until - at))
			}
		}
	}
	return StateRunning, time.Time{}
}

// Next returns the time at which the next state ends, and whether there is one: at that time, call State again for the
// targets that were not running.
func (t *Role) Next(now time.Time) (time.Time, bool) {
	now = t.latest.Or(now)
	at := t.clock.Ticks(now)
	t.targets.expire(at)
	until, ok := t.targets.nextEnd()
	if !ok {
		return time.Time{}, false
	}
	return now.Add(time.Duration(until - at)), true
}

// Len returns the number of targets that are not running.
func (t *Role) Len() int { return t.targets.entries.Len() }
