package conform

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"time"
)

// receiverCases are the cases of a receiving host. The tester is the senders of its data.
func receiverCases() []testCase {
	v6, v4 := []string{"ipv6"}, []string{"ipv4"}
	cnp := func(c check) func(x *trial) outcome { return answered(kindCNP, markedData(true), c) }
	return []testCase{
		{"F09.1", must, "FAST 3", "the receiver answers data that arrives with CE by a CNP", v6, []string{"W04"},
			repliesToMarked},
		{"F09.2", must, "FAST 3", "data with ECT(0) or ECT(1) causes no CNP", v6, nil,
			ignores(true, func(i int, s *stream) { s.class = uint8(1 + i%2) })},
		{"F09.3", must, "FAST 3", "data with Not-ECT causes no CNP", v6, nil,
			ignores(true, func(_ int, s *stream) { s.class = 0 })},
		{"F09.4", must, "FCN 3", "data over IPv4 without CE causes no CNP", v4, nil,
			ignores(false, func(i int, s *stream) { s.class = uint8(i % 3) })},
		{"F03.1", must, "FAST 3 figure 1, IBTA A17", "data with CE and a wrong ICRC causes no CNP", v6, nil,
			ignores(true, func(_ int, s *stream) { s.badICRC = true })},
		{"F03.2", must, "FCN 3, IBTA A17", "data over IPv4 with CE and a wrong ICRC causes no CNP", v4, nil,
			ignores(false, func(_ int, s *stream) { s.badICRC = true })},
		{"F06.1", must, "FAST 3", "data for a connection that the receiver does not know causes no CNP", v6,
			nil,
			ignores(true, func(_ int, s *stream) { s.opcode, s.headers, s.destQP = 0x04, nil, s.destQP|0x800000 })},
		{"F10.1", must, "FAST 3", "the CNP names the sender's queue pair", v6, nil, cnp(checkSenderQP)},
		{"F10.2", must, "FAST 3", "source and destination of the CNP are those of the data, exchanged", v6, nil,
			cnp(checkReversed)},
		{"F07.1", must, "FAST 3 figure 2", "a CNP has a BTH and 16 octets of zero", v6, nil, cnp(checkCNPHeader)},
		{"F07.2", must, "FAST 3 figure 2", "the ICRC of a CNP is right", v6, nil, cnp(checkICRC)},
		{"F07.3", must, "FAST 3 figure 2", "a CNP is sent to UDP port 4791", v6, nil, toPort4791(kindCNP,
			cnp(arrived))},
		{"F07.4", must, "FAST 3 figure 2", "a CNP of a receiver has no extension header", v6, nil,
			cnp(func(_ *trial, n *seen, _ *stream) (string, string) {
				return same("number of extension headers", 0, len(n.extensions))
			})},
		{"F21.1", may, "FAST 4", "a Fast CNP of a receiver has its own address as original destination", v6, nil,
			receiverFastCNP},
		{"F42.1", must, "FAST 5", "without any ability enabled, data with CE is not answered",
			[]string{"!ipv6", "!ipv4"}, []string{"F41"}, receiverOff},
		{"W03.1", must, "FCN 3 figure 2", "a CNP over IPv4 has a BTH and 16 octets of zero, and a right ICRC", v4, nil,
			answered(kindCNP, markedData(false), allOf(checkCNPHeader, checkICRC))},
		{"W04.1", must, "FCN 3", "over IPv4 the CNP names the sender's queue pair", v4, nil,
			answered(kindCNP, markedData(false), allOf(checkSenderQP, checkReversed))},
		{"B01.1", should, "IBTA CA17-44", "the interval between two CNPs of a queue pair is kept", v6, nil, cnpPace},
		{"B02.1", must, "IBTA A17 figure 6", "P_Key is that of the marked packet", v6, nil, cnp(checkPKey)},
		{"B05.1", must, "RFC 4443 2.4", "a CNP with CE causes no CNP", v6, nil,
			ignores(true, func(_ int, s *stream) {
				s.opcode, s.headers, s.payload = opcodeCNP, nil, make([]byte, 16)
			})},
	}
}

