package rocelayers_test

import (
	"bytes"
	"net"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/cnp"
	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/ppfc"
	"github.com/rocecn/rocecn/proxymsg"
	"github.com/rocecn/rocecn/rocelayers"
	"github.com/rocecn/rocecn/rocev2"
)

var (
	fix      = gopacket.SerializeOptions{FixLengths: true}
	complete = gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}

	src4, dst4 = netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	src6, dst6 = netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("2001:db8::2")
)

// The layers of a CNP as package cnp sends it.
func ipv4() *layers.IPv4 {
	return &layers.IPv4{Version: 4, TOS: 48 << 2, TTL: 64, Protocol: layers.IPProtocolUDP,
		Flags: layers.IPv4DontFragment,
		SrcIP: src4.AsSlice(), DstIP: dst4.AsSlice()}
}

func ipv6() *layers.IPv6 {
	return &layers.IPv6{Version: 6, TrafficClass: 48 << 2, HopLimit: 64, NextHeader: layers.IPProtocolUDP,
		SrcIP: src6.AsSlice(), DstIP: dst6.AsSlice()}
}

func udp(checksum uint16) *layers.UDP {
	return &layers.UDP{SrcPort: 49152, DstPort: 4791, Checksum: checksum}
}

func cnpHeader() *rocelayers.BTH {
	l := new(rocelayers.BTH)
	l.Header = cnp.New(0x118, 0xFFFF).Header
	return l
}

// dirty returns a buffer in which the free octets are not zero.
func dirty(t testing.TB) gopacket.SerializeBuffer {
	buf := gopacket.NewSerializeBuffer()
	for _, grow := range []func(int) ([]byte, error){buf.PrependBytes, buf.AppendBytes} {
		b := wiretest.Must(grow(256))(t)
		for i := range b {
			b[i] = 0xA5
		}
	}
	return buf
}

// The layers write the same octets as package cnp, over IPv4 and IPv6, with and without the UDP checksum, with and
// without an ICRC layer.
func TestSerializeCNP(t *testing.T) {
	c := cnp.New(0x118, 0xFFFF)
	for _, checksum := range []uint16{0, 1} {
		for _, version := range []int{4, 6} {
			src, dst, ip := src4, dst4, gopacket.SerializableLayer(ipv4())
			if version == 6 {
				src, dst, ip = src6, dst6, ipv6()
			}
			cfg := cnp.Config{Carriage: rocev2.Carriage{SrcPort: 49152, Checksum: checksum != 0}}
			want := wiretest.Must(c.AppendPacket(nil, src, dst, cfg))(t)
			trailer := &rocelayers.ICRC{Value: 0xDEADBEEF}
			for _, after := range [][]gopacket.SerializableLayer{nil, {trailer}} {
				buf, u, l := dirty(t), udp(checksum), cnpHeader()
				ls := append([]gopacket.SerializableLayer{ip, u, l, new(rocelayers.CNP)}, after...)
				require.NoError(t, rocelayers.SerializeLayers(buf, complete, ls...))
				require.Equal(t, want, buf.Bytes())
				require.Equal(t, checksum != 0, u.Checksum != 0)

				var p rocev2.Packet
				require.NoError(t, p.DecodeIP(want))
				require.Equal(t, p.ICRC, l.ICRC.Value)
				require.Equal(t, p.Checksum, u.Checksum)
				if after != nil {
					require.Equal(t, p.ICRC, trailer.Value)
				}
				require.Equal(t, []gopacket.LayerType{rocelayers.LayerTypeCNP, rocelayers.LayerTypeBTH,
					layers.LayerTypeUDP, ip.LayerType()},
					buf.Layers()[len(after):])

				// gopacket's own UDP checksum over the finished ICRC is the same, and
				// asking for it in gopacket's way is enough.
				require.NoError(t, u.SetNetworkLayerForChecksum(ip.(gopacket.NetworkLayer)))
				require.NoError(t, gopacket.SerializeLayers(buf, complete, ip, u, gopacket.Payload(p.Data)))
				theirs := bytes.Clone(buf.Bytes())
				if checksum != 0 {
					require.Equal(t, want, theirs)
				}
				u.Checksum = 0
				require.NoError(t, rocelayers.SerializeLayers(buf, complete, ls...))
				require.Equal(t, theirs, buf.Bytes())
			}
		}
	}
}

