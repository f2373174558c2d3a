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
	flow  flowtable.Key
	seen  int64  // time of its last packet
	other int64  // time of the last packet of another flow with the label
	pKey  uint16 // of the flow's last packet
	doubt uint8  // rises by foreignDoubt with each packet of another flow, and falls by 1 with each of this one
}

// A new lesson has newDoubt, so that one packet of another flow makes it ambiguous. After three packets of the flow it
// no longer does, so one forged packet among several of the flow has no effect. Another flow that brings the doubt to
// maxDoubt takes the label over.
const (
	newDoubt       = 3
	foreignDoubt   = 3
	ambiguousDoubt = 4
	maxDoubt       = 12
)

// isAmbiguous reports whether the label may belong to another flow, which has had it within Idle, or the last Idle of a
// PE that is off.
func (pe *Role) isAmbiguous(l *lesson) bool {
	return l.doubt >= ambiguousDoubt && pe.clock.Now()-l.other < int64(pe.clock.Slack)
}

// countPacket counts a packet of a flow with the label, and reports whether the label became ambiguous or the flow's.
func (pe *Role) countPacket(l *lesson, k *flowtable.Key, pKey uint16, now int64) (changed bool) {
	if l.flow == *k {
		l.seen, l.pKey, l.doubt = now, pKey, l.doubt-min(l.doubt, 1)
		return false
	}
	before := pe.isAmbiguous(l)
	if now-l.seen >= int64(pe.clock.Slack) || l.doubt >= maxDoubt {
		l.flow, l.seen, l.other, l.pKey, l.doubt = *k, now, l.seen, pKey, maxDoubt
		return true
	}
	l.other, l.doubt = now, min(l.doubt+foreignDoubt, maxDoubt)
	return !before && pe.isAmbiguous(l)
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
		if pe.learned.Full() {
			pe.evictLabel(&k, at)
		}
		if i = pe.learned.Add(&label, at, 0); i == 0 {
			return node.ReasonTableFull
		}
		*pe.learned.Value(i) = lesson{flow: k, seen: t, pKey: p.BTH.PKey, doubt: newDoubt}
		pe.shares.Add(&k, pe.memory.Seed())
		d.Action = node.ActionLearned
		pe.counters.Inc(node.Count{Effect: node.EffectOpened})
	default:
		was := l.flow
		if pe.countPacket(l, &k, p.BTH.PKey, t) {
			d.Action = node.ActionLearned
		}
		if l.flow != was {
			pe.shares.Remove(&was, pe.memory.Seed())
			pe.shares.Add(&l.flow, pe.memory.Seed())
		}
	}
	pe.learned.Renew(i, 0)
	return node.NoReason
}

// forgetIdle removes the labels that have been silent for Idle.
func (pe *Role) forgetIdle(now int64) {
	for i := pe.learned.Oldest(0); i != 0; i = pe.learned.Oldest(0) {
		if l := pe.learned.Value(i); now-max(l.seen, l.other) < int64(pe.cfg.Idle) {
			break
		}
		pe.removeLabel(i)
	}
}

// removeLabel removes a label.
func (pe *Role) removeLabel(i uint32) {
	pe.shares.Remove(&pe.learned.Value(i).flow, pe.memory.Seed())
	pe.learned.Remove(i)
}

// evictLabel makes space for the label of a flow in a full table, as evictFlow does.
func (pe *Role) evictLabel(k *flowtable.Key, hash uint64) {
	victim := uint32(0)
	for n := range uint64(flowtable.Looks) {
		i := pe.learned.Pick(hash>>7 + n*0x9E3779B97F4A7C15>>11)
		if (victim == 0 || pe.learned.Value(i).seen < pe.learned.Value(victim).seen) &&
			pe.shares.MayEvict(&pe.learned.Value(i).flow, k, pe.memory.Seed()) {
			victim = i
		}
	}
	if victim != 0 {
		pe.removeLabel(victim)
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
