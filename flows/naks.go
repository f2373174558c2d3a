package flows

import "github.com/rocecn/rocecn/bth"

// A sender that retransmits goes back to a PSN and continues from there: a run of retransmissions
// with one cause. It goes back to the PSN in a NAK or RNR NAK, or after a timeout to the lowest
// unacknowledged PSN.

// A nakRecord is an RNR NAK, or a NAK with the code PSN sequence error.
type nakRecord struct {
	from  uint32 // PSN in the NAK
	low   uint32 // lowest PSN from there on that no answer covers
	to    uint32 // end of the PSNs that it may explain: those sent before it came, or before the sender went back
	done  uint32 // end of the PSNs retransmitted because of it
	order uint64 // number of the NAK's packet; 0 if unset
	rnr   bool   // explains retransmissions as an RNR NAK
	acted bool   // it caused a retransmission
	used  bool   // it caused one that began with its PSN, or with a later one because packets were lost
}

// maxNAKs is the number of NAKs remembered for each flow; the oldest one is overwritten.
const maxNAKs = 8

// nakRecords are the NAKs of the current connection, and the current run of retransmissions.
type nakRecords struct {
	all [maxNAKs]nakRecord

	cause  RetransmissionCause // cause of the run
	by     uint64              // order of the NAK that caused it; 0 for none
	exact  bool                // the run began with the PSN of the NAK
	n      uint8               // requests in the run, counted up to maxBeyond+1
	next   uint32              // end of the highest PSN in the run
	back   uint32              // lowest PSN of the last gap in the run, while it may still be filled
	beyond uint8               // requests after back; 0 without a gap
	began  uint64              // number of the packet that began the last run
}

// addNAKRecords returns the NAKs of the current connection, adding them if needed.
func (h *history) addNAKRecords() *nakRecords {
	if h.naks == nil {
		h.naks = new(nakRecords)
	}
	return h.naks
}

// isFirstInRun reports whether the last retransmission began a run.
func (h *history) isFirstInRun() bool { return h != nil && h.naks != nil && h.naks.n == 1 }

// maxBeyond is the number of later requests in a run after which a skipped PSN counts as lost. With
// fewer, the packets may be reordered.
const maxBeyond = 3

// addNAK records a NAK with PSN from; the PSNs before sent had been sent. If an RNR NAK and a NAK
// have the same PSN, the receiver was not ready: soft-RoCE sends the NAK for the packets after it.
func (h *history) addNAK(from, sent uint32, rnr bool, order uint64) {
	if bth.ComparePSN(sent, from) <= 0 {
		return // nothing sent yet that it could be about
	}
	r, oldest := h.addNAKRecords(), 0
	one := nakRecord{from: from, low: from, to: sent, done: from, order: order, rnr: rnr}
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

// coverNAKs records that all PSNs up to c were received. A NAK that the sender has not
// acted on is kept, because it may still be on its way.
func (h *history) coverNAKs(c uint32) {
	if h.naks == nil {
		return
	}
	for i := range h.naks.all {
		x := &h.naks.all[i]
		if x.order == 0 || bth.ComparePSN(c, x.low) < 0 {
			continue
		}
		x.low = bth.AddPSN(c, 1)
		if x.used && bth.ComparePSN(x.low, x.to) >= 0 {
			*x = nakRecord{}
		}
	}
}

// goBack records a retransmitted request with PSNs from p up to end, or a late one that fills a
// gap, and returns its cause.
func (h *history) goBack(q *sequence, p, end uint32, order uint64, late bool) RetransmissionCause {
	if h.naks == nil && late { // reordered
		return CauseTimeout
	}
	r := h.addNAKRecords()
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
		if named == nil && late { // reordered
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

// countBeyond counts a request after a gap in the run.
func (r *nakRecords) countBeyond() {
	if r.beyond > 0 {
		r.beyond = (r.beyond + 1) % (maxBeyond + 1)
	}
}

// beginRun begins a run with PSN p, caused by NAK x, or by a timeout if x is nil.
func (r *nakRecords) beginRun(x *nakRecord, p uint32) {
	r.cause, r.by, r.exact, r.n = CauseTimeout, 0, false, 0
	if x == nil {
		return
	}
	r.cause, r.by, r.exact = CauseSequenceNAK, x.order, p == x.from
	if x.rnr {
		r.cause = CauseRNR
	}
}

// findNamed returns the newest NAK with PSN p that the sender has not gone back for, or nil.
func (r *nakRecords) findNamed(p uint32) (found *nakRecord) {
	for i := range r.all {
		x := &r.all[i]
		if x.order != 0 && x.from == p && !x.used && (found == nil || x.order > found.order) {
			found = x
		}
	}
	return found
}

// findExplaining returns the newest NAK that may explain a retransmission of PSN p, or nil.
// Adapters with selective retransmission may begin after its PSN.
func (r *nakRecords) findExplaining(p uint32) (found *nakRecord) {
	for i := range r.all {
		x := &r.all[i]
		switch {
		case x.order == 0 || bth.ComparePSN(p, x.low) < 0 || found != nil && x.order < found.order:
		// retransmitted again, or sent later
		case x.acted && (bth.ComparePSN(p, x.done) < 0 || bth.ComparePSN(p, x.to) >= 0):
		case !x.acted && bth.ComparePSN(x.low, x.to) >= 0: // everything was received
		default:
			found = x
		}
	}
	return found
}
