package conform

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"
)

// senderCases are the cases of a sending host. The tester is the receiver of its data and the congested switch, or a
// bridge between the host and its receivers.
func senderCases() []testCase {
	fast := []string{"option1"}
	return append([]testCase{
		{"F02.1", must, "FAST 3", "data is sent to UDP port 4791, with a BTH of version 0", nil, []string{"F05", "W01"},
			ownData(func(n *seen) string {
				if n.bth[1]&0x0F != 0 {
					return fmt.Sprintf("transport header version %d", n.bth[1]&0x0F)
				}
				return ""
			})},
		{"F03.1", must, "FAST 3 figure 1", "the ICRC of data is right", nil, nil, ownData(func(n *seen) string {
			if n.icrc != n.computeICRC(asSent) {
				return fmt.Sprintf("ICRC 0x%08x instead of 0x%08x", n.icrc, n.computeICRC(asSent))
			}
			return ""
		})},
		{"W09.1", must, "FCN 4.1", "data is ECN-capable", nil, nil, ownData(func(n *seen) string {
			if n.ecn() == 0 {
				return "ECN 0"
			}
			return ""
		})},
		{"F11.1", must, "FAST 3", "a CNP of the receiver slows the flow down", nil, []string{"W05", "W29"},
			slows(cnpOf, nil)},
		{"F11.2", should, "FAST 3", "another flow keeps its rate", nil, nil, sparesOthers(cnpOf)},
		{"F11.3", should, "FAST 3", "the rate rises again after the last CNP", nil, nil, recovers},
		{"F11.4", must, "FCN 3", "a CNP over IPv4 slows the flow down", []string{"ipv4"}, nil, slows(cnp4Of, nil)},
		{"F10.1", must, "FAST 3", "a CNP with an unknown queue pair slows nothing down", nil, nil,
			keeps(cnpOf, func(m *notice) { m.destQP ^= 0x5A0000 }, cnpOf)},
		{"F07.1", must, "FAST 3 figure 2", "a CNP with a wrong ICRC slows nothing down", nil, nil,
			keeps(cnpOf, func(m *notice) { m.badICRC = true }, cnpOf)},
		{"F07.2", must, "FAST 3 figure 2", "a CNP with 12 octets after the BTH slows nothing down", nil, nil,
			keeps(cnpOf, func(m *notice) { m.payload = make([]byte, 12) }, cnpOf)},
		{"B03.1", must, "IBTA A17 figure 6", "reserved bits and octets of a CNP are ignored", nil, nil,
			slows(cnpOf, func(m *notice) { m.flags, m.payload = 0x5F, bytes.Repeat([]byte{0xA5}, 16) })},
		{"F12.1", must, "FAST 3, 4", "a Fast CNP slows the flow of its original destination and queue pair down", fast,
			[]string{"F24", "F26"}, slows(fastCNPOf, nil)},
		{"F12.2", must, "FAST 3, 4", "a Fast CNP of another original destination slows nothing down", fast, nil,
			keeps(fastCNPOf, func(m *notice) { m.options[17] ^= 0x40 }, fastCNPOf)},
		{"F12.3", should, "FAST 3, 4", "another flow keeps its rate after a Fast CNP", fast, nil,
			sparesOthers(fastCNPOf)},
		{"F20.1", should, "FAST 4", "a Fast CNP of the receiver itself slows the flow down", fast, []string{"F21"},
			slows(fastCNPOf, func(m *notice) { m.src = m.about.dst })},
		{"F15.1", should, "FAST 4", "a Fast CNP and a CNP about the same congestion do not stop the flow", fast, nil,
			bothSignals},
		{"F22.1", may, "FAST 4", "a Fast CNP makes the flow use another UDP source port", fast, nil, detours},
		{"F30.1", must, "FAST 4, RFC 8200 4.2",
			"an unknown option with act 10 is rejected by ICMPv6 code 2 that points at " +
				"it", []string{"ipv6"}, nil, rejects},
		{"F31.1", must, "FAST 4", "a Fast CNP with option 2 slows the flow down", []string{"option2"}, []string{"F32"},
			slows(fastCNP2Of, nil)},
		{"F38.1", must, "FAST 5", "a Fast CNP of a node that is not on the access list slows nothing down", fast, nil,
			keeps(fastCNPOf, func(m *notice) { m.src = m.stranger }, fastCNPOf)},
		{"F38.2", must, "FAST 5", "a Fast CNP inside a tunnel slows nothing down", fast, nil,
			keeps(fastCNPOf, func(m *notice) { m.tunnel = true }, fastCNPOf)},
		{"F43.1", should, "FAST 5, RFC 8504 5.3", "a Fast CNP with more than 8 options slows nothing down", fast, nil,
			keeps(fastCNPOf, func(m *notice) {
				m.options = append(m.options[:18:18], bytes.Repeat([]byte{0x1E, 0}, 14)...)
			}, fastCNPOf)},
		{"F42.1", must, "FAST 5", "without the ability enabled, a Fast CNP slows nothing down",
			[]string{"!option1", "!option2"}, []string{"F41"}, keepsWhenOff},
	}, pauseRows()...)
}

