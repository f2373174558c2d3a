package conform

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"time"
)

// proxyCases are the cases of a proxy. The tester is the congested node, the sender and the receiver.
func proxyCases() []testCase {
	v6, v4 := []string{"proxy", "ipv6"}, []string{"proxy", "ipv4"}
	cnp := func(c check) func(x *trial) outcome { return translated(true, c) }
	return []testCase{
		{"P01.1", must, "PROXY 1", "a message of a congested node is answered by a notification to the sender", v6,
			[]string{"P06", "P11"}, notifiesSender},
		{"P08.1", must, "PROXY 1", "the CNP names the sender's queue pair, learned from connection management", v6, nil,
			cnp(checkSenderQP)},
		{"P08.2", must, "PROXY 1", "the sender's queue pair is also learned from data and acknowledgements", v6, nil,
			learnsFromData},
		{"P08.3", must, "PROXY 1", "a message about an unknown flow is not answered", v6, nil,
			ignoresMessage(true, func(x *trial, m *proxyMessage) { m.flow.destQP ^= 0x400000 })},
		{"P08.4", must, "PROXY 1", "a message about an unknown IPv4 flow is not answered", v4, nil,
			ignoresMessage(false, func(x *trial, m *proxyMessage) { m.flow.destQP ^= 0x400000 })},
		{"P12.1", must, "PROXY 4", "a message to another UDP port is not answered", v6, nil,
			ignoresMessage(true, func(x *trial, m *proxyMessage) { m.port += 100 })},
		{"P14.1", must, "PROXY 4, RFC 768", "a message with a wrong UDP checksum is not answered", v6, nil,
			ignoresMessage(true, func(x *trial, m *proxyMessage) { m.badChecksum = true })},
		{"P16.1", should, "PROXY 4", "a five-tuple that differs from the congested packet is not answered", v6,
			nil,
			ignoresMessage(true, func(x *trial, m *proxyMessage) { m.tuplePort = 7 })},
		{"P19.1", must, "PROXY 4", "the notification goes to the source of the five-tuple", v6, nil,
			cnp(checkDestination)},
		{"P19.2", must, "PROXY 4", "the notification leaves on the side of the sender", v6, nil,
			cnp(checkSide("sender"))},
		{"P20.1", must, "PROXY 4", "of two flows between the same hosts, the CNP is about that of the congested packet",
			v6,
			nil, ofTwoFlows},
		{"P21.1", must, "PROXY 4", "messages of each level, and with reserved bits set, are answered", v6, nil,
			eachLevel},
		{"P23.1", must, "PROXY 4 figure 5", "after messages with a truncated congested packet, others are answered", v6,
			nil,
			ignoresMessage(true, func(x *trial, m *proxyMessage) { m.keep = 1 })},
		{"P37.1", must, "PROXY 6", "a message of a node outside the domain is not answered", v6, nil,
			ignoresMessage(true, func(x *trial, m *proxyMessage) { m.src = x.stranger(true) })},
		{"P38.1", should, "PROXY 6", "the interval between two CNPs of a flow is kept", v6, nil,
			func(x *trial) outcome {
				x.require(x.profile.Device.Limits.PerFlow > 0, inapplicable("device.limits has no per_flow"))
				return floodMessages(x, func(all []*stream, d time.Duration, sent int) outcome {
					return x.checkPace(kindCNP, all, d, sent/2)
				})
			}},
		{"P39.1", should, "PROXY 6", "the rate of all CNPs is limited, also if messages flood", v6, nil,
			func(x *trial) outcome {
				rate := float64(x.profile.Device.Limits.Total)
				x.require(rate > 0, inapplicable("device.limits has no total"))
				return floodMessages(x, func(all []*stream, d time.Duration, _ int) outcome {
					count := float64(len(x.about(kindCNP, all)))
					if allowed := rate*(d.Seconds()+1) + 1; count > allowed {
						return failed(nil, fmt.Sprintf("at most %.0f in %v", allowed, d), "%.0f", count)
					}
					return passed("%.0f in %v", count, d)
				})
			}},
		{"P43.1", must, "PROXY 6", "without any ability enabled, messages are not answered",
			[]string{"!proxy"}, []string{"P42"}, proxyOff},
		{"F03.1", must, "FAST 3", "data is forwarded with its octets unchanged, except ECN and hop limit", nil, nil,
			forwardsUnchanged},
		{"F07.1", must, "FAST 3 figure 2", "a CNP has a BTH and 16 octets of zero", v6, nil, cnp(checkCNPHeader)},
		{"F07.2", must, "FAST 3 figure 2", "the ICRC of a CNP is right", v6, nil, cnp(checkICRC)},
		{"F07.3", must, "FAST 3 figure 2", "a CNP is sent to UDP port 4791", v6, nil, toPort4791(kindCNP,
			cnp(arrived))},
		{"B02.1", must, "IBTA A17 figure 6", "P_Key is that of the flow", v6, nil, cnp(checkPKey)},
		{"W03.1", must, "FCN 3 figure 2", "the CNP to an IPv4 sender is of IPv4 and complete", v4, nil,
			translated(false, allOf(checkCNPHeader, checkICRC, checkSenderQP, checkDestination))},
	}
}

