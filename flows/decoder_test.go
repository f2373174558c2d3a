package flows

import (
	"fmt"
	"math/bits"
	"net/netip"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/cnp"
	"github.com/rocecn/rocecn/encap"
	"github.com/rocecn/rocecn/fcn"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/pfc"
	"github.com/rocecn/rocecn/rocev2"
)

var (
	hostA, hostB = netip.MustParseAddr("2001:db8:1::a"), netip.MustParseAddr("2001:db8:4::e")
	pe1, pe2     = netip.MustParseAddr("2001:db8:ffff::1"), netip.MustParseAddr("2001:db8:ffff::2")
)

func newWrite(t *testing.T, psn uint32, payload int) []byte {
	t.Helper()
	p := rocev2.Packet{Datagram: rocev2.Datagram{Src: hostA, Dst: hostB, TrafficClass: 26<<2 | uint8(rocev2.CE),
		HopLimit: 64, SrcPort: 50000, DstPort: rocev2.Port}}
	p.BTH.Opcode, p.BTH.DestQP, p.BTH.PSN, p.BTH.PKey = bth.RCSendOnly, 18, psn, 0xFFFF
	p.BTH.Pad = uint8(-payload & 3)
	p.Payload = make([]byte, payload)
	return wiretest.Must(p.AppendBinary(nil))(t)
}

// Packets in tunnels belong to the inner flow, and an FCN identifies the flow by the label chosen
// by the ingress.
func TestTunnels(t *testing.T) {
	inner := newWrite(t, 10, 30)
	for _, c := range []struct {
		name   string
		tunnel encap.Tunnel
	}{
		{"ipip", &encap.IPInIPv6{Src: pe1, Dst: pe2}},
		{"vxlan", &encap.VXLAN{Src: pe1, Dst: pe2, VNI: 7, Ethernet: make([]byte, 14)}},
		{"srv6", &encap.SRv6{Src: pe1, Segments: []netip.Addr{pe2, netip.MustParseAddr("2001:db8:ffff::3")}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			table := New(Config{})
			var d Decoder
			var p Packet
			outer := wiretest.Must(c.tunnel.Append(nil, inner, 0xBEEF5))(t)
			ip := rocev2.DecodeOptions{Link: rocev2.LinkIP}
			require.True(t, d.Decode(&p, outer, ip))
			table.Observe(&p, 1, time.Time{})
			var f rocev2.Frame
			f.Decode(outer, rocev2.DecodeOptions{Link: rocev2.LinkIP})
			for _, label := range []uint32{0xBEEF5, 0x12345} {
				notice, err := fcn.Message{FlowLabel: label, Level: 3}.AppendPacket(nil, pe2, pe1, fcn.Config{})
				require.NoError(t, err)
				require.True(t, d.Decode(&p, notice, ip))
				table.Observe(&p, 2, time.Time{})
			}
			n := 0
			for _, f := range table.Snapshot().Flows {
				n++
				require.Equal(t, rocev2.FlowKey{Src: hostA, Dst: hostB, DestQP: 18}, f.FlowKey)
				require.EqualValues(t, 1, f.FCN)
				require.EqualValues(t, len(inner), f.IPOctets)
				require.Zero(t, f.ICRCWrong)
			}
			require.Equal(t, 1, n)
			for _, u := range table.Snapshot().Unpaired {
				require.EqualValues(t, 1, u.FCN)
				require.Equal(t, rocev2.FlowKey{Src: pe2, Dst: pe1}, u.FlowKey)
			}
			d.Outer = true
			require.Equal(t, c.name != "vxlan", d.Decode(&p, outer, ip), "IP in IP is the walk's own")
		})
	}
}

