package encap

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/internal/wire"
	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/rocev2"
)

var (
	pe, egress = netip.MustParseAddr("2001:db8:fe::1"), netip.MustParseAddr("2001:db8:fe::9")
	s1, s2, s3 = netip.MustParseAddr("fc00:1::"), netip.MustParseAddr("fc00:2::"), netip.MustParseAddr("fc00:3::d6")
	pe4        = netip.MustParseAddr("192.0.2.1")
	egress4    = netip.MustParseAddr("192.0.2.9")
	ethernet   = []byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x08, 0}
	tagged     = []byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x81, 0, 0x20, 7, 0x86, 0xDD}
)

const (
	peOctets     = "20010db800fe00000000000000000001"
	egressOctets = "20010db800fe00000000000000000009"
	s1Octets     = "fc000001000000000000000000000000"
	s2Octets     = "fc000002000000000000000000000000"
	s3Octets     = "fc0000030000000000000000000000d6"

	// DSCP 26, ECN 2, flow label 12345, nothing after the header.
	six = "66a12345 0000 3b 40 20010db8000100000000000000000001 20010db8000200000000000000000002"
	// DSCP 26, ECN 1, protocol 253, four octets.
	four = "45690018 00004000 40fd0000 0a000101 0a000401 deadbeef"
)

func TestOctets(t *testing.T) {
	for _, c := range []struct {
		name   string
		tunnel Tunnel
		inner  string
		want   string // the octets around the packet; the packet itself follows
	}{
		{"IPv6 in IPv6", &IPInIPv6{pe, egress}, six,
			"66abeef5 0028 29 40" + peOctets + egressOctets},
		{"IPv4 in IPv6", &IPInIPv6{pe, egress}, four,
			"669beef5 0018 04 40" + peOctets + egressOctets},
		{"SRv6, one segment", &SRv6{Src: pe, Segments: []netip.Addr{s3}}, six,
			"66abeef5 0040 2b 40" + peOctets + s3Octets + "29 02 04 00 00 00 0000" + s3Octets},
		{"SRv6, three segments", &SRv6{Src: pe, Segments: []netip.Addr{s1, s2, s3}}, four,
			"669beef5 0050 2b 40" + peOctets + s1Octets + "04 06 04 02 02 00 0000" + s3Octets + s2Octets + s1Octets},
		{"SRv6 reduced, one segment", &SRv6{Src: pe, Segments: []netip.Addr{s3}, Reduced: true}, four,
			"669beef5 0018 04 40" + peOctets + s3Octets},
		{"SRv6 reduced, three segments", &SRv6{Src: pe, Segments: []netip.Addr{s1, s2, s3}, Reduced: true}, six,
			"66abeef5 0050 2b 40" + peOctets + s1Octets + "29 04 04 02 01 00 0000" + s3Octets + s2Octets},
		{"SRv6 with a frame", &SRv6{Src: pe, Segments: []netip.Addr{s1, s3}, Reduced: true, Ethernet: ethernet}, six,
			"66abeef5 004e 2b 40" + peOctets + s1Octets + "8f 02 04 01 00 00 0000" + s3Octets +
				"020000000002 020000000001 86dd"},
		{"SRv6 with a frame, no list", &SRv6{Src: pe, Segments: []netip.Addr{s3}, Reduced: true, Ethernet: tagged},
			four,
			"669beef5 002a 8f 40" + peOctets + s3Octets + "020000000002 020000000001 81002007 0800"},
		// UDP checksum by hand: the words of the pseudo-header, UDP header, VXLAN
		// header and frame add up to 0x58b8b, folded 0x8b90, complement 0x746f.
		{"VXLAN", &VXLAN{pe, egress, 0xABCDEF, ethernet}, four,
			"669beef5 0036 11 40" + peOctets + egressOctets +
				"eef5 12b5 0036 746f 08000000 abcdef00 020000000002 020000000001 0800"},
		// The label 0xbeef5 selects the source port alone. The header checksum was computed in Python.
		{"VXLAN over IPv4", &VXLAN{pe4, egress4, 0xABCDEF, ethernet}, four,
			"4569004a 00004000 4011b62f c0000201 c0000209" +
				"eef5 12b5 0036 0000 08000000 abcdef00 020000000002 020000000001 0800"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inner := wiretest.Hex(t, c.inner)
			want := slices.Concat(wiretest.Hex(t, c.want), inner)
			appendTo := func(b []byte) ([]byte, error) { return c.tunnel.Append(b, inner, 0xBEEF5) }
			wiretest.Encodes(t, want, appendTo)
			require.Equal(t, wiretest.Hex(t, c.inner), inner, "the packet is not touched")
			overhead := c.tunnel.Overhead()
			require.Equal(t, len(want)-len(inner), overhead)
			padded := append(inner, 0, 0, 0)
			out, err := c.tunnel.Append(nil, padded, 0xBEEF5)
			require.NoError(t, err)
			require.Equal(t, want, out, "padding is no part of the packet")
			buf := make([]byte, 0, 256)
			wiretest.NoAllocs(t, "Append", func() { _, _ = c.tunnel.Append(buf, inner, 0xBEEF5) })
		})
	}
}

