package fcn

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/rocev2"
)

func TestMessage(t *testing.T) {
	for _, c := range []struct {
		m      Message
		octets string
	}{
		{Message{}, "00000000"},
		{Message{FlowLabel: 0xBEEF5, Level: 7}, "beef5e00"},
		{Message{FlowLabel: 1, Level: 1}, "00001200"},
		{Message{FlowLabel: MaxFlowLabel, Level: 4, Reserved: 0x155}, "fffff955"},
		{Message{Reserved: 0x1FF}, "000001ff"},
	} {
		wire := wiretest.Hex(t, c.octets)
		wiretest.Encodes(t, wire, c.m.AppendBinary)
		var m Message
		require.NoError(t, m.Decode(wire))
		require.Equal(t, c.m, m)
		require.ErrorIs(t, m.Decode(append(wire, 0)), errLength)
		require.Equal(t, c.m, m)
		wiretest.Prefixes(t, wire, m.Decode)
		wiretest.NoAllocs(t, "Decode", func() { _ = m.Decode(wire) })
		require.Equal(t, c.m, m)
		b, err := m.AppendBinary(nil)
		require.NoError(t, err)
		require.Equal(t, wire, b)
	}
}

func TestRange(t *testing.T) {
	for _, c := range []struct {
		m   Message
		err error
	}{
		{Message{FlowLabel: 1 << 20}, errFlowLabelRange},
		{Message{Level: 8}, errLevelRange},
		{Message{Reserved: 1 << 9}, errReservedRange},
	} {
		out, err := c.m.AppendBinary([]byte{9})
		require.ErrorIs(t, err, c.err)
		require.Equal(t, []byte{9}, out)
		out, err = c.m.AppendPacket([]byte{9}, addr("192.0.2.5"), addr("192.0.2.1"), Config{})
		require.ErrorIs(t, err, c.err)
		require.Equal(t, []byte{9}, out)
		wiretest.NoAllocs(t, "out of range", func() { _, _ = c.m.AppendBinary(nil) })
	}
}

func TestValidate(t *testing.T) {
	require.NoError(t, Message{FlowLabel: 1}.Validate())
	require.ErrorIs(t, Message{FlowLabel: 1, Reserved: 1}.Validate(), errReservedSet)
	both := Message{Reserved: 1 << 9, Level: 8}
	for _, err := range []error{errReservedSet, errReservedRange, errLevelRange, errFlowLabelZero} {
		require.ErrorIs(t, both.Validate(), err)
	}
	require.Equal(t, "flow label 0xbeef5 level 7", Message{FlowLabel: 0xBEEF5, Level: 7}.String())
	require.Equal(t, "flow label 0x00001 level 0 Reserved 0x3", Message{FlowLabel: 1, Reserved: 3}.String())
}

// The largest values fit their fields.
func TestValidateLargest(t *testing.T) {
	largest := Message{FlowLabel: MaxFlowLabel, Level: MaxLevel, Reserved: maxReserved}
	require.ErrorIs(t, largest.Validate(), errReservedSet)
	require.NotErrorIs(t, largest.Validate(), wireerr.Range)
	require.NoError(t, Message{FlowLabel: MaxFlowLabel, Level: MaxLevel}.Validate())
}

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

const (
	packet6 = `6c00000000 0c1140 20010db8ffff00000000000000000005 20010db8ffff00000000000000000001
		c00103fd 000cc36f beef5e00`
	packet4 = `45c0002000004000 4011b606 c0000205 c0000201 c00103fd 000c9ae0 beef5e00`
)

func TestAppendPacket(t *testing.T) {
	m := Message{FlowLabel: 0xBEEF5, Level: 7}
	cfg := Config{Port: ExperimentalPort, Carriage: rocev2.Carriage{SrcPort: 0xC001}}
	frames := make([][]byte, 0, 3)
	for _, c := range []struct{ src, dst, octets, ethertype string }{
		{"2001:db8:ffff::5", "2001:db8:ffff::1", packet6, "86dd"},
		{"192.0.2.5", "192.0.2.1", packet4, "0800"},
	} {
		wiretest.Encodes(t, wiretest.Hex(t, c.octets), func(b []byte) ([]byte, error) {
			return m.AppendPacket(b, addr(c.src), addr(c.dst), cfg)
		})
		frames = append(frames, wiretest.Hex(t, "020000000001 020000000002"+c.ethertype+c.octets))

		var d rocev2.Datagram
		require.NoError(t, d.DecodeIP(wiretest.Hex(t, c.octets)))
		got, err := FromDatagram(&d)
		require.NoError(t, err)
		require.Equal(t, m, got)
	}
	cfg.CopyLabel, cfg.Port = true, 4000
	out, err := m.AppendPacket(nil, addr("2001:db8:ffff::5"), addr("2001:db8:ffff::1"), cfg)
	require.NoError(t, err)
	require.Equal(t, wiretest.Hex(t, "6c0beef5"), out[:4])
	require.Equal(t, []byte{0x0F, 0xA0}, out[42:44])
	frames = append(frames, append(wiretest.Hex(t, "020000000001 020000000002 86dd"), out...))

	for i, row := range wiretest.Tshark(t, frames...) {
		require.Equal(t, "1", row.Get("udp.checksum.status"), "packet %d: checksum", i)
		require.Equal(t, uint64(12), row.Uint("udp.length"))
	}
}

