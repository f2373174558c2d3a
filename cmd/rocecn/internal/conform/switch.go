package conform

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
)

// A check compares a notification with the stream that it is about. It returns empty texts if it is right, or the
// expected and the seen value. Without an expected value, the second text is the reason for which it was not checked.
type check func(x *trial, n *seen, s *stream) (expected, got string)

// notified is the body of a case: the device is congested with streams, and each notification of a kind is checked.
func notified(k kind, streams func(x *trial) []*stream, c check) func(x *trial) outcome {
	return func(x *trial) outcome {
		all := streams(x)
		x.require(len(all) > 0, inapplicable("hosts has no prefixes of the family that the case needs"))
		x.congest(all, func() bool {
			checked := 0 // messages that have the field
			for _, n := range x.about(k, all) {
				if expected, got := c(x, n, match(n, all)); expected != "" || got == "" {
					checked++
				}
			}
			return checked >= 3
		})
		return x.checkAll(k, all, c)
	}
}

// checkAll checks the notifications of a kind that have arrived.
func (x *trial) checkAll(k kind, streams []*stream, c check) outcome {
	list := x.about(k, streams)
	x.require(len(list) > 0, unclear("no %s arrived", k))
	checked, unchecked := 0, ""
	for _, n := range list {
		s := match(n, streams)
		expected, got := c(x, n, s)
		switch {
		case expected != "":
			return x.fieldFailed(n, s, expected, got)
		case got != "":
			unchecked = got
		default:
			checked++
		}
	}
	o := passed("%d of kind %s", checked, k)
	if checked == 0 {
		o = unclear("%d of kind %s, none with the field: %s", len(list), k, unchecked)
	}
	o.frame, o.about = list[0], x.packetOf(match(list[0], streams))
	return o
}

// packetOf returns the first kept packet of a stream, or nil.
func (x *trial) packetOf(s *stream) *seen {
	i := slices.IndexFunc(x.frames, func(n *seen) bool {
		return n.sent && n.packet != nil && n.innermost().destinationQP() == s.destQP && n.innermost().src == s.src
	})
	if i < 0 {
		return nil
	}
	return x.frames[i]
}

// about returns the notifications of a kind that concern one of the streams best.
func (x *trial) about(k kind, streams []*stream) (all []*seen) {
	for _, n := range x.notifications(k) {
		if match(n, streams) != nil && !x.isStale(n) {
			all = append(all, n)
		}
	}
	return all
}

// isStale reports whether a notification is about the queue pair of another case.
func (x *trial) isStale(n *seen) bool {
	if n.bth == nil {
		return false
	}
	number := (int(n.destQP()) - 0x10000) / 256
	return n.destQP() >= 0x10000 && number != x.number && number < 250
}

// match returns the stream that a notification has most in common with, or nil.
func match(n *seen, streams []*stream) (best *stream) {
	most := 0
	for _, s := range streams {
		score := 0
		add := func(points int, same bool) {
			if same {
				score += points
			}
		}
		original := s.dst.AsSlice()
		switch n.kind {
		case kindFCN:
			add(2, n.dst == s.outerSrc)
			add(4, len(n.data) >= 3 && binary.BigEndian.Uint32(append(n.data[:3:3], 0))>>12 == s.outerLabel)
		case kindProxy:
			add(2, bytes.Contains(n.data, append(s.src.AsSlice(), original...)))
			add(3, bytes.Contains(n.data, binary.BigEndian.AppendUint32(nil, s.destQP)))
		default:
			add(2, n.dst == s.src)
			add(3, n.bth != nil && (n.destQP() == s.destQP || s.senderQP != 0 && n.destQP() == s.senderQP))
			add(1, n.srcPort == s.srcPort)
			add(1, bytes.Contains(n.upperAndExtensions(), original))
		}
		if score > most {
			best, most = s, score
		}
	}
	return best
}

// upperAndExtensions returns the octets after the fixed IP header.
func (p *packet) upperAndExtensions() []byte {
	if p.v6 {
		return p.ip[ipv6Size:]
	}
	return p.upper
}

// same returns the values of a field if they differ.
func same(name string, want, got any) (expected, seen string) {
	if fmt.Sprint(want) == fmt.Sprint(got) {
		return "", ""
	}
	return fmt.Sprintf("%s %v", name, want), fmt.Sprintf("%s %v", name, got)
}

// sameOctets returns octets with the first differing one, if they differ.
func sameOctets(name string, want, got []byte) (expected, seen string) {
	if bytes.Equal(want, got) {
		return "", ""
	}
	at := 0
	for at < min(len(want), len(got)) && want[at] == got[at] {
		at++
	}
	return fmt.Sprintf("%s %x", name, want), fmt.Sprintf("%s %x, which differs from octet %d on", name, got, at)
}

// allOf is a check by several.
func allOf(checks ...check) check {
	return func(x *trial, n *seen, s *stream) (expected, got string) {
		unchecked := ""
		for _, c := range checks {
			if expected, got = c(x, n, s); expected != "" {
				return expected, got
			}
			unchecked = cmp.Or(unchecked, got)
		}
		return "", unchecked
	}
}

