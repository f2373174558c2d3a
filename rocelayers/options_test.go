package rocelayers_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/ioam"
	"github.com/rocecn/rocecn/ipv6opt"
	"github.com/rocecn/rocecn/rocelayers"
	"github.com/rocecn/rocecn/rocev2"
)

// FixLengths pads every length as package ipv6opt does; without it only whole
// units of 8 octets are written.
func TestOptionsPadding(t *testing.T) {
	destination, hopByHop := new(rocelayers.DestinationOptions), new(rocelayers.HopByHop)
	for _, l := range []struct {
		gopacket.SerializableLayer
		*ipv6opt.Header
	}{{destination, &destination.Header}, {hopByHop, &hopByHop.Header}} {
		for n := range 256 {
			data := bytes.Repeat([]byte{0xDA}, n)
			w := ipv6opt.Begin(nil, 17)
			require.NoError(t, w.Add(0x1E, 1, 0, data))
			want := w.Finish()

			octets := append(append([]byte{0x1E, uint8(n)}, data...), "behind"...)
			*l.Header = ipv6opt.Header{NextHeader: 17, Options: octets[:2+n]}
			buf := dirty(t)
			if len(want) == 4+n {
				require.NoError(t, gopacket.SerializeLayers(buf, gopacket.SerializeOptions{}, l))
			} else {
				require.ErrorIs(t, gopacket.SerializeLayers(buf, gopacket.SerializeOptions{}, l), wireerr.Range)
				require.NoError(t, gopacket.SerializeLayers(buf, fix, l))
				require.Equal(t, "behind", string(octets[2+n:]))
			}
			require.Equal(t, want, buf.Bytes())
			require.Equal(t, want[2:], l.Options)
		}
		l.Options = make([]byte, ipv6opt.MaxLen-9)
		require.NoError(t, gopacket.SerializeLayers(dirty(t), fix, l))
		require.Len(t, l.Options, ipv6opt.MaxLen-2)
		l.Options = make([]byte, ipv6opt.MaxLen-1)
		require.ErrorIs(t, gopacket.SerializeLayers(dirty(t), fix, l), wireerr.Range)
		l.Options = nil
		require.NoError(t, gopacket.SerializeLayers(dirty(t), fix, l))
		require.Equal(t, []byte{1, 4, 0, 0, 0, 0}, l.Options)
	}
}

// The layers after an options header are found, with both flows, packet after packet; its options do not accumulate.
func TestDestinationOptions(t *testing.T) {
	s := newStack()
	for range 3 {
		for _, c := range built(t)[:2] {
			for _, frame := range [][]byte{c.frame, vlan(c.frame, 2)} {
				require.NoError(t, s.decode(frame))
				var p rocev2.Packet
				require.NoError(t, p.DecodeEthernet(frame))
				require.Equal(t, p.Ext, s.DestinationOptions.Contents)
				require.Equal(t, p.Ext[2:], s.DestinationOptions.Options)
				require.EqualValues(t, 17, s.DestinationOptions.NextHeader)
				require.EqualValues(t, p.SrcPort, s.UDP.SrcPort)
				require.Equal(t, p.Src.AsSlice(), s.ip().NetworkFlow().Src().Raw())
				require.Equal(t, []byte{p.Data[0]}, s.UDP.Payload[:1])
				require.Equal(t, uint16(4791), binary.BigEndian.Uint16(s.UDP.TransportFlow().Dst().Raw()))
				options, err := 0, error(nil)
				for _, err = range s.DestinationOptions.All() {
					options++
				}
				require.NoError(t, err)
				require.Equal(t, 2, options) // one of them padding
			}
		}
	}
	want := fmt.Sprintf("NextHeader UDP, PadN 0 octets, %v 106 octets", fastcnp.Option2Type)
	require.Equal(t, want, s.DestinationOptions.String())
}

