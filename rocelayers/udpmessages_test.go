package rocelayers_test

import (
	"bytes"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn"
	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/fcn"
	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/pfc"
	"github.com/rocecn/rocecn/ppfc"
	"github.com/rocecn/rocecn/proxymsg"
	"github.com/rocecn/rocecn/rocelayers"
	"github.com/rocecn/rocecn/rocev2"
)

// Every message comes out of SerializeLayers as it went in, as given and
// computed.
func TestSerializeMessages(t *testing.T) {
	for _, c := range built(t) {
		t.Run(c.name, func(t *testing.T) {
			var ls []gopacket.SerializableLayer
			override(func() {
				ls = serializable(gopacket.NewPacket(c.frame, layers.LayerTypeEthernet, gopacket.Default))
			})
			for i, l := range ls {
				if l.LayerType() == rocelayers.LayerTypeProxy {
					ls = ls[:i+1] // it has the invoking packet
					break
				}
			}
			buf := dirty(t)
			for _, opts := range []gopacket.SerializeOptions{{}, fix, complete} {
				require.NoError(t, rocelayers.SerializeLayers(buf, opts, ls...))
				require.Equal(t, c.frame, buf.Bytes()[:len(c.frame)]) // Ethernet pads
			}
			s := newOwnStack()
			_ = s.decode(c.frame)
			if types := slices.Clone(s.Decoded); !s.has(rocelayers.LayerTypeProxy) {
				slices.Sort(types)
				if len(slices.Compact(types)) < len(s.Decoded) {
					return // one layer was decoded into twice
				}
				require.NoError(t, rocelayers.SerializeLayers(buf, complete, s.layers()...))
				require.Equal(t, c.frame, buf.Bytes()[:len(c.frame)])
			}
		})
	}
}

// carriedBy returns the layers around a UDP message.
func carriedBy(src netip.Addr, port layers.UDPPort) []gopacket.SerializableLayer {
	u := &layers.UDP{SrcPort: 49152, DstPort: port}
	if src.Is4() {
		return []gopacket.SerializableLayer{ipv4(), u}
	}
	return []gopacket.SerializableLayer{ipv6(), u}
}

// Put together from layers, messages are those that their packages build, with
// the UDP checksum, which is never 0.
func TestSerializeUDPMessages(t *testing.T) {
	as := rocev2.Carriage{SrcPort: 49152}
	zero := 0
	for _, over := range []struct{ src, dst netip.Addr }{{src4, dst4}, {src6, dst6}} {
		same := func(want []byte, err error, ls []gopacket.SerializableLayer) {
			require.NoError(t, err)
			buf := dirty(t)
			require.NoError(t, rocelayers.SerializeLayers(buf, complete, ls...))
			require.Equal(t, want, buf.Bytes())
			var d rocev2.Datagram
			require.NoError(t, d.DecodeIP(want))
			require.Equal(t, d.Checksum, ls[1].(*layers.UDP).Checksum)
			if d.Checksum == 0xFFFF {
				zero++
			}
		}
		m := fcn.Message{FlowLabel: 1 << 12}
		for range 2 { // the second time the checksum sums up to 0
			want, err := m.AppendPacket(nil, over.src, over.dst, fcn.Config{Carriage: as})
			same(want, err, append(carriedBy(over.src, fcn.Port), &rocelayers.FCN{Message: m}))
			var d rocev2.Datagram
			require.NoError(t, d.DecodeIP(want))
			m.FlowLabel |= uint32(d.Checksum >> 12)
			m.Level, m.Reserved = uint8(d.Checksum>>9&7), d.Checksum&0x1FF
		}

		for _, tuple := range []rocev2.FiveTuple{
			{Src: src4, Dst: dst4, Protocol: 17, SrcPort: 1, DstPort: 4791},
			{Src: src6, Dst: dst6far, Protocol: 6, SrcPort: 1, DstPort: 2},
		} {
			for _, invoking := range [][]byte{nil, wiretest.Hex(t, send6)[14:], make([]byte, 1200)} {
				m := proxymsg.Message{FiveTuple: tuple, Level: 6, Reserved: 0x12345, Invoking: invoking}
				want, err := m.AppendPacket(nil, over.src, over.dst, proxymsg.Config{Carriage: as})
				m.TruncateInvoking(over.dst)
				same(want, err, append(carriedBy(over.src, proxymsg.Port), &rocelayers.Proxy{Message: m}))
			}
		}
	}
	require.Equal(t, 2, zero)
}

