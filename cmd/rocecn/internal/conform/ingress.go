package conform

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"time"
)

// ingressCases are the cases of an ingress PE. The tester is the senders, the egress PE and a congested P router.
func ingressCases() []testCase {
	v6, v4 := []string{"fcn", "ipv6"}, []string{"fcn", "ipv4"}
	cnp := func(c check) func(x *trial) outcome { return relabelled(true, c) }
	outer := func(c check) func(x *trial) outcome { return encapsulated(true, nil, c) }
	copiesECN := func(v6 bool) func(x *trial) outcome {
		return encapsulated(v6, func(i int, s *stream) { s.class = uint8(i) & 3 }, checkOuterECN)
	}
	return []testCase{
		{"W10.1", must, "FCN 4.1", "flows that differ only in their queue pair have different labels", v6, nil,
			encapsulated(true, func(i int, s *stream) { s.srcPort = 50000 }, nil)},
		{"W11.1", must, "FCN 4.1", "different flows have different labels", v6, nil, outer(nil)},
		{"W11.2", should, "FCN 4.1", "labels are random: they do not count up", v6, nil, randomLabels},
		{"W12.1", must, "FCN 4.1", "a flow keeps its label", v6, nil, stableLabels},
		{"W13.1", should, "FCN 4.1", "a flow that is silent for the configured time loses its label", v6, nil,
			forgetsIdleFlows},
		{"W14.1", must, "FCN 4.1", "the outer header is of IPv6, from an address of the PE", v6, nil,
			outer(func(x *trial, n *seen, s *stream) (string, string) {
				if !n.v6 {
					return "an outer IPv6 header", "an outer IPv4 header"
				}
				return checkSource(x, n, s)
			})},
		{"W15.1", must, "FCN 4.1", "the outer destination is the egress, the same for all packets of a flow", v6, nil,
			oneEgress},
		{"W16.1", must, "FCN 4.1", "the outer flow label is not 0", v6, nil,
			outer(func(_ *trial, n *seen, _ *stream) (string, string) {
				if n.label == 0 {
					return "a label above 0", "label 0"
				}
				return "", ""
			})},
		{"W17.1", must, "FCN 4.1", "the inner flow label is unchanged", v6, nil,
			encapsulated(true, func(i int, s *stream) { s.label = 0x54320 + uint32(i) },
				func(_ *trial, n *seen, s *stream) (string, string) {
					return same("inner flow label", s.label, n.innermost().label)
				})},
		{"W18.1", must, "FCN 4.1", "the outer ECN field is the inner one", v6, nil,
			copiesECN(true)},
		{"W18.2", must, "FCN 4.1", "the outer ECN field is that of an inner IPv4 packet", v4, nil, copiesECN(false)},
		{"W19.1", must, "FCN 4.1", "the inner packet is unchanged, except hop limit", v6, nil, outer(checkInner)},
		{"W19.2", must, "FCN 4.1", "the inner IPv4 packet is unchanged, except TTL and header checksum", v4, nil,
			encapsulated(false, nil, checkInner)},
		{"W28.1", must, "FCN 4.1", "an FCN about a flow is answered by a CNP on the side of the sender", v6,
			[]string{"W07"}, relabels},
		{"W08.1", must, "FCN 4.1", "the queue pair is learned while the connection is set up", v6, nil,
			cnp(checkSenderQP)},
		{"W26.1", must, "FCN 4.1", "of two flows, the CNP is about that of the label", v6, nil, ofTwoLabels},
		{"W26.2", must, "FCN 4.1", "an FCN with an unknown label is not answered", v6, nil,
			ignoresFCN(func(x *trial, m *fcnMessage) { m.label ^= 0x5A5A5 })},
		{"W24.1", must, "FCN 4.1", "a PE that is congested itself sends a CNP to the sender, without any FCN", v6, nil,
			notifiesItself},
		{"W27.1", must, "FCN 4.1", "the source of the CNP is an address of the PE", v6, nil, cnp(checkSource)},
		{"W27.2", must, "FCN 4.1", "the destination of the CNP is the sender of the flow", v6, nil,
			cnp(checkDestination)},
		{"W25.1", must, "FCN 4.1", "FCNs of each level are answered", v6, []string{"W23", "W34"}, eachFCNLevel},
		{"W30.1", must, "FCN 4.2", "an FCN to another UDP port is not answered", v6, nil,
			ignoresFCN(func(x *trial, m *fcnMessage) { m.port += 100 })},
		{"W31.1", must, "FCN 4.2", "an FCN of another length than 12 is not answered", v6, nil,
			ignoresFCN(func(x *trial, m *fcnMessage) { m.more = 4 })},
		{"W35.1", must, "FCN 4.2", "reserved bits are ignored on receipt", v6, nil, ignoresReserved},
		{"P14.1", must, "RFC 768", "an FCN with a wrong UDP checksum is not answered", v6, nil,
			ignoresFCN(func(x *trial, m *fcnMessage) { m.badChecksum = true })},
		{"W37.1", must, "FCN 6", "an FCN of a node outside the domain is not answered", v6, nil,
			ignoresFCN(func(x *trial, m *fcnMessage) { m.src = x.stranger(true) })},
		{"W38.1", should, "FCN 6", "the interval between two CNPs of a flow is kept", v6, nil, fcnPace},
		{"W40.1", must, "FCN 6", "without any ability enabled, FCNs are not answered", []string{"!fcn"},
			[]string{"W39"}, ingressOff},
		{"F07.1", must, "FAST 3 figure 2", "a CNP has a BTH and 16 octets of zero", v6, nil, cnp(checkCNPHeader)},
		{"F07.2", must, "FAST 3 figure 2", "the ICRC of a CNP is right", v6, nil, cnp(checkICRC)},
		{"F07.3", must, "FAST 3 figure 2", "a CNP is sent to UDP port 4791", v6, nil, toPort4791(kindCNP,
			cnp(arrived))},
		{"B02.1", must, "IBTA A17 figure 6", "P_Key is that of the flow", v6, nil, cnp(checkPKey)},
		{"W03.1", must, "FCN 3 figure 2", "the CNP to an IPv4 sender is of IPv4 and complete", v4, nil,
			relabelled(false, allOf(checkCNPHeader, checkICRC, checkSenderQP, checkDestination))},
	}
}

