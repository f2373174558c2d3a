//go:build linux

package kerneltest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/cm"
	"github.com/rocecn/rocecn/cnp"
	"github.com/rocecn/rocecn/encap"
	"github.com/rocecn/rocecn/fcn"
	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/acl"
	"github.com/rocecn/rocecn/node/congested"
	"github.com/rocecn/rocecn/node/ingress"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

var (
	wanPE     = netip.MustParseAddr("2001:db8:fe::1")
	wanP      = netip.MustParseAddr("2001:db8:fe::5")
	wanEgress = netip.MustParseAddr("2001:db8:fe::9")
	endDT6    = netip.MustParseAddr("fc00:9::d6")
	endDX4    = netip.MustParseAddr("fc00:9::d4")
	peCNP4    = netip.MustParseAddr("10.0.1.2")
	peCNP6    = netip.MustParseAddr("2001:db8:1::2")
)

// A wan has our ingress PE and congested node. The egress PE, where the tunnels end, is Linux.
//
//	sender ── pe ── p ── egress ── receiver
type wan struct {
	sender, pe, p, egress, receiver *host

	start, peIn   *tap // the two ends of each cable
	peOut, pIn    *tap
	pOut, egressT *tap
	end           *tap // the receiver's device
}

func newWAN(t *testing.T) *wan {
	t.Helper()
	w := &wan{
		sender: newHost(t, "sender"), pe: newHost(t, "pe"), p: newHost(t, "p"),
		egress: newHost(t, "egress"), receiver: newHost(t, "receiver"),
	}
	connect(t, w.sender, "eth0", w.pe, "in")
	connect(t, w.pe, "out", w.p, "in")
	connect(t, w.p, "out", w.egress, "in")
	connect(t, w.egress, "out", w.receiver, "eth0")
	w.sender.address(t, "eth0", "10.0.1.1/24")
	w.sender.address(t, "eth0", "2001:db8:1::1/64")
	w.pe.address(t, "out", wanPE.String()+"/64")
	w.egress.address(t, "in", wanEgress.String()+"/64")
	w.receiver.address(t, "eth0", "10.0.4.1/24")
	w.receiver.address(t, "eth0", "2001:db8:4::e/64")
	w.start, w.peIn = w.sender.tap(t, "eth0"), w.pe.tap(t, "in")
	w.peOut, w.pIn = w.pe.tap(t, "out"), w.p.tap(t, "in")
	w.pOut, w.egressT = w.p.tap(t, "out"), w.egress.tap(t, "in")
	w.end = w.receiver.tap(t, "eth0")
	return w
}

// routed makes the egress PE a router at the end of the segments End.DT6 and End.DX4.
func (w *wan) routed(t *testing.T) {
	t.Helper()
	w.egress.set(t, "ipv4/conf/all/forwarding", 1)
	w.egress.set(t, "ipv6/conf/all/forwarding", 1)
	w.egress.set(t, "ipv6/conf/all/seg6_enabled", 1)
	w.egress.set(t, "ipv6/conf/in/seg6_enabled", 1)
	w.egress.address(t, "out", "10.0.4.254/24")
	w.egress.address(t, "out", "2001:db8:4::fe/64")
	if err := w.egress.tryIP(fmt.Sprintf(`route add %v/128 encap seg6local action End.DT6 table 254 dev out
		route add %v/128 encap seg6local action End.DX4 nh4 10.0.4.1 dev out`, endDT6, endDX4)); err != nil {
		wiretest.Missing(t, "no SRv6: "+err.Error())
	}
}

// bridged bridges the VXLAN segment 46 and the receiver's cable at the egress PE.
func (w *wan) bridged(t *testing.T) {
	t.Helper()
	if err := w.egress.tryIP(fmt.Sprintf(`link add vx type vxlan id 46 local %v dstport 4789 nolearning
		link add br0 type bridge
		link set vx master br0
		link set out master br0
		link set vx up
		link set br0 up`, wanEgress)); err != nil {
		wiretest.Missing(t, "no VXLAN or no bridge: "+err.Error())
	}
}

