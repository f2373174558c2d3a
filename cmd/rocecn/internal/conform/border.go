package conform

import (
	"net/netip"
	"slices"
	"time"
)

// borderCases are the cases of a border router. The tester is on both sides: the sender side is the domain.
func borderCases() []testCase {
	on, v4 := []string{"ipv6"}, []string{"ipv4"}
	out := []string{"sender", "receiver"}
	in := []string{"receiver", "sender"}
	return []testCase{
		{"F39.1", must, "FAST 5", "Fast CNPs that come in are dropped", on, nil, blocks(in, 0, plainTunnel)},
		{"F40.1", must, "FAST 5", "Fast CNPs that go out are dropped", on, nil, blocks(out, 0, plainTunnel)},
		{"F39.2", must, "FAST 5", "Fast CNPs with option 2 that come in are dropped", on, []string{"F44"},
			blocks(in, 1, plainTunnel)},
		{"F39.3", must, "FAST 5", "Fast CNPs in IPv6 in IPv6 that come in are dropped", on, nil, blocks(in, 0,
			ipTunnel)},
		{"F40.3", must, "FAST 5", "Fast CNPs in IPv6 in IPv6 that go out are dropped", on, nil, blocks(out, 0,
			ipTunnel)},
		{"F39.4", must, "FAST 5", "Fast CNPs in VXLAN that come in are dropped", on, nil, blocks(in, 0, vxlanTunnel)},
		{"F40.4", must, "FAST 5", "Fast CNPs in GRE that go out are dropped", on, nil, blocks(out, 0, greTunnel)},
		{"F39.5", must, "FAST 5, RFC 7112", "first fragments without all headers are dropped", on, nil,
			blocks(in, 2, plainTunnel)},
		{"P40.1", must, "PROXY 6", "proxy messages that come in are dropped", on, nil, blocks(in, 3, plainTunnel)},
		{"P41.1", must, "PROXY 6", "proxy messages that go out are dropped", on, nil, blocks(out, 3, plainTunnel)},
		{"P40.2", must, "PROXY 6", "proxy messages over IPv4 that come in are dropped", v4, nil,
			blocksFamily(false, in, 3, plainTunnel)},
		{"P41.2", must, "PROXY 6", "proxy messages over IPv4 that go out are dropped", v4, nil,
			blocksFamily(false, out, 3, plainTunnel)},
		{"W37.1", should, "FCN 6", "FCNs that come in are dropped", on, nil, blocks(in, 4, plainTunnel)},
		{"W37.2", should, "FCN 6", "FCNs that go out are dropped", on, nil, blocks(out, 4, plainTunnel)},
		{"F03.1", must, "FAST 3", "data and CNPs cross unchanged", nil, []string{"F02"}, crosses(true)},
		{"F43.1", should, "FAST 5, RFC 9098", "data with other IPv6 options crosses", nil, nil, crosses(false)},
		{"F42.1", must, "FAST 5, PROXY 6", "a border that is not enabled drops nothing", []string{"!ipv6", "!ipv4"},
			[]string{"F41", "P42", "P43"}, borderOff},
	}
}

// The tunnels of borderCases.
func plainTunnel(_, _ netip.Addr, ip []byte) []byte { return ip }
func ipTunnel(a, b netip.Addr, ip []byte) []byte    { return wrapIP(a, b, 0, 0, ip) }
func vxlanTunnel(a, b netip.Addr, ip []byte) []byte { return wrapVXLAN(a, b, 0, 0, portVXLAN, ip) }
func greTunnel(a, b netip.Addr, ip []byte) []byte   { return wrapGRE(a, b, 0, 0, ip) }

// borderPacket returns a packet of a sort: Fast CNP with option 1 or 2, first fragment, proxy message, FCN.
func (x *trial) borderPacket(sort int, src, dst netip.Addr) []byte {
	c := &x.profile.CodePoints
	f := flow{src: src, dst: dst, opcode: opcodeCNP, destQP: x.queuePair(1), payload: make([]byte, 16)}
	switch sort {
	case 0:
		f.options = fastCNPOption1(c.optionType(1), dst)
	case 1:
		trace := traceOption(123, 0, [8]byte{64, 0, 0, 1, 0, 0, 0, 9})
		data := append(append([]byte{}, trace[4:4+int(trace[3])]...), dst.AsSlice()...)
		f.options = append([]byte{1, 0, c.optionType(2), uint8(len(data))}, data...)
		for (len(f.options)+2)%8 != 0 {
			f.options = append(f.options, 0)
		}
	case 2:
		f.options = fastCNPOption1(c.optionType(1), dst)
		ip := f.appendIP(nil)
		header := []byte{protocolOptions, 0, 0, 1, 0, 0, 0, 7}
		return insertHeader(ip[:ipv6Size+16], protocolFragment, header)
	case 3:
		m := proxyMessage{src: src, dst: dst, port: c.ProxyPort, flow: f, level: 3 << 21}
		return m.appendIP()
	default:
		m := fcnMessage{src: src, dst: dst, port: c.FCNPort, label: 0x12345, level: 3}
		return m.appendIP()
	}
	return f.appendIP(nil)
}

