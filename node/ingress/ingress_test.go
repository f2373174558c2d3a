package ingress

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"testing"
	"time"
	"unsafe"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/cnp"
	"github.com/rocecn/rocecn/encap"
	"github.com/rocecn/rocecn/fcn"
	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/internal/flowtable"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/acl"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

var (
	start            = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	own, egress      = addr("2001:db8:fe::1"), addr("2001:db8:fe::9")
	p1               = addr("2001:db8:fe::5") // a node of the WAN
	cnp4, cnp6       = addr("10.0.1.254"), addr("2001:db8:1::fe")
	sender4, remote4 = addr("10.0.1.1"), addr("10.0.4.1")
	sender6, remote6 = addr("2001:db8:1::1"), addr("2001:db8:4::1")
	tunnel           = &encap.IPInIPv6{Src: own, Dst: egress}
	flow4            = rocev2.FlowKey{Src: sender4, Dst: remote4, DestQP: 0x11}
	flow6            = rocev2.FlowKey{Src: sender6, Dst: remote6, DestQP: 0x11}
)

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

func config() Config {
	return Config{
		Enabled: true, WAN: own, Self4: cnp4, Self6: cnp6,
		Accept: acl.New(netip.MustParsePrefix("2001:db8:fe::/48")),
		QPs:    qpmap.New(qpmap.Config{MaxPairs: 1 << 10}), // the default size takes 43 MB
		Seed:   1,
	}
}

// newPE returns a PE that knows the sender's queue pair of both flows: 0x21.
func newPE(t testing.TB, change func(*Config)) *Role {
	cfg := config()
	cfg.QPs.(*qpmap.Map).Add(qpmap.Key{FlowKey: flow4}, qpmap.Pair{SrcQP: 0x21})
	cfg.QPs.(*qpmap.Map).Add(qpmap.Key{FlowKey: flow6}, qpmap.Pair{SrcQP: 0x21})
	if change != nil {
		change(&cfg)
	}
	return wiretest.Must(New(cfg))(t)
}

// octets returns a data packet of a flow, with this ECN field.
func octets(t testing.TB, k rocev2.FlowKey, ecn rocev2.ECN) []byte {
	p := packetOf(k)
	p.HopLimit, p.TrafficClass, p.BTH.PKey = 64, 26<<2|uint8(ecn), 0x8001
	p.Payload = make([]byte, 1024)
	if k.Src.Is6() {
		p.FlowLabel = 0x12345
	}
	return wiretest.Must(p.AppendBinary(nil))(t)
}

func messageAbout(t testing.TB, label uint32) []byte {
	return wiretest.Must(fcn.Message{FlowLabel: label, Level: 3}.AppendBinary(nil))(t)
}

func TestForward(t *testing.T) {
	for _, c := range []struct {
		name string
		via  encap.Tunnel
	}{
		{"IP in IPv6", tunnel},
		{"SRv6", &encap.SRv6{Src: own, Segments: []netip.Addr{egress, addr("fc00::d6")}}},
		{"VXLAN", &encap.VXLAN{Src: own, Dst: egress, VNI: 7, Ethernet: make([]byte, 14)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, k := range []rocev2.FlowKey{flow4, flow6} {
				for ecn := range rocev2.ECN(4) {
					pe := newPE(t, nil)
					inner := octets(t, k, ecn)
					before := bytes.Clone(inner)
					out, f, err := pe.send([]byte{9}, inner, 0, c.via, start)
					require.NoError(t, err)
					require.Equal(t, before, inner)
					require.Equal(t, byte(9), out[0])
					require.True(t, f.RoCEv2)
					require.Equal(t, node.NoReason, f.Reason)
					require.NotZero(t, f.Label)

					var got rocev2.Frame
					got.Decode(out[1:], rocev2.DecodeOptions{Link: rocev2.LinkIP})
					require.Equal(t, f.Label, got.Outer().FlowLabel())
					require.Equal(t, ecn, got.Outer().ECN())
					require.Equal(t, own, got.Outer().Src())
					require.Equal(t, inner, got.Inner().IP())
					if k.Src.Is6() {
						require.EqualValues(t, 0x12345, got.Inner().FlowLabel(), "the inner label stays as it is")
					}

					_, again, err := pe.send(nil, inner, 0, c.via, start.Add(time.Second))
					require.NoError(t, err)
					require.Equal(t, f, again, "the same flow")
					notCapable := uint64(0)
					if ecn == 0 {
						notCapable = 2
					}
					require.Equal(t, []uint64{1, 2, notCapable, 0, 0},
						[]uint64{pe.effect(node.EffectOpened), pe.counted(node.ActionForwarded),
							pe.effect(node.EffectNotECNCapable), pe.effect(node.EffectUnlabelled),
							pe.counted(node.ActionRefused)})
					require.Equal(t, 1, pe.Len())
				}
			}
		})
	}
}

