package rocelayers_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/cm"
	"github.com/rocecn/rocecn/cnp"
	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/fcn"
	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/ioam"
	"github.com/rocecn/rocecn/ipv6opt"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/ppfc"
	"github.com/rocecn/rocecn/proxymsg"
	"github.com/rocecn/rocecn/rocelayers"
	"github.com/rocecn/rocecn/rocev2"
)

var (
	ether4   = []byte{2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x08, 0x00}
	ether6   = []byte{2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x86, 0xDD}
	loopback = netip.MustParseAddr("2001:db8:ffff::5")
	dst6far  = netip.MustParseAddr("2001:db8:4::e")
)

// congested returns an RDMA WRITE over IPv6 with these extension headers.
func congested(t testing.TB, next uint8, ext []byte) *rocev2.Packet {
	var p rocev2.Packet
	p.Src, p.Dst, p.SrcPort, p.DstPort, p.HopLimit, p.TrafficClass = src6, dst6far, 0xC001, rocev2.Port, 61, 1
	p.NextHeader, p.Ext = next, ext
	p.BTH.Header = bth.Header{Opcode: bth.RCRDMAWriteMiddle, PKey: 0xFFFF, DestQP: 0x111111, PSN: 5}
	p.Payload = make([]byte, 1024)
	octets := wiretest.Must(p.AppendBinary(nil))(t)
	require.NoError(t, p.DecodeIP(octets))
	return &p
}

// fastCNPFor returns the packet that a switch sends about a congested one from its
// loopback address.
func fastCNPFor(congested *rocev2.Packet, cfg fastcnp.Config) ([]byte, error) {
	out, _, err := fastcnp.AppendFor(nil, congested, loopback, nil, cfg)
	return out, err
}

// trace returns a pre-allocated trace with this many nodes of 5 words and room
// for one more.
func trace(t testing.TB, nodes int) ioam.Trace {
	fresh := ioam.Trace{OptType: ioam.OptTypePreallocated, Namespace: 123, Type: 0xF20000}
	data := wiretest.Must(fresh.AppendFresh(nil, 5*nodes+5))(t)
	for i := range nodes {
		var node ioam.Node
		node.SetNode(uint8(63-i), uint32(0xB2+i))
		node.SetIngress(0)
		node.SetEgress(0)
		node.SetSeconds(0)
		node.SetFraction(0)
		node.SetQueueDepth(uint32(1000 * i))
		added := wiretest.Must(ioam.AddNode(ioam.Option{Data: data}, &node))(t)
		require.True(t, added)
	}
	var full ioam.Trace
	require.NoError(t, full.Decode(ioam.Option{Data: data}))
	return full
}

// ioamData returns the data of an IPv6 option with a trace.
func ioamData(t testing.TB, trace ioam.Trace) []byte {
	return wiretest.Must(trace.AppendBinary([]byte{0, uint8(trace.OptType)}))(t)
}

// Types of the options of a Fast CNP.
const type1, type2 = int(fastcnp.Option1Type), int(fastcnp.Option2Type)

// options returns an options header with these options at 4n.
func options(t testing.TB, next uint8, typesAndData ...any) []byte {
	w := ipv6opt.Begin(nil, next)
	for i := 0; i < len(typesAndData); i += 2 {
		require.NoError(t, w.Add(ipv6opt.Type(typesAndData[i].(int)), 4, 0, typesAndData[i+1].([]byte)))
	}
	return w.Finish()
}

// message0x81 returns a frame with opcode 0x81, over IPv6 with these extension
// headers.
func message0x81(t testing.TB, resv6, next uint8, ext, payload []byte) []byte {
	var p rocev2.Packet
	p.Src, p.Dst, p.SrcPort, p.DstPort = loopback, src6, 0xC001, rocev2.Port
	p.NextHeader, p.Ext = next, ext
	p.BTH.Header = bth.Header{Opcode: bth.CNP, PKey: 0xFFFF, BECN: true, Resv6: resv6, DestQP: 0x111111}
	p.Payload = payload
	return wiretest.Must(p.AppendBinary(bytes.Clone(ether6)))(t)
}

