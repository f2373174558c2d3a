package flows

import (
	"maps"
	"slices"
)

// changes is the state that [Table.Changes] keeps between two calls.
type changes struct {
	touched map[*stream]bool      // streams with packets since the last call
	before  map[*stream]*Snapshot // last report of each stream
	links   []Link
	evicted Evicted
	// reported has the counts in earlier reports of flows evicted since the last call.
	reported Evicted
	capture  Capture
}

// markTouched records that a packet of the stream arrived.
func (t *Table) markTouched(s *stream) {
	if t.changes != nil && !s.touched {
		s.touched, t.changes.touched[s] = true, true
	}
}

// Changes returns a snapshot of the changes since the last call, or since the table was made. It
// contains the flows with new packets or answers.
//
// These are since then:
//   - counts of packets, octets, messages, gaps and retransmissions, and the values of RTT and AfterCE;
//   - Discards, with First of the first report since then;
//   - OutOfOrder, Trimmed, RoCEv1, Discarded, Unread and ClockSteps of Capture.
//
// A count that fell, such as that of lost PSNs of which one turned out to be late, is 0. Mean and Data.Mean are 0. All
// other fields, Outer and Evidence among them, are those of the whole flow or capture.
//
// The cost grows with the number of changed flows. Changes of a flow that was evicted meanwhile are
// counted in Evicted only, which has Answers of the whole flow.
func (t *Table) Changes() *Snapshot {
	t.processWaiting()
	if t.changes == nil {
		t.changes = &changes{touched: map[*stream]bool{}, before: map[*stream]*Snapshot{}}
		for id := range t.streams.All() {
			t.markTouched(t.streams.Value(id))
		}
	}
	c := t.changes
	// A packet of a stream may be about the flow of its partner.
	for _, s := range slices.Collect(maps.Keys(c.touched)) {
		for _, partner := range [...]*stream{t.partnerOf(s), t.streamAbout(s)} {
			if partner != nil {
				t.markTouched(partner)
			}
		}
	}
	now := &Snapshot{Links: t.reportLinks(), Evicted: t.evicted, Stats: t.Stats(), Capture: t.reportCapture()}
	old := &Snapshot{Links: c.links, Evicted: c.evicted, Capture: c.capture}
	for s := range c.touched {
		s.touched = false
		if before := c.before[s]; before != nil {
			old.appendSnapshot(before)
		}
		c.before[s] = new(Snapshot)
		t.reportTo(c.before[s], s)
		now.appendSnapshot(c.before[s])
	}
	clear(c.touched)
	c.links, c.evicted, c.capture = now.Links, now.Evicted, now.Capture
	now.sortByKey()
	old.sortByKey()
	changed := now.changesSince(old)
	subtractCounts(changed.Evicted.counters(), c.reported.counters())
	c.reported = Evicted{}
	t.capture.clock.restoreTimes(changed)
	for i := range changed.Flows {
		if f := &changed.Flows[i]; len(f.Discards) > 0 {
			k := keyOf(f.FlowKey)
			t.discards.lookUp(t.findStream(&k).flow.discards).beginInterval(f.Discards)
		}
	}
	return changed
}

// appendSnapshot appends the flows and the unmatched answers of o.
func (s *Snapshot) appendSnapshot(o *Snapshot) {
	s.Flows = append(s.Flows, o.Flows...)
	s.Unpaired = append(s.Unpaired, o.Unpaired...)
}

// forgetStream removes an evicted stream.
func (c *changes) forgetStream(s *stream) {
	if c != nil {
		if before := c.before[s]; before != nil {
			for i := range before.Flows {
				c.reported.addReported(&before.Flows[i])
			}
		}
		delete(c.touched, s)
		delete(c.before, s)
	}
}