// plainFlows returns two flows from each sender prefix of a family, ECN-capable.
func plainFlows(v6 bool) func(x *trial) []*stream {
	return func(x *trial) (all []*stream) {
		for _, prefix := range append(slices.Clone(x.profile.Hosts.Sender), x.profile.Hosts.Capable...) {
			if prefix.Addr().Is6() == v6 {
				all = append(all, x.flowsOf(prefix, 2)...)
			}
		}
		number(x, all)
		return all
	}
}

// flowsOf returns flows from hosts of a prefix.
func (x *trial) flowsOf(prefix netip.Prefix, count int) (all []*stream) {
	to, ok := pick(x.profile.Hosts.Receiver, prefix.Addr().Is6())
	if !ok {
		return nil
	}
	for n := range count {
		all = append(all, &stream{port: x.portOf("sender"), flow: flow{
			src: host(prefix, uint32(n%2)), dst: host(to, uint32(n%2)), class: ect0, opcode: 0x04,
			pKey:    0x8001 + uint16(n),
			payload: bytes.Repeat([]byte{0x5A}, 992),
		}})
	}
	return all
}

// number gives each stream a queue pair and a UDP source port of its own.
func number(x *trial, all []*stream) {
	for i, s := range all {
		s.destQP, s.srcPort = x.queuePair(i+1), uint16(50000+i)
	}
}

// changed returns flows of plainFlows after a change of each.
func changed(v6 bool, change func(i int, s *stream)) func(x *trial) []*stream {
	return func(x *trial) []*stream {
		all := plainFlows(v6)(x)
		for i, s := range all {
			change(i, s)
		}
		return all
	}
}

var plain = plainFlows(true)

// quiet is the body of a case about packets that must cause no notification of some kinds: the device is congested with
// them and with plain flows, about which notifications of the kind k must arrive.
func quiet(k kind, forbidden []kind, v6 bool, change func(x *trial, i int, s *stream)) func(x *trial) outcome {
	return func(x *trial) outcome {
		control := plain(x)
		silent := plainFlows(v6)(x)
		x.require(len(control) > 0 && len(silent) > 0,
			inapplicable("hosts has no prefixes of the family that the case needs"))
		all := append(control, silent...)
		number(x, all)
		for i, s := range silent {
			change(x, i, s)
		}
		return x.expectQuiet(k, forbidden, control, silent)
	}
}

// anyKind are the kinds of notifications.
var anyKind = []kind{kindCNP, kindFastCNP, kindPPFC, kindFCN, kindProxy}

// expectQuiet offers all streams until the control flows have been notified several times.
func (x *trial) expectQuiet(k kind, forbidden []kind, control, silent []*stream) outcome {
	all := append(slices.Clone(control), silent...)
	x.congest(all, func() bool { return len(x.about(k, control)) >= 4 })
	x.settle()
	wrong := func() *seen {
		for _, n := range x.received {
			if !slices.Contains(forbidden, n.kind) || x.isStale(n) || x.isForwarded(n) {
				continue
			}
			if s := match(n, all); s != nil && slices.Contains(silent, s) {
				return n
			}
		}
		return nil
	}
	if n := wrong(); n != nil {
		return failed(n, x.c.expected, "a %s to %v", n.kind, n.dst)
	}
	x.require(len(x.about(k, control)) > 0, unclear("no %s about the plain flows, so congestion is not certain", k))
	x.require(x.haveCrossed(silent), unclear("none of these packets crossed the device"))
	return passed("none, and %d about the plain flows", len(x.about(k, control)))
}

// isForwarded reports whether a packet is one of the tester's that crossed the device.
func (x *trial) isForwarded(n *seen) bool {
	_, ok := x.streamBefore(n)
	return ok
}

// streamBefore returns the stream of a packet that crossed the device, or nil if it is of none.
func (x *trial) streamBefore(n *seen) (s *stream, ok bool) {
	for port, sums := range x.sent {
		if port == n.port {
			continue
		}
		for _, p := range []*packet{n.packet, n.innermost()} {
			if s, ok := sums[checksumOf(p)]; ok {
				return s, true
			}
		}
	}
	return nil, false
}

// haveCrossed reports whether a packet of one of the streams has crossed the device.
func (x *trial) haveCrossed(streams []*stream) bool {
	return slices.ContainsFunc(x.received, func(n *seen) bool {
		s, ok := x.streamBefore(n)
		return ok && slices.Contains(streams, s)
	})
}

// fastCNP returns the only option of a Fast CNP, or an error text.
func (x *trial) fastCNP(n *seen) (option, string) {
	o := n.options(protocolOptions)
	if len(o) != 1 {
		return option{}, fmt.Sprintf("%d options in Destination Options headers", len(o))
	}
	return o[0], ""
}