// datagram returns a frame with a UDP datagram over IPv6.
func datagram(t testing.TB, port uint16, data []byte) []byte {
	d := rocev2.Datagram{Src: loopback, Dst: src6, DstPort: port, Checksum: 1, Data: data}
	return wiretest.Must(d.AppendBinary(bytes.Clone(ether6)))(t)
}

type named struct {
	name  string
	frame []byte
}

// built returns frames with every kind of message, from the codecs' own
// builders.
func built(t testing.TB) (frames []named) {
	add := func(name string, link []byte) func([]byte, error) {
		return func(ip []byte, err error) {
			require.NoError(t, err, name)
			frames = append(frames, named{name, append(bytes.Clone(link), ip...)})
		}
	}
	hopByHop := options(t, 17, ioam.IPv6MayChange, ioamData(t, trace(t, 3)))
	plain, traced := congested(t, 0, nil), congested(t, ipv6opt.HopByHop, hopByHop)
	as := rocev2.Carriage{SrcPort: 0xC001}
	checked := rocev2.Carriage{SrcPort: 0xC001, Checksum: true}

	add("Fast CNP option 1", ether6)(fastCNPFor(plain, fastcnp.Config{}))
	add("Fast CNP option 2", ether6)(fastCNPFor(traced, fastcnp.Config{}))
	ofReceiver, _, err := fastcnp.AppendFor(nil, plain, dst6far, nil, fastcnp.Config{Carriage: checked})
	add("Fast CNP of the receiver", ether6)(ofReceiver, err)
	incremental := fastcnp.Notification{Src: loopback, Dst: src6, CNP: cnp.New(7, 0x8000),
		Option: fastcnp.Option{Number: 2, OriginalDst: dst6far, Reserved: 9, Trace: trace(t, 2)}}
	incremental.Option.Trace.OptType, incremental.Option.Trace.RemainingLen = ioam.OptTypeIncremental, 0
	incremental.Option.Trace.Data = incremental.Option.Trace.Data[20:]
	incremental.CNP.Reserved = [16]byte([]byte("reserved octets."))
	add("Fast CNP with an incremental trace", ether6)(incremental.AppendPacket(nil, fastcnp.Config{Carriage: as}))
	address := dst6far.As16()
	outer := slices.Concat(options(t, 60, ioam.IPv6MayChange, ioamData(t, trace(t, 1))),
		options(t, 60, 0x1E, []byte{1}),
		options(t, 17, ioam.IPv6NoChange, []byte{0, 3, 0, 123, 0x40, 0, 0, 0, 0, 7}, type1, address[:]))
	frames = append(frames, named{"Fast CNP in the second of two headers",
		message0x81(t, 0, 0, outer, make([]byte, 16))})

	c := cnp.New(0x118, 0xFFFF)
	add("CNP", ether6)(c.AppendPacket(nil, loopback, src6, cnp.Config{Carriage: as}))
	frames = append(frames,
		named{"CNP with the P bit", message0x81(t, ppfc.Bit, 0, nil, make([]byte, 16))}, // D18
		named{"Fast CNP with the P bit", message0x81(t, ppfc.Bit, 60, options(t, 17, type1, address[:]),
			make([]byte, 16))},
		named{"CNP with other options", message0x81(t, 0, 60, options(t, 17, 0x1E, []byte{1, 2, 3}), make([]byte, 16))},
		named{"CNP with a trace", message0x81(t, 0, 0, hopByHop, make([]byte, 16))})

	for _, over := range []struct {
		name     string
		link     []byte
		src, dst netip.Addr
	}{{" over IPv4", ether4, src4, dst4}, {" over IPv6", ether6, src6, dst6}} {
		n := ppfc.New(0x118, 0xFFFF, ppfc.Extension{Congested: src4, Type: ppfc.Hold, Port: 7, Pause: ppfc.MaxPause})
		add("PPFC IPv4"+over.name, over.link)(n.AppendPacket(nil, over.src, over.dst, ppfc.Config{Carriage: as}))
		n.Congested, n.Flags, n.Reserved = dst6far, 0x2A5A, 0xBEEF
		add("PPFC IPv6"+over.name, over.link)(n.AppendPacket(nil, over.src, over.dst, ppfc.Config{Carriage: checked}))

		add("FCN"+over.name, over.link)(fcn.Message{FlowLabel: 0xBEEF5, Level: 7, Reserved: 0x155}.AppendPacket(nil,
			over.src, over.dst, fcn.Config{CopyLabel: true}))

		for _, invoking := range []struct {
			name  string
			frame []byte
		}{
			{"IPv4 CNP", wiretest.Hex(t, cnp4)}, {"IPv6 SEND", wiretest.Hex(t, send6)},
			{"truncated WRITE", slices.Concat(ether6, plain.IP)}, {"traced WRITE", slices.Concat(ether6, traced.IP)},
			{"IPv4 in IPv6", wrap(4, wiretest.Hex(t, cnp4)[14:])},
		} {
			var flow rocev2.Frame
			flow.Decode(invoking.frame, rocev2.DecodeOptions{})
			tuple := wiretest.Must(flow.FiveTuple())(t)
			m := proxymsg.Message{FiveTuple: tuple, Level: 5, Invoking: flow.Outer().IP()} // For rejects notifications
			name := "proxy message about " + invoking.name + over.name
			add(name, over.link)(m.AppendPacket(nil, over.src, over.dst, proxymsg.Config{}))
		}
		five := proxymsg.Message{FiveTuple: rocev2.FiveTuple{Src: src6, Dst: dst6far, Protocol: 6, SrcPort: 1,
			DstPort: 2}, Level: 7, Reserved: 0x1FFFFF}
		add("proxy message alone"+over.name, over.link)(five.AppendPacket(nil, over.src, over.dst, proxymsg.Config{}))
	}
	return frames
}