// Serializing with a UDP checksum into a used buffer allocates nothing.
func TestSerializeAllocations(t *testing.T) {
	for _, row := range []struct {
		name string
		ip   gopacket.SerializableLayer
	}{{"IPv4", ipv4()}, {"IPv6", ipv6()}} {
		t.Run(row.name, func(t *testing.T) {
			buf, u, l, c := dirty(t), udp(1), cnpHeader(), new(rocelayers.CNP)
			ls := []gopacket.SerializableLayer{row.ip, u, l, c}
			require.Zero(t, testing.AllocsPerRun(100, func() {
				if err := rocelayers.SerializeLayers(buf, complete, ls...); err != nil {
					t.Error(err)
				}
			}))
		})
	}
}

// The ICRC is right with any headers around the innermost IP packet.
func TestSerializeAround(t *testing.T) {
	eth := func(t layers.EthernetType) *layers.Ethernet {
		mac := net.HardwareAddr{2, 0, 0, 0, 0, 1}
		return &layers.Ethernet{SrcMAC: mac, DstMAC: mac, EthernetType: t}
	}
	tunnel := ipv6()
	tunnel.NextHeader = layers.IPProtocolIPv4
	option := &layers.IPv6HopByHopOption{OptionType: 0x1E, OptionData: make([]byte, 4)}
	withOption := ipv6()
	withOption.HopByHop = &layers.IPv6HopByHop{Options: []*layers.IPv6HopByHopOption{option}}
	withOption.HopByHop.NextHeader = layers.IPProtocolUDP
	withOptions4 := ipv4()
	withOptions4.Options = []layers.IPv4Option{{OptionType: 0x94, OptionLength: 4, OptionData: []byte{0, 0}}}

	for _, c := range []struct {
		name    string
		outside []gopacket.SerializableLayer
	}{
		{"Ethernet, IPv4", []gopacket.SerializableLayer{eth(layers.EthernetTypeIPv4), ipv4()}},
		{"Ethernet, IPv6", []gopacket.SerializableLayer{eth(layers.EthernetTypeIPv6), ipv6()}},
		{"VLAN", []gopacket.SerializableLayer{eth(layers.EthernetTypeDot1Q),
			&layers.Dot1Q{VLANIdentifier: 7, Type: layers.EthernetTypeIPv4}, ipv4()}},
		{"IPv4 in IPv6", []gopacket.SerializableLayer{eth(layers.EthernetTypeIPv6), tunnel, ipv4()}},
		{"IPv6 with Hop-by-Hop", []gopacket.SerializableLayer{eth(layers.EthernetTypeIPv6), withOption}},
		{"IPv4 with an option", []gopacket.SerializableLayer{eth(layers.EthernetTypeIPv4), withOptions4}},
		{"IPv6 in UDP", []gopacket.SerializableLayer{eth(layers.EthernetTypeIPv4), ipv4(), &layers.UDP{DstPort: 6080},
			ipv6()}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, coverage := range []icrc.Coverage{icrc.AsSent, icrc.Without, icrc.Skipped} {
				for _, payload := range []string{"", "h", "hello", "payload."} {
					outside, l := slices.Clone(c.outside), new(rocelayers.BTH)
					l.Opcode, l.PKey = bth.RCSendOnly, 0xFFFF
					l.ICRC.Coverage = coverage
					if u, ok := outside[len(outside)-2].(*layers.UDP); ok {
						require.NoError(t, u.SetNetworkLayerForChecksum(ipv4()))
					}
					ls := append(outside, udp(1), l, gopacket.Payload(payload))
					buf := dirty(t)
					require.NoError(t, rocelayers.SerializeLayers(buf, complete, ls...))
					require.EqualValues(t, -len(payload)&3, l.Pad)

					ip := buf.Bytes()
					for _, o := range outside[:len(outside)-1] {
						switch o.(type) {
						case *layers.Ethernet:
							ip = ip[14:]
						case *layers.Dot1Q:
							ip = ip[4:]
						case *layers.IPv4:
							ip = ip[20:]
						case *layers.IPv6:
							ip = ip[40:]
						case *layers.UDP:
							ip = ip[8:]
						}
					}
					got := wiretest.Must(icrc.Verify(ip))(t)
					var p rocev2.Packet
					require.NoError(t, p.DecodeIP(ip))
					if len(p.Ext) > 0 {
						require.Equal(t, coverage, got)
					}
					require.Equal(t, payload, string(p.Payload))
					require.Equal(t, string(make([]byte, l.Pad)), string(p.Padding))
					require.NotZero(t, p.Checksum)
					p.Coverage = coverage
					want := wiretest.Must(p.AppendBinary(nil))(t)
					require.Equal(t, want, ip[:len(want)])
				}
			}
		})
	}
}