// withOption is a check of a part of the Fast CNP option. Fast CNPs with several options or none, which F24 is about,
// are not checked.
func withOption(f func(x *trial, n *seen, s *stream, o option) (expected, got string)) check {
	return func(x *trial, n *seen, s *stream) (string, string) {
		o, wrong := x.fastCNP(n)
		if wrong != "" {
			return "", wrong
		}
		return f(x, n, s, o)
	}
}

func checkSource(x *trial, n *seen, s *stream) (string, string) {
	if slices.Contains(x.profile.Device.Addresses, n.src) {
		return "", ""
	}
	return fmt.Sprintf("source one of %v", x.profile.Device.Addresses), fmt.Sprintf("source %v", n.src)
}

func checkDestination(x *trial, n *seen, s *stream) (string, string) {
	return same("destination", s.src, n.dst)
}

func checkDestQP(x *trial, n *seen, s *stream) (string, string) {
	return same("destination queue pair", hex24(s.destQP), hex24(n.destQP()))
}

func hex24(n uint32) string { return fmt.Sprintf("0x%06x", n) }

func checkPKey(x *trial, n *seen, s *stream) (string, string) {
	return same("P_Key", fmt.Sprintf("0x%04x", s.pKey), fmt.Sprintf("0x%04x", n.pKey()))
}

func checkICRC(x *trial, n *seen, s *stream) (string, string) {
	want := n.computeICRC(asSent)
	switch {
	case n.icrc == want:
		return "", ""
	case n.icrc == n.computeICRC(without):
		return fmt.Sprintf("ICRC 0x%08x", want), fmt.Sprintf("ICRC 0x%08x, computed without extension headers", n.icrc)
	case n.icrc == n.computeICRC(skipped):
		return fmt.Sprintf("ICRC 0x%08x", want), fmt.Sprintf("ICRC 0x%08x, computed over no extension header", n.icrc)
	}
	return fmt.Sprintf("ICRC 0x%08x", want), fmt.Sprintf("ICRC 0x%08x", n.icrc)
}

// checkCNPHeader checks the BTH of CNPs and Fast CNPs (IBTA annex A17, figure 6) except queue pair and P_Key, and the
// 16 octets after it.
func checkCNPHeader(x *trial, n *seen, s *stream) (string, string) {
	b := n.bth
	if e, g := sameOctets("opcode, flags", []byte{0x81, 0}, b[:2]); e != "" {
		return e, g
	}
	if b[4]&^0x40 != 0 {
		return "FECN 0 and reserved bits 0", fmt.Sprintf("octet 4 of the BTH 0x%02x", b[4])
	}
	if e, g := sameOctets("A, reserved bits and PSN", []byte{0, 0, 0, 0}, b[8:12]); e != "" {
		return e, g
	}
	return sameOctets("octets between BTH and ICRC", make([]byte, 16), n.afterBTH())
}

func checkSide(side string) check {
	return func(x *trial, n *seen, s *stream) (string, string) {
		return same("arrival at the port of side", side, x.sideOf(n))
	}
}

// toPort4791 is the body of a case about the UDP port of notifications: none of the kind comes to another
// port.
func toPort4791(k kind, body func(x *trial) outcome) func(x *trial) outcome {
	return func(x *trial) outcome {
		o := x.outcomeOf(body)
		for _, n := range x.received {
			if n.kind != kindOther || len(n.data) < bthSize+icrcSize || n.data[0] != opcodeCNP ||
				!slices.Contains(x.profile.Device.Addresses, n.src) {
				continue
			}
			if (k == kindPPFC) == (n.data[4]&0x20 != 0) {
				return failed(n, "UDP destination port 4791", "UDP destination port %d", n.dstPort)
			}
		}
		return o
	}
}

// arrived is a check that all notifications pass.
func arrived(*trial, *seen, *stream) (string, string) { return "", "" }

// fastCNPAbout congests with plain flows and checks Fast CNPs.
func fastCNPAbout(c check) func(x *trial) outcome { return notified(kindFastCNP, plain, c) }

// traced returns plain flows with an IOAM trace in a Hop-by-Hop header.
func traced(namespace func(x *trial) uint16, free int) func(x *trial) []*stream {
	return func(x *trial) []*stream {
		all := plain(x)
		for i, s := range all {
			s.hopByHop = traceOption(namespace(x), free, [8]byte{63, 0, 0, uint8(i + 2), 0, 0, 1, 2},
				[8]byte{64, 0, 0, 1, 0, 0, 0, 9})
		}
		return all
	}
}

// foreignNamespace returns an IOAM namespace of traces to which the device must not add a record.
func foreignNamespace(x *trial) uint16 {
	for n := uint16(123); ; n++ {
		if !slices.Contains(x.profile.CodePoints.IOAMNamespaces, n) {
			return n
		}
	}
}

var verbatim = traced(foreignNamespace, 2)

// traceOf returns the IOAM option data that a stream carries: namespace, flags, trace type and nodes.
func traceOf(s *stream) []byte {
	return s.hopByHop[6 : 4+int(s.hopByHop[3])] // after Pad, type and length, reserved octet and IOAM type
}
