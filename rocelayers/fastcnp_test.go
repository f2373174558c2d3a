package rocelayers_test

import (
	"net"
	"slices"
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/cnp"
	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/ioam"
	"github.com/rocecn/rocecn/ipv6opt"
	"github.com/rocecn/rocecn/rocelayers"
	"github.com/rocecn/rocecn/rocev2"
)

func TestFastCNP(t *testing.T) {
	frames := built(t)
	for _, c := range []struct {
		named
		origin fastcnp.Origin
		nodes  int
		text   string
	}{
		{frames[0], fastcnp.OriginNetwork, 0,
			"FastCNP\tOption 1 OriginalDst 2001:db8:4::e DestQP 0x111111 Origin network"},
		{frames[1], fastcnp.OriginNetwork, 3,
			"FastCNP\tOption 2 OriginalDst 2001:db8:4::e DestQP 0x111111 Origin network Namespace 123 Nodes 3"},
		{frames[2], fastcnp.OriginReceiver, 0,
			"FastCNP\tOption 1 OriginalDst 2001:db8:4::e DestQP 0x111111 Origin receiver"},
	} {
		eachDecoder(c.frame, func(decoder string, get func(gopacket.LayerType) gopacket.Layer, failure error) {
			require.NoError(t, failure, decoder)
			l := get(rocelayers.LayerTypeFastCNP).(*rocelayers.FastCNP)
			require.Equal(t, dst6far, l.Option.OriginalDst)
			require.EqualValues(t, 0x111111, l.CNP.DestQP)
			require.Equal(t, get(rocelayers.LayerTypeBTH).(*rocelayers.BTH).Header, l.CNP.Header)
			require.Equal(t, c.origin, l.Origin())
			nodes := 0
			for range l.Option.Trace.Nodes() {
				nodes++
			}
			require.Equal(t, c.nodes, nodes)
			require.NoError(t, l.Validate())
			require.Equal(t, make([]byte, 16), l.LayerContents())
			require.Equal(t, c.text, gopacket.LayerString(l))
		})
	}
}

// The headers around the IPv6 header do not matter. With IP in IP the header around UDP counts.
func TestFastCNPAround(t *testing.T) {
	fast := built(t)[0].frame
	address := dst6far.As16()
	inFast := wrap(60, slices.Concat(options(t, 4, type1, address[:]), wiretest.Hex(t, cnp4)[14:]))
	for _, row := range []struct {
		name  string
		frame []byte
		want  gopacket.LayerType
	}{
		{"VLAN", vlan(fast, 2), rocelayers.LayerTypeFastCNP},
		{"IPv6 in IPv6", wrap(41, fast[14:]), rocelayers.LayerTypeFastCNP},
		{"the option is the outer", inFast, rocelayers.LayerTypeCNP},
	} {
		t.Run(row.name, func(t *testing.T) {
			requireMessage(t, row.name, row.frame)
			for _, s := range []*stack{newStack(), newOwnStack()} {
				require.NoError(t, s.decode(row.frame))
				require.Equal(t, row.want, s.Decoded[len(s.Decoded)-1])
			}
		})
	}
}

// A parser that decodes all frames from one buffer never takes the headers of one packet for those of another.
func TestFastCNPThenOthers(t *testing.T) {
	fast := built(t)[0].frame
	hopByHop := message0x81(t, 0, 0, fast[54:78], make([]byte, 16)) // the same octets, but Hop-by-Hop
	for _, s := range []*stack{newStack(), newOwnStack()} {
		buffer := make([]byte, 256)
		for _, c := range []struct {
			frame []byte
			want  gopacket.LayerType
		}{
			{fast, rocelayers.LayerTypeFastCNP},
			{wiretest.Hex(t, cnp4), rocelayers.LayerTypeCNP},
			{fast, rocelayers.LayerTypeFastCNP},
			{hopByHop, rocelayers.LayerTypeCNP},
			{vlan(fast, 1), rocelayers.LayerTypeFastCNP},
			{vlan(wiretest.Hex(t, cnp4), 3), rocelayers.LayerTypeCNP},
			{fast, rocelayers.LayerTypeFastCNP},
		} {
			clear(buffer)
			frame := buffer[:copy(buffer, c.frame)]
			require.NoError(t, s.decode(frame))
			require.Equal(t, c.want, s.Decoded[len(s.Decoded)-1])
		}
	}
}

