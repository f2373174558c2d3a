package rocelayers_test

import (
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/cnp"
	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/ppfc"
	"github.com/rocecn/rocecn/rocelayers"
)

type layerList = []gopacket.SerializableLayer

// fastCNPLayers returns the layers of a Fast CNP: IPv6, the options, UDP, the
// BTH and the FastCNP.
func fastCNPLayers(t testing.TB) (layerList, *rocelayers.BTH, *rocelayers.FastCNP) {
	l, fast, ip := new(rocelayers.BTH), new(rocelayers.FastCNP), ipv6()
	fast.CNP = cnp.New(0x111111, 0xFFFF)
	fast.Option = fastcnp.Option{Number: 2, OriginalDst: dst6far, Trace: trace(t, 2)}
	l.Header = fast.CNP.Header
	header := wiretest.Must(fast.DestinationOptions())(t)
	ip.NextHeader = layers.IPProtocolIPv6Destination
	return layerList{ip, header, udp(0), l, fast}, l, fast
}

// Fields that two layers repeat must agree, or nothing is written: with and without checksums, and also with an ICRC
// layer after the BTH.
func TestSerializeAgree(t *testing.T) {
	headerOf := func(h bth.Header) *rocelayers.BTH {
		return &rocelayers.BTH{Headers: bth.Headers{Header: h}}
	}
	notification := ppfc.New(5, 0xFFFF, ppfc.Extension{Congested: dst6far})
	bare := ppfc.Notification{Extension: notification.Extension}
	theCNP, other := cnp.New(5, 0xFFFF), cnp.New(77, 0xFFFF)
	for _, c := range []struct {
		name string
		bth  *rocelayers.BTH
		next gopacket.SerializableLayer
		err  error
	}{
		{"CNP", headerOf(theCNP.Header), &rocelayers.CNP{CNP: theCNP}, nil},
		{"CNP without a Header", headerOf(theCNP.Header), &rocelayers.CNP{}, nil},
		{"PPFC", headerOf(notification.Header), &rocelayers.PPFC{Notification: notification}, nil},
		{"PPFC without a Header", headerOf(notification.Header), &rocelayers.PPFC{Notification: bare}, nil},
		{"CNP of 16 octets with the P bit", headerOf(notification.Header), &rocelayers.CNP{}, nil},
		{"a Payload of any kind", headerOf(bth.Header{}), gopacket.Payload("data"), nil},

		{"another DestQP", headerOf(theCNP.Header), &rocelayers.CNP{CNP: other}, rocelayers.ErrHeader},
		{"a CNP's Header forgotten", headerOf(bth.Header{}), &rocelayers.CNP{CNP: theCNP}, rocelayers.ErrHeader},
		{"all of a CNP's forgotten", headerOf(bth.Header{}), &rocelayers.CNP{}, rocelayers.ErrNoCNP},
		{"a SEND before a CNP", headerOf(bth.Header{Opcode: bth.RCSendOnly}), &rocelayers.CNP{}, rocelayers.ErrNoCNP},
		{"a PPFC's Header forgotten", headerOf(bth.Header{}), &rocelayers.PPFC{Notification: notification},
			rocelayers.ErrHeader},
		{"all of a PPFC's forgotten", headerOf(bth.Header{}), &rocelayers.PPFC{Notification: bare},
			rocelayers.ErrNoCNP},
		{"a CNP before a PPFC", headerOf(theCNP.Header), &rocelayers.PPFC{Notification: notification},
			rocelayers.ErrHeader},
		{"no P bit before a PPFC", headerOf(theCNP.Header), &rocelayers.PPFC{Notification: bare},
			rocelayers.ErrNoPPFC},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, opts := range []gopacket.SerializeOptions{{}, fix, complete} {
				for _, ls := range []layerList{
					{ipv6(), udp(0), c.bth, c.next},
					{ipv6(), udp(0), c.bth, c.next, new(rocelayers.ICRC)},
					{ipv6(), udp(0), c.bth, new(rocelayers.ICRC), c.next},
				} {
					buf := dirty(t)
					err := rocelayers.SerializeLayers(buf, opts, ls...)
					require.ErrorIs(t, err, c.err)
					if c.err == nil {
						continue
					}
					require.ErrorIs(t, err, wireerr.Range)
					require.Zero(t, len(buf.Bytes()))
					// gopacket's function also sees the layer after the BTH.
					if c.err != rocelayers.ErrHeader && !opts.ComputeChecksums {
						require.ErrorIs(t, gopacket.SerializeLayers(buf, opts, ls...), c.err)
					}
				}
			}
		})
	}
	// Only an ICRC follows the BTH.
	for _, opts := range []gopacket.SerializeOptions{fix, complete} {
		require.NoError(t, rocelayers.SerializeLayers(dirty(t), opts, ipv6(), udp(0), headerOf(bth.Header{}),
			new(rocelayers.ICRC)))
	}
	// By hand, a layer alone is written.
	for _, l := range []gopacket.SerializableLayer{&rocelayers.CNP{CNP: other},
		&rocelayers.PPFC{Notification: notification}, &rocelayers.FastCNP{}, headerOf(bth.Header{})} {
		require.NoError(t, l.SerializeTo(gopacket.NewSerializeBuffer(), gopacket.SerializeOptions{}))
	}
}

