package flows

import "time"

// Control is what a flow's rate did when CNPs came about it, as seen where the packets were captured. Before a CNP the
// rate is that of the last 16 requests, after it that of the slowest 8 among the next 32, or up to the next CNP. It is
// that of IP packets. CNPs without so many requests before and after them are not judged.
type Control struct {
	Judged        uint64  // CNPs, of both kinds
	Slowed        uint64  // of these, those behind which the rate fell by a tenth or more
	Before, After float64 // bits a second: the mean over all that were judged
	// From a cut until the rate was again nine tenths of what it was before; nil without. Further CNPs meanwhile do
	// not begin anew.
	Recovery *Histogram
	// The longest run of CNPs, each at most 150 µs after the one before, in which the rate never fell by 15 %, and at
	// whose end it was nine tenths of what it was at its beginning, or more, and eight tenths of what it ever was.
	// It has 32 CNPs, and as many for its time as would slow down the gentlest sender by 30 %, which is an
	// adapter whose α rises by the share of microseconds with a CNP. Where requests came with CE, the capture is
	// behind the queue, and the rate is that at which the queue empties: there the run lasts 10 ms, and CNPs come at
	// most 400 µs apart.
	Unheeded Sign
	Rate     float64 // bits a second, at the end of that run
}

// minUnheeded is how many CNPs a sender must leave unheeded, at least, before Control says so.
const minUnheeded = 32

const (
	paceBefore   = 16 // requests that make a rate
	paceBlock    = 8  // behind a CNP
	paceBlocks   = 4  // of which the slowest counts
	denseCNPs    = int64(150 * time.Microsecond)
	longestGap   = int64(400 * time.Microsecond)
	longestQueue = int64(10 * time.Millisecond) // that a switch has, at the rate of its link
	leastRate    = 100e6                        // bits a second: senders do not slow down below some rate
)

// A pace is what a flow's last requests say of its rate.
type pace struct {
	at     [paceBefore]int64 // of the last requests
	octets [paceBefore]uint32
	n      uint64 // requests
	sum    uint64 // of octets

	judging bool // a CNP came, and its blocks are not over
	came    int64
	before  float64
	blocks  uint8   // that are over
	in      uint8   // requests in the present block
	began   int64   // the present block
	block   uint64  // its octets
	slowest float64 // of those that are over

	judged, cut  uint64
	sumBefore    float64
	sumAfter     float64
	recovering   bool
	cutAt        int64
	cutFrom      float64
	recovery     uint32 // a histogram in the table's pool; 0 without
	recovered    int64  // how long it took just now; 0: nothing to count
	run          sign   // of CNPs
	runFrom      float64
	fastest      float64 // that the flow ever was
	unheeded     sign
	unheededRate float64
}

// recordRequest counts a request.
func (p *pace) recordRequest(octets uint32, at int64) {
	i := p.n % paceBefore
	p.sum += uint64(octets) - uint64(p.octets[i])
	p.at[i], p.octets[i] = at, octets
	p.n++
	if p.judging {
		p.countInBlock(octets, at)
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

// rateAt returns the rate of the last requests, 0 where there are too few, or a pause since.
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

// recordCNP records a CNP; behind says whether the capture is behind the queue.
func (p *pace) recordCNP(frame uint64, at int64, behind bool) {
	p.judgeCNP()
	before := p.rateAt(at)
	gap := denseCNPs
	if behind {
		gap = longestGap
	}
	if at-p.run.until > gap || at < p.run.until || before < max(leastRate, 0.85*p.runFrom) {
		p.run, p.runFrom = sign{}, 0
	}
	if before <= 0 {
		return
	}
	if before >= leastRate {
		if p.run.count == 0 {
			p.runFrom = before
		}
		p.run.addFrame(frame, at)
		lasted := p.run.until - p.run.since
		enough := p.run.count >= minUnheeded && 500*float64(p.run.count)*float64(p.run.count) >= 0.3*float64(lasted)
		if behind && lasted < longestQueue {
			enough = false
		}
		if enough && p.run.count > p.unheeded.count && before >= 0.9*p.runFrom &&
			before >= 0.8*p.fastest {
			p.unheeded, p.unheededRate = p.run, before
		}
	}
	p.judging, p.came = true, at
	p.before, p.blocks, p.in, p.block, p.began, p.slowest = before, 0, 0, 0, p.at[(p.n-1)%paceBefore], 0
}

// countInBlock counts a request behind a CNP.
func (p *pace) countInBlock(octets uint32, at int64) {
	p.in++
	p.block += uint64(octets)
	if p.in < paceBlock {
		return
	}
	if span := at - p.began; span > 0 {
		if r := float64(p.block) * 8e9 / float64(span); p.blocks == 0 || r < p.slowest {
			p.slowest = r
		}
	}
	p.blocks++
	p.in, p.block, p.began = 0, 0, at
	if p.blocks == paceBlocks {
		p.judgeCNP()
	}
}

// judgeCNP says what the last CNP did, if enough came behind it.
func (p *pace) judgeCNP() {
	if !p.judging || p.blocks == 0 || p.slowest <= 0 {
		p.judging = false
		return
	}
	p.judging = false
	p.judged++
	p.sumBefore += p.before
	p.sumAfter += p.slowest
	if p.slowest <= 0.85*p.before {
		p.run, p.runFrom = sign{}, 0
	}
	if p.slowest <= 0.9*p.before {
		p.cut++
		if !p.recovering {
			p.recovering, p.cutAt, p.cutFrom = true, p.came, p.before
		}
	}
}

func (p *pace) toControl(recovery *Histogram) Control {
	c := Control{Judged: p.judged, Slowed: p.cut, Recovery: recovery, Unheeded: p.unheeded.toSign(),
		Rate: p.unheededRate}
	if p.judged > 0 {
		c.Before, c.After = p.sumBefore/float64(p.judged), p.sumAfter/float64(p.judged)
	}
	return c
}
