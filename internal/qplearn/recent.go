package qplearn

import (
	"time"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/internal/flowtable"
	"github.com/rocecn/rocecn/internal/hash"
)

// recent remembers the requests of the last seconds by addresses, domain and PSN, to
// find the flows that used the PSN of a response. A new request replaces the oldest
// of the four in its set.
type recent struct {
	seed uint64
	sets flowtable.Sets[request]
	most int // requests, if the sets are still to be allocated
}

const ways = 4

type request struct {
	flow uint32 // hash of addresses, domain and transport; 0: free
	qp   uint32 // DestQP
	psn  uint32 // 24 bits, and crowded if more flows used it than the set holds
	at   int32  // moment
}

const crowded = 1 << 24

// moment turns ticks into units of 2^20 ns, about a millisecond, modulo 2^32.
func moment(ticks int64) int32 { return int32(ticks >> 20) }

// within tells whether the moment then is at most d before now.
func within(d time.Duration, then, now int32) bool { return uint32(now-then) <= uint32(d>>20) }

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
	others := k.QP&^flowtable.MaxQP | uint32(t)<<16 | uint32(port)
	h := hash.Mix(hash.Addresses(&k.Src, &k.Dst, r.seed)^(uint64(k.Domain)<<32|uint64(others)), r.seed|1)
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
	q := request{flow: flow, qp: k.DestQP(), psn: psn, at: now}
	victim := &set[0]
	for i := range set {
		w := &set[i]
		if w.flow == flow && w.psn&psnMask == psn && w.qp == k.DestQP() { // the same again
			victim = w
			break
		}
		if w.flow == 0 || victim.flow != 0 && w.at-victim.at < 0 {
			victim = w
		}
	}
	if victim.flow == flow && victim.psn&psnMask == psn && within(long, victim.at, now) {
		q.psn |= victim.psn & crowded
		if victim.qp != k.DestQP() {
			q.psn |= crowded
		}
	}
	*victim = q
}

// users returns the flows from k's destination to its source that used this PSN at most
// long ago; none if there were more than a set holds.
func (r *recent) users(k *key, psn uint32, t bth.Transport, port uint16, now int32, long time.Duration) (
	qps [ways]uint32, n int,
) {
	forth := k.Reversed(0)
	flow, set := r.find(&forth, psn, t, port)
	for i := range set {
		w := &set[i]
		if w.flow != flow || w.psn&psnMask != psn || !within(long, w.at, now) {
			continue
		}
		if w.psn&crowded != 0 {
			return qps, 0
		}
		qps[n] = w.qp
		n++
	}
	return qps, n
}

// used tells whether a flow used a PSN so recently that an answer may still come.
func (m *Map) used(k *key, psn uint32, t bth.Transport) bool {
	return m.recent.has(k, psn&psnMask, t, m.now(), m.clock.answerTime())
}

// has tells whether k's flow used a PSN at most long ago.
func (r *recent) has(k *key, psn uint32, t bth.Transport, now int32, long time.Duration) bool {
	flow, set := r.find(k, psn, t, 0)
	for i := range set {
		if w := &set[i]; w.flow == flow && w.psn&psnMask == psn && w.qp == k.DestQP() && within(long, w.at, now) {
			return true
		}
	}
	return false
}