// A packet on its way through segments (RFC 8754) is of the flow to the last of them.
func TestForwardSegments(t *testing.T) {
	pe := newPE(t, nil)
	plain := octets(t, flow6, 1)
	_, want, err := pe.send(nil, plain, 0, tunnel, start)
	require.NoError(t, err)
	header := []byte{17, 4, 4, 1, 1, 0, 0, 0} // UDP is next, 40 octets, Segments Left 1, Last Entry 1
	header = append(append(header, remote6.AsSlice()...), p1.AsSlice()...)
	routed := append(append(bytes.Clone(plain[:40]), header...), plain[40:]...)
	binary.BigEndian.PutUint16(routed[4:], uint16(len(routed)-40))
	routed[6] = 43
	copy(routed[24:], p1.AsSlice())
	_, got, err := pe.send(nil, routed, 0, tunnel, start)
	require.NoError(t, err)
	require.Equal(t, want, got)
	require.Equal(t, 1, pe.Len())
}

// A packet that belongs to no RoCEv2 flow is forwarded with label 0, and leaves no state.
func TestForwardOther(t *testing.T) {
	broken := octets(t, flow4, 1)
	broken[20+4], broken[20+5] = 0, 9 // the UDP length: no room for a BTH
	other := octets(t, flow6, 1)
	other[40+3]++ // the UDP destination port
	tunnelled := wiretest.Must(tunnel.Append(nil, octets(t, flow6, 1), 5))(t)
	pe := newPE(t, nil)
	for _, c := range []struct {
		name  string
		inner []byte
		want  forwarded
	}{
		{"another port", other, forwarded{}},
		{"in a tunnel of its own", tunnelled, forwarded{RoCEv2: true, Reason: node.ReasonTunnelled}},
		{"broken", broken, forwarded{RoCEv2: true, Reason: node.ReasonBroken}},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, f, err := pe.send(nil, c.inner, 0, tunnel, start)
			require.NoError(t, err)
			require.Equal(t, c.want, f)
			require.Zero(t, be.Uint32(out)&0xFFFFF)
			require.Equal(t, c.inner, out[40:])
		})
	}
	require.Zero(t, pe.Len())
	require.EqualValues(t, 3, pe.effect(node.EffectUnlabelled))
	require.EqualValues(t, 1, pe.refused(node.ReasonBroken))

	out, _, err := pe.send([]byte{9}, []byte{1, 2, 3}, 0, tunnel, start)
	require.Error(t, err, "no IP packet fits into no tunnel")
	require.Equal(t, []byte{9}, out)
}

// A packet to the PE itself is not forwarded, even with RoCEv2 inside.
func TestForwardToItself(t *testing.T) {
	toPE := wiretest.Must((&encap.IPInIPv6{Src: egress, Dst: own}).Append(nil, octets(t, flow6, 1), 5))(t)
	pe := newPE(t, nil)
	frame.Decode(toPE, rocev2.DecodeOptions{Link: rocev2.LinkIP})
	out, d := pe.enter([]byte{9}, &frame, 0, tunnel, start)
	require.Equal(t, []byte{9}, out)
	require.Equal(t, node.Decision{Packet: message.KindData}, d)
	require.Zero(t, pe.Len())
	require.Zero(t, pe.counted(node.ActionForwarded)+pe.counted(node.ActionRefused)+pe.effect(node.EffectUnlabelled))
}

