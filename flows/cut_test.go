package flows

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/proxymsg"
	"github.com/rocecn/rocecn/rocev2"
)

// Stats.SnapLength is the snapshot length that a truncated capture would have needed: with that
// length nothing is truncated.
func TestTruncatedCaptures(t *testing.T) {
	stats := func(name string, snap int) Stats {
		table := New(Config{})
		var d Decoder
		var p Packet
		for _, r := range wiretest.Capture(t, name) {
			data := r.Data[:min(len(r.Data), snap)]
			d.Decode(&p, data, rocev2.DecodeOptions{AllowTruncated: len(data) < r.OrigLen})
			table.Observe(&p, uint64(r.Number), r.Time)
		}
		return table.Stats()
	}
	for _, c := range []struct {
		name  string
		snap  int
		cut   uint64
		needs int
	}{
		// Ethernet 14, IPv6 40, UDP 8, BTH 12: 74. RETH 16 is of one frame, AETH 4 of others. Without the
		// opcode, extended headers can be 40: 114.
		{"rxe-rping6.pcap", 90, 0, 0},
		{"rxe-rping6.pcap", 64, 29, 90},
		{"rxe-rping6.pcap", 54, 37, 122}, // no UDP headers: packets with Hop-by-Hop Options may be RoCEv2
		{"rxe-rping6.pcap", 15, 55, 114},
		{"rxe-rping6.pcap", 14, 55, 114},
		// IPv4 20: 54.
		{"rxe-perf4.pcap", 82, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := stats(c.name, c.snap)
			require.Equal(t, [2]any{c.cut, c.needs}, [2]any{s.Truncated, s.SnapLength}, "%s -s %d", c.name, c.snap)
			require.Zero(t, s.Broken, "%s -s %d", c.name, c.snap)
		})
	}
	for _, name := range []string{
		"rxe-rping6.pcap", "rxe-perf4.pcap", "rxe-verbs6.pcap", "messages.pcap", "fastcnp.pcap",
	} {
		whole := stats(name, 1<<16)
		require.Zero(t, whole.Truncated)
		for snap := 0; snap < 300; snap += 7 {
			s := stats(name, snap)
			require.Equal(t, s.Truncated > 0, s.SnapLength > snap, "%s -s %d", name, snap)
			if s.Truncated == 0 {
				continue
			}
			for n := 0; s.Truncated > 0; n++ { // some need more once their type is known
				require.Less(t, n, 6)
				s = stats(name, s.SnapLength)
			}
			require.Equal(t, whole.Others, s.Others, "%s -s %d", name, snap)
		}
	}
}

// Complete packets, and packets that cannot be RoCEv2, need no other snapshot length.
func TestSnapLength(t *testing.T) {
	var d Decoder
	var p Packet
	v6 := func(next byte, rest ...byte) []byte {
		b := make([]byte, 54, 200)
		b[12], b[13], b[14], b[18], b[19], b[20] = 0x86, 0xDD, 0x60, 0, 100, next
		return append(b, rest...)
	}
	v4 := func(protocol byte, rest ...byte) []byte {
		b := make([]byte, 34, 200)
		b[12], b[13], b[14], b[16], b[17], b[23] = 8, 0, 0x45, 0, 120, protocol
		return append(b, rest...)
	}
	fragment := v4(17)
	fragment[21] = 1 // not the first fragment
	for _, c := range []struct {
		name  string
		frame []byte
		needs uint16
	}{
		{"UDP", v6(17), 114},
		{"UDP to RoCEv2", v6(17, 0, 0, 0x12, 0xB7), 114},
		{"UDP to another port", v6(17, 0, 0, 0x12, 0xB8), 0},
		{"TCP", v6(6), 0},
		{"Hop-by-Hop Options", v6(0), 122},
		{"Hop-by-Hop Options of 16 octets, UDP", v6(0, 17, 1, 0, 0, 0, 0, 0, 0), 130},
		{"Hop-by-Hop Options, TCP", v6(0, 6, 1, 0, 0, 0, 0, 0, 0), 0},
		{"a first fragment", v6(44, 17, 0, 0, 1, 0, 0, 0, 0), 0},
		{"another fragment", v6(44, 17, 0, 0, 8, 0, 0, 0, 0), 0},
		{"a routing header, destination options, UDP", v6(43, 60, 0, 0, 0, 0, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0, 0), 130},
		{"a READ request", v6(17, 0, 0, 0x12, 0xB7, 0, 100, 0, 0, 0x0C, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0), 90},
		{"a WRITE Middle", v6(17, 0, 0, 0x12, 0xB7, 0, 100, 0, 0, 0x07, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0), 0},
		{"a CNP", v6(17, 0, 0, 0x12, 0xB7, 0, 36, 0, 0, 0x81, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0), 0},
		{"a PPFC", v6(17, 0, 0, 0x12, 0xB7, 0, 80, 0, 0, 0x81, 0, 0, 0, 0x20, 0, 0, 0, 0, 0, 0, 0), 98},
		{"a proxy message", v6(17, 0, 0, proxymsg.Port>>8, proxymsg.Port&0xFF), 114},
		{"IPv4", v4(17), 94},
		{"IPv4, TCP", v4(6), 0},
		{"IPv4, a fragment that is not the first", fragment, 0},
		{"half of IPv4", v4(17)[:20], 94},
		{"half of IPv6", v6(17)[:20], 114},
		{"ARP", []byte{12: 8, 13: 6, 20: 0}, 0},
		{"IP version 5", []byte{12: 8, 13: 0, 14: 0x55}, 0},
		{"Ethernet", v6(17)[:14], 114},
		{"nothing", nil, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			d.Decode(&p, c.frame, rocev2.DecodeOptions{AllowTruncated: true})
			require.Equal(t, c.needs, p.snapLength)
		})
	}
	d.Decode(&p, v6(17)[14:], rocev2.DecodeOptions{Link: rocev2.LinkIP, AllowTruncated: true})
	require.EqualValues(t, 100, p.snapLength)
	// Truncated packets that are counted in their flows are counted in Stats as well.
	table := New(Config{})
	ack := v6(17, 0, 0, 0x12, 0xB7, 0, 100, 0, 0, 0x11, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 1)
	require.True(t, d.Decode(&p, ack, rocev2.DecodeOptions{AllowTruncated: true}))
	table.Observe(&p, 1, time.Unix(1, 0))
	require.Equal(t, Stats{Packets: 1, Truncated: 1, SnapLength: 78}, table.Stats())
	require.False(t, d.Decode(&p, ack[:60], rocev2.DecodeOptions{AllowTruncated: true}))
	table.Observe(&p, 2, time.Unix(1, 0))
	require.Equal(t, Stats{Packets: 2, Truncated: 2, SnapLength: 114}, table.Stats())
}
