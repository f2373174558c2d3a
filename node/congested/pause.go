package congested

import (
	"net/netip"
	"time"

	"github.com/rocecn/rocecn/internal/flowtable"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/internal/role"
	"github.com/rocecn/rocecn/ppfc"
)

// PauseFrom selects the request of a PPFC by the level of congestion: each field is the
// level, 1 to 7, from which on its type is used; 0 is never. Of several that are
// reached the one with the highest level is used, of equal ones the stricter. The
// zero PauseFrom is Stop at every level, also at 0.
//
//	PauseFrom{Alarm: 1, Hold: 3, Stop: 5}
//
//	level   0   1 ─── 2   3 ─── 4   5 ────── 7
//	PPFC    –   alarm     hold      stop
type PauseFrom struct{ Alarm, Hold, Stop uint8 }

// typeFor returns the type of PPFC for a level, and reports whether one is sent at all.
func (f PauseFrom) typeFor(level uint8) (t ppfc.Type, ok bool) {
	if f == (PauseFrom{}) {
		return ppfc.Stop, true
	}
	highest := uint8(0)
	for _, step := range [...]struct {
		from uint8
		t    ppfc.Type
	}{{f.Alarm, ppfc.Alarm}, {f.Hold, ppfc.Hold}, {f.Stop, ppfc.Stop}} {
		if step.from != 0 && step.from <= level && step.from >= highest {
			highest, t, ok = step.from, step.t, true
		}
	}
	return t, ok
}

// appendPause asks the sender, or the ingress PE, to pause (PPFC section 3).
func (a *Role) appendPause(b []byte, s *congestion) ([]byte, node.Reason) {
	p, e := &a.message.Packet, s.event
	to := p.Src
	switch {
	case !a.cfg.PauseIngress:
	case !s.frame.Tunnelled(): // labels alone have no ingress
		return b, node.ReasonNotTunnelled
	default:
		to = s.frame.Outer().Src()
		if reason := a.checkIngress(to); reason != node.NoReason {
			return b, reason
		}
	}
	kind, something := a.cfg.PauseFrom.typeFor(e.Level)
	switch {
	case !a.self.Like(to).IsValid():
		return b, node.ReasonNoMethod
	case s.tunnelled && !a.cfg.PPFC.InnerSource && !a.cfg.PauseIngress:
		return b, node.ReasonTunnelled
	case !something:
		return b, node.NoReason
	case !a.cfg.PPFC.NodeAddress && !s.mayNameDestination():
		return b, node.ReasonAddress
	case !a.isWithinLimits(s, s.flow):
		return b, node.ReasonLimited
	}
	n := ppfc.New(p.BTH.DestQP, p.BTH.PKey, ppfc.Extension{
		Congested: p.FinalDst(), Type: kind, Port: e.Port,
		Pause: min(max(a.cfg.Pause, 0), ppfc.MaxPause).Truncate(time.Microsecond),
	})
	if a.cfg.PPFC.NodeAddress {
		n.Congested = a.self.Like(to)
	}
	out, err := a.appendPPFC(b, &n, to)
	if err != nil {
		return b, node.ReasonBroken
	}
	a.pace.Charge(s.flow, role.SourceOf(&s.Flow), s.event.Now)
	if kind != ppfc.Alarm && a.paused.add(s, &n, to) {
		a.counters.Inc(node.Count{Effect: node.EffectForgotten})
	}
	s.Message, s.To = message.KindPPFC, to
	return out, node.NoReason
}

func (a *Role) appendPPFC(b []byte, n *ppfc.Notification, to netip.Addr) ([]byte, error) {
	return n.AppendPacket(b, a.self.Like(to), to, ppfc.Config{Carriage: a.cfg.PPFC.Carriage})
}

// Due appends a PPFC that resumes one flow, a whole IP packet, to out. Call it again while the Action is
// node.ActionSent. The Decision has that flow.
//
// A flow that was stopped or held is due when the queue of its port is back at level 0; Receive learns that from an
// Event without a frame. Each such flow gets a resume, even if its pause may have ended, as the node does not know when
// the sender began it. No interval or rate limits resumes. Two kinds of flows get none, and run when their pause ends:
// those that were evicted (Config.MaxPaused), and those for which the node no longer has an own address, which Due
// counts as node.EffectForgotten. A role that is off keeps its flows until it is on again.
//
// The time now has no effect on the resumes. It is the time of later frames without a time.
func (a *Role) Due(out []byte, now time.Time) (sent []byte, d node.Decision) {
	a.latest.Or(now)
	if a.paused.due == 0 || !a.cfg.Enabled {
		return out, d
	}
	return a.resumeFlow(out)
}

