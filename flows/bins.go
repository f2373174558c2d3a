package flows

import "time"

// A Tally counts events of one flow, or of all flows together, within an interval.
type Tally struct {
	IPOctets uint64 // of requests and responses, from the length fields of IP
	// First and Last are the PSN distances of the first and the last request in the interval from the
	// first request of the connection, valid if Sequenced is set.
	First, Last   int64
	CE            uint32 // requests and responses that came with CE
	CNPs          uint32 // CNPs with or without a Fast CNP option
	Missing       uint32 // skipped PSNs of requests and responses
	Late          uint32 // requests and responses that filled a gap
	Retransmitted uint32 // retransmitted requests and responses
	NAKs          uint32 // NAKs of all codes
	RNRNAKs       uint32
	PPFC          uint32 // PPFC notifications
	RTT           uint32 // longest round trip that ended here in nanoseconds, at most 4.29 s; 0 if none did
	Sequenced     bool
}

// A Bin is the tally of an interval of a series.
type Bin struct {
	From, To time.Duration // relative to the start of the series
	Tally
}

// counters returns pointers to the counters that are added up.
func (a *Tally) counters() [8]*uint32 {
	return [...]*uint32{&a.CE, &a.CNPs, &a.Missing, &a.Late, &a.Retransmitted, &a.NAKs, &a.RNRNAKs, &a.PPFC}
}

// addNext adds the tally of the following interval.
func (a *Tally) addNext(next *Tally) {
	a.IPOctets += next.IPOctets
	more := next.counters()
	for i, n := range a.counters() {
		*n += *more[i]
	}
	a.RTT = max(a.RTT, next.RTT)
	if next.Sequenced {
		if !a.Sequenced {
			a.First, a.Sequenced = next.First, true
		}
		a.Last = next.Last
	}
}

// recordLine records the PSN distance of a request.
func (a *Tally) recordLine(line int64) {
	if !a.Sequenced {
		a.First, a.Sequenced = line, true
	}
	a.Last = line
}

// minWidth is the initial width of a bin in nanoseconds.
const minWidth = 1000

// bins are tallies of adjacent intervals of equal width. When the time exceeds the last bin, the
// width doubles, up to widest.
type bins struct {
	start, width int64 // in nanoseconds
	widest       int64 // in nanoseconds; 0 for no limit
	tallies      []Tally
	n            int // number of the last used bin plus 1
}

func newBins(start, widest int64, tallies []Tally) bins {
	return bins{start: start, width: minWidth, widest: widest, tallies: tallies}
}

// binAt returns the index of the bin for a time, or -1 if no bin reaches it. Times before the start
// belong to the first bin, unless widest is set.
func (b *bins) binAt(at int64) int {
	if b.widest > 0 && at < b.start {
		return -1
	}
	since := max(at-b.start, 0)
	i := since / b.width
	for i >= int64(len(b.tallies)) {
		if b.widest > 0 && b.width >= b.widest {
			return -1
		}
		b.doubleWidth()
		i = since / b.width
	}
	b.n = max(b.n, int(i)+1)
	return int(i)
}

// doubleWidth merges pairs of bins.
func (b *bins) doubleWidth() {
	half := len(b.tallies) / 2
	for i := range half {
		t := b.tallies[2*i]
		t.addNext(&b.tallies[2*i+1])
		b.tallies[i] = t
	}
	clear(b.tallies[half:])
	b.n = (b.n + 1) / 2
	b.width *= 2
}

// sinceStart returns the time from start to the beginning of bin i.
func (b *bins) sinceStart(start int64, i int) time.Duration {
	return time.Duration(b.start - start + b.width*int64(i))
}

