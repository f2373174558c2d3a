package lab

import (
	"errors"
	"iter"
	"math"
	"math/bits"
	"time"

	"github.com/rocecn/rocecn/internal/wire"
	"github.com/rocecn/rocecn/lab/sim"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/pause"
	"github.com/rocecn/rocecn/node/reaction"
)

// A Flow is a connection from one host to another. It sends messages in order,
// at the rate of its reaction point, and after a loss repeats all packets from
// the missing one on, or only the missing ones with [Config].Selective.
type Flow struct {
	net      *Network
	index    int
	src, dst *Host
	line     uint64 // the most that it sends, in bits a second
	psn      uint32 // of its first packet

	// The sender.
	messages []posted // from first on: not yet acknowledged
	first    int
	sending  int    // the message that next belongs to
	next     uint32 // number of the next packet
	unacked  uint32 // the lowest number that is not acknowledged
	end      uint32 // number after that of the last packet posted
	draws    uint32 // packets sent
	reaction *reaction.DCQCN
	paths    *reaction.HPCC // nil without IOAM traces
	control  Control        // &cc, &hpcc, or that of Config.Control
	cc       dcqcnControl
	hpcc     hpccControl
	paced    sim.Rate       // rate by which may was computed
	brake    reaction.Brake // set by PPFC
	release  sim.Alarm      // when the brake opens
	stopped  bool
	may      sim.Time // when the next packet may leave
	hash     uint32   // of its packets
	returns  uint32   // the same of packets in the opposite direction
	label    labelled
	again    []uint32   // with Config.Selective: packets to be retransmitted
	repeats  []repeated // with Config.Selective: packets that were retransmitted and are not acknowledged
	waits    bool       // in the host's pacing
	turn     uint64     // order of its valid entry there
	turnAt   sim.Time   // time of that entry
	retry    sim.Alarm

	// The receiver.
	expected uint32
	pending  int // packets not yet acknowledged
	missing  bool
	early    received // with Config.Selective: packets after a missing one
	highest  uint32   // with Config.Selective: number after the highest that arrived
	trimmed  received // with Buffer.Trim: packets from highest on for which it has asked
	asked    uint32   // number that the next NAK asks for
	late     bool     // with Config.Selective: a packet was missing at the latest arrival
	echo     bool     // a packet since the latest acknowledgement had the mark CE
	latest   uint32   // the draw of the latest packet
	any      bool
	poll     sim.Alarm
	ce       bool // since the last poll of a receiver that polls
	polled   packet

	octets uint64   // of data delivered in order
	met    sim.Time // when a packet first experienced congestion; Never if none has
	cut    sim.Time // of the first notification that took effect; Never if none has
}

var (
	errFlows = errors.New("lab: no more than 8 million flows")
	errLink  = errors.New("lab: a flow needs hosts with a link")
)

// posted is a message: the number after its last packet, and that packet's length.
type posted struct {
	end  uint32
	last int32 // octets of data in the last packet
	size int64
	at   sim.Time
}

// maxFlows is the number of flows for which there are queue pair numbers: two of 24 bits each.
const maxFlows = 1<<23 - 2

