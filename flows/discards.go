package flows

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"time"
)

// An EgressQueue is a queue of a switch's port.
type EgressQueue struct {
	Agent    netip.Addr // address of the switch's sFlow agent
	Port     uint32     // ifIndex; 0 if unknown
	Queue    uint32     // number of the queue, if HasQueue is set
	HasQueue bool
}

// String returns the switch, the port and the queue, such as "192.0.2.250 port 9 queue 3".
func (q EgressQueue) String() string {
	text := q.Agent.String()
	if q.Port != 0 {
		text += fmt.Sprintf(" port %d", q.Port)
	}
	if q.HasQueue {
		text += fmt.Sprintf(" queue %d", q.Queue)
	}
	return text
}

// A QueueSample is the state of an egress queue when a packet passed it.
type QueueSample struct {
	EgressQueue
	Depth uint32        // octets, if HasDepth is set
	Delay time.Duration // of the packet in the switch, if HasDelay is set

	HasDepth, HasDelay bool
}

// update sets q to by if that is deeper. A queue without a depth is compared by its delay, and is
// less deep than any other.
func (q *QueueSample) update(by *QueueSample) {
	if !by.HasDepth && !by.HasDelay {
		return
	}
	if cmp.Or(cmp.Compare(by.Depth, q.Depth), cmp.Compare(by.Delay, q.Delay)) > 0 || !q.HasDepth && !q.HasDelay {
		*q = *by
	}
}

// Discards counts the packets of one flow that a switch discarded at a queue for one reason.
type Discards struct {
	EgressQueue
	Reason      string
	Packets     uint64
	First, Last time.Time // of the reports
}

// discards are the counts of a flow.
type discards []Discards

// maxDiscards is the maximum number of queues and reasons of a flow. Further ones count with the
// reason [OtherReason], without a queue.
const maxDiscards = 8

// OtherReason is the reason in [Discards] for all packets of a flow after the first 8 combinations of a
// queue and a reason. Such Discards have no queue.
const OtherReason = "other"

// count counts a packet, and returns the index of its counts.
func (d *discards) count(at EgressQueue, reason string, now time.Time) (i int) {
	i = d.index(at, reason)
	if i < 0 && len(*d) >= maxDiscards {
		at, reason = EgressQueue{}, OtherReason
		i = d.index(at, reason)
	}
	if i < 0 {
		i = len(*d)
		*d = append(*d, Discards{EgressQueue: at, Reason: reason, First: now, Last: now})
	}
	of := &(*d)[i]
	of.Packets++
	if now.Before(of.First) {
		of.First = now
	}
	if now.After(of.Last) {
		of.Last = now
	}
	return i
}

func (d discards) index(at EgressQueue, reason string) int {
	return slices.IndexFunc(d, func(of Discards) bool { return of.EgressQueue == at && of.Reason == reason })
}

// sorted returns a copy in descending order of packets.
func (d *discards) sorted() []Discards {
	all := slices.Clone(*d)
	slices.SortStableFunc(all, func(a, b Discards) int { return cmp.Compare(b.Packets, a.Packets) })
	return all
}

// flowDiscards are the discards of a flow in a [Table].
type flowDiscards struct {
	discards
	since []time.Time // of each, the first report since the last call of Changes, or the zero time
}

func (d *flowDiscards) count(at EgressQueue, reason string, now time.Time) {
	i := d.discards.count(at, reason, now)
	if i == len(d.since) {
		d.since = append(d.since, time.Time{})
	}
	if first := &d.since[i]; first.IsZero() || now.Before(*first) {
		*first = now
	}
}

// beginInterval sets First of the changes of a flow, and begins the next interval.
func (d *flowDiscards) beginInterval(changed []Discards) {
	for i := range changed {
		of := &changed[i]
		if j := d.index(of.EgressQueue, of.Reason); j >= 0 && !d.since[j].IsZero() {
			of.First = d.since[j]
		}
	}
	clear(d.since)
}

func (d *flowDiscards) report() []Discards {
	if d == nil {
		return nil
	}
	return d.sorted()
}

// ObserveDiscard records a request, response or answer that a switch discarded for a reason such as
// "no_buffer_space", at the time of the switch's report. It counts in [Capture.Discarded] and in
// [Flow.Discards] only. It reports whether it was counted: other traffic is not, and an answer about an
// unknown flow counts in the Capture alone.
func (t *Table) ObserveDiscard(p *Packet, at EgressQueue, reason string, now time.Time) bool {
	isData := p.kind == requestKind || p.kind == answerKind && roles[p.pkt.Opcode].isResponse() ||
		p.kind == trimmedKind
	if !isData && p.kind != answerKind && p.kind != cnpKind {
		return false
	}
	t.capture.countDiscard(reason)
	if !t.ownsShard(&p.pkt.Flow) {
		return true
	}
	var s *stream
	if isData {
		s = t.streamOf(&p.pkt.Flow)
		t.beginLost(s, p, unixNano(now)+t.capture.clock.shift)
	} else if own := t.findStream(&p.pkt.Flow); own != nil {
		s = t.streamAbout(own)
	}
	if s == nil || !isData && !s.flow.hasData() {
		return true
	}
	t.discards.allocate(&s.flow.discards).count(at, reason, now)
	t.markTouched(s)
	return true
}

// maxReasons is the number of reasons in Capture.Discarded, without OtherReason.
const maxReasons = 64

func (c *captureState) countDiscard(reason string) {
	if c.discarded == nil {
		c.discarded = map[string]uint64{}
	}
	if _, known := c.discarded[reason]; !known && len(c.discarded) >= maxReasons {
		reason = OtherReason
	}
	c.discarded[reason]++
}

// subtractDiscards returns the packets discarded since an older report.
func subtractDiscards(now, old []Discards) (out []Discards) {
	for _, d := range now {
		if i := discards(old).index(d.EgressQueue, d.Reason); i >= 0 {
			d.Packets -= min(d.Packets, old[i].Packets)
		}
		if d.Packets > 0 {
			out = append(out, d)
		}
	}
	return out
}