// MPLS labels of any value before a tunnel are not a part of its header, and alone they are no tunnel with a label for
// FCNs.
func TestTunnelsBelowMPLS(t *testing.T) {
	const flowLabel = 0xBEEF5
	inner := newWrite(t, 10, 30)
	be.PutUint32(inner, be.Uint32(inner)|flowLabel)
	for _, c := range []struct {
		name   string
		tunnel encap.Tunnel
		fcns   uint64
	}{
		{"ipip", &encap.IPInIPv6{Src: pe1, Dst: pe2}, 1},
		{"vxlan", &encap.VXLAN{Src: pe1, Dst: pe2, VNI: 7, Ethernet: make([]byte, 14)}, 1},
		{"no tunnel", nil, 0},
	} {
		for _, label := range []uint32{16, 0x3E800, 0x6ABCD} { // the last one begins as an IPv6 header does
			t.Run(fmt.Sprintf("%s, label %#x", c.name, label), func(t *testing.T) {
				outer, ingress := inner, hostA
				if c.tunnel != nil {
					outer, ingress = wiretest.Must(c.tunnel.Append(nil, inner, flowLabel))(t), pe1
				}
				const bottomOfStack, ttl = 1 << 8, 64
				frame := be.AppendUint32(append(make([]byte, 12), 0x88, 0x47), label<<12|bottomOfStack|ttl)
				table := New(Config{})
				var d Decoder
				var p Packet
				require.True(t, d.Decode(&p, append(frame, outer...), rocev2.DecodeOptions{}))
				table.Observe(&p, 1, time.Time{})
				m := fcn.Message{FlowLabel: flowLabel, Level: 3}
				notice := wiretest.Must(m.AppendPacket(nil, pe2, ingress, fcn.Config{}))(t)
				require.True(t, d.Decode(&p, notice, rocev2.DecodeOptions{Link: rocev2.LinkIP}))
				table.Observe(&p, 2, time.Time{})
				all := table.Snapshot()
				require.Len(t, all.Flows, 1)
				require.Equal(t, c.fcns, all.Flows[0].FCN)
				require.Len(t, all.Unpaired, int(1-c.fcns))
			})
		}
	}
}

// A truncated packet in a tunnel also shows the label of its flow.
func TestTunnelsOfTruncatedPackets(t *testing.T) {
	for _, tunnel := range []encap.Tunnel{&encap.IPInIPv6{Src: pe1, Dst: pe2},
		&encap.VXLAN{Src: pe1, Dst: pe2, VNI: 7, Ethernet: make([]byte, 14)}} {
		t.Run(fmt.Sprintf("%T", tunnel), func(t *testing.T) {
			table := New(Config{})
			var d Decoder
			var p Packet
			outer := wiretest.Must(tunnel.Append(nil, newWrite(t, 10, 300), 0xBEEF5))(t)
			o := rocev2.DecodeOptions{Link: rocev2.LinkIP, AllowTruncated: true}
			require.True(t, d.Decode(&p, outer[:len(outer)-200], o))
			table.Observe(&p, 1, time.Time{})
			m := fcn.Message{FlowLabel: 0xBEEF5, Level: 3}
			notice := wiretest.Must(m.AppendPacket(nil, pe2, pe1, fcn.Config{}))(t)
			require.True(t, d.Decode(&p, notice, rocev2.DecodeOptions{Link: rocev2.LinkIP}))
			table.Observe(&p, 2, time.Time{})
			all := table.Snapshot()
			require.Len(t, all.Flows, 1)
			require.EqualValues(t, 1, all.Flows[0].FCN)
			require.EqualValues(t, 1, all.Flows[0].Truncated)
			require.Empty(t, all.Unpaired)
		})
	}
}

