package flows

import (
	"net/netip"
	"slices"

	"github.com/rocecn/rocecn/rocev2"
)

// A Snapshot is a copy of a table's reports at one time.
type Snapshot struct {
	Flows    []Flow     // by addresses and queue pair
	Unpaired []Unpaired // by addresses and queue pair, those without a queue pair first
	Links    []Link     // by source MAC address
	Evicted  Evicted
	Stats    Stats
	Capture  Capture
}

// Snapshot returns the reports of all flows with requests or responses, of unmatched answers, and of
// links.
func (t *Table) Snapshot() *Snapshot {
	t.processWaiting()
	if n := t.capture.sampling.oneIn(); n > 0 {
		t.pairSampled(n)
	}
	s := &Snapshot{Links: t.reportLinks(), Evicted: t.evicted, Stats: t.Stats(), Capture: t.reportCapture()}
	s.Flows = t.reportFlows()
	for id := range t.streams.All() {
		s.Unpaired = t.appendUnpaired(s.Unpaired, t.streams.Value(id))
	}
	s.sortUnpaired()
	s.countSharedPorts()
	t.capture.clock.restoreTimes(s)
	return s
}

// reportFlows returns the reports of all flows with data, in the order of their keys. It sorts keys instead of reports,
// which are large.
func (t *Table) reportFlows() []Flow {
	type row struct {
		key rocev2.FlowKey
		id  uint32
	}
	rows := make([]row, 0, t.flows.countUsed())
	for id := range t.streams.All() {
		if t.streams.Value(id).flow.hasData() {
			rows = append(rows, row{t.streams.Key(id).FlowKey(), id})
		}
	}
	slices.SortFunc(rows, func(a, b row) int { return a.key.Compare(b.key) })
	all := make([]Flow, len(rows))
	for i := range rows {
		all[i] = t.reportFlow(t.streams.Value(rows[i].id))
	}
	return all
}

// reportTo appends the reports of a stream to a snapshot.
func (t *Table) reportTo(s *Snapshot, of *stream) {
	if of.flow.hasData() {
		s.Flows = append(s.Flows, t.reportFlow(of))
	}
	s.Unpaired = t.appendUnpaired(s.Unpaired, of)
}

// sortByKey sorts flows and unmatched answers by their keys, and merges unmatched answers with
// equal keys.
func (s *Snapshot) sortByKey() {
	slices.SortFunc(s.Flows, func(a, b Flow) int { return a.FlowKey.Compare(b.FlowKey) })
	s.sortUnpaired()
}

// sortUnpaired sorts unmatched answers by their keys, and merges those with equal keys.
func (s *Snapshot) sortUnpaired() {
	slices.SortFunc(s.Unpaired, func(a, b Unpaired) int {
		if c := a.FlowKey.Compare(b.FlowKey); c != 0 || a.WithQP == b.WithQP {
			return c
		} else if a.WithQP {
			return 1
		}
		return -1
	})
	n := 0
	for _, u := range s.Unpaired {
		if n > 0 && s.Unpaired[n-1].FlowKey == u.FlowKey && s.Unpaired[n-1].WithQP == u.WithQP {
			s.Unpaired[n-1].addCounts(&u.Answers)
			continue
		}
		s.Unpaired[n] = u
		n++
	}
	s.Unpaired = s.Unpaired[:n]
}

// countSharedPorts sets Flow.SharedPort.
func (s *Snapshot) countSharedPorts() {
	type path struct {
		src, dst netip.Addr
		port     uint16
	}
	of := func(f *Flow) (p path, ok bool) {
		return path{f.Src, f.Dst, f.SrcPort}, !f.Varies.SrcPort && !isManagement(f.DestQP)
	}
	flows := map[path]uint64{}
	for i := range s.Flows {
		if p, ok := of(&s.Flows[i]); ok {
			flows[p]++
		}
	}
	for i := range s.Flows {
		f := &s.Flows[i]
		f.SharedPort = 0
		if p, ok := of(f); ok {
			f.SharedPort = flows[p] - 1
		}
	}
}

