package conform

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/internal/wiretest"
)

func unhex(t *testing.T, text string) []byte {
	t.Helper()
	return wiretest.Must(hex.DecodeString(strings.ReplaceAll(text, " ", "")))(t)
}

// vectorsOf returns the valid test vectors of a format: octets, which come from hosts and hand computation, and values.
func vectorsOf(t *testing.T, format string) (all []vector) {
	var file struct{ Tests []vector }
	octets := wiretest.Must(os.ReadFile(wiretest.Path(t, "vectors", format+".json")))(t)
	require.NoError(t, json.Unmarshal(octets, &file))
	for _, v := range file.Tests {
		if v.Result == "valid" {
			all = append(all, v)
		}
	}
	require.NotEmpty(t, all)
	return all
}

type vector struct {
	ID              int
	Comment, Octets string
	Result          string
	Decoded         map[string]any
}

// The ICRCs of network cards, soft-RoCE and hand computation.
func TestICRCVectors(t *testing.T) {
	coverages := map[string]coverage{"as-sent": asSent, "without": without, "skipped": skipped}
	tested := 0
	for _, v := range vectorsOf(t, "icrc") {
		t.Run(v.Comment, func(t *testing.T) {
			p := readIP(unhex(t, v.Octets), nil, 4)
			name, _ := v.Decoded["coverage"].(string)
			c, ok := coverages[name]
			if p == nil || p.bth == nil || !ok || len(p.ip) > 0 && p.ip[0]>>4 == 4 && p.ip[0]&15 > 5 {
				return // IPv4 options, which the suite does not send
			}
			if c != asSent && len(p.extensions) > 0 && p.extensions[0].protocol == protocolRouting {
				return // the destination of a Routing header, which the suite does not send
			}
			require.Equal(t, v.Decoded["value"], fmt.Sprintf("0x%08x", p.computeICRC(c)))
			tested++
		})
	}
	require.Greater(t, tested, 10)
}

// Fast CNPs computed by hand: the suite reads them, and builds the one of its tests.
func TestFastCNPVectors(t *testing.T) {
	for _, v := range vectorsOf(t, "fastcnp") {
		t.Run(v.Comment, func(t *testing.T) {
			p := readIP(unhex(t, v.Octets), nil, 4)
			require.NotNil(t, p)
			require.Equal(t, kindFastCNP, p.kind(&points))
			require.Equal(t, p.icrc, p.computeICRC(asSent))
			if qp, ok := v.Decoded["dest_qp"].(float64); ok {
				require.EqualValues(t, qp, p.destQP())
			}
		})
	}
	f := flow{src: hostOfText("2001:db8:ffff::5"), dst: hostOfText("2001:db8:1::1"), class: 48 << 2, opcode: 0x81,
		flags: 0x40, destQP: 0x11, payload: make([]byte, 16),
		options: fastCNPOption1(0x9E, hostOfText("2001:db8:4::e"))}
	const worked = "6c00000000403c40 20010db8ffff00000000000000000005 20010db8000100000000000000000001" +
		"11029e10 20010db800040000000000000000000e 01020000 c00012b700280000" +
		"8100ffff 40000011 00000000 00000000000000000000000000000000 f6d21eb2"
	require.Equal(t, unhex(t, worked), f.appendIP(nil))
}

// Messages of the figures, in octets computed by hand.
func TestBuildersByHand(t *testing.T) {
	pe, node := hostOfText("2001:db8::1"), hostOfText("2001:db8::2")
	data := &flow{src: node, dst: pe, opcode: 0x04, pKey: 0x8001, destQP: 0x11, psn: 0x1000005, ackRequest: true,
		payload: []byte{0xA5}} // 3 octets of padding, version 0
	require.Equal(t, unhex(t, "04 30 8001 00000011 80000005 a5000000"), readIP(data.appendIP(nil), nil, 1).bth)
	fcn := (&fcnMessage{src: node, dst: pe, port: 1021, label: 0x12345, level: 1}).appendIP()
	require.Equal(t, unhex(t, "12345200"), fcn[ipv6Size+udpSize:])
	require.Equal(t, unhex(t, "20010db8ffff00000000000000000005 00000007 00000064"),
		ppfcAfterBTH(hostOfText("2001:db8:ffff::5"), 0, 7, 100))
	require.Equal(t, unhex(t, "c0000205 00000007 00000064"), ppfcAfterBTH(hostOfText("192.0.2.5"), 0, 7, 100))
	m := &proxyMessage{src: node, dst: pe, port: 1022, level: 3 << 21, flow: flow{src: hostOfText("2001:db8:1::1"),
		dst: hostOfText("2001:db8:4::e"), srcPort: 0xC000, opcode: 0x0A, destQP: 0x11}}
	require.Equal(t, unhex(t, "20010db8000100000000000000000001 20010db800040000000000000000000e 11 c000 12b7 600000"),
		m.appendIP()[ipv6Size+udpSize:][:40])
	// RFC 9197: namespace 123, NodeLen 2, no free space, bits 0 and 6, one node.
	require.Equal(t, unhex(t, "0100 3112 0000 007b1000 82000000 40000001 00000009"),
		traceOption(123, 0, [8]byte{64, 0, 0, 1, 0, 0, 0, 9}))
}

