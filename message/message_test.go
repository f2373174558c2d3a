package message

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/cnp"
	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/fcn"
	"github.com/rocecn/rocecn/internal/ipudp"
	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/pfc"
	"github.com/rocecn/rocecn/ppfc"
	"github.com/rocecn/rocecn/proxymsg"
	"github.com/rocecn/rocecn/rocev2"
)

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

var (
	here  = addr("2001:db8:ffff::5")
	there = addr("2001:db8:1::1")
)

// roce returns an IP packet with this BTH and payload.
func roce(t testing.TB, h bth.Header, ext, payload []byte) []byte {
	t.Helper()
	p := rocev2.Packet{BTH: bth.Headers{Header: h}, Payload: payload}
	p.Src, p.Dst, p.DstPort = here, there, rocev2.Port
	p.NextHeader, p.Ext = 60, ext
	return wiretest.Must(p.AppendBinary(nil))(t)
}

// udp returns an IP packet to this port.
func udp(t testing.TB, port uint16, data []byte) []byte {
	t.Helper()
	d := rocev2.Datagram{Src: here, Dst: there, DstPort: port, Data: data}
	b := wiretest.Must(d.AppendBinary(nil))(t)
	ipudp.PutChecksum(b, 40)
	return b
}

func fastOption(data ...byte) []byte {
	typ := fastcnp.Option1Type
	if len(data) > 16 {
		typ = fastcnp.Option2Type
	}
	option := append([]byte{17, 0, uint8(typ), uint8(len(data))}, data...)
	option = append(option, make([]byte, -len(option)&7)...)
	option[1] = uint8(len(option)/8 - 1)
	return option
}

