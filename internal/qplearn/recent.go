package qplearn

import (
	"slices"
	"time"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/internal/flowtable"
	"github.com/rocecn/rocecn/internal/hash"
)

// recent remembers the requests of the last seconds by addresses, domain and PSN, to find the flows
// that used the PSN of a response. A request has a bit in the entry of its flow and block of PSNs.
// An entry may be in either of two sets, which lets almost all entries fill before both sets of a new
// one are full. Then it replaces the oldest of the eight in them. If an answer to that one may still
// come, the sets grow, up to a maximum; then the set remembers that it no longer knows all flows that
// used its PSNs. It does so for the last four such entries, so that an attacker cannot make the set
// useless by requests of many PSNs.
type recent struct {
	seed uint64
	sets flowtable.Sets[requests]
	used int // entries that are not free
	most int // entries that the sets may have
}

const ways = 4

// blockBits is the number of PSN bits that requests in the same entry differ in.
const blockBits = 3

// requests are requests of a flow with PSNs of one block that were seen at almost the same time.
type requests struct {
	at    int32  // moment of the last one
	block        // of the addresses, domain, transport, and the PSN without its lower bits
	gone  uint16 // mark of an entry that was replaced, in whichever place of the set; 0: none
	qp    octets
	psns  uint8 // bit n: the PSN with the lower bits n was used; 0: the entry is free
}

// manyQPs is the queue pair of an entry for several flows of a block, of which it is not known which ones they are. No
// request that is remembered has it, as it is that of multicast.
var manyQPs = octetsOf(multicastQP)

// A block is a hash of 48 bits: equal ones of different flows or PSNs are unlikely among millions.
type block [3]uint16

// octets are a number of 24 bits, little endian.
type octets [3]byte

func octetsOf(n uint32) octets { return octets{byte(n), byte(n >> 8), byte(n >> 16)} }

func (b octets) number() uint32 { return uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 }

// mark returns a mark for the requests of a block: two others have the same one in one of 65,535
// cases.
func (b block) mark() uint16 { return max(b[0], 1) }

// moment turns ticks into units of 2^20 ns, about a millisecond, modulo 2^32.
func moment(ticks int64) int32 { return int32(ticks >> 20) }

// within reports whether the moment then is at most d before now.
func within(d time.Duration, then, now int32) bool { return uint64(uint32(now-then)) <= uint64(d>>20) }

// newRecent returns a recent of at most this many entries; with grow it allocates them as needed.
func newRecent(entries int, seed uint64, grow bool) recent {
	if grow {
		return recent{seed: seed, sets: flowtable.NewSets[requests](ways), most: entries}
	}
	return recent{seed: seed, sets: flowtable.NewSets[requests](entries)}
}

// hash returns the hash of all flows between k's addresses for find. The UDP source port is part of it; it is 0 where
// ports do not count.
func (r *recent) hash(k *key, t bth.Transport, port uint16) uint64 {
	return k.HashWithQP(k.QP&^flowtable.MaxQP|uint32(t)<<16|uint32(port), r.seed)
}

// entry returns an entry with the request of flows of a hash with this PSN.
func (r *recent) entry(flows uint64, psn uint32) requests {
	h := hash.Mix(flows^uint64(psn>>blockBits), r.seed|1)
	return requests{block: block{uint16(h), uint16(h >> 16), uint16(h >> 32)}, psns: 1 << (psn & (1<<blockBits - 1))}
}

// setsOf returns the two sets of a block, which may be the same one.
func (r *recent) setsOf(b block) (sets [2]*[ways]requests) {
	_, sets[0] = r.sets.Find(uint64(b[2])<<32 | uint64(b[1])<<16 | uint64(b[0]))
	_, sets[1] = r.sets.Find(uint64(b[0])<<32 | uint64(b[2])<<16 | uint64(b[1]))
	return sets
}

