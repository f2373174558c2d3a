package flows

import (
	"iter"
	"time"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/internal/enumtext"
)

// A history is the state of a flow's current connection that flows with a single request do not need,
// such as flows of scans and spoofed addresses.
type history struct {
	gaps      gapList
	idents    idents      // used with every request, next to gaps for the cache
	naks      *nakRecords // nil until there is a NAK or a retransmission
	marks     pendingTimes
	asks      uint32 // id in Table.asks; 0 for none
	retries   uint32 // id in Table.retries; 0 for none
	forgotten bool   // asks belong to the previous connection
}

func (h *history) resetConnection() {
	*h = history{asks: h.asks, forgotten: h.asks != 0, retries: h.retries,
		gaps: gapList{all: h.gaps.all}, marks: pendingTimes{ring: h.marks.ring}, idents: h.idents, naks: h.naks}
	h.idents.reset()
	if h.naks != nil {
		*h.naks = nakRecords{}
	}
}

// An askRequest is a READ or an ATOMIC: its message ends with the responder's data.
type askRequest struct {
	from   uint32
	octets uint32 // length of a READ
	to     uint32 // first PSN after those that it takes or may take
	atomic bool
	done   bool // its last response was seen
	order  uint64
}

// maxAsked is the number of READs and ATOMICs remembered for each flow: the maximum that soft-RoCE
// has outstanding, and the most of known adapters. The oldest one is overwritten.
const maxAsked = 128

// minAsked is the number of requests for which asks has space at first.
const minAsked = 4

// asks are the last READs and ATOMICs of a flow. It is allocated for flows with such requests only.
type asks struct {
	ring []askRequest // grows to maxAsked as needed; its length is a power of two
	n    uint32       // number of requests stored so far
	head uint32       // all requests before this one are done
}

// entry returns request n of those stored so far, from 0.
func (a *asks) entry(n uint32) *askRequest { return &a.ring[n&uint32(len(a.ring)-1)] }

// remembered returns the stored requests in no particular order.
func (a *asks) remembered() []askRequest {
	if a == nil {
		return nil
	}
	return a.ring[:min(int(a.n), len(a.ring))]
}

// inOrder yields the stored requests from the first one that is not done on, the oldest first.
func (a *asks) inOrder() iter.Seq[*askRequest] {
	return func(yield func(*askRequest) bool) {
		if a == nil {
			return
		}
		for i := a.head; i != a.n; i++ {
			if !yield(a.entry(i)) {
				return
			}
		}
	}
}

// asksOf returns the READs and ATOMICs of a history, or nil without any.
func (t *Table) asksOf(h *history) *asks {
	a := t.asks.lookUp(h.asks)
	if h.forgotten {
		h.forgotten = false
		*a = asks{ring: a.ring}
	}
	return a
}

// addAsk stores a READ or an ATOMIC.
func (t *Table) addAsk(h *history, one askRequest) {
	t.asks.allocate(&h.asks)
	a := t.asksOf(h)
	if int(a.n) == len(a.ring) && len(a.ring) < maxAsked {
		old := a.ring
		a.ring = make([]askRequest, max(2*len(old), minAsked))
		copy(a.ring, old)
	}
	*a.entry(a.n) = one
	if a.n++; a.n-a.head > maxAsked {
		a.head = a.n - maxAsked
	}
}

// findRead returns the READ with this PSN, or nil.
func (t *Table) findRead(h *history, read uint32) *askRequest {
	all := t.asksOf(h).remembered()
	for i := range all {
		if a := &all[i]; a.from == read && !a.atomic {
			return a
		}
	}
	return nil
}

// resolveRead sets the end of the PSNs of a READ.
func (t *Table) resolveRead(h *history, read, end uint32) {
	if a := t.findRead(h, read); a != nil {
		a.to = end
	}
}

