package flows

import (
	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
)

// A pairing is what is known of the queue pair at the other end of a stream:
// whose source queue pair this stream goes to, and the other way round.
type pairing struct {
	with  ref // the stream to the other queue pair of a connection
	from  qpmap.Source
	ended bool       // a DREQ ended the connection: votes may say something else
	ids   [2]uint32  // communication ids of the exchange, the lower first
	next  connection // the one that CM announced, until data shows that it is used

	// Votes, in both directions: of the streams whose requests had the PSNs of
	// responses in this one, and of those whose responses had the PSNs of requests
	// in this one.
	responses, requests ballot

	// Of UD: the queue pair that requests come from, and for that one the flow
	// that its requests make.
	source   uint32
	sourced  bool // source is known
	several  bool // there are several sources
	datagram ref
	shared   bool // there are several flows
}

// open says whether votes decide, as nothing better is known.
func (p *pairing) open() bool { return p.from == 0 || p.from == qpmap.Votes || p.ended }

// A ballot is the streams that may be the other end of a connection.
type ballot [maxVotes]vote

// A vote counts how often a response in one stream had a PSN of a request in the
// other one.
type vote struct {
	ref
	n uint32
}

const (
	maxVotes = 4 // streams that get votes; one more takes the place and the votes of the last
	minVotes = 3
	ratio    = 2 // to the runner-up
)

// vote takes up that a response had a PSN that requests of these streams had.
// A response means nothing to streams whose partner is known for better
// reasons.
func (t *Table) vote(s *stream, name ref, r *reply) {
	bucket := t.recent.bucket(s.back, r.psn)
	if bucket == nil {
		return
	}
	refusal := r.kind() != bth.KindACK
	for pass := uint32(0); pass < 2; pass++ {
		psn := after(r.psn, pass)
		found := false
		for _, e := range t.recent.bucket(s.back, psn) {
			if e.tag != tag(s.back, psn) {
				continue
			}
			f := t.get(e.ref)
			if f == nil || !f.key.opposite(&s.key) || !f.pairing.open() {
				continue
			}
			found = true
			if pass == 0 {
				s.pairing.responses.count(e.ref)
				f.pairing.requests.count(name)
				if t.decided(s) == f && t.get(s.pairing.with) != f {
					if s.pairing.ended {
						t.settle(s)
					}
					if f.pairing.ended {
						t.settle(f)
					}
					t.join(s, name, f, e.ref, qpmap.Votes)
				}
			}
			if with := t.get(f.pairing.with); refusal && with != s && (with == nil || t.decided(f) != with) {
				t.refuse(f, r)
			}
		}
		if found || !refusal {
			return // the PSN after the refused one: if that was never seen
		}
	}
}

func (b *ballot) count(to ref) {
	last := 0
	for i := range b {
		v := &b[i]
		if v.ref == to {
			v.n++
			return
		}
		if v.n <= b[last].n {
			last = i
		}
	}
	v := &b[last]
	v.ref, v.n = to, v.n+1 // as if all of them had been its own: rather no pair than a wrong one
}

// leader returns the stream that has enough of the votes.
func (b *ballot) leader() ref {
	var first, second vote
	for _, v := range b {
		switch {
		case v.n > first.n:
			first, second = v, first
		case v.n > second.n:
			second = v
		}
	}
	if first.n < minVotes || first.n < ratio*second.n {
		return ref{}
	}
	return first.ref
}

// decided returns the stream that the votes pair s with, nil without one. They
// must decide at both ends, as no queue pair has two partners; what the
// directions of a connection say must not differ.
func (t *Table) decided(s *stream) *stream {
	with := t.get(s.pairing.responses.leader())
	if with != nil && t.get(with.pairing.requests.leader()) != s {
		with = nil
	}
	other := t.get(s.pairing.requests.leader())
	switch {
	case other == nil || t.get(other.pairing.responses.leader()) != s:
		return with
	case with == nil || with == other:
		return other
	}
	return nil
}

// known returns the stream to the other queue pair of the connection, nil if
// that is not known, or not any more.
func (t *Table) known(s *stream) *stream {
	with := t.get(s.pairing.with)
	if with != nil && s.pairing.from == qpmap.Votes && t.decided(s) != with {
		return nil
	}
	return with
}

// about returns the stream whose flow the answers in s are about, nil if that
// is not known.
func (t *Table) about(s *stream) *stream {
	if with := t.get(s.pairing.with); with != nil {
		return with
	}
	if s.pairing.shared {
		return nil
	}
	return t.get(s.pairing.datagram)
}

