package roles

import (
	"net/netip"
	"time"

	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/reaction"
	"github.com/rocecn/rocecn/node/sender"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
)

var (
	_ sender.QPTable = (*hostPairs)(nil)
	_ node.Learner   = (*hostPairs)(nil)
)

// hostPairs are the pairs of a host that sends, which also knows its queue pairs
// by their numbers.
type hostPairs struct {
	*pairs
	own     map[uint32]bool // the numbers of the host's queue pairs
	given   map[ownQP]bool
	learned map[ownQP][4]uint32           // the queue pairs at the other end that were learned last
	last    map[uint32][4]reaction.FlowID // likewise, wherever the other end is
}

// An ownQP is a queue pair of the host, and where it sends to.
type ownQP struct {
	qp  uint32
	dst netip.Addr
}

// maxLearned is the maximum number of entries of learned. A table of pairs holds half
// as many: so half of them are out of date when it is made again.
const maxLearned = 2 << 16

// newHostPairs returns the pairs of a host with these addresses, of which p has some
// already.
func newHostPairs(p *pairs, self4, self6 netip.Addr) *hostPairs {
	p.self4, p.self6 = self4, self6
	h := &hostPairs{pairs: p, given: map[ownQP]bool{}}
	h.rebuildIndex()
	return h
}

// rebuildIndex builds the index by number again.
func (h *hostPairs) rebuildIndex() {
	h.clearLearned()
	for k, pair := range h.All() {
		h.recordPair(k.FlowKey, pair.SrcQP)
	}
}

// clearLearned removes all pairs except the given ones.
func (h *hostPairs) clearLearned() {
	h.own, h.learned, h.last = map[uint32]bool{}, map[ownQP][4]uint32{}, map[uint32][4]reaction.FlowID{}
	for q := range h.given {
		h.own[q.qp] = true
	}
}

// addConfigured takes the pairs of the configuration.
func (h *hostPairs) addConfigured(all []hostPair) error {
	if err := h.giveHost(all, h.self4, h.self6); err != nil {
		return err
	}
	for _, q := range all {
		h.given[ownQP{*q.QP, q.Dst}] = true
		k := rocev2.FlowKey{Src: h.self6, Dst: q.Dst, DestQP: *q.DestQP}
		if q.Dst.Is4() {
			k.Src = h.self4
		}
		h.recordPair(k, *q.QP)
	}
	return nil
}

// isOwn reports whether the host sends a flow.
func (h *hostPairs) isOwn(k rocev2.FlowKey) bool { return h.isSelf(k.Src) }

// Observe learns from a packet.
func (h *hostPairs) Observe(packet *rocev2.Packet, domain uint32, now time.Time) int {
	n := h.pairs.Observe(packet, domain, now)
	if n == 0 {
		return 0
	}
	if len(h.learned) >= maxLearned {
		h.rebuildIndex()
	}
	for k, pair := range h.Learned() {
		h.recordPair(k.FlowKey, pair.SrcQP)
	}
	return n
}

// recordPair keeps which queue pair sends a flow, if the host does.
func (h *hostPairs) recordPair(k rocev2.FlowKey, qp uint32) {
	if !h.isOwn(k) {
		return
	}
	h.own[qp] = true
	prependUnique(h.learned, ownQP{qp, k.Dst}, k.DestQP)
	prependUnique(h.last, qp, reaction.FlowID{Dst: k.Dst, DestQP: k.DestQP})
}

// putFirst puts x before the others at a key, if it is not the first already, and lets the last go.
func prependUnique[K, T comparable](all map[K][4]T, at K, x T) {
	if list := all[at]; list[0] != x {
		all[at] = [4]T{x, list[0], list[1], list[2]}
	}
}

// Sends reports whether one of the host's queue pairs sends to dst and, where it does
// not, whether there is one of this number.
func (h *hostPairs) Sends(qp uint32, dst netip.Addr, now time.Time) (sends, known bool) {
	at := ownQP{qp, dst}
	if h.given[at] {
		return true, true
	}
	if h.device != nil {
		remote, there := h.device.remotes[qp]
		if there && remote == dst {
			return true, true
		}
		known = there
	}
	k := rocev2.FlowKey{Src: h.self6, Dst: dst}
	if dst.Is4() {
		k.Src = h.self4
	}
	for _, k.DestQP = range h.learned[at] {
		if pair, err := h.SourceQP(qpmap.Key{FlowKey: k}, now); err == nil && pair.SrcQP == qp {
			return true, true
		}
	}
	return false, known || h.own[qp]
}