// D9: the IP packet of a message has at most 576 octets over IPv4 and 1280 over IPv6, with any lower layers, and with
// the invoking packet as octets or as layers.
func TestSerializeProxyLimit(t *testing.T) {
	tuple := rocev2.FiveTuple{Src: src6, Dst: dst6far, Protocol: 17, SrcPort: 1, DstPort: 4791}
	tunnel := ipv6()
	tunnel.NextHeader = layers.IPProtocolIPv4
	withOption := ipv6()
	withOption.NextHeader = layers.IPProtocolIPv6Destination
	header := new(rocelayers.DestinationOptions)
	_, err := header.Decode(options(t, 17, 0x1E, []byte{1, 2}))
	require.NoError(t, err)
	for _, row := range []struct {
		name    string
		before  []gopacket.SerializableLayer
		longest int // octets of the invoking packet
	}{
		{"IPv4", carriedBy(src4, proxymsg.Port), 576 - 20 - 8 - 40},
		{"IPv6", carriedBy(src6, proxymsg.Port), 1280 - 40 - 8 - 40},
		{"IPv4 in IPv6", append(layerList{tunnel}, carriedBy(src4, proxymsg.Port)...), 576 - 20 - 8 - 40},
		{"IPv6 with options", layerList{withOption, header, udp(0)}, 1280 - 40 - 8 - 8 - 40},
	} {
		t.Run(row.name, func(t *testing.T) {
			for beyond := range 3 {
				invoking := make([]byte, row.longest+beyond)
				m := proxymsg.Message{FiveTuple: tuple, Invoking: invoking}
				for _, after := range []layerList{
					{&rocelayers.Proxy{Message: m}},
					{&rocelayers.Proxy{Message: m}, gopacket.Payload(invoking)},
				} {
					buf, ls := dirty(t), slices.Concat(row.before, after)
					err := rocelayers.SerializeLayers(buf, complete, ls...)
					if beyond == 0 {
						require.NoError(t, err)
						continue
					}
					require.ErrorIs(t, err, rocelayers.ErrProxyLimit)
					require.ErrorIs(t, err, wireerr.Range)
					require.Zero(t, len(buf.Bytes()))
					require.NoError(t, rocelayers.SerializeLayers(buf, fix, ls...), "as given")
				}
			}
		})
	}
}

// The invoking packet may be given as layers. Its ICRC is then computed too.
func TestSerializeInvoking(t *testing.T) {
	want := wiretest.Hex(t, send6)[14:]
	m := proxymsg.Message{FiveTuple: rocev2.FiveTuple{Src: src6, Dst: dst6far, Protocol: 17, SrcPort: 1, DstPort: 4791},
		Level: 6, Invoking: want}
	message, err := m.AppendPacket(nil, src4, dst4, proxymsg.Config{Carriage: rocev2.Carriage{SrcPort: 49152}})
	require.NoError(t, err)
	s := newStack()
	require.NoError(t, s.decode(append(bytes.Clone(ether6), want...)))
	s.BTH.ICRC.Value = 0
	ls := append(carriedBy(src4, proxymsg.Port), &rocelayers.Proxy{Message: m}, &s.IPv6, &s.UDP, &s.BTH)
	buf := dirty(t)
	require.NoError(t, rocelayers.SerializeLayers(buf, complete, ls...))
	require.Equal(t, message, buf.Bytes())
}

func TestSerializePPFC(t *testing.T) {
	n := ppfc.New(0x118, 0xFFFF, ppfc.Extension{Type: ppfc.Alarm, Port: 7, Pause: ppfc.MaxPause, Flags: 0x2A5A,
		Reserved: 0xBEEF})
	for _, n.Congested = range []netip.Addr{src4, dst6far} {
		want, err := n.AppendPacket(nil, src6, dst6, ppfc.Config{Carriage: rocev2.Carriage{SrcPort: 49152}})
		require.NoError(t, err)
		header := new(rocelayers.BTH)
		header.Header = n.Header
		buf := dirty(t)
		require.NoError(t, rocelayers.SerializeLayers(buf, complete, ipv6(), udp(0), header,
			&rocelayers.PPFC{Notification: n}))
		require.Equal(t, want, buf.Bytes())
	}
}