func TestDecode(t *testing.T) {
	address := there.As16()
	five := proxymsg.Message{FiveTuple: rocev2.FiveTuple{Src: there, Dst: here, Protocol: 17, SrcPort: 1,
		DstPort: 4791}, Level: 3}
	proxy := wiretest.Must(five.AppendBinary(nil))(t)
	cnpHeader, ppfcHeader := cnp.New(7, 0xFFFF).Header, ppfc.New(7, 0xFFFF, ppfc.Extension{}).Header
	for _, c := range []struct {
		name   string
		octets []byte
		kind   Kind
		reach  Reach
		err    error
	}{
		{"data", roce(t, bth.Header{Opcode: bth.RCRDMAWriteMiddle}, nil, make([]byte, 8)), KindData, ReachTransport,
			nil},
		{"unknown opcode", roce(t, bth.Header{Opcode: 0x1F}, nil, nil), KindData, ReachTransport, nil},
		{"opcode 0x80", roce(t, bth.Header{Opcode: 0x80}, nil, make([]byte, 16)), KindData, ReachTransport, nil},
		{"RC Acknowledge", roce(t, bth.Header{Opcode: bth.RCAcknowledge}, nil, nil), KindAck, ReachTransport, nil},
		{"RC ATOMIC Acknowledge", roce(t, bth.Header{Opcode: bth.RCAtomicAcknowledge}, nil, nil), KindAck,
			ReachTransport,
			nil},
		{"XRC Acknowledge", roce(t, bth.Header{Opcode: bth.TransportXRC.Opcode(bth.OpAcknowledge)}, nil, nil), KindAck,
			ReachTransport, nil},
		{"UD has no Acknowledge", roce(t, bth.Header{Opcode: 0x71}, nil, nil), KindData, ReachTransport, nil},
		{"CNP", roce(t, cnpHeader, nil, make([]byte, 16)), KindCNP, ReachTransport, nil},
		{"Fast CNP", roce(t, cnpHeader, fastOption(address[:]...), make([]byte, 16)), KindFastCNP, ReachTransport, nil},
		{"PPFC", roce(t, ppfcHeader, nil, make([]byte, 12)), KindPPFC, ReachTransport, nil},
		{"PPFC with a Fast CNP option", roce(t, ppfcHeader, fastOption(address[:]...), make([]byte, 24)), KindPPFC,
			ReachTransport, nil},
		{"data with a Fast CNP option", roce(t, bth.Header{Opcode: bth.RCSendOnly}, fastOption(address[:]...), nil),
			KindData, ReachTransport, nil},
		{"FCN", udp(t, fcn.Port, []byte{0xBE, 0xEF, 0x5E, 0}), KindFCN, ReachUDP, nil},
		{"proxy message", udp(t, proxymsg.Port, proxy), KindProxy, ReachUDP, nil},

		{"other port", udp(t, 53, nil), KindOther, ReachNothing, rocev2.ErrPort},
		{"TCP", append([]byte{0x60, 0, 0, 0, 0, 0, 6, 0}, make([]byte, 32)...), KindOther, ReachNothing,
			rocev2.ErrNotRoCEv2},
		{"nothing", nil, KindOther, ReachNothing, wireerr.Truncated},

		{"no BTH", udp(t, 4791, make([]byte, 15)), KindError, ReachUDP, wireerr.Truncated},
		{"short UDP length", lengthened(udp(t, 4791, make([]byte, 16)), -17), KindError, ReachNothing,
			wireerr.Malformed},
		{"CNP of 15 octets", roce(t, cnpHeader, nil, make([]byte, 15)), KindError, ReachTransport, wireerr.CNPLength},
		{"Fast CNP of 15 octets", roce(t, cnpHeader, fastOption(address[:]...), make([]byte, 15)), KindError,
			ReachTransport, wireerr.CNPLength},
		{"Fast CNP option of 15 octets", roce(t, cnpHeader, fastOption(address[:15]...), make([]byte, 16)), KindError,
			ReachTransport, wireerr.Malformed},
		{"Fast CNP without a trace", roce(t, cnpHeader, fastOption(append(make([]byte, 12), address[:]...)...),
			make([]byte, 16)), KindError, ReachTransport, wireerr.Malformed},
		{"PPFC of 20 octets", roce(t, ppfcHeader, nil, make([]byte, 20)), KindError, ReachTransport,
			wireerr.PPFCLength},
		{"P bit and 16 octets", roce(t, ppfcHeader, nil, make([]byte, 16)), KindCNP, ReachTransport, nil},
		{"P bit and 16 octets, Fast CNP option", roce(t, ppfcHeader, fastOption(address[:]...), make([]byte, 16)),
			KindFastCNP, ReachTransport, nil},
		{"CNP with an unknown option",
			roce(t, cnpHeader, []byte{17, 0, 0x8E, 0, 1, 2, 0, 0}, make([]byte, 16)), KindUnknownOption, ReachTransport,
			nil},
		{"CNP with an unknown option of the other two actions",
			roce(t, cnpHeader, []byte{17, 0, 0x4E, 0, 0xCE, 0, 0, 0}, make([]byte, 16)), KindUnknownOption,
			ReachTransport,
			nil},
		{"CNP with an unknown option to skip",
			roce(t, cnpHeader, []byte{17, 0, 0x1E, 0, 1, 2, 0, 0}, make([]byte, 16)), KindCNP, ReachTransport, nil},
		{"P bit, 16 octets, and an unknown option",
			roce(t, ppfcHeader, []byte{17, 0, 0x8E, 0, 1, 2, 0, 0}, make([]byte, 16)), KindUnknownOption,
			ReachTransport,
			nil},
		{"PPFC with an unknown option",
			roce(t, ppfcHeader, []byte{17, 0, 0x8E, 0, 1, 2, 0, 0}, make([]byte, 12)), KindPPFC, ReachTransport, nil},
		{"Fast CNP and an unknown option",
			roce(t, cnpHeader, append(fastOption(address[:]...)[:20:20], 0x8E, 2, 0, 0), make([]byte, 16)), KindFastCNP,
			ReachTransport, nil},
		{"15 octets and an unknown option",
			roce(t, cnpHeader, []byte{17, 0, 0x8E, 0, 1, 2, 0, 0}, make([]byte, 15)), KindError, ReachTransport,
			wireerr.CNPLength},
		{"an unknown option, and one that overruns",
			roce(t, cnpHeader, []byte{17, 0, 0x8E, 0, 1, 9, 0, 0}, make([]byte, 16)), KindError, ReachTransport,
			wireerr.Malformed},
		{"FCN of 3 octets", udp(t, fcn.Port, make([]byte, 3)), KindError, ReachUDP, wireerr.Truncated},
		{"FCN of 5 octets", udp(t, fcn.Port, make([]byte, 5)), KindError, ReachUDP, wireerr.Malformed},
		{"proxy message of 15 octets", udp(t, proxymsg.Port, proxy[:15]), KindError, ReachUDP, wireerr.Truncated},
	} {
		t.Run(c.name, func(t *testing.T) {
			var m Message
			err := m.Decode(c.octets, rocev2.DecodeOptions{Link: rocev2.LinkIP}, Config{})
			require.Equal(t, c.kind, m.Kind, "%v", err)
			require.Equal(t, c.reach, m.Reach)
			if c.kind == KindError || c.kind == KindOther {
				require.ErrorIs(t, err, c.err)
				require.Error(t, err)
				if c.kind == KindError {
					require.NotErrorIs(t, err, rocev2.ErrNotRoCEv2)
				}
			} else {
				require.NoError(t, err)
			}
			// The same with configured ports, and a message that is reused.
			require.NoError(t, m.Decode(roce(t, cnpHeader, nil, make([]byte, 16)),
				rocev2.DecodeOptions{Link: rocev2.LinkIP}, Config{}))
			_ = m.Decode(c.octets, rocev2.DecodeOptions{Link: rocev2.LinkIP},
				Config{FCNPort: fcn.Port, ProxyPort: proxymsg.Port})
			require.Equal(t, c.kind, m.Kind)
			require.Equal(t, c.reach, m.Reach)
			wiretest.NoAllocs(t, "Decode", func() {
				_ = m.Decode(c.octets, rocev2.DecodeOptions{Link: rocev2.LinkIP},
					Config{})
			})
		})
	}
}