// Code points are values: of a BTH layer, or of one question to it.
func TestFastCNPCodePoints(t *testing.T) {
	n := fastcnp.Notification{Src: loopback, Dst: src6, CNP: cnp.New(7, 0xFFFF), OptionType: 0x8E,
		Option: fastcnp.Option{Number: 1, OriginalDst: dst6far}}
	frame, err := n.AppendPacket(slices.Clone(ether6), fastcnp.Config{})
	require.NoError(t, err)
	others := fastcnp.CodePoints{Option1: 0x8E, Option2: 0x8F}

	l := bthOf(gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.Default))
	require.Equal(t, gopacket.LayerTypePayload, l.NextLayerType(), "no CNP: an option is not known")
	_, err = l.FastCNP(fastcnp.CodePoints{})
	require.ErrorIs(t, err, fastcnp.ErrNotFastCNP)
	got := wiretest.Must(l.FastCNP(others))(t)
	require.Equal(t, dst6far, got.Option.OriginalDst)

	s := newStack()
	s.Config.CodePoints = others
	require.NoError(t, s.decode(frame))
	require.Equal(t, got, s.FastCNP.Notification)
	require.NoError(t, s.decode(built(t)[0].frame)) // which is none here
	require.False(t, s.has(rocelayers.LayerTypeCNP))
	require.True(t, s.has(gopacket.LayerTypePayload))
	s.BTH.IPv6 = nil // is no way to get a CNP
	require.ErrorIs(t, s.decode(frame), rocelayers.ErrNoIP)
	require.False(t, s.has(rocelayers.LayerTypeCNP))

	// Other packets are none with any code points.
	for _, c := range []struct {
		frame []byte
		err   error
	}{{wiretest.Hex(t, send6), wireerr.NotCNP}, {wiretest.Hex(t, cnp4), fastcnp.ErrNotFastCNP}} {
		_, err = bthOf(gopacket.NewPacket(c.frame, layers.LayerTypeEthernet, gopacket.Default)).FastCNP(others)
		require.ErrorIs(t, err, c.err)
	}
	_, err = new(rocelayers.BTH).FastCNP(others)
	require.ErrorIs(t, err, rocelayers.ErrNoIP)
	l.IPv6 = nil
	_, err = l.FastCNP(others)
	require.ErrorIs(t, err, rocelayers.ErrNoIP)
}

// A layer that needs a BTH says so, and a broken notification leaves it as it
// was.
func TestFastCNPAlone(t *testing.T) {
	packet := gopacket.NewPacket(make([]byte, 16), rocelayers.LayerTypeFastCNP, gopacket.Default)
	require.ErrorIs(t, packet.ErrorLayer().Error(), rocelayers.ErrNoBTH)

	s := newStack()
	require.NoError(t, s.decode(wiretest.Hex(t, cnp4)))
	require.ErrorIs(t, s.FastCNP.DecodeFromBytes(s.BTH.Payload, s.parser), fastcnp.ErrNotFastCNP)
	require.NoError(t, s.decode(built(t)[1].frame))
	before := s.FastCNP
	for _, c := range broken(t)[:6] {
		t.Run(c.name, func(t *testing.T) {
			require.Error(t, s.decode(c.frame))
			require.False(t, s.has(rocelayers.LayerTypeFastCNP))
			require.Equal(t, before, s.FastCNP)
		})
	}
}

// A Fast CNP put together from layers is the one that package fastcnp builds.
func TestSerializeFastCNP(t *testing.T) {
	long := trace(t, 10)
	for _, option := range []fastcnp.Option{
		{Number: 1, OriginalDst: dst6far},
		{Number: 2, OriginalDst: dst6far, Trace: trace(t, 3)},
		{Number: 2, OriginalDst: dst6far, Trace: long, Reserved: 7},
		{Number: 2, OriginalDst: dst6far, Trace: ioam.Trace{Type: ioam.BitSnapshot}},
	} {
		for _, typ := range []ipv6opt.Type{0, 0x8E} {
			for _, checksum := range []uint16{0, 1} {
				n := fastcnp.Notification{Src: loopback, Dst: src6, CNP: cnp.New(0x111111, 0xFFFF), Option: option,
					OptionType: typ}
				n.CNP.Reserved[3] = 5
				want := wiretest.Must(n.AppendPacket(slices.Clone(ether6),
					fastcnp.Config{Carriage: rocev2.Carriage{SrcPort: 49152, Checksum: checksum != 0}}))(t)

				eth := &layers.Ethernet{SrcMAC: net.HardwareAddr(ether6[6:12]), DstMAC: net.HardwareAddr(ether6[:6]),
					EthernetType: layers.EthernetTypeIPv6}
				ip := ipv6()
				ip.SrcIP, ip.DstIP, ip.NextHeader = loopback.AsSlice(), src6.AsSlice(), layers.IPProtocolIPv6Destination
				fast := &rocelayers.FastCNP{Notification: n}
				options, err := fast.DestinationOptions()
				require.NoError(t, err)
				header := new(rocelayers.BTH)
				header.Header = n.CNP.Header
				buf := dirty(t)
				require.NoError(t, rocelayers.SerializeLayers(buf, complete, eth, ip, options, udp(checksum), header,
					fast))
				require.Equal(t, want, buf.Bytes())
				_, err = icrc.Verify(buf.Bytes()[14:])
				require.NoError(t, err)
			}
		}
	}
	for _, c := range []struct {
		option fastcnp.Option
		typ    ipv6opt.Type
		err    error
	}{
		{fastcnp.Option{}, 0, wireerr.Range},
		{fastcnp.Option{Number: 1, OriginalDst: src4}, 0, wireerr.Range},
		{fastcnp.Option{Number: 2, OriginalDst: dst6far, Trace: trace(t, 11)}, 0, fastcnp.ErrTooLong},
		{fastcnp.Option{Number: 1, OriginalDst: dst6far}, ipv6opt.PadN, wireerr.Range},
		{fastcnp.Option{Number: 1, OriginalDst: dst6far}, 0x1E, wireerr.Range},
		{fastcnp.Option{Number: 1, OriginalDst: dst6far}, 0xBE, wireerr.Range},
	} {
		fast := &rocelayers.FastCNP{Notification: fastcnp.Notification{Option: c.option, OptionType: c.typ}}
		_, err := fast.DestinationOptions()
		require.ErrorIs(t, err, c.err)
	}
}