// Values that fit no field are errors of the codec's.
func TestSerializeMessagesRefused(t *testing.T) {
	for _, c := range []struct {
		layer gopacket.SerializableLayer
		err   error
	}{
		{&rocelayers.FCN{Message: fcn.Message{FlowLabel: 1 << 20}}, wireerr.Range},
		{&rocelayers.Proxy{}, wireerr.Range},
		{&rocelayers.Proxy{Message: proxymsg.Message{FiveTuple: rocev2.FiveTuple{Src: src4, Dst: src4}, Level: 8}},
			wireerr.Range},
		{&rocelayers.PPFC{}, wireerr.Range},
		{&rocelayers.PPFC{Notification: ppfc.Notification{Extension: ppfc.Extension{Congested: src4, Pause: -1}}},
			wireerr.Range},
	} {
		for _, serialize := range []func(gopacket.SerializeBuffer, gopacket.SerializeOptions,
			...gopacket.SerializableLayer) error{
			gopacket.SerializeLayers, rocelayers.SerializeLayers,
		} {
			require.ErrorIs(t, serialize(dirty(t), complete, c.layer), c.err)
		}
	}
}

// A packet that does not lead to its message has no checksum to compute.
func TestSerializeUDPMessagesAstray(t *testing.T) {
	ls := append(carriedBy(src6, fcn.Port), new(rocelayers.FCN))
	ls[0].(*layers.IPv6).NextHeader = layers.IPProtocolTCP
	require.ErrorIs(t, rocelayers.SerializeLayers(dirty(t), complete, ls...), rocev2.ErrNotRoCEv2)
}

// Traffic that only comes from our ports is not ours.
func TestMessagesFromOurPorts(t *testing.T) {
	for _, port := range []uint16{fcn.Port, proxymsg.Port} {
		d := rocev2.Datagram{Src: loopback, Dst: src6, SrcPort: port, DstPort: 5000, Data: []byte("data")}
		frame := wiretest.Must(d.AppendBinary(bytes.Clone(ether6)))(t)
		packet := gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.Default)
		require.Equal(t, "data", string(packet.Layer(gopacket.LayerTypePayload).LayerContents()))
		require.Nil(t, packet.ErrorLayer())
		s := newStack()
		require.ErrorIs(t, s.decode(frame), rocev2.ErrPort)
		require.Equal(t, layers.LayerTypeUDP, s.Decoded[len(s.Decoded)-1])
	}
}

// Without the layers around them the octets given are all there are.
func TestMessagesAlone(t *testing.T) {
	frame := datagram(t, fcn.Port, []byte{0xBE, 0xEF, 0x5E, 0})
	packet := gopacket.NewPacket(frame[62:], rocelayers.LayerTypeFCN, gopacket.Default)
	require.Equal(t, fcn.Message{FlowLabel: 0xBEEF5, Level: 7},
		packet.Layer(rocelayers.LayerTypeFCN).(*rocelayers.FCN).Message)
	require.Contains(t, packet.String(), "FCN\tflow label 0xbeef5 level 7\n")

	var proxy rocelayers.Proxy
	require.ErrorIs(t, proxy.DecodeFromBytes(make([]byte, 60), gopacket.NilDecodeFeedback), wireerr.Malformed)
	require.Equal(t, rocelayers.Proxy{}, proxy)

	notification := message0x81(t, ppfc.Bit, 0, nil, make([]byte, 24))
	extension := notification[74:98]
	s := newStack()
	require.NoError(t, s.decode(notification))
	require.Equal(t, netip.IPv6Unspecified(), s.PPFC.Congested)
	require.Equal(t, "PPFC\tstop 0s port 0 of ::; CNP DestQP 0x111111 PSN 0 PKey 0xffff BECN 1 Resv6 32",
		gopacket.LayerString(&s.PPFC))
	s.BTH.Opcode = bth.RCSendOnly
	require.ErrorContains(t, s.PPFC.DecodeFromBytes(extension, nil), "opcode")
	s.BTH.Opcode, s.BTH.Resv6 = bth.CNP, 0
	require.ErrorContains(t, s.PPFC.DecodeFromBytes(extension, nil), "a CNP, not a PPFC")
	s.BTH.Pad = 4
	require.ErrorIs(t, s.PPFC.DecodeFromBytes(extension, nil), wireerr.Range)
	require.Equal(t, netip.IPv6Unspecified(), s.PPFC.Congested)

	// Without the UDP layer it is unknown whether the packet is truncated or gopacket only treats it as truncated.
	hopByHop := append(bytes.Clone(frame[:54]), options(t, 17, 0x1E, []byte{1})...)
	hopByHop = with(append(hopByHop, frame[54:]...), 18, 0, uint8(len(frame)-54+8), 0)
	require.NoError(t, s.decode(hopByHop))
	parser := gopacket.NewDecodingLayerParser(layers.LayerTypeEthernet, s.Layers()...)
	parser.AddDecodingLayer(&s.UDP.UDP)
	parser.AddDecodingLayer(new(rocelayers.FCN))
	require.NoError(t, parser.DecodeLayers(hopByHop, &s.Decoded))
	require.ErrorIs(t, parser.DecodeLayers(hopByHop[:len(hopByHop)-1], &s.Decoded), rocelayers.ErrUDPTruncated)
}

