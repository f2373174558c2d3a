package congested

import (
	"math/bits"
	"net/netip"
	"time"

	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/ppfc"
)

// PauseFrom says what a PPFC asks for at which level of congestion: each of the
// three from its level, 1 to 7, on; 0 is never. Of those that are reached the one
// with the highest level counts, and of equal ones the stricter. The zero
// PauseFrom is Stop at every level, 0 too.
//
//	PauseFrom{Alarm: 1, Hold: 3, Stop: 5}
//
//	level   0   1 ─── 2   3 ─── 4   5 ────── 7
//	PPFC    –   alarm     hold      stop
type PauseFrom struct{ Alarm, Hold, Stop uint8 }

// at returns what a PPFC asks for at a level, if there is something.
func (f PauseFrom) at(level uint8) (t ppfc.Type, ok bool) {
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

// ppfc asks the sender, or the ingress PE, to pause (PPFC section 3).
func (a *Agent) ppfc(b []byte, s *seen) []byte {
	p, e := &a.message.Packet, &s.event
	to := p.Src
	if a.cfg.PauseIngress {
		if !s.tunnelled || s.frame.Flow(&a.flow) != nil {
			return s.refuse(b, node.NotTunnelled)
		}
		to = a.flow.OuterSrc()
		s.Reason = a.ingress(to)
	}
	kind, something := a.cfg.PauseFrom.at(e.Level)
	switch {
	case s.Reason != node.Accepted:
	case !a.self.Like(to).IsValid():
		s.Reason = node.NoMethod
	case s.tunnelled && !a.cfg.InnerSource && !a.cfg.PauseIngress:
		s.Reason = node.Tunnelled
	case !something:
		return b
	case !a.ready(s, s.flow):
		s.Reason = node.Limited
	}
	if s.Reason != node.Accepted {
		return b
	}
	n := ppfc.New(p.BTH.DestQP, p.BTH.PKey, ppfc.Extension{
		Congested: p.FinalDst(), Type: kind, Port: e.Port,
		Pause: min(max(e.Pause, 0), ppfc.MaxPause).Truncate(time.Microsecond),
	})
	if a.cfg.PPFC.NodeAddress {
		n.Congested = a.self.Like(to)
	}
	out, err := a.appendPPFC(b, &n, to)
	if err != nil {
		return s.refuse(b, node.Broken)
	}
	a.pace.Take(s.flow, s.now)
	if kind != ppfc.Alarm && a.paused.put(s.flow, &n, to) {
		a.counters.Inc(node.Count{Action: node.Forgotten})
	}
	s.Kind, s.To = message.PPFC, to
	return out
}

func (a *Agent) appendPPFC(b []byte, n *ppfc.Notification, to netip.Addr) ([]byte, error) {
	return n.AppendPacket(b, a.self.Like(to), to, a.cfg.PPFC.Carriage)
}

// Resume is for when the queue of a port has fallen so far that it is congested no more: level 0 of package level. It
// appends a PPFC that lets a flow run again, a whole IP packet, to b: ask again until the Action is node.Nothing.
// Each flow that was stopped or held because of that port gets one, whether its pause is over by itself or not, as
// the node does not know when it began. Flows that were forgotten (Config.MaxPaused) get none, and run when their
// pause is over.
func (a *Agent) Resume(b []byte, port uint16) ([]byte, node.Decision) {
	for a.cfg.Enabled {
		n, to, ok := a.paused.take(port)
		if !ok {
			break
		}
		if out, err := a.appendPPFC(b, &n, to); err == nil { // as it was when the flow was paused
			d := node.Decision{Action: node.Sent, Kind: message.PPFC, To: to}
			a.counters.Decided(&d)
			a.counters.Inc(node.Count{Action: node.Resumed})
			return out, d
		}
	}
	return b, node.Decision{}
}

// pausedFlows are the flows that a PPFC has stopped or held. Its memory is fixed:
// four flows to a set, of which the one that was paused longest ago makes room for
// a fifth.
type pausedFlows struct {
	sets  [][4]pausedFlow
	shift uint8  // what of a hash is no number of a set
	n     int    // flows in it
	turn  uint64 // counts PPFCs
	next  int    // the flow at which take goes on
}

// A pausedFlow is what the PPFC that lets it run again needs. 64 octets, no
// pointers.
type pausedFlow struct {
	turn                uint64 // when it was paused last; 0: free
	flow                uint64 // its hash
	to, congested       [16]byte
	destQP              uint32
	pKey, port          uint16
	toIs4, congestedIs4 bool
}

func newPausedFlows(flows int) pausedFlows {
	order := bits.Len(uint(flows+3)/4 - 1)
	return pausedFlows{sets: make([][4]pausedFlow, 1<<order), shift: uint8(64 - order)}
}

// put adds a flow that was paused, or paused again, and says whether another one
// had to make room.
func (p *pausedFlows) put(flow uint64, n *ppfc.Notification, to netip.Addr) (forgotten bool) {
	set := &p.sets[flow>>p.shift]
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
	switch {
	case at.turn == 0:
		p.n++
	case at.flow != flow || at.port != n.Port:
		forgotten = true
	}
	p.turn++
	*at = pausedFlow{
		turn: p.turn, flow: flow, destQP: n.DestQP, pKey: n.PKey, port: n.Port,
		to: to.As16(), toIs4: to.Is4(), congested: n.Congested.As16(), congestedIs4: n.Congested.Is4(),
	}
	return forgotten
}

// take removes a flow that was paused because of a port and returns the
// notification that lets it run again.
func (p *pausedFlows) take(port uint16) (n ppfc.Notification, to netip.Addr, ok bool) {
	if p.n == 0 {
		return n, to, false
	}
	for range 4 * len(p.sets) {
		f := &p.sets[p.next/4][p.next%4]
		if p.next++; p.next == 4*len(p.sets) {
			p.next = 0
		}
		if f.turn == 0 || f.port != port {
			continue
		}
		n = ppfc.New(f.destQP, f.pKey, ppfc.Extension{
			Congested: address(f.congested, f.congestedIs4), Type: ppfc.Resume, Port: f.port,
		})
		to = address(f.to, f.toIs4)
		*f = pausedFlow{}
		p.n--
		return n, to, true
	}
	return n, to, false
}

// address returns the address that As16 gave these octets for.
func address(octets [16]byte, is4 bool) netip.Addr {
	a := netip.AddrFrom16(octets)
	if is4 {
		return a.Unmap()
	}
	return a
}