// markedData returns two streams of data with CE to the device: those of pair, or else datagrams, as these carry the
// sender's queue pair.
func markedData(v6 bool) func(x *trial) []*stream {
	return func(x *trial) (all []*stream) {
		data := flow{class: ce, pKey: 0x8001, payload: bytes.Repeat([]byte{0x5A}, 256)}
		for _, p := range x.profile.Pairs {
			if p.Src.Is6() == v6 && len(all) < 2 {
				s := &stream{port: x.hostPort(), flow: data, senderQP: p.SrcQP}
				s.src, s.dst, s.opcode, s.destQP, s.srcPort = p.Src, p.Dst, 0x04, p.DestQP, uint16(50000+len(all))
				all = append(all, s)
			}
		}
		i := slices.IndexFunc(x.profile.Device.Addresses, func(a netip.Addr) bool { return a.Is6() == v6 })
		prefix, ok := pick(x.profile.Hosts.Sender, v6)
		if len(all) > 0 || i < 0 || !ok {
			return all
		}
		for n := range 2 {
			s := &stream{port: x.hostPort(), flow: data, senderQP: x.queuePair(128 + n)}
			s.src, s.dst, s.opcode = host(prefix, uint32(n)), x.profile.Device.Addresses[i], 0x64
			s.headers = binary.BigEndian.AppendUint32([]byte{0, 1, 0, 0}, s.senderQP)
			all = append(all, s)
		}
		number(x, all)
		return all
	}
}

// hostPort returns the port at which a device that is a host is.
func (s *suite) hostPort() int { return max(0, s.portOf("sender")) }

// dataRate is the rate of data to devices that need no congestion, in bits a second.
const dataRate = 2e6

// answered is the body of a case: the device receives streams, and each answer of a kind is checked.
func answered(k kind, streams func(x *trial) []*stream, c check) func(x *trial) outcome {
	return func(x *trial) outcome {
		all := streams(x)
		x.require(len(all) > 0,
			inapplicable("hosts and device.addresses have no address of the family that the case needs"))
		x.offer(all, dataRate, x.profile.Time.Case/2, func() bool { return len(x.about(k, all)) >= 3 })
		return x.checkAll(k, all, c)
	}
}

// repliesToMarked: data with CE is answered. Datagrams may go to queue pairs that the device does not have, so that no
// answer to them is no failure.
func repliesToMarked(x *trial) outcome {
	o := replies(kindCNP, markedData(true))(x)
	isPair := func(p pair) bool { return p.Src.Is6() }
	if o.verdict == fail && !slices.ContainsFunc(x.profile.Pairs, isPair) {
		return unclear("%s, and its queue pair may be unknown to the device: want [[pair]]", o.seen)
	}
	return o
}

// replies is the body of the case that requires any answer of a kind.
func replies(k kind, streams func(x *trial) []*stream) func(x *trial) outcome {
	return func(x *trial) outcome {
		all := streams(x)
		if len(all) == 0 {
			return inapplicable("hosts and device.addresses have no address of the family that the case needs")
		}
		has := func() bool { return len(x.about(k, all)) > 0 }
		if !x.offer(all, dataRate, x.profile.Time.Case/4, has) {
			x.settle()
		}
		if !has() {
			return failed(nil, "a "+string(k), "none about %d packets", all[0].count)
		}
		return passed("%d of kind %s", len(x.about(k, all)), k)
	}
}