// join makes two streams partners, and takes up what each of them already had
// for the other.
func (t *Table) join(a *stream, nameA ref, b *stream, nameB ref, from qpmap.Source) {
	t.part(a)
	t.part(b)
	a.pairing.with, b.pairing.with = nameB, nameA
	a.pairing.from, b.pairing.from = from, from
	if f, g := &a.flow, &b.flow; f.mtu != 0 {
		t.setMTU(b, f.mtu)
	} else if g.mtu != 0 {
		t.setMTU(a, g.mtu)
	}
	t.replay(a, b)
	t.replay(b, a)
}

// part ends what is known of a stream's partner. Unless it was settled, what
// the two had for each other waits for the next one.
func (t *Table) part(s *stream) {
	for _, one := range [...]*stream{t.get(s.pairing.with), s} {
		if one != nil {
			one.pairing.with, one.pairing.from, one.pairing.ended = ref{}, 0, false
		}
	}
}

// settle leaves the answers in s, and those about it, for good with the flows
// that they are about as far as is known now.
func (t *Table) settle(s *stream) {
	with := t.known(s)
	if with != nil {
		with.leave(s)
	} else if s.pairing.from == 0 { // of datagrams, perhaps
		with = t.about(s)
	}
	s.leave(with)
}

// leave leaves the answers in s with a flow, if there is one that has requests.
func (s *stream) leave(about *stream) {
	if about != nil && about.flow.packets > 0 {
		about.settled.add(&s.answers)
	} else {
		s.stray.add(&s.answers)
	}
	s.answers = Answers{}
}

// source takes up that a datagram in s came from this queue pair.
func (t *Table) source(s *stream, name ref, qp uint32) {
	p := &s.pairing
	if p.sourced && p.source == qp {
		return
	}
	if p.sourced {
		p.several = true
		return
	}
	p.source, p.sourced = qp, true
	k := s.key.reversed(qp)
	t.held = name.id
	back, _ := t.refer(&k)
	t.held = 0
	switch b := &back.pairing; t.get(b.datagram) {
	case nil:
		b.datagram = name
		t.replay(back, s)
	case s:
	default:
		b.shared = true
	}
}

// Give tells the table the source queue pair of a flow, which counts for more
// than what it learns.
func (t *Table) Give(k rocev2.FlowKey, srcQP uint32) {
	forth := keyOf(k)
	back := forth.reversed(srcQP & qpMask)
	a, nameA := t.refer(&forth)
	t.held = nameA.id
	b, nameB := t.refer(&back)
	t.held = 0
	t.join(a, nameA, b, nameB, qpmap.Given)
}

// recents are the requests that were seen last, by addresses and PSN. A request
// makes room for another one when four newer ones have its bucket.
type recents struct{ buckets []recentBucket }

type recentBucket [4]recent

type recent struct {
	tag uint32
	ref
}

const (
	recentBuckets = 1 << 14
	maxVoting     = 32 // PSNs of a READ that are remembered: its first ones
	manyVotes     = 64 // so many make it unlikely that a pair will be in doubt again
)

// tag returns what tells the requests of two roads apart in a bucket.
func tag(road uint64, psn uint32) uint32 { return uint32(road>>32)&^psnMask | psn | 1<<31 }

// bucket returns the bucket of a PSN. Those of PSNs that follow one another do,
// too, which caches like.
func (r *recents) bucket(road uint64, psn uint32) *recentBucket {
	if r.buckets == nil {
		return nil
	}
	return &r.buckets[(uint32(road)+psn)%recentBuckets]
}

func (r *recents) add(s *stream, name ref, psn, n uint32) {
	if r.buckets == nil {
		r.buckets = make([]recentBucket, recentBuckets)
	}
	for n = min(n, maxVoting); n > 0; n-- {
		b := r.bucket(s.road, psn)
		one := recent{tag(s.road, psn), name}
		switch one {
		case b[0]:
		case b[1]:
			b[0], b[1] = one, b[0]
		case b[2]:
			b[0], b[1], b[2] = one, b[0], b[1]
		default:
			b[0], b[1], b[2], b[3] = one, b[0], b[1], b[2]
		}
		psn = after(psn, 1)
	}
}

// sure says whether the votes leave so little doubt that requests which hardly
// get an answer of their own need not be remembered.
func (p *pairing) sure() bool {
	return p.from == qpmap.Votes && p.requests[0].n >= manyVotes && p.requests[1].n == 0
}
