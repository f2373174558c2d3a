package flows

import "time"

// A history is what is remembered of the present life of a flow. Flows without
// a past, as scans and spoofed addresses make them, have none.
type history struct {
	holes    holes
	refusals [maxRefusals]refusal // the newest first
	asked    [maxAsked]asked      // a ring
	nextAsk  uint32               // how many were put into it
	marks    marks
}

func (h *history) reset() { *h = history{} }

// A refusal explains repeats: of the PSN that it refused, up to what had been
// sent when it came, until something covers them.
type refusal struct {
	span
	rnr   bool
	order uint64
}

// maxRefusals is how many refusals of a flow are remembered; the oldest goes
// when there is one more.
const maxRefusals = 4

// refuse remembers that what begins at s.from was refused.
func (h *history) refuse(s span, rnr bool, order uint64) {
	if ahead(s.to, s.from) <= 0 {
		return // nothing was sent yet that it could be about
	}
	i := 0
	for i < maxRefusals-1 && (h.refusals[i].from != s.from || h.refusals[i].rnr != rnr) {
		i++
	}
	copy(h.refusals[1:i+1], h.refusals[:i])
	h.refusals[0] = refusal{s, rnr, order}
}

// covers takes up that everything up to PSN c was received.
func (h *history) covers(c uint32) {
	for i := range h.refusals {
		if r := &h.refusals[i]; ahead(c, r.from) >= 0 {
			r.from = after(c, 1)
			if ahead(r.from, r.to) >= 0 {
				r.span = span{}
			}
		}
	}
}

// An asked is a request whose message ends with the responder's data: a READ
// or an ATOMIC.
type asked struct {
	from   uint32
	octets uint32 // what a READ asks for
	to     uint32 // behind the last PSN that it takes, or may take
	atomic bool
	done   bool // its last response was seen
	order  uint64
}

// maxAsked is how many requests of that kind are remembered, which is more than
// adapters have outstanding; the oldest goes when there is one more.
const maxAsked = 32

func (h *history) ask(a asked) {
	h.asked[h.nextAsk%maxAsked] = a
	h.nextAsk++
}

// find returns the READ with this PSN, nil without one.
func (h *history) find(read uint32) *asked {
	for i := range h.all() {
		if a := &h.asked[i]; a.from == read && !a.atomic {
			return a
		}
	}
	return nil
}

// all returns those that are remembered, in no order.
func (h *history) all() []asked { return h.asked[:min(h.nextAsk, maxAsked)] }

// complete takes up the last response to a READ, or the answer to an ATOMIC. It
// returns whether that completes a message.
func (h *history) complete(p uint32, atomic bool) bool {
	for i := range h.all() {
		a := &h.asked[i]
		if a.done || a.atomic != atomic {
			continue
		}
		if s := (span{a.from, a.to}); s.contains(p) {
			a.done, a.to = true, after(p, 1)
			return true
		}
	}
	return false
}

// A Cause is why a request was repeated.
type Cause uint8

// The causes.
const (
	Timeout     Cause = iota // none of the others
	SequenceNAK              // a NAK of the code PSN sequence
	RNR                      // an RNR NAK
	ReadRest                 // a READ asks for the rest of an earlier one
)

// cause returns why PSN p was repeated, of what fits the newest.
func (h *history) cause(p uint32, read bool) Cause {
	cause, newest := Timeout, uint64(0)
	for _, r := range h.refusals {
		if r.order > newest && r.contains(p) {
			cause, newest = SequenceNAK, r.order
			if r.rnr {
				cause = RNR
			}
		}
	}
	if !read {
		return cause
	}
	for _, a := range h.all() {
		if !a.atomic && a.order > newest && ahead(p, a.from) > 0 && ahead(p, a.to) < 0 {
			cause, newest = ReadRest, a.order
		}
	}
	return cause
}

// marks are the requests whose answer is timed, the lowest PSN first.
type marks struct {
	psn  [maxMarks]uint32 // with readMark
	at   [maxMarks]int64  // nanoseconds since 1970
	head uint32           // how many were taken out
	tail uint32           // how many were put in
}

// maxMarks is how many requests are timed at once. While so many wait for their
// answer, the times of further ones are not measured.
const maxMarks = 64

// readMark is set with the PSN of a READ, which only its first response answers.
const readMark = 1 << 31

func (m *marks) add(p uint32, read bool, now int64) {
	if m.tail-m.head == maxMarks {
		return
	}
	if m.tail != m.head && ahead(p, m.psn[(m.tail-1)%maxMarks]) <= 0 {
		return // late: out of order, it is not timed
	}
	if read {
		p |= readMark
	}
	m.psn[m.tail%maxMarks], m.at[m.tail%maxMarks] = p, now
	m.tail++
}

// repeated takes back PSN p: what answers it may answer the first packet or the
// one that repeats it.
func (m *marks) repeated(p uint32) {
	keep := m.head
	for i := m.head; i != m.tail; i++ {
		if mark := m.psn[i%maxMarks]; mark&psnMask != p {
			m.psn[keep%maxMarks], m.at[keep%maxMarks] = mark, m.at[i%maxMarks]
			keep++
		}
	}
	m.tail = keep
}

// answered times what is up to PSN c. A READ is timed by its first response;
// an answer that refuses times nothing.
func (m *marks) answered(c uint32, firstResponse, refuses bool, now int64, times *Histogram) {
	for m.head != m.tail {
		p := m.psn[m.head%maxMarks]
		if ahead(p&psnMask, c) > 0 {
			return
		}
		read := p&readMark != 0
		if !refuses && (!read || firstResponse && p&psnMask == c) {
			times.Add(time.Duration(now - m.at[m.head%maxMarks]))
		}
		m.head++
	}
}