// add remembers a request to a queue pair, of flows of this hash, and reports whether the flow has used another PSN of
// the same block recently. Requests longer ago than long expect no answer any more. A request has the entry of one that
// was seen at most join ago, if that has one of the same block.
func (r *recent) add(
	flows uint64, qp, psn uint32, now int32, long, join time.Duration,
) (neighbour bool) {
	q := r.entry(flows, psn)
	q.at, q.qp = now, octetsOf(qp)
	for {
		sets, rivals := r.setsOf(q.block), 0
		var victim *requests      // the oldest entry, or a free one of the set that has more of them
		var rival, many *requests // the oldest entry of the same block, and that of manyQPs
		var of *[ways]requests
		mostFree := 0
		for n, set := range sets {
			if n > 0 && set == sets[0] {
				break // its entries count once
			}
			oldest, free := &set[0], 0
			for i := range set {
				w := &set[i]
				if w.psns != 0 && w.block == q.block {
					switch {
					case w.qp == q.qp:
						neighbour = neighbour || w.psns&^q.psns != 0 && within(long, w.at, now)
						if within(join, w.at, now) {
							w.at = now
							w.psns |= q.psns
							return neighbour
						}
					case w.qp == manyQPs:
						rivals++
						many = w
					default:
						if rivals++; rival == nil || uint32(now-w.at) > uint32(now-rival.at) {
							rival = w
						}
					}
				}
				if w.psns == 0 {
					free++
				}
				if w.psns == 0 || oldest.psns != 0 && uint32(now-w.at) > uint32(now-oldest.at) {
					oldest = w
				}
			}
			if victim == nil || free > mostFree ||
				free == 0 && mostFree == 0 && uint32(now-oldest.at) > uint32(now-victim.at) {
				victim, of, mostFree = oldest, set, free
			}
		}
		switch {
		case rivals >= ways && sets[0] != sets[1]: // users can return at most ways queue pairs
			switch {
			case many != nil && !within(long, many.at, now):
				victim = many
			case !within(long, rival.at, now):
				victim = rival
			case many == nil:
				rival.qp = manyQPs
				continue
			default:
				many.psns, many.at = many.psns|rival.psns, now
				victim = rival
			}
		case victim.psns == 0:
			r.used++
		default:
			missed := within(long, victim.at, now)
			if missed && rivals < ways && r.grow() { // otherwise more sets would not help
				continue
			}
			lose(of, victim, missed)
		}
		q.gone = victim.gone
		*victim = q
		return neighbour
	}
}

// grow doubles the number of sets if the maximum allows that, and at least an eighth of the entries is used or there
// are few, with which chance decides whether two sets are full. It reports whether it did. A quarter would be too much:
// of 400 tables with 20,000 connections one lost a request.
func (r *recent) grow() bool {
	old := r.sets.All
	if ways*len(old) >= r.most || ways*len(old) > max(8*r.used, minEntries) {
		return false
	}
	r.sets = flowtable.NewSets[requests](2 * ways * len(old))
	for i := range old {
		for j := range old[i] {
			q := &old[i][j]
			for half := range 2 { // the two that a set becomes
				r.sets.All[2*i+half][j].gone = q.gone
			}
			if q.psns == 0 {
				continue
			}
			for _, set := range r.setsOf(q.block) {
				if set == &r.sets.All[2*i] || set == &r.sets.All[2*i+1] {
					set[j] = *q
					break
				}
			}
		}
	}
	return true
}

// lose remembers that the oldest entry of a set is replaced while an answer may still come. If none
// may, none may for the entries that were replaced before either.
func lose(set *[ways]requests, oldest *requests, missed bool) {
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
	q := r.entry(r.hash(&forth, t, port), psn)
	mark := q.mark()
	all = true
	for _, set := range r.setsOf(q.block) {
		for i := range set {
			w := &set[i]
			if w.block == q.block && w.psns&q.psns != 0 && within(long, w.at, now) &&
				!slices.Contains(qps[:n], w.qp.number()) {
				if n == ways || w.qp == manyQPs {
					return qps, n, false
				}
				qps[n] = w.qp.number()
				n++
			}
			all = all && w.gone != mark
		}
	}
	return qps, n, all
}

// used reports whether a flow used a PSN so recently that an answer may still come.
func (m *Map) used(k *key, psn uint32, t bth.Transport) bool {
	return m.recent.has(m.recent.hash(k, t, 0), k.DestQP(), psn&psnMask, m.now(), m.clock.answerTime())
}

// usedNextBlock reports whether a flow, of this hash of recent, used the PSN before or after this one recently, if that
// is in another block.
func (m *Map) usedNextBlock(flows uint64, qp, psn uint32) bool {
	switch psn & (1<<blockBits - 1) {
	case 0:
		psn--
	case 1<<blockBits - 1:
		psn++
	default:
		return false
	}
	return m.recent.has(flows, qp, psn&psnMask, m.now(), m.clock.answerTime())
}

// has reports whether the flow to a queue pair used a PSN at most long ago.
func (r *recent) has(flows uint64, qp, psn uint32, now int32, long time.Duration) bool {
	q := r.entry(flows, psn)
	q.qp = octetsOf(qp)
	for _, set := range r.setsOf(q.block) {
		for i := range set {
			w := &set[i]
			if w.block == q.block && w.psns&q.psns != 0 && w.qp == q.qp && within(long, w.at, now) {
				return true
			}
		}
	}
	return false
}