// A host rejects an option of a Fast CNP by the Parameter Problem of RFC 4443, section 3.4: code 2 and the option's
// offset, 42, before the packet.
func TestRejectionByHand(t *testing.T) {
	const cnp = "6c00000000403c40 20010db8ffff00000000000000000005 20010db8000100000000000000000001" +
		"11029e10 20010db800040000000000000000000e 01020000 c00012b700280000" +
		"8100ffff 40000011 00000000 00000000000000000000000000000000 f6d21eb2"
	n := &seen{packet: readIP(unhex(t, cnp), nil, 1)}
	require.Equal(t, unhex(t, "60000000 0070 3a ff 20010db8000100000000000000000001"+
		"20010db8ffff00000000000000000005 04 02 1460 0000002a"+cnp), rejectionOf(n, n.dst))
}

// The fields of captures of real hosts as tshark reads them.
func TestRealCaptures(t *testing.T) {
	for _, name := range []string{"rxe-verbs6.pcap", "rxe-perf4.pcap", "rxe-udaddy6.pcap"} {
		t.Run(name, func(t *testing.T) {
			rows, read := wiretest.Golden(t, name), 0
			for i, frame := range wiretest.Capture(t, name) {
				p, _ := readFrame(frame.Data, nil)
				if p == nil || p.bth == nil {
					continue
				}
				read++
				require.EqualValues(t, rows[i].Uint("infiniband.bth.opcode"), p.opcode())
				require.EqualValues(t, rows[i].Uint("infiniband.bth.destqp"), p.destQP())
				require.EqualValues(t, rows[i].Uint("infiniband.bth.psn"), p.psn())
				if p.opcode() != 0x1C { // soft-RoCE sends FLUSH with a wrong ICRC
					require.Equal(t, p.icrc, p.computeICRC(asSent), "frame %d", i+1)
				}
			}
			require.Greater(t, read, 5)
		})
	}
}

// The ways of writing a UDP checksum and a neighbour's answer, as the kernel accepts them, are tested with the agent.
func TestChecksum(t *testing.T) {
	ip := appendDatagram(nil, hostOfText("192.0.2.1"), hostOfText("192.0.2.2"), 0, 0, 1, 2, []byte{1, 2, 3})
	// The complement of the sum of 192.0.2.1, 192.0.2.2, 17, 11, 1, 2, 11, 0x0102 and 0x0300.
	require.Equal(t, unhex(t, "0001 0002 000b 77cf 010203"), ip[ipv4Size:])
	require.True(t, bytes.HasPrefix(ip, []byte{0x45, 0, 0, 31}))
}

// The hardware address of the device is in its ARP replies and neighbour advertisements, not in its requests or in
// answers of others. The ARP packets are those of RFC 826, the advertisements those of RFC 4861, section 4.4.
func TestReadAdvertisement(t *testing.T) {
	s := &suite{profile: new(profile)}
	s.profile.Device.Addresses = []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")}
	const macs = "020000000009 020000000001 "
	arp := func(operation, from string) string {
		return macs + "0806 0001 0800 06 04 " + operation + " 020000000007" + from + "020000000009 c0000209"
	}
	advertisement := func(kind, of string) string {
		return macs + "86dd 60000000 0018 3a ff 20010db8000000000000000000000001 20010db8000000000000000000000009 " +
			kind + "00 0000 60000000 20010db80000000000000000000000" + of
	}
	for _, row := range []struct {
		name, frame, want string // "" if it is no answer of the device
	}{
		{"ARP reply", arp("0002", "c0000201"), "020000000007"},
		{"ARP request", arp("0001", "c0000201"), ""},
		{"ARP reply of another", arp("0002", "c0000202"), ""},
		{"neighbour advertisement", advertisement("88", "01"), "020000000001"},
		{"neighbour solicitation", advertisement("87", "01"), ""},
		{"neighbour advertisement of another", advertisement("88", "02"), ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			m, ok := s.readAdvertisement(arrival{frame: unhex(t, row.frame)})
			require.Equal(t, row.want != "", ok)
			if ok {
				require.Equal(t, row.want, hex.EncodeToString(m[:]))
			}
		})
	}
}