// Without ComputeChecksums everything is written as given.
func TestSerializeAsGiven(t *testing.T) {
	l := cnpHeader()
	l.ICRC.Value = 0x04030201
	buf := dirty(t)
	for _, serialize := range []func(gopacket.SerializeBuffer, gopacket.SerializeOptions,
		...gopacket.SerializableLayer) error{
		gopacket.SerializeLayers, rocelayers.SerializeLayers,
	} {
		require.NoError(t, serialize(buf, fix, ipv6(), udp(0x1234), l, new(rocelayers.CNP)))
		require.Equal(t, []byte{1, 2, 3, 4}, buf.Bytes()[76:])
		require.Equal(t, []byte{0x12, 0x34}, buf.Bytes()[46:48])
		require.NoError(t, serialize(buf, fix, l, new(rocelayers.CNP), &rocelayers.ICRC{Value: 0x08070605}))
		require.Equal(t, []byte{5, 6, 7, 8}, buf.Bytes()[28:])
	}
	// The pad, too: nothing is wrong with it that FixLengths would not mend.
	l.Opcode, l.Pad, l.Padding = bth.RCSendOnly, 2, []byte{7, 9}
	require.NoError(t, gopacket.SerializeLayers(buf, gopacket.SerializeOptions{}, l, gopacket.Payload("a")))
	require.Equal(t, []byte{'a', 7, 9, 1, 2, 3, 4}, buf.Bytes()[12:])
	require.NoError(t, gopacket.SerializeLayers(buf, fix, l, gopacket.Payload("a")))
	require.Equal(t, []byte{'a', 0, 0, 0, 1, 2, 3, 4}, buf.Bytes()[12:])
}

func TestSerializeRefused(t *testing.T) {
	wrong := func(f func(l *rocelayers.BTH)) *rocelayers.BTH {
		l := new(rocelayers.BTH)
		l.Opcode = bth.RCSendOnly
		f(l)
		return l
	}
	good := wrong(func(*rocelayers.BTH) {})
	ip, u, data := ipv6(), udp(0), gopacket.Payload("data")
	type list = []gopacket.SerializableLayer
	for _, c := range []struct {
		name   string
		opts   gopacket.SerializeOptions
		layers list
		err    error
	}{
		{"no IP layer", complete, list{u, good, data}, rocelayers.ErrNoCarrier},
		{"no UDP layer", complete, list{ip, good, data}, rocelayers.ErrNoCarrier},
		{"UDP outside IP", complete, list{u, ip, good, data}, rocelayers.ErrNoCarrier},
		{"ICRC before the BTH", fix, list{new(rocelayers.ICRC), good, data}, rocelayers.ErrICRCOrder},
		{"next header is not UDP", complete, list{&layers.IPv6{Version: 6, SrcIP: src6.AsSlice(), DstIP: dst6.AsSlice(),
			NextHeader: 6}, u, good}, rocev2.ErrNotRoCEv2},
		{"lengths not fixed", gopacket.SerializeOptions{ComputeChecksums: true}, list{ipv6(), udp(0), good},
			wireerr.Truncated},
		{"coverage 3", complete, list{ip, u, good, data, &rocelayers.ICRC{Coverage: 3}}, wireerr.Range},
		{"DestQP over 24 bits", fix, list{wrong(func(l *rocelayers.BTH) { l.DestQP = 1 << 24 })}, wireerr.DestQP},
		{"truncated", fix, list{wrong(func(l *rocelayers.BTH) { l.Truncated = true })}, wireerr.Truncated},
		{"Pad over 2 bits", gopacket.SerializeOptions{}, list{wrong(func(l *rocelayers.BTH) { l.Pad = 4 })},
			rocelayers.ErrPaddingSize},
		{"Padding without Pad", gopacket.SerializeOptions{},
			list{wrong(func(l *rocelayers.BTH) { l.Padding = []byte{0} })}, rocelayers.ErrPaddingSize},
		{"Padding of a CNP", complete, list{ip, u, wrong(func(l *rocelayers.BTH) {
			l.Opcode, l.Pad, l.Padding = bth.CNP, 2, []byte{1, 2}
		}), new(rocelayers.CNP)}, rocelayers.ErrPaddingSize},
		{"Padding of an unknown opcode", gopacket.SerializeOptions{}, list{wrong(func(l *rocelayers.BTH) {
			l.Opcode, l.Pad, l.Padding = 0x1E, 3, []byte{9, 9, 9}
		}), data}, rocelayers.ErrPaddingSize},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.ErrorIs(t, rocelayers.SerializeLayers(gopacket.NewSerializeBuffer(), c.opts, c.layers...), c.err)
		})
	}
	// gopacket's function would leave a wrong ICRC.
	require.NoError(t, u.SetNetworkLayerForChecksum(ip))
	require.ErrorIs(t, gopacket.SerializeLayers(gopacket.NewSerializeBuffer(), complete, ip, u, good, data),
		rocelayers.ErrSerialize)
	// It is still the one for everything else.
	require.NoError(t, rocelayers.SerializeLayers(gopacket.NewSerializeBuffer(), complete, ip, u, data))
}

