package qpmap

import "github.com/rocecn/rocecn/bth"

// recent remembers requests of the last second by addresses, domain and PSN, so
// that the flows that used the PSN of a response are found at once. Its memory
// is fixed: a new request takes the place of the oldest of the few that share
// its set.
type recent struct {
	seed uint64
	sets [][ways]request
}

const ways = 4

type request struct {
	flow      uint32 // hash of addresses and domain; 0 nothing
	qp        uint32 // DestQP, 24 bits
	psn       uint32
	at        int32 // when, in the unit of moment
	transport bth.Transport
	crowded   bool // more flows used this PSN than the set holds
}

// moment turns ticks into units of 2^20 ns, about a millisecond, modulo 2^32.
func moment(ticks int64) int32 { return int32(ticks >> 20) }

// fresh tells whether then, a moment, is at most a second before now. No answer
// is longer on its way.
func fresh(then, now int32) bool { return uint32(now-then) <= 1e9>>20 }

func newRecent(requests int, seed uint64) recent {
	sets := 1
	for sets*ways < requests {
		sets *= 2
	}
	return recent{seed: seed, sets: make([][ways]request, sets)}
}

// set returns the set in which requests of this flow hash with this PSN stand.
func (r *recent) set(flow uint64, psn uint32) *[ways]request {
	return &r.sets[mix(flow^uint64(psn), r.seed|1)&uint64(len(r.sets)-1)]
}

// add remembers a request of the flow that k names.
func (r *recent) add(k *key, psn uint32, t bth.Transport, now int32) {
	flow := k.hashAddrs(r.seed)
	set := r.set(flow, psn)
	q := request{flow: uint32(flow) | 1, qp: k.id, psn: psn, at: now, transport: t}
	victim := &set[0]
	for i := range set {
		w := &set[i]
		if w.flow == q.flow && w.psn == psn && w.qp == q.qp {
			victim = w
			q.crowded = w.crowded && fresh(w.at, now)
			break
		}
		if w.flow == 0 || victim.flow != 0 && w.at-victim.at < 0 {
			victim = w
		}
	}
	if victim.flow == q.flow && victim.psn == psn && victim.qp != q.qp && fresh(victim.at, now) {
		q.crowded = true
	}
	*victim = q
}

// users returns the flows from k's destination to its source that used this PSN
// within the last second: none when there were more than can be told apart.
func (r *recent) users(k *key, psn uint32, t bth.Transport, now int32) (qps [ways]uint32, n int) {
	forth := k.back(0)
	flow := forth.hashAddrs(r.seed)
	set := r.set(flow, psn)
	for i := range set {
		w := &set[i]
		if w.flow != uint32(flow)|1 || w.psn != psn || w.transport != t || !fresh(w.at, now) {
			continue
		}
		if w.crowded {
			return qps, 0
		}
		qps[n] = w.qp
		n++
	}
	return qps, n
}