// Flows differ by source, destination, queue pair and domain, and by nothing else.
func TestFlows(t *testing.T) {
	pe := newPE(t, nil)
	seen := map[uint32]bool{}
	for _, k := range []rocev2.FlowKey{
		flow4, flow6, {Src: remote4, Dst: sender4, DestQP: 0x11}, {Src: sender4, Dst: addr("10.0.4.2"), DestQP: 0x11},
		{Src: sender4, Dst: remote4, DestQP: 0x12},
		{Src: addr("::ffff:10.0.1.1"), Dst: addr("::ffff:10.0.4.1"), DestQP: 0x11},
	} {
		for domain := range uint32(2) {
			p := packetOf(k)
			label, reason := pe.give(p, domain, start)
			require.Equal(t, node.NoReason, reason)
			require.NotContains(t, seen, label, "%v %d", k, domain)
			seen[label] = true
			p.SrcPort, p.BTH.PSN, p.BTH.Opcode, p.TrafficClass, p.FlowLabel = 77, 99, 0x0A, 3, 5
			again, reason := pe.give(p, domain, start)
			require.Equal(t, node.NoReason, reason)
			require.Equal(t, label, again)
		}
	}
	known := 0
	for f := range pe.Flows(start) {
		require.Contains(t, seen, f.Label)
		if f.KnownQP && !f.Src.Is4In6() {
			known++
			require.EqualValues(t, 0x21, f.SrcQP)
			require.Zero(t, f.Domain)
		}
	}
	require.Equal(t, 2, known)
	require.Equal(t, 12, pe.Len())
	for range pe.Flows(start) {
		break
	}
}

func TestIdleFlowsLeave(t *testing.T) {
	pe := newPE(t, func(c *Config) { c.Idle, c.Quarantine = time.Second, time.Second })
	label := func(at time.Duration) uint32 {
		l, reason := pe.give(packetOf(flow4), 0, start.Add(at))
		require.Equal(t, node.NoReason, reason)
		return l
	}
	first := label(0)
	require.Equal(t, first, label(999*time.Millisecond))
	require.Equal(t, first, label(1998*time.Millisecond))
	require.Zero(t, pe.expired(start.Add(2997*time.Millisecond)))
	require.Equal(t, 1, pe.expired(start.Add(2998*time.Millisecond)))
	require.Zero(t, pe.Len())
	second := label(3 * time.Second)
	require.NotEqual(t, first, second)
	third := label(4 * time.Second)
	require.NotEqual(t, second, third, "exactly Idle later it is a new flow, also without an expiry before")
	require.Equal(t, 1, pe.Len())
	require.EqualValues(t, 3, pe.effect(node.EffectOpened))
}

// A full table rejects new flows and keeps the live ones, until one is idle.
func TestFullTable(t *testing.T) {
	pe := newPE(t, func(c *Config) { c.MaxFlows, c.Idle = 3, time.Second })
	inner := func(qp uint32) []byte { return octets(t, rocev2.FlowKey{Src: sender4, Dst: remote4, DestQP: qp}, 1) }
	labels := map[uint32]uint32{}
	for qp := range uint32(3) {
		_, f, err := pe.send(nil, inner(qp), 0, tunnel, start.Add(time.Duration(qp)))
		require.NoError(t, err)
		labels[qp] = f.Label
	}
	for range 10 {
		out, f, err := pe.send(nil, inner(3), 0, tunnel, start.Add(999*time.Millisecond))
		require.NoError(t, err)
		require.Equal(t, forwarded{RoCEv2: true, Reason: node.ReasonTableFull}, f)
		require.Zero(t, be.Uint32(out)&0xFFFFF)
		require.Equal(t, inner(3), out[40:])
	}
	require.EqualValues(t, 10, pe.refused(node.ReasonTableFull))
	require.Zero(t, pe.Free())
	for qp, label := range labels {
		_, f, _ := pe.send(nil, inner(qp), 0, tunnel, start.Add(999*time.Millisecond))
		require.Equal(t, label, f.Label)
	}
	_, f, _ := pe.send(nil, inner(0), 0, tunnel, start.Add(1500*time.Millisecond))
	require.Equal(t, labels[0], f.Label)
	_, f, _ = pe.send(nil, inner(3), 0, tunnel, start.Add(1999*time.Millisecond))
	require.NotZero(t, f.Label)
	require.NotContains(t, []uint32{labels[0], labels[1], labels[2]}, f.Label)
}

