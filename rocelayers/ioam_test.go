package rocelayers_test

import (
	"slices"
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/ioam"
	"github.com/rocecn/rocecn/ipv6opt"
	"github.com/rocecn/rocecn/rocelayers"
	"github.com/rocecn/rocecn/rocev2"
)

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
		{"no room for a node", ioam.IPv6MayChange, whole[:len(whole)-1], wireerr.Truncated},
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
