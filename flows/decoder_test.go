package flows

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/cnp"
	"github.com/rocecn/rocecn/encap"
	"github.com/rocecn/rocecn/fcn"
	"github.com/rocecn/rocecn/pfc"
	"github.com/rocecn/rocecn/rocev2"
)

var (
	hostA, hostB = netip.MustParseAddr("2001:db8:1::a"), netip.MustParseAddr("2001:db8:4::e")
	pe1, pe2     = netip.MustParseAddr("2001:db8:ffff::1"), netip.MustParseAddr("2001:db8:ffff::2")
)

func write(t *testing.T, psn uint32, payload int) []byte {
	t.Helper()
	p := rocev2.Packet{Datagram: rocev2.Datagram{Src: hostA, Dst: hostB, TrafficClass: 26<<2 | rocev2.CE, HopLimit: 64, SrcPort: 50000, DstPort: rocev2.Port}}
	p.BTH.Opcode, p.BTH.DestQP, p.BTH.PSN, p.BTH.PKey = bth.RCSendOnly, 18, psn, 0xFFFF
	p.BTH.Pad = uint8(-payload & 3)
	p.Payload = make([]byte, payload)
	b, err := p.AppendBinary(nil)
	require.NoError(t, err)
	return b
}

// Packets in tunnels are those of the flow inside, and an FCN names the flow by
// the label that the ingress gave it.
func TestTunnels(t *testing.T) {
	inner := write(t, 10, 30)
	for name, tunnel := range map[string]encap.Tunnel{
		"ipip":  &encap.IPInIPv6{Src: pe1, Dst: pe2},
		"vxlan": &encap.VXLAN6{Src: pe1, Dst: pe2, VNI: 7, Ethernet: make([]byte, 14)},
		"srv6":  &encap.SRv6{Src: pe1, Segments: []netip.Addr{pe2, netip.MustParseAddr("2001:db8:ffff::3")}},
	} {
		table := New(Config{})
		var d Decoder
		var p Packet
		outer, err := tunnel.Append(nil, inner, 0xBEEF5)
		require.NoError(t, err, name)
		ip := rocev2.DecodeOptions{Link: rocev2.LinkIP}
		require.True(t, d.Decode(&p, outer, ip), name)
		table.Observe(&p, 1, time.Time{})
		var f rocev2.Flow
		require.NoError(t, f.DecodeIP(outer))
		for _, label := range []uint32{0xBEEF5, 0x12345} {
			notice, err := fcn.Message{FlowLabel: label, Level: 3}.AppendPacket(nil, pe2, pe1, fcn.Config{})
			require.NoError(t, err)
			require.True(t, d.Decode(&p, notice, ip), name)
			table.Observe(&p, 2, time.Time{})
		}
		n := 0
		for f := range table.Flows() {
			n++
			require.Equal(t, rocev2.FlowKey{Src: hostA, Dst: hostB, DestQP: 18}, f.FlowKey, name)
			require.EqualValues(t, 1, f.FCN, name)
			require.EqualValues(t, len(inner), f.IPOctets, name)
			require.Zero(t, f.ICRCWrong, name)
		}
		require.Equal(t, 1, n, name)
		for u := range table.Unpaired() {
			require.EqualValues(t, 1, u.FCN)
			require.Equal(t, rocev2.FlowKey{Src: pe2, Dst: pe1}, u.FlowKey)
		}
		d.Outer = true
		require.Equal(t, name != "vxlan", d.Decode(&p, outer, ip), "IP in IP is the walk's own")
	}
}

func TestWhatCounts(t *testing.T) {
	table := New(Config{})
	var d Decoder
	var p Packet
	ip := write(t, 10, 30)
	frame := append([]byte{12: 0x81, 13: 0x00, 0x20, 0x03, 0x86, 0xDD}, ip...)
	require.True(t, d.Decode(&p, frame, rocev2.DecodeOptions{}))
	table.Observe(&p, 1, time.Unix(100, 0))
	frame[len(frame)-1] ^= 1
	require.True(t, d.Decode(&p, frame, rocev2.DecodeOptions{}))
	table.Observe(&p, 2, time.Unix(102, 0))
	for cut := range len(frame) {
		got := d.Decode(&p, frame[:cut], rocev2.DecodeOptions{Cut: true})
		require.Equal(t, cut >= 18+40+8+12, got, "cut to %d octets: the BTH is whole or not", cut)
	}
	require.True(t, d.Decode(&p, frame[:100], rocev2.DecodeOptions{Cut: true}))
	table.Observe(&p, 3, time.Unix(104, 0))
	for f := range table.Flows() {
		require.EqualValues(t, 3, f.VLAN)
		require.EqualValues(t, 1<<26, f.DSCP)
		require.Equal(t, [4]uint64{3: 3}, f.ECN)
		require.EqualValues(t, 3, f.Packets)
		require.EqualValues(t, 3*len(ip), f.IPOctets)
		require.EqualValues(t, 90, f.PayloadOctets)
		require.EqualValues(t, 1, f.ICRCWrong)
		require.EqualValues(t, 1, f.Truncated)
		require.EqualValues(t, 2, f.PSN.Repeats)
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
	ip, err := c.AppendPacket(nil, hostB, hostA, rocev2.Carriage{})
	require.NoError(t, err)
	for cut := 60; cut <= len(ip); cut++ { // its BTH is whole
		require.True(t, d.Decode(&p, ip[:cut], rocev2.DecodeOptions{Link: rocev2.LinkIP, Cut: cut < len(ip)}))
		require.Equal(t, cnpKind, p.kind)
	}
	pause := pfc.PFC{Enabled: 0x18, Quanta: [8]uint16{3: 65535}}.AppendFrame(nil, [6]byte{2, 0, 0, 0, 0, 1})
	require.True(t, d.Decode(&p, pause, rocev2.DecodeOptions{}))
	require.Equal(t, pfcKind, p.kind)
	require.Equal(t, [6]byte{2, 0, 0, 0, 0, 1}, p.pause.mac)
	require.EqualValues(t, 0x18, p.pause.enabled)
	require.Equal(t, [8]uint16{3: 65535}, p.pause.quanta)
	require.False(t, p.pause.whole)

	// The deepest queue, in the traces that Linux nodes left.
	table := observed(t, "ioam-linux618-hpcc.pcap")
	for f := range table.Flows() {
		require.True(t, f.Queue.Known)
		require.Contains(t, []uint64{0xB2, 0xC3, 0xD4}, f.Queue.Node)
	}
}
