package flows

// A stream is what goes from one address to a queue pair at another: requests,
// which make a flow, and answers, which are about the flow of the other
// direction that this queue pair is the source of.
type stream struct {
	id      uint32 // in the table's streams, which have its key
	number  uint32 // of all streams that there were: what tells it from one before in its place
	used    bool   // seen again since the clock hand of the eviction sweep came by
	touched bool   // something came since the last Changes
	pairing pairing
	early   uint32 // in the table's pool; 0 without

	flow    flow
	answers Answers // in this stream, about the flow of its partner, whichever that turns out to be
	doubted Answers // in this stream since then, that fit no request of the partner: perhaps of a new connection
	settled Answers // about the stream's own flow, for good
	stray   Answers // in this stream, about a flow that will never be known
}

// A ref names a stream, as long as that is there.
type ref struct {
	id     uint32 // in the table's streams; 0 names none
	number uint32
}

// streamByRef returns the stream that r names, nil without one.
func (t *Table) streamByRef(r ref) *stream {
	if r.id == 0 {
		return nil
	}
	if s := t.streams.At(r.id); s.number == r.number {
		return s
	}
	return nil
}

// findStream returns the stream with a key, nil without one.
func (t *Table) findStream(k *key) *stream {
	s, _ := t.streams.Find(k, k.Hash(t.streams.Seed))
	return s
}

// streamOf returns the stream with a key, a new one if there was none.
func (t *Table) streamOf(k *key) *stream {
	hash := k.Hash(t.streams.Seed)
	s, _ := t.streams.Find(k, hash)
	if s != nil {
		s.used = true
		t.markTouched(s)
		return s
	}
	if t.streams.Full() {
		t.evictStream()
	}
	id := t.streams.Add(k, hash, 0)
	s = t.streams.At(id)
	t.numbers++
	s.id, s.number = id, t.numbers
	t.markTouched(s)
	return s
}

// streamSparing returns the stream with a key, a new one if there was none, for which s does not make room.
func (t *Table) streamSparing(s *stream, k *key) *stream {
	t.held = s.id
	other := t.streamOf(k)
	t.held = 0
	return other
}

// keyOfStream returns the key of a stream.
func (t *Table) keyOfStream(s *stream) *key { return t.streams.Key(s.id) }

// ref returns what names a stream.
func (s *stream) ref() ref { return ref{s.id, s.number} }