func TestCountedFields(t *testing.T) {
	table := New(Config{})
	var d Decoder
	var p Packet
	ip := newWrite(t, 10, 30)
	frame := append([]byte{12: 0x81, 13: 0x00, 0x20, 0x03, 0x86, 0xDD}, ip...)
	require.True(t, d.Decode(&p, frame, rocev2.DecodeOptions{}))
	table.Observe(&p, 1, time.Unix(100, 0))
	frame[len(frame)-1] ^= 1
	require.True(t, d.Decode(&p, frame, rocev2.DecodeOptions{}))
	table.Observe(&p, 2, time.Unix(102, 0))
	for cut := range len(frame) {
		got := d.Decode(&p, frame[:cut], rocev2.DecodeOptions{AllowTruncated: true})
		require.Equal(t, cut >= 18+40+8+12, got, "truncated to %d octets: the BTH is whole or not", cut)
	}
	require.True(t, d.Decode(&p, frame[:100], rocev2.DecodeOptions{AllowTruncated: true}))
	table.Observe(&p, 3, time.Unix(104, 0))
	for _, f := range table.Snapshot().Flows {
		require.EqualValues(t, 3, f.VLAN)
		require.EqualValues(t, 1<<26, f.DSCP)
		require.Equal(t, [4]uint64{3: 3}, f.ECN)
		require.EqualValues(t, 3, f.Packets)
		require.EqualValues(t, 3*len(ip), f.IPOctets)
		require.EqualValues(t, 90, f.PayloadOctets)
		require.EqualValues(t, 1, f.ICRCWrong)
		require.EqualValues(t, 1, f.Truncated)
		require.EqualValues(t, 2, f.PSN.Retransmitted)
		require.InEpsilon(t, 3*8*float64(len(ip))/4, f.Mean, 1e-9)
		require.InEpsilon(t, 8*float64(len(ip))*10, f.Peak, 1e-9)
	}
	d.NoICRC = true
	d.Decode(&p, frame, rocev2.DecodeOptions{})
	require.False(t, p.icrcWrong)
}

func TestNotices(t *testing.T) {
	var d Decoder
	var p Packet
	c := cnp.New(17, 0xFFFF)
	ip := wiretest.Must(c.AppendPacket(nil, hostB, hostA, cnp.Config{}))(t)
	for cut := 60; cut <= len(ip); cut++ { // its BTH is complete
		require.True(t, d.Decode(&p, ip[:cut],
			rocev2.DecodeOptions{Link: rocev2.LinkIP, AllowTruncated: cut < len(ip)}))
		require.Equal(t, cnpKind, p.kind)
	}
	pause := pfc.PFC{Enabled: 0x18, Quanta: [8]uint16{3: 65535}}.AppendFrame(nil, [6]byte{2, 0, 0, 0, 0, 1})
	require.True(t, d.Decode(&p, pause, rocev2.DecodeOptions{}))
	require.Equal(t, pfcKind, p.kind)
	require.Equal(t, [6]byte{2, 0, 0, 0, 0, 1}, p.pause.mac)
	require.EqualValues(t, 0x18, p.pause.enabled)
	require.Equal(t, [8]uint16{3: 65535}, p.pause.quanta)
	require.False(t, p.pause.whole)

	// The deepest queue in traces of Linux nodes.
	table := observeFile(t, "ioam-linux618-hpcc.pcap")
	for _, f := range table.Snapshot().Flows {
		require.True(t, f.Queue.Known)
		require.Contains(t, []uint64{0xB2, 0xC3, 0xD4}, f.Queue.Node)
	}
}

// newFrame returns an Ethernet frame with IPv4, UDP, BTH and n zero octets after the 14, 20 and 8
// octets of headers. The UDP length is udpLength; the other lengths are correct.
func newFrame(op bth.Opcode, qp byte, port uint16, udpLength, n int) []byte {
	b := make([]byte, 14+20+8+n)
	copy(b[12:], []byte{8, 0, 0x45, 0})
	be.PutUint16(b[16:], uint16(20+8+n))
	copy(b[22:], []byte{64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2})
	be.PutUint16(b[34:], 50000)
	be.PutUint16(b[36:], port)
	be.PutUint16(b[38:], uint16(udpLength))
	b[42], b[44], b[45], b[49], b[53] = byte(op), 0xFF, 0xFF, qp, 77
	for i := 54; i < len(b); i++ {
		b[i] = byte(i)
	}
	return b
}