// broken returns frames with messages that do not parse.
func broken(t testing.TB) []named {
	address, reserved := dst6far.As16(), make([]byte, 16)
	option2 := append(ioamData(t, trace(t, 3)), address[:]...)
	proof := bytes.Clone(option2)
	proof[1] = 2 // of transit
	nodeLen := with(option2, 4, 0x30)
	overrun := options(t, 17, type1, address[:], 0x1E, []byte{1, 2, 3, 4})
	overrun[25] = 200
	return []named{
		{"two Fast CNP options", message0x81(t, 0, 60, options(t, 17, type1, address[:], type2, option2), reserved)},
		{"Fast CNP option of 15 octets", message0x81(t, 0, 60, options(t, 17, type1, address[:15]), reserved)},
		{"Fast CNP with a proof of transit", message0x81(t, 0, 60, options(t, 17, type2, proof), reserved)},
		{"Fast CNP with a wrong NodeLen", message0x81(t, 0, 60, options(t, 17, type2, nodeLen), reserved)},
		{"an option overruns after a Fast CNP option", message0x81(t, 0, 60, overrun, reserved)},
		{"Fast CNP of 15 octets", message0x81(t, 0, 60, options(t, 17, type1, address[:]), reserved[:15])},
		{"CNP of 17 octets", message0x81(t, 0, 0, nil, append(reserved, 1))},
		{"PPFC of 17 octets", message0x81(t, ppfc.Bit, 0, nil, append(reserved, 1))},
		{"FCN of 3 octets", datagram(t, fcn.Port, reserved[:3])},
		{"FCN of 5 octets", datagram(t, fcn.Port, reserved[:5])},
		{"proxy message of 15 octets", datagram(t, proxymsg.Port, reserved[:15])},
		{"proxy message without a family", datagram(t, proxymsg.Port,
			append(reserved, "what flow is this about"...))},
	}
}

// requireMessage decodes a frame in every way and checks the layers against
// the same frame decoded by package message.
func requireMessage(t *testing.T, name string, frame []byte) {
	t.Helper()
	eachDecoder(frame, func(decoder string, get func(gopacket.LayerType) gopacket.Layer, failure error) {
		t.Helper()
		requireMessageIn(t, name+", "+decoder, frame, get, failure)
	})
}