// resumeFlow appends the PPFC that lets the next flow run again. It is separate from Due to keep Due cheap while
// nothing is due: Due is called at each change of a queue's level.
func (a *Role) resumeFlow(out []byte) (sent []byte, d node.Decision) {
	for f := a.paused.nextReleased(); f != nil; f = a.paused.nextReleased() {
		n, to := f.resumePPFC()
		sent, err := a.appendPPFC(out, &n, to)
		flow := role.FlowOf(&f.flow)
		a.paused.remove(f)
		if err != nil {
			a.counters.Inc(node.Count{Effect: node.EffectForgotten})
			continue
		}
		d.Action, d.Packet, d.Message, d.To, d.Flow = node.ActionSent, message.KindData, message.KindPPFC, to, flow
		a.counters.Settle(&d)
		a.counters.Inc(node.Count{Effect: node.EffectResumed})
		return sent, d
	}
	return out, d
}

// pausedFlows are the flows that a PPFC has stopped or held, in a set-associative
// table of fixed size: a fifth flow in a set evicts the one paused longest ago.
type pausedFlows struct {
	sets  flowtable.Sets[pausedFlow]
	ports [1024]uint32 // number of flows of a port in the table, by the lower bits of the port
	turn  uint64       // number of the last PPFC
	due   int          // number of flows that are released
	next  int          // index of the flow at which nextReleased continues
}

// A pausedFlow has the fields of the PPFC that lets the flow run again: 88 octets, without pointers.
type pausedFlow struct {
	turn                uint64 // when it was paused last; 0: free
	flow                flowtable.Key
	to, congested       [16]byte
	pKey, port          uint16
	toIs4, congestedIs4 bool
	released            bool // its resuming PPFC is due
}

// portCount returns the counter of a port, which ports with the same lower bits share.
func (p *pausedFlows) portCount(port uint16) *uint32 { return &p.ports[port%uint16(len(p.ports))] }

// add records that a flow was paused, and reports whether it evicted another flow.
func (p *pausedFlows) add(s *congestion, n *ppfc.Notification, to netip.Addr) (forgotten bool) {
	_, set := p.sets.Find(s.flow)
	flow := role.TableKey(&s.Flow)
	at := &set[0]
	for i := range set {
		f := &set[i]
		if f.turn != 0 && f.flow == flow && f.port == n.Port {
			at = f
			break
		}
		if f.turn < at.turn {
			at = f
		}
	}
	if at.turn != 0 {
		forgotten = at.flow != flow || at.port != n.Port
		p.remove(at)
	}
	*p.portCount(n.Port)++
	p.turn++
	*at = pausedFlow{
		turn: p.turn, flow: flow, pKey: n.PKey, port: n.Port,
		to: to.As16(), toIs4: to.Is4(), congested: n.Congested.As16(), congestedIs4: n.Congested.Is4(),
	}
	return forgotten
}

// releasePort makes the flows due that were paused because of a port.
func (p *pausedFlows) releasePort(port uint16) {
	if *p.portCount(port) == 0 {
		return
	}
	for i := range p.sets.All {
		for j := range p.sets.All[i] {
			if f := &p.sets.All[i][j]; f.turn != 0 && f.port == port && !f.released {
				f.released = true
				p.due++
			}
		}
	}
}

// nextReleased returns a flow with a PPFC to resume that is due, or nil. All flows are found in one round, because
// each search continues at the end of the last one.
func (p *pausedFlows) nextReleased() *pausedFlow {
	for p.due > 0 {
		f := &p.sets.All[p.next/4][p.next%4]
		if p.next++; p.next == 4*len(p.sets.All) {
			p.next = 0
		}
		if f.released {
			return f
		}
	}
	return nil
}

// remove removes a flow.
func (p *pausedFlows) remove(f *pausedFlow) {
	*p.portCount(f.port)--
	if f.released {
		p.due--
	}
	*f = pausedFlow{}
}

// resumePPFC returns the notification that lets the flow run again, and where it goes: as it was when the flow was
// paused.
func (f *pausedFlow) resumePPFC() (ppfc.Notification, netip.Addr) {
	return ppfc.New(f.flow.QP&flowtable.MaxQP, f.pKey, ppfc.Extension{
		Congested: addrFrom16(f.congested, f.congestedIs4), Type: ppfc.Resume, Port: f.port,
	}), addrFrom16(f.to, f.toIs4)
}

// addrFrom16 is the inverse of As16.
func addrFrom16(octets [16]byte, is4 bool) netip.Addr {
	a := netip.AddrFrom16(octets)
	if is4 {
		return a.Unmap()
	}
	return a
}
