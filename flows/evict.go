package flows

// Evicted counts the flows that a full table has evicted, with their packets.
type Evicted struct {
	Flows    uint64
	Packets  uint64          // requests of evicted flows
	IPOctets uint64          // of these requests, from the length fields of IP
	ECN      [4]uint64       // requests by ECN field
	Data     Data            // requests and responses of evicted flows, without rates
	Causes   Retransmissions // retransmissions by cause
	Trimmed  uint64          // packets that a switch trimmed
	// TrimmedRecovered is the number of these that a NAK with their PSN or a retransmission followed.
	TrimmedRecovered uint64
	Discarded        uint64 // packets that switches discarded, as their sFlow agents report
	// ResponsePSN has the results of following the PSNs of responses.
	ResponsePSN ResponsePSN
	Answers     // about evicted flows, and unmatched ones
}

// addReported adds the counts of a flow's report, except Flows and Answers.
func (e *Evicted) addReported(f *Flow) {
	e.Packets += f.Packets
	e.IPOctets += f.IPOctets
	for i, n := range f.ECN {
		e.ECN[i] += n
	}
	e.Data.Packets += f.Data.Packets
	e.Data.IPOctets += f.Data.IPOctets
	e.Data.PayloadOctets += f.Data.PayloadOctets
	e.Data.CE += f.Data.CE
	e.Causes.addCounts(&f.Causes)
	e.Trimmed += f.Trimmed
	e.TrimmedRecovered += f.TrimmedRecovered
	for i := range f.Discards {
		e.Discarded += f.Discards[i].Packets
	}
	e.ResponsePSN.addCounts(&f.Responses.PSN)
}

// Evicted returns the counts of the flows evicted so far.
func (t *Table) Evicted() Evicted {
	t.processWaiting()
	return t.evicted
}

// evictStream evicts the first stream that was not seen again since the last sweep of the clock
// hand.
func (t *Table) evictStream() {
	t.dropStream(t.streams.Victim(0, 2*t.streams.Len()+1, func(id uint32) bool {
		if id == t.held {
			return true
		}
		s := t.streams.Value(id)
		used := s.used
		s.used = false
		return used
	}))
}

// dropStream removes a stream. Counts that belong to a remaining flow are kept.
func (t *Table) dropStream(id uint32) {
	s := t.streams.Value(id)
	t.settleAnswers(s)
	t.unpairStream(s)
	e, f := &t.evicted, s.flow
	if f.hasData() {
		e.Flows++
		e.Packets += f.Packets
		e.IPOctets += f.IPOctets
		for i, n := range f.ECN {
			e.ECN[i] += n
		}
		d := t.reportData(f)
		e.Data.Packets += d.Packets
		e.Data.IPOctets += d.IPOctets
		e.Data.PayloadOctets += d.PayloadOctets
		e.Data.CE += d.CE
		e.Causes.addCounts(&f.sequence.causes)
		e.Trimmed += f.Trimmed
		if r := t.trimmings.lookUp(f.trimmings); r != nil {
			e.TrimmedRecovered += r.recovered
		}
		if d := t.discards.lookUp(f.discards); d != nil {
			for i := range d.discards {
				e.Discarded += d.discards[i].Packets
			}
		}
		if r := t.responses.lookUp(f.responses); r != nil {
			e.ResponsePSN.addCounts(&r.PSN)
		}
	}
	e.Answers.addCounts(s.settled)
	unmatched := s.unmatched()
	e.Answers.addCounts(&unmatched)
	t.earlies.release(&s.early)
	if h := t.histories.lookUp(f.history); h != nil {
		t.asks.release(&h.asks)
		e.Causes.Spurious += t.retries.lookUp(h.retries).spuriousNow()
		t.retries.release(&h.retries)
	}
	t.histories.release(&f.history)
	t.responses.release(&f.responses)
	t.outers.release(&f.outer)
	t.trimmings.release(&f.trimmings)
	t.discards.release(&f.discards)
	t.serieses.releaseSeries(&f.series)
	t.answerSigns.release(&s.answerSigns)
	t.releaseEvidence(f)
	t.histograms.release(&f.rtt)
	t.histograms.release(&f.cnps.afterCE)
	t.flows.release(&s.flowID)
	t.changes.forgetStream(s)
	t.streams.Remove(id)
	t.last = nil
}