// A Fast CNP without its option would be a CNP about another host's queue pair.
func TestSerializeFastCNPAgrees(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(ls *layerList, l *rocelayers.BTH, fast *rocelayers.FastCNP)
		err    error
	}{
		{"as it is", func(*layerList, *rocelayers.BTH, *rocelayers.FastCNP) {}, nil},
		{"no Header", func(_ *layerList, _ *rocelayers.BTH, fast *rocelayers.FastCNP) {
			fast.CNP.Header = bth.Header{}
		}, nil},
		{"our IPv6 layer", func(ls *layerList, _ *rocelayers.BTH, fast *rocelayers.FastCNP) {
			(*ls)[0] = &rocelayers.IPv6{IPv6: *(*ls)[0].(*layers.IPv6)}
		}, nil},
		{"gopacket's options", func(ls *layerList, _ *rocelayers.BTH, fast *rocelayers.FastCNP) {
			data := wiretest.Must(fast.Option.AppendBinary(nil))(t)
			option := &layers.IPv6DestinationOption{OptionType: uint8(type2), OptionData: data,
				OptionAlignment: [2]uint8{4, 0}}
			header := &layers.IPv6Destination{Options: []*layers.IPv6DestinationOption{option}}
			header.NextHeader = layers.IPProtocolUDP
			(*ls)[1] = header
		}, nil},
		{"the option in the first of two headers", func(ls *layerList, _ *rocelayers.BTH, _ *rocelayers.FastCNP) {
			second := new(rocelayers.DestinationOptions)
			_, err := second.Decode(options(t, 17, 0x1E, []byte{1}))
			require.NoError(t, err)
			(*ls)[1].(*rocelayers.DestinationOptions).NextHeader = uint8(layers.IPProtocolIPv6Destination)
			*ls = layerList{(*ls)[0], (*ls)[1], second, (*ls)[2], (*ls)[3], (*ls)[4]}
		}, nil},

		{"the header of the BTH forgotten", func(_ *layerList, l *rocelayers.BTH, _ *rocelayers.FastCNP) {
			l.Header = bth.Header{}
		}, rocelayers.ErrHeader},
		{"another DestQP", func(_ *layerList, _ *rocelayers.BTH, fast *rocelayers.FastCNP) {
			fast.CNP.DestQP = 0x77
		}, rocelayers.ErrHeader},
		{"another destination", func(_ *layerList, _ *rocelayers.BTH, fast *rocelayers.FastCNP) {
			fast.Option.OriginalDst = src6
		}, rocelayers.ErrNoOption},
		{"another type", func(_ *layerList, _ *rocelayers.BTH, fast *rocelayers.FastCNP) {
			fast.OptionType = 0x8E
		}, rocelayers.ErrNoOption},
		{"another option in gopacket's", func(ls *layerList, _ *rocelayers.BTH, fast *rocelayers.FastCNP) {
			option := &layers.IPv6DestinationOption{OptionType: uint8(type2), OptionData: make([]byte, 16)}
			(*ls)[1] = &layers.IPv6Destination{Options: []*layers.IPv6DestinationOption{option}}
		}, rocelayers.ErrNoOption},
		{"no options", func(ls *layerList, _ *rocelayers.BTH, _ *rocelayers.FastCNP) {
			(*ls)[0].(*layers.IPv6).NextHeader = layers.IPProtocolUDP
			*ls = append((*ls)[:1], (*ls)[2:]...)
		}, rocelayers.ErrNoOption},
		{"over IPv4", func(ls *layerList, _ *rocelayers.BTH, _ *rocelayers.FastCNP) {
			*ls = append(layerList{ipv4()}, (*ls)[2:]...)
		}, rocelayers.ErrNoOption},
		{"the options around a tunnel", func(ls *layerList, _ *rocelayers.BTH, _ *rocelayers.FastCNP) {
			(*ls)[1].(*rocelayers.DestinationOptions).NextHeader = uint8(layers.IPProtocolIPv6)
			*ls = append(layerList{(*ls)[0], (*ls)[1], &rocelayers.IPv6{IPv6: *ipv6()}}, (*ls)[2:]...)
		}, rocelayers.ErrNoOption},
		{"no Option", func(_ *layerList, _ *rocelayers.BTH, fast *rocelayers.FastCNP) {
			fast.Option = fastcnp.Option{}
		}, wireerr.Range},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, opts := range []gopacket.SerializeOptions{fix, complete} {
				ls, l, fast := fastCNPLayers(t)
				c.change(&ls, l, fast)
				buf := dirty(t)
				err := rocelayers.SerializeLayers(buf, opts, ls...)
				require.ErrorIs(t, err, c.err)
				if c.err != nil {
					require.ErrorIs(t, err, wireerr.Range)
					require.Zero(t, len(buf.Bytes()))
					continue
				}
				packet := gopacket.NewPacket(buf.Bytes(), layers.LayerTypeIPv6, gopacket.Default)
				require.Nil(t, packet.ErrorLayer())
				got := packet.Layer(rocelayers.LayerTypeFastCNP).(*rocelayers.FastCNP)
				require.Equal(t, fast.Option, got.Option)
				require.Equal(t, l.DestQP, got.CNP.DestQP)
			}
		})
	}
	// If the caller writes the IP header, it also writes the option.
	ls, _, _ := fastCNPLayers(t)
	require.NoError(t, rocelayers.SerializeLayers(dirty(t), fix, ls[2:]...))
}
