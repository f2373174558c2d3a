package flows

import "time"

// A reaction judges the rate after events, as Control does after CNPs, but over a longer time: the
// CNP of a mark needs a round trip.
type reaction struct {
	judging bool
	came    int64
	before  float64
	after   blocks

	judged, slowed uint64
}

const (
	reactionTime = int64(200 * time.Microsecond)
	quietTime    = 2 * reactionTime // without marks and CNPs, before a time that shows how the rate varies anyway
)

// begin begins the judgement of an event.
func (r *reaction) begin(before float64, at int64) {
	if !r.judging && before > 0 {
		r.judging, r.came, r.before, r.after = true, at, before, blocks{began: at}
	}
}

// recordRequest records a request after an event.
func (r *reaction) recordRequest(octets uint32, at int64) {
	if !r.judging || !r.after.addRequest(octets, at) || r.after.complete < paceBlocks || at-r.came < reactionTime {
		return
	}
	r.judging = false
	r.judged++
	if r.after.slowest <= 0.9*r.before {
		r.slowed++
	}
}

// recordMark records a request with CE, or one without if marked is not set.
func (p *pace) recordMark(frame uint64, octets uint32, at int64, marked bool) {
	p.marks.recordRequest(octets, at)
	p.quiet.recordRequest(octets, at)
	switch {
	case marked:
		before := p.rateAt(at)
		p.disturbed = at
		p.quiet.judging = false
		p.marks.begin(before, at)
		if at-p.unanswered.last >= markedCNPs || at < p.unanswered.last {
			p.unanswered.last = at
			p.unanswered.addCNP(frame, at, before, p.fastest, true)
		}
	case p.n%paceBefore == 0 && at-p.disturbed >= quietTime:
		p.quiet.begin(p.rateAt(at), at)
	}
}

// markedCNPs is the time between two CNPs that a receiver would send about marked packets.
const markedCNPs = int64(50 * time.Microsecond)

// A cnpRun is a run of CNPs in quick succession that did not reduce the rate; see Control.Unheeded.
type cnpRun struct {
	run     sign // the current run
	from    float64
	longest sign
	rate    float64 // at the end of the longest one
	last    int64   // time of the last CNP, if CNPs are assumed
}

// addCNP adds a CNP. before is the rate before it and fastest the highest rate of the flow.
// afterQueue reports whether the capture point is after the queue.
func (r *cnpRun) addCNP(frame uint64, at int64, before, fastest float64, afterQueue bool) {
	gap := denseCNPs
	if afterQueue {
		gap = longestGap
	}
	if at-r.run.until > gap || at < r.run.until || before < max(leastRate, 0.85*r.from) {
		r.run, r.from = sign{}, 0
	}
	if before < leastRate {
		return
	}
	if r.run.count == 0 {
		r.from = before
	}
	r.run.addFrame(frame, at)
	lasted := r.run.until - r.run.since
	enough := r.run.count >= minUnheeded && 500*float64(r.run.count)*float64(r.run.count) >= 0.3*float64(lasted)
	if afterQueue && lasted < longestQueue {
		enough = false
	}
	if enough && r.run.count > r.longest.count && before >= 0.9*r.from && before >= 0.8*fastest {
		r.longest, r.rate = r.run, before
	}
}
