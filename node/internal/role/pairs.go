package role

import (
	"errors"
	"iter"
	"net/netip"
	"time"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
)

// Pairs are the queue pairs that a role knows. The zero Pairs know none.
type Pairs struct {
	known    node.Pairs
	sent     sentPairs    // known, if it is one
	attacked amidPairs    // likewise
	connects connections  // likewise
	learner  node.Learner // likewise
	table    *qpmap.Map   // likewise
}

// amidPairs know which queue pair sends a flow with which forged packets are mixed.
type amidPairs interface {
	SourceQPAmid(k qpmap.Key, now time.Time) (qpmap.Pair, error)
}

// connections know which queue pairs have a connection, whichever sent the last packet.
type connections interface {
	Connects(k qpmap.Key, now time.Time) error
}

// sentPairs know which queue pair has sent a packet of a flow that was sent by several, one after the other.
type sentPairs interface {
	SourceQPOf(k qpmap.Key, h *bth.Header, now time.Time) (qpmap.Pair, error)
}

// PairsOf returns the queue pairs of a Config. A nil *qpmap.Map knows none.
func PairsOf(known node.Pairs) (q Pairs) {
	if table, ok := known.(*qpmap.Map); !ok || table != nil {
		q.known, q.table = known, table
		q.sent, _ = known.(sentPairs)
		q.attacked, _ = known.(amidPairs)
		q.connects, _ = known.(connections)
		q.learner, _ = known.(node.Learner)
	}
	return q
}

// SourceQP returns the queue pair that sends a flow, or ReasonUnknownQP or ReasonAmbiguousQP.
func (q *Pairs) SourceQP(k *qpmap.Key, now time.Time) (uint32, node.Reason) {
	if q.known == nil {
		return 0, node.ReasonUnknownQP
	}
	pair, err := q.known.SourceQP(*k, now)
	if err != nil {
		return 0, reasonOf(err)
	}
	return pair.SrcQP, node.NoReason
}

// Find sets the queue pair that sends d.Flow, or the reason for which it is not known.
func (q *Pairs) Find(d *node.Decision, now time.Time) {
	d.SrcQP, d.Reason = q.SourceQP(&d.Flow, now)
	d.KnownQP = d.Reason == node.NoReason
}

// FindAmid is Find for a flow of which the last packet may be forged.
func (q *Pairs) FindAmid(d *node.Decision, now time.Time) {
	if q.Find(d, now); d.Reason != node.ReasonUnknownQP || q.attacked == nil {
		return
	}
	if pair, err := q.attacked.SourceQPAmid(d.Flow, now); err == nil {
		d.SrcQP, d.KnownQP, d.Reason = pair.SrcQP, true, node.NoReason
	}
}

// Connects reports whether the receiver of a flow is known to have a connection with a queue pair at its source.
func (q *Pairs) Connects(k *qpmap.Key, now time.Time) bool {
	return q.connects != nil && q.connects.Connects(*k, now) == nil
}

// FindOf is Find for the queue pair that has sent a packet with this BTH, even if another queue pair has sent the
// flow since. If the flow has a connection, but the packet does not belong to it, the reason is ReasonPSNMismatch.
func (q *Pairs) FindOf(d *node.Decision, h *bth.Header, now time.Time) {
	if q.sent == nil {
		q.Find(d, now)
		return
	}
	pair, err := q.sent.SourceQPOf(d.Flow, h, now)
	if d.KnownQP = err == nil; d.KnownQP {
		d.SrcQP, d.Reason = pair.SrcQP, node.NoReason
	} else {
		d.SrcQP, d.Reason = 0, reasonOf(err)
	}
	if d.Reason == node.ReasonUnknownQP && !h.Opcode.Headers().Has(bth.HasDETH) && q.Connects(&d.Flow, now) {
		d.Reason = node.ReasonPSNMismatch
	}
}

// reasonOf returns the reason that an error of Pairs stands for.
func reasonOf(err error) node.Reason {
	if errors.Is(err, qpmap.ErrAmbiguous) {
		return node.ReasonAmbiguousQP
	}
	return node.ReasonUnknownQP
}

// Learns reports whether they learn from packets.
func (q *Pairs) Learns() bool { return q.learner != nil }

// Learn learns from a packet, and makes d the Decision about it if that taught a pair. The two pairs of a connection
// are learned together: d has the one of the flow from src, or the first of them.
func (q *Pairs) Learn(d *node.Decision, p *rocev2.Packet, domain uint32, src netip.Addr, now time.Time) {
	if q.learner == nil || q.learner.Observe(p, domain, now) == 0 {
		return
	}
	d.Action, d.Flow, d.KnownQP = node.ActionLearned, qpmap.Key{}, true
	if q.table == nil {
		d.Flow, d.SrcQP = findLearned(q.learner.Learned(), src)
		return
	}
	// The compiler knows this iterator, so that the loop, the same as in learned, does not allocate.
	for k, pair := range q.table.Learned() {
		if d.Flow == (qpmap.Key{}) || k.Src == src {
			d.Flow, d.SrcQP = k, pair.SrcQP
		}
	}
}

func findLearned(pairs iter.Seq2[qpmap.Key, qpmap.Pair], src netip.Addr) (flow qpmap.Key, qp uint32) {
	for k, pair := range pairs {
		if flow == (qpmap.Key{}) || k.Src == src {
			flow, qp = k, pair.SrcQP
		}
	}
	return flow, qp
}