// requireMessageIn is requireMessage for one way of decoding: get returns a decoded layer, failure is the error.
func requireMessageIn(t *testing.T, name string, frame []byte, get func(gopacket.LayerType) gopacket.Layer,
	failure error) {
	t.Helper()
	var m message.Message
	err := m.Decode(frame, rocev2.DecodeOptions{AllowTruncated: true}, message.Config{SkipVerify: true})
	p := &m.Packet

	l, _ := get(rocelayers.LayerTypeBTH).(*rocelayers.BTH)
	if m.Reach == message.ReachTransport && p.BTH.Opcode == bth.CNP && p.PayloadLen() == 0 {
		require.Nil(t, l, name)
		require.Contains(t, []error{wireerr.CNPLength, wireerr.PPFCLength}, failure, name)
		return
	}
	switch {
	case m.Reach == message.ReachTransport:
		require.NotNil(t, l, name)
		requireSame(t, p, l)
	case m.Kind != message.KindProxy: // that has the BTH of the invoking packet
		require.Nil(t, l, name)
	}
	expected := map[message.Kind]gopacket.LayerType{
		message.KindCNP: rocelayers.LayerTypeCNP, message.KindFastCNP: rocelayers.LayerTypeFastCNP,
		message.KindPPFC: rocelayers.LayerTypePPFC,
		message.KindFCN:  rocelayers.LayerTypeFCN, message.KindProxy: rocelayers.LayerTypeProxy,
	}
	want := expected[m.Kind]
	cut := m.Reach == message.ReachTransport && len(p.Payload) < p.PayloadLen()
	if cut {
		want = gopacket.LayerTypeZero // not looked at
	}
	for _, kind := range slices.Sorted(maps.Keys(expected)) {
		typ := expected[kind]
		if m.Kind == message.KindProxy && typ != want {
			continue // may be the invoking packet's
		}
		require.Equal(t, typ == want, get(typ) != nil, "%s: %v", name, typ)
	}
	switch want {
	case rocelayers.LayerTypeCNP:
		require.Equal(t, m.CNP, get(want).(*rocelayers.CNP).CNP)
	case rocelayers.LayerTypeFastCNP:
		require.Equal(t, m.FastCNP, get(want).(*rocelayers.FastCNP).Notification)
	case rocelayers.LayerTypePPFC:
		require.Equal(t, m.PPFC, get(want).(*rocelayers.PPFC).Notification)
	case rocelayers.LayerTypeFCN:
		require.Equal(t, m.FCN, get(want).(*rocelayers.FCN).Message)
	case rocelayers.LayerTypeProxy:
		got := get(want).(*rocelayers.Proxy)
		require.Equal(t, m.Proxy, got.Message)
		require.Equal(t, p.Data, append(bytes.Clone(got.Contents), got.Payload...))
	}
	switch m.Kind {
	case message.KindError:
		// gopacket asks no layer about no octets.
		if !cut && (m.Reach == message.ReachUDP && len(p.Data) > 0 || m.Reach == message.ReachTransport &&
			len(p.Payload) > 0) {
			requireSameFault(t, err, failure, name)
		}
	case message.KindProxy, message.KindOther:
	default:
		require.NoError(t, failure, name)
	}
}

// failureOf returns the error that stopped the decoding of a packet.
func failureOf(p gopacket.Packet) error {
	if l := p.ErrorLayer(); l != nil {
		return l.Error()
	}
	return nil
}

// eachWay decodes a frame with NewPacket, with and without the override, and
// with a parser around gopacket's IPv6 layer and around ours.
func eachDecoder(frame []byte, f func(decoder string, get func(gopacket.LayerType) gopacket.Layer, failure error)) {
	for mode, options := range modes {
		packet := gopacket.NewPacket(frame, layers.LayerTypeEthernet, options)
		failure := failureOf(packet)
		if !refused(failure) {
			f(mode, packet.Layer, failure)
		}
	}
	override(func() {
		packet := gopacket.NewPacket(frame, layers.LayerTypeEthernet, modes["Default"])
		if failure := failureOf(packet); !refused(failure) {
			f("override", packet.Layer, failure)
		}
	})
	eachParser(frame, f)
}