// ends returns the addresses of a packet from one side to another.
func (x *trial) ends(v6 bool, sides []string) (src, dst netip.Addr, port int, ok bool) {
	a, okA := pick(x.profile.Hosts.Sender, v6)
	b, okB := pick(x.profile.Hosts.Receiver, v6)
	if sides[0] == "receiver" {
		a, b = b, a
	}
	if !okA || !okB {
		return src, dst, 0, false
	}
	return host(a, 0), host(b, 0), x.portOf(sides[0]), true
}

// blocks returns the body of a case: packets of a sort over IPv6 must not cross, and data before and after them must.
func blocks(sides []string, sort int, tunnel func(a, b netip.Addr, ip []byte) []byte) func(x *trial) outcome {
	return blocksFamily(true, sides, sort, tunnel)
}

// blocksFamily returns the body of a case: packets of a sort, over IPv6 or IPv4, must not cross, and data before and
// after them must.
func blocksFamily(v6 bool, sides []string, sort int, tunnel func(a, b netip.Addr, ip []byte) []byte,
) func(x *trial) outcome {
	return func(x *trial) outcome {
		src, dst, port, ok := x.ends(v6, sides)
		x.require(ok, inapplicable("hosts has no prefixes of the family that the case needs"))
		return x.checkBlocked(src, dst, port, tunnel(src, dst, x.borderPacket(sort, src, dst)))
	}
}

// checkBlocked is an outcome that passes if a packet that is sent several times never crosses, while data crosses
// before and after it.
func (x *trial) checkBlocked(src, dst netip.Addr, port int, ip []byte) outcome {
	const count = 5
	data := flow{src: src, dst: dst, class: ect0, opcode: 0x04, destQP: x.queuePair(9), payload: make([]byte, 64)}
	if !x.crossOnce(port, data) {
		return unclear("data does not cross")
	}
	before := len(x.received)
	for range count {
		x.transmit(port, ip)
		x.wait(5*time.Millisecond, func() bool { return false })
	}
	x.settle()
	for _, n := range x.received[before:] {
		if x.isForwarded(n) && n.innermost().destinationQP() != data.destQP {
			return failed(n, x.c.expected, "it crossed to %v", n.dst)
		}
	}
	if !x.crossOnce(port, data) {
		return unclear("data no longer crosses")
	}
	return passed("none of %d crossed, and data did", count)
}

// destinationQP returns the queue pair of a RoCEv2 packet, or 0.
func (p *packet) destinationQP() uint32 {
	if p.bth == nil {
		return 0
	}
	return p.destQP()
}

// crossOnce sends data until a packet of it has crossed.
func (x *trial) crossOnce(port int, data flow) bool {
	before := len(x.received)
	crossed := func() bool {
		for _, n := range x.received[before:] {
			if n.destinationQP() == data.destQP && n.kind != kindFastCNP && x.isForwarded(n) {
				return true
			}
		}
		return false
	}
	for range 10 {
		data.psn++
		x.transmit(port, data.appendIP(nil))
		if x.wait(x.profile.Time.Settle/4, crossed) {
			return true
		}
	}
	return false
}

// crosses is the body of cases about packets that have to cross in both directions.
func crosses(usual bool) func(x *trial) outcome {
	return func(x *trial) outcome {
		for _, sides := range [][]string{{"sender", "receiver"}, {"receiver", "sender"}} {
			src, dst, port, ok := x.ends(true, sides)
			x.require(ok, inapplicable("hosts has no IPv6 prefixes"))
			data := flow{src: src, dst: dst, class: ect0, opcode: 0x04, destQP: x.queuePair(1), payload: make([]byte,
				64)}
			cnp := flow{src: src, dst: dst, opcode: opcodeCNP, destQP: x.queuePair(2), payload: make([]byte, 16)}
			list := []flow{data, cnp}
			if !usual {
				data.options = []byte{0x1E, 4, 0, 0, 0, 0} // an experimental type that hosts skip (RFC 4727)
				list = []flow{data}
			}
			for _, f := range list {
				x.require(x.crossOnce(port, f),
					failed(nil, x.c.expected, "opcode 0x%02x does not cross from the %s side", f.opcode,
						sides[0]))
			}
		}
		return passed("in both directions")
	}
}

// borderOff: messages of each sort cross in both directions.
func borderOff(x *trial) outcome {
	for _, sides := range [][]string{{"sender", "receiver"}, {"receiver", "sender"}} {
		src, dst, port, ok := x.ends(true, sides)
		x.require(ok, inapplicable("hosts has no IPv6 prefixes"))
		for _, sort := range []int{0, 1, 3, 4} {
			before := len(x.received)
			x.transmit(port, x.borderPacket(sort, src, dst))
			crossed := func() bool { return slices.ContainsFunc(x.received[before:], x.isForwarded) }
			x.require(x.wait(x.profile.Time.Settle, crossed),
				failed(nil, x.c.expected, "message %d does not cross from the %s side", sort, sides[0]))
		}
	}
	return x.whenEnabled(passed("in both directions"), func() bool {
		src, dst, port, _ := x.ends(true, []string{"receiver", "sender"})
		return x.checkBlocked(src, dst, port, x.borderPacket(0, src, dst)).verdict == pass
	})
}
