package wire

import (
	"encoding/hex"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Traffic class 0xb8, flow label 0x12345, payload length 48, hop limit 63, Destination Options of 8 octets, UDP.
const ipv6Header = "6b812345 0030 3c 3f 20010db8000000000000000000000001 20010db8000000000000000000000002" +
	"11 00 010400000000"

// TOS 0xb9, Total Length 36, Identification 0x1234, DF, TTL 62, UDP, 4 octets of options.
const ipv4Header = "46 b9 0024 1234 4000 3e 11 0000 c0000201 c0000202 01010100"

func TestIPAccessors(t *testing.T) {
	for _, c := range []struct {
		name, octets string
		version      uint8
		fixed        int
		length       int
		protocol     uint8
		class        uint8
		label        uint32
		src, dst     string
	}{
		{"IPv6", ipv6Header, 6, 40, 88, 60, 0xB8, 0x12345, "2001:db8::1", "2001:db8::2"},
		{"IPv4", ipv4Header, 4, 20, 36, 17, 0xB9, 0, "192.0.2.1", "192.0.2.2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			ip := octets(t, c.octets)
			require.Equal(t, []any{c.version, c.version, c.version == 6, c.fixed, c.length},
				[]any{Version(ip), VersionField(ip), IsIPv6(ip), FixedSize(ip), Length(ip)})
			require.Equal(t, []any{c.protocol, c.class, c.label},
				[]any{Protocol(ip), TrafficClass(ip), FlowLabel(ip)})
			src, dst := Addresses(ip)
			want := []netip.Addr{netip.MustParseAddr(c.src), netip.MustParseAddr(c.dst)}
			require.Equal(t, want, []netip.Addr{src, dst})
			srcOctets, dstOctets := AddressOctets(ip)
			require.Equal(t, [][]byte{src.AsSlice(), dst.AsSlice()}, [][]byte{srcOctets, dstOctets})
			for n := range c.fixed {
				require.Zero(t, Version(ip[:n]), n)
				src, dst := Addresses(ip[:n])
				require.False(t, src.IsValid() || dst.IsValid(), n)
			}
		})
	}
	ip := octets(t, ipv4Header)
	require.Equal(t, []any{24, uint16(0x1234), false}, []any{HeaderLen(ip), Identification(ip), IsFragment(ip)})
	for v := range 16 {
		if ip[0] = byte(v<<4 | 5); v != 4 {
			require.Zero(t, Version(ip), v)
		}
	}
}

func TestSetTrafficClass(t *testing.T) {
	ip := octets(t, "45000073 00004000 4011b861 c0a80001 c0a800c7")
	SetTrafficClass(ip, 0xB8) // adds 0x00b8 to the sum and subtracts it from the checksum, the complement
	require.Equal(t, octets(t, "45b80073 00004000 4011b7a9 c0a80001 c0a800c7"), ip)
	SetTrafficClass(ip, 0)
	require.Equal(t, octets(t, "45000073 00004000 4011b861 c0a80001 c0a800c7"), ip)
	ip = octets(t, ipv6Header)
	SetTrafficClass(ip, 0x03)
	require.Equal(t, octets(t, "60312345"), ip[:4])
	require.Equal(t, octets(t, ipv6Header)[4:], ip[4:])
}

