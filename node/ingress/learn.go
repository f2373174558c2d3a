package ingress

import (
	"time"

	"github.com/rocecn/rocecn/internal/flowtable"
	"github.com/rocecn/rocecn/internal/hash"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/internal/role"
	"github.com/rocecn/rocecn/rocev2"
)

// A learned table holds flows by the labels that others give them, in the order in which the labels were seen last. A
// flow may have several labels: packets of one that changes its UDP source port do.
type learned = flowtable.Table[uint32, lesson]

// A lesson has the flow that was learned for a label: with the label and the links of the table 80 octets without
// pointers.
type lesson struct {
	flow   flowtable.Key // that had it last
	seen   int64         // when it had
	other  int64         // when another flow had it last, if shared
	pKey   uint16        // of the flow's last packet
	shared bool          // another flow has had it
}

// isAmbiguous reports whether more than one flow has had the label within Idle, of a PE that is off the Idle that it
// had.
func (pe *Role) isAmbiguous(l *lesson) bool {
	return l.shared && pe.clock.Now()-l.other < int64(pe.clock.Slack)
}

func newLearned(most int) learned {
	return flowtable.New[uint32, lesson](most, false, hashLabel)
}

func hashLabel(label *uint32, seed uint64) uint64 {
	return hash.Mix(uint64(*label)^seed, seed^0x9E3779B97F4A7C15)
}

// learnFromTunnel learns from a packet on its way into the WAN, in a tunnel from Config.WAN, with the label that the
// kernel or hardware which encapsulates has given it: RoCEv2 data teaches which flow has the label, and all RoCEv2
// queue pairs.
func (pe *Role) learnFromTunnel(f *rocev2.Frame, domain uint32, d *node.Decision, now time.Time) {
	if !pe.cfg.Enabled || !f.Tunnelled() || f.Inner().Mirrored() || f.Outer().Src() != pe.cfg.WAN {
		return
	}
	p := &pe.packet
	if f.Inner().Packet(p) != nil {
		return
	}
	d.Packet = role.KindOf(p.BTH.Opcode)
	pe.qps.Learn(d, p, domain, p.Src, now)
	if d.Packet != message.KindData {
		return
	}
	reason := pe.learnLabel(f, domain, d, now)
	if d.Action == node.NoAction {
		d.Reason = reason
	}
}

// learnLabel records the label of a data packet, or returns the reason why it cannot.
func (pe *Role) learnLabel(f *rocev2.Frame, domain uint32, d *node.Decision, now time.Time) node.Reason {
	p, label := &pe.packet, f.Outer().FlowLabel()
	switch {
	case label == 0:
		return node.ReasonUnknownLabel
	case f.Outer().ECN() == rocev2.NotECT:
		pe.counters.Inc(node.Count{Effect: node.EffectNotECNCapable})
	}
	t := pe.clock.Ticks(now)
	pe.releaseLabels(t)
	d.Flow.FlowKey, d.Flow.Domain, d.Label = role.PacketKey(p), domain, label
	k := role.TableKey(&d.Flow)
	at := hashLabel(&label, pe.learned.Seed)
	l, i := pe.learned.Find(&label, at)
	switch {
	case l == nil:
		if i = pe.learned.Add(&label, at, 0); i == 0 {
			return node.ReasonTableFull
		}
		l = pe.learned.Value(i)
		l.flow, d.Action = k, node.ActionLearned
		pe.counters.Inc(node.Count{Effect: node.EffectOpened})
	case l.flow != k:
		if !pe.isAmbiguous(l) {
			d.Action = node.ActionLearned
		}
		l.flow, l.other, l.shared = k, l.seen, true
	}
	l.seen, l.pKey = t, p.BTH.PKey
	pe.learned.Renew(i, 0)
	return node.NoReason
}

// forgetIdle removes the labels that have been silent for Idle.
func (pe *Role) forgetIdle(now int64) {
	for i := pe.learned.Oldest(0); i != 0; i = pe.learned.Oldest(0) {
		if now-pe.learned.Value(i).seen < int64(pe.cfg.Idle) {
			break
		}
		pe.learned.Remove(i)
	}
}

// lookUpLearned sets the flow that has a label, and returns its entry, or sets the reason why no flow is known and
// returns nil.
func (pe *Role) lookUpLearned(d *node.Decision, label uint32) *lesson {
	l, _ := pe.learned.Find(&label, hashLabel(&label, pe.learned.Seed))
	switch {
	case l == nil:
		d.Reason = node.ReasonUnknownLabel
	case pe.isAmbiguous(l):
		d.Reason = node.ReasonAmbiguousLabel
	default:
		d.Flow, d.Label = role.FlowOf(&l.flow), label
		return l
	}
	return nil
}