// pauseCases are the cases of a node that PPFC stops.
func pauseCases() []testCase { return pauseRows() }

// pauseRows are the cases about PPFC, of hosts and of other nodes that stop flows.
func pauseRows() []testCase {
	stop := []string{"ppfc-stop"}
	return []testCase{
		{"X02.1", must, "PPFC 1, 3", "a stop stops the flow", stop, []string{"X01", "X09"}, pauses(stopOf, nil)},
		{"X11.1", must, "PPFC 3", "a stop lasts as long as its Pause Duration", stop, nil, lasts},
		{"X14.1", must, "PPFC 3", "a stop ends by itself", stop, nil, ends},
		{"X14.2", must, "PPFC 3", "a resume ends a stop", []string{"ppfc-stop", "ppfc-resume"}, nil, resumesEarly},
		{"X12.1", must, "PPFC 3", "a stop of another queue pair does not stop the flow", stop, nil,
			flows(stopOf, func(m *notice) { m.destQP ^= 0x5A0000 })},
		{"X06.1", must, "PPFC 3", "an extension of neither 12 nor 24 octets stops nothing", stop, nil,
			flows(stopOf, func(m *notice) { m.payload = append(m.payload, 0, 0, 0, 0) })},
		{"X05.1", must, "PPFC 3", "without the P bit nothing stops", stop, nil,
			flows(stopOf, func(m *notice) { m.flags = 0 })},
		{"X13.1", must, "PPFC 3", "a stop with a wrong ICRC stops nothing", stop, nil,
			flows(stopOf, func(m *notice) { m.badICRC = true })},
		{"X13.2", should, "PPFC 3", "Flags and Reserved of a stop are ignored", stop, nil, pauses(stopOf,
			func(m *notice) {
				e := m.payload[len(m.payload)-8:]
				e[0], e[1], e[4], e[5] = 0xA5, 0xA4, 0x5A, 0x5A
			})},
		{"X08.1", must, "PPFC 3", "an alarm stops nothing", []string{"ppfc-stop", "ppfc-alarm"}, nil,
			flows(stopOf, func(m *notice) { m.payload[len(m.payload)-7] |= 2 })},
		{"X08.2", must, "PPFC 3", "a hold stops nothing", []string{"ppfc-stop", "ppfc-hold"}, nil,
			flows(stopOf, func(m *notice) { m.payload[len(m.payload)-7] |= 3 })},
		{"X15.1", must, "PPFC 4", "a stop of a node that is not on the access list stops nothing", stop, nil,
			flows(stopOf, func(m *notice) { m.src = m.stranger })},
		{"X15.2", must, "PPFC 4", "without the ability enabled, a stop stops nothing", []string{"!ppfc-stop"}, nil,
			flowsWhenOff},
	}
}

// An ownFlow is a flow of the device.
type ownFlow struct {
	src, dst netip.Addr
	destQP   uint32
}

func (n *seen) ownFlow() ownFlow { return ownFlow{n.src, n.dst, n.destQP()} }

// compare orders flows by queue pair, and then by address.
func (f ownFlow) compare(g ownFlow) int {
	return cmp.Or(cmp.Compare(f.destQP, g.destQP), f.dst.Compare(g.dst), f.src.Compare(g.src))
}