// ingressPE returns the PE, and its table of learned queue pairs.
func ingressPE(t *testing.T, via encap.Tunnel) (*ingress.Role, *qpmap.Map) {
	t.Helper()
	qps := qpmap.New(qpmap.Config{})
	pe, err := ingress.New(ingress.Config{
		Enabled: true, WAN: wanPE, Self4: peCNP4, Self6: peCNP6, QPs: qps, Tunnel: via,
		Accept: acl.New(netip.MustParsePrefix("2001:db8:fe::/64")), Idle: 10 * time.Second,
		Carriage: rocev2.Carriage{Checksum: true}, // ordinary sockets want one over IPv6
	})
	require.NoError(t, err)
	return pe, qps
}

// enter sends a packet from the sender through the PE to p, and returns the frame that p receives and its label.
func (w *wan) enter(t *testing.T, pe *ingress.Role, ip []byte, now time.Time) (frame []byte,
	label uint32) {
	t.Helper()
	w.start.sendIP(t, w.peIn, ip)
	in := w.peIn.receive(t, "packet of the sender", func(frame []byte) bool { return bytes.HasSuffix(frame, ip) })
	outer, d := pe.Receive(nil, frameOf(in), node.Event{Now: now})
	require.Equal(t, node.ActionForwarded, d.Action)
	w.peOut.sendIP(t, w.pIn, outer)
	return w.pIn.receive(t, "packet in a tunnel", func(frame []byte) bool { return bytes.HasSuffix(frame, outer) }),
		d.Label
}

// cross forwards a frame that p received, and returns the IP packet that the receiver gets.
func (w *wan) cross(t *testing.T, frame, inner []byte) []byte {
	t.Helper()
	outer := bytes.Clone(frame[14:])
	outer[7]--
	w.pOut.sendIP(t, w.egressT, outer)
	return w.end.receive(t, "packet out of the tunnel", func(frame []byte) bool {
		return bytes.HasSuffix(frame, inner[len(inner)-32:])
	})[14:]
}

// Linux accepts our tunnels, and the packet that leaves them is the one that entered. tshark decodes the label,
// each ECN field and the source.
func TestLinuxEndsOurTunnels(t *testing.T) {
	w, bridge := newWAN(t), newWAN(t)
	w.routed(t)
	bridge.bridged(t)
	receiver := []byte(bridge.end.mac)
	srv6 := func(segment netip.Addr, reduced bool) encap.Tunnel {
		return &encap.SRv6{Src: wanPE, Segments: []netip.Addr{segment}, Reduced: reduced}
	}
	vxlan := &encap.VXLAN{Src: wanPE, Dst: wanEgress, VNI: 46,
		Ethernet: append(append(receiver, bridge.start.mac...), 0, 0)}
	for _, c := range []struct {
		name, family string
		via          encap.Tunnel
		wan          *wan
		hops         uint8 // routers that the inner packet crosses
	}{
		{"End.DT6", "IPv6", srv6(endDT6, false), w, 1},
		{"End.DT6 reduced", "IPv6", srv6(endDT6, true), w, 1},
		{"End.DX4", "IPv4", srv6(endDX4, false), w, 1},
		{"End.DX4 reduced", "IPv4", srv6(endDX4, true), w, 1},
		{"VXLAN", "IPv6", vxlan, bridge, 0},
		{"VXLAN", "IPv4", vxlan, bridge, 0},
	} {
		t.Run(c.family+" "+c.name, func(t *testing.T) {
			pe, _ := ingressPE(t, c.via)
			socket := c.wan.receiver.listen(t, inners()[c.family].Dst, rocev2.Port)
			var frames [][]byte
			var labels []uint32
			for ecn := range uint8(4) {
				p := inners()[c.family]
				p.TrafficClass = p.TrafficClass&^3 | ecn
				p.BTH.DestQP = 0x100 + uint32(ecn) // each is a flow of its own
				p.Checksum = 1
				ip := whole(t, &p)
				frame, label := c.wan.enter(t, pe, ip, time.Now())
				frames, labels = append(frames, frame), append(labels, label)
				got := c.wan.cross(t, frame, ip)
				require.Equal(t, routedBy(ip, c.hops), got)
				_, err := icrc.Verify(got)
				require.NoError(t, err)
				var sent rocev2.Datagram
				require.NoError(t, sent.DecodeIP(ip))
				require.Equal(t, sent.Data, receive(t, socket))
			}
			for ecn, row := range wiretest.Tshark(t, frames...) {
				require.EqualValues(t, labels[ecn], row.Uint("ipv6.flow"))
				require.NotZero(t, labels[ecn])
				require.EqualValues(t, ecn, row.Uint("ipv6.tclass.ecn"))
				require.Equal(t, wanPE.String(), row.Get("ipv6.src"))
				require.EqualValues(t, 0x100+ecn, row.Uint("infiniband.bth.destqp"))
			}
		})
	}
}

