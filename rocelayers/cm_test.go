package rocelayers_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/cm"
	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/rocelayers"
)

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