// A message that the invoking packet does not go with is whole all the same.
func TestProxyInvokingGarbage(t *testing.T) {
	for _, invoking := range []string{"\x45 no IPv4 header here", "\x60 no IPv6 header, either, in these forty octets",
		"no IP", "\x60 short"} {
		m := proxymsg.Message{FiveTuple: rocev2.FiveTuple{Src: src6, Dst: dst6far}, Invoking: []byte(invoking)}
		data := wiretest.Must(m.AppendBinary(nil))(t)
		frame := datagram(t, proxymsg.Port, data)
		s := newStack()
		s.Config.ProxyFamily = proxymsg.IPv6
		_ = s.decode(frame)
		require.Equal(t, m, s.Proxy.Message)
		require.True(t, s.has(rocelayers.LayerTypeProxy))
		require.Equal(t, invoking, string(s.Proxy.LayerPayload()))
	}
}

func TestFlowControl(t *testing.T) {
	rocelayers.RegisterFlowControl()
	const header = `0180c2000001 001122334455 8808`
	var again rocelayers.FlowControl // has the frame before
	for _, c := range []struct {
		octets string
		want   rocelayers.FlowControl
	}{
		{`0101 0018 0000 0000 0000 ffff 0000 0000 0000 0000`,
			rocelayers.FlowControl{Opcode: pfc.OpcodePFC, PFC: pfc.PFC{Enabled: 0x18, Quanta: [8]uint16{3: 0xFFFF}}}},
		{`0001 1234`, rocelayers.FlowControl{Opcode: pfc.OpcodePause, Pause: pfc.Pause{Quanta: 0x1234}}},
	} {
		t.Run(c.octets, func(t *testing.T) {
			control := wiretest.Hex(t, c.octets)
			frame := append(wiretest.Hex(t, header), control...)
			frame = append(frame, make([]byte, 60-len(frame))...)
			p := gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.Default)
			require.Nil(t, p.ErrorLayer())
			l, ok := p.Layer(rocelayers.LayerTypeFlowControl).(*rocelayers.FlowControl)
			require.True(t, ok)
			require.Equal(t, control, l.Contents)
			require.Len(t, l.Payload, 46-len(control))
			l.BaseLayer = layers.BaseLayer{}
			require.Equal(t, c.want, *l)

			buf := dirty(t)
			ethernet := p.Layer(layers.LayerTypeEthernet).(*layers.Ethernet)
			require.NoError(t, gopacket.SerializeLayers(buf, complete, ethernet, l))
			require.Equal(t, frame, buf.Bytes())

			var eth layers.Ethernet
			parser := gopacket.NewDecodingLayerParser(layers.LayerTypeEthernet, &eth, &again)
			var decoded []gopacket.LayerType
			require.NoError(t, parser.DecodeLayers(frame, &decoded))
			require.Equal(t, []gopacket.LayerType{layers.LayerTypeEthernet, rocelayers.LayerTypeFlowControl}, decoded)
			wiretest.NoAllocs(t, "parser", func() { _ = parser.DecodeLayers(frame, &decoded) })

			again.BaseLayer = layers.BaseLayer{}
			require.Equal(t, c.want, again)

			was := again
			wiretest.Prefixes(t, control, func(b []byte) error {
				return again.DecodeFromBytes(b,
					gopacket.NilDecodeFeedback)
			})
			require.Equal(t, was, again)
			for n := 1; n < len(control); n++ {
				p := gopacket.NewPacket(frame[:14+n], layers.LayerTypeEthernet, gopacket.Default)
				require.NotNil(t, p.ErrorLayer(), n)
				require.ErrorIs(t, p.ErrorLayer().Error(), wireerr.Truncated)
				require.True(t, p.Metadata().Truncated)
			}
		})
	}
	other := wiretest.Hex(t, header+`0002 1234`)
	p := gopacket.NewPacket(other, layers.LayerTypeEthernet, gopacket.Default)
	require.Nil(t, p.ErrorLayer())
	require.Nil(t, p.Layer(rocelayers.LayerTypeFlowControl))
	require.Equal(t, other[14:], p.ApplicationLayer().Payload())
	require.ErrorIs(t, (&rocelayers.FlowControl{Opcode: 2}).SerializeTo(dirty(t), complete), rocecn.ErrRange)
	require.Equal(t, "FlowControl", rocelayers.LayerTypeFlowControl.String())
	require.EqualValues(t, 1801, rocelayers.LayerTypeFlowControl)
}