// eachParser is eachWay without NewPacket.
func eachParser(frame []byte, f func(decoder string, get func(gopacket.LayerType) gopacket.Layer, failure error)) {
	own, theirs := newOwnStack(), newStack()
	f("own parser", own.layer, own.decode(frame))
	var s rocelayers.Stack
	f("Stack", s.Layer, s.Decode(frame))
	if err := theirs.decode(frame); !refused(err) {
		f("parser", theirs.layer, err)
	}
}

// refused reports whether gopacket rejected a packet because of an IPv6 option: one that runs beyond the packet, or a
// jumbogram's.
func refused(err error) bool {
	return err != nil && (strings.Contains(err.Error(), "TLV") ||
		strings.Contains(strings.ToLower(err.Error()), "jumbo"))
}

// override runs f with gopacket's Destination Options overridden.
func override(f func()) {
	typ := layers.LayerTypeIPv6Destination
	decoder := layers.IPProtocolMetadata[layers.IPProtocolIPv6Destination].DecodeWith
	defer func() {
		gopacket.OverrideLayerType(int(typ), gopacket.LayerTypeMetadata{Name: typ.String(), Decoder: decoder})
		layers.IPProtocolMetadata[layers.IPProtocolIPv6Destination].DecodeWith = decoder
	}()
	rocelayers.OverrideDestinationOptions()
	f()
}

// The layers agree with package message about every message.
func TestMessages(t *testing.T) {
	for _, c := range slices.Concat(built(t), broken(t)) {
		requireMessage(t, c.name, c.frame)
		require.NotEmpty(t, gopacket.NewPacket(c.frame, layers.LayerTypeEthernet, gopacket.Default).Dump())
	}
}

// Cut at every octet, too.
func TestTruncatedMessages(t *testing.T) {
	for _, c := range slices.Concat(built(t), broken(t)) {
		step := max(1, len(c.frame)/300)
		for n := 0; n < len(c.frame); n += step {
			requireMessage(t, c.name, c.frame[:n:n])
		}
	}
}

// A parser allocates nothing for any packet. With our IPv6 layer this includes packets with a Hop-by-Hop header.
func TestMessagesNoAllocations(t *testing.T) {
	own, theirs := newOwnStack(), newStack()
	for _, c := range slices.Concat(built(t), broken(t)) {
		for _, frame := range [][]byte{c.frame, c.frame[:len(c.frame)-3]} {
			_ = theirs.decode(frame)
			wiretest.NoAllocs(t, c.name, func() { _ = own.decode(frame) })
			if theirs.IPv6.HopByHop == nil {
				wiretest.NoAllocs(t, c.name, func() { _ = theirs.decode(frame) })
			}
			if own.has(rocelayers.LayerTypeBTH) {
				wiretest.NoAllocs(t, "BTH.FastCNP", func() { _, _ = own.BTH.FastCNP(fastcnp.CodePoints{}) })
				wiretest.NoAllocs(t, "BTH.VerifyICRC", func() { _, _ = own.BTH.VerifyICRC() })
			}
		}
	}
}

// A PPFC of any length except 12 and 24 octets is an error, for which nothing is allocated.
func TestPPFCLength(t *testing.T) {
	for _, n := range []int{1, 4, 11, 12, 13, 20, 23, 24, 25, 28, 1000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			p := rocev2.Packet{BTH: bth.Headers{Header: ppfc.New(1, 0xFFFF, ppfc.Extension{}).Header}}
			p.Src, p.Dst, p.DstPort, p.Payload = src6, dst6far, rocev2.Port, make([]byte, n)
			frame := wiretest.Must(p.AppendBinary(bytes.Clone(ether6)))(t)
			s := newStack()
			if n == 12 || n == 24 {
				require.NoError(t, s.decode(frame))
				return
			}
			require.ErrorIs(t, s.decode(frame), wireerr.PPFCLength)
			wiretest.NoAllocs(t, "decode", func() { _ = s.decode(frame) })
		})
	}
}