// outers returns the packets of a stream in tunnels that have arrived at the receiver port.
func (x *trial) outers(s *stream) (all []*seen) {
	for _, n := range x.received {
		if inner := n.innermost(); n.inner != nil && inner.bth != nil && inner.src == s.src && inner.dst == s.dst &&
			inner.destQP() == s.destQP {
			all = append(all, n)
		}
	}
	return all
}

// offerTunnels sends flows until some packets of each have arrived in a tunnel, and requires that.
func (x *trial) offerTunnels(all []*stream, count int) {
	x.require(len(all) > 0, errNoNotifier)
	x.offer(all, dataRate, x.profile.Time.Case/4, func() bool { return x.inTunnels(all) >= count })
	x.require(x.inTunnels(all) >= count,
		unclear("%d of %d packets of a flow arrived in a tunnel", x.inTunnels(all), count))
}

// inTunnels returns the lowest number of packets of one of the streams that have arrived in tunnels.
func (x *trial) inTunnels(all []*stream) int {
	least := len(x.outers(all[0]))
	for _, s := range all[1:] {
		least = min(least, len(x.outers(s)))
	}
	return least
}

// encapsulated is the body of a case about the packets in the tunnel. The labels of flows must differ.
func encapsulated(v6 bool, change func(i int, s *stream), c check) func(x *trial) outcome {
	return func(x *trial) outcome {
		all := x.connections(v6, 4)
		for i, s := range all {
			if change != nil {
				change(i, s)
			}
		}
		x.offerTunnels(all, 3)
		labels := map[uint32]*stream{}
		for _, s := range all {
			for _, n := range x.outers(s) {
				if c != nil {
					x.requireField(n, s, c)
					continue
				}
				if other := labels[n.label]; n.label != 0 && other != nil && other != s {
					return x.fieldFailed(n, s, x.c.expected, fmt.Sprintf("label 0x%05x for two flows", n.label))
				}
				labels[n.label] = s
			}
		}
		return passed("%d flows in tunnels", len(all))
	}
}