// A notice is a notification of the tester about a flow of the device.
type notice struct {
	flow
	about    *seen      // a packet of the flow
	stranger netip.Addr // an address that is on no access list
	tunnel   bool
}

// dataPort returns the port at which data of the device arrives.
func (s *suite) dataPort() int {
	if s.isBridge() {
		return s.portOf("sender")
	}
	return max(0, s.portOf("receiver"))
}

// ownPackets returns the data packets of the device since a time.
func (x *trial) ownPackets(since time.Time) (all []*seen) {
	for _, n := range x.received {
		if n.kind == kindData && !n.at.Before(since) && slices.Contains(x.profile.Device.Addresses, n.src) {
			all = append(all, n)
		}
	}
	return all
}

// measure returns the octets a second of each flow of the device during a time.
func (x *trial) measure(d time.Duration) (rates map[ownFlow]float64, last map[ownFlow]*seen) {
	return x.measureAfter(d, func() {})
}

// measureAfter sends messages by a function, and returns the octets a second of each flow of the device during a time.
func (x *trial) measureAfter(d time.Duration, send func()) (rates map[ownFlow]float64, last map[ownFlow]*seen) {
	x.repeatLate(d/5, func() {
		send()
		rates, last = x.receiveRates(d)
	})
	return rates, last
}

// receiveRates receives for a time, and returns the octets a second of each flow of the device in it.
func (x *trial) receiveRates(d time.Duration) (rates map[ownFlow]float64, last map[ownFlow]*seen) {
	begin := x.rig.now()
	x.receiveFor(d)
	rates, last = map[ownFlow]float64{}, map[ownFlow]*seen{}
	for _, n := range x.ownPackets(begin) {
		rates[n.ownFlow()] += float64(len(n.frame)) / d.Seconds()
		last[n.ownFlow()] = n
	}
	return rates, last
}

// window is the time of one measurement.
func (x *trial) window() time.Duration { return min(400*time.Millisecond, x.profile.Time.Settle) }

// steady starts the traffic of the device, and waits until its flows have a rate that no longer rises. It returns the
// flows by falling rate, and a packet of each.
func (x *trial) steady() (all []ownFlow, rates map[ownFlow]float64, last map[ownFlow]*seen) {
	highest := 0.
	for rises := 0; !x.isOver(); {
		rates, last = x.measure(x.window())
		sum := 0.
		for _, r := range rates {
			sum += r
		}
		if sum <= highest*1.05 {
			rises++
		}
		if highest = max(highest, sum); rises >= 2 || x.rig.now().Sub(x.begin) > x.profile.Time.Case/2 {
			break
		}
	}
	all = slices.SortedFunc(maps.Keys(rates), func(a, b ownFlow) int {
		return cmp.Or(cmp.Compare(rates[b], rates[a]), a.compare(b))
	})
	return all, rates, last
}

// senderQPOf returns the queue pair that a packet of the device comes from.
func (s *suite) senderQPOf(n *seen) (uint32, bool) {
	for _, p := range s.profile.Pairs {
		if p.Src == n.src && p.Dst == n.dst && p.DestQP == n.destQP() {
			return p.SrcQP, true
		}
	}
	if n.opcode()>>5 == 3 && len(n.afterBTH()) >= 8 { // UD: in the DETH
		return binary.BigEndian.Uint32(n.afterBTH()[4:]) & 0xFFFFFF, true
	}
	return 0, false
}

// A maker makes a notice about a packet of the device. It returns nil if it lacks something.
type maker func(x *trial, n *seen) *notice

func (x *trial) notice(n *seen) *notice {
	m := &notice{about: n, stranger: x.stranger(n.v6)}
	m.src, _ = x.notifier(n.v6)
	m.dst, m.srcPort, m.pKey, m.class = n.src, n.srcPort, n.pKey(), 48<<2
	m.opcode, m.destQP, m.payload = opcodeCNP, n.destQP(), make([]byte, 16)
	return m
}

func cnpOf(x *trial, n *seen) *notice {
	m := x.notice(n)
	qp, ok := x.senderQPOf(n)
	if !ok {
		return nil
	}
	m.src, m.destQP = n.dst, qp
	return m
}