// After a jump of time into the past no flow stays for longer than Idle, and small steps back between frames let no
// flow age.
func TestTimeJumpsBack(t *testing.T) {
	pe := newPE(t, func(c *Config) { c.MaxFlows, c.Idle = 2, time.Second })
	at := func(qp uint32, now time.Time) node.Reason {
		_, reason := pe.give(packetOf(rocev2.FlowKey{Src: sender4, Dst: remote4, DestQP: qp}), 0, now)
		return reason
	}
	for qp := range uint32(2) {
		require.Equal(t, node.NoReason, at(qp, start))
	}
	past := start.Add(-time.Hour)
	require.Equal(t, node.ReasonTableFull, at(2, past))
	require.Equal(t, node.ReasonTableFull, at(2, past.Add(time.Second-1)))
	require.Equal(t, node.NoReason, at(2, past.Add(time.Second)))

	pe = newPE(t, func(c *Config) { c.MaxFlows, c.Idle = 2, time.Second })
	require.Equal(t, node.NoReason, at(0, start))
	for i := range 10_000 { // two capture queues, 1 ms apart
		require.Equal(t, node.NoReason, at(1, start.Add(time.Duration(i%2)*time.Millisecond)))
	}
	require.Zero(t, pe.expired(start.Add(999*time.Millisecond)))
	for _, now := range []time.Time{{}, time.Unix(1<<40, 0), time.Unix(-1<<40, 0), time.Unix(0, 0)} {
		_ = at(5, now) // no panic
	}
}

func TestReceive(t *testing.T) {
	for _, c := range []struct {
		flow rocev2.FlowKey
		src  netip.Addr
	}{{flow4, cnp4}, {flow6, cnp6}} {
		pe := newPE(t, nil)
		_, f, err := pe.send(nil, octets(t, c.flow, 1), 0, tunnel, start)
		require.NoError(t, err)
		out, n, reason := pe.receiveFCN([]byte{9}, p1, messageAbout(t, f.Label), start)
		require.Equal(t, node.NoReason, reason)
		require.Equal(t, notice{Flow: c.flow, Label: f.Label, SrcQP: 0x21, Level: 3}, n)
		requireCNP(t, out[1:], c.src, c.flow.Src, 0x21, 0x8001)
		require.EqualValues(t, 1, pe.counted(node.ActionSent))
	}
}

func requireCNP(t *testing.T, ip []byte, src, dst netip.Addr, qp uint32, pKey uint16) {
	t.Helper()
	var p rocev2.Packet
	require.NoError(t, p.DecodeIP(ip))
	got, err := cnp.FromPacket(&p)
	require.NoError(t, err)
	require.Equal(t, cnp.New(qp, pKey), got)
	require.Equal(t, src, p.Src)
	require.Equal(t, dst, p.Dst)
	_, err = icrc.Verify(p.IP)
	require.NoError(t, err)
}

// The pair may be known before the first packet, or learned after it.
func TestPairLearnedLater(t *testing.T) {
	cfg := config()
	pe := wiretest.Must(New(cfg))(t)
	_, f, err := pe.send(nil, octets(t, flow6, 1), 0, tunnel, start)
	require.NoError(t, err)
	_, _, reason := pe.receiveFCN(nil, p1, messageAbout(t, f.Label), start)
	require.Equal(t, node.ReasonUnknownQP, reason)
	cfg.QPs.(*qpmap.Map).Add(qpmap.Key{FlowKey: flow6}, qpmap.Pair{SrcQP: 0x31})
	_, n, reason := pe.receiveFCN(nil, p1, messageAbout(t, f.Label), start)
	require.Equal(t, node.NoReason, reason)
	require.EqualValues(t, 0x31, n.SrcQP)
}

// VPNs with equal addresses: each flow has its own label, and the CNP its own
// queue pair and its own VPN.
func TestDomains(t *testing.T) {
	pe := newPE(t, nil)
	for domain := range uint32(3) {
		pe.cfg.QPs.(*qpmap.Map).Add(qpmap.Key{FlowKey: flow4, Domain: domain}, qpmap.Pair{SrcQP: 0x40 + domain})
	}
	for domain := range uint32(3) {
		_, f, err := pe.send(nil, octets(t, flow4, 1), domain, tunnel, start)
		require.NoError(t, err)
		out, n, reason := pe.receiveFCN(nil, p1, messageAbout(t, f.Label), start)
		require.Equal(t, node.NoReason, reason)
		require.Equal(t, domain, n.Domain)
		requireCNP(t, out, cnp4, sender4, 0x40+domain, 0x8001)
	}
}