func checkOuterECN(_ *trial, n *seen, s *stream) (string, string) {
	if e, g := same("inner ECN", s.class&3, n.innermost().ecn()); e != "" {
		return e, g
	}
	return same("outer ECN", s.class&3, n.ecn())
}

func checkInner(x *trial, n *seen, _ *stream) (string, string) {
	inner := n.innermost()
	switch {
	case !x.isForwarded(n) || inner.icrc != inner.computeICRC(asSent):
		return "the octets from the UDP header on as sent", "other octets, or a wrong ICRC"
	case !inner.v6 && headerSum(inner.ip) != 0:
		return "the checksum of the inner IPv4 header", "a wrong one"
	}
	return "", ""
}

func randomLabels(x *trial) outcome {
	all := x.connections(true, 8)
	x.offerTunnels(all, 1)
	var labels []uint32
	for _, s := range all {
		labels = append(labels, x.outers(s)[0].label)
	}
	for i := 2; i < len(labels); i++ {
		if labels[i]-labels[i-1] != labels[1]-labels[0] {
			return passed("labels %x", labels)
		}
	}
	return failed(nil, "labels without a pattern", "labels %x", labels)
}

func stableLabels(x *trial) outcome {
	all := x.connections(true, 4)
	x.offerTunnels(all, 20)
	for _, s := range all {
		list := x.outers(s)
		for _, n := range list {
			if e, g := same("label", fmt.Sprintf("0x%05x", list[0].label), fmt.Sprintf("0x%05x", n.label)); e != "" {
				return x.fieldFailed(n, s, e, g)
			}
		}
	}
	return passed("%d flows with a label each", len(all))
}

func oneEgress(x *trial) outcome {
	all := x.connections(true, 4)
	x.offerTunnels(all, 5)
	for _, s := range all {
		list := x.outers(s)
		for _, n := range list {
			if n.dst != list[0].dst || slices.Contains(x.profile.Device.Addresses, n.dst) {
				return x.fieldFailed(n, s, fmt.Sprintf("outer destination %v", list[0].dst),
					fmt.Sprintf("outer destination %v", n.dst))
			}
		}
	}
	return passed("%d flows", len(all))
}

// An fcnMessage is an FCN of the tester.
type fcnMessage struct {
	src, dst    netip.Addr
	port        uint16
	label       uint32
	level       uint8
	reserved    uint16 // 9 bits
	more        int    // further octets
	badChecksum bool
}

func (m *fcnMessage) appendIP() []byte {
	data := binary.BigEndian.AppendUint32(nil, m.label<<12|uint32(m.level)<<9|uint32(m.reserved))
	ip := appendDatagram(nil, m.src, m.dst, 48<<2, 0, 49201, m.port, append(data, make([]byte, m.more)...))
	if m.badChecksum {
		ip[ipv6Size+6] ^= 0x11
	}
	return ip
}

// open plays a connection through the PE, and returns the FCN about it.
func (x *trial) open(s *stream) *fcnMessage {
	x.offerTunnels([]*stream{s}, 1)
	n := x.outers(s)[0]
	x.wrapBack = func(ip []byte) []byte { return wrapLike(n, ip) }
	x.connect(s, true)
	node, _ := x.notifier(true)
	x.require(node.IsValid(), errNoNotifier)
	return &fcnMessage{src: node, dst: n.src, port: x.profile.CodePoints.FCNPort, label: n.label, level: 3}
}

// openOne opens the tunnel of a single connection, which it returns as a list, with an FCN about it.
func (x *trial) openOne(v6 bool) (all []*stream, m *fcnMessage) {
	all = x.connections(v6, 1)
	x.require(len(all) > 0, errNoNotifier)
	return all, x.open(all[0])
}