// lengthened returns an IPv6 packet with a larger UDP length.
func lengthened(b []byte, by int) []byte {
	b[45] = uint8(int(b[45]) + by)
	return b
}

func TestValues(t *testing.T) {
	var m Message
	require.NoError(t, m.Decode(udp(t, 7000, []byte{0xBE, 0xEF, 0x5E, 0}), rocev2.DecodeOptions{Link: rocev2.LinkIP},
		Config{FCNPort: 7000}))
	require.Equal(t, fcn.Message{FlowLabel: 0xBEEF5, Level: 7}, m.FCN)

	five := proxymsg.Message{FiveTuple: rocev2.FiveTuple{Src: there, Dst: here, Protocol: 17, SrcPort: 1,
		DstPort: 4791}, Level: 3, Invoking: []byte("its kind does not matter")}
	proxy := wiretest.Must(five.AppendBinary(nil))(t)
	require.Error(t, m.Decode(udp(t, 7001, proxy), rocev2.DecodeOptions{Link: rocev2.LinkIP}, Config{ProxyPort: 7001}))
	require.Equal(t, KindError, m.Kind)
	require.NoError(t, m.Decode(udp(t, 7001, proxy), rocev2.DecodeOptions{Link: rocev2.LinkIP},
		Config{ProxyPort: 7001, ProxyFamily: proxymsg.IPv6}))
	require.Equal(t, five, m.Proxy)

	address := there.As16()
	packet := roce(t, cnp.New(7, 0xFFFF).Header, fastOption(address[:]...), make([]byte, 16))
	require.NoError(t, m.Decode(packet, rocev2.DecodeOptions{Link: rocev2.LinkIP}, Config{}))
	require.Equal(t, there, m.FastCNP.Option.OriginalDst)
	require.NoError(t, m.Decode(packet, rocev2.DecodeOptions{Link: rocev2.LinkIP},
		Config{CodePoints: fastcnp.CodePoints{Option1: 0x8E, Option2: 0x8E}}))
	require.Equal(t, KindUnknownOption, m.Kind)
	require.Zero(t, m.CNP, "DestQP must not be taken for a queue pair of the sender")

	reserved := make([]byte, 16)
	reserved[0], reserved[15] = 0xA5, 0x5A
	skipped := roce(t, cnp.New(7, 0xFFFF).Header, []byte{17, 0, 0x1E, 0, 1, 2, 0, 0}, reserved)
	require.NoError(t, m.Decode(skipped, rocev2.DecodeOptions{Link: rocev2.LinkIP}, Config{}))
	require.Equal(t, KindCNP, m.Kind)
	require.EqualValues(t, 7, m.CNP.DestQP)
	require.Equal(t, reserved, m.CNP.Reserved[:], "the complete CNP is decoded, after options that are skipped")
}