func TestReceiveRejects(t *testing.T) {
	label := func(t *testing.T, pe *Role, k rocev2.FlowKey, op bth.Opcode) uint32 {
		p := packetOf(k)
		p.BTH.Opcode = op
		l, reason := pe.give(p, 0, start)
		require.Equal(t, node.NoReason, reason)
		return l
	}
	const send = bth.Opcode(bth.OpSendOnly)
	for _, c := range []struct {
		name   string
		change func(*Config)
		flow   rocev2.FlowKey
		op     bth.Opcode
		from   netip.Addr
		data   func(label uint32) []byte // the FCN, nil for one about the flow
		want   node.Reason
	}{
		{"no list", func(c *Config) { c.Accept = nil }, flow6, send, p1, nil, node.ReasonDenied},
		{"not on the list", nil, flow6, send, addr("2001:db8:ff::5"), nil, node.ReasonDenied},
		{"no octets", nil, flow6, send, p1, func(uint32) []byte { return nil }, node.ReasonBroken},
		{"3 octets", nil, flow6, send, p1, func(l uint32) []byte { return messageAbout(t, l)[:3] }, node.ReasonBroken},
		{"5 octets", nil, flow6, send, p1, func(l uint32) []byte { return append(messageAbout(t, l), 0) },
			node.ReasonBroken},
		{"label 0", nil, flow6, send, p1, func(uint32) []byte { return messageAbout(t, 0) }, node.ReasonUnknownLabel},
		{"another label", nil, flow6, send, p1, func(l uint32) []byte { return messageAbout(t, l^1) },
			node.ReasonUnknownLabel},
		{"acknowledgements", nil, flow6, bth.Opcode(bth.OpAcknowledge), p1, nil, node.ReasonAcknowledgement},
		{"CNPs", nil, flow6, bth.CNP, p1, nil, node.ReasonAcknowledgement},
		{"sender link-local", nil, rocev2.FlowKey{Src: addr("fe80::1"), Dst: remote6, DestQP: 1}, send, p1, nil,
			node.ReasonAddress},
		{"sender multicast", nil, rocev2.FlowKey{Src: addr("224.0.0.1"), Dst: remote4, DestQP: 1}, send, p1, nil,
			node.ReasonAddress},
		{"sender is the PE", nil, rocev2.FlowKey{Src: cnp4, Dst: remote4, DestQP: 1}, send, p1, nil,
			node.ReasonOwnAddress},
		{"sender is the PE in the WAN", nil, rocev2.FlowKey{Src: own, Dst: remote6, DestQP: 1}, send, p1, nil,
			node.ReasonOwnAddress},
		{"no IPv4 address", func(c *Config) { c.Self4 = netip.Addr{} }, flow4, send, p1, nil, node.ReasonNoMethod},
		{"no IPv6 address", func(c *Config) { c.Self6 = netip.Addr{} }, flow6, send, p1, nil, node.ReasonNoMethod},
		{"pair not known", nil, rocev2.FlowKey{Src: sender6, Dst: remote6, DestQP: 0x12}, send, p1, nil,
			node.ReasonUnknownQP},
		{"no pairs", func(c *Config) { c.QPs = nil }, flow6, send, p1, nil, node.ReasonUnknownQP},
	} {
		t.Run(c.name, func(t *testing.T) {
			pe := newPE(t, c.change)
			l := label(t, pe, c.flow, c.op)
			data := messageAbout(t, l)
			if c.data != nil {
				data = c.data(l)
			}
			out, n, reason := pe.receiveFCN([]byte{9}, c.from, data, start)
			require.Equal(t, c.want, reason)
			require.Equal(t, []byte{9}, out)
			require.Zero(t, n)
			require.EqualValues(t, 1, pe.refused(c.want))
			require.Zero(t, pe.counted(node.ActionSent))
			wiretest.NoAllocs(t, c.name, func() { _, _, _ = pe.receiveFCN(nil, c.from, data, start) })
		})
	}
}

// An FCN about a flow that has been idle leads to no CNP, for as long as the label is in quarantine.
func TestLateFCN(t *testing.T) {
	pe := newPE(t, func(c *Config) {
		c.Instances, c.Instance = 1<<18, 5 // 4 labels
		c.Idle, c.Quarantine = time.Second, time.Minute
	})
	_, f, err := pe.send(nil, octets(t, flow6, 1), 0, tunnel, start)
	require.NoError(t, err)
	late := messageAbout(t, f.Label)
	_, _, reason := pe.receiveFCN(nil, p1, late, start.Add(time.Second-1))
	require.Equal(t, node.NoReason, reason)
	for at := time.Second; at < time.Minute; at += time.Second {
		_, _, reason = pe.receiveFCN(nil, p1, late, start.Add(at))
		require.Equal(t, node.ReasonUnknownLabel, reason)
		_, _, _ = pe.send(nil, octets(t, rocev2.FlowKey{Src: sender6, Dst: remote6, DestQP: uint32(at / time.Second)},
			1), 0, tunnel, start.Add(at))
	}
}

