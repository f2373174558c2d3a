package flows

import "github.com/rocecn/rocecn/bth"

// A sender that repeats goes back to a PSN and sends on from there: a run of
// requests that were sent before, all for the same cause. It goes back to the PSN
// that a NAK or an RNR NAK names, or after a timeout to the lowest one that was
// not acknowledged.

// A refusal is a NAK of the code PSN sequence or an RNR NAK.
type refusal struct {
	from  uint32 // the PSN that it names
	low   uint32 // the lowest PSN from there on that nothing covers
	to    uint32 // behind the PSNs that it may explain: those sent before it came, or before the sender went back
	done  uint32 // behind the last PSN that was repeated because of it
	order uint64 // when it came; 0: there is none
	rnr   bool   // it explains as an RNR NAK does
	acted bool   // something was repeated because of it
	used  bool   // … beginning with the PSN that it names, or with one behind that was lost
}

// maxRefusals is how many refusals of a flow are remembered; the oldest goes
// when there is one more.
const maxRefusals = 8

// refusals are those of the present life, and the run of repeats that the flow is
// in.
type refusals struct {
	all [maxRefusals]refusal

	cause  RetransmissionCause // of the run
	by     uint64              // order of the refusal that caused it; 0: none did
	exact  bool                // it began with the PSN that the refusal names
	n      uint8               // how many requests it has, counted up to maxBeyond+1
	next   uint32              // behind the highest PSN of the run
	back   uint32              // the lowest PSN that it passed over last, as long as that may still come
	beyond uint8               // how many requests came beyond back; 0 where nothing was passed over
	began  uint64              // order of the request that began the last run of repeats
}

// maxBeyond is after how many requests beyond it a PSN that a run passed over, or
// with which it should have begun, is taken for lost: fewer may have changed places
// with it.
const maxBeyond = 3

// addRefusal remembers that PSN from was refused, when what is before sent had been
// sent. Where an RNR NAK and a NAK name the same PSN, the receiver was not ready:
// soft-RoCE sends the NAK for the packets behind.
func (h *history) addRefusal(from, sent uint32, rnr bool, order uint64) {
	if bth.ComparePSN(sent, from) <= 0 {
		return // nothing was sent yet that it could be about
	}
	r, oldest := &h.refusals, 0
	one := refusal{from: from, low: from, to: sent, done: from, order: order, rnr: rnr}
	for i := range r.all {
		x := &r.all[i]
		if x.from == from && x.order > r.began && x.rnr != one.rnr {
			x.rnr, one.rnr = true, true
		}
		if x.order < r.all[oldest].order {
			oldest = i
		}
	}
	r.all[oldest] = one
}

// coverRefusals records that everything up to PSN c was received. What the sender did
// not act upon yet it may still go back to: the refusal is on its way to it.
func (h *history) coverRefusals(c uint32) {
	for i := range h.refusals.all {
		x := &h.refusals.all[i]
		if x.order == 0 || bth.ComparePSN(c, x.low) < 0 {
			continue
		}
		x.low = bth.AddPSN(c, 1)
		if x.used && bth.ComparePSN(x.low, x.to) >= 0 {
			*x = refusal{}
		}
	}
}

// goBack records a request with PSN p, which takes those before end, that was
// sent before, or fills a hole, in which case it is late. It returns why it was
// repeated.
func (h *history) goBack(q *sequence, p, end uint32, order uint64, late bool) RetransmissionCause {
	r := &h.refusals
	switch {
	case q.running && p == r.next:
		r.next = end
		r.countBeyond()
	case q.running && bth.ComparePSN(p, r.next) > 0:
		r.back, r.beyond, r.next = r.next, 1, end
	default:
		named := r.findNamed(p)
		if named == nil && q.running && r.beyond > 0 && p == r.back {
			r.back = end
			break
		}
		if named == nil {
			named = r.findExplaining(p)
		}
		if named == nil && late { // out of order
			return CauseTimeout
		}
		r.beginRun(named, p)
		r.next, r.beyond = end, 0
		if !late {
			r.began = order
		}
	}
	q.running = true
	r.n = min(r.n+1, maxBeyond+1)
	if late || r.by == 0 {
		return r.cause
	}
	for i := range r.all {
		if x := &r.all[i]; x.order == r.by {
			if !x.acted {
				x.acted, x.to = true, q.next
			}
			x.used = x.used || r.exact || r.n > maxBeyond
			if bth.ComparePSN(end, x.done) > 0 {
				x.done = end
			}
		}
	}
	return r.cause
}

// countBeyond counts one more request beyond what the run passed over.
func (r *refusals) countBeyond() {
	if r.beyond > 0 {
		r.beyond = (r.beyond + 1) % (maxBeyond + 1)
	}
}

// beginRun begins a run with PSN p, because of a refusal if there is one.
func (r *refusals) beginRun(x *refusal, p uint32) {
	r.cause, r.by, r.exact, r.n = CauseTimeout, 0, false, 0
	if x == nil {
		return
	}
	r.cause, r.by, r.exact = CauseSequenceNAK, x.order, p == x.from
	if x.rnr {
		r.cause = CauseRNR
	}
}

// findNamed returns the newest refusal that names PSN p and that the sender did not
// go back for, nil without one.
func (r *refusals) findNamed(p uint32) (found *refusal) {
	for i := range r.all {
		x := &r.all[i]
		if x.order != 0 && x.from == p && !x.used && (found == nil || x.order > found.order) {
			found = x
		}
	}
	return found
}

// findExplaining returns the newest refusal that may explain why PSN p is repeated:
// adapters that repeat selectively begin anywhere behind the PSN that it names.
func (r *refusals) findExplaining(p uint32) (found *refusal) {
	for i := range r.all {
		x := &r.all[i]
		switch {
		case x.order == 0 || bth.ComparePSN(p, x.low) < 0 || found != nil && x.order < found.order:
		case x.acted && (bth.ComparePSN(p, x.done) < 0 || bth.ComparePSN(p, x.to) >= 0): // again, or sent later
		case !x.acted && bth.ComparePSN(x.low, x.to) >= 0: // it was all received
		default:
			found = x
		}
	}
	return found
}