// With the override the layers are ours; without it they contain the same fields.
func TestOverride(t *testing.T) {
	c := built(t)[1]
	packet := gopacket.NewPacket(c.frame, layers.LayerTypeEthernet, gopacket.Default)
	theirs := packet.Layer(layers.LayerTypeIPv6Destination)
	require.IsType(t, new(layers.IPv6Destination), theirs)
	var ours gopacket.Layer
	override(func() {
		for mode, options := range modes {
			with := gopacket.NewPacket(c.frame, layers.LayerTypeEthernet, options)
			ours = with.Layer(layers.LayerTypeIPv6Destination)
			require.IsType(t, new(rocelayers.DestinationOptions), ours, mode)
			require.Equal(t, typesFrom(layers.LayerTypeEthernet, packet), typesFrom(layers.LayerTypeEthernet, with))
			require.Equal(t, packet.TransportLayer().TransportFlow(), with.TransportLayer().TransportFlow())
		}
	})
	require.Equal(t, theirs.LayerContents(), ours.LayerContents())
	require.Equal(t, theirs.LayerPayload(), ours.LayerPayload())
	want := ours.(*rocelayers.DestinationOptions).Header
	for _, l := range []gopacket.Layer{ours, theirs} {
		got, ok := rocelayers.OptionsOf(l)
		require.True(t, ok)
		require.Equal(t, want, got)
	}
}

// The parser and NewPacket treat octets that are too short for a header as truncated, and leave the layer unchanged.
func TestOptionsTruncated(t *testing.T) {
	frame := message0x81(t, 0, 0, append(options(t, 60, 0x1E, []byte{1}), options(t, 17, type2, make([]byte, 30))...),
		nil)
	s := newOwnStack()
	hopByHop, destination := s.HopByHop, s.DestinationOptions
	for n := 55; n < 54+8+32; n++ {
		err := s.decode(frame[:n:n])
		require.True(t, s.parser.Truncated)
		switch there := n - 54; {
		case there == 8: // nothing left to ask about
			require.NoError(t, err)
		case there%8 != 0 && there < 16:
			require.ErrorIs(t, err, wireerr.Truncated)
		default:
			require.ErrorIs(t, err, wireerr.Truncated)
		}
		if n >= 54+8 {
			require.Equal(t, frame[54:62], s.HopByHop.Contents)
		} else {
			require.Equal(t, hopByHop, s.HopByHop)
		}
		require.Equal(t, destination, s.DestinationOptions)
		override(func() {
			packet := gopacket.NewPacket(with(frame, 20, 60)[:n:n], layers.LayerTypeEthernet, gopacket.Default)
			require.Equal(t, err == nil, packet.ErrorLayer() == nil)
			require.True(t, packet.Metadata().Truncated)
		})
	}
}

// Our IPv6 layer has the same fields as gopacket's for every packet, except for gopacket's errors in Hop-by-Hop
// headers.
func TestIPv6(t *testing.T) {
	check := func(frame []byte) {
		theirs, ours := newStack(), newOwnStack()
		if theirs.decode(frame) != nil || !theirs.has(layers.LayerTypeIPv6) {
			return
		}
		require.NoError(t, ours.decode(append(bytes.Clone(frame), 0xEE))) // a packet ends where it ends
		want, got := &theirs.IPv6.IPv6, &ours.IPv6.IPv6
		if want.HopByHop != nil {
			require.Equal(t, want.HopByHop.Contents, ours.HopByHop.Contents)
			require.False(t, ours.parser.Truncated)
			want.HopByHop = nil
		}
		require.Equal(t, want.Contents, got.Contents)
		require.Equal(t, want.LayerType(), ours.IPv6.LayerType())
		require.Equal(t, want.NetworkFlow(), got.NetworkFlow())
		require.Equal(t, ours.UDP.Payload, theirs.UDP.Payload)
		plain := func(l layers.IPv6) (string, string) {
			l.BaseLayer = layers.BaseLayer{}
			return gopacket.LayerString(&l), l.SrcIP.String()
		}
		wantText, _ := plain(*want)
		gotText, _ := plain(*got)
		require.Equal(t, wantText, gotText)
	}
	eachPacket(t, "*.pcap", func(_ *testing.T, frame []byte, _ *rocev2.Packet) { check(frame) }, check)

	// An option that runs beyond the packet is an error only for readers of the options.
	frame := message0x81(t, 0, 0, []byte{17, 0, 0x31, 200, 0, 0, 0, 0}, make([]byte, 16))
	s := newOwnStack()
	require.NoError(t, s.decode(frame))
	require.True(t, s.has(rocelayers.LayerTypeCNP))
	require.Error(t, newStack().decode(frame))

	// Short headers, lengths beyond the octets there, jumbograms and Length 0
	// are as with gopacket.
	for _, frame := range [][]byte{
		frame[:20], frame[:53], with(frame, 18, 0, 0),
		with(frame, 18, 0, 0, 0, 64), with(with(frame, 18, 0, 0), 54, 17, 0, 0xC2, 4, 0, 1, 0, 0),
	} {
		theirs, ours := newStack(), newOwnStack()
		require.Equal(t, theirs.decode(frame), ours.decode(frame))
		require.Equal(t, theirs.Decoded, ours.Decoded)
		require.Equal(t, theirs.IPv6, ours.IPv6)
	}
	require.NoError(t, s.decode(frame[:len(frame)-4]))
	require.True(t, s.parser.Truncated)
	require.True(t, s.BTH.Truncated)
}