// neighbourSuite returns a suite of a role with ports of these sides and addresses. Each port has the hardware address
// of testerMAC.
func neighbourSuite(role string, ports ...[2]string) *suite {
	p := &profile{}
	p.Device.Role = role
	p.Device.Addresses = []netip.Addr{hostOfText("2001:db8:a::1"), hostOfText("192.0.2.5")}
	p.Hosts = hosts{Sender: []netip.Prefix{netip.MustParsePrefix("2001:db8:a::/64")},
		Capable:  []netip.Prefix{netip.MustParsePrefix("10.10.0.0/16")},
		Receiver: []netip.Prefix{netip.MustParsePrefix("2001:db8:f::/64")},
		PE:       []netip.Addr{hostOfText("2001:db8:e::1")}}
	for i, of := range ports {
		port := port{Side: of[0], Address: hostOfText(of[1])}
		port.MAC.mac = testerMAC(i)
		p.Ports = append(p.Ports, port)
	}
	return &suite{ctx: context.Background(), profile: p}
}

// answerTo returns the answer to a frame that arrives at a port.
func answerTo(s *suite, port int, frame []byte) []byte {
	n := &seen{port: port, frame: frame}
	n.packet, _ = readFrame(frame, nil)
	return s.answerNeighbour(n)
}

// request returns a request for the hardware address of a host: by ARP (RFC 826) from 192.0.2.7, or by a neighbour
// solicitation (RFC 4861, section 4.3).
func request(t *testing.T, from, target string) []byte {
	t.Helper()
	a := hostOfText(target)
	if a.Is4() {
		return unhex(t, fmt.Sprintf("ffffffffffff 020000000007 0806 0001 0800 06 04 0001 020000000007 c0000207"+
			"000000000000 %x", a.AsSlice()))
	}
	return unhex(t, fmt.Sprintf("3333ff000009 020000000007 86dd 60000000 0018 3a ff %x"+
		"ff0200000000000000000001ff000009 8700 0000 00000000 %x", hostOfText(from).AsSlice(), a.AsSlice()))
}

// The tester answers for its own addresses and for the hosts that it plays at a port, and for no others: these are
// addresses of the device or of real hosts.
func TestAnsweredAddresses(t *testing.T) {
	between := neighbourSuite("switch", [2]string{"sender", "192.0.2.1"}, [2]string{"receiver", "192.0.2.2"})
	beside := neighbourSuite("receiver", [2]string{"sender", "192.0.2.1"})
	bridge := neighbourSuite("sender", [2]string{"sender", "2001:db8:c::9"}, [2]string{"receiver", "192.0.2.2"})
	for _, c := range []struct {
		name   string
		suite  *suite
		target string
		want   []bool // by port
	}{
		{"address of the sender port", between, "192.0.2.1", []bool{true, false}},
		{"address of the receiver port", between, "192.0.2.2", []bool{false, true}},
		{"sender", between, "2001:db8:a::7", []bool{true, false}},
		{"capable sender", between, "10.10.3.4", []bool{true, false}},
		{"ingress PE", between, "2001:db8:e::1", []bool{true, false}},
		{"receiver", between, "2001:db8:f::7", []bool{false, true}},
		{"device in the prefix of senders", between, "2001:db8:a::1", []bool{false, false}},
		{"another host", between, "192.0.2.9", []bool{false, false}},
		{"sender at the only port", beside, "2001:db8:a::7", []bool{true}},
		{"ingress PE at the only port", beside, "2001:db8:e::1", []bool{true}},
		{"receiver at the only port", beside, "2001:db8:f::7", []bool{true}},
		{"device at the only port", beside, "192.0.2.5", []bool{false}},
		{"IPv6 address of a bridge", bridge, "2001:db8:c::9", []bool{true, true}},
		{"IPv4 address of a bridge", bridge, "192.0.2.2", []bool{true, true}},
		{"sender beside a bridge", bridge, "2001:db8:a::7", []bool{false, false}},
		{"receiver beside a bridge", bridge, "2001:db8:f::7", []bool{false, false}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for port, want := range c.want {
				answer := answerTo(c.suite, port, request(t, "2001:db8:d::2", c.target))
				require.Equal(t, want, answer != nil, "port %d", port)
			}
		})
	}
}

