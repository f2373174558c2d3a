package flows

import "time"

// Control describes the reaction of a flow's rate to CNPs (with or without a Fast CNP option), as seen at
// the capture point. Rates are those of the IP packets of data, requests and responses, in bits per
// second.
//
// The rate before a CNP is that of the last 16 packets of data. The next 32 of them, or those up to the
// next CNP, form blocks of 8; the rate after the CNP is that of the slowest block. A CNP without a block
// after it, or with fewer packets before it, is not judged.
type Control struct {
	Judged        uint64  // CNPs with a known rate before and after them
	Slowed        uint64  // judged CNPs after which the rate fell by at least 10 %
	Before, After float64 // mean rates before and after the judged CNPs
	Fastest       float64 // highest rate of 16 packets of data in a row
	// Recovery has the times from a CNP after which the rate fell until the rate was at least 90 % of
	// the rate before it, or is nil. Further CNPs meanwhile do not restart the time.
	Recovery *Histogram
	// Unheeded is the longest run of CNPs that did not slow the sender down:
	//   - each CNP comes at most 150 µs after the previous one;
	//   - the rate is always at least 100 Mbit/s, and never falls by 15 %;
	//   - the rate at the end is at least 90 % of that at the beginning, and 80 % of the flow's maximum;
	//   - there are at least 32 CNPs, and enough for the duration that even the slowest adapters, which
	//     raise α by the share of microseconds with a CNP, would reduce the rate by 30 %.
	//
	// If data had CE, the capture point is after the queue and sees the rate at which the queue drains:
	// the run then lasts at least 10 ms, and CNPs may be 400 µs apart.
	Unheeded Sign
	Rate     float64 // at the end of the run in Unheeded
	// Unanswered is a run as in Unheeded, of packets with CE instead of CNPs, at most one in 50 µs: a
	// receiver would have sent a CNP about each.
	Unanswered Sign
	// MarksJudged counts packets with CE after which the rate is known for 200 µs and at least 32
	// packets, and MarksSlowed those of them after which the slowest block was at least 10 % slower.
	// QuietJudged and QuietSlowed count the same for times without CE and CNPs, which begin at least 400 µs
	// after the last of them: they show that the rate falls for other reasons as well.
	MarksJudged, MarksSlowed, QuietJudged, QuietSlowed uint64
}

// minUnheeded is the minimum number of CNPs in Control.Unheeded.
const minUnheeded = 32

const (
	paceBefore   = 16 // requests for the rate before a CNP
	paceBlock    = 8  // requests in a block after a CNP
	paceBlocks   = 4  // blocks; the slowest counts
	denseCNPs    = int64(150 * time.Microsecond)
	longestGap   = int64(400 * time.Microsecond)
	longestQueue = int64(10 * time.Millisecond) // longest queue of a switch at the rate of its link
	leastRate    = 100e6                        // in bits per second: senders do not slow down below some rate
)

// A pace tracks the rate of a flow around CNPs.
type pace struct {
	at     [paceBefore]int64 // times of the last requests
	octets [paceBefore]uint32
	n      uint64 // number of requests
	sum    uint64 // sum of octets

	judging bool // a CNP came and its blocks are not complete
	came    int64
	before  float64
	after   blocks

	judged, slowed uint64
	sumBefore      float64
	sumAfter       float64
	recovering     bool
	cutAt          int64
	cutFrom        float64
	recovery       uint32  // id in Table.histograms; 0 for none
	recovered      int64   // recovery time that this request completed; 0 for none
	fastest        float64 // maximum rate of the flow
	unheeded       cnpRun
	unanswered     cnpRun // of CNPs that the receiver would have sent about marks
	marks, quiet   reaction
	disturbed      int64 // time of the last mark or CNP
}

func (p *pace) recordRequest(octets uint32, at int64) {
	i := p.n % paceBefore
	p.sum += uint64(octets) - uint64(p.octets[i])
	p.at[i], p.octets[i] = at, octets
	p.n++
	if p.judging && p.after.addRequest(octets, at) && p.after.complete == paceBlocks {
		p.judgeCNP()
	}
	if p.n%paceBefore == 0 {
		p.fastest = max(p.fastest, p.rateAt(at))
	}
	if p.recovering && p.n%paceBlock == 0 {
		if r := p.rateAt(at); r >= 0.9*p.cutFrom {
			p.recovering, p.recovered = false, max(at-p.cutAt, 1)
		}
	}
}

// rateAt returns the rate of the last requests in bits per second; 0 if there are too few, or no
// request came for longer than they took.
func (p *pace) rateAt(now int64) float64 {
	if p.n < paceBefore {
		return 0
	}
	oldest, newest := p.n%paceBefore, (p.n-1)%paceBefore
	span := p.at[newest] - p.at[oldest]
	if span <= 0 || now < p.at[newest] || now-p.at[newest] > span {
		return 0
	}
	return float64(p.sum-uint64(p.octets[oldest])) * 8e9 / float64(span)
}

// recordCNP records a CNP. afterQueue reports whether the capture point is after the queue.
func (p *pace) recordCNP(frame uint64, at int64, afterQueue bool) {
	p.judgeCNP()
	before := p.rateAt(at)
	p.unheeded.addCNP(frame, at, before, p.fastest, afterQueue)
	p.disturbed, p.quiet.judging = at, false
	if before <= 0 {
		return
	}
	p.judging, p.came, p.before = true, at, before
	p.after = blocks{began: p.at[(p.n-1)%paceBefore]}
}

// blocks are blocks of paceBlock requests after an event.
type blocks struct {
	complete uint32  // number of complete blocks
	slowest  float64 // lowest rate of a complete block in bits per second
	began    int64   // start of the current block
	requests uint8   // in the current block
	octets   uint64  // in the current block
}

// addRequest adds a request, and reports whether it completed a block.
func (b *blocks) addRequest(octets uint32, at int64) bool {
	b.requests++
	b.octets += uint64(octets)
	if b.requests < paceBlock {
		return false
	}
	if span := at - b.began; span > 0 {
		if rate := float64(b.octets) * 8e9 / float64(span); b.complete == 0 || rate < b.slowest {
			b.slowest = rate
		}
	}
	b.complete++
	b.requests, b.octets, b.began = 0, 0, at
	return true
}

// judgeCNP compares the rates before and after the last CNP, if there are enough requests after it.
func (p *pace) judgeCNP() {
	if !p.judging || p.after.complete == 0 || p.after.slowest <= 0 {
		p.judging = false
		return
	}
	p.judging = false
	p.judged++
	p.sumBefore += p.before
	p.sumAfter += p.after.slowest
	if p.after.slowest <= 0.85*p.before {
		p.unheeded.run, p.unheeded.from = sign{}, 0
	}
	if p.after.slowest <= 0.9*p.before {
		p.slowed++
		if !p.recovering {
			p.recovering, p.cutAt, p.cutFrom = true, p.came, p.before
		}
	}
}

func (p *pace) toControl(recovery *Histogram) Control {
	c := Control{Judged: p.judged, Slowed: p.slowed, Recovery: recovery, Unheeded: p.unheeded.longest.toSign(),
		Fastest: p.fastest, Rate: p.unheeded.rate, Unanswered: p.unanswered.longest.toSign(),
		MarksJudged: p.marks.judged, MarksSlowed: p.marks.slowed, QuietJudged: p.quiet.judged,
		QuietSlowed: p.quiet.slowed}
	if p.judged > 0 {
		c.Before, c.After = p.sumBefore/float64(p.judged), p.sumAfter/float64(p.judged)
	}
	return c
}
