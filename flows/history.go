package flows

import (
	"time"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/internal/enumtext"
)

// A history is what is remembered of the present life of a flow. Flows of a single
// request, as scans and spoofed addresses make them, have none.
type history struct {
	holes     holes
	idents    idents // all requests need it, and how many holes there are: they are neighbours in the cache
	refusals  refusals
	marks     pendingTimes
	asks      uint32 // in the table's pool; 0 without
	forgotten bool   // what asks has belongs to the life before
}

func (h *history) resetLife() { *h = history{asks: h.asks, forgotten: h.asks != 0} }

// An askRequest is a request whose message ends with the responder's data: a READ
// or an ATOMIC.
type askRequest struct {
	from   uint32
	octets uint32 // what a READ asks for
	to     uint32 // behind the last PSN that it takes, or may take
	atomic bool
	done   bool // its last response was seen
	order  uint64
}

// maxAsked is how many requests of that kind are remembered, which is as many as
// soft-RoCE may have outstanding, the most of the adapters known; the oldest goes
// when there is one more.
const maxAsked = 128

// asks are the last requests of a flow of that kind. Flows without any have none.
type asks struct {
	ring [maxAsked]askRequest
	n    uint32 // how many were put in
	head uint32 // those before this one are done
}

// remembered returns those that are remembered, in no order.
func (a *asks) remembered() []askRequest {
	if a == nil {
		return nil
	}
	return a.ring[:min(a.n, maxAsked)]
}

// asksOf returns the READs and ATOMICs of a history, nil without any.
func (t *Table) asksOf(h *history) *asks {
	a := t.asks.lookUp(h.asks)
	if h.forgotten {
		h.forgotten = false
		*a = asks{}
	}
	return a
}

// addAsk remembers a READ or an ATOMIC.
func (t *Table) addAsk(h *history, one askRequest) {
	t.asks.allocate(&h.asks)
	a := t.asksOf(h)
	a.ring[a.n%maxAsked] = one
	if a.n++; a.n-a.head > maxAsked {
		a.head = a.n - maxAsked
	}
}

// findRead returns the READ with this PSN, nil without one.
func (t *Table) findRead(h *history, read uint32) *askRequest {
	all := t.asksOf(h).remembered()
	for i := range all {
		if a := &all[i]; a.from == read && !a.atomic {
			return a
		}
	}
	return nil
}

// resolveRead says that the READ with this PSN took those before end.
func (t *Table) resolveRead(h *history, read, end uint32) {
	if a := t.findRead(h, read); a != nil {
		a.to = end
	}
}

// completeMessage records the last response to a READ, or the answer to an ATOMIC. It
// returns whether that completes a message.
func (t *Table) completeMessage(h *history, p uint32, atomic bool) bool {
	all := t.asksOf(h)
	if all == nil {
		return false
	}
	for all.head != all.n && all.ring[all.head%maxAsked].done {
		all.head++
	}
	for i := all.head; i != all.n; i++ {
		a := &all.ring[i%maxAsked]
		if a.done || a.atomic != atomic {
			continue
		}
		if s := (span{a.from, a.to}); s.contains(p) {
			a.done, a.to = true, bth.AddPSN(p, 1)
			return true
		}
	}
	return false
}

// isReadRest says whether a READ with PSN p, which goes on a run of repeats, asks for
// the rest of an earlier one, unless a refusal that is newer made the sender go
// back.
func (t *Table) isReadRest(h *history, p uint32) bool {
	for _, a := range t.asksOf(h).remembered() {
		if !a.atomic && a.order > h.refusals.by && bth.ComparePSN(p, a.from) > 0 && bth.ComparePSN(p, a.to) < 0 {
			return true
		}
	}
	return false
}

// A RetransmissionCause is why a request was repeated.
type RetransmissionCause uint8

// The causes.
const (
	CauseTimeout     RetransmissionCause = iota // none of the others
	CauseSequenceNAK                            // a NAK of the code PSN sequence
	CauseRNR                                    // an RNR NAK
	CauseReadRest                               // a READ asks for the rest of an earlier one
)

var causeNames = [...]string{"timeout", "nak", "rnr", "read"}

// String returns the cause as repeats_by in the output of rocecn flows has it.
func (c RetransmissionCause) String() string { return enumtext.Name(c, causeNames[:], "RepeatCause") }

// pendingTimes are the requests whose answer is timed, the lowest PSN first.
type pendingTimes struct {
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

func (m *pendingTimes) addRequest(p uint32, read bool, now int64) {
	if m.tail-m.head == maxMarks {
		return
	}
	if m.tail != m.head && bth.ComparePSN(p, m.psn[(m.tail-1)%maxMarks]) <= 0 {
		return // late: out of order, it is not timed
	}
	if read {
		p |= readMark
	}
	m.psn[m.tail%maxMarks], m.at[m.tail%maxMarks] = p, now
	m.tail++
}

// removePSN takes back PSN p: what answers it may answer the first packet or the
// one that repeats it.
func (m *pendingTimes) removePSN(p uint32) {
	keep := m.head
	for i := m.head; i != m.tail; i++ {
		if mark := m.psn[i%maxMarks]; mark&bth.MaxPSN != p {
			m.psn[keep%maxMarks], m.at[keep%maxMarks] = mark, m.at[i%maxMarks]
			keep++
		}
	}
	m.tail = keep
}

// timeAnswer times what is up to PSN c. A READ is timed by its first response;
// an answer that refuses times nothing. It returns the longest time, 0 without.
func (m *pendingTimes) timeAnswer(c uint32, firstResponse, refuses bool, now int64, times *Histogram) (most time.Duration) {
	for m.head != m.tail {
		p := m.psn[m.head%maxMarks]
		if bth.ComparePSN(p&bth.MaxPSN, c) > 0 {
			break
		}
		read := p&readMark != 0
		if !refuses && (!read || firstResponse && p&bth.MaxPSN == c) {
			took := time.Duration(now - m.at[m.head%maxMarks])
			times.Add(took)
			most = max(most, took)
		}
		m.head++
	}
	return most
}
