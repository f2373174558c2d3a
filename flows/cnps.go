package flows

import "time"

// cnps are the times of the CNPs about a flow, with or without a Fast CNP option.
type cnps struct {
	last    int64 // time of the last CNP, if came is set
	came    bool
	ce      bool  // a CE mark was seen since the last CNP
	firstCE int64 // time of the first such mark

	spaced  bool
	spacing time.Duration // shortest time between two CNPs, if spaced is set
	afterCE uint32        // id in Table.histograms; 0 for none
}

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