// An ICRC stands where the packet ends, or nothing is written: not where length
// fields point that gopacket has cut to 16 bits, or that are not right.
func TestSerializeLengths(t *testing.T) {
	given := gopacket.SerializeOptions{ComputeChecksums: true}
	for _, version := range []int{4, 6} {
		ip := func() gopacket.SerializableLayer { return ipv4() }
		longest := 0xFFFF - 20 - 8 - 12 - 4
		if version == 6 {
			ip = func() gopacket.SerializableLayer { return ipv6() }
			longest += 20
		}
		longest &^= 3 // padded
		send := func() *rocelayers.BTH {
			l := new(rocelayers.BTH)
			l.Opcode = bth.RCSendOnly
			return l
		}
		for _, n := range []int{longest + 1, longest + 4, 0xFFFF - 24, 0x10000 - 24, 0x10000, 0x10000 + 8,
			0x10000 + 100, 0x20000, 0x20000 + 52} {
			for _, checksum := range []uint16{0, 1} {
				buf := dirty(t)
				l := send()
				err := rocelayers.SerializeLayers(buf, complete, ip(), udp(checksum), l,
					gopacket.Payload(make([]byte, n)))
				require.ErrorIs(t, err, wireerr.TooLong, "IPv%d, %d octets", version, n)
				require.Zero(t, len(buf.Bytes()))
				require.Zero(t, l.ICRC.Value)
			}
			if n < 0x10000 {
				continue
			}
			for _, message := range []gopacket.SerializableLayer{
				&rocelayers.FCN{}, &rocelayers.Proxy{Message: proxymsg.Message{FiveTuple: rocev2.FiveTuple{Src: src4,
					Dst: src4}}},
			} {
				buf := dirty(t)
				require.ErrorIs(t, rocelayers.SerializeLayers(buf, complete, ip(), udp(0), message,
					gopacket.Payload(make([]byte, n))), wireerr.TooLong)
				require.Zero(t, len(buf.Bytes()))
			}
		}
		buf := dirty(t)
		require.NoError(t, rocelayers.SerializeLayers(buf, complete, ip(), udp(1), send(),
			gopacket.Payload(make([]byte, longest))))
		_, err := icrc.Verify(buf.Bytes())
		require.NoError(t, err)

		// Lengths as given: right ones are used, others are refused.
		for by := -40; by <= 40; by += 4 {
			for _, which := range []string{"IP", "UDP", "both"} {
				u, l := udp(0), send()
				four, six := ipv4(), ipv6()
				four.IHL, four.Length, six.Length, u.Length = 5, 20+8+16+40, 8+16+40, 8+16+40
				if which != "UDP" {
					four.Length += uint16(by)
					six.Length += uint16(by)
				}
				if which != "IP" {
					u.Length += uint16(by)
				}
				ip := gopacket.SerializableLayer(four)
				if version == 6 {
					ip = six
				}
				buf := dirty(t)
				err := rocelayers.SerializeLayers(buf, given, ip, u, l, gopacket.Payload(make([]byte, 40)))
				if by != 0 {
					require.Error(t, err, "IPv%d, %s by %d", version, which, by)
					require.Zero(t, len(buf.Bytes()))
					require.Zero(t, l.ICRC.Value)
					continue
				}
				require.NoError(t, err)
				_, err = icrc.Verify(buf.Bytes())
				require.NoError(t, err)
			}
		}
	}
}

