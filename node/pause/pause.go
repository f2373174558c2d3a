// Package pause is what PPFC makes an ingress or a host do (PPFC section 3): it
// decides which notifications to believe, and keeps what they ask for until it
// is over.
//
//	stop    send nothing until resume, or for Pause Duration
//	hold    do not send faster than now, for as long
//	alarm   nothing, but somebody should know
//	resume  all that is over
//
// The meanings are those that the names suggest: the draft refers to a companion
// for them (draft-xz-rtgwg-ppfc-notification).
//
// Nothing lasts longer than Config.MaxPause: a resume that is lost does not stop
// a flow for ever. A table reads no clock. Ask it by State before sending, or
// when the time that Next gives has come.
package pause

import (
	"errors"
	"math/rand/v2"
	"net/netip"
	"strconv"
	"time"

	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/internal/enumtext"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/acl"
	"github.com/rocecn/rocecn/node/limit"
	"github.com/rocecn/rocecn/ppfc"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
)

// A State is what a target is in.
type State uint8

// The states. Where several hold at once, the first of Stopped, Held, Alarmed
// is the target's.
const (
	Running State = iota
	Stopped
	Held
	Alarmed
)

var states = [...]string{"running", "stopped", "held", "alarmed"}

// String returns the state in lower case.
func (s State) String() string {
	if int(s) < len(states) {
		return states[s]
	}
	return "State(" + strconv.Itoa(int(s)) + ")"
}

// MarshalText returns what String does.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText sets s to the state that String returns the text for.
func (s *State) UnmarshalText(text []byte) error {
	return enumtext.Unmarshal(s, text, "pause", "state")
}

// A Target is what a notification is about. The draft calls its address both
// the congested destination and the address of the congested node, and does not
// say whose queue pair DestQP is (D15). It is read in both ways:
//
//   - as a flow, by the destination of its data packets and their DestQP, as in a
//     Fast CNP;
//   - as a port of the congested node, where the address is that of the sender of
//     the notification and no flow of the host's goes to it.
type Target struct {
	Addr   netip.Addr // the flow's destination, or the node
	DestQP uint32     // of a flow: its receiver's queue pair, 24 bits
	Port   uint16     // of a node: the congested port
	Node   bool       // which of the two it is
}

// Flow returns the target that is a flow.
func Flow(dst netip.Addr, destQP uint32) Target { return Target{Addr: dst, DestQP: destQP} }

// NodePort returns the target that is a port of a congested node.
func NodePort(addr netip.Addr, port uint16) Target { return Target{Addr: addr, Port: port, Node: true} }

// Config is what a deployment chooses. The zero Config is off.
type Config struct {
	Enabled      bool
	Self4, Self6 netip.Addr    // the node's own addresses
	Accept       *acl.List     // the nodes of the network whose notifications count; nil has none
	MaxPause     time.Duration // no state lasts longer; 0 stands for ppfc.MaxPause, as long as a notification can ask for
	QPs          node.Pairs    // of a host; nil knows none

	// In is the rate of notifications of all nodes, and InPerSource that of each of
	// them, so that one cannot use up what the others need. Every notification to this
	// node from one on the list takes from both before anything in it is looked at;
	// what one of them refuses takes nothing from the other. Without them, the
	// default, all are looked at.
	In, InPerSource limit.Rate
	// MaxSources is for how many nodes InPerSource is kept at once, 24 octets each; 0
	// stands for 4,096.
	MaxSources int

	// MaxTargets is how many targets are kept at once, 64 octets each and 15 to 26
	// to find them; 0 stands for 65,536. Where more come, the one whose state ends first is forgotten, and
	// runs.
	MaxTargets int
}

// An Action is what a notification asks for.
type Action struct {
	From   netip.Addr // who asks
	Target Target

	// QP is the host's queue pair that sends the target, where that is a flow of
	// the host's.
	QP      uint32
	KnownQP bool

	State State         // what is asked for; a target that is Stopped stays so when it is Held or Alarmed as well
	Pause time.Duration // for how long, at most MaxPause; 0 with Running
	Until time.Time     // when that is over
}

// Stats counts notifications.
type Stats struct {
	Accepted  [Alarmed + 1]uint64  // by what they ask for
	Refused   [node.Reasons]uint64 // by reason
	Forgotten uint64               // targets that made room for others
}

// A Table holds the targets that are not running. It allocates its memory when
// it is made, and none later. It is not safe for concurrent use: use one instance
// a core, each for the flows that the core sees.
type Table struct {
	cfg     Config
	packet  rocev2.Packet
	targets targets
	clock   clock
	seed    uint64 // keeps others from choosing sources that collide
	in      *limit.Bucket
	from    *limit.Buckets // by source
	stats   Stats
}

// New returns a Table.
func New(cfg Config) *Table {
	if cfg.MaxPause <= 0 || cfg.MaxPause > ppfc.MaxPause {
		cfg.MaxPause = ppfc.MaxPause
	}
	t := &Table{cfg: cfg}
	if cfg.Enabled {
		if cfg.MaxTargets <= 0 {
			cfg.MaxTargets = 1 << 16
		}
		if cfg.MaxSources <= 0 {
			cfg.MaxSources = 1 << 12
		}
		t.targets = newTargets(cfg.MaxTargets)
		t.seed = rand.Uint64()
		t.in, t.from = limit.NewBucket(cfg.In), limit.NewBuckets(cfg.InPerSource, cfg.MaxSources)
	}
	return t
}