// An FCN for another instance is none of this one's.
func TestReceiveOtherInstance(t *testing.T) {
	a := newPE(t, func(c *Config) { c.Instances = 2 })
	b := newPE(t, func(c *Config) { c.Instances, c.Instance = 2, 1 })
	l, reason := a.give(packetOf(flow6), 0, start)
	require.Equal(t, node.NoReason, reason)
	require.Zero(t, l%2)
	_, _, reason = b.receiveFCN(nil, p1, messageAbout(t, l), start)
	require.Equal(t, node.ReasonUnknownLabel, reason)
	_, _, reason = a.receiveFCN(nil, p1, messageAbout(t, l), start)
	require.Equal(t, node.NoReason, reason)
}

func TestReceivePacket(t *testing.T) {
	pe := newPE(t, nil)
	label, reason := pe.give(packetOf(flow6), 0, start)
	require.Equal(t, node.NoReason, reason)
	m := fcn.Message{FlowLabel: label, Level: 2}
	datagram := func(src, dst netip.Addr, change func(ip []byte)) *rocev2.Datagram {
		ip := wiretest.Must(m.AppendPacket(nil, src, dst, fcn.Config{}))(t)
		if change != nil {
			change(ip)
		}
		var d rocev2.Datagram
		require.NoError(t, d.DecodeIP(ip))
		return &d
	}
	through := wiretest.Must((&encap.IPInIPv6{Src: p1, Dst: own}).Append(nil, datagram(p1, own, nil).IP, 1))(t)
	var tunnelled rocev2.Datagram
	require.NoError(t, tunnelled.DecodeIP(through))
	for _, c := range []struct {
		name string
		d    *rocev2.Datagram
		want node.Reason
	}{
		{"right", datagram(p1, own, nil), node.NoReason},
		{"another address", datagram(p1, egress, nil), node.ReasonNotOurs},
		{"address towards senders", datagram(p1, cnp6, nil), node.ReasonNotOurs},
		{"denied", datagram(addr("2001:db8:ff::5"), own, nil), node.ReasonDenied},
		{"checksum", datagram(p1, own, func(ip []byte) { ip[46]++ }), node.ReasonChecksum},
		{"no checksum", datagram(p1, own, func(ip []byte) { ip[46], ip[47] = 0, 0 }), node.ReasonChecksum},
		{"tunnelled", &tunnelled, node.ReasonTunnelled},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, n, reason := pe.see(nil, c.d, start)
			if c.want == node.NoReason {
				require.Equal(t, node.NoReason, reason)
				requireCNP(t, out, cnp6, sender6, 0x21, 0xFFFF)
				require.EqualValues(t, 2, n.Level)
				return
			}
			require.Equal(t, c.want, reason)
			require.Empty(t, out)
		})
	}
}

func TestLimits(t *testing.T) {
	const interval = 50 * time.Microsecond
	pe := newPE(t, func(c *Config) { c.PerFlow, c.Out = interval, node.Rate{PerSecond: 1, Burst: 3} })
	l4, _ := pe.give(packetOf(flow4), 0, start)
	l6, _ := pe.give(packetOf(flow6), 0, start)
	for _, c := range []struct {
		label uint32
		at    time.Duration
		sent  bool
	}{
		{l4, 0, true},
		{l4, 0, false},
		{l6, 0, true},
		{l4, interval - 1, false},
		{l4, interval, true}, // exactly one interval later
		{l6, interval, false},
		{l6, time.Second - 1, false}, // a rejected FCN is not charged
		{l6, time.Second, true},
		{l4, time.Second, false},
	} {
		_, _, reason := pe.receiveFCN(nil, p1, messageAbout(t, c.label), start.Add(c.at))
		if c.sent {
			require.Equal(t, node.NoReason, reason, c)
		} else {
			require.Equal(t, node.ReasonLimited, reason, c)
		}
	}
	require.EqualValues(t, 4, pe.counted(node.ActionSent))
}