// Messages that a deployment does not use are other traffic or CNPs with reserved bits.
func TestOff(t *testing.T) {
	o := rocev2.DecodeOptions{Link: rocev2.LinkIP}
	notification := ppfc.New(7, 0xFFFF, ppfc.Extension{}).Header
	for _, c := range []struct {
		octets []byte
		cfg    Config
		kind   Kind
	}{
		{udp(t, fcn.Port, []byte{0xBE, 0xEF, 0x5E, 0}), Config{NoFCN: true}, KindOther},
		{udp(t, fcn.Port, nil), Config{NoFCN: true}, KindOther},
		{udp(t, proxymsg.Port, make([]byte, 16)), Config{NoProxy: true}, KindOther},
		{roce(t, notification, nil, make([]byte, 12)), Config{NoPPFC: true}, KindError},
		{roce(t, notification, nil, make([]byte, 24)), Config{NoPPFC: true}, KindError},
		{roce(t, notification, nil, make([]byte, 16)), Config{NoPPFC: true}, KindCNP},
	} {
		var m Message
		err := m.Decode(c.octets, o, c.cfg)
		require.Equal(t, c.kind, m.Kind, "%v", err)
		if c.kind == KindError {
			require.ErrorIs(t, err, wireerr.CNPLength)
		}
	}
}

func TestKindString(t *testing.T) {
	want := []struct {
		k Kind
		s string
	}{
		{KindOther, "other"}, {KindError, "error"}, {KindData, "data"}, {KindAck, "ack"}, {KindCNP, "cnp"},
		{KindFastCNP, "fastcnp"},
		{KindPPFC, "ppfc"},
		{KindFCN, "fcn"},
		{KindProxy, "proxy"}, {KindPFC, "pfc"}, {KindPause, "pause"}, {KindUnknownOption, "unknown_option"},
		{12, "Kind(12)"},
	}
	for _, c := range want {
		t.Run(fmt.Sprint(c.k), func(t *testing.T) { require.Equal(t, c.s, c.k.String()) })
	}
}

func TestReachString(t *testing.T) {
	for _, c := range []struct {
		r Reach
		s string
	}{{ReachNothing, "nothing"}, {ReachUDP, "UDP"}, {ReachTransport, "transport"},
		{3, "Reach(3)"}} {
		t.Run(fmt.Sprint(c.r), func(t *testing.T) { require.Equal(t, c.s, c.r.String()) })
	}
}

// wrong reports whether a message is of a verified kind, and the error is that of a wrong ICRC or checksum.
func wrong(m *Message, err error) bool {
	return !m.Verified && errors.Is(err, wireerr.ICRC) &&
		(m.Kind == KindCNP || m.Kind == KindFastCNP || m.Kind == KindPPFC || m.Kind == KindFCN || m.Kind == KindProxy)
}

// Every packet of every capture has a kind, also truncated at any octet.
func TestCaptures(t *testing.T) {
	var m Message
	for _, name := range wiretest.Captures(t, "*.pcap") {
		for _, c := range wiretest.Capture(t, name) {
			for n := range len(c.Data) + 1 {
				err := m.Decode(c.Data[:n:n], rocev2.DecodeOptions{AllowTruncated: n < c.OrigLen}, Config{})
				require.Equal(t, err != nil && !wrong(&m, err), m.Kind == KindOther || m.Kind == KindError,
					"%s frame %d",
					name,
					c.Number)
			}
		}
	}
}

