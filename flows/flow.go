package flows

import (
	"time"

	"github.com/rocecn/rocecn/bth"
)

// A flow is what is known of the requests in a stream.
type flow struct {
	Requests
	macs        [12]byte // of the last request's frame: destination, source
	first, last int64    // nanoseconds since 1970: the first request, the last
	peak        peak
	queue       QueueDepth
	sequence    sequence
	opening     firstRequest // what the history begins with, while there is none
	history     uint32       // in the table's pool; 0 without
	cnps        cnps
	rtt         uint32 // a histogram in the table's pool; 0 without
	series      uint32 // in the table's pool; 0 without
	evidence    uint32 // likewise
}

// countRequest counts what every request has.
func (f *flow) countRequest(p *Packet, at int64) {
	f.Packets++
	f.Transport = p.pkt.Opcode.Transport()
	f.last = max(f.last, at)
	f.IPOctets += uint64(p.ipOctets)
	f.PayloadOctets += uint64(p.pkt.Payload)
	f.ECN[p.trafficClass&3]++
	f.DSCP |= 1 << (p.trafficClass >> 2)
	f.PCP |= p.pcp
	if p.pkt.SrcPort != f.SrcPort || p.vlan != f.VLAN || p.macs != f.macs {
		f.recordHeaders(p)
	}
	if p.icrcWrong {
		f.ICRCWrong++
	}
	if p.truncated {
		f.Truncated++
	}
	f.peak.addOctets(at-f.first, p.ipOctets)
	if p.nHops > 0 {
		f.queue.raise(p.queue)
	}
	if p.trafficClass&3 == 3 && !f.cnps.ce {
		f.cnps.ce, f.cnps.firstCE = true, at
	}
}

// recordHeaders records what frame and UDP header of a request have, and what of it was not so in the one before.
func (f *flow) recordHeaders(p *Packet) {
	again := f.Packets > 1
	f.Varies.SrcPort = f.Varies.SrcPort || again && p.pkt.SrcPort != f.SrcPort
	f.Varies.VLAN = f.Varies.VLAN || again && p.vlan != f.VLAN
	f.Varies.DstMAC = f.Varies.DstMAC || again && [6]byte(p.macs[:]) != [6]byte(f.macs[:])
	f.Varies.SrcMAC = f.Varies.SrcMAC || again && [6]byte(p.macs[6:]) != [6]byte(f.macs[6:])
	f.SrcPort, f.macs = p.pkt.SrcPort, p.macs
	if p.vlan != 0 {
		f.VLAN = p.vlan
	}
}

// countMessage counts what a request begins or completes. Repeats must not be given to it.
func (f *flow) countMessage(r *opcodeRole) {
	if r.message == noMessage {
		return
	}
	if r.begins {
		f.messages[r.message].Begun++
	}
	if r.completes {
		f.messages[r.message].Complete++
	}
}

// unknownLength stands for the length of a READ that the capture cut.
const unknownLength = 1<<32 - 1

// countPSNs returns how many PSNs a request takes, and how many more it may take.
func (f *flow) countPSNs(p *Packet, r *opcodeRole) (n, more uint32) {
	switch {
	case r.message != MessageRead:
		return 1, 0
	case p.noHeaders:
		return 1, lifeDistance - 1
	case f.MTU != 0:
		return bth.ReadPSNs(p.pkt.DMA, f.MTU), 0
	}
	return 1, bth.ReadPSNs(p.pkt.DMA, 256) - 1 // the smallest path MTU
}

// A peak is the window of 100 ms with the most octets. Windows follow one
// another from the first packet on.
type peak struct {
	window int64 // the present one's number
	octets uint64
	most   uint64
}

const peakWindow = 100_000_000 // nanoseconds

func (p *peak) addOctets(sinceFirst int64, octets uint32) {
	if w := sinceFirst / peakWindow; w > p.window { // a time that jumps back belongs to the present one
		p.window, p.octets = w, 0
	}
	p.octets += uint64(octets)
	p.most = max(p.most, p.octets)
}

// minRated is how many requests a flow must have for a rate: of fewer, the time
// between two says nothing.
const minRated = 3

// meanAndPeak returns the bits of IP packets a second from the first request to the
// last, and in the busiest window, which is no longer than that: 0 where there are
// too few to say.
func (f *flow) meanAndPeak() (mean, peak float64) {
	d := f.last - f.first
	if f.Packets < minRated || d <= 0 {
		return 0, 0
	}
	mean = float64(f.IPOctets) * 8 * float64(time.Second) / float64(d)
	peak = float64(f.peak.most) * 8 * float64(time.Second) / peakWindow
	return mean, max(mean, peak)
}

// An firstRequest is a request whose answer is timed, or completes a message. The first one
// of a flow is kept here until the flow has a history, which flows of one request never
// have.
type firstRequest struct {
	askRequest
	at     int64
	ackReq bool
	read   bool
	set    bool
}

// rememberRequest remembers a request of a flow, in its history if there is one by now.
func (t *Table) rememberRequest(f *flow, h *history, o firstRequest, v verdict) {
	switch {
	case v == retransmitted:
		h.marks.removePSN(o.from)
	case h == nil:
		f.opening, f.opening.set = o, true
	default:
		t.addToHistory(h, &o)
	}
}

// addToHistory remembers a request in a history.
func (t *Table) addToHistory(h *history, o *firstRequest) {
	if o.read || o.atomic {
		t.addAsk(h, o.askRequest)
	}
	if o.ackReq || o.read {
		h.marks.addRequest(o.from, o.read, o.at)
	}
}