func TestReadIP(t *testing.T) {
	v6 := Headers{End: 48, Limit: 88, Protocol: 17}
	v4 := Headers{End: 24, Limit: 36, Protocol: 17}
	for _, c := range []struct {
		name, octets string
		version      uint8
		at           int  // offset of the changed octet
		value        byte // its new value
		want         Headers
		fault        Fault
	}{
		{"IPv6", ipv6Header, 6, 0, 0x6B, v6, FaultNone},
		{"IPv6 without extension headers", ipv6Header, 6, 6, 17, Headers{40, 88, 17, false}, FaultNone},
		{"IPv6 with a fragment header", ipv6Header, 6, 6, 44, Headers{40, 88, 44, false}, FaultNone},
		{"IPv6 with a Segment Routing header", "60000000 0008 2b 40 20010db8000000000000000000000001" +
			"20010db8000000000000000000000002 3b 00 04 00 00000000", 6, 0, 0x60, Headers{48, 48, 59, true}, FaultNone},
		{"extension header beyond the packet", ipv6Header, 6, 5, 7, Headers{40, 47, 60, false}, FaultExtension},
		{"extension header beyond the octets", ipv6Header, 6, 41, 1, Headers{40, 88, 60, false}, FaultExtension},
		{"version 4 announced as 6", ipv6Header, 6, 0, 0x45, Headers{End: 0, Limit: 48}, FaultVersion},
		{"IPv4", ipv4Header, 4, 0, 0x46, v4, FaultNone},
		{"version 6 announced as 4", ipv4Header, 4, 0, 0x66, Headers{End: 0, Limit: 24}, FaultVersion},
		{"IHL 4", ipv4Header, 4, 0, 0x44, Headers{End: 0, Limit: 24}, FaultIHL},
		{"options beyond the octets", ipv4Header, 4, 0, 0x47, Headers{End: 0, Limit: 24}, FaultIPv4Size},
		{"Total Length 23", ipv4Header, 4, 3, 23, Headers{End: 0, Limit: 24}, FaultTotal},
		{"first fragment", ipv4Header, 4, 6, 0x20, v4, FaultFragment},
		{"last fragment", ipv4Header, 4, 7, 1, v4, FaultFragment},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := octets(t, c.octets)
			b[c.at] = c.value
			h, fault := ReadIP(b, 0, c.version)
			require.Equal(t, c.fault, fault)
			require.Equal(t, c.want, h)
			h, fault = ReadIP(append([]byte{0xFF, 0xFF, 0xFF}, b...), 3, c.version)
			require.Equal(t, c.fault, fault)
			c.want.End, c.want.Limit = c.want.End+3, c.want.Limit+3
			require.Equal(t, c.want, h)
			require.Zero(t, testing.AllocsPerRun(10, func() { ReadIP(b, 0, c.version) }))
		})
	}
}

func TestReadIPPrefixes(t *testing.T) {
	b := octets(t, ipv6Header)
	for n := range len(b) {
		want, wantFault := Headers{End: 0, Limit: n}, FaultIPv6Size
		if n >= 40 {
			want, wantFault = Headers{40, 88, 60, false}, FaultExtension
		}
		h, fault := ReadIP(b[:n:n], 0, 6)
		require.Equal(t, wantFault, fault, n)
		require.Equal(t, want, h, n)
	}
	b = octets(t, ipv4Header)
	for n := range len(b) {
		h, fault := ReadIP(b[:n:n], 0, 4)
		require.Equal(t, FaultIPv4Size, fault, n)
		require.Equal(t, Headers{End: 0, Limit: n}, h, n)
	}
}

func TestSkipTags(t *testing.T) {
	b := octets(t, "020000000001 020000000002 8100 0064 88a8 0001 86dd 60")
	end, ether, ok := SkipTags(b, 12, EthernetSize, EtherCSIG)
	require.Equal(t, []any{22, uint16(0x86DD), true}, []any{end, ether, ok})
	for n := range 22 {
		end, ether, ok := SkipTags(b[:n:n], 12, EthernetSize, EtherCSIG)
		require.Equal(t, []any{0, uint16(0), false}, []any{end, ether, ok}, n)
	}
}

func TestUDPAccessors(t *testing.T) {
	udp := octets(t, "c001 12b7 0024 1a2b")
	require.Equal(t, []uint16{0xC001, 4791, 36},
		[]uint16{SrcPort(udp), DstPort(udp), UDPLength(udp)})
}

// The offsets of headers that were read are in order and do not depend on octets after the packet.
func FuzzReadIP(f *testing.F) {
	for _, s := range []string{ipv6Header, ipv4Header, "", "60", "45000014", "60000000 0000 3b 40"} {
		b := octets(f, s)
		f.Add(b, uint8(0), uint8(6))
		f.Add(append([]byte{0, 0}, b...), uint8(2), uint8(4))
	}
	f.Fuzz(func(t *testing.T, b []byte, at, version uint8) {
		if int(at) > len(b) {
			return
		}
		h, fault := ReadIP(b, int(at), version)
		require.GreaterOrEqual(t, h.End, int(at))
		if fault != FaultNone {
			return
		}
		require.LessOrEqual(t, h.End, h.Limit)
		require.LessOrEqual(t, h.End, len(b))
		again, fault := ReadIP(append(b[:len(b):len(b)], 0xFF, 0xFF), int(at), version)
		require.Equal(t, FaultNone, fault)
		require.Equal(t, h, again)
	})
}

func octets(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	require.NoError(t, err)
	return b
}

// Hop-by-Hop, a Routing header of 24 octets, Destination Options, UDP: the lengths are 8 and 8 for each unit.
const chain = "2b00 010400000000" +
	"3c02 0401 00000000 20010db8000000000000000000000009" +
	"1100 010400000000"