func FuzzMessage(f *testing.F) {
	address := there.As16()
	f.Add(roce(f, cnp.New(7, 0xFFFF).Header, fastOption(address[:]...), make([]byte, 16)), uint8(rocev2.LinkIP), false)
	f.Add(roce(f, ppfc.New(7, 0xFFFF, ppfc.Extension{}).Header, nil, make([]byte, 12)), uint8(rocev2.LinkIP), true)
	f.Add(roce(f, cnp.New(7, 0xFFFF).Header, []byte{17, 0, 0x8E, 0, 1, 2, 0, 0}, make([]byte, 16)),
		uint8(rocev2.LinkIP), false)
	f.Add(roce(f, bth.Header{Opcode: bth.RCRDMAWriteOnly}, nil, make([]byte, 64))[:50], uint8(rocev2.LinkIP), true)
	f.Add(udp(f, fcn.Port, []byte{0xBE, 0xEF, 0x5E, 0}), uint8(rocev2.LinkIP), false)
	f.Add(udp(f, proxymsg.Port, make([]byte, 40)), uint8(rocev2.LinkIP), false)
	ether := wiretest.Hex(f, "020000000001 020000000002 86dd")
	f.Add(append(ether, udp(f, fcn.Port, []byte{0xBE, 0xEF, 0x5E, 0})...), uint8(rocev2.LinkEthernet), false)
	f.Add(append(ether, roce(f, cnp.New(7, 0xFFFF).Header, nil, make([]byte, 16))...), uint8(rocev2.LinkEthernet),
		false)
	f.Fuzz(func(t *testing.T, b []byte, link uint8, cut bool) {
		var m Message
		o := rocev2.DecodeOptions{Link: rocev2.LinkType(link % 7), AllowTruncated: cut}
		err := m.Decode(b, o, Config{})
		require.Equal(t, err != nil && !wrong(&m, err), m.Kind == KindOther || m.Kind == KindError)
		var f rocev2.Frame
		f.Decode(b, o)
		var framed Message
		require.Equal(t, err, framed.DecodeView(f.Outer(), Config{}))
		m.frame = framed.frame
		require.Equal(t, framed, m)
		if need := snapLength(b, o); need != 0 {
			require.True(t, cut)
			require.Greater(t, need, len(b))
		}
		var p rocev2.Packet
		if p.Decode(b, o) == nil {
			if m.Verified {
				_, err := p.VerifyICRC() // sets the coverage
				require.NoError(t, err)
			}
			require.Equal(t, p, m.Packet)
			require.Equal(t, ReachTransport, m.Reach)
			switch m.Kind {
			case KindCNP:
				want := wiretest.Must(cnp.FromPacket(&p))(t)
				require.Equal(t, want, m.CNP)
			case KindUnknownOption:
				_, err := cnp.FromPacket(&p)
				require.Equal(t, cnp.ErrOption, err)
			case KindPPFC:
				want := wiretest.Must(ppfc.FromPacket(&p))(t)
				require.Equal(t, want, m.PPFC)
			}
		} else {
			require.NotEqual(t, ReachTransport, m.Reach)
		}
	})
}

// A zero Frame is not a message.
func TestZeroFrame(t *testing.T) {
	var m Message
	for range 2 {
		require.ErrorIs(t, m.DecodeView(new(rocev2.Frame).Outer(), Config{}), rocev2.ErrNotRoCEv2)
		require.Equal(t, KindOther, m.Kind)
		require.Equal(t, ReachNothing, m.Reach)
		require.ErrorIs(t, m.DecodeView(new(rocev2.Frame).Inner(), Config{}), rocev2.ErrNotRoCEv2)
		require.Zero(t, SnapLength(new(rocev2.Frame), Config{}))
	}
}

// The key names the data flow, with the queue pair of its receiver, in whichever direction the message travels.
func TestFlowKey(t *testing.T) {
	sender, receiver, pe := netip.MustParseAddr("2001:db8:1::1"), netip.MustParseAddr("2001:db8:4::e"),
		netip.MustParseAddr("2001:db8:ffff::1")
	flow := rocev2.FlowKey{Src: sender, Dst: receiver, DestQP: 0x12}
	reverse := rocev2.FlowKey{Src: receiver, Dst: sender, DestQP: 0x11}
	type named struct {
		kind Kind
		key  rocev2.FlowKey
		ok   bool
	}
	want := map[named]int{
		{KindData, flow, true}:    3,
		{KindAck, reverse, true}:  2, // the second is in VXLAN
		{KindFastCNP, flow, true}: 2,
		{KindCNP, rocev2.FlowKey{Src: sender, Dst: receiver}, false}: 1,
		{KindCNP, rocev2.FlowKey{Src: sender, Dst: pe}, false}:       1, // in the name of the ingress PE
		{KindPPFC, flow, true}:               2,
		{KindProxy, flow, true}:              1,
		{KindFCN, rocev2.FlowKey{}, false}:   1,
		{KindPFC, rocev2.FlowKey{}, false}:   2,
		{KindPause, rocev2.FlowKey{}, false}: 1,
	}
	got := map[named]int{}
	var m Message
	for _, c := range wiretest.Capture(t, "tour.pcap") {
		_ = m.Decode(c.Data, rocev2.DecodeOptions{}, Config{ProxyFamily: proxymsg.IPv6})
		if m.Kind != KindError && m.Kind != KindOther {
			key, ok := m.FlowKey()
			got[named{m.Kind, key, ok}]++
		}
	}
	require.Equal(t, want, got)
}