// Decoded fields of each packet kind, by octet: the extended headers begin at octet 54.
func TestDecodedOctets(t *testing.T) {
	const port = rocev2.Port
	for _, c := range []struct {
		name                string
		b                   []byte
		want                kind
		asked, srcQP, octet uint32
		syndrome            bth.Syndrome
	}{
		{"SEND Only", newFrame(bth.RCSendOnly, 18, port, 8+12+10+4, 12+10+4), requestKind, 0, 0, 10, 0},
		{"SEND Only, empty", newFrame(bth.RCSendOnly, 18, port, 8+12+4, 12+4), requestKind, 0, 0, 0, 0},
		{"another port", newFrame(bth.RCSendOnly, 18, 4790, 8+12+10+4, 12+10+4), otherTraffic, 0, 0, 0, 0},
		{"UDP longer than IP", newFrame(bth.RCAcknowledge, 18, port, 8+12+4+5, 12+4+4), invalidKind, 0, 0, 0, 0},
		{"trimmed", newFrame(bth.RCSendOnly, 18, port, 8+12+10+5, 12+10+4), trimmedKind, 0, 0, 0, 0},
		{"UDP shorter than the headers", newFrame(bth.RCAcknowledge, 18, port, 8+12+7, 12+7), invalidKind, 0, 0, 0, 0},
		{"READ request", newFrame(bth.RCRDMAReadRequest, 18, port, 8+12+16+4, 12+16+4), requestKind,
			66<<24 | 67<<16 | 68<<8 | 69, 0, 0, 0},
		{"READ response Middle", newFrame(bth.RCRDMAReadResponseMiddle, 18, port, 8+12+9+4, 12+9+4), answerKind, 0,
			0, 9, 0},
		{"READ response Only", newFrame(bth.RCRDMAReadResponseOnly, 18, port, 8+12+4+9+4, 12+4+9+4), answerKind, 0,
			0, 9, 54},
		{"UD SEND Only", newFrame(bth.UDSendOnly, 18, port, 8+12+8+3+4, 12+8+3+4), requestKind, 0,
			59<<16 | 60<<8 | 61, 3, 0},
		{"RD SEND Only", newFrame(bth.TransportRD.Opcode(bth.OpSendOnly), 18, port, 8+12+12+3+4, 12+12+3+4),
			requestKind,
			0, 63<<16 | 64<<8 | 65, 3,
			0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var d Decoder
			var p Packet
			d.Decode(&p, c.b, rocev2.DecodeOptions{})
			require.Equal(t, c.want, p.kind)
			if p.kind == requestKind || p.kind == answerKind {
				require.EqualValues(t, []any{c.asked, c.srcQP, c.octet, c.syndrome, uint32(77), uint16(50000), false,
					true},
					[]any{p.pkt.DMA, p.pkt.SrcQP, p.pkt.Payload, p.pkt.Syndrome, p.pkt.PSN,
						p.pkt.SrcPort, p.truncated, p.icrcWrong})
				require.Equal(t, rocev2.FlowKey{Src: netip.AddrFrom4([4]byte{192, 0, 2, 1}),
					Dst: netip.AddrFrom4([4]byte{192, 0, 2, 2}), DestQP: 18}, p.pkt.Flow.FlowKey())
			}
		})
	}
	// A truncated packet counts unless it was invalid before: AETH and ICRC take 8 octets after the
	// BTH.
	for _, c := range []struct {
		length int
		want   kind
	}{{8 + 12 + 7, truncatedKind}, {8 + 12 + 8, answerKind}} {
		t.Run(fmt.Sprint(c.length), func(t *testing.T) {
			var d Decoder
			var p Packet
			d.Decode(&p, newFrame(bth.RCAcknowledge, 18, port, c.length, c.length-8)[:14+20+8+12],
				rocev2.DecodeOptions{AllowTruncated: true})
			require.Equal(t, c.want, p.kind, c.length)
		})
	}
}

