//go:build linux

package kerneltest

import (
	"bytes"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/cnp"
	"github.com/rocecn/rocecn/fcn"
	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/ipv6opt"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/acl"
	"github.com/rocecn/rocecn/node/proxy"
	"github.com/rocecn/rocecn/ppfc"
	"github.com/rocecn/rocecn/proxymsg"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
)

var (
	peers  = []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")}
	judges = []netip.Addr{netip.MustParseAddr("192.0.2.2"), netip.MustParseAddr("2001:db8::2")}
)

// A datagram that we send reaches an ordinary socket with exactly its data. It does not with any bit of the UDP or
// IPv4 header checksum flipped.
func TestLinuxTakesOurDatagrams(t *testing.T) {
	peer, judge := newHost(t, "peer"), newHost(t, "judge")
	connect(t, peer, "eth0", judge, "eth0")
	judge.address(t, "eth0", "192.0.2.2/24")
	judge.address(t, "eth0", "2001:db8::2/64")
	cable, end := peer.tap(t, "eth0"), judge.tap(t, "eth0")
	for _, c := range datagrams(t) {
		t.Run(c.name, func(t *testing.T) {
			var d rocev2.Datagram
			require.NoError(t, d.DecodeIP(c.packet))
			require.NotZero(t, d.Checksum)
			socket := judge.listen(t, d.Dst, d.DstPort)
			cable.sendIP(t, end, c.packet)
			requireDatagram(t, socket, &d)

			checksums := []int{len(c.packet) - int(d.Length) + 6}
			if d.Src.Is4() {
				checksums = append(checksums, 10)
			}
			for _, at := range checksums {
				for bit := range 16 {
					broken := slices.Clone(c.packet)
					broken[at+bit/8] ^= 0x80 >> (bit % 8)
					cable.sendIP(t, end, broken)
				}
			}
			// The next datagram is none of the changed ones.
			d.SrcPort ^= 1
			good := wiretest.Must(d.AppendBinary(nil))(t)
			cable.sendIP(t, end, good)
			requireDatagram(t, socket, &d)
		})
	}
}

// requireDatagram receives the next datagram, which must be d.
func requireDatagram(t *testing.T, socket *net.UDPConn, d *rocev2.Datagram) {
	t.Helper()
	require.NoError(t, socket.SetReadDeadline(time.Now().Add(packetTimeout)))
	b := make([]byte, 1<<16)
	n, from, err := socket.ReadFromUDPAddrPort(b)
	require.NoError(t, err)
	require.Equal(t, netip.AddrPortFrom(d.Src, d.SrcPort), from)
	require.Equal(t, d.Data, b[:n])
}

type datagram struct {
	name   string
	packet []byte
}