// Decode looks into tunnels by default. Packet.Outer then has their headers.
func TestDecodeTunnels(t *testing.T) {
	frames := slices.DeleteFunc(wiretest.Capture(t, "tour.pcap"), func(c wiretest.Packet) bool {
		var f rocev2.Frame
		f.Decode(c.Data, rocev2.DecodeOptions{})
		return f.Tunnels().Len() == 0
	})
	require.Len(t, frames, 1)
	for _, c := range []struct {
		name    string
		options rocev2.DecodeOptions
		want    Kind
	}{
		{"by default", rocev2.DecodeOptions{}, KindAck},
		{"outer packet only", rocev2.DecodeOptions{Outer: true}, KindOther},
	} {
		t.Run(c.name, func(t *testing.T) {
			var m Message
			err := m.Decode(frames[0].Data, c.options, Config{})
			require.Equal(t, c.want, m.Kind)
			require.Equal(t, c.want == KindOther, err != nil)
			require.Equal(t, c.want == KindAck, len(m.Packet.Outer) > 0)
		})
	}
}

func TestFlowControl(t *testing.T) {
	const macs = `0180c2000001 001122334455 `
	for _, c := range []struct {
		octets string
		kind   Kind
	}{
		{macs + `8808 0101 0018 0000 0000 0000 ffff 0000 0000 0000 0000`, KindPFC},
		{macs + `8100e000 8808 0101 0018 0000 0000 0000 ffff 0000 0000 0000 0000`, KindPFC},
		{macs + `8808 0001 1234`, KindPause},
		{macs + `8808 0101 0018 0000 0000 0000 ffff 0000 0000 0000 00`, KindError},
		{macs + `8808 0001 12`, KindError},
		{macs + `8808 0002 1234`, KindOther},
		{macs + `8808 01`, KindOther},
		{macs + `8808`, KindOther},
		{macs + `8809 0101 0018 0000 0000 0000 ffff 0000 0000 0000 0000`, KindOther},
	} {
		t.Run(c.octets, func(t *testing.T) {
			b := wiretest.Hex(t, c.octets)
			var m Message
			err := m.Decode(append(b, 0)[:len(b):len(b)], rocev2.DecodeOptions{}, Config{})
			require.Equal(t, c.kind, m.Kind)
			require.Equal(t, ReachNothing, m.Reach)
			switch c.kind {
			case KindPFC:
				require.NoError(t, err)
				require.Equal(t, pfc.PFC{Enabled: 0x18, Quanta: [8]uint16{3: 65535}}, m.PFC)
				require.Equal(t, "pfc", m.Kind.String())
			case KindPause:
				require.NoError(t, err)
				require.Equal(t, pfc.Pause{Quanta: 0x1234}, m.Pause)
				require.Equal(t, "pause", m.Kind.String())
			case KindError:
				require.ErrorIs(t, err, wireerr.Truncated)
				require.NotErrorIs(t, err, rocev2.ErrNotRoCEv2)
			default:
				require.ErrorIs(t, err, rocev2.ErrNotRoCEv2)
			}
			wiretest.NoAllocs(t, c.kind.String(), func() { _ = m.Decode(b, rocev2.DecodeOptions{}, Config{}) })
		})
	}
}