// completeMessage records the last response to a READ or the answer to an ATOMIC. It reports
// whether that completes a message.
func (t *Table) completeMessage(h *history, p uint32, atomic bool) bool {
	all := t.asksOf(h)
	if all == nil {
		return false
	}
	for all.head != all.n && all.entry(all.head).done {
		all.head++
	}
	for i := all.head; i != all.n; i++ {
		a := all.entry(i)
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

// isReadRest reports whether a READ with PSN p, within a run of retransmissions, asks for the rest
// of an earlier READ. A newer NAK as cause of the run excludes that.
func (t *Table) isReadRest(h *history, p uint32) bool {
	by := h.addNAKRecords().by
	for _, a := range t.asksOf(h).remembered() {
		if !a.atomic && a.order > by && bth.ComparePSN(p, a.from) > 0 && bth.ComparePSN(p, a.to) < 0 {
			return true
		}
	}
	return false
}

// RetransmissionCause is the cause of a retransmission.
type RetransmissionCause uint8

// The causes.
const (
	CauseTimeout     RetransmissionCause = iota // no other cause was captured
	CauseSequenceNAK                            // a NAK with the code PSN sequence error
	CauseRNR                                    // an RNR NAK
	CauseReadRest                               // a READ for the rest of an earlier READ
)

var causeNames = [...]string{"timeout", "nak", "rnr", "read"}

// String returns the key of the cause in `repeats_by` of rocecn flows.
func (c RetransmissionCause) String() string {
	return enumtext.Name(c, causeNames[:], "RetransmissionCause")
}

// pendingTimes are the requests that wait for their round trip time, the lowest PSN first.
type pendingTimes struct {
	ring []pendingTime // grows to maxMarks as needed; its length is a power of two
	head uint32        // number of requests removed
	tail uint32        // number of requests added
}

type pendingTime struct {
	psn uint32 // with readMark
	at  int64  // in nanoseconds since 1970
}

const (
	minMarks = 4
	maxMarks = 64 // requests timed at the same time. Further requests are not timed
)

// readMark is set in the PSN of a READ: only its first response ends the round trip.
const readMark = 1 << 31

func (m *pendingTimes) entry(i uint32) *pendingTime { return &m.ring[i&uint32(len(m.ring)-1)] }

// grow doubles the ring, and reports whether there was room for that.
func (m *pendingTimes) grow() bool {
	n := max(2*len(m.ring), minMarks)
	if n > maxMarks {
		return false
	}
	old := *m
	m.ring = make([]pendingTime, n)
	for i := m.head; i != m.tail; i++ {
		*m.entry(i) = *old.entry(i)
	}
	return true
}

func (m *pendingTimes) addRequest(p uint32, read bool, now int64) {
	if m.tail != m.head && bth.ComparePSN(p, m.entry(m.tail-1).psn) <= 0 {
		return // reordered requests are not timed
	}
	if int(m.tail-m.head) == len(m.ring) && !m.grow() {
		return
	}
	if read {
		p |= readMark
	}
	*m.entry(m.tail) = pendingTime{p, now}
	m.tail++
}

// removePSN removes a retransmitted PSN: its answer may belong to either transmission. It returns
// the time of the first one, or 0 if it is unknown.
func (m *pendingTimes) removePSN(p uint32) (at int64) {
	keep := m.head
	for i := m.head; i != m.tail; i++ {
		if one := *m.entry(i); one.psn&bth.MaxPSN != p {
			*m.entry(keep) = one
			keep++
		} else {
			at = one.at
		}
	}
	m.tail = keep
	return at
}

// timeAnswer ends the round trips of requests up to PSN c. A READ is timed by its first response,
// and NAKs give no time. It returns the longest round trip, or 0.
func (m *pendingTimes) timeAnswer(c uint32, firstResponse, isNAK bool, now int64, times *Histogram) (
	most time.Duration,
) {
	for m.head != m.tail {
		one := m.entry(m.head)
		p := one.psn & bth.MaxPSN
		if bth.ComparePSN(p, c) > 0 {
			break
		}
		read := one.psn&readMark != 0
		if !isNAK && (!read || firstResponse && p == c) {
			took := time.Duration(now - one.at)
			times.Add(took)
			most = max(most, took)
		}
		m.head++
	}
	return most
}
