package flows

// Evicted counts what a full table had to give up.
type Evicted struct {
	Flows    uint64
	Packets  uint64    // their requests
	IPOctets uint64    // of these, by the length fields of IP
	ECN      [4]uint64 // packets by ECN field
	Causes   Repeats   // of the packets that were repeats
	Answers            // about these flows, and those that were not paired
}

// Evicted returns what the table had to give up so far.
func (t *Table) Evicted() Evicted { return t.evicted }

// evict makes room for a stream: the eviction sweep gives up the first stream that was not seen again since the
// clock hand came by before.
func (t *Table) evict() {
	t.drop(t.streams.Victim(0, 2*t.streams.Len()+1, func(id uint32) bool {
		if id == t.held {
			return true
		}
		s := t.streams.At(id)
		used := s.used
		s.used = false
		return used
	}))
}

// drop gives up a stream. What it has about a flow that stays, stays.
func (t *Table) drop(id uint32) {
	s := t.streams.At(id)
	t.settle(s)
	t.part(s)
	e, f := &t.evicted, &s.flow
	if f.Packets > 0 {
		e.Flows++
		e.Packets += f.Packets
		e.IPOctets += f.IPOctets
		for i, n := range f.ECN {
			e.ECN[i] += n
		}
		e.Causes.plus(&f.sequence.causes)
	}
	e.Answers.add(&s.settled)
	e.Answers.add(&s.stray)
	e.Answers.add(&s.doubted)
	t.earlies.give(&s.early)
	if h := t.histories.at(f.history); h != nil {
		t.asks.give(&h.asks)
	}
	t.histories.give(&f.history)
	t.serieses.give(&f.series)
	if e := t.evidences.at(f.evidence); e != nil {
		t.histograms.give(&e.pace.recovery)
	}
	t.evidences.give(&f.evidence)
	t.histograms.give(&f.rtt)
	t.histograms.give(&f.cnps.afterCE)
	t.changes.forget(s)
	t.streams.Remove(id)
}