func cnp4Of(x *trial, n *seen) *notice {
	if n.v6 {
		return nil
	}
	return cnpOf(x, n)
}

func fastCNPOf(x *trial, n *seen) *notice {
	m := x.notice(n)
	if !n.v6 || !m.src.IsValid() {
		return nil
	}
	m.options = fastCNPOption1(x.profile.CodePoints.optionType(1), n.dst)
	return m
}

func fastCNP2Of(x *trial, n *seen) *notice {
	m := fastCNPOf(x, n)
	if m != nil {
		trace := traceOption(123, 0, [8]byte{64, 0, 0, 1, 0, 0, 0x40, 9})
		data := append(append([]byte{}, trace[4:4+int(trace[3])]...), n.dst.AsSlice()...)
		m.options = append([]byte{1, 0, x.profile.CodePoints.optionType(2), uint8(len(data))}, data...)
		if pad := -(len(m.options) + 2) & 7; pad > 1 {
			m.options = append(append(m.options, 1, uint8(pad-2)), make([]byte, pad-2)...)
		}
	}
	return m
}

// stopTime is the Pause Duration of the tester's stops.
const stopTime = 60 * time.Millisecond

func stopOf(x *trial, n *seen) *notice {
	m := x.notice(n)
	if !m.src.IsValid() {
		return nil
	}
	m.flags, m.payload = 0x20, ppfcAfterBTH(n.dst, 0, 1, uint16(stopTime.Microseconds()))
	return m
}

// deliver sends a notice to the device.
func (x *trial) deliver(m *notice) {
	ip := m.appendIP(nil)
	if m.tunnel {
		ip = wrapIP(m.src, m.dst, 0, 0, ip)
	}
	x.transmit(x.dataPort(), ip)
}

// target returns the fastest flow about which a notice can be made, with a notice and the usual rates. If there is
// no such flow, the case ends.
func (x *trial) target(make maker) (f ownFlow, m *notice, rates map[ownFlow]float64) {
	all, rates, last := x.steady()
	x.require(len(all) > 0, unclear("the device sends no RoCEv2 data"))
	i := slices.IndexFunc(all, func(f ownFlow) bool { return make(x, last[f]) != nil })
	x.require(i >= 0, inapplicable("the sender's queue pair or the tester's address is unknown: want [[pair]] for a "+
		"flow of the device, and an address of the port"))
	f = all[i]
	for range tries {
		if low := x.lowestAfter(rates, func() {}); low[f] >= slowed*rates[f] { // the usual variation
			return f, make(x, last[f]), low
		}
	}
	panic(unclear("the flow falls below %.0f %% of %.0f octets a second without a message", 100*slowed, rates[f]))
}

// lowestAfter sends messages by a function in each of some windows, and returns the lowest rates of flows in them.
func (x *trial) lowestAfter(before map[ownFlow]float64, send func()) map[ownFlow]float64 {
	low := maps.Clone(before)
	for range 3 {
		now, _ := x.measureAfter(x.window()/2, send)
		for f := range low {
			low[f] = min(low[f], now[f])
		}
	}
	return low
}

// tries is the number of times that a flow has to slow down or to stop without a reason until a case fails: a host may
// be late for other reasons.
const tries = 3

// slowed is the largest part of the rate before that counts as slower.
const slowed = 0.8

// slows is the body of a case about notices that slow the flow down.
func slows(make maker, change func(m *notice)) func(x *trial) outcome {
	return func(x *trial) outcome {
		f, m, rates := x.target(make)
		if change != nil {
			change(m)
		}
		after := x.rateAfter(f, m, rates[f])
		x.require(after <= slowed*rates[f],
			failed(nil, fmt.Sprintf("less than %.0f %% of %.0f octets a second", 100*slowed, rates[f]),
				"%.0f octets a second", after))
		if after == 0 && !x.goesOn(f) {
			return errFlowEnded
		}
		return passed("%.0f octets a second, before %.0f", after, rates[f])
	}
}

var errFlowEnded = unclear("the device no longer sends the flow")

// goesOn reports whether another packet of a flow arrives in the time of the case.
func (x *trial) goesOn(f ownFlow) bool {
	begin := x.rig.now()
	return x.wait(x.profile.Time.Case, func() bool {
		return slices.ContainsFunc(x.ownPackets(begin), func(n *seen) bool { return n.ownFlow() == f })
	})
}