// The outer ECN field is the inner one, all four of them, in both families.
func TestECN(t *testing.T) {
	for ecn := range byte(4) {
		for _, tunnel := range tunnels() {
			inner := wiretest.Hex(t, six)
			inner[1] = inner[1]&^0x30 | ecn<<4
			out, err := tunnel.Append(nil, inner, 1)
			require.NoError(t, err)
			require.Equal(t, ecn, out[1]>>4&3)
			inner = wiretest.Hex(t, four)
			inner[1] = inner[1]&^3 | ecn
			out, err = tunnel.Append(nil, inner, 1)
			require.NoError(t, err)
			require.Equal(t, ecn, out[1]>>4&3)
		}
	}
}

func tunnels() []Tunnel {
	return []Tunnel{
		&IPInIPv6{pe, egress},
		&SRv6{Src: pe, Segments: []netip.Addr{s1, s2}},
		&SRv6{Src: pe, Segments: []netip.Addr{s1, s2}, Reduced: true},
		&SRv6{Src: pe, Segments: []netip.Addr{s1, s2}, Ethernet: tagged},
		&VXLAN{pe, egress, 7, tagged},
	}
}

func TestNotBuilt(t *testing.T) {
	packet := wiretest.Hex(t, six)
	long := ofLength(t, 0x10000)
	changed := func(octets string, at int, to byte) []byte {
		b := wiretest.Hex(t, octets)
		b[at] = to
		return b
	}
	foreign := slices.Clone(tagged)
	foreign[12] = 0x80
	mapped := netip.MustParseAddr("::ffff:192.0.2.1")
	for _, c := range []struct {
		name   string
		tunnel Tunnel
		inner  []byte
		label  uint32
		err    error
	}{
		{"label", &IPInIPv6{pe, egress}, packet, 1 << 20, errLabel},
		{"label", &SRv6{Src: pe, Segments: []netip.Addr{s1}}, packet, 1 << 20, errLabel},
		{"label", &VXLAN{pe, egress, 7, ethernet}, packet, 1 << 20, errLabel},
		{"no packet", &IPInIPv6{pe, egress}, nil, 1, errInner},
		{"IPv6 truncated", &SRv6{Src: pe, Segments: []netip.Addr{s1}}, packet[:39], 1, errInner},
		{"IPv4 truncated", &VXLAN{pe, egress, 7, ethernet}, wiretest.Hex(t, four)[:19], 1, errInner},
		{"version 5", &IPInIPv6{pe, egress}, bytes.Repeat([]byte{0x50}, 40), 1, errInner},
		{"source IPv4", &IPInIPv6{netip.MustParseAddr("192.0.2.1"), egress}, packet, 1, errAddress},
		{"source mapped", &IPInIPv6{mapped, egress}, packet, 1, errAddress},
		{"no source", &VXLAN{netip.Addr{}, egress, 7, ethernet}, packet, 1, errAddresses},
		{"families", &VXLAN{pe4, egress, 7, ethernet}, packet, 1, errAddresses},
		{"source ::, VXLAN", &VXLAN{netip.IPv6Unspecified(), egress, 7, ethernet}, packet, 1, errAddresses},
		{"destination loopback", &VXLAN{pe4, netip.MustParseAddr("127.0.0.1"), 7, ethernet}, packet, 1, errAddresses},
		{"label, IPv4", &VXLAN{pe4, egress4, 7, ethernet}, packet, 1 << 20, errLabel},
		{"too long, IPv4", &VXLAN{pe4, egress4, 7, ethernet}, ofLength(t, 0xFFFF-49), 1, errLength},
		{"source ::", &IPInIPv6{netip.IPv6Unspecified(), egress}, packet, 1, errAddress},
		{"destination multicast", &IPInIPv6{pe, netip.IPv6LinkLocalAllNodes()}, packet, 1, errAddress},
		{"segment IPv4", &SRv6{Src: pe, Segments: []netip.Addr{s1, netip.MustParseAddr("192.0.2.1")}}, packet, 1,
			errAddress},
		{"no segments", &SRv6{Src: pe}, packet, 1, errSegments},
		{"no segments", &SRv6{Src: pe, Reduced: true}, packet, 1, errSegments},
		{"128 segments", &SRv6{Src: pe, Segments: slices.Repeat([]netip.Addr{s1}, 128)}, packet, 1, errSegments},
		{"VNI", &VXLAN{pe, egress, 1 << 24, ethernet}, packet, 1, errVNI},
		{"no Ethernet header", &VXLAN{Src: pe, Dst: egress}, packet, 1, errEthernet},
		{"half a tag", &SRv6{Src: pe, Segments: []netip.Addr{s1}, Ethernet: tagged[:16]}, packet, 1, errEthernet},
		{"no tag", &VXLAN{pe, egress, 7, foreign}, packet, 1, errEthernet},
		{"no second tag", &VXLAN{pe, egress, 7, slices.Concat(tagged, []byte{0, 0, 8, 0})}, packet, 1, errEthernet},
		{"too long", &IPInIPv6{pe, egress}, long, 1, errLength},
		{"too long", &SRv6{Src: pe, Segments: []netip.Addr{s1}}, ofLength(t, 0xFFF0), 1, errLength},
		{"too long", &VXLAN{pe, egress, 7, ethernet}, ofLength(t, 0xFFF0), 1, errLength},
		{"an octet is missing", &IPInIPv6{pe, egress}, wiretest.Hex(t, four)[:23], 1, errInnerTruncated},
		{"an octet is missing", &IPInIPv6{pe, egress}, changed(six, 5, 1), 1, errInnerTruncated},
		{"payload length 0 before UDP", &IPInIPv6{pe, egress}, changed(six, 6, 17), 1, errInnerLength},
		{"total length below 20", &IPInIPv6{pe, egress}, changed(four, 3, 19), 1, errInnerLength},
		{"total length below the options", &IPInIPv6{pe, egress}, changed(four, 0, 0x47), 1, errInnerLength},
		{"header length below 20", &IPInIPv6{pe, egress}, changed(four, 0, 0x44), 1, errInnerLength},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, err := c.tunnel.Append([]byte{9}, c.inner, c.label)
			require.ErrorIs(t, err, c.err)
			require.Equal(t, []byte{9}, out)
			wiretest.NoAllocs(t, c.name, func() { _, _ = c.tunnel.Append(nil, c.inner, c.label) })
		})
	}
	most := &SRv6{Src: pe, Segments: slices.Repeat([]netip.Addr{s1}, 127)}
	out, err := most.Append(nil, packet, 1)
	require.NoError(t, err)
	require.EqualValues(t, 254, out[41])
	require.ErrorIs(t, errInner, wireerr.Malformed)
	require.ErrorIs(t, errLabel, wireerr.Range)
}