// routedBy returns an IP packet after this number of routers.
func routedBy(ip []byte, hops uint8) []byte {
	ip = bytes.Clone(ip)
	if ip[0]>>4 == 6 {
		ip[7] -= hops
		return ip
	}
	ip[8] -= hops
	sum := uint32(binary.BigEndian.Uint16(ip[10:])) + uint32(hops)<<8 // RFC 1141
	binary.BigEndian.PutUint16(ip[10:], uint16(sum+sum>>16))
	return ip
}

// A connection is set up across the WAN, and its data congests p. An ordinary socket of the PE receives the FCN of
// p, and an ordinary socket of the sender receives a CNP with the queue pair of the REQ. An idle flow expires, and
// an FCN about it has no effect.
func TestFCNBecomesCNP(t *testing.T) {
	w := newWAN(t)
	w.routed(t)
	for _, c := range []struct {
		family  string
		segment netip.Addr
		src     netip.Addr
	}{{"IPv6", endDT6, peCNP6}, {"IPv4", endDX4, peCNP4}} {
		t.Run(c.family, func(t *testing.T) {
			pe, _ := ingressPE(t, &encap.SRv6{Src: wanPE, Segments: []netip.Addr{c.segment}})
			agent := wiretest.Must(congested.New(congested.Config{
				Enabled: true, Self6: wanP, PEs: acl.New(netip.PrefixFrom(wanPE, 128)),
				Methods: acl.NewMap(
					acl.Entry[congested.Method]{Prefix: netip.MustParsePrefix("::/0"), Value: congested.MethodFCN},
					acl.Entry[congested.Method]{Prefix: netip.MustParsePrefix("0.0.0.0/0"), Value: congested.MethodFCN},
				),
			}))(t)
			now := time.Now()
			data := inners()[c.family]
			data.BTH.DestQP, data.BTH.PKey = 0x11, 0x8001
			req, rep := connection(t, data.Src, data.Dst, 0x21, 0x11)

			// The REQ goes to the receiver, and the REP comes back in a tunnel.
			frame, _ := w.enter(t, pe, req, now)
			require.Equal(t, routedBy(req, 1), w.cross(t, frame, req))
			back, err := (&encap.IPInIPv6{Src: wanEgress, Dst: wanPE}).Append(nil, rep, 0)
			require.NoError(t, err)
			w.pIn.sendIP(t, w.peOut, back)
			frame = w.peOut.receive(t, "REP", func(frame []byte) bool { return bytes.HasSuffix(frame, rep) })
			_, learned := pe.Receive(nil, frameOf(frame), node.Event{Now: now})
			require.Equal(t, []any{node.ActionLearned, uint32(0x21)}, []any{learned.Action, learned.SrcQP})

			ip := whole(t, &data)
			frame, label := w.enter(t, pe, ip, now)
			notification, d := agent.Receive(nil, frameOf(frame), node.Event{Level: 6, Now: now})
			require.Equal(t, node.NoReason, d.Reason)
			require.Equal(t, message.KindFCN, d.Message)
			require.Equal(t, wanPE, d.To)

			fcnSocket := w.pe.listen(t, wanPE, fcn.Port)
			cnpSocket := w.sender.listen(t, data.Src, rocev2.Port)
			w.pIn.sendIP(t, w.peOut, notification)
			octets := receive(t, fcnSocket)
			require.EqualValues(t, label<<12|6<<9, binary.BigEndian.Uint32(octets))
			var f rocev2.Frame
			f.Decode(notification, rocev2.DecodeOptions{Link: rocev2.LinkIP})
			answer, n := pe.Receive(nil, &f, node.Event{Now: now})
			flow := rocev2.FlowKey{Src: data.Src, Dst: data.Dst, DestQP: data.BTH.DestQP}
			require.Equal(t, []any{node.ActionSent, flow, label, uint32(0x21), uint8(6)},
				[]any{n.Action, n.Flow.FlowKey, n.Label, n.SrcQP, n.Level})

			w.peIn.sendIP(t, w.start, answer)
			arrived := receive(t, cnpSocket)
			require.EqualValues(t, 0x81, arrived[0])
			require.Equal(t, []byte{0x80, 0x01}, arrived[2:4], "the flow's P_Key")
			require.Equal(t, []byte{0, 0, 0x21}, arrived[5:8], "the REQ's queue pair")
			frame = w.start.receive(t, "CNP", func(frame []byte) bool { return bytes.HasSuffix(frame, answer) })
			row := wiretest.Tshark(t, frame)[0]
			require.EqualValues(t, 0x81, row.Uint("infiniband.bth.opcode"))
			require.EqualValues(t, 0x21, row.Uint("infiniband.bth.destqp"))
			var p rocev2.Packet
			require.NoError(t, p.DecodeEthernet(frame))
			require.Equal(t, c.src, p.Src)
			_, err = icrc.Verify(p.IP)
			require.NoError(t, err)
			_, err = cnp.FromPacket(&p)
			require.NoError(t, err)

			later := now.Add(10 * time.Second)
			require.Equal(t, 2, pe.Len(), "the data's flow and that of the REQ")
			pe.Due(nil, later)
			require.Zero(t, pe.Len())
			_, n = pe.Receive(nil, &f, node.Event{Now: later})
			require.Equal(t, node.ReasonUnknownLabel, n.Reason)
		})
	}
}