// The options are the same wherever they are read.
func TestOptionsOf(t *testing.T) {
	frame := message0x81(t, 0, 0, options(t, 17, ioam.IPv6MayChange, ioamData(t, trace(t, 3))), make([]byte, 16))
	var want ipv6opt.Header
	_, err := want.Decode(frame[54:])
	require.NoError(t, err)
	ours, theirs := newOwnStack(), newStack()
	require.NoError(t, ours.decode(frame))
	require.NoError(t, theirs.decode(frame))
	packet := gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.Default)
	for _, l := range []gopacket.Layer{
		&ours.IPv6, &ours.HopByHop, &theirs.IPv6.IPv6, packet.NetworkLayer(),
		packet.Layer(layers.LayerTypeIPv6HopByHop),
	} {
		got, ok := rocelayers.OptionsOf(l)
		require.True(t, ok)
		require.Equal(t, want, got)
		wiretest.NoAllocs(t, "OptionsOf", func() { _, _ = rocelayers.OptionsOf(l) })
		wiretest.NoAllocs(t, "IOAMOf", func() {
			for o := range rocelayers.IOAMOf(l) {
				for node := range o.Trace.Nodes() {
					_, _ = node.NodeID()
				}
			}
		})
	}
	require.NoError(t, ours.decode(wiretest.Hex(t, send6)))
	for _, l := range []gopacket.Layer{nil, &ours.IPv6, &ours.IPv6.IPv6, &ours.UDP, new(rocelayers.IPv6),
		new(layers.IPv6Destination)} {
		_, ok := rocelayers.OptionsOf(l)
		require.False(t, ok)
		for range rocelayers.IOAMOf(l) {
			t.Error("IOAM in a layer without options")
		}
	}
}

// A packet with a trace in its Hop-by-Hop header, put together from layers, is
// the one that package rocev2 builds.
func TestSerializeHopByHop(t *testing.T) {
	for _, next := range []uint8{ipv6opt.HopByHop, ipv6opt.DestinationOptions} {
		ext := options(t, 17, ioam.IPv6MayChange, ioamData(t, trace(t, 3)))
		want := slices.Concat(ether6, congested(t, next, ext).IP)
		s := newOwnStack()
		require.NoError(t, s.decode(want))

		hbh, destination := new(rocelayers.HopByHop), new(rocelayers.DestinationOptions)
		_, err := hbh.Decode(ext)
		require.NoError(t, err)
		_, err = destination.Decode(ext)
		require.NoError(t, err)
		header := map[uint8]gopacket.SerializableLayer{ipv6opt.HopByHop: hbh,
			ipv6opt.DestinationOptions: destination}[next]
		s.BTH.ICRC.Value = 0
		// gopacket's IPv6 layer and ours, also one that has decoded the header.
		theirs := newStack()
		require.NoError(t, theirs.decode(want))
		for _, ip := range []gopacket.SerializableLayer{&s.IPv6, &s.IPv6.IPv6, &theirs.IPv6.IPv6} {
			buf := dirty(t)
			require.NoError(t, rocelayers.SerializeLayers(buf, complete, &s.Ethernet, ip, header, &s.UDP, &s.BTH,
				s.Payload))
			require.Equal(t, want, buf.Bytes())
			_, err = icrc.Verify(buf.Bytes()[14:])
			require.NoError(t, err)
		}
	}
}

