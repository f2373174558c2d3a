package flows

// changes is what [Table.Changes] needs to know of the call before.
type changes struct {
	touched []touched // streams to which something came since then
	before  map[*stream]before
	links   []Link
	evicted Evicted
}

type touched struct {
	*stream
	number uint32 // of the stream then: it may have been given up
}

// before is what a stream had to say at the last call after which something came
// to it.
type before struct {
	number   uint32
	flows    []Flow // one, or none without a request
	unpaired []Unpaired
}

// touch remembers that something came to a stream.
func (t *Table) touch(s *stream) {
	c := t.changes
	if c == nil || s.touched {
		return
	}
	if len(c.touched) > 64+2*t.streams.Len() { // most were given up
		n := 0
		for _, x := range c.touched {
			if x.number == x.stream.number {
				c.touched[n] = x
				n++
			}
		}
		c.touched = c.touched[:n]
	}
	s.touched = true
	c.touched = append(c.touched, touched{s, s.number})
}

// Changes returns what changed since the last call, at the first call since the
// table was made: what [Snapshot.Since] would say of snapshots at both times. It
// takes time by the flows to which something came, not by all. What came to a
// flow that was given up meanwhile is counted in Evicted alone.
func (t *Table) Changes() *Snapshot {
	if t.changes == nil {
		t.changes = &changes{before: map[*stream]before{}}
		for id := range t.streams.All() {
			t.touch(t.streams.At(id))
		}
	}
	c := t.changes
	now := &Snapshot{Evicted: t.Evicted(), Stats: t.Stats()}
	old := &Snapshot{Evicted: c.evicted, Links: c.links}
	for l := range t.Links() {
		now.Links = append(now.Links, *l)
	}
	// What came to a stream may be about the flow of its partner.
	var partners []*stream
	for _, x := range c.touched {
		if x.number == x.stream.number {
			partners = append(partners, t.known(x.stream), t.about(x.stream))
		}
	}
	for _, s := range partners {
		if s != nil {
			t.touch(s)
		}
	}
	for _, x := range c.touched {
		s := x.stream
		if x.number != s.number {
			continue
		}
		s.touched = false
		if b := c.before[s]; b.number == s.number {
			old.Flows = append(old.Flows, b.flows...)
			old.Unpaired = append(old.Unpaired, b.unpaired...)
		}
		b := before{number: s.number}
		if s.flow.packets > 0 {
			var f Flow
			t.report(s, &f)
			b.flows = []Flow{f.clone()}
		}
		t.unpaired(s, func(u *Unpaired) bool {
			b.unpaired = append(b.unpaired, *u)
			return true
		})
		now.Flows = append(now.Flows, b.flows...)
		now.Unpaired = append(now.Unpaired, b.unpaired...)
		c.before[s] = b
	}
	clear(c.touched)
	c.touched, c.links, c.evicted = c.touched[:0], now.Links, now.Evicted
	now.order()
	old.order()
	return now.Since(old)
}