// A packet with opcode 0x81 and no octets after the BTH is an error, though gopacket calls no decoder for an empty
// payload. The same holds if the capture truncated the ICRC.
func TestEmptyCNP(t *testing.T) {
	for _, c := range []struct {
		header bth.Header
		err    error
	}{
		{cnp.New(1, 0xFFFF).Header, wireerr.CNPLength},
		{ppfc.New(1, 0xFFFF, ppfc.Extension{}).Header, wireerr.PPFCLength},
	} {
		p := rocev2.Packet{BTH: bth.Headers{Header: c.header}}
		p.Src, p.Dst, p.DstPort = src6, dst6far, rocev2.Port
		frame := wiretest.Must(p.AppendBinary(bytes.Clone(ether6)))(t)
		for cut := range 5 {
			there := frame[: len(frame)-cut : len(frame)-cut]
			packet := gopacket.NewPacket(there, layers.LayerTypeEthernet, gopacket.Default)
			require.NotNil(t, packet.ErrorLayer(), cut)
			require.ErrorIs(t, packet.ErrorLayer().Error(), c.err)
			s := newStack()
			require.ErrorIs(t, s.decode(there), c.err)
			require.Equal(t, bth.Headers{}, s.BTH.Headers)
		}
	}
}

// A proxy message has no ICRC; the one in its invoking packet is another's.
func TestProxyHasNoICRC(t *testing.T) {
	var flow rocev2.Frame
	flow.Decode(congested(t, 0, nil).IP, rocev2.DecodeOptions{Link: rocev2.LinkIP})
	frame, err := proxymsg.AppendFor(bytes.Clone(ether6), &flow, loopback, src6, 1, proxymsg.Config{})
	require.NoError(t, err)
	_, err = rocelayers.VerifyICRC(gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.Default))
	require.ErrorIs(t, err, rocelayers.ErrNoBTH)
}

// A whole proxy message is Truncated to gopacket where its sender has cut the
// invoking packet; the UDP length says that it is whole.
func TestProxyTruncated(t *testing.T) {
	var flow rocev2.Frame
	p := congested(t, 0, nil)
	p.Payload = make([]byte, 1400)
	ip := wiretest.Must(p.AppendBinary(nil))(t)
	flow.Decode(ip, rocev2.DecodeOptions{Link: rocev2.LinkIP})
	frame := wiretest.Must(proxymsg.AppendFor(bytes.Clone(ether6), &flow, loopback, src6, 1, proxymsg.Config{}))(t)
	for cut := range 3 {
		packet := gopacket.NewPacket(frame[:len(frame)-cut], layers.LayerTypeEthernet, gopacket.Default)
		require.True(t, packet.Metadata().Truncated)
		l := packet.Layer(rocelayers.LayerTypeProxy).(*rocelayers.Proxy)
		length := packet.TransportLayer().(*layers.UDP).Length
		require.Equal(t, int(length)-8-cut, len(l.Contents)+len(l.Payload))
	}
}

// A UDP length that exceeds the IP packet does not make octets after the packet a part of the message, also after a
// Hop-by-Hop header, for which google/gopacket passes them on.
func TestMessageAfterIPPacket(t *testing.T) {
	proxied := wiretest.Hex(t, "45000024 00000000 40110000 c0000201 c0000202 c00012b7 00100000 04000000 00000222")
	m := proxymsg.Message{Level: 1, Invoking: proxied, FiveTuple: rocev2.FiveTuple{Src: src4, Dst: dst4, Protocol: 17,
		SrcPort: 49152, DstPort: 4791}}
	for _, c := range []struct {
		name string
		port uint16
		data []byte
		left int // octets of data in the IP packet
		want int // octets in the layer; 0: no layer
	}{
		{"FCN", fcn.Port, wiretest.Hex(t, "61234001"), 0, 0},
		{"FCN, 3 octets left", fcn.Port, wiretest.Hex(t, "61234001"), 3, 0},
		{"proxy", proxymsg.Port, wiretest.Must(m.AppendBinary(nil))(t), 46, 46},
	} {
		for _, traced := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, Hop-by-Hop %v", c.name, traced), func(t *testing.T) {
				header := wiretest.Hex(t, "11 00 01 04 00000000") // PadN
				frame := append(bytes.Clone(ether6), wiretest.Hex(t, "60000000 0000 0040"+
					"20010db8000000000000000000000001 20010db8000000000000000000000002")...)
				frame[14+6] = 17
				if traced {
					frame[14+6] = 0
					frame = append(frame, header...)
				}
				udp := wiretest.Hex(t, "c000 0000 0000 0000")
				binary.BigEndian.PutUint16(udp[2:], c.port)
				binary.BigEndian.PutUint16(udp[4:], uint16(8+len(c.data)))
				binary.BigEndian.PutUint16(frame[14+4:], uint16(len(frame)-54+8+c.left))
				frame = slices.Concat(frame, udp, c.data, make([]byte, 8))
				check := func(decoder string, l gopacket.Layer) {
					if c.want == 0 {
						require.Nil(t, l, decoder)
						return
					}
					require.NotNil(t, l, decoder)
					require.Len(t, append(l.LayerContents(), l.LayerPayload()...), c.want, decoder)
				}
				typ := rocelayers.LayerTypeFCN
				if c.port == proxymsg.Port {
					typ = rocelayers.LayerTypeProxy
				}
				for mode, options := range modes {
					check(mode, gopacket.NewPacket(frame, layers.LayerTypeEthernet, options).Layer(typ))
				}
				own, theirs := newOwnStack(), newStack()
				_, _ = own.decode(frame), theirs.decode(frame)
				check("own parser", own.layer(typ))
				check("parser", theirs.layer(typ))
				var s rocelayers.Stack
				_ = s.Decode(frame)
				check("Stack", s.Layer(typ))
			})
		}
	}
}