// Flow adds a flow with this maximum rate; 0 stands for the rate of the port. It returns an error if Config.Reaction,
// Config.HPCC or Config.Control is invalid, if a host has no link, or if there are more than 8 million flows.
func (n *Network) Flow(src, dst *Host, rate sim.Rate) (*Flow, error) {
	if len(n.flows) == maxFlows {
		return nil, errFlows
	}
	if src.port == nil || dst.port == nil {
		return nil, errLink
	}
	if rate == 0 {
		rate = src.port.rate
	}
	f := &Flow{net: n, index: len(n.flows), src: src, dst: dst, line: uint64(rate), met: sim.Never, cut: sim.Never}
	psn := n.Stream("psn", f.index)
	f.psn = uint32(psn.Below(1 << 24))
	id := n.Sim.Add(f)
	f.retry, f.poll = sim.NewAlarm(sim.Timer, id, flowRetry), sim.NewAlarm(sim.Timer, id, flowPoll)
	f.release = sim.NewAlarm(sim.Timer, id, flowRelease)
	f.hash = hashPath(uint32(src.index), uint32(dst.index), uint32(f.sourcePort()))
	f.returns = hashPath(uint32(dst.index), uint32(src.index), uint32(f.sourcePort()))
	cfg := reaction.DCQCNConfig{}
	if n.cfg.Reaction != nil {
		cfg = n.cfg.Reaction(uint64(rate))
	}
	cfg.Line = uint64(rate)
	var err error
	if f.reaction, err = n.roles.newReaction(cfg); err != nil {
		return nil, err
	}
	if n.pool.traced {
		cfg := reaction.HPCCConfig{}
		if n.cfg.HPCC != nil {
			cfg = n.cfg.HPCC(uint64(rate))
		}
		cfg.Line = uint64(rate)
		if f.paths, err = reaction.NewHPCC(cfg); err != nil {
			return nil, err
		}
	}
	f.startReaction()
	if f.control == nil {
		return nil, &ConfigError{"Control", nil, "a reaction point"}
	}
	n.flows = append(n.flows, f)
	if n.routed {
		n.learnPair(f)
	}
	return f, nil
}

// Renew resets the reaction point of a flow that has nothing to send to that of a new flow. Onset and FirstCut stay.
func (f *Flow) Renew() {
	f.startReaction()
	f.may = f.net.Sim.Now()
}

// startReaction gives the flow a new reaction point.
func (f *Flow) startReaction() {
	f.cc.DCQCNFlow = f.reaction.Start()
	f.control = &f.cc
	if f.paths != nil {
		f.hpcc = hpccControl{HPCCFlow: f.paths.Start(), net: f.net}
		f.control = &f.hpcc
	}
	if f.net.cfg.Control != nil {
		f.control = f.net.cfg.Control(f.line)
	}
	if f.control != nil {
		f.paced = f.Rate()
	}
}

// Source returns the host that sends the flow.
func (f *Flow) Source() *Host { return f.src }

// Destination returns the host that receives the flow.
func (f *Flow) Destination() *Host { return f.dst }

// Number returns the index of the flow in the network.
func (f *Flow) Number() int { return f.index }

// Octets returns the number of octets of data delivered in order.
func (f *Flow) Octets() uint64 { return f.octets }

// Onset returns when a switch first decided, by RED or by the level for PPFC, that a packet of the flow meets
// congestion; Never if none has.
func (f *Flow) Onset() sim.Time { return f.met }

// FirstCut returns when the first notification took effect; Never if none has.
func (f *Flow) FirstCut() sim.Time { return f.cut }

// Rate returns the rate of the reaction point, or the lower one to which PPFC holds it.
func (f *Flow) Rate() sim.Rate {
	rate := max(f.control.Rate(), 1) // 0 would last for ever
	if _, on := f.brake.Next(); on && !f.stopped {
		rate = f.brake.Rate(rate, f.net.Sim.Now().Clock())
	}
	return sim.Rate(rate)
}

// Use returns HPCC's estimate of the utilization of the busiest link: U.
func (f *Flow) Use() float64 { return f.hpcc.Use() }

// Alpha returns the estimate of congestion of the reaction point.
func (f *Flow) Alpha() float64 { return f.cc.Alpha(f.net.Sim.Now().Clock()) }

// Waiting goes through the messages that are not acknowledged: their octets, and when each was posted.
func (f *Flow) Waiting() iter.Seq2[int64, sim.Time] {
	return func(yield func(octets int64, posted sim.Time) bool) {
		for _, m := range f.messages[f.first:] {
			if !yield(m.size, m.at) {
				return
			}
		}
	}
}

