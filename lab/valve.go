package lab

import (
	"github.com/rocecn/rocecn/lab/sim"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/pause"
	"github.com/rocecn/rocecn/node/reaction"
)

// A valve stops or holds one flow at an ingress PE that was asked to do so in place of the sender. It stores
// the packets that may not continue in the buffer of the PE. When they may, they go to the queue of their port
// in order, at the rate of the hold or, without a hold, at an equal share of the port's rate. So another stop
// can still store them.
type valve struct {
	pe     *switchRole
	flow   *Flow
	brake  reaction.Brake
	stored queue
	wake   sim.Alarm
	next   sim.Time // when the next packet of a flow that is held or drains may continue
	drains bool     // has stored packets that may continue

	rate   uint64 // of the flow, last measured
	since  sim.Time
	octets int64 // of the flow since the last measurement
}

// measuring is the interval over which the rate of a flow is measured. A hold keeps that rate.
const measuring = 20 * sim.Microsecond

// valveOf returns the valve of a flow. It is made when the first packet of the flow enters the WAN.
func (s *switchRole) valveOf(flow int32) *valve {
	for int(flow) >= len(s.valves) {
		s.valves = append(s.valves, nil)
	}
	v := s.valves[flow]
	if v == nil {
		n := s.of.net
		v = &valve{pe: s, flow: n.flows[flow], since: n.Sim.Now(), rate: uint64(n.flows[flow].src.port.rate)}
		v.wake = sim.NewAlarm(sim.Timer, n.Sim.Add(v), 0)
		s.valves[flow] = v
	}
	return v
}

// allValves returns the valves of a switch; there are none before the network runs.
func (s *Switch) allValves() []*valve {
	if s.role == nil {
		return nil
	}
	return s.role.valves
}

// measureRate measures the rate of arriving packets.
func (v *valve) measureRate(octets int32) {
	now := v.pe.of.net.Sim.Now()
	if took := now - v.since; took >= measuring {
		v.rate = max(uint64(float64(v.octets)*8/took.Seconds()), 1e6)
		v.since, v.octets = now, 0
	}
	v.octets += int64(octets)
}

// rateNow returns the rate at which packets of the flow may continue: 0 is none, fully any.
func (v *valve) rateNow() uint64 { return v.brake.Rate(fully, v.pe.of.net.Sim.Now().Clock()) }

// fully is above every rate of a hold.
const fully = 1 << 62

// isShut reports whether a packet must be stored: the flow is stopped, held and not due, or has packets that wait.
func (v *valve) isShut() bool {
	rate := v.rateNow()
	return v.stored.head != 0 || rate == 0 || rate != fully && v.pe.of.net.Sim.Now() < v.next
}

// scheduleNext computes when the next packet may continue, after one has gone to a port.
func (v *valve) scheduleNext(out *Port, octets int32) {
	now, rate := v.pe.of.net.Sim.Now(), v.rateNow()
	if v.drains {
		rate = min(rate, uint64(out.rate)/uint64(v.pe.draining))
	}
	if rate != fully {
		space := sim.Rate(rate).Time(int64(octets) + gap)
		v.next = max(v.next, now-space) + space
	}
}

// storePacket keeps a packet until it may continue.
func (v *valve) storePacket(r ref, k *packet) {
	s := v.pe.of
	v.stored.push(&s.net.pool, r, k)
	s.stored += int64(k.octets)
	s.mostStored = max(s.mostStored, s.stored)
	v.armTimer()
}

// updateState updates the valve from the state of the pause table.
func (v *valve) updateState() {
	now := v.pe.of.net.Sim.Now()
	state, until := v.pe.pause.State(pause.FlowTarget(v.flow.dst.role.addr, v.flow.destQP()), now.Clock())
	v.brake.Set(state, until, v.rate)
	if v.flow.cut == sim.Never && (state == pause.StateStopped || state == pause.StateHeld) {
		v.flow.cut = now
	}
	v.next = max(v.next, now)
	v.drainPackets()
}

// drainPackets releases the packets that may continue.
func (v *valve) drainPackets() {
	s := v.pe.of
	v.armTimer() // counts this valve, too, if it drains
	for v.drains && s.net.Sim.Now() >= v.next {
		r, k := v.stored.pop(&s.net.pool)
		s.stored -= int64(k.octets)
		out := s.choosePort(k)
		v.scheduleNext(out, k.octets)
		s.enqueueAdmitted(out, r, k)
		v.armTimer()
	}
}

// armTimer sets the time of the next change that needs no packet.
func (v *valve) armTimer() {
	now, at := v.pe.of.net.Sim.Now(), sim.Never
	if until, on := v.brake.Next(); on {
		at = max(sim.FromClock(until), now)
	}
	drains := v.stored.head != 0 && v.rateNow() > 0
	switch {
	case drains && !v.drains:
		v.pe.draining++
	case !drains && v.drains:
		v.pe.draining--
	}
	if v.drains = drains; drains {
		at = min(at, max(v.next, now))
	}
	v.wake.Set(&v.pe.of.net.Sim, at)
}

// Handle runs an event: a packet that is held is due, or a state has ended.
func (v *valve) Handle(uint32) {
	n := v.pe.of.net
	if !v.wake.Rings(&n.Sim) {
		return
	}
	if until, on := v.brake.Next(); on && !n.Sim.Now().Clock().Before(until) {
		v.updateState()
		return
	}
	v.drainPackets()
}

// handlePPFC handles a PPFC to the PE.
func (s *switchRole) handlePPFC(k *packet) {
	n := s.of.net
	_, d := s.pause.Receive(nil, n.roles.decodeFrame(n.pool.octets(k)), n.eventNow())
	target := s.pause.Target()
	i := int(target.DestQP)/2 - 1
	if d.Action != node.ActionAccepted || i < 0 || i >= len(n.flows) || n.flows[i].dst.role.addr != target.Addr {
		n.count.Refused++
		return
	}
	n.count.Braked++
	s.valveOf(int32(i)).updateState()
}