// wrapLike puts a packet into the tunnel of a captured one, in the other direction. Segments of SRv6 are left out.
func wrapLike(n *seen, ip []byte) []byte {
	if n.protocol == protocolUDP {
		return wrapVXLAN(n.dst, n.src, 0, n.label, n.dstPort, ip)
	}
	return wrapIP(n.dst, n.src, 0, n.label, ip)
}

// notifyUntil sends FCNs until some CNPs about the flows have arrived.
func (x *trial) notifyUntil(m *fcnMessage, all []*stream, count int) bool {
	done := func() bool { return len(x.about(kindCNP, all)) >= count }
	for end := x.rig.now().Add(x.profile.Time.Case / 4); x.rig.now().Before(end) && !x.isOver() && !done(); {
		x.transmit(x.portOf("control"), m.appendIP())
		x.wait(50*time.Millisecond, done)
	}
	return done()
}

// relabelled is the body of a case about the CNPs that FCNs cause.
func relabelled(v6 bool, c check) func(x *trial) outcome {
	return func(x *trial) outcome {
		all, m := x.openOne(v6)
		x.notifyUntil(m, all, 2)
		return x.checkAll(kindCNP, all, c)
	}
}

func relabels(x *trial) outcome {
	all, m := x.openOne(true)
	x.require(x.notifyUntil(m, all, 1),
		failed(nil, "a CNP to the sender", "none after several FCNs about label 0x%05x", m.label))
	return x.checkAll(kindCNP, all, checkSide("sender"))
}

func ofTwoLabels(x *trial) outcome {
	all := x.connections(true, 2)
	for _, s := range all {
		m := x.open(s)
		x.received = nil
		x.require(x.notifyUntil(m, []*stream{s}, 1), unclear("no CNP arrived"))
		x.settle()
		for _, n := range x.notifications(kindCNP) {
			x.requireField(n, s, checkSenderQP)
		}
	}
	x.require(len(all) > 0, errNoNotifier)
	return passed("CNPs about both flows")
}

// ignoresFCN is the body of a case about FCNs that must not be answered, between such that are.
func ignoresFCN(change func(x *trial, m *fcnMessage)) func(x *trial) outcome {
	return func(x *trial) outcome {
		all, m := x.openOne(true)
		x.require(x.notifyUntil(m, all, 1), unclear("no CNP about an FCN that has to be answered"))
		x.settle()
		x.received = nil
		wrong := *m
		change(x, &wrong)
		for range 4 {
			x.transmit(x.portOf("control"), wrong.appendIP())
			x.wait(20*time.Millisecond, func() bool { return len(x.notifications(kindCNP)) > 0 })
		}
		x.settle()
		x.requireNone(x.notifications(kindCNP)...)
		x.require(x.notifyUntil(m, all, 1), unclear("no CNP about the last FCN, which has to be answered"))
		return passed("none, and CNPs about FCNs before and after")
	}
}

// answersEach requires a CNP for each of several FCNs.
func (x *trial) answersEach(messages func(m *fcnMessage) []fcnMessage) outcome {
	all, m := x.openOne(true)
	x.require(x.notifyUntil(m, all, 1), unclear("no CNP arrived"))
	list := messages(m)
	for i := range list {
		x.wait(max(50*time.Millisecond, 2*x.profile.Device.Limits.PerFlow), func() bool { return false })
		before := len(x.about(kindCNP, all))
		x.transmit(x.portOf("control"), list[i].appendIP())
		x.require(x.wait(x.profile.Time.Settle, func() bool { return len(x.about(kindCNP, all)) > before }),
			failed(nil, x.c.expected, "no CNP about level %d, reserved bits 0x%03x", list[i].level,
				list[i].reserved))
	}
	return passed("CNPs about %d FCNs", len(list))
}

func eachFCNLevel(x *trial) outcome {
	return x.answersEach(func(m *fcnMessage) (list []fcnMessage) {
		for level := range uint8(8) {
			next := *m
			next.level = level
			list = append(list, next)
		}
		return list
	})
}

func ignoresReserved(x *trial) outcome {
	return x.answersEach(func(m *fcnMessage) []fcnMessage {
		first, second := *m, *m
		first.reserved, second.reserved = 0x1FF, 0x0A5
		return []fcnMessage{first, second}
	})
}