// Post adds a message of this length, at least 1 octet, to be sent. The posted and unacknowledged data of a flow must
// be fewer than 2^31 packets.
func (f *Flow) Post(octets int64) {
	payload := int64(f.net.cfg.Payload)
	octets = max(octets, 1)
	packets := (octets + payload - 1) / payload
	f.postMessage(posted{last: int32(octets - (packets-1)*payload), size: octets}, uint32(packets))
}

// Endless adds a message of 2^31 packets, which no run completes.
func (f *Flow) Endless() {
	f.postMessage(posted{last: int32(f.net.cfg.Payload), size: int64(f.net.cfg.Payload) << 31}, 1<<31)
}

func (f *Flow) postMessage(m posted, packets uint32) {
	f.end += packets
	m.end, m.at = f.end, f.net.Sim.Now()
	if f.first > 0 && len(f.messages) == cap(f.messages) {
		n := copy(f.messages, f.messages[f.first:])
		f.messages, f.sending, f.first = f.messages[:n], f.sending-f.first, 0
	}
	f.messages = append(f.messages, m)
	f.wakeHost()
}

// hasData reports whether there is something to send that the window allows.
func (f *Flow) hasData() bool {
	if f.stopped {
		return false
	}
	if f.dropAcknowledged(); len(f.again) > 0 {
		return true
	}
	if f.next == f.end {
		return false
	}
	window := f.control.Window()
	if window == 0 {
		return f.next-f.unacked < f.net.window
	}
	packet := uint64(f.net.cfg.Payload + f.net.head + gap)
	return uint64(f.next-f.unacked)*packet < max(window, uint64(f.net.cfg.AckEvery)*packet)
}

// wakeHost adds the flow to its host's pacing.
func (f *Flow) wakeHost() {
	if f.waits || !f.hasData() {
		return
	}
	f.net.ensureRoutes()
	f.waits = true
	f.src.due.addFlow(f, max(f.may, f.net.Sim.Now()))
	f.src.port.serveQueues()
}

// nextPacket returns the next packet.
func (f *Flow) nextPacket() (ref, *packet) {
	number, message, repeated := f.nextRepeated()
	if !repeated {
		number, message = f.next, f.sending
	}
	m := &f.messages[message]
	r, k := f.net.pool.get()
	k.kind, k.prio = data, f.net.cfg.DataPriority
	k.flow, k.to, k.number, k.draw = int32(f.index), int32(f.dst.index), number, f.draws
	k.sent = f.net.Sim.Now()
	k.first = message == 0 || number == f.messages[message-1].end
	k.last = number+1 == m.end
	k.hash = f.hash
	k.echo = repeated
	if f.net.cfg.Spray {
		k.hash = hashPath(f.hash, k.draw, 0)
	}
	k.octets = int32(f.net.head + f.net.cfg.Payload)
	if k.last {
		k.octets = int32(f.net.head) + (m.last+3)&^3 // with the pad
	}
	return r, k
}

// overhead is the octets of a frame besides the data and the trace: Ethernet,
// IPv6, UDP, BTH, ICRC and the frame check sequence.
const overhead = wire.EthernetSize + 40 + 8 + 12 + 4 + frameCheck

// countSent computes when the next packet may leave, after one has begun to leave.
func (f *Flow) countSent(k *packet) {
	now := f.net.Sim.Now()
	f.net.count.Packets++
	f.net.count.Octets += uint64(k.octets)
	f.draws++
	if k.number == f.next {
		f.next++
		if k.last {
			f.sending++
		}
	} else {
		f.repeats = append(f.repeats, repeated{k.number, k.draw})
	}
	octets := int64(k.octets) + gap
	f.control.Sent(uint64(octets), now.Clock())
	f.paced = f.Rate()
	space := f.paced.Time(octets)
	f.may = max(f.may, now-space) + space // a delay of up to one packet is made up for
	if f.net.cfg.Timeout > 0 && (f.next == f.unacked+1 || k.number == f.unacked) {
		f.retry.Set(&f.net.Sim, now+f.net.cfg.Timeout)
	}
	f.waits = f.hasData()
	if f.waits {
		f.src.due.addFlow(f, f.advanceRate(now))
	}
}