// connect plays a connection between a sender and a receiver through the device: connection management if cm is set,
// and
// data with acknowledgements.
func (x *trial) connect(s *stream, cm bool) {
	to := x.portOf("receiver")
	back := s.flow
	back.src, back.dst, back.destQP, back.class = s.dst, s.src, s.senderQP, 0
	send := func(port int, f flow) {
		ip := f.appendIP(nil)
		if port == to && x.wrapBack != nil {
			ip = x.wrapBack(ip)
		}
		x.transmit(port, ip)
		x.wait(time.Millisecond, func() bool { return false })
	}
	if cm {
		id := s.senderQP
		req := make([]byte, 232)
		binary.BigEndian.PutUint32(req, id)
		put24(req[32:], s.senderQP)
		put24(req[44:], 900)
		binary.BigEndian.PutUint16(req[48:], s.pKey)
		req[50] = 3 << 4
		copy(req[56:], gid(s.src))
		copy(req[72:], gid(s.dst))
		rep := make([]byte, 232)
		binary.BigEndian.PutUint32(rep, id+1)
		binary.BigEndian.PutUint32(rep[4:], id)
		put24(rep[12:], s.destQP)
		put24(rep[20:], s.psn)
		rtu := make([]byte, 232)
		binary.BigEndian.PutUint32(rtu, id)
		binary.BigEndian.PutUint32(rtu[4:], id+1)
		send(s.port, management(s.flow, 0x10, req))
		send(to, management(back, 0x13, rep))
		send(s.port, management(s.flow, 0x14, rtu))
	}
	for n := range uint32(12) {
		data, ack := s.flow, back
		data.psn, data.ackRequest = s.psn+n, true
		ack.opcode, ack.headers, ack.payload = 0x11, []byte{0x1F, 0, 0, uint8(n + 1)}, nil
		ack.psn = data.psn
		send(s.port, data)
		send(to, ack)
	}
	s.count += 12
	x.wait(50*time.Millisecond, func() bool { return false })
}

func put24(b []byte, n uint32) { b[0], b[1], b[2] = uint8(n>>16), uint8(n>>8), uint8(n) }

// gid returns an address as a GID.
func gid(a netip.Addr) []byte { b := a.As16(); return b[:] }

// management returns a message of connection management in the direction of a flow.
func management(f flow, attribute uint8, message []byte) flow {
	mad := append([]byte{1, 7, 2, 3}, make([]byte, 20)...)
	mad[17] = attribute
	copy(mad[8:16], message[:8]) // a transaction id
	return flow{src: f.src, dst: f.dst, srcPort: f.srcPort, opcode: 0x64, pKey: f.pKey, destQP: 1, class: f.class,
		headers: []byte{0x80, 1, 0, 0, 0, 0, 0, 1}, payload: append(mad, message...)}
}

// connected plays connections of flows through the device, to which a node can send messages.
func (x *trial) connected(v6 bool, count int, cm bool) []*stream {
	all := x.connections(v6, count)
	x.require(len(all) > 0 && x.message(all[0]).src.IsValid(), errNoNotifier)
	for _, s := range all {
		x.connect(s, cm)
	}
	return all
}