// ignores is the body of a case about data that must not be answered, beside data that must be.
func ignores(v6 bool, change func(i int, s *stream)) func(x *trial) outcome {
	return func(x *trial) outcome {
		control, silent := markedData(v6)(x), markedData(v6)(x)
		x.require(len(control) > 0,
			inapplicable("hosts and device.addresses have no address of the family that the case needs"))
		for i, s := range silent {
			s.srcPort += 100
			s.senderQP |= 0x400000
			if len(s.headers) == 8 {
				binary.BigEndian.PutUint32(s.headers[4:], s.senderQP)
			}
			change(i, s)
		}
		return x.expectNoAnswer(kindCNP, control, silent)
	}
}

// expectNoAnswer offers the silent streams, then the control streams, and requires answers to these only.
func (x *trial) expectNoAnswer(k kind, control, silent []*stream) outcome {
	x.offer(silent, dataRate, x.profile.Time.Settle, nil)
	x.settle()
	x.requireNone(x.about(k, silent)...)
	x.require(x.offer(control, dataRate, x.profile.Time.Case/4, func() bool { return len(x.about(k, control)) >= 2 }),
		unclear("no %s about data that has to be answered", k))
	sent := 8
	for _, s := range control {
		sent += int(s.count)
	}
	if n := len(x.about(k, control)); n > sent {
		return unclear("the device floods: %d answers to %d packets", n, sent-8)
	}
	return passed("none, and %d about data that has to be answered", len(x.about(k, control)))
}

func checkSenderQP(x *trial, n *seen, s *stream) (string, string) {
	return same("destination queue pair", hex24(s.senderQP), hex24(n.destQP()))
}

func checkReversed(x *trial, n *seen, s *stream) (string, string) {
	return same("source and destination", fmt.Sprint(s.dst, " ", s.src), fmt.Sprint(n.src, " ", n.dst))
}

// receiverFastCNP checks Fast CNPs that a receiver sends of its own accord.
func receiverFastCNP(x *trial) outcome {
	all := markedData(true)(x)
	x.require(len(all) > 0, inapplicable("hosts and device.addresses have no IPv6 address"))
	x.offer(all, dataRate, x.profile.Time.Settle, nil)
	for _, n := range x.notifications(kindFastCNP) {
		o, wrong := x.fastCNP(n)
		if wrong != "" || !bytes.HasSuffix(o.data, n.src.AsSlice()) {
			return failed(n, fmt.Sprintf("original destination %v", n.src), "option %x", o.data)
		}
	}
	x.require(len(x.notifications(kindFastCNP)) > 0, inapplicable("the receiver sends no Fast CNPs"))
	return passed("%d Fast CNPs", len(x.notifications(kindFastCNP)))
}

func receiverOff(x *trial) outcome {
	all := append(markedData(true)(x), markedData(false)(x)...)
	x.require(len(all) > 0, inapplicable("hosts and device.addresses have no address of one family"))
	x.offer(all, dataRate, x.profile.Time.Settle, nil)
	x.settle()
	x.requireNone(x.ownNotification())
	return x.whenEnabled(passed("no notification"), func() bool {
		return x.offer(all, dataRate, x.profile.Time.Settle, func() bool { return x.ownNotification() != nil })
	})
}

// cnpPace compares the number of CNPs of each queue pair with the interval of the profile.
func cnpPace(x *trial) outcome {
	interval, all := x.profile.Device.Limits.PerFlow, markedData(true)(x)
	x.require(interval > 0, inapplicable("device.limits has no per_flow"))
	x.require(len(all) > 0, inapplicable("hosts and device.addresses have no IPv6 address"))
	begin := x.rig.now()
	const packets, payload = 20, 64 // packets of each flow in an interval
	for _, s := range all {
		s.payload = s.payload[:payload]
	}
	rate := min(packets*float64(len(all)*8*(payload+90))/interval.Seconds(), 50e6)
	x.offer(all, max(rate, dataRate), min(max(40*interval, 400*time.Millisecond), x.profile.Time.Case/2), nil)
	time := x.rig.now().Sub(begin)
	x.settle()
	return x.checkPace(kindCNP, all, time, fewest(all))
}