// changesSince returns the changes since an older snapshot of the same table, as described for
// [Table.Changes]. PSNs that were judged lost or unjudged may turn out to be late or not captured:
// such counts are 0 if they fell.
func (s *Snapshot) changesSince(old *Snapshot) *Snapshot {
	out := &Snapshot{Evicted: s.Evicted.subtractOld(&old.Evicted), Stats: s.Stats,
		Capture: s.Capture.subtractOld(&old.Capture)}
	before := map[rocev2.FlowKey]*Flow{}
	for i := range old.Flows {
		before[old.Flows[i].FlowKey] = &old.Flows[i]
	}
	for i := range s.Flows {
		f := s.Flows[i]
		f.RTT, f.AfterCE = f.RTT.clone(), f.AfterCE.clone()
		o := before[f.FlowKey]
		if o != nil && o.First.Equal(f.First) && o.Data.Packets <= f.Data.Packets {
			now := f.PSN
			f.subtractOld(o)
			counts := slices.ContainsFunc(f.counters(), func(n *uint64) bool { return *n > 0 })
			if !counts && f.Answers.Total() == 0 && len(f.Discards) == 0 && now == o.PSN && f.Last.Equal(o.Last) {
				continue
			}
		}
		out.Flows = append(out.Flows, f)
	}
	out.countSharedPorts()
	strays := map[Unpaired]Answers{} // by an Unpaired without its Answers
	for _, u := range old.Unpaired {
		strays[Unpaired{FlowKey: u.FlowKey, WithQP: u.WithQP}] = u.Answers
	}
	for _, u := range s.Unpaired {
		o := strays[Unpaired{FlowKey: u.FlowKey, WithQP: u.WithQP}]
		if u.Answers.subtractOld(&o); u.Total() > 0 {
			out.Unpaired = append(out.Unpaired, u)
		}
	}
	links := map[string]Link{}
	for _, l := range old.Links {
		links[string(l.Src)] = l
	}
	for _, l := range s.Links {
		o := links[string(l.Src)]
		changed := l.All.subtractOld(&o.All) || l.WithoutPriority > o.WithoutPriority
		l.WithoutPriority -= min(l.WithoutPriority, o.WithoutPriority)
		for i := range l.Priorities {
			changed = l.Priorities[i].subtractOld(&o.Priorities[i]) || changed
		}
		if changed {
			out.Links = append(out.Links, l)
		}
	}
	return out
}

// subtractOld reports whether anything changed.
func (p *Priority) subtractOld(o *Priority) bool {
	*p = Priority{p.XOFF - o.XOFF, p.XON - o.XON, p.Paused - o.Paused}
	return *p != Priority{}
}

func (f *Flow) subtractOld(o *Flow) {
	subtractCounts(f.counters(), o.counters())
	f.Answers.subtractOld(&o.Answers)
	f.Mean, f.Data.Mean = 0, 0
	f.Discards = subtractDiscards(f.Discards, o.Discards)
	f.RTT.subtractOld(o.RTT)
	f.AfterCE.subtractOld(o.AfterCE)
}

// counters returns pointers to all counters except those of answers.
func (f *Flow) counters() []*uint64 {
	p, c, r, d := &f.PSN, &f.Causes, &f.Responses, &f.Data
	all := []*uint64{
		&f.Packets, &f.IPOctets, &f.PayloadOctets, &f.ICRCWrong, &f.Truncated, &f.Trimmed, &f.TrimmedRecovered,
		&f.ECN[0], &f.ECN[1], &f.ECN[2], &f.ECN[3],
		&p.Gaps, &p.Missing, &p.Late, &p.Retransmitted, &p.Copies, &p.Unseen, &p.Lost, &p.Unjudged,
		&c.NAK, &c.RNR, &c.Read, &c.Timeout, &c.Spurious, &f.RTTFromRetransmitted,
		&r.Packets, &r.IPOctets, &r.PayloadOctets, &r.ICRCWrong, &r.Truncated,
		&r.ECN[0], &r.ECN[1], &r.ECN[2], &r.ECN[3],
		&d.Packets, &d.IPOctets, &d.PayloadOctets, &d.CE,
	}
	counts := r.PSN.counters()
	all = append(all, counts[:]...)
	for i := range f.messages {
		all = append(all, &f.messages[i].Begun, &f.messages[i].Complete)
	}
	return all
}

func (a *Answers) subtractOld(o *Answers) {
	now, before := a.counters(), o.counters()
	subtractCounts(now[:], before[:])
}

// counters returns pointers to all counters except those of answers.
func (e *Evicted) counters() []*uint64 {
	c := &e.Causes
	all := []*uint64{&e.Flows, &e.Packets, &e.IPOctets, &c.NAK, &c.RNR, &c.Read, &c.Timeout, &c.Spurious, &e.Trimmed,
		&e.TrimmedRecovered, &e.Discarded, &e.Data.Packets, &e.Data.IPOctets, &e.Data.PayloadOctets, &e.Data.CE}
	for i := range e.ECN {
		all = append(all, &e.ECN[i])
	}
	counts := e.ResponsePSN.counters()
	return append(all, counts[:]...)
}

func (e Evicted) subtractOld(o *Evicted) Evicted {
	subtractCounts(e.counters(), o.counters())
	e.Answers.subtractOld(&o.Answers)
	return e
}

// subtractCounts subtracts earlier counts, down to 0 at most.
func subtractCounts(now, before []*uint64) {
	for i, n := range now {
		*n -= min(*n, *before[i])
	}
}