// Answers have the octets of RFC 826 and of RFC 4861, section 4.4, and the hardware address and tag of the port. An
// answer, and a request of a host that has no address yet, get none.
func TestNeighbourAnswers(t *testing.T) {
	s := neighbourSuite("sender", [2]string{"sender", "2001:db8:c::9"}, [2]string{"receiver", "192.0.2.2"})
	s.profile.Ports[1].VLAN = 0x123
	for _, c := range []struct{ target, want string }{
		{"192.0.2.2", "020000000007 020000000101 8100 0123 0806 0001 0800 06 04 0002 020000000101 c0000202" +
			"020000000007 c0000207"},
		{"2001:db8:c::9", "020000000007 020000000101 8100 0123 86dd 60000000 0020 3a ff" +
			"20010db8000c00000000000000000009 20010db8000d00000000000000000002" +
			"88 00 893e 60000000 20010db8000c00000000000000000009 0201 020000000101"},
	} {
		t.Run(c.target, func(t *testing.T) {
			answer := answerTo(s, 1, request(t, "2001:db8:d::2", c.target))
			require.Equal(t, unhex(t, c.want), answer)
			require.Nil(t, answerTo(s, 1, answer))
			require.Nil(t, answerTo(s, 1, request(t, "::", "2001:db8:c::9")))
		})
	}
}

// asked is a device that answers requests for its hardware address at some ports.
type asked struct {
	answers map[int]string // frames by port
	frames  []string       // requests
	lost    int            // requests without an answer
	at      int            // added to the port
	t       *testing.T
}

func (d *asked) advance(*memoryRig) {}

func (d *asked) receive(r *memoryRig, port int, frame []byte) {
	d.frames = append(d.frames, hex.EncodeToString(frame))
	if answer := d.answers[port]; answer != "" && len(d.frames) > d.lost {
		r.insert(arrival{port + d.at, r.clock, unhex(d.t, answer)})
	}
}

// The tester asks for the hardware address of the device on each port without neighbour_mac, in the family of the port.
func TestFindsNeighbours(t *testing.T) {
	const arp = "020000000100 02000000000a 0806 0001 0800 06 04 0002 02000000000a c0000205 020000000100 c0000201"
	const nd = "020000000101 02000000000b 86dd 60000000 0018 3a ff 20010db8000a00000000000000000001" +
		"20010db8000c00000000000000000009 8800 0000 60000000 20010db8000a00000000000000000001"
	requests := []string{
		hex.EncodeToString(unhex(t, "ffffffffffff 020000000100 0806 0001 0800 06 04 0001 020000000100 c0000201"+
			"000000000000 c0000205")),
		hex.EncodeToString(unhex(t, "3333ff000001 020000000101 86dd 60000000 0020 3a ff"+
			"20010db8000c00000000000000000009 ff0200000000000000000001ff000001"+
			"87 00 1b0b 00000000 20010db8000a00000000000000000001 0101 020000000101")),
	}
	both := map[int]string{0: arp, 1: nd}
	for _, c := range []struct {
		name, role string
		device     asked
		requests   []string
		want       string // error
	}{
		{"both ports", "switch", asked{answers: both}, requests, ""},
		{"first request is lost", "switch", asked{answers: both, lost: 1},
			[]string{requests[0], requests[0], requests[1]}, ""},
		{"bridge", "sender", asked{answers: both}, requests[:1], ""},
		{"no answer", "switch", asked{answers: map[int]string{0: arp}},
			[]string{requests[0], requests[1], requests[1], requests[1]}, "port[1].neighbour_mac: missing"},
		{"answer at another port", "switch", asked{answers: both, at: 1}, nil, "port[0].neighbour_mac: missing"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := neighbourSuite(c.role, [2]string{"sender", "192.0.2.1"},
				[2]string{"receiver", "2001:db8:c::9"}, [2]string{"control", "192.0.2.3"})
			s.profile.Time.Case = time.Minute
			s.profile.Ports[2].NeighbourMAC.mac = mac{2}
			c.device.t = t
			s.rig = &memoryRig{device: &c.device}
			err := s.findNeighbours()
			if c.want != "" {
				require.ErrorContains(t, err, c.want)
			} else {
				require.NoError(t, err)
				require.Equal(t, mac{2, 0, 0, 0, 0, 0xA}, s.profile.Ports[0].NeighbourMAC.mac)
			}
			if c.requests != nil {
				require.Equal(t, c.requests, c.device.frames)
			}
		})
	}
}