// connection returns a REQ and the REP that answers it, as IP packets.
func connection(t *testing.T, requester, responder netip.Addr, requesterQP, responderQP uint32) (req, rep []byte) {
	t.Helper()
	carry := func(src, dst netip.Addr, a cm.Attribute, m interface {
		AppendBinary([]byte) ([]byte, error)
	}) []byte {
		var p rocev2.Packet
		p.Src, p.Dst, p.HopLimit, p.SrcPort, p.DstPort, p.Checksum = src, dst, 64, 0xC0DE, rocev2.Port, 1
		p.BTH.Header = bth.Header{Opcode: bth.UDSendOnly, PKey: 0xFFFF, DestQP: cm.QP}
		p.BTH.DETH = bth.DETH{QKey: cm.QKey, SrcQP: cm.QP}
		h := cm.NewHeader(a, 77)
		p.Payload = wiretest.Must(h.AppendBinary(nil))(t)
		p.Payload = wiretest.Must(m.AppendBinary(p.Payload))(t)
		return whole(t, &p)
	}
	req = carry(requester, responder, cm.AttributeREQ, &cm.REQ{LocalCommID: 1, LocalQPN: requesterQP, PKey: 0xFFFF})
	rep = carry(responder, requester, cm.AttributeREP, &cm.REP{LocalCommID: 2, RemoteCommID: 1, LocalQPN: responderQP})
	return req, rep
}
