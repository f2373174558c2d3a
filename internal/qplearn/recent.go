package qplearn

import (
	"time"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/internal/flowtable"
	"github.com/rocecn/rocecn/internal/hash"
)

// recent remembers the requests of the last seconds by addresses, domain and PSN, to find the flows
// that used the PSN of a response. A new request replaces the oldest of the four in its set. If an
// answer to that one may still come, the set remembers that it no longer knows all flows that used
// its PSN. It does so for the last four such PSNs, so that an attacker cannot make the set useless
// by requests of many PSNs.
type recent struct {
	seed uint64
	sets flowtable.Sets[request]
	most int // requests, if the sets are still to be allocated
}

const ways = 4

type request struct {
	flow    uint32  // hash of addresses, domain and transport; 0: free
	at      int32   // moment
	qp, psn [3]byte // little endian
	gone    uint16  // mark of one that was replaced, in whichever place of the set; 0: none
}

func octets(n uint32) [3]byte { return [3]byte{byte(n), byte(n >> 8), byte(n >> 16)} }

func number(b [3]byte) uint32 { return uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 }

// mark returns a mark for the requests of all flows between the same addresses with the same PSN:
// two others have the same mark in one of 65,535 cases.
func (q *request) mark() uint16 {
	return max(uint16((q.flow^number(q.psn))*0x9E3779B1>>16), 1)
}

// moment turns ticks into units of 2^20 ns, about a millisecond, modulo 2^32.
func moment(ticks int64) int32 { return int32(ticks >> 20) }

// within reports whether the moment then is at most d before now.
func within(d time.Duration, then, now int32) bool { return uint64(uint32(now-then)) <= uint64(d>>20) }

// newRecent returns a recent for this many requests; with lazy it allocates at the
// first one.
func newRecent(requests int, seed uint64, lazy bool) recent {
	if lazy {
		return recent{seed, flowtable.NewSets[request](ways), requests}
	}
	return recent{seed, flowtable.NewSets[request](requests), 0}
}

// find returns the hash that k's flow has in common with all flows between the same
// addresses, and the set of its requests with this PSN. The UDP source port is part
// of the hash; it is 0 where ports do not count.
func (r *recent) find(k *key, psn uint32, t bth.Transport, port uint16) (flow uint32, set *[ways]request) {
	h := k.HashWithQP(k.QP&^flowtable.MaxQP|uint32(t)<<16|uint32(port), r.seed)
	_, set = r.sets.Find(hash.Mix(h^uint64(psn), r.seed|1))
	return uint32(h>>32) | 1, set
}

// add remembers a request of k's flow. Requests longer ago than long expect no answer
// any more.
func (r *recent) add(k *key, psn uint32, t bth.Transport, port uint16, now int32, long time.Duration) {
	if r.most != 0 {
		r.sets, r.most = flowtable.NewSets[request](r.most), 0
	}
	flow, set := r.find(k, psn, t, port)
	q := request{flow: flow, at: now, qp: octets(k.DestQP()), psn: octets(psn)}
	victim := &set[0]
	for i := range set {
		w := &set[i]
		if w.flow == flow && w.psn == q.psn && w.qp == q.qp { // the same again
			w.at = now
			return
		}
		if w.flow == 0 || victim.flow != 0 && uint32(now-w.at) > uint32(now-victim.at) {
			victim = w
		}
	}
	if victim.flow != 0 {
		lose(set, victim, within(long, victim.at, now))
	}
	q.gone = victim.gone
	*victim = q
}

// lose remembers that the oldest request of a set is replaced while an answer may still come. If
// none may, none may for the requests that were replaced before either.
func lose(set *[ways]request, oldest *request, missed bool) {
	mark, at := oldest.mark(), oldest
	for i := range set {
		switch w := &set[i]; {
		case !missed:
			w.gone = 0
		case w.gone == mark:
			return
		case w.gone == 0:
			at = w
		}
	}
	if missed {
		at.gone = mark
	}
}

// users returns flows from k's destination to its source that used this PSN at most
// long ago, and whether these are all of them.
func (r *recent) users(k *key, psn uint32, t bth.Transport, port uint16, now int32, long time.Duration) (
	qps [ways]uint32, n int, all bool,
) {
	forth := k.Reversed(0)
	flow, set := r.find(&forth, psn, t, port)
	q := request{flow: flow, psn: octets(psn)}
	mark := q.mark()
	all = true
	for i := range set {
		w := &set[i]
		if w.flow == flow && w.psn == q.psn && within(long, w.at, now) {
			qps[n] = number(w.qp)
			n++
		}
		all = all && w.gone != mark
	}
	return qps, n, all
}

// used reports whether a flow used a PSN so recently that an answer may still come.
func (m *Map) used(k *key, psn uint32, t bth.Transport) bool {
	return m.recent.has(k, psn&psnMask, t, m.now(), m.clock.answerTime())
}

// has reports whether k's flow used a PSN at most long ago.
func (r *recent) has(k *key, psn uint32, t bth.Transport, now int32, long time.Duration) bool {
	flow, set := r.find(k, psn, t, 0)
	own, qp := octets(psn), octets(k.DestQP())
	for i := range set {
		if w := &set[i]; w.flow == flow && w.psn == own && w.qp == qp && within(long, w.at, now) {
			return true
		}
	}
	return false
}