// The longest packet over IPv6 has 65535 octets after the IPv6 header. gopacket makes a jumbogram of a longer one, to
// which it adds a Hop-by-Hop header.
func TestSerializeLongest(t *testing.T) {
	for _, header := range [][]byte{nil, options(t, 17, 0x1E, []byte{1, 2, 3, 4})} {
		longest := 0xFFFF - len(header) - 8 - bth.Size - 4
		for beyond := range 10 {
			ip, l, buf := ipv6(), new(rocelayers.BTH), dirty(t)
			l.Opcode = 0x1E // unknown, so without a pad
			ls := []gopacket.SerializableLayer{ip, udp(0), l, gopacket.Payload(make([]byte, longest+beyond))}
			if header != nil {
				var d rocelayers.DestinationOptions
				_, err := d.Decode(header)
				require.NoError(t, err)
				ip.NextHeader = layers.IPProtocolIPv6Destination
				ls = slices.Insert(ls, 1, gopacket.SerializableLayer(&d))
			}
			err := rocelayers.SerializeLayers(buf, complete, ls...)
			require.Nil(t, ip.HopByHop)
			if beyond > 0 {
				require.ErrorIs(t, err, wireerr.TooLong)
				require.Zero(t, len(buf.Bytes()))
				continue
			}
			require.NoError(t, err)
			require.EqualValues(t, 0xFFFF, ip.Length)
			_, err = icrc.Verify(buf.Bytes())
			require.NoError(t, err)
		}
	}
}

// An ICRC layer is found at any place after the BTH.
func TestSerializeICRCBeforePayload(t *testing.T) {
	l, trailer := new(rocelayers.BTH), &rocelayers.ICRC{Coverage: icrc.Without}
	l.Opcode = bth.RCSendOnly
	buf := dirty(t)
	require.NoError(t, rocelayers.SerializeLayers(buf, complete, ipv6(), udp(0), l, trailer, gopacket.Payload("data")))
	_, err := icrc.Verify(buf.Bytes())
	require.NoError(t, err)
	require.NotZero(t, trailer.Value)
}

func TestSerializeExtendedHeaders(t *testing.T) {
	frame := capturedFrame(t, "rxe-verbs6.pcap", 62, uint8(bth.RCCmpSwap))
	l := bthOf(gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.Default))
	l.AtomicETH.Compare++
	buf := gopacket.NewSerializeBuffer()
	require.NoError(t, rocelayers.SerializeLayers(buf, complete, ipv6(), udp(0), l))
	var p rocev2.Packet
	require.NoError(t, p.DecodeIP(buf.Bytes()))
	require.Equal(t, l.Headers, p.BTH)
	_, err := icrc.Verify(buf.Bytes())
	require.NoError(t, err)
}

// A packet that fits its own headers may be too long for the length field of outer headers: that is an error, and
// nothing is written with a length truncated to 16 bits.
func TestSerializeOuterTooLong(t *testing.T) {
	for _, c := range []struct {
		name  string
		outer func() []gopacket.SerializableLayer
		more  int // octets of the outer headers that count towards the length
	}{
		{"IPv4", func() []gopacket.SerializableLayer {
			outer := ipv4()
			outer.Protocol = layers.IPProtocolIPv4
			return []gopacket.SerializableLayer{outer}
		}, 20},
		{"VXLAN over IPv4", func() []gopacket.SerializableLayer {
			outer, u := ipv4(), &layers.UDP{DstPort: 4789}
			_ = u.SetNetworkLayerForChecksum(outer)
			return []gopacket.SerializableLayer{outer, u, &layers.VXLAN{}, etherTo4()}
		}, 20 + 8 + 8 + 14},
		{"UDP over IPv6 without a requested checksum", func() []gopacket.SerializableLayer {
			outer := ipv6()
			u := &rocelayers.UDP{UDP: layers.UDP{DstPort: 4789}}
			_ = u.SetNetworkLayerForChecksum(ipv4())
			return []gopacket.SerializableLayer{outer, u, &layers.VXLAN{}, etherTo4()}
		}, 8 + 8 + 14},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, beyond := range []int{0, 4} {
				total := 0xFFFF&^3 - c.more&^3 // of the inner IPv4 packet, a multiple of 4
				if total+c.more > 0xFFFF {
					total -= 4
				}
				total += beyond
				payload := make(gopacket.Payload, total-20-8-bth.Size-4)
				l := &rocelayers.BTH{Headers: bth.Headers{Header: bth.Header{Opcode: bth.RCSendOnly}}}
				buf := dirty(t)
				err := rocelayers.SerializeLayers(buf, complete, append(c.outer(), ipv4(), udp(0), l, payload)...)
				if beyond == 0 {
					require.NoError(t, err)
					continue
				}
				require.ErrorIs(t, err, wireerr.TooLong)
				require.Empty(t, buf.Bytes())
			}
		})
	}
}

func etherTo4() *layers.Ethernet {
	return &layers.Ethernet{SrcMAC: make([]byte, 6), DstMAC: make([]byte, 6), EthernetType: layers.EthernetTypeIPv4}
}

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
