package flows

import "time"

// A load measures the packets to one receiver, to compare the rate while packets are marked with the
// rate of its port. After a queue packets are as close as the port allows, so the shortest time for
// three packets shows the rate of the port.
type load struct {
	receiver [16]byte
	flows    uint32 // flows to the receiver with evidence

	at     [2]int64  // times of the last packets
	octets [2]uint64 // their IP octets
	n      uint64

	fastest float64 // octets in a nanosecond over three packets
	exact   bool    // times have a resolution of less than a microsecond

	window int64 // end of the current window
	sum    uint64
	marked bool // a packet in the window had CE

	markedOctets  uint64 // in windows with marks
	markedWindows uint64
}

const (
	loadWindow  = int64(50 * time.Microsecond)
	leastLoaded = 4 // windows with marks for a share
)

// recordPacket records a packet of data.
func (l *load) recordPacket(octets uint32, at int64, marked bool) {
	l.exact = l.exact || at%1000 != 0
	i := l.n % 2
	if span := at - l.at[i]; l.n >= 2 && span > 0 {
		l.fastest = max(l.fastest, float64(l.octets[1-i]+uint64(octets))/float64(span))
	}
	l.at[i], l.octets[i] = at, uint64(octets)
	l.n++
	if at >= l.window {
		if l.marked && l.window != 0 {
			l.markedOctets += l.sum
			l.markedWindows++
		}
		l.window, l.sum, l.marked = at+loadWindow, 0, false
	}
	l.sum += uint64(octets)
	l.marked = l.marked || marked
}

// share returns the rate while packets were marked as a share of the rate of the port, or 0 if it is
// unknown.
func (l *load) share() float64 {
	if l == nil || l.markedWindows < leastLoaded || !l.exact || l.fastest == 0 {
		return 0
	}
	return float64(l.markedOctets) / (float64(l.markedWindows) * float64(loadWindow) * l.fastest)
}

// An Episode is an interval in which signs of congestion of a flow (packets with CE, and notifications)
// were at most 100 µs apart.
type Episode struct {
	Since, Until time.Time
}

// maxEpisodes is the number of episodes kept for each flow: the first ones.
const maxEpisodes = 24

// sameEpisode is the maximum time between two signs of an episode.
const sameEpisode = int64(100 * time.Microsecond)

// episodes are the first episodes of a flow.
type episodes struct {
	all [maxEpisodes]struct{ since, until int64 }
	n   int
}

// addSign adds a sign of congestion.
func (e *episodes) addSign(at int64) {
	if e.n > 0 {
		last := &e.all[e.n-1]
		if d := at - last.until; d <= sameEpisode && d >= -sameEpisode {
			last.until = max(last.until, at)
			return
		}
	}
	if e.n < maxEpisodes {
		e.all[e.n].since, e.all[e.n].until = at, at
		e.n++
	}
}

func (e *episodes) toEpisodes() (out []Episode) {
	if e != nil {
		for _, one := range e.all[:e.n] {
			out = append(out, Episode{timeOf(one.since), timeOf(one.until)})
		}
	}
	return out
}