// connections returns flows between a sender and a receiver, with the queue pairs of both ends.
func (x *trial) connections(v6 bool, count int) (all []*stream) {
	from, okFrom := pick(x.profile.Hosts.Sender, v6)
	to, okTo := pick(x.profile.Hosts.Receiver, v6)
	if !okFrom || !okTo {
		return nil
	}
	for n := range count {
		all = append(all, &stream{port: x.portOf("sender"), senderQP: x.queuePair(128 + n), flow: flow{
			src: host(from, 0), dst: host(to, 0), class: ect0, opcode: 0x04, pKey: 0x8001,
			psn: uint32(x.number*5000 + n*1000), payload: bytes.Repeat([]byte{0x5A}, 256),
		}})
	}
	number(x, all)
	return all
}

// A proxyMessage is a message of the tester to the proxy.
type proxyMessage struct {
	src, dst    netip.Addr
	port        uint16
	flow        flow
	tuplePort   uint16 // UDP source port in the five-tuple; 0: that of the flow
	level       uint32 // with reserved bits
	keep        int    // octets of the congested packet; 0: as many as fit
	badChecksum bool
}

// appendIP appends the message as an IP packet.
func (m *proxyMessage) appendIP() []byte {
	data := append(append(m.flow.src.AsSlice(), m.flow.dst.AsSlice()...), protocolUDP)
	port := m.flow.srcPort
	if m.tuplePort != 0 {
		port = m.tuplePort
	}
	data = binary.BigEndian.AppendUint16(data, port)
	data = binary.BigEndian.AppendUint16(data, portRoCE)
	data = append(data, uint8(m.level>>16), uint8(m.level>>8), uint8(m.level))
	packet := m.flow.appendIP(nil)
	if m.keep > 0 {
		packet = packet[:m.keep]
	}
	ip := appendDatagram(nil, m.src, m.dst, 48<<2, 0, 49200, m.port, append(data, packet...))
	if m.badChecksum {
		at := ipv6Size
		if m.src.Is4() {
			at = ipv4Size
		}
		ip[at+6] ^= 0x11
	}
	return ip
}

// notifier returns the address of the node that the device accepts messages from, and that of the device.
func (s *suite) notifier(v6 bool) (node, device netip.Addr) {
	for _, i := range []int{s.portOf("control"), s.portOf("receiver"), 0} {
		if i >= 0 && !node.IsValid() {
			if a := s.profile.Ports[i].Address; a.IsValid() && a.Is6() == v6 {
				node = a
			}
		}
	}
	for _, a := range s.profile.Device.Addresses {
		if a.Is6() == v6 && !device.IsValid() {
			device = a
		}
	}
	return node, device
}

// stranger returns an address of the tester that no access list of the device may have: a receiver.
func (s *suite) stranger(v6 bool) netip.Addr {
	prefix, _ := pick(s.profile.Hosts.Receiver, v6)
	return host(prefix, 60)
}

// message returns a message about a flow.
func (x *trial) message(s *stream) *proxyMessage {
	m := &proxyMessage{port: x.profile.CodePoints.ProxyPort, flow: s.flow, level: 3 << 21}
	m.src, m.dst = x.notifier(true)
	if !m.src.IsValid() || !m.dst.IsValid() {
		m.src, m.dst = x.notifier(false)
	}
	m.flow.psn += s.count
	m.flow.class |= ce
	return m
}

// complain sends a message, and waits for a time or until an answer about one of the flows arrives.
func (x *trial) complain(m *proxyMessage, d time.Duration, done func() bool) bool {
	x.transmit(x.portOf("control"), m.appendIP())
	return x.wait(d, done)
}

var errNoNotifier = inapplicable("hosts, port.address or device.addresses have no address of the family")

// translated is the body of a case: messages about a connection, and a check of each CNP.
func translated(v6 bool, c check) func(x *trial) outcome {
	return func(x *trial) outcome {
		all := x.connected(v6, 1, true)
		x.complainUntil(all, 2)
		return x.checkAll(kindCNP, all, c)
	}
}

// complainUntil sends messages about the first of the flows until some CNPs have arrived.
func (x *trial) complainUntil(all []*stream, count int) bool {
	done := func() bool { return len(x.about(kindCNP, all)) >= count }
	for end := x.rig.now().Add(x.profile.Time.Case / 4); x.rig.now().Before(end) && !x.isOver() && !done(); {
		x.complain(x.message(all[0]), 50*time.Millisecond, done)
	}
	return done()
}