// advanceRate returns when to check the flow next: when it may send, or before that
// when its rate changes.
func (f *Flow) advanceRate(now sim.Time) sim.Time {
	at, ok := f.control.Next()
	if ok && sim.FromClock(at) <= now {
		f.control.Advance(now.Clock())
		f.rescaleWait()
		at, ok = f.control.Next()
	}
	if !ok || f.may <= now {
		return max(f.may, now)
	}
	return min(f.may, sim.FromClock(at))
}

// rescaleWait scales the remaining wait for the next packet if the rate has changed.
func (f *Flow) rescaleWait() {
	now, was, is := f.net.Sim.Now(), f.paced, f.Rate()
	if is == was {
		return
	}
	f.paced = is
	if f.may <= now {
		return
	}
	hi, lo := bits.Mul64(uint64(f.may-now), uint64(was))
	wait := uint64(sim.Never - now)
	if hi < uint64(is) {
		wait, _ = bits.Div64(hi, lo, uint64(is))
	}
	f.may = now + min(sim.Time(min(wait, math.MaxInt64)), sim.Never-now)
}

// Reconsider reads the rate, the window and the time of the next change of the flow's [Control] again, and schedules
// the next packet by them. Call it if the Control has changed them outside its methods, for example because of another
// flow.
func (f *Flow) Reconsider() {
	f.rescaleWait()
	if !f.waits {
		f.wakeHost()
		return
	}
	now := f.net.Sim.Now()
	at := max(f.may, now)
	if next, ok := f.control.Next(); ok {
		at = max(min(at, sim.FromClock(next)), now)
	}
	if at < f.turnAt {
		f.src.due.addFlow(f, at)
		f.src.port.serveQueues()
	}
}

// applyNotification passes the sender's decision to the reaction point.
func (f *Flow) applyNotification(d *node.Decision) {
	now := f.net.Sim.Now()
	f.net.count.Notified++
	f.control.Advance(now.Clock())
	f.rescaleWait()
	was := f.paced
	f.control.Notified(d, now.Clock())
	if f.cut == sim.Never && f.Rate() < was {
		f.cut = now
	}
	f.Reconsider()
}

// applyPause applies the state that a PPFC asks for, until a time.
func (f *Flow) applyPause(s pause.State, until time.Time) {
	now := f.net.Sim.Now()
	f.brake.Set(s, until, uint64(f.Rate()))
	f.stopped = f.brake.Rate(1, now.Clock()) == 0
	if f.cut == sim.Never && (f.stopped || s == pause.StateHeld) {
		f.cut = now
	}
	end := sim.Never
	if at, on := f.brake.Next(); on {
		end = max(sim.FromClock(at), now)
	}
	f.release.Set(&f.net.Sim, end)
	f.Reconsider()
}

// The events of a flow.
const (
	flowRetry = iota
	flowPoll
	flowRelease
)

// Handle implements [sim.Handler].
func (f *Flow) Handle(arg uint32) {
	switch arg {
	case flowRetry:
		if f.retry.Rings(&f.net.Sim) && f.next != f.unacked {
			if f.net.cfg.Selective {
				f.repeatPacket(f.unacked)
			} else {
				f.goBackN()
			}
			f.retry.Set(&f.net.Sim, f.net.Sim.Now()+f.net.cfg.Timeout)
		}
	case flowPoll:
		if f.poll.Rings(&f.net.Sim) {
			f.dst.pollFlow(f)
		}
	case flowRelease:
		if f.release.Rings(&f.net.Sim) {
			f.src.role.updateFlow(f)
		}
	}
}

// goBackN continues from the first packet that is not acknowledged.
func (f *Flow) goBackN() {
	f.control.Lost(uint64(f.next-f.unacked)*uint64(f.net.cfg.Payload), f.net.Sim.Now().Clock())
	f.next, f.sending = f.unacked, f.first
	for f.sending < len(f.messages)-1 && int32(f.next-f.messages[f.sending].end) >= 0 {
		f.sending++
	}
	f.wakeHost()
}