// rateAfter sends a notice in each of some windows, and returns the lowest rate of a flow in them.
func (x *trial) rateAfter(f ownFlow, m *notice, before float64) float64 {
	lowest := x.lowestAfter(map[ownFlow]float64{f: before}, func() { x.deliver(m) })[f]
	x.rates = append(x.rates, rateRow{x.c.expected, before, lowest})
	return lowest
}

// keeps is the body of a case about notices that must change nothing, before one that must slow the flow down.
func keeps(make maker, change func(m *notice), valid maker) func(x *trial) outcome {
	return func(x *trial) outcome {
		f, m, rates := x.target(make)
		change(m)
		if o := x.keepsRate(f, m, rates[f]); o.verdict != pass {
			return o
		}
		control := valid(x, m.about)
		x.require(control != nil, unclear("no notification that slows the flow down can be built: want [[pair]]"))
		if after := x.rateAfter(f, control, rates[f]); after > slowed*rates[f] {
			return unclear("a valid notification does not slow the flow down either")
		}
		return passed("%.0f octets a second as before", rates[f])
	}
}

// keepsRate is an outcome that passes if a notice does not slow the flow down each time.
func (x *trial) keepsRate(f ownFlow, m *notice, before float64) outcome {
	for try := 1; ; try++ {
		after := x.rateAfter(f, m, before)
		if after >= slowed*before {
			return passed("%.0f octets a second as before", before)
		}
		if try == tries {
			return failed(nil, x.c.expected, "%.0f octets a second, before %.0f", after, before)
		}
		x.wait(2*x.window(), func() bool { return false }) // to recover
	}
}

// keepsWhenOff: a Fast CNP does not slow the flow of a device down that is off.
func keepsWhenOff(x *trial) outcome {
	f, m, rates := x.target(fastCNPOf)
	return x.whenEnabled(x.keepsRate(f, m, rates[f]),
		func() bool { return x.rateAfter(f, m, rates[f]) <= slowed*rates[f] && x.goesOn(f) })
}

// sparesOthers is the body of a case about a notice that must change no flow but its own.
func sparesOthers(make maker) func(x *trial) outcome {
	return func(x *trial) outcome {
		f, m, rates := x.target(make)
		others := maps.Clone(rates)
		maps.DeleteFunc(others, func(other ownFlow, rate float64) bool { return other == f || rate <= rates[f]/4 })
		all := len(others)
		x.require(all > 0, inapplicable("the device has one flow"))
		for range tries {
			low := x.lowestAfter(others, func() { x.deliver(m) })
			for _, other := range slices.SortedFunc(maps.Keys(others), ownFlow.compare) {
				x.rates = append(x.rates, rateRow{x.c.expected, others[other], low[other]})
				if low[other] >= slowed*others[other] {
					delete(others, other)
				}
			}
			if len(others) == 0 {
				return passed("all other flows keep their rates")
			}
		}
		return failed(nil, x.c.expected, "%d of %d other flows fall below %.0f %% of their rates", len(others), all,
			100*slowed)
	}
}

func recovers(x *trial) outcome {
	f, m, rates := x.target(cnpOf)
	lowest := x.rateAfter(f, m, rates[f])
	x.require(lowest <= slowed*rates[f], unclear("the flow does not slow down"))
	for x.hasTime(x.window()) {
		if after, _ := x.measure(x.window()); after[f] > lowest+(rates[f]-lowest)/2 {
			return passed("%.0f, then %.0f, then %.0f octets a second", rates[f], lowest, after[f])
		}
	}
	return failed(nil, "half of the lost rate within the time of the case", "%.0f octets a second at the lowest",
		lowest)
}

// hasRecovered waits until a flow has its usual rate again. It reports whether that is in the time of the case.
func (x *trial) hasRecovered(f ownFlow, usual float64) bool {
	for x.hasTime(2 * x.window()) {
		if rates, _ := x.receiveRates(x.window()); rates[f] >= slowed*usual {
			return true
		}
	}
	return false
}