func TestCongested(t *testing.T) {
	pe := newPE(t, nil)
	var p rocev2.Packet
	require.NoError(t, p.DecodeIP(octets(t, flow4, rocev2.ECT1)))
	out, n, reason := pe.receiveQueued(t, nil, &p, 0, start)
	require.Equal(t, node.NoReason, reason)
	require.Equal(t, notice{Flow: flow4, SrcQP: 0x21}, n, "a CNP needs no label")
	requireCNP(t, out, cnp4, sender4, 0x21, 0x8001)
	label, reason := pe.give(&p, 0, start)
	require.Equal(t, node.NoReason, reason)
	_, n, reason = pe.receiveQueued(t, nil, &p, 0, start)
	require.Equal(t, node.NoReason, reason)
	require.Equal(t, label, n.Label)

	for _, c := range []struct {
		want   node.Reason
		change func(*rocev2.Packet)
	}{
		{node.ReasonTunnelled, func(p *rocev2.Packet) { p.Outer = make([]byte, 40) }},
		{node.ReasonAcknowledgement, func(p *rocev2.Packet) { p.BTH.Opcode = bth.Opcode(bth.OpAtomicAcknowledge) }},
		{node.ReasonNotification, func(p *rocev2.Packet) { p.BTH.Opcode = bth.CNP }},
		{node.ReasonNotCapable, func(p *rocev2.Packet) { p.TrafficClass = 0 }},
		{node.ReasonAddress, func(p *rocev2.Packet) { p.Src = addr("127.0.0.1") }},
		{node.ReasonOwnAddress, func(p *rocev2.Packet) { p.Src = cnp4 }},
		{node.ReasonUnknownQP, func(p *rocev2.Packet) { p.BTH.DestQP++ }},
	} {
		t.Run(fmt.Sprint(c.want), func(t *testing.T) {
			other := p
			c.change(&other)
			_, _, reason := pe.receiveQueued(t, nil, &other, 0, start)
			require.Equal(t, c.want, reason)
		})
	}
	for _, c := range []struct {
		name   string
		want   node.Reason
		change func(ip []byte) []byte
	}{
		{"UDP length", node.ReasonBroken, func(ip []byte) []byte { ip[20+5] = 9; ip[20+4] = 0; return ip }},
		{"IPv4 total length", node.ReasonTrimmed, func(ip []byte) []byte { ip[2], ip[3] = 0, 90; return ip[:90] }},
		{"UDP destination port", node.ReasonNotOurs, func(ip []byte) []byte { ip[20+3]++; return ip }},
		{"protocol", node.ReasonNotOurs, func(ip []byte) []byte { ip[9] = 6; return ip }},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, _, reason := pe.receiveQueued(t, nil, &p, 0, start)
			require.Equal(t, node.NoReason, reason, "the packet before")
			frame.Decode(c.change(octets(t, flow4, rocev2.ECT1)), rocev2.DecodeOptions{Link: rocev2.LinkIP})
			out, d := pe.Receive(nil, &frame, node.Event{Level: 1, Now: start})
			require.Empty(t, out)
			require.Equal(t, c.want, d.Reason)
		})
	}
}

func TestOffByDefault(t *testing.T) {
	pe, err := New(Config{MaxFlows: -5})
	require.NoError(t, err, "a role that is off needs no other setting")
	out, _, err := pe.send([]byte{9}, octets(t, flow4, 1), 0, tunnel, start)
	require.EqualError(t, err, node.ReasonDisabled.String())
	require.Equal(t, []byte{9}, out)
	_, reason := pe.give(packetOf(flow4), 0, start)
	require.Equal(t, node.ReasonDisabled, reason)
	_, _, reason = pe.receiveFCN(nil, p1, messageAbout(t, 1), start)
	require.Equal(t, node.ReasonDisabled, reason)
	data := rocev2.Datagram{Src: p1, Dst: own, DstPort: fcn.Port, Data: messageAbout(t, 1)}
	ip := wiretest.Must(data.AppendBinary(nil))(t)
	_, _, reason = pe.see(nil, &rocev2.Datagram{IP: ip}, start)
	require.Equal(t, node.ReasonDisabled, reason)
	_, _, reason = pe.receiveQueued(t, nil, packetOf(flow4), 0, start)
	require.Equal(t, node.ReasonDisabled, reason)
	through := wiretest.Must(tunnel.Append(nil, octets(t, flow4, 1), 5))(t)
	frame.Decode(through, rocev2.DecodeOptions{Link: rocev2.LinkIP})
	require.NoError(t, pe.Configure(Config{IgnoreTunnels: true}))
	_, d := pe.Receive(nil, &frame, node.Event{Now: start})
	require.Equal(t, node.NoAction, d.Action)
	require.Zero(t, pe.expired(start))
	require.Zero(t, pe.Free())
	for range pe.Flows(start) {
		t.Fatal("no flows")
	}
	require.EqualValues(t, 5, pe.refused(node.ReasonDisabled))
}