// datagrams are complete packets of every kind that we build.
func datagrams(t *testing.T) (all []datagram) {
	for i, src := range peers {
		dst, family := judges[i], "IPv4"
		if src.Is6() {
			family = "IPv6"
		}
		add := func(name string, packet []byte, err error) {
			t.Helper()
			require.NoError(t, err)
			all = append(all, datagram{name + ", " + family, packet})
		}
		as := rocev2.Carriage{Checksum: true, ECN: 1, FlowLabel: 0xF00D5}

		b, err := fcn.Message{FlowLabel: 0xBEEF5, Level: 7}.AppendPacket(nil, src, dst, fcn.Config{CopyLabel: true})
		add("FCN", b, err)
		b, err = fcn.Message{FlowLabel: 1, Level: 1}.AppendPacket(nil, src, dst, fcn.Config{Carriage: as, Port: 4000})
		add("FCN to another port", b, err)

		c := cnp.New(0x123456, 0xFFFF)
		b, err = c.AppendPacket(nil, src, dst, cnp.Config{Carriage: as})
		add("CNP", b, err)
		for _, congested := range peers {
			n := ppfc.New(0x123456, 0xFFFF, ppfc.Extension{})
			n.Congested, n.Type, n.Port, n.Pause = congested, ppfc.Hold, 7, 1234*time.Microsecond
			b, err = n.AppendPacket(nil, src, dst, ppfc.Config{Carriage: as})
			add("PPFC about "+congested.String(), b, err)
		}

		data := rocev2.Packet{Datagram: rocev2.Datagram{Src: src, Dst: dst, HopLimit: 1, SrcPort: 0xC0DE,
			DstPort: rocev2.Port, Checksum: 1}}
		data.BTH.Header = bth.Header{Opcode: bth.RCSendOnly, PKey: 0xFFFF, DestQP: 7, PSN: 9}
		data.Payload = bytes.Repeat([]byte("rocecn.."), 170)
		b, err = data.AppendBinary(nil)
		add("SEND", b, err)

		var flow rocev2.Frame
		flow.Decode(b, rocev2.DecodeOptions{Link: rocev2.LinkIP})
		b, err = proxymsg.AppendFor(nil, &flow, src, dst, 7, proxymsg.Config{})
		require.Len(t, b, map[bool]int{true: 576, false: 1280}[src.Is4()])
		add("proxy message, full", b, err)
		m := wiretest.Must(proxymsg.For(&flow, 0))(t)
		m.Invoking = m.Invoking[:77]
		b, err = m.AppendPacket(nil, src, dst, proxymsg.Config{Carriage: as, Port: 4001})
		add("proxy message, odd, to another port", b, err)

		d := rocev2.Datagram{Src: src, Dst: dst, HopLimit: 64, SrcPort: 0xC0DE, DstPort: 9, Checksum: 1}
		for n := range 10 {
			d.Data = bytes.Repeat([]byte{0xFF}, n)
			b, err = d.AppendBinary(nil)
			add(fmt.Sprintf("%d octets", n), b, err)
		}
		// A sum of zero is sent as ones: Linux rejects zero over IPv6.
		d.Data = []byte{0, 0}
		b = wiretest.Must(d.AppendBinary(nil))(t)
		d.Data = b[len(b)-4 : len(b)-2]
		b, err = d.AppendBinary(nil)
		require.Equal(t, []byte{0xFF, 0xFF}, b[len(b)-4:len(b)-2])
		add("checksum zero", b, err)

		d.Ext = []byte{1, 1, 1, 0} // No Operation, three times, End of Options
		if src.Is6() {
			w := ipv6opt.Begin(nil, 17)
			require.NoError(t, w.Add(0x1E, 4, 2, []byte("to be skipped")))
			d.NextHeader, d.Ext = ipv6opt.DestinationOptions, w.Finish()
		}
		b, err = d.AppendBinary(nil)
		add("options", b, err)
	}
	return all
}

