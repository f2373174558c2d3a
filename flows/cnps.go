package flows

import "time"

// cnps are the times of the CNPs about a flow, of both kinds.
type cnps struct {
	last    int64 // when the last one came, if came
	came    bool
	ce      bool  // a packet with CE was seen since
	firstCE int64 // when the first one was

	spaced  bool
	spacing time.Duration // the least between two, if spaced
	afterCE uint32        // a histogram in the table's pool; 0 without
}

// recordCNP records a CNP about a flow.
func (t *Table) recordCNP(f *flow, fast bool, frame uint64, at int64) {
	c := &f.cnps
	if d := time.Duration(at - c.last); c.came && d >= 0 && (!c.spaced || d < c.spacing) {
		c.spaced, c.spacing = true, d
	}
	c.came, c.last = true, at
	if s := t.seriesOf(f); s != nil {
		s.recordCNP(fast, frame, at)
	}
	if c.ce {
		t.histograms.allocate(&c.afterCE).Add(time.Duration(at - c.firstCE))
		c.ce = false
	}
}
