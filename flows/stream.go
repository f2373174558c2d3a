package flows

// A stream is what goes from one address to a queue pair at another: requests,
// which make a flow, and answers, which are about the flow of the other
// direction that this queue pair is the source of.
type stream struct {
	key     key
	hash    uint32 // of the key, for the table's index
	road    uint64 // hash of the addresses in this direction
	back    uint64 // hash of them in the other
	number  uint32 // of all streams that there were: what tells it from one before in its place
	used    bool   // seen again since the eviction's hand came by
	touched bool   // something came since the last Changes
	pairing pairing
	early   uint32 // in the table's pool, and one; 0 without

	flow    flow
	answers Answers // about the flow of the queue pair at the other end, whichever that is
	doubted Answers // since the last of those: about no request that this flow had, perhaps of the next connection
	settled Answers // about the stream's own flow, for good
	stray   Answers // about a flow that will never be known
}

// A ref names a stream, as long as that is there.
type ref struct {
	id     uint32 // in the table's pool, and one; 0 names none
	number uint32
}

// get returns the stream that r names, nil without one.
func (t *Table) get(r ref) *stream {
	if r.id == 0 {
		return nil
	}
	if s := t.streams.at(r.id - 1); s.number == r.number {
		return s
	}
	return nil
}

// find returns the stream with a key, nil without one.
func (t *Table) find(k *key, hash uint32) (*stream, uint32) {
	x := &t.index
	if x.n == 0 {
		return nil, 0
	}
	mask := uint32(len(x.slots) - 1)
	for i := hash & mask; x.slots[i].id != 0; i = (i + 1) & mask {
		if x.slots[i].hash == hash {
			// One by one: all at once would be a call.
			if s := t.streams.at(x.slots[i].id - 1); s.key.qp == k.qp && s.key.src == k.src && s.key.dst == k.dst {
				return s, x.slots[i].id
			}
		}
	}
	return nil, 0
}

// stream returns the stream with a key, a new one if there was none.
func (t *Table) stream(k *key) *stream {
	s, _ := t.refer(k)
	return s
}

// refer is stream, with what names it.
func (t *Table) refer(k *key) (*stream, ref) {
	hash := k.hash(t.seed)
	if s, id := t.find(k, hash); s != nil {
		s.used = true
		t.touch(s)
		return s, ref{id, s.number}
	}
	if t.index.n >= t.config.MaxFlows {
		t.evict()
	}
	id := t.streams.take()
	s := t.streams.at(id)
	t.numbers++
	back := k.reversed(0)
	s.key, s.hash, s.road, s.back, s.number = *k, hash, k.road(), back.road(), t.numbers
	t.index.add(hash, id)
	t.touch(s)
	return s, ref{id + 1, s.number}
}