// google/gopacket cannot serialize Pad1 unchanged.
func TestSerializePad1(t *testing.T) {
	for _, next := range []uint8{0, ipv6opt.DestinationOptions} {
		for n := range 9 {
			w := slices.Concat([]byte{17, 0}, make([]byte, n), []byte{0x1E, 1, 0xDA})
			w = append(w, make([]byte, -len(w)&7)...)
			w[1] = uint8(len(w)/8 - 1)
			frame := message0x81(t, 0, next, w, make([]byte, 16))
			all := serializable(gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.Default))
			for i, l := range all {
				switch l := l.(type) {
				case *layers.IPv6HopByHop:
					h, ok := rocelayers.OptionsOf(l)
					require.True(t, ok)
					all[i] = &rocelayers.HopByHop{Header: h}
				case *layers.IPv6Destination:
					h, ok := rocelayers.OptionsOf(l)
					require.True(t, ok)
					all[i] = &rocelayers.DestinationOptions{Header: h}
				}
			}
			for _, opts := range []gopacket.SerializeOptions{{}, fix, complete} {
				buf := dirty(t)
				require.NoError(t, rocelayers.SerializeLayers(buf, opts, all...))
				require.Equal(t, frame, buf.Bytes())
			}
		}
	}
}

// Routing headers of every type are walked and come out as they went in.
func TestRouting(t *testing.T) {
	address := dst6far.As16()
	srh := slices.Concat([]byte{17, 2, 4, 1, 0, 0, 0, 0}, address[:])
	options := slices.Concat([]byte{60, 2, 4, 1, 0, 0, 0, 0}, address[:], options(t, 17, type1, address[:]))
	var s rocelayers.Stack
	buf := gopacket.NewSerializeBuffer()
	for _, c := range []struct {
		frame []byte
		want  gopacket.LayerType
	}{
		{message0x81(t, 0, 43, srh, make([]byte, 16)), rocelayers.LayerTypeCNP},
		{message0x81(t, 0, 43, with(srh, 2, 253), make([]byte, 16)), rocelayers.LayerTypeCNP},
		{message0x81(t, 0, 43, options, make([]byte, 16)), rocelayers.LayerTypeFastCNP},
	} {
		require.NoError(t, s.Decode(c.frame))
		require.NotNil(t, s.Layer(c.want))
		require.Equal(t, c.frame[54:78], s.Routing.LayerContents())
		require.EqualValues(t, 1, s.Routing.SegmentsLeft)
		require.Equal(t, c.frame[56], s.Routing.RoutingType)
		_, err := s.BTH.VerifyICRC()
		require.NoError(t, err)
		var ls []gopacket.SerializableLayer
		for _, typ := range s.Decoded {
			ls = append(ls, s.Layer(typ).(gopacket.SerializableLayer))
		}
		s.BTH.ICRC.Value = 0
		require.NoError(t, rocelayers.SerializeLayers(buf, complete, ls...))
		require.Equal(t, c.frame, buf.Bytes())
	}

	l := s.Routing
	for n := range 24 {
		require.ErrorIs(t, l.DecodeFromBytes(srh[:n:n], gopacket.NilDecodeFeedback), rocelayers.ErrRoutingTruncated)
	}
	require.Equal(t, s.Routing, l)
	for _, n := range []int{0, 3, 8, 4 + 8*256} {
		require.ErrorIs(t, gopacket.SerializeLayers(buf, fix, &rocelayers.Routing{Data: make([]byte, n)}),
			rocelayers.ErrRoutingData)
	}
	require.NoError(t, gopacket.SerializeLayers(dirty(t), fix, &rocelayers.Routing{Data: make([]byte, 4+8*255)}))
}

