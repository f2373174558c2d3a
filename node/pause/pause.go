// Package pause is the role of a host or an ingress that receives PPFCs (PPFC
// section 3). [Role.Receive] decides which notifications to accept, and stores
// the state of each target, a flow or a port, until it ends:
//
//	stop    send nothing for Pause Duration, or until resume
//	hold    do not send faster than now for Pause Duration, or until resume
//	alarm   inform an operator, and change nothing
//	resume  ends stop, hold and alarm
//
// The draft does not define these types itself; it refers to
// draft-xz-rtgwg-ppfc-notification. The meanings here follow from the names.
//
// Call [Role.State] before sending, or at the time that [Role.Next] returns. No
// state lasts longer than Config.MaxPause, so that a lost resume does not stop
// a flow for ever.
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

// The states. If several apply, State returns the first of StateStopped, StateHeld and StateAlarmed.
const (
	StateRunning State = iota // may send
	StateStopped              // must not send
	StateHeld                 // must not send faster than when it was held
	StateAlarmed              // may send; a node has reported an alarm
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
	Addr   netip.Addr // destination of the flow, or address of the congested node
	DestQP uint32     // queue pair of the flow's receiver, 24 bits; 0 for a port
	Port   uint16     // congested port of the node; 0 for a flow
	Node   bool       // true for a port, false for a flow
	Domain uint32     // domain of the addresses, such as a VPN: Event.Domain
}

// FlowTarget returns the target for a flow with this destination and DestQP.
func FlowTarget(dst netip.Addr, destQP uint32) Target { return Target{Addr: dst, DestQP: destQP} }

// PortTarget returns the target for this port of a congested node.
func PortTarget(addr netip.Addr, port uint16) Target {
	return Target{Addr: addr, Port: port, Node: true}
}

// Config is the configuration, in the words of package [node].
type Config struct {
	Enabled      bool
	Self4, Self6 netip.Addr
	Accept       *acl.List     // nodes from which PPFCs are accepted
	QPs          node.Pairs    // queue pairs of the host; nil for an ingress
	MaxPause     time.Duration // longest duration of a state; 0 stands for ppfc.MaxPause, the longest in a PPFC

	In, InPerSource node.Rate // limits on received PPFCs: of all nodes, and of each
	MaxSources      int       // entries of the table for InPerSource, 24 octets each; 4,096 by default
	// MaxTargets is the maximum number of targets that are not running, 64 octets each; 65,536 by default. In a full
	// table a new target evicts the one with the state that ends first, which is then running.
	MaxTargets int
	Seed       uint64 // seed of the hash tables; 0 is a random one
}

// A Role contains the targets that are not running.
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

// Receive decides about a packet and applies the request of an accepted PPFC.
// It appends nothing to out. For other packets, and with Event.Observe, the
// Action is node.NoAction.
//
// If the PPFC is accepted, Decision.Request is its request and [Role.Target]
// the target; the request holds for the Pause of the PPFC, at most for
// Config.MaxPause. A stop holds even if a later PPFC requests a hold or an
// alarm. If KnownQP is set, the target is the flow Flow of the host, which the
// queue pair SrcQP sends.
//
// If it is not accepted, the Reason is the first of these that applies:
//   - ReasonDisabled
//   - ReasonNotOurs: the PPFC is addressed to another node
//   - ReasonTunnelled: access lists and borders saw only the outer header (D17)
//   - ReasonDenied
//   - ReasonLimited
//   - ReasonBroken: the PPFC has too few or too many octets
//   - ReasonICRC
func (t *Role) Receive(out []byte, f *rocev2.Frame, e node.Event) (sent []byte, d node.Decision) {
	if f != nil && !e.Observe {
		d.Reason = t.receivePPFC(f, e.Domain, &d, t.latest.Or(e.Now))
		t.counters.Settle(&d)
	}
	return out, d
}

// Due removes expired states. It appends nothing to out. Programs need not call
// it, because Receive, State and Next remove them as well.
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
	v.AllowTruncated = true
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

// StateAfter returns the state of a target after this request.
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

// State returns the state of a target and the time at which it ends, unless a
// PPFC changes it before. The time is zero for StateRunning.
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

// Next returns the time at which the next state ends; the result is false if
// all targets are running. At that time, call State for the targets that were
// not running.
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

// Max returns the maximum number of targets that are not running.
func (t *Role) Max() int { return t.memory.Size(0) }