// Every CM message of the captures is a layer, to NewPacket and to a Stack, and
// serialized it is the same frame again.
func TestCM(t *testing.T) {
	seen := map[string]int{}
	var s rocelayers.Stack
	for _, name := range wiretest.Captures(t, "rxe-*.pcap") {
		for _, c := range wiretest.Capture(t, name) {
			packet := gopacket.NewPacket(c.Data, layers.LayerTypeEthernet, gopacket.Default)
			l, _ := packet.Layer(rocelayers.LayerTypeCM).(*rocelayers.CM)
			_ = s.Decode(c.Data)
			if l == nil {
				require.Nil(t, s.Layer(rocelayers.LayerTypeCM))
				continue
			}
			require.NotNil(t, s.Layer(rocelayers.LayerTypeCM))
			require.Equal(t, l.Header, s.CM.Header)
			require.Equal(t, l.Message, s.CM.Message)
			require.Equal(t, l.Contents, s.CM.Contents)
			wiretest.NoAllocs(t, "Stack.Decode", func() { _ = s.Decode(c.Data) })
			seen[fmt.Sprintf("%v %T", l.Attribute, l.Message)]++

			again := wiretest.Must(l.Message.AppendBinary(nil))(t)
			require.Equal(t, l.Contents[cm.HeaderSize:], again)

			var all []gopacket.SerializableLayer
			for _, l := range packet.Layers() {
				all = append(all, l.(gopacket.SerializableLayer))
			}
			buf := gopacket.NewSerializeBuffer()
			require.NoError(t, rocelayers.SerializeLayers(buf, gopacket.SerializeOptions{}, all...))
			require.Equal(t, c.Data, buf.Bytes())
		}
	}
	require.Equal(t, map[string]int{
		"REQ *cm.REQ": 3, "REP *cm.REP": 3, "RTU *cm.RTU": 3, "DREQ *cm.DREQ": 3, "DREP *cm.DREP": 3,
		"SIDR_REQ *cm.SIDRREQ": 1, "SIDR_REP *cm.SIDRREP": 1,
	}, seen)
}