// notifiesSender: any notification that a sender of RoCEv2 knows arrives.
func notifiesSender(x *trial) outcome {
	all := x.connected(true, 1, true)
	has := func() bool {
		return len(x.about(kindCNP, all))+len(x.about(kindFastCNP, all))+len(x.about(kindPPFC, all)) > 0
	}
	for range 10 {
		if x.complain(x.message(all[0]), x.profile.Time.Settle/4, has) {
			return passed("a notification to the sender")
		}
	}
	return failed(nil, "a CNP, Fast CNP or PPFC", "none after 10 messages")
}

func learnsFromData(x *trial) outcome {
	all := x.connected(true, 1, false)
	x.require(x.complainUntil(all, 1), failed(nil, "a CNP about a flow with 12 answered packets", "none"))
	return x.checkAll(kindCNP, all, checkSenderQP)
}

// ignoresMessage is the body of a case about messages that must not be answered, between such that are.
func ignoresMessage(v6 bool, change func(x *trial, m *proxyMessage)) func(x *trial) outcome {
	return func(x *trial) outcome {
		all := x.connected(v6, 1, true)
		x.require(x.complainUntil(all, 1), unclear("no CNP about a message that has to be answered"))
		x.settle()
		x.received = nil
		answered := func() bool { return x.ownNotification() != nil }
		for range 4 {
			m := x.message(all[0])
			change(x, m)
			x.complain(m, 20*time.Millisecond, answered)
		}
		x.settle()
		x.requireNone(x.ownNotification())
		x.require(x.complainUntil(all, 1), unclear("no CNP about the last message, which has to be answered"))
		return passed("none, and CNPs about messages before and after")
	}
}

func ofTwoFlows(x *trial) outcome {
	all := x.connected(true, 2, true)
	for _, s := range all {
		x.received = nil
		x.require(x.complainUntil([]*stream{s}, 1), unclear("no CNP arrived"))
		x.settle()
		for _, n := range x.notifications(kindCNP) {
			x.requireField(n, s, checkSenderQP)
		}
	}
	return passed("CNPs about both flows")
}

func eachLevel(x *trial) outcome {
	all := x.connected(true, 1, true)
	x.require(x.complainUntil(all, 1), unclear("no CNP arrived"))
	pause := max(50*time.Millisecond, 2*x.profile.Device.Limits.PerFlow)
	for level := range uint32(8) {
		x.wait(pause, func() bool { return false })
		before := len(x.about(kindCNP, all))
		m := x.message(all[0])
		m.level = level<<21 | 0x0AAAAA
		x.require(x.complain(m, x.profile.Time.Settle, func() bool { return len(x.about(kindCNP, all)) > before }),
			failed(nil, "a CNP about each level", "none about level %d with reserved bits set", level))
	}
	return passed("CNPs about 8 levels")
}

// floodMessages sends messages about two flows in quick succession, and judges the CNPs.
func floodMessages(x *trial, judge func(all []*stream, d time.Duration, sent int) outcome) outcome {
	all := x.connected(true, 2, true)
	x.require(x.complainUntil(all, 1), unclear("no CNP arrived"))
	x.settle()
	x.received = nil
	begin := x.rig.now()
	sent := 0
	for ; x.rig.now().Sub(begin) < x.profile.Time.Settle && !x.isOver(); sent++ {
		x.complain(x.message(all[sent%2]), x.messageGap(), func() bool { return false })
	}
	flooded := x.rig.now().Sub(begin)
	x.settle()
	return judge(all, flooded, sent)
}

// messageGap is the time between two messages of a flood: several are sent in an interval of the device.
func (x *trial) messageGap() time.Duration {
	gap := 500 * time.Microsecond
	if interval := x.profile.Device.Limits.PerFlow; interval > 0 {
		gap = min(gap, interval/10)
	}
	return gap
}

func proxyOff(x *trial) outcome {
	all := x.connected(true, 1, true)
	for range 5 {
		x.complain(x.message(all[0]), 20*time.Millisecond, func() bool { return false })
	}
	x.settle()
	x.requireNone(x.ownNotification())
	return x.whenEnabled(passed("no notification"), func() bool {
		x.connect(all[0], true)
		return x.complain(x.message(all[0]), x.profile.Time.Settle,
			func() bool { return x.ownNotification() != nil })
	})
}

// ownNotification returns the first notification that has arrived and is the device's own, or nil.
func (x *trial) ownNotification() *seen {
	i := slices.IndexFunc(x.received, func(n *seen) bool {
		return slices.Contains(anyKind, n.kind) && !x.isForwarded(n)
	})
	if i < 0 {
		return nil
	}
	return x.received[i]
}
