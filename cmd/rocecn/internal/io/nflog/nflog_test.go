package nflog

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"

	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/io/netlink"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/netio"
	"github.com/stretchr/testify/require"
)

// attribute returns an attribute given in hex, in the kernel's encoding.
func attribute(t testing.TB, kind uint16, hex string) []byte {
	data := wiretest.Hex(t, hex)
	b := binary.NativeEndian.AppendUint16(nil, uint16(4+len(data)))
	b = binary.NativeEndian.AppendUint16(b, kind)
	return append(append(b, data...), make([]byte, -len(data)&3)...)
}

// logMessage returns the data of a message for group 7 about a received packet, as Linux sends it in the order of
// __build_packet_message.
func logMessage(t testing.TB) []byte {
	b := wiretest.Hex(t, "0a00 0007")
	for _, a := range []struct {
		kind uint16
		hex  string
	}{
		{1, "86dd 01 00"},                  // protocol, hook
		{10, "00"},                         // prefix
		{4, "00000067"},                    // interface
		{2, "00000005"},                    // mark
		{8, "0006 0000 0200000000aa 0000"}, // hardware address
		{3, "000000006b01a1f9 00000000000f423f"},
		{12, "000000ff"},
		{9, "6000000000003bff 01"},
	} {
		b = append(b, attribute(t, a.kind, a.hex)...)
	}
	return b
}

func TestDecode(t *testing.T) {
	var e entry
	require.True(t, e.decodeMessage(netlink.Message{Type: 0x400, Data: logMessage(t)}))
	require.Equal(t, entry{
		group: 7, sequence: 255, hasSequence: true,
		packet: netio.Packet{
			Record: capture.Record{
				Data: wiretest.Hex(t, "6000000000003bff 01"), OrigLen: 9,
				Time: time.Unix(0x6b01a1f9, 999_999_000).UTC(), Unit: time.Nanosecond, Link: capture.Raw,
			},
			Interface: 0x67, Origin: netio.OriginLogged,
		},
	}, e)

	// A sent packet, without time stamp and number.
	out := append(wiretest.Hex(t, "0200 0007"), attribute(t, 5, "00000009")...)
	out = append(out, attribute(t, 9, "45")...)
	require.True(t, e.decodeMessage(netlink.Message{Type: 0x400, Data: out}))
	require.Equal(t, entry{group: 7, packet: netio.Packet{
		Record: capture.Record{Data: []byte{0x45}, OrigLen: 1, Unit: time.Nanosecond, Link: capture.Raw},
		Egress: 9, Origin: netio.OriginLogged,
	}}, e)

	for _, c := range []struct {
		name string
		m    netlink.Message
	}{
		{"answer to a request", netlink.Message{Type: 0x401, Data: logMessage(t)}},
		{"error", netlink.Message{Type: 2, Data: logMessage(t)}},
		{"truncated header", netlink.Message{Type: 0x400, Data: []byte{10, 0, 0}}},
		{"no payload", netlink.Message{Type: 0x400,
			Data: append([]byte{10, 0, 0, 7}, attribute(t, 12, "00000001")...)}},
		{"both", netlink.Message{Type: 0x401, Data: []byte{10, 0, 0}}},
	} {
		t.Run(c.name, func(t *testing.T) { require.False(t, e.decodeMessage(c.m)) })
	}
	// Attributes that are too short are ignored.
	short := wiretest.Hex(t, "0a00 0007")
	for _, kind := range []uint16{3, 4, 5, 12} {
		short = append(short, attribute(t, kind, "000001")...)
	}
	short = append(short, attribute(t, 9, "")...)
	require.True(t, e.decodeMessage(netlink.Message{Type: 0x400, Data: short}))
	require.Equal(t, entry{group: 7, packet: netio.Packet{
		Record: capture.Record{Data: []byte{}, Unit: time.Nanosecond, Link: capture.Raw}, Origin: netio.OriginLogged,
	}}, e)
	data := logMessage(t)
	wiretest.NoAllocs(t, "decode", func() { e.decodeMessage(netlink.Message{Type: 0x400, Data: data}) })
}

// For any octets, the packet is part of them.
func FuzzDecode(f *testing.F) {
	f.Add(logMessage(f))
	f.Fuzz(func(t *testing.T, b []byte) {
		var e entry
		if e.decodeMessage(netlink.Message{Type: 0x400, Data: b}) {
			require.True(t, bytes.Contains(b, e.packet.Data))
			require.EqualValues(t, len(e.packet.Data), e.packet.OrigLen)
			require.False(t, e.packet.Outgoing || e.packet.DepthKnown)
			require.Equal(t, capture.Raw, e.packet.Link)
			require.NotPanics(t, func() { _ = e.packet.Time.String() })
		}
	})
}

func TestRules(t *testing.T) {
	require.Equal(t, `table inet mine
delete table inet mine
table inet mine {
	chain input {
		type filter hook input priority filter; policy accept;
		exthdr dst exists udp dport 4791 log group 7 queue-threshold 1 drop
	}
}
`, Rules("mine", 7))
}