// plainIOAM returns the IOAM options on the way to a packet's UDP header, read
// without layers.
func plainIOAM(frame []byte) (all []rocelayers.IOAM) {
	var f rocev2.Frame
	f.Decode(frame, rocev2.DecodeOptions{})
	for next, octets := range f.Extensions() {
		var h ipv6opt.Header
		if _, err := h.Decode(octets); err != nil || next == 43 {
			continue
		}
		for o, err := range h.All() {
			if o.Type != 0x31 && o.Type != 0x11 {
				continue
			}
			l := rocelayers.IOAM{OptionType: o.Type, Offset: o.Offset, Err: err}
			if err != nil {
				l.Contents = octets[o.Offset:]
				all = append(all, l)
				continue
			}
			l.Contents = octets[o.Offset:][:2+len(o.Data)]
			l.Err = l.Option.Decode(o.Data)
			if l.Err == nil {
				switch l.Option.Type {
				case ioam.OptTypePreallocated, ioam.OptTypeIncremental:
					l.Err = l.Trace.Decode(l.Option)
				case ioam.OptTypeProofOfTransit:
					l.Err = l.ProofOfTransit.Decode(l.Option)
				case ioam.OptTypeEdgeToEdge:
					l.Err = l.EdgeToEdge.Decode(l.Option)
				case ioam.OptTypeDirectExport:
					l.Err = l.DirectExport.Decode(l.Option)
				}
			}
			all = append(all, l)
		}
	}
	return all
}

// requireIOAM checks the IOAM layers of a frame that leads to a BTH.
func requireIOAM(t *testing.T, frame []byte) {
	t.Helper()
	want := plainIOAM(frame)
	for mode, options := range modes {
		packet := gopacket.NewPacket(frame, layers.LayerTypeEthernet, options)
		if refused(failureOf(packet)) {
			continue
		}
		var got []rocelayers.IOAM
		for _, l := range packet.Layers() {
			if l, ok := l.(*rocelayers.IOAM); ok {
				got = append(got, *l)
			}
		}
		require.Equal(t, want, got, mode)
		if l := packet.Layer(rocelayers.LayerTypeIOAM); len(want) > 0 {
			require.Equal(t, &want[0], l)
			require.NotEmpty(t, packet.String())
		}
	}
	for _, s := range []*stack{newStack(), newOwnStack()} {
		if err := s.decode(frame); refused(err) {
			continue
		} else {
			require.NoError(t, err)
		}
		var got []rocelayers.IOAM
		for _, typ := range s.Decoded {
			l := s.layer(typ)
			if typ == layers.LayerTypeIPv6HopByHop {
				continue // the IPv6 layer has it, too
			}
			got = slices.AppendSeq(got, rocelayers.IOAMOf(l))
		}
		require.Equal(t, want, got)
	}
}

// The layers agree with package ioam about the IOAM of every capture.
func TestIOAMCaptures(t *testing.T) {
	seen := 0
	eachPacket(t, "ioam-*.pcap", func(t *testing.T, frame []byte, p *rocev2.Packet) {
		if newOwnStack().decode(frame) != nil {
			return // a Fast CNP with another option type
		}
		requireIOAM(t, frame)
		seen += len(plainIOAM(frame))
	}, nil)
	require.Equal(t, 19, seen)

	// The nodes that the kernel's configuration had.
	frame := wiretest.Capture(t, "ioam-linux618-hpcc.pcap")[0].Data
	l := gopacket.NewPacket(frame, layers.LayerTypeEthernet,
		gopacket.Default).Layer(rocelayers.LayerTypeIOAM).(*rocelayers.IOAM)
	var ids []uint32
	for n := range l.Trace.Nodes() {
		id, _ := n.NodeID()
		ids = append(ids, id)
	}
	require.Equal(t, []uint32{0xD4, 0xC3, 0xB2}, ids)
	require.Equal(t,
		"0x31 pre-allocated trace Namespace 123 Type 0xf20000 (node, interfaces, seconds, fraction, queue depth) "+
			"RemainingLen 0 Overflow false Nodes 3", l.String())
}