func TestUDPLength(t *testing.T) {
	for _, size := range []int{0, 1, 2, 3, 4, 5, 8, 100} {
		d := rocev2.Datagram{Src: addr("192.0.2.5"), Dst: addr("192.0.2.1"), DstPort: Port,
			Data: make([]byte, size)}
		out, err := d.AppendBinary(nil)
		require.NoError(t, err)
		require.NoError(t, d.DecodeIP(out))
		_, err = FromDatagram(&d)
		switch {
		case size < Size:
			require.ErrorIs(t, err, errTruncated)
		case size > Size:
			require.ErrorIs(t, err, errLength)
		default:
			require.NoError(t, err)
		}
		wiretest.NoAllocs(t, "FromDatagram", func() { _, _ = FromDatagram(&d) })
	}
}

// congested is a packet that an ingress PE encapsulated: flow label BEEF5, ECN
// 10; its payload does not matter.
const congested = `602beef50020043f 20010db8ffff00000000000000000001 20010db8ffff00000000000000000009` + inner

// inner is an acknowledgement over IPv4.
const inner = `4502002000000000 40110000 c6336401 c6336402 c00112b7000c0000 00000000`

func flowOf(tb testing.TB, ip string) *rocev2.Frame {
	var f rocev2.Frame
	f.Decode(wiretest.Hex(tb, ip), rocev2.DecodeOptions{Link: rocev2.LinkIP})
	return &f
}

func TestAppendFor(t *testing.T) {
	self := addr("2001:db8:ffff::5")
	cfg := Config{Port: ExperimentalPort, Carriage: rocev2.Carriage{SrcPort: 0xC001}}
	flow := flowOf(t, congested)
	wiretest.Encodes(t, wiretest.Hex(t, packet6), func(b []byte) ([]byte, error) {
		return AppendFor(b, flow, self, 7, cfg)
	})
	for _, c := range []struct {
		name, ip, src string
		level         uint8
		err           error
	}{
		{"no tunnel", packet4, "2001:db8::1", 1, ErrNotTunnelled},
		{"no tunnel, IPv6", `602beef5000c1140` + congested[16:82] + `c00112b7000c0000 00000000`, "2001:db8::1", 1,
			ErrNotTunnelled},
		{"IPv4 tunnel", `4502003400000000 40040000 c6336401 c6336402` + inner, "2001:db8::1", 1, ErrNotTunnelled},
		{"not ECN-capable", `600b` + congested[4:], "2001:db8::1", 1, ErrNotECNCapable},
		{"label 0", `60200000` + congested[8:], "2001:db8::1", 1, errFlowLabelZero},
		{"level 8", congested, "2001:db8::1", 8, errLevelRange},
		{"IPv4 source", congested, "192.0.2.1", 1, wireerr.Addresses},
		{"to itself", congested, "2001:db8:ffff::1", 1, errOwn},
		{"from loopback", congested, "::1", 1, rocev2.ErrNotReachable},
		{"to a multicast address", congested[:16] +
			` ff020db8ffff00000000000000000001 20010db8ffff00000000000000000009` + inner, "2001:db8::1", 1,
			rocev2.ErrNotReachable},
	} {
		flow, src := flowOf(t, c.ip), addr(c.src)
		out, err := AppendFor([]byte{9}, flow, src, c.level, cfg)
		require.ErrorIs(t, err, c.err, c.name)
		require.Equal(t, []byte{9}, out, c.name)
		wiretest.NoAllocs(t, c.name, func() { _, _ = AppendFor(nil, flow, src, c.level, cfg) })
	}
	m, err := For(flow, 7)
	require.NoError(t, err)
	require.Equal(t, Message{FlowLabel: 0xBEEF5, Level: 7}, m)
	require.Equal(t, addr("2001:db8:ffff::1"), flow.Outer().Src())
	out := make([]byte, 0, 128)
	wiretest.NoAllocs(t, "AppendFor", func() { out, _ = AppendFor(out[:0], flow, self, 7, cfg) })
}

func FuzzMessage(f *testing.F) {
	f.Add([]byte{0xBE, 0xEF, 0x5E, 0x00})
	f.Fuzz(func(t *testing.T, b []byte) {
		var m Message
		if m.Decode(b) != nil {
			require.Equal(t, Message{}, m)
			return
		}
		_ = m.Validate()
		out, err := m.AppendBinary(nil)
		require.NoError(t, err)
		require.Equal(t, b, out)
	})
}

// A packet in an SR-MPLS tunnel has no outer IPv6 header, so it has no flow label and
// no ingress address: AppendFor rejects it.
func TestSRMPLS(t *testing.T) {
	const macs = `020000000002 020000000001`
	ipv6 := `60200000 0028 1140 20010db8000100000000000000000001 20010db8000400000000000000000001` +
		`c000 12b7 0028 0000 0400ffff 00000011 00000000 00000000000000000000000000000000 01020304`
	for _, c := range []struct{ name, frame string }{
		{"one label", macs + `8847 03e80140` + ipv6},
		{"two segments", macs + `8847 03e80040 03e90140` + ipv6},
		{"Ethernet, as a VPN", macs + `8847 03e80040 03e90140` + macs + `86dd` + ipv6},
		{"control word", macs + `8847 03e80040 03e90140 00000000` + macs + `86dd` + ipv6},
		{"in UDP over IPv4", macs + `0800 45020070000000004011 0000 c6336401 c6336402 c000 19eb 005c 0000 03e80140` +
			ipv6},
	} {
		t.Run(c.name, func(t *testing.T) {
			var flow rocev2.Frame
			flow.Decode(wiretest.Hex(t, c.frame), rocev2.DecodeOptions{}) // for IP in IP alone, labels are no way
			_, err := flow.FiveTuple()
			require.NoError(t, err)
			_, err = For(&flow, 3)
			require.ErrorIs(t, err, ErrNotTunnelled)
		})
	}
}
