package flows

import "time"

// A Tally is what happened to a flow, or to all of them, in a part of the time.
type Tally struct {
	IPOctets uint64 // of requests, by the length fields of IP
	// The first request and the last, if Sequenced: how far its PSN is from that
	// of the first request of the life.
	First, Last   int64
	CE            uint32 // requests with CE
	CNPs          uint32 // of both kinds
	Missing       uint32 // PSNs that were passed over
	Late          uint32 // requests that filled a gap
	Retransmitted uint32
	NAKs          uint32 // of all codes
	RNRNAKs       uint32
	PPFC          uint32
	RTT           uint32 // nanoseconds: the longest that ended here, at most 4.29 s; 0 without
	Sequenced     bool
}

// A Bin is the tally of a part of the time.
type Bin struct {
	From, To time.Duration // since the start of the series
	Tally
}

// counters are all that is counted.
func (a *Tally) counters() [8]*uint32 {
	return [...]*uint32{&a.CE, &a.CNPs, &a.Missing, &a.Late, &a.Retransmitted, &a.NAKs, &a.RNRNAKs, &a.PPFC}
}

// addNext adds what happened next.
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

// recordLine records where the PSN of a request is.
func (a *Tally) recordLine(line int64) {
	if !a.Sequenced {
		a.First, a.Sequenced = line, true
	}
	a.Last = line
}

// minWidth is how wide bins are at the beginning, in nanoseconds.
const minWidth = 1000

// bins are tallies of parts of the time that are equally wide and follow one
// another. They begin narrow, and become twice as wide each time they no longer
// reach the present, while they are not as wide as they may become.
type bins struct {
	start, width int64 // nanoseconds
	widest       int64 // 0: there is no such limit
	tallies      []Tally
	n            int // up to the last in which something happened
}

func newBins(start, widest int64, tallies []Tally) bins {
	return bins{start: start, width: minWidth, widest: widest, tallies: tallies}
}

// binAt returns the number of the bin of a time, -1 where no bin reaches it. What
// jumps back before the start belongs to the first, where there is nothing before.
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

// doubleWidth makes one bin of two.
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

// sinceStart returns when bin i begins, since a time.
func (b *bins) sinceStart(start int64, i int) time.Duration {
	return time.Duration(b.start - start + b.width*int64(i))
}

// insertFine returns the bins, and in the place of those that fine reaches into its own.
// All of it ends at a time.
func (b *bins) insertFine(fine *bins, end int64) (all []Bin) {
	if fine.width == 0 || fine.width >= b.width { // there are none, or they are no finer
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

// surround returns the bins inside of another one, and before and behind them what else
// happened in that. What cannot be told apart is divided by the time.
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
	behind := Bin{From: inside[len(inside)-1].To, To: whole.To}
	wide, wider := before.To-before.From, behind.To-behind.From
	switch {
	case wide+wider == 0:
		inside[0].Tally.addNext(&rest)
		return inside
	default:
		before.Tally = rest
		behind.Tally = before.Tally.divideByTime(wide, wider)
	}
	before.Sequenced = wide > 0 && whole.Sequenced
	behind.Sequenced = wider > 0 && whole.Sequenced
	before.First, behind.Last = whole.First, whole.Last
	before.Last, behind.First = whole.First, whole.Last
	for i := range inside { // where the PSNs were when the first of them began, and the last ended
		if inside[i].Sequenced {
			before.Last = inside[i].First
			break
		}
	}
	for i := range inside {
		if inside[i].Sequenced {
			behind.First = inside[i].Last
		}
	}
	if wide > 0 {
		all = append(all, before)
	}
	all = append(all, inside...)
	if wider > 0 {
		all = append(all, behind)
	}
	return all
}

// subtractPart takes out what happened in a part of a.
func (a *Tally) subtractPart(part *Tally) {
	a.IPOctets -= min(a.IPOctets, part.IPOctets)
	less := part.counters()
	for i, n := range a.counters() {
		*n -= min(*n, *less[i])
	}
	a.Sequenced = false
}

// divideByTime leaves in a what belongs to the first of two parts that are so wide, and
// returns what belongs to the other.
func (a *Tally) divideByTime(wide, wider time.Duration) (other Tally) {
	share := float64(wide) / float64(wide+wider)
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

// endLastAt lets the last bin end where the time does. Where that leaves little of it, it
// and the one before are one: a rate needs some time.
func endLastAt(all []Bin, end time.Duration) []Bin {
	last := len(all) - 1
	if last < 0 || end <= all[last].From || end >= all[last].To {
		if last > 0 && end <= all[last].From { // something happened just there
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