func TestSkipExtensions(t *testing.T) {
	b := octets(t, chain+"c001")
	next, end, _, whole := SkipExtensions(b, 0, ProtoHopByHop)
	require.Equal(t, []any{uint8(17), 40, true}, []any{next, end, whole})
	for n := range 40 {
		next, end, _, whole := SkipExtensions(b[:n:n], 0, ProtoHopByHop)
		require.False(t, whole, n)
		switch { // by the incomplete header
		case n < 8:
			require.Equal(t, []any{uint8(ProtoHopByHop), 0}, []any{next, end}, n)
		case n < 32:
			require.Equal(t, []any{uint8(ProtoRouting), 8}, []any{next, end}, n)
		default:
			require.Equal(t, []any{uint8(ProtoDestinationOptions), 32}, []any{next, end}, n)
		}
	}
	for _, other := range []uint8{17, 6, ProtoFragment, 50, 51, 59, 135} {
		next, end, _, whole := SkipExtensions(b, 3, other)
		require.Equal(t, []any{other, 3, true}, []any{next, end, whole})
	}
}

func TestExtensions(t *testing.T) {
	b := octets(t, chain)
	var types, lengths []int
	for next, header := range Extensions(ProtoHopByHop, b) {
		types, lengths = append(types, int(next)), append(lengths, len(header))
		require.Equal(t, len(header), cap(header))
	}
	require.Equal(t, []int{ProtoHopByHop, ProtoRouting, ProtoDestinationOptions}, types)
	require.Equal(t, []int{8, 24, 8}, lengths)
	n := 0
	for range Extensions(ProtoHopByHop, b[:39]) {
		n++
	}
	require.Equal(t, 2, n)
}

func TestFinalSegment(t *testing.T) {
	b := octets(t, chain)
	final, short := FinalSegment(ProtoHopByHop, b)
	require.Equal(t, octets(t, "20010db8000000000000000000000009"), final)
	require.False(t, short)
	for _, c := range []struct {
		name  string
		at    int
		value byte
	}{
		{"no Segments Left", 8 + 3, 0},
		{"another Routing Type", 8 + 2, 0},
		{"another header", 0, ProtoDestinationOptions},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := octets(t, chain)
			b[c.at] = c.value
			final, short := FinalSegment(ProtoHopByHop, b)
			require.Nil(t, final)
			require.False(t, short)
		})
	}
	final, short = FinalSegment(ProtoRouting, octets(t, "1100 0401 00000000"))
	require.Nil(t, final)
	require.True(t, short)
	require.Zero(t, testing.AllocsPerRun(10, func() { FinalSegment(ProtoHopByHop, b) }))
}

func TestRouted(t *testing.T) {
	routed := func(next uint8, b []byte) bool {
		_, _, routed, _ := SkipExtensions(b, 0, next)
		return routed
	}
	b := octets(t, chain)
	require.True(t, routed(ProtoHopByHop, b))
	require.False(t, routed(ProtoHopByHop, b[:8]), "in front of it")
	require.False(t, routed(ProtoHopByHop, b[:31]), "not all there")
	require.False(t, routed(ProtoDestinationOptions, b[32:]), "after it")
	b[8+3] = 0
	require.True(t, routed(ProtoHopByHop, b), "without Segments Left")
	b[8+2] = 0
	require.False(t, routed(ProtoHopByHop, b), "another Routing Type")
	require.False(t, routed(ProtoRouting, nil))
	require.True(t, routed(ProtoRouting, octets(t, "2b000400 00000000 11000000 00000000")),
		"another Routing Type after it")
	limit := octets(t, "1100 040104 010100") // option 4: Tunnel Encapsulation Limit (RFC 2473)
	require.False(t, routed(ProtoDestinationOptions, limit))
	require.False(t, routed(ProtoHopByHop, limit))
}

// TestBTH has the octets of IBTA section 9.2 with ones on both sides of each field, and zeros.
func TestBTH(t *testing.T) {
	b := []byte{
		0x04,       // opcode: RC SEND Only
		0x6F,       // S 0, M 1, Pad 2, TVer 15
		0x80, 0x01, // PKey
		0xFF, 0x12, 0x34, 0x56, // F, B and Resv6, DestQP
		0x7F, 0xAB, 0xCD, 0xEF, // A 0, Resv7, PSN
	}
	require.Equal(t, uint8(2), PadCount(b))
	require.Equal(t, uint16(0x8001), PKey(b))
	require.Equal(t, uint32(0x123456), DestQP(b))
	require.False(t, AckReq(b))
	require.Equal(t, uint32(0xABCDEF), PSN(b))
	b[8] = 0x80
	require.True(t, AckReq(b))
	require.Equal(t, uint32(0xABCDEF), PSN(b))
}