// insertFine returns the bins, with the narrower bins of fine in place of those they overlap. The
// result ends at end.
func (b *bins) insertFine(fine *bins, end int64) (all []Bin) {
	if fine.width == 0 || fine.width >= b.width { // fine is unset or not finer
		fine = &bins{start: end, width: 1}
	}
	for i, j := 0, 0; i < b.n; i++ {
		whole := Bin{b.sinceStart(b.start, i), b.sinceStart(b.start, i+1), b.tallies[i]}
		from := j
		for j < fine.n && fine.sinceStart(b.start, j) < whole.To {
			j++
		}
		if from == j {
			all = append(all, whole)
			continue
		}
		var inside []Bin
		for k := from; k < j; k++ {
			inside = append(inside, Bin{fine.sinceStart(b.start, k), fine.sinceStart(b.start, k+1), fine.tallies[k]})
		}
		all = append(all, surround(&whole, inside)...)
	}
	return endLastAt(all, time.Duration(end-b.start))
}

// surround returns the narrow bins inside a wide one, with a bin before and a bin after them for
// the rest of its counts. Counts that belong to neither for certain are divided in proportion to
// the time.
func surround(whole *Bin, inside []Bin) (all []Bin) {
	rest := whole.Tally
	rest.RTT = 0
	for i := range inside {
		rest.subtractPart(&inside[i].Tally)
	}
	if longestRTT(inside) < whole.RTT {
		rest.RTT = whole.RTT
	}
	before := Bin{From: whole.From, To: inside[0].From}
	after := Bin{From: inside[len(inside)-1].To, To: whole.To}
	widthBefore, widthAfter := before.To-before.From, after.To-after.From
	switch {
	case widthBefore+widthAfter == 0:
		inside[0].Tally.addNext(&rest)
		return inside
	default:
		before.Tally = rest
		after.Tally = before.Tally.divideByTime(widthBefore, widthAfter)
	}
	before.Sequenced = widthBefore > 0 && whole.Sequenced
	after.Sequenced = widthAfter > 0 && whole.Sequenced
	before.First, after.Last = whole.First, whole.Last
	before.Last, after.First = whole.First, whole.Last
	for i := range inside { // PSN distances at the borders of the narrow bins
		if inside[i].Sequenced {
			before.Last = inside[i].First
			break
		}
	}
	for i := range inside {
		if inside[i].Sequenced {
			after.First = inside[i].Last
		}
	}
	if widthBefore > 0 {
		all = append(all, before)
	}
	all = append(all, inside...)
	if widthAfter > 0 {
		all = append(all, after)
	}
	return all
}

// subtractPart subtracts the counts of a part of a.
func (a *Tally) subtractPart(part *Tally) {
	a.IPOctets -= min(a.IPOctets, part.IPOctets)
	less := part.counters()
	for i, n := range a.counters() {
		*n -= min(*n, *less[i])
	}
	a.Sequenced = false
}

// divideByTime divides a between two intervals of the given widths: a keeps the share of the first,
// the share of the second is returned.
func (a *Tally) divideByTime(first, second time.Duration) (other Tally) {
	share := float64(first) / float64(first+second)
	other = *a
	a.IPOctets = uint64(share * float64(a.IPOctets))
	other.IPOctets -= a.IPOctets
	rest := other.counters()
	for i, n := range a.counters() {
		*n = uint32(share * float64(*n))
		*rest[i] -= *n
	}
	return other
}

func longestRTT(all []Bin) (ns uint32) {
	for i := range all {
		ns = max(ns, all[i].RTT)
	}
	return ns
}

// endLastAt ends the last bin at end. If less than half of its width remains, it is merged with the
// previous bin, because a rate needs some time.
func endLastAt(all []Bin, end time.Duration) []Bin {
	last := len(all) - 1
	if last < 0 || end <= all[last].From || end >= all[last].To {
		if last > 0 && end <= all[last].From { // the last event is exactly at end
			all[last-1].addNext(&all[last].Tally)
			all = all[:last]
		}
		return all
	}
	width := all[last].To - all[last].From
	all[last].To = end
	if last > 0 && end-all[last].From < width/2 {
		all[last-1].addNext(&all[last].Tally)
		all[last-1].To = end
		all = all[:last]
	}
	return all
}