// Each message has its place; other attributes and lengths are errors.
func TestCMMessages(t *testing.T) {
	for _, c := range []struct {
		a cm.Attribute
		m interface {
			AppendBinary([]byte) ([]byte, error)
		}
	}{
		{cm.AttributeREQ, &cm.REQ{LocalQPN: 1}}, {cm.AttributeMRA, &cm.MRA{Message: 1}},
		{cm.AttributeREJ, &cm.REJ{Reason: 8}},
		{cm.AttributeREP, &cm.REP{LocalQPN: 2}}, {cm.AttributeRTU, &cm.RTU{LocalCommID: 3}},
		{cm.AttributeDREQ, &cm.DREQ{RemoteQPN: 4}},
		{cm.AttributeDREP, &cm.DREP{LocalCommID: 5}}, {cm.AttributeSIDRREQ, &cm.SIDRREQ{PKey: 6}},
		{cm.AttributeSIDRREP, &cm.SIDRREP{QPN: 7}},
	} {
		t.Run(fmt.Sprint(c.a), func(t *testing.T) {
			given := rocelayers.CM{Header: cm.NewHeader(c.a, 9), Message: c.m}
			buf := gopacket.NewSerializeBuffer()
			require.NoError(t, given.SerializeTo(buf, gopacket.SerializeOptions{}))
			var l rocelayers.CM
			require.NoError(t, l.DecodeFromBytes(buf.Bytes(), gopacket.NilDecodeFeedback))
			require.Equal(t, given.Header, l.Header)
			want := wiretest.Must(c.m.AppendBinary(nil))(t)
			got := wiretest.Must(l.Message.AppendBinary(nil))(t)
			require.Equal(t, want, got)
			require.Equal(t, gopacket.LayerTypeZero, l.NextLayerType())

			before := l
			for n := range cm.Size {
				require.Error(t, l.DecodeFromBytes(buf.Bytes()[:n], gopacket.NilDecodeFeedback))
			}
			require.Equal(t, before, l)

			// Another Attribute than the message's is a mistake.
			for other := range cm.AttributeSIDRREP + 2 {
				buf, given := gopacket.NewSerializeBuffer(), rocelayers.CM{Header: cm.NewHeader(other, 9), Message: c.m}
				err := given.SerializeTo(buf, gopacket.SerializeOptions{})
				require.Equal(t, other == c.a, err == nil)
				if err != nil {
					require.ErrorIs(t, err, rocelayers.ErrCMMessage)
					require.Empty(t, buf.Bytes())
				}
			}
		})
	}

	octets := bytes.Repeat([]byte{0, 0x19}, cm.Size/2) // another attribute, another length
	var l rocelayers.CM
	require.ErrorIs(t, l.DecodeFromBytes(octets, gopacket.NilDecodeFeedback), rocelayers.ErrCMAttribute)
	require.ErrorIs(t, l.DecodeFromBytes(append(octets, 0), gopacket.NilDecodeFeedback), rocelayers.ErrCMSize)
	require.Equal(t, rocelayers.CM{}, l)
	require.ErrorIs(t, l.SerializeTo(gopacket.NewSerializeBuffer(), gopacket.SerializeOptions{}),
		rocelayers.ErrCMAttribute)
	wrong := rocelayers.CM{Header: cm.NewHeader(cm.AttributeREQ, 9), Message: &cm.REQ{LocalQPN: 1 << 24}}
	require.ErrorIs(t, wrong.SerializeTo(gopacket.NewSerializeBuffer(), gopacket.SerializeOptions{}), wireerr.Range)
	wrong.Message = &cm.IPData{} // no message
	require.ErrorIs(t, wrong.SerializeTo(gopacket.NewSerializeBuffer(), gopacket.SerializeOptions{}),
		rocelayers.ErrCMAttribute)
}

// Print the addresses and queue pairs of connections.
func ExampleCM() {
	rocelayers.Register()
	for _, frame := range cmFrames() {
		packet := gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.Default)
		l, ok := packet.Layer(rocelayers.LayerTypeCM).(*rocelayers.CM)
		if !ok {
			continue
		}
		switch m := l.Message.(type) {
		case *cm.REQ:
			fmt.Printf("%v asks with queue pair %d\n", m.Primary.LocalGID.Unmap(), m.LocalQPN)
		case *cm.REP:
			fmt.Printf("accepted with queue pair %d\n", m.LocalQPN)
		}
	}
	// Output:
	// 10.77.0.2 asks with queue pair 17
	// 10.77.0.2 asks with queue pair 18
	// accepted with queue pair 17
	// accepted with queue pair 18
}

func cmFrames() (frames [][]byte) {
	for _, c := range wiretest.Capture(new(testing.T), "rxe-ucmatose4.pcap") {
		frames = append(frames, c.Data)
	}
	return frames
}