// Every packet of the captures, truncated at every octet: SnapLength returns a length
// above 0 if its kind cannot be decoded. With that length, or with the result for that
// length and so on, it can be decoded.
func TestSnapLength(t *testing.T) {
	for _, name := range []string{"messages.pcap", "fastcnp.pcap", "rxe-rping6.pcap", "ioam-linux618-two.pcap",
		"rxe-vlan4.pcap"} {
		for _, captured := range wiretest.Capture(t, name) {
			var m, cut Message
			whole := m.Decode(captured.Data, rocev2.DecodeOptions{}, Config{})
			o := rocev2.DecodeOptions{AllowTruncated: true}
			require.Zero(t, snapLength(captured.Data, o), "complete")
			if m.Kind == KindOther || m.Kind == KindError || whole != nil {
				continue
			}
			for n := 14; n < len(captured.Data); n++ {
				b := captured.Data[:n]
				_ = cut.Decode(b, o, Config{})
				need := snapLength(b, o)
				if cut.Kind == m.Kind {
					require.Zero(t, need, "%s frame %d, %d octets: %v", name, captured.Number, n, m.Kind)
					continue
				}
				for need != 0 {
					require.Greater(t, need, n, "%s frame %d, %d octets: %v", name, captured.Number, n, m.Kind)
					n = need
					need = snapLength(captured.Data[:min(n, len(captured.Data))], o)
				}
				_ = cut.Decode(captured.Data[:min(n, len(captured.Data))], o, Config{})
				require.Equal(t, m.Kind, cut.Kind, "%s frame %d, %d octets", name, captured.Number, n)
				n = len(b)
			}
		}
	}
}

// Expected lengths computed by hand, for packets without tags and options.
func TestSnapLengthByHand(t *testing.T) {
	longest4 := []byte{0: 0x4F, 3: 120, 9: 17, 60: 0} // 40 octets of options
	for _, c := range []struct {
		name   string
		octets []byte // from the IP header on
		there  int
		want   int
	}{
		{"IPv6 truncated in its header", roce(t, hdr(0x0A), nil, make([]byte, 64)), 30, 48 + 52},
		{"IPv6 truncated before UDP", roce(t, hdr(0x0A), nil, make([]byte, 64)), 40, 48 + 52},
		{"WRITE Only, truncated after UDP", roce(t, hdr(0x0A), nil, make([]byte, 64)), 48, 48 + 52},
		{"WRITE Only, truncated in the BTH", roce(t, hdr(0x0A), nil, make([]byte, 64)), 49, 48 + 12 + 16},
		{"WRITE Only, complete headers", roce(t, hdr(0x0A), nil, make([]byte, 64)), 76, 0},
		{"PPFC", roce(t, pause(), nil, make([]byte, 24)), 60, 48 + 36},
		{"FCN", udp(t, fcn.Port, []byte{0xBE, 0xEF, 0x5E, 0}), 48, 52},
		{"proxy message", udp(t, proxymsg.Port, make([]byte, 400)), 80, 48 + 100},
		{"IPv4 truncated in its header", longest4, 12, 60 + 8 + 52},
		{"IPv4 truncated in its options", longest4, 40, 60 + 8 + 52},
		{"another port", udp(t, 53, make([]byte, 400)), 80, 0},
		{"trimmed by a switch in the DETH", trimmed(roce(t, hdr(0x64), nil, make([]byte, 64)), 64), 64, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := rocev2.DecodeOptions{Link: rocev2.LinkIP, AllowTruncated: true}
			require.Equal(t, c.want, snapLength(c.octets[:c.there], o))
			require.Zero(t, snapLength(c.octets[:c.there], rocev2.DecodeOptions{Link: rocev2.LinkIP}),
				"not truncated")
		})
	}
}

// trimmed returns an IPv6 packet of which a switch has kept n octets. The length of IP is correct, that of UDP is not.
func trimmed(b []byte, n int) []byte {
	binary.BigEndian.PutUint16(b[4:], uint16(n-40))
	return b[:n:n]
}

func hdr(op bth.Opcode) bth.Header { return bth.Header{Opcode: op} }

func pause() bth.Header { return bth.Header{Opcode: bth.CNP, Resv6: ppfc.Bit} }

func snapLength(b []byte, o rocev2.DecodeOptions) int {
	var f rocev2.Frame
	f.Decode(b, o)
	return SnapLength(&f, Config{})
}