// A captured connection crosses the proxy in both directions. Then the congested node sends messages about its
// flows, which the proxy receives from an ordinary socket. For a known flow, an ordinary socket of the sender
// receives a CNP with the queue pair of the REQ and a valid ICRC.
//
//	sender ── proxy ── congested node
func TestProxyBetweenSenderAndCongestedNode(t *testing.T) {
	sender, between, congested := newHost(t, "sender"), newHost(t, "proxy"), newHost(t, "congested")
	connect(t, sender, "eth0", between, "in")
	connect(t, between, "out", congested, "eth0")
	sender.address(t, "eth0", "10.77.0.2/24")
	between.address(t, "out", "192.0.2.7/24")
	congested.address(t, "eth0", "192.0.2.5/24")
	start, in := sender.tap(t, "eth0"), between.tap(t, "in")
	out, end := between.tap(t, "out"), congested.tap(t, "eth0")

	self := netip.MustParseAddr("192.0.2.7")
	qps := qpmap.New(qpmap.Config{})
	p, err := proxy.New(proxy.Config{
		Enabled: true, Self4: self, QPs: qps,
		Accept: acl.New(netip.MustParsePrefix("192.0.2.5/32")),
		Senders: acl.NewMap(acl.Entry[proxy.Answer]{Prefix: netip.MustParsePrefix("10.77.0.0/24"),
			Value: proxy.AnswerCNP}),
	})
	require.NoError(t, err)

	// The capture up to the end of its data.
	requester := netip.MustParseAddr("10.77.0.2")
	var now time.Time
	var data rocev2.Packet // the requester's last one
	learned := map[uint32]bool{}
	for _, c := range wiretest.Capture(t, "rxe-ucmatose4.pcap")[:57] {
		var q rocev2.Packet
		if q.DecodeEthernet(c.Data) != nil {
			continue
		}
		from, to, away, far := start, in, out, end
		if q.Src != requester {
			from, to, away, far = end, out, in, start
		}
		now = c.Time
		from.sendIP(t, to, q.IP)
		frame := to.receive(t, "packet", func(frame []byte) bool { return bytes.HasSuffix(frame, q.IP) })
		require.NoError(t, q.DecodeEthernet(frame))
		p.Receive(nil, frameOf(frame), node.Event{Now: now})
		away.sendIP(t, far, q.IP)
		for k, pair := range qps.Learned() {
			if k.Src == requester {
				learned[pair.SrcQP] = true
			}
		}
		if q.Src == requester && q.BTH.Opcode == bth.RCSendOnly {
			data = q
		}
	}
	require.Equal(t, map[uint32]bool{0x11: true, 0x12: true}, learned)

	messages := between.listen(t, self, proxymsg.Port)
	notify := func(about *rocev2.Packet) ([]byte, node.Decision) {
		var f rocev2.Frame
		f.Decode(whole(t, about), rocev2.DecodeOptions{Link: rocev2.LinkIP})
		b := wiretest.Must(proxymsg.AppendFor(nil, &f, netip.MustParseAddr("192.0.2.5"), self, 4, proxymsg.Config{}))(t)
		end.sendIP(t, out, b)
		require.Equal(t, b[20+8:], receive(t, messages))
		var frame rocev2.Frame
		frame.Decode(b, rocev2.DecodeOptions{Link: rocev2.LinkIP})
		return p.Receive(nil, &frame, node.Event{Now: now})
	}

	unknown, uc := data, data
	unknown.BTH.DestQP = 0x77
	uc.BTH.Opcode, uc.BTH.DestQP = bth.UCSendOnly, 0x78
	for _, q := range []*rocev2.Packet{&unknown, &uc} {
		b, d := notify(q)
		require.Equal(t, node.ReasonUnknownQP, d.Reason)
		require.Empty(t, b)
	}
	ambiguous := data
	ambiguous.BTH.Opcode, ambiguous.BTH.DestQP = bth.UDSendOnly, 0x79
	for source := range uint32(2) { // two queue pairs send to this one
		ambiguous.BTH.DETH.SrcQP = 0x80 + source
		ethernet := append(make([]byte, 12), 8, 0)
		p.Receive(nil, frameOf(append(ethernet, whole(t, &ambiguous)...)), node.Event{Now: now})
	}
	b, d := notify(&ambiguous)
	require.Equal(t, node.ReasonAmbiguousQP, d.Reason)
	require.Empty(t, b)

	socket := sender.listen(t, requester, rocev2.Port)
	b, d = notify(&data)
	require.Equal(t, node.Decision{
		Action: node.ActionSent, Packet: message.KindProxy, Message: message.KindCNP,
		From: netip.MustParseAddr("192.0.2.5"), To: requester,
		Flow:  qpmap.Key{FlowKey: rocev2.FlowKey{Src: data.Src, Dst: data.FinalDst(), DestQP: data.BTH.DestQP}},
		SrcQP: 0x12, KnownQP: true, Level: 4,
	}, d)
	in.sendIP(t, start, b)
	arrived := receive(t, socket)
	require.EqualValues(t, 0x81, arrived[0])
	require.Equal(t, []byte{0, 0, 0x12}, arrived[5:8])
	frame := start.receive(t, "CNP", func(frame []byte) bool { return bytes.HasSuffix(frame, b) })
	row := wiretest.Tshark(t, frame)[0]
	require.EqualValues(t, 0x81, row.Uint("infiniband.bth.opcode"))
	require.EqualValues(t, 0x12, row.Uint("infiniband.bth.destqp"))
	require.Equal(t, "192.0.2.7", row.Get("ip.src"))
	require.Equal(t, "10.77.0.2", row.Get("ip.dst"))
	_, err = icrc.Verify(frame[14:])
	require.NoError(t, err)

	require.EqualValues(t, 1, p.Counters().Load(node.Count{Action: node.ActionSent}))
	require.EqualValues(t, 2, p.Counters().Load(node.Count{Action: node.ActionRefused, Reason: node.ReasonUnknownQP}))
	require.EqualValues(t, 1, p.Counters().Load(node.Count{Action: node.ActionRefused, Reason: node.ReasonAmbiguousQP}))
}
