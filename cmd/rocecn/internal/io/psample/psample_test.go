package psample

import (
	"bytes"
	"testing"
	"time"

	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/io/netlink"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/netio"
	"github.com/stretchr/testify/require"
)

// A value is an attribute: its number and octets or an integer of 2, 4 or 8 octets.
type value struct {
	kind uint16
	data any
}

// octetsOf returns attributes in the kernel's encoding.
func octetsOf(values ...value) (b []byte) {
	for _, v := range values {
		var data []byte
		switch d := v.data.(type) {
		case uint16:
			data = ne.AppendUint16(nil, d)
		case uint32:
			data = ne.AppendUint32(nil, d)
		case uint64:
			data = ne.AppendUint64(nil, d)
		case []byte:
			data = d
		}
		b = ne.AppendUint16(b, uint16(4+len(data)))
		b = ne.AppendUint16(b, v.kind)
		b = append(append(b, data...), make([]byte, -len(data)&3)...)
	}
	return b
}

// frame is the beginning of a frame of 1,042 octets.
const frame = "020000000002 020000000001 86dd 6000000003e6113f"

// hardware is a sample with all attributes of a switch, in the order of psample_sample_packet of Linux 6.1.
func hardware(t testing.TB) []byte {
	return append([]byte{0, 1, 0, 0}, octetsOf(
		value{0, uint16(3)}, value{1, uint16(4)}, value{5, uint32(1000)}, value{2, uint32(1042)}, value{3, uint32(5)},
		value{4, uint32(77)}, value{10, uint16(6)}, value{11, uint64(0x1_0000_0002)}, value{12, uint64(1500)},
		value{13, uint64(1_795_254_649_000_000_007)}, value{14, uint16(0x86DD)}, value{6, wiretest.Hex(t, frame)},
	)...)
}

// software is a sample of tc's action sample.
func software(t testing.TB, group, sequence uint32) []byte {
	return append([]byte{0, 1, 0, 0}, octetsOf(
		value{0, uint16(3)}, value{5, uint32(1)}, value{2, uint32(22)}, value{3, group}, value{4, sequence},
		value{13, uint64(7)}, value{14, uint16(0x86DD)}, value{6, wiretest.Hex(t, frame)},
	)...)
}

func TestDecode(t *testing.T) {
	octets := wiretest.Hex(t, frame)
	for _, row := range []struct {
		name string
		data []byte
		want sample
	}{
		{"hardware", hardware(t), sample{5, 77, netio.Packet{
			Record: capture.Record{Data: octets, OrigLen: 1042, Unit: time.Nanosecond, Link: capture.Ethernet,
				Time: time.Unix(1_795_254_649, 7).UTC()},
			Interface: 3, Egress: 4, Depth: 0x1_0000_0002, DepthKnown: true, Origin: netio.OriginSampled}}},
		{"software", software(t, 6, 1), sample{6, 1, netio.Packet{
			Record: capture.Record{Data: octets, OrigLen: 22, Unit: time.Nanosecond, Link: capture.Ethernet,
				Time: time.Unix(0, 7).UTC()}, Interface: 3, Origin: netio.OriginSampled}}},
		{"32 bits", append([]byte{0, 1, 0, 0}, octetsOf(value{0, uint32(70000)}, value{1, uint32(70001)},
			value{3, uint32(1)}, value{6, octets})...), sample{1, 0, netio.Packet{
			Record:    capture.Record{Data: octets, OrigLen: 22, Unit: time.Nanosecond, Link: capture.Ethernet},
			Interface: 70000, Egress: 70001, Origin: netio.OriginSampled}}},
		{"too short", append([]byte{0, 1, 0, 0}, octetsOf(value{3, uint32(1)}, value{0, []byte{1}}, value{1, []byte{}},
			value{2, uint16(9)}, value{4, uint16(9)}, value{11, uint32(9)}, value{13, uint32(9)},
			value{13, uint64(1 << 63)}, value{6, octets})...), sample{1, 0, netio.Packet{
			Record: capture.Record{Data: octets, OrigLen: 22, Unit: time.Nanosecond, Link: capture.Ethernet},
			Origin: netio.OriginSampled}}},
	} {
		t.Run(row.name, func(t *testing.T) {
			var s sample
			require.True(t, s.decodeMessage(netlink.Message{Data: row.data}))
			require.Equal(t, row.want, s)
			wiretest.NoAllocs(t, "decode", func() { s.decodeMessage(netlink.Message{Data: row.data}) })
		})
	}
	for _, c := range []struct {
		name string
		data []byte
	}{
		{"a new group", append([]byte{2, 1, 0, 0}, octetsOf(value{3, uint32(5)})...)},
		{"cut", []byte{0, 1, 0}},
		{"no data", append([]byte{0, 1, 0, 0}, octetsOf(value{3, uint32(5)}, value{4, uint32(5)})...)},
		{"no group", append([]byte{0, 1, 0, 0}, octetsOf(value{4, uint32(5)}, value{6, octets})...)},
	} {
		t.Run(c.name, func(t *testing.T) {
			var s sample
			require.False(t, s.decodeMessage(netlink.Message{Data: c.data}))
		})
	}
}

// For any octets, the packet is part of them.
func FuzzDecode(f *testing.F) {
	f.Add(hardware(f))
	f.Add(software(f, 5, 1))
	f.Fuzz(func(t *testing.T, b []byte) {
		var s sample
		if s.decodeMessage(netlink.Message{Data: b}) {
			p := &s.packet
			require.True(t, bytes.Contains(b, p.Data))
			require.GreaterOrEqual(t, p.OrigLen, uint32(len(p.Data)))
			require.GreaterOrEqual(t, min(p.Interface, p.Egress), 0)
			require.False(t, p.Outgoing || p.Depth > 0 && !p.DepthKnown)
			require.NotPanics(t, func() { _ = p.Time.String() })
		}
	})
}
