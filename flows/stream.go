package flows

// A stream consists of the packets from one address to a queue pair at another: requests, which
// make a flow, and answers, which are about the flow that this queue pair sends.
type stream struct {
	flow    *flow    // in Table.flows, or noFlow; addFlow adds it
	answers *Answers // about the flow of the current or next partner, or nil
	settled *Answers // about the stream's own flow, final, or nil
	others  *otherAnswers
	pairing pairing

	id          uint32 // in Table.streams, which has the key
	number      uint32 // sequence number, which tells a stream from the previous one with the same id
	flowID      uint32 // id in Table.flows; 0 for noFlow
	early       uint32 // id in Table.earlies; 0 for none
	answerSigns uint32 // id in Table.answerSigns; 0 for none

	mtu     uint16 // path MTU in octets; 0 if unknown
	used    bool   // seen again since the last eviction sweep
	touched bool   // a packet came since the last Changes
}

// noFlow is the flow of all streams with nothing but answers, as most have in one direction. It is never changed.
var noFlow flow

// addFlow returns the flow of a stream, adding it if needed.
func (t *Table) addFlow(s *stream) *flow {
	if s.flowID == 0 {
		s.flow = t.flows.allocate(&s.flowID)
	}
	return s.flow
}

// addAnswers returns the answers about the flow of the partner, adding them if needed.
func (s *stream) addAnswers() *Answers {
	if s.answers == nil {
		s.answers = new(Answers)
	}
	return s.answers
}

// addSettled returns the final answers about the stream's own flow, adding them if needed.
func (s *stream) addSettled() *Answers {
	if s.settled == nil {
		s.settled = new(Answers)
	}
	return s.settled
}

// otherAnswers are answers that few streams have.
type otherAnswers struct {
	doubted Answers // about no known request of the partner, perhaps of a new connection
	stray   Answers // about a flow that will not become known
}

// addOthers returns the other answers of a stream, adding them if needed.
func (s *stream) addOthers() *otherAnswers {
	if s.others == nil {
		s.others = new(otherAnswers)
	}
	return s.others
}

// takeDoubted returns the doubted answers of a stream, and removes them.
func (s *stream) takeDoubted() (doubted Answers) {
	if s.others != nil {
		doubted, s.others.doubted = s.others.doubted, Answers{}
	}
	return doubted
}

// unmatched returns the answers that do not belong to the flow of a partner.
func (s *stream) unmatched() (all Answers) {
	if s.others != nil {
		all = s.others.stray
		all.addCounts(&s.others.doubted)
	}
	return all
}

// A ref identifies a stream, as long as it is not evicted.
type ref struct {
	id     uint32 // in Table.streams; 0 for none
	number uint32
}

// streamByRef returns the stream of r, or nil.
func (t *Table) streamByRef(r ref) *stream {
	if r.id == 0 {
		return nil
	}
	if s := t.streams.Value(r.id); s.number == r.number {
		return s
	}
	return nil
}

// findStream returns the stream with a key, or nil.
func (t *Table) findStream(k *key) *stream {
	s, _ := t.streams.Find(k, k.Hash(t.streams.Seed))
	return s
}

// streamOf returns the stream with a key, adding it if needed.
func (t *Table) streamOf(k *key) *stream {
	s := t.last // packets of a message follow one another
	if s == nil || !isSameKey(t.keyOfStream(s), k) {
		s = t.findStream(k)
		t.last = s
	}
	if s != nil {
		s.used = true
		t.markTouched(s)
		return s
	}
	hash := k.Hash(t.streams.Seed)
	if t.streams.Full() {
		t.evictStream()
	}
	id := t.streams.Add(k, hash, 0)
	s = t.streams.Value(id)
	t.numbers++
	s.id, s.number, s.flow, t.last = id, t.numbers, &noFlow, s
	t.markTouched(s)
	return s
}

// isSameKey is *a == *b in place, for which the compiler would call a function.
func isSameKey(a, b *key) bool {
	return a.QP == b.QP && a.Domain == b.Domain && a.Src == b.Src && a.Dst == b.Dst
}

// streamSparing returns the stream with a key, adding it if needed without evicting s.
func (t *Table) streamSparing(s *stream, k *key) *stream {
	t.held = s.id
	other := t.streamOf(k)
	t.held = 0
	return other
}

func (t *Table) keyOfStream(s *stream) *key { return t.streams.Key(s.id) }

func (s *stream) ref() ref { return ref{s.id, s.number} }