func fcnPace(x *trial) outcome {
	x.require(x.profile.Device.Limits.PerFlow > 0, inapplicable("device.limits has no per_flow"))
	all, m := x.openOne(true)
	x.require(x.notifyUntil(m, all, 1), unclear("no CNP arrived"))
	x.settle()
	x.received = nil
	begin := x.rig.now()
	sent := 0
	for ; x.rig.now().Sub(begin) < x.profile.Time.Settle && !x.isOver(); sent++ {
		x.transmit(x.portOf("control"), m.appendIP())
		x.wait(x.messageGap(), func() bool { return false })
	}
	flooded := x.rig.now().Sub(begin)
	x.settle()
	return x.checkPace(kindCNP, all, flooded, sent)
}

// ingressOff sends FCNs with many labels to a device that must be off.
func ingressOff(x *trial) outcome {
	all := x.connections(true, 1)
	node, device := x.notifier(true)
	x.require(len(all) > 0 && node.IsValid() && device.IsValid(), errNoNotifier)
	x.connect(all[0], true)
	for i := range uint32(16) {
		m := &fcnMessage{src: node, dst: device, port: x.profile.CodePoints.FCNPort, label: i * 0x11111 & 0xFFFFF,
			level: 3}
		for _, n := range x.outers(all[0]) {
			m.label = n.label
		}
		x.transmit(x.portOf("control"), m.appendIP())
	}
	x.settle()
	x.requireNone(x.ownNotification())
	return x.whenEnabled(passed("no notification"), func() bool {
		x.offer(all, dataRate, x.profile.Time.Case/4, func() bool { return x.inTunnels(all) > 0 })
		return x.inTunnels(all) > 0 && x.notifyUntil(x.open(all[0]), all, 1)
	})
}

// forgetsIdleFlows: an FCN with the label of a flow is answered before the flow is silent for the time of the profile,
// and not after it. Then the flow gets a label again.
func forgetsIdleFlows(x *trial) outcome {
	idle := x.profile.Device.Limits.Idle
	x.require(idle > 0, inapplicable("device.limits has no idle"))
	x.require(idle <= x.profile.Time.Case/3, inapplicable("device.limits.idle is more than a third of time.case"))
	all, m := x.openOne(true)
	x.require(x.notifyUntil(m, all, 1), unclear("no CNP arrived before the flow was silent"))
	x.receiveFor(idle + idle/4)
	x.settle()
	x.received = nil
	for range 3 {
		x.transmit(x.portOf("control"), m.appendIP())
		x.wait(20*time.Millisecond, func() bool { return false })
	}
	x.settle()
	if list := x.notifications(kindCNP); len(list) > 0 {
		return failed(list[0], x.c.expected, "a CNP about label 0x%05x after %v", m.label, idle+idle/4)
	}
	x.require(x.notifyUntil(x.open(all[0]), all, 1), unclear("no CNP about the flow after its next packets"))
	return passed("none after %v, and CNPs before, and after its next packets", idle+idle/4)
}

// notifiesItself: the PE is congested with flows, and sends CNPs although no FCN arrives.
func notifiesItself(x *trial) outcome {
	x.require(x.profile.Congestion.By != "none", inapplicable("congestion.by is \"none\""))
	all := x.connections(true, 2)
	for _, s := range all {
		x.open(s)
	}
	x.require(len(all) > 0, errNoNotifier)
	before := all[0].count + all[1].count
	x.received = nil
	if !x.congest(all, func() bool { return len(x.about(kindCNP, all)) >= 2 }) {
		x.settle()
	}
	if len(x.about(kindCNP, all)) > 0 {
		return x.checkAll(kindCNP, all, arrived) // other cases are about its fields
	}
	sent, crossed := int(all[0].count+all[1].count-before), len(x.outers(all[0]))+len(x.outers(all[1]))
	x.require(crossed < sent && crossed > 0,
		unclear("%d of %d packets crossed the device, so congestion is not certain", crossed, sent))
	return failed(nil, "a CNP to the sender", "none, and %d of %d packets lost", sent-crossed, sent)
}