// bothSignals: a Fast CNP and a CNP do not stop the flow. Before another measurement it has its usual rate again, as
// several of both may stop it.
func bothSignals(x *trial) outcome {
	f, m, rates := x.target(fastCNPOf)
	repeated := false
	after, _ := x.measureAfter(x.window(), func() {
		if repeated && !x.hasRecovered(f, rates[f]) {
			x.keepError("time.case", errors.New("it is over before the flow has its rate again"))
			return
		}
		repeated = true
		x.deliver(m)
		if c := cnpOf(x, m.about); c != nil {
			x.deliver(c)
		}
	})
	x.rates = append(x.rates, rateRow{x.c.expected, rates[f], after[f]})
	x.require(after[f] >= 0.02*rates[f],
		failed(nil, x.c.expected, "%.0f octets a second, before %.0f", after[f], rates[f]))
	return passed("%.0f octets a second, before %.0f", after[f], rates[f])
}

func detours(x *trial) outcome {
	f, m, _ := x.target(fastCNPOf)
	now := x.rig.now()
	x.deliver(m)
	x.measure(x.window())
	for _, n := range x.ownPackets(now) {
		if n.ownFlow() == f && n.srcPort != m.about.srcPort {
			return passed("UDP source port %d, before %d", n.srcPort, m.about.srcPort)
		}
	}
	return inapplicable("the device does not use this option")
}

// rejects: an option type that no deployment uses, with act 10.
func rejects(x *trial) outcome {
	from, device := x.notifier(true)
	x.require(from.IsValid() && device.IsValid(), errNoNotifier)
	kind := uint8(0x9D)
	for slices.Contains(x.profile.CodePoints.OptionTypes, kind) {
		kind--
	}
	f := flow{src: from, dst: device, opcode: opcodeCNP, destQP: 0x123456, payload: make([]byte, 16),
		options: fastCNPOption1(kind, from)}
	const pointer = ipv6Size + 2
	for range 5 {
		x.transmit(x.dataPort(), f.appendIP(nil))
		x.wait(x.profile.Time.Settle/2, func() bool { return x.problem() != nil })
	}
	n := x.problem()
	x.require(n != nil, failed(nil, "an ICMPv6 Parameter Problem", "none after 5 packets"))
	if e, g := sameOctets("code and pointer", []byte{2, 0, 0, 0, pointer},
		append([]byte{n.upper[1]}, n.upper[4:8]...)); e != "" {
		return failed(n, e, "%s", g)
	}
	return passed("code 2, pointer %d", pointer)
}

// problem returns the first ICMPv6 Parameter Problem that has arrived.
func (x *trial) problem() *seen {
	for _, n := range x.received {
		if n.protocol == protocolICMPv6 && len(n.upper) >= 8 && n.upper[0] == 4 {
			return n
		}
	}
	return nil
}

// ownData is the body of a case about each data packet of the device.
func ownData(f func(n *seen) string) func(x *trial) outcome {
	return func(x *trial) outcome {
		x.measure(x.window())
		all := x.ownPackets(x.begin)
		for _, n := range all {
			if got := f(n); got != "" {
				return failed(n, x.c.expected, "%s", got)
			}
		}
		x.require(len(all) > 0, unclear("the device sends no RoCEv2 data"))
		return passed("%d packets", len(all))
	}
}

// gapAfter sends a notice, if it is not nil, and returns the longest time between two packets of a flow in the time
// after it. The gap may begin with the notice, and end with the measurement.
func (x *trial) gapAfter(f ownFlow, m *notice, d time.Duration) time.Duration {
	return x.gapAfterSending(f, d, func() {
		if m != nil {
			x.deliver(m)
		}
	})
}

// gapAfterSending is gapAfter with a function that sends. The gap begins after it.
func (x *trial) gapAfterSending(f ownFlow, d time.Duration, send func()) (longest time.Duration) {
	x.repeatLate(stopTime/6, func() {
		send()
		begin := x.rig.now()
		x.receiveFor(d)
		last := begin
		longest = 0
		for _, n := range x.ownPackets(begin) {
			if n.ownFlow() == f {
				longest = max(longest, n.at.Sub(last))
				last = n.at
			}
		}
		longest = max(longest, x.rig.now().Sub(last))
	})
	return longest
}

