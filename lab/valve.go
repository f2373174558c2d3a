package lab

import (
	"github.com/rocecn/rocecn/lab/sim"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/pause"
	"github.com/rocecn/rocecn/node/reaction"
)

// A valve is what an ingress PE does to one flow that it has been asked to stop or hold, as its sender has not: what
// may not go on is stored, in the buffer of the PE. When it may, it goes to the queue of its port in order, at the rate
// of the hold or, without one, at an equal share of the port's rate: another stop finds it still stored.
type valve struct {
	pe     *switchRole
	flow   *Flow
	brake  reaction.Brake
	stored queue
	wake   sim.Alarm
	next   sim.Time // when the next packet may go on, of a flow that is held or drains
	drains bool     // has stored packets that may go on

	rate   uint64 // of the flow, as it was measured last
	since  sim.Time
	octets int64 // of the flow since then
}

// measuring is how long the rate of a flow is measured for, that a hold keeps.
const measuring = 20 * sim.Microsecond

// valve returns that of a flow. It is made when the first packet of the flow enters the WAN.
func (s *switchRole) valve(flow int32) *valve {
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

// valves returns those of a switch; it has none before the network runs.
func (s *Switch) valves() []*valve {
	if s.role == nil {
		return nil
	}
	return s.role.valves
}

// sees measures the rate of what comes.
func (v *valve) sees(octets int32) {
	now := v.pe.of.net.Sim.Now()
	if took := now - v.since; took >= measuring {
		v.rate = max(uint64(float64(v.octets)*8/took.Seconds()), 1e6)
		v.since, v.octets = now, 0
	}
	v.octets += int64(octets)
}

// rateNow is the rate at which packets of the flow may go on: 0 is none, fully any.
func (v *valve) rateNow() uint64 { return v.brake.Rate(fully, v.pe.of.net.Sim.Now().Clock()) }

// fully is a rate that no hold keeps.
const fully = 1 << 62

// shut says whether a packet has to be stored: the flow is stopped, held and not due, or has others that wait.
func (v *valve) shut() bool {
	rate := v.rateNow()
	return v.stored.head != 0 || rate == 0 || rate != fully && v.pe.of.net.Sim.Now() < v.next
}

// goes is told of a packet that goes on to a port: when may the next one?
func (v *valve) goes(out *Port, octets int32) {
	now, rate := v.pe.of.net.Sim.Now(), v.rateNow()
	if v.drains {
		rate = min(rate, uint64(out.rate)/uint64(v.pe.draining))
	}
	if rate != fully {
		space := sim.Rate(rate).Time(int64(octets) + gap)
		v.next = max(v.next, now-space) + space
	}
}

// store keeps a packet until it may go on.
func (v *valve) store(r ref, k *packet) {
	s := v.pe.of
	v.stored.push(&s.net.pool, r, k)
	s.stored += int64(k.octets)
	s.mostStored = max(s.mostStored, s.stored)
	v.arm()
}

// asks asks what PPFC has the flow do from now on.
func (v *valve) asks() {
	now := v.pe.of.net.Sim.Now()
	state, until := v.pe.pause.State(pause.Flow(v.flow.dst.role.addr, v.flow.destQP()), now.Clock())
	v.brake.Set(state, until, v.rate)
	if v.flow.cut == sim.Never && (state == pause.Stopped || state == pause.Held) {
		v.flow.cut = now
	}
	v.next = max(v.next, now)
	v.drain()
}

// drain lets go on what may.
func (v *valve) drain() {
	s := v.pe.of
	v.arm() // which counts this one, too, if it drains
	for v.drains && s.net.Sim.Now() >= v.next {
		r, k := v.stored.pop(&s.net.pool)
		s.stored -= int64(k.octets)
		out := s.way(k)
		v.goes(out, k.octets)
		s.queues(out, r, k)
		v.arm()
	}
}

// arm sets the time at which something will change by itself.
func (v *valve) arm() {
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
		v.asks()
		return
	}
	v.drain()
}

// ordered is for a PPFC to the PE.
func (s *switchRole) ordered(k *packet) {
	n := s.of.net
	_, d := s.pause.Receive(nil, n.roles.reads(k.ip), 0, n.Sim.Now().Clock())
	i := int(d.Target.DestQP)/2 - 1
	if d.Action != node.Taken || i < 0 || i >= len(n.flows) || n.flows[i].dst.role.addr != d.Target.Addr {
		n.count.Refused++
		return
	}
	n.count.Braked++
	s.valve(int32(i)).asks()
}
