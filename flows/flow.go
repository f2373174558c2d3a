package flows

import (
	"time"

	"github.com/rocecn/rocecn/bth"
)

// A flow is the state of the requests in a stream.
type flow struct {
	Requests
	macs        [12]byte // of the last request: destination, source
	first, last int64    // first and last request, nanoseconds since 1970
	peak        peak
	queue       QueueDepth
	sequence    sequence
	opening     firstRequest // request kept until the history exists
	responses   uint32       // id in Table.responses; 0 for none
	outer       uint32       // id in Table.outers; 0 for none
	trimmings   uint32       // id in Table.trimmings; 0 for none
	discards    uint32       // id in Table.discards; 0 for none
	history     uint32       // id in Table.histories; 0 for none
	cnps        cnps
	rtt         uint32 // id in Table.histograms; 0 for none
	series      uint32 // id in the pool of series; 0 for none
	evidence    uint32 // id in Table.evidences; 0 for none
}

// countRequest counts the fields that every request has.
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
	f.countMark(p, at)
}

// countMark records the first CE mark since the last CNP.
func (f *flow) countMark(p *Packet, at int64) {
	if p.isMarked() && !f.cnps.ce {
		f.cnps.ce, f.cnps.firstCE = true, at
	}
}

// recordHeaders records MAC addresses, VLAN and source port, and which of them differ from the
// previous request.
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

// countMessage counts the beginning and the end of a message. It must not be called for
// retransmissions.
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

// unknownLength is the length of a READ with a truncated RETH.
const unknownLength = 1<<32 - 1

// countPSNs returns the number of PSNs that a request takes for certain, and the number of
// further PSNs that it may take. The path MTU is 0 if it is unknown.
func countPSNs(p *Packet, r *opcodeRole, mtu uint16) (n, more uint32) {
	switch {
	case r.message != MessageRead:
		return 1, 0
	case p.noHeaders:
		return 1, connectionDistance - 1
	case mtu != 0:
		return bth.ReadPSNs(p.pkt.DMA, mtu), 0
	}
	return 1, bth.ReadPSNs(p.pkt.DMA, 256) - 1 // 256 octets is the smallest path MTU
}

// A peak finds the 100 ms window with the most octets. Windows are adjacent and begin at the first
// packet.
type peak struct {
	window int64 // number of the current window
	octets uint64
	most   uint64
}

const peakWindow = 100_000_000 // in nanoseconds

func (p *peak) addOctets(sinceFirst int64, octets uint32) {
	if w := sinceFirst / peakWindow; w > p.window { // earlier times count for the current window
		p.window, p.octets = w, 0
	}
	p.octets += uint64(octets)
	p.most = max(p.most, p.octets)
}

// minRated is the minimum number of requests for a rate.
const minRated = 3

// meanAndPeak returns the mean and peak rate of IP packets in bits per second: from the first
// request to the last, and in the busiest window. Both are 0 if there are too few requests.
func (f *flow) meanAndPeak() (mean, peak float64) {
	return rates(f.Packets, f.IPOctets, f.last-f.first, &f.peak)
}

// rates returns the mean and peak rate of packets with these octets in d nanoseconds.
func rates(packets, octets uint64, d int64, p *peak) (mean, peak float64) {
	if packets < minRated || d <= 0 {
		return 0, 0
	}
	mean = float64(octets) * 8 * float64(time.Second) / float64(d)
	peak = float64(p.most) * 8 * float64(time.Second) / peakWindow
	return mean, max(mean, peak)
}

// A firstRequest is a request with an answer that is timed or completes a message. It stores the
// first one of a flow until the flow has a history, so that flows with one request need none.
type firstRequest struct {
	askRequest
	at     int64
	ackReq bool
	read   bool
	set    bool
}

// rememberRequest stores a request in the history of its flow, or in the flow if there is no
// history yet. For a retransmission it returns the time of the first copy, or 0 if that is unknown.
func (t *Table) rememberRequest(f *flow, h *history, o firstRequest, v verdict) (first int64) {
	switch {
	case v == retransmitted:
		return h.marks.removePSN(o.from)
	case h == nil:
		f.opening, f.opening.set = o, true
	default:
		t.addToHistory(h, &o)
	}
	return 0
}

// addToHistory stores a request in a history.
func (t *Table) addToHistory(h *history, o *firstRequest) {
	if o.read || o.atomic {
		t.addAsk(h, o.askRequest)
	}
	if o.at != noTime && (o.ackReq || o.read) {
		h.marks.addRequest(o.from, o.read, o.at)
	}
}