// ofLength is an IPv6 packet of n octets.
func ofLength(t *testing.T, n int) []byte {
	b := append(wiretest.Hex(t, six), make([]byte, n-wire.IPv6Size)...)
	binary.BigEndian.PutUint16(b[4:], uint16(n-wire.IPv6Size))
	return b
}

// Largest values, and one more: 65535 octets after the IPv6 header, 24 bits of VNI.
func TestMost(t *testing.T) {
	for _, tunnel := range tunnels() {
		n := wire.IPv6Size + 0xFFFF - tunnel.Overhead()
		out, err := tunnel.Append(nil, ofLength(t, n), 1)
		require.NoError(t, err)
		require.Equal(t, []byte{0xFF, 0xFF}, out[4:6])
		_, err = tunnel.Append(nil, ofLength(t, n+1), 1)
		require.ErrorIs(t, err, errLength)
	}
	out, err := (&VXLAN{pe, egress, 0xFFFFFF, ethernet}).Append(nil, wiretest.Hex(t, six), 1)
	require.NoError(t, err)
	require.Equal(t, []byte{0xFF, 0xFF, 0xFF, 0}, out[52:56])
	require.Equal(t, wire.IPv6Size, (&SRv6{Src: pe, Reduced: true}).Overhead(), "no segments")
}