// With a Routing header, the destination is its last address.
func TestRoutedPackets(t *testing.T) {
	b := newWrite(t, 10, 30)
	srh := append([]byte{17, 2, 4, 1, 0, 0, 0, 0}, make([]byte, 16)...)
	final := netip.MustParseAddr("2001:db8:5::f").As16()
	copy(srh[8:], final[:])
	b = append(append(append([]byte(nil), b[:40]...), srh...), b[40:]...)
	b[6] = 43
	be.PutUint16(b[4:], be.Uint16(b[4:])+24)
	var d Decoder
	var p Packet
	require.True(t, d.Decode(&p, b, rocev2.DecodeOptions{Link: rocev2.LinkIP}))
	require.Equal(t, rocev2.FlowKey{Src: hostA, Dst: netip.AddrFrom16(final), DestQP: 18}, p.pkt.Flow.FlowKey())
}

// The flows named by messages, and the queues in a Fast CNP's trace, agree with testdata/tshark.
func TestNamedFlows(t *testing.T) {
	all := wiretest.Capture(t, "messages.pcap")
	for _, c := range []struct {
		frame int
		want  rocev2.FlowKey
	}{
		{7, rocev2.FlowKey{Src: netip.MustParseAddr("2001:db8:1::1"), Dst: netip.MustParseAddr("2001:db8:4::e"),
			DestQP: 17}},
		{15, rocev2.FlowKey{Src: netip.MustParseAddr("2001:db8:1::1"), Dst: netip.MustParseAddr("2001:db8:4::e"),
			DestQP: 17}},
		{16, rocev2.FlowKey{Src: netip.MustParseAddr("192.0.2.1"), Dst: netip.MustParseAddr("192.0.2.14"), DestQP: 17}},
	} {
		t.Run(fmt.Sprint(c.frame), func(t *testing.T) {
			var d Decoder
			var p Packet
			require.True(t, d.Decode(&p, all[c.frame-1].Data, rocev2.DecodeOptions{}))
			require.Equal(t, c.want, p.about.FlowKey(), c.frame)
			if c.frame == 7 {
				require.Equal(t, QueueDepth{195, 65535, true}, p.queue)
				require.Equal(t, []QueueDepth{{212, 64, true}, {195, 65535, true}, {178, 5, true}}, p.hops[:p.nHops])
			}
		})
	}
}

// For most packets, Decode writes only to the first two cache lines. Reset writes to the same lines. Decoding does not
// depend on Reset.
func TestReset(t *testing.T) {
	const cacheLine = 64
	if bits.UintSize == 64 {
		require.Zero(t, unsafe.Sizeof(Packet{})%cacheLine)
	}
	require.Less(t, unsafe.Offsetof(Packet{}.kind), uintptr(cacheLine))
	attribute := unsafe.Offsetof(Packet{}.pkt) + unsafe.Offsetof(Packet{}.pkt.CM)
	require.GreaterOrEqual(t, attribute, uintptr(cacheLine))
	require.Less(t, attribute, uintptr(2*cacheLine))
	var d Decoder
	for i, r := range wiretest.Capture(t, "messages.pcap") {
		var zero, reset Packet
		for j := range unsafe.Sizeof(reset) {
			*(*byte)(unsafe.Add(unsafe.Pointer(&reset), j)) = 1
		}
		reset.pkt.CM.Attribute = 0x10
		reset.Reset()
		d.Decode(&zero, r.Data, rocev2.DecodeOptions{})
		table, same := New(Config{}), New(Config{})
		table.Observe(&zero, 1, time.Unix(1e9, 0))
		counts := d.Decode(&reset, r.Data, rocev2.DecodeOptions{})
		same.Observe(&reset, 1, time.Unix(1e9, 0))
		require.Equal(t, table.Snapshot(), same.Snapshot(), "frame %d, counts %v", i+1, counts)
	}
	write := newWrite(t, 1, 30)
	for _, octets := range []int{len(write), 52, 40, 20} {
		var p Packet
		d.Decode(&p, write[:octets], rocev2.DecodeOptions{Link: rocev2.LinkIP, AllowTruncated: octets < len(write)})
		p.Reset()
		table := New(Config{})
		table.Observe(&p, 1, time.Unix(1e9, 0))
		require.Equal(t, Stats{Packets: 1, Others: 1}, table.Stats(), "%d octets", octets)
	}
}