// A broken option never makes the packet around it unreadable.
func TestIOAMBroken(t *testing.T) {
	whole := ioamData(t, trace(t, 3))
	for _, row := range []struct {
		name string
		typ  int
		data []byte
		err  error
	}{
		{"NodeLen", ioam.IPv6MayChange, with(whole, 4, 0x30), wireerr.Malformed},
		{"RemainingLen", ioam.IPv6MayChange, with(whole, 5, 0x7F), wireerr.Malformed},
		{"no space for a node", ioam.IPv6MayChange, whole[:len(whole)-1], wireerr.Truncated},
		{"one octet", ioam.IPv6MayChange, []byte{0}, wireerr.Truncated},
		{"another format in type 0x11", ioam.IPv6NoChange, []byte{1, 3, 1}, wireerr.Truncated},
		{"an unknown type", ioam.IPv6MayChange, []byte{0, 9, 1, 2}, nil},
		{"proof of transit", ioam.IPv6MayChange, append([]byte{0, 2, 0, 123, 0, 1}, whole[:16]...), nil},
		{"edge-to-edge", ioam.IPv6NoChange, []byte{0, 3, 0, 123, 0x40, 0, 0, 0, 0, 7}, nil},
		{"direct export", ioam.IPv6NoChange, []byte{0, 4, 0, 123, 0, 0x40, 0xF2, 0, 0, 0, 0, 0, 0, 7},
			nil},
		{"a trace in the other option", ioam.IPv6NoChange, whole, nil},
		{"direct export left something", ioam.IPv6NoChange, []byte{0, 4, 0, 123, 0, 0, 0xF2, 0, 0, 0, 1, 2},
			wireerr.Malformed},
	} {
		t.Run(row.name, func(t *testing.T) {
			for _, next := range []uint8{ipv6opt.HopByHop, ipv6opt.DestinationOptions} {
				frame := message0x81(t, 0, next, options(t, 17, row.typ, row.data, ioam.IPv6MayChange, whole),
					make([]byte, 16))
				requireIOAM(t, frame)
				packet := gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.Default)
				require.NotNil(t, packet.Layer(rocelayers.LayerTypeCNP))
				all := plainIOAM(frame)
				require.Len(t, all, 2)
				require.ErrorIs(t, all[0].Err, row.err)
				require.NoError(t, all[1].Err)
				require.NotEmpty(t, all[0].String())
			}
		})
	}

	overrun := options(t, 17, ioam.IPv6MayChange, whole)
	overrun[5] = 255
	header := &rocelayers.HopByHop{Header: ipv6opt.Header{NextHeader: 17, Options: overrun[2:]}}
	for l := range rocelayers.IOAMOf(header) {
		require.Equal(t, ipv6opt.ErrOverrun, l.Err)
		require.Equal(t, overrun[4:], l.Contents)
		require.Equal(t, "0x31 "+ipv6opt.ErrOverrun.Error(), l.String())
		break
	}
	require.Equal(t, "NextHeader UDP, PadN 0 octets, 0x31 "+ipv6opt.ErrOverrun.Error(), header.String())
}

// One option alone, without the header around it.
func TestIOAMAlone(t *testing.T) {
	data := ioamData(t, trace(t, 3))
	option := append([]byte{0x31, uint8(len(data))}, data...)
	l := gopacket.NewPacket(option, rocelayers.LayerTypeIOAM,
		gopacket.Default).Layer(rocelayers.LayerTypeIOAM).(*rocelayers.IOAM)
	require.Equal(t, trace(t, 3), l.Trace)
	require.Equal(t, option, l.Contents)
	require.NoError(t, l.Err)

	before := *l
	require.ErrorIs(t, l.DecodeFromBytes([]byte{0x1E, 0}, gopacket.NilDecodeFeedback), rocelayers.ErrNotIOAM)
	for n := range option {
		require.ErrorIs(t, l.DecodeFromBytes(option[:n], gopacket.NilDecodeFeedback), ipv6opt.ErrOverrun)
	}
	require.Equal(t, before, *l)
	wiretest.NoAllocs(t, "decoding", func() { _ = l.DecodeFromBytes(option, gopacket.NilDecodeFeedback) })

	buf := gopacket.NewSerializeBuffer()
	require.NoError(t, gopacket.SerializeLayers(buf, fix, l)) // the header has the octets
	require.Empty(t, buf.Bytes())
}
