package flows

// Evicted counts what a full table had to give up.
type Evicted struct {
	Flows    uint64
	Packets  uint64
	IPOctets uint64
	Answers  // about these flows, and those that were not paired
}

// Evicted returns what the table had to give up so far.
func (t *Table) Evicted() Evicted { return t.evicted }

// evict gives up a stream: the next one, going round, that was not seen again
// since the round before.
func (t *Table) evict() {
	for {
		if t.hand++; t.hand >= t.streams.n {
			t.hand = 0
		}
		s := t.streams.at(t.hand)
		switch {
		case s.number == 0 || t.hand+1 == t.held:
		case s.used:
			s.used = false
		default:
			t.drop(s, t.hand)
			return
		}
	}
}

// drop gives up a stream. What it has about a flow that stays, stays.
func (t *Table) drop(s *stream, id uint32) {
	t.settle(s)
	if with := t.get(s.pairing.with); with != nil {
		t.part(s)
	}
	e := &t.evicted
	if f := &s.flow; f.packets > 0 {
		e.Flows++
		e.Packets += f.packets
		e.IPOctets += f.ipOctets
	}
	e.Answers.add(&s.settled)
	e.Answers.add(&s.stray)
	e.Answers.add(&s.doubted)
	if s.early != 0 {
		t.earlies.give(s.early - 1)
	}
	if f := &s.flow; f.history != 0 {
		if h := t.histories.at(f.history - 1); h.asks != 0 {
			t.asks.give(h.asks - 1)
		}
		t.histories.give(f.history - 1)
	}
	if f := &s.flow; f.series != 0 {
		t.serieses.give(f.series - 1)
	}
	for _, n := range [...]uint32{s.flow.rtt, s.flow.cnps.afterCE} {
		if n != 0 {
			t.histograms.give(n - 1)
		}
	}
	t.index.remove(s.hash, id)
	t.streams.give(id)
}