// Stats returns the counters.
func (t *Table) Stats() Stats { return t.stats }

// Receive decides about a packet that arrived, and does what it asks for. The
// Action is one only where the reason is Accepted.
//
// Of the reasons the first counts: Disabled; NotOurs, for what is no PPFC or is
// another node's; Tunnelled, for access list and border saw only the outer header
// (D17); Denied; Limited; Broken, where octets are missing or too many; ICRC. RoCEv2
// that does not parse as far as its OpCode is Broken as well.
func (t *Table) Receive(frame []byte, o rocev2.DecodeOptions, now time.Time) (Action, node.Reason) {
	a, reason := t.receive(frame, o, now)
	if reason != node.Accepted {
		t.stats.Refused[reason]++
		return Action{}, reason
	}
	t.stats.Accepted[a.State]++
	return a, node.Accepted
}

func (t *Table) receive(frame []byte, o rocev2.DecodeOptions, now time.Time) (a Action, reason node.Reason) {
	if !t.cfg.Enabled {
		return a, node.Disabled
	}
	p := &t.packet
	o.Cut = true // what is missing counts once list and limits have passed the packet
	if err := p.Decode(frame, o); errors.Is(err, rocev2.ErrNotRoCEv2) {
		return a, node.NotOurs
	} else if err != nil {
		return a, node.Broken
	}
	switch {
	case !ppfc.Is(p), p.Dst != t.cfg.Self4 && p.Dst != t.cfg.Self6:
		return a, node.NotOurs
	case len(p.Outer) > 0:
		return a, node.Tunnelled
	case !t.cfg.Accept.Contains(p.Src):
		return a, node.Denied
	}
	source := rocev2.FlowKey{Src: p.Src}.Hash(t.seed)
	if !t.from.Ready(source, now) || !t.in.Ready(now) {
		return a, node.Limited
	}
	t.from.Take(source, now)
	t.in.Take(now)
	if p.Truncated {
		return a, node.Broken
	}
	n, err := ppfc.FromPacket(p)
	if err != nil {
		return a, node.Broken
	}
	if _, err := icrc.Verify(p.IP); err != nil {
		return a, node.ICRC
	}
	a.From = p.Src
	t.find(&a, &n, now)
	t.do(&a, &n, now)
	return a, node.Accepted
}

// find sets whom a notification is about (D15).
func (t *Table) find(a *Action, n *ppfc.Notification, now time.Time) {
	a.Target = Flow(n.Congested, n.DestQP)
	k := rocev2.FlowKey{Src: t.cfg.Self6, Dst: n.Congested, DestQP: n.DestQP}
	if n.Congested.Is4() {
		k.Src = t.cfg.Self4
	}
	pair, reason := node.SourceQP(t.cfg.QPs, qpmap.Key{FlowKey: k}, now)
	switch {
	case reason == node.Accepted:
		a.QP, a.KnownQP = pair.SrcQP, true
	case n.Congested == a.From:
		a.Target = NodePort(n.Congested, n.Port)
	}
}

// do does what a notification asks for.
func (t *Table) do(a *Action, n *ppfc.Notification, now time.Time) {
	at := t.clock.at(now)
	t.targets.expire(at)
	k := keyOf(&a.Target)
	if n.Type != ppfc.Resume {
		a.State, a.Pause = stateOf(n.Type), min(n.Pause, t.cfg.MaxPause)
	}
	a.Until = now.Add(a.Pause)
	switch {
	case a.State == Running:
		t.targets.run(&k)
	case a.Pause == 0: // over at once
		t.targets.clear(&k, a.State)
	case t.targets.set(&k, a.State, at+int64(a.Pause)):
		t.stats.Forgotten++
	}
}

// stateOf returns the state that a type asks for.
func stateOf(t ppfc.Type) State {
	switch t {
	case ppfc.Stop:
		return Stopped
	case ppfc.Hold:
		return Held
	case ppfc.Alarm:
		return Alarmed
	}
	return Running
}

// State returns what a target is in, and until when that lasts unless a
// notification comes before: the zero Time for Running.
func (t *Table) State(target Target, now time.Time) (State, time.Time) {
	at := t.clock.at(now)
	k := keyOf(&target)
	if e, _ := t.targets.find(&k); e != nil {
		for n, until := range e.until {
			if until > at {
				return Stopped + State(n), now.Add(time.Duration(until - at))
			}
		}
	}
	return Running, time.Time{}
}

// Next returns when a state ends next, and whether there is one that does: the
// time at which to ask State again for what was not running. What has ended is
// forgotten.
func (t *Table) Next(now time.Time) (time.Time, bool) {
	at := t.clock.at(now)
	t.targets.expire(at)
	until, ok := t.targets.first()
	if !ok {
		return time.Time{}, false
	}
	return now.Add(time.Duration(until - at)), true
}

// Len returns how many targets are kept.
func (t *Table) Len() int { return t.targets.entries.Len() }