func TestConfig(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Config)
	}{
		{"WAN", func(c *Config) { c.WAN = netip.Addr{} }},
		{"WAN 10.0.1.254", func(c *Config) { c.WAN = cnp4 }},
		{"WAN ::1", func(c *Config) { c.WAN = addr("::1") }},
		{"Self4", func(c *Config) { c.Self4 = cnp6 }},
		{"Self6", func(c *Config) { c.Self6 = addr("fe80::1") }},
		{"MaxFlows", func(c *Config) { c.MaxFlows = 1 << 20 }},
		{"MaxFlows -1", func(c *Config) { c.MaxFlows = -1 }},
		{"MaxFlows 5: 1 to 4", func(c *Config) {
			c.MaxFlows, c.Instances, c.Instance = 5, 1<<18, 1
		}},
		{"Instance 2 of 2", func(c *Config) { c.Instances, c.Instance = 2, 2 }},
		{"Instance -1", func(c *Config) { c.Instance = -1 }},
		{"Idle", func(c *Config) { c.Idle = -1 }},
		{"Quarantine", func(c *Config) { c.Quarantine = -1 }},
		{"DSCP", func(c *Config) { c.Carriage.DSCP = 64 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := config()
			c.change(&cfg)
			_, err := New(cfg)
			require.ErrorContains(t, err, c.name)
		})
	}
}

func TestMemory(t *testing.T) {
	require.EqualValues(t, 64, unsafe.Sizeof(flowtable.Key{})+8+unsafe.Sizeof(entry{}))
	pe := newPE(t, nil)
	for qp := range uint32(maxFlows) {
		require.NotZero(t, pe.table.Add(&flowtable.Key{QP: qp}, uint64(qp), 0))
	}
	require.True(t, pe.table.Full())
	require.Len(t, pe.labels.ring, 1<<20)
	require.Len(t, pe.labels.state, 1<<20)
}

func TestNoAllocations(t *testing.T) {
	pe := newPE(t, func(c *Config) {
		c.MaxFlows, c.Idle, c.PerFlow = 64, time.Millisecond, time.Microsecond
		c.Out = node.Rate{PerSecond: 1e9, Burst: 100}
	})
	inner, fcnData := octets(t, flow6, 1), make([]byte, 4)
	out := make([]byte, 0, 2048)
	var congested rocev2.Frame
	congested.Decode(bytes.Clone(inner), rocev2.DecodeOptions{Link: rocev2.LinkIP})
	now, qp := start, uint32(0)
	wiretest.NoAllocs(t, "flows that come and go", func() {
		now = now.Add(100 * time.Microsecond)
		qp++
		be.PutUint32(inner[40+8+4:], qp&0xFF)
		_, f, err := pe.send(out, inner, 0, tunnel, now)
		if err != nil || f.Label == 0 {
			t.Fatal(f, err)
		}
		be.PutUint32(fcnData, f.Label<<12)
		_, _, _ = pe.receiveFCN(out, p1, fcnData, now)
		_, _ = pe.Receive(out, &congested, node.Event{Level: 1, Now: now})
	})
	require.NotZero(t, pe.counted(node.ActionSent))
}

var be = binary.BigEndian

// Any packet is forwarded unchanged in the tunnel, or is no IP packet.
func FuzzForward(f *testing.F) {
	f.Add(octets(f, flow4, 1))
	f.Add(octets(f, flow6, 3))
	toPE := wiretest.Must((&encap.IPInIPv6{Src: egress, Dst: own}).Append(nil, octets(f, flow6, 1), 5))(f)
	f.Add(toPE)
	pe := newPE(f, func(c *Config) { c.MaxFlows = 4 })
	f.Fuzz(func(t *testing.T, inner []byte) {
		before := bytes.Clone(inner)
		out, v, err := pe.send([]byte{9}, inner, 0, tunnel, start)
		require.Equal(t, before, inner)
		if err != nil {
			require.Equal(t, []byte{9}, out)
			return
		}
		require.Equal(t, frame.Outer().IP(), out[1+40:])
		require.Equal(t, v.Label, be.Uint32(out[1:])&0xFFFFF)
		require.Equal(t, v.RoCEv2 && v.Reason == node.NoReason, v.Label != 0)
	})
}
