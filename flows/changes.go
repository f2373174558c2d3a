package flows

import (
	"maps"
	"slices"
)

// changes is what [Table.Changes] needs to know of the call before.
type changes struct {
	touched map[*stream]bool      // to which something came since then
	before  map[*stream]*Snapshot // what each had to say at the last call after which something came to it
	links   []Link
	evicted Evicted
}

// markTouched remembers that something came to a stream.
func (t *Table) markTouched(s *stream) {
	if t.changes != nil && !s.touched {
		s.touched, t.changes.touched[s] = true, true
	}
}

// Changes returns what changed since the last call, at the first call since the
// table was made: what [Snapshot.Since] would say of snapshots at both times. Its
// time grows with the flows to which something came, not with all. What came to a
// flow that was given up meanwhile is counted in Evicted alone.
func (t *Table) Changes() *Snapshot {
	if t.changes == nil {
		t.changes = &changes{touched: map[*stream]bool{}, before: map[*stream]*Snapshot{}}
		for id := range t.streams.All() {
			t.markTouched(t.streams.At(id))
		}
	}
	c := t.changes
	// What came to a stream may be about the flow of its partner.
	for _, s := range slices.Collect(maps.Keys(c.touched)) {
		for _, partner := range [...]*stream{t.partnerOf(s), t.streamAbout(s)} {
			if partner != nil {
				t.markTouched(partner)
			}
		}
	}
	now := &Snapshot{Links: t.reportLinks(), Evicted: t.evicted, Stats: t.stats}
	old := &Snapshot{Links: c.links, Evicted: c.evicted}
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
	c.links, c.evicted = now.Links, now.Evicted
	now.sortByKey()
	old.sortByKey()
	return now.changesSince(old)
}

// appendSnapshot adds the flows of another snapshot, and what is unpaired.
func (s *Snapshot) appendSnapshot(o *Snapshot) {
	s.Flows = append(s.Flows, o.Flows...)
	s.Unpaired = append(s.Unpaired, o.Unpaired...)
}

// forgetStream forgets a stream that is given up.
func (c *changes) forgetStream(s *stream) {
	if c != nil {
		delete(c.touched, s)
		delete(c.before, s)
	}
}