// handleAck handles an acknowledgement.
func (f *Flow) handleAck(r ref, k *packet) {
	now := f.net.Sim.Now()
	a := &f.net.roles.acked // not a variable of its own: given to a Control, each would be allocated
	*a = Ack{
		RTT: time.Duration((now - k.sent) / sim.Nanosecond), Marked: k.echo, Number: uint64(k.number),
		Next: uint64(f.next),
	}
	if n := k.number - f.unacked; n > 0 && n <= f.end-f.unacked {
		a.Octets = uint64(n) * uint64(f.net.cfg.Payload)
	}
	if k.hops > 0 {
		a.Hops = f.net.pool.trace(r).hops[:k.hops]
	}
	f.control.Acked(a, now.Clock())
	if n := k.number - f.unacked; n > 0 && n <= f.end-f.unacked {
		f.unacked = k.number
		if f.net.cfg.Timeout > 0 {
			if f.next == f.unacked {
				f.retry.Set(&f.net.Sim, sim.Never)
			} else {
				f.retry.Set(&f.net.Sim, f.net.Sim.Now()+f.net.cfg.Timeout)
			}
		}
		if int32(f.next-f.unacked) < 0 { // after back
			f.next = f.unacked
		}
		for f.first < len(f.messages) && int32(f.unacked-f.messages[f.first].end) >= 0 {
			m := f.messages[f.first]
			f.first++
			if f.net.Done != nil {
				f.net.Done(f, m.size, m.at)
			}
		}
		if f.sending < f.first {
			f.sending = f.first
		}
	}
	if k.kind == nak && f.net.cfg.Selective {
		f.repeatPacket(k.draw)
	} else if f.net.cfg.Selective {
		f.repeatAgain(k.draw)
	} else if k.kind == nak && k.number == f.unacked {
		f.goBackN()
	}
	f.Reconsider() // the window may have moved
}

// receiveData handles a packet at the receiver.
func (f *Flow) receiveData(r ref, k *packet) {
	n := f.net
	if f.any && int32(k.draw-f.latest) <= 0 {
		n.count.Reordered++
	}
	if !f.any {
		f.dst.schedulePoll(f)
	}
	f.latest, f.any = k.draw, true
	f.echo = f.echo || k.ce
	if n.cfg.Selective {
		f.receiveSelective(r, k)
		return
	}
	switch d := int32(k.number - f.expected); {
	case d > 0:
		if !f.missing {
			f.missing = true
			f.sendAck(nak, r, k)
		}
		return
	case d < 0: // a repeat: the sender does not know of it, as no acknowledgement was due, or that was lost
		f.sendAck(ack, r, k)
		return
	}
	f.missing = false
	f.expected++
	f.octets += uint64(int(k.octets) - n.head)
	n.count.Delivered++
	if n.Delivered != nil {
		n.Delivered(f, k.sent)
	}
	if f.pending++; f.pending >= n.cfg.AckEvery || k.last {
		f.sendAck(ack, r, k)
	}
}

// sendAck acknowledges a packet, and returns the trace that the ports have
// written to it.
func (f *Flow) sendAck(kind kind, to ref, was *packet) {
	f.pending = 0
	r, k := f.net.pool.get()
	if was.hops > 0 && f.net.cfg.Variant.byAck() {
		k.hops = was.hops
		*f.net.pool.trace(r) = *f.net.pool.trace(to)
	}
	k.kind, k.prio, k.octets, k.hash = kind, f.net.cfg.AckPriority, int32(f.net.ackHead), f.returns
	k.flow, k.to, k.number = int32(f.index), int32(f.src.index), f.expected
	k.sent, k.echo, f.echo = was.sent, f.echo, false
	if k.draw = was.draw; kind == nak {
		k.draw = f.asked
	}
	f.dst.role.learnPacket(r, k)
	f.dst.port.enqueuePacket(r, k)
}
