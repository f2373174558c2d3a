package rocelayers_test

import (
	"encoding/binary"
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/rocelayers"
	"github.com/rocecn/rocecn/rocev2"
)

// FuzzBTHLayer decodes any UDP data, cut by so many octets. The layers say of
// it what package rocev2 says, with NewPacket and with a parser, and
// serialize it as it was.
func FuzzBTHLayer(f *testing.F) {
	f.Add(wiretest.Hex(f, cnp4)[42:], uint16(0))
	f.Fuzz(func(t *testing.T, data []byte, cut uint16) {
		if len(data) == 0 || len(data) > 0xFFFF-8 {
			return
		}
		frame := wrap(17, append([]byte{0xC0, 0x01, 4791 >> 8, 4791 & 0xFF, 0, 0, 0, 0}, data...))
		binary.BigEndian.PutUint16(frame[58:], uint16(8+len(data)))
		there := max(len(frame)-int(cut), 54+8+1) // gopacket calls no decoder for no octets
		frame = frame[:there:there]

		var p rocev2.Packet
		want := p.Decode(frame, rocev2.Options{Cut: true})
		s := newStack()
		err := s.decode(frame)
		require.Equal(t, want == nil, s.has(rocelayers.LayerTypeBTH))
		for _, options := range modes {
			packet := gopacket.NewPacket(frame, layers.LayerTypeEthernet, options)
			require.Equal(t, want == nil, bthOf(packet) != nil)
			failure := packet.ErrorLayer()
			require.Equal(t, err == nil, failure == nil)
			if err != nil {
				require.Equal(t, err, failure.Error())
				continue
			}
			requireSame(t, &p, bthOf(packet))
			coverage, verdict := icrc.Verify(p.IP)
			got, err := rocelayers.VerifyICRC(packet)
			require.Equal(t, verdict, err)
			require.Equal(t, coverage, got)
			require.NotEmpty(t, packet.String())
		}
		if want != nil {
			require.ErrorIs(t, err, want)
			return
		}
		requireSame(t, &p, &s.bth)
		if err != nil { // a CNP of another length
			require.Equal(t, bth.CNP, s.bth.Opcode)
			return
		}
		if p.Truncated {
			return
		}

		buf := gopacket.NewSerializeBuffer()
		require.NoError(t, gopacket.SerializeLayers(buf, gopacket.SerializeOptions{}, s.layers()[2:]...))
		require.Equal(t, p.Data, buf.Bytes()[8:])
		require.NoError(t, rocelayers.SerializeLayers(buf, gopacket.SerializeOptions{ComputeChecksums: true}, s.layers()...))
		_, err = icrc.Verify(buf.Bytes()[14:])
		require.NoError(t, err)
	})
}

// FuzzFrame decodes any frame. Where package rocev2 finds a RoCEv2 packet and
// gopacket gets as far as UDP, the BTH layer is the same. Nothing panics, but
// for gopacket's own decoders in NewPacket.
func FuzzFrame(f *testing.F) {
	f.Add(wiretest.Hex(f, cnp4))
	f.Add(wiretest.Hex(f, send6))
	f.Add(wrap(4, wiretest.Hex(f, cnp4)[14:]))
	f.Add(vlan(wiretest.Hex(f, send6), 2))
	f.Fuzz(func(t *testing.T, frame []byte) {
		var p rocev2.Packet
		roce := p.DecodeFrame(frame) == nil
		s := newStack()
		s.parser.IgnorePanic = true
		_ = s.decode(frame)
		if roce && s.has(rocelayers.LayerTypeBTH) {
			requireSame(t, &p, &s.bth)
			coverage, verdict := icrc.Verify(p.IP)
			got, err := rocelayers.VerifyNetworkLayer(s.ip())
			require.Equal(t, verdict, err)
			require.Equal(t, coverage, got)
		}
		packet := gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.Default)
		if failure, ok := packet.ErrorLayer().(*gopacket.DecodeFailure); ok {
			require.NotContains(t, failure.Dump(), "rocelayers.") // the stack of a panic
		}
		if l := bthOf(packet); roce && l != nil {
			requireSame(t, &p, l)
		}
		_, _ = rocelayers.VerifyICRC(packet)
	})
}