// stopped is the body of cases about stops: it measures the usual gap, and the gap after a notice.
func (x *trial) stopped(make maker, change func(m *notice)) (f ownFlow, m *notice, gap time.Duration) {
	f, m, _ = x.target(make)
	usual := time.Hour
	for range tries {
		usual = min(usual, x.gapAfter(f, nil, 200*time.Millisecond))
	}
	x.require(usual <= stopTime/3, unclear("gaps of %v without a stop: the flow is too slow or too bursty", usual))
	if change != nil {
		change(m)
	}
	return f, m, x.gapAfter(f, m, 200*time.Millisecond)
}

// pauses is the body of a case about notices that stop the flow.
func pauses(make maker, change func(m *notice)) func(x *trial) outcome {
	return func(x *trial) outcome {
		f, _, gap := x.stopped(make, change)
		x.require(gap >= stopTime/2, failed(nil, fmt.Sprintf("no packet for %v", stopTime), "no gap above %v", gap))
		x.require(x.goesOn(f), errFlowEnded)
		return passed("no packet for %v", gap)
	}
}

// flows is the body of a case about notices that stop nothing, before one that does.
func flows(make maker, change func(m *notice)) func(x *trial) outcome {
	return func(x *trial) outcome {
		f, m, o := x.keepsFlowing(make, change)
		if o.verdict == pass && x.gapAfter(f, make(x, m.about), 200*time.Millisecond) < stopTime/2 {
			return unclear("a valid stop does not stop the flow either")
		}
		return o
	}
}

// keepsFlowing is an outcome that passes if a notice does not stop the flow each time.
func (x *trial) keepsFlowing(make maker, change func(m *notice)) (f ownFlow, m *notice, o outcome) {
	f, m, gap := x.stopped(make, change)
	for range tries - 1 {
		if gap >= stopTime/2 {
			gap = x.gapAfter(f, m, 200*time.Millisecond)
		}
	}
	if gap >= stopTime/2 {
		return f, m, failed(nil, x.c.expected, "no packet for %v", gap)
	}
	return f, m, passed("no gap above %v", gap)
}

// flowsWhenOff: a stop does not stop the flow of a device that is off.
func flowsWhenOff(x *trial) outcome {
	f, m, o := x.keepsFlowing(stopOf, nil)
	return x.whenEnabled(o, func() bool {
		return x.gapAfter(f, m, 200*time.Millisecond) >= stopTime/2 && x.goesOn(f)
	})
}

// lasts: a stop of a third of the usual time gives a shorter gap.
func lasts(x *trial) outcome {
	f, m, gap := x.stopped(stopOf, nil)
	for range tries - 1 {
		if gap > stopTime*2 { // late for another reason
			gap = x.gapAfter(f, m, 300*time.Millisecond)
		}
	}
	x.require(gap >= stopTime*8/10 && gap <= stopTime*2,
		failed(nil, fmt.Sprintf("no packet for %v", stopTime), "no packet for %v", gap))
	return passed("no packet for %v", gap)
}

func ends(x *trial) outcome {
	f, _, gap := x.stopped(stopOf, nil)
	x.require(gap >= stopTime/2, unclear("the flow does not stop"))
	if rates, _ := x.measure(200 * time.Millisecond); rates[f] == 0 {
		return failed(nil, x.c.expected, "no packet 200 ms after a stop of %v", stopTime)
	}
	return passed("packets after a stop of %v", gap)
}

func resumesEarly(x *trial) outcome {
	f, m, gap := x.stopped(stopOf, nil)
	x.require(gap >= stopTime/2, unclear("the flow does not stop"))
	resume := *m
	resume.payload = ppfcAfterBTH(m.about.dst, 1, 1, 0)
	early := time.Hour
	for try := 0; try < tries && early > stopTime/2; try++ {
		early = x.gapAfterSending(f, 200*time.Millisecond, func() {
			x.deliver(m)
			x.wait(stopTime/6, func() bool { return false })
			x.deliver(&resume)
		})
	}
	x.require(early <= stopTime/2,
		failed(nil, fmt.Sprintf("packets soon after the resume, %v after the stop", stopTime/6),
			"no packet for %v", early))
	return passed("no gap above %v after the resume", early)
}