// The walk of rocev2 finds the same packet in a tunnel as was encapsulated.
func FuzzAppend(f *testing.F) {
	for i := range tunnels() {
		for _, name := range []string{"rxe-perf4.pcap", "rxe-rping6.pcap", "ioam-linux618-two.pcap"} {
			f.Add(wiretest.Capture(f, name)[0].Data[14:], uint32(0xBEEF5), uint8(i))
		}
	}
	f.Fuzz(func(t *testing.T, inner []byte, label uint32, which uint8) {
		tunnel := tunnels()[int(which)%len(tunnels())]
		before := bytes.Clone(inner)
		out, err := tunnel.Append([]byte{9}, inner, label)
		require.Equal(t, before, inner)
		require.EqualValues(t, 9, out[0])
		if err != nil {
			require.Len(t, out, 1)
			return
		}
		require.Equal(t, label, binary.BigEndian.Uint32(out[1:])&0xFFFFF)
		var through, direct rocev2.Frame
		direct.Decode(inner, rocev2.DecodeOptions{Link: rocev2.LinkIP})
		inner = direct.Outer().IP()
		require.Equal(t, inner, out[1+tunnel.Overhead():])
		want, err := direct.FiveTuple()
		if err != nil || len(direct.Inner().IP()) != len(inner) {
			return
		}
		through.Decode(out[1:], rocev2.DecodeOptions{Link: rocev2.LinkIP})
		got, err := through.FiveTuple()
		require.NoError(t, err)
		require.Equal(t, want, got)
		require.Equal(t, inner, through.Inner().IP())
		require.Equal(t, out[1:], through.Outer().IP())
	})
}

// tshark reads every tunnel as it is meant: the outer label and ECN field, both
// source addresses, right lengths and checksums, and the packet inside.
func TestTshark(t *testing.T) {
	inner := roce(t)
	link := slices.Concat(ethernet[:12], []byte{0x86, 0xDD})
	frames := [][]byte{slices.Concat(link, inner)}
	for _, tunnel := range tunnels() {
		frames = append(frames, wiretest.Must(tunnel.Append(slices.Clone(link), inner, 0xBEEF5))(t))
	}
	rows := wiretest.Tshark(t, frames...)
	plain := rows[0]
	for i, tunnel := range tunnels() {
		t.Run(fmt.Sprintf("%T", tunnel), func(t *testing.T) {
			row := rows[1+i]
			require.EqualValues(t, 0xBEEF5, row.Uint("ipv6.flow"))
			require.Equal(t, pe.String(), row.Get("ipv6.src"))
			require.Equal(t, plain.Get("ipv6.src"), row.All("ipv6.src")[1])
			require.Equal(t, plain.Get("ipv6.flow"), row.All("ipv6.flow")[1])
			require.Equal(t, plain.Get("ipv6.tclass.ecn"), row.Get("ipv6.tclass.ecn"))
			require.Equal(t, plain.Get("infiniband.bth.destqp"), row.Get("infiniband.bth.destqp"))
			require.NotEmpty(t, row.Get("infiniband.bth.destqp"))
			require.Empty(t, row.Get("_ws.malformed"))
			for _, status := range row.All("udp.checksum.status") {
				require.NotEqual(t, "0", status, "a bad checksum")
			}
			if s, ok := tunnel.(*SRv6); ok {
				require.Equal(t, []string{"fc00:1::"}, row.All("ipv6.dst")[:1])
				require.Equal(t, "1", row.Get("ipv6.routing.segleft"))
				want := []string{"fc00:2::", "fc00:1::"}
				if s.Reduced {
					want = want[:1]
				}
				require.Equal(t, want, row.All("ipv6.routing.srh.addr"))
			}
		})
	}
}

// roce returns the first RoCEv2 packet of a capture, from its IP header on.
func roce(t *testing.T) []byte {
	for _, captured := range wiretest.Capture(t, "rxe-rping6.pcap") {
		var p rocev2.Packet
		if p.DecodeEthernet(captured.Data) == nil {
			return p.IP
		}
	}
	t.Fatal("no RoCEv2 packet")
	return nil
}
