package icrc_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/internal/wiretest"
)

// plain returns an IPv4 or IPv6 packet without options and extension headers, with n random octets before the ICRC. If
// the packet is as long as a CNP, the octets after the BTH are zeros. Its ICRC is wrong.
func plain(version, n int) []byte {
	random := rand.New(rand.NewPCG(uint64(version), uint64(n)))
	ip := make([]byte, n+4)
	for i := range ip {
		ip[i] = byte(random.Uint32())
	}
	udp := 20
	if version == 4 {
		ip[0], ip[9] = 0x45, 17
		be.PutUint16(ip[2:], uint16(n+4))
		be.PutUint16(ip[6:], 0x4000)
	} else {
		udp = 40
		ip[0], ip[6] = 0x60, 17
		be.PutUint16(ip[4:], uint16(n+4-udp))
	}
	be.PutUint16(ip[udp+4:], uint16(n+4-udp))
	if n == udp+20+16 {
		clear(ip[udp+20 : n])
	}
	return ip
}

type packet struct {
	name string
	udp  int // offset of the UDP header
	ip   []byte
}

// packets returns one packet of each kind.
func packets(t testing.TB) []packet {
	all := []packet{
		{"IPv4 CNP", 20, plain(4, 56)},
		{"IPv4 without payload", 20, plain(4, 40)},
		{"IPv6 CNP", 40, plain(6, 76)},
		{"IPv6 without payload", 40, plain(6, 60)},
		{"IPv6 payload", 40, plain(6, 333)},
		{"IPv4, its header as long as that of IPv6", 40, slices.Concat(plain(4, 56)[:20], plain(4, 76)[20:])},
	}
	long := all[len(all)-1].ip
	long[0] = 0x4A
	be.PutUint16(long[2:], uint16(len(long)))
	copy(long[40:], plain(4, 56)[20:])
	for _, v := range coverages(t) {
		header, ext := wiretest.Hex(t, v.header), wiretest.Hex(t, v.ext)
		ip := bytes.Join([][]byte{header, ext, wiretest.Hex(t, cnp), {1, 2, 3, 4}}, nil)
		all = append(all, packet{v.name, len(header) + len(ext), ip})
	}
	return all
}

// Packets of every length at three alignments, to cover all branches of the tables and the assembly.
func TestEveryLength(t *testing.T) {
	eachImplementation(t, func() {
		for _, c := range []struct{ version, shortest int }{{4, 40}, {6, 60}} {
			for n := c.shortest; n < 4300; n++ {
				if n == 800 {
					n = 4080
				}
				ip := plain(c.version, n)
				want := referenceSums(ip)[icrc.AsSent]
				buf := make([]byte, 64+len(ip))
				for _, at := range []int{0, 1, n % 64} {
					copy(buf[at:], ip)
					got := wiretest.Must(icrc.Sum(buf[at:at+len(ip)], icrc.AsSent))(t)
					require.Equal(t, want, got, "IPv%d, %d octets", c.version, n)
				}
			}
		}
	})
}

// Flipping a masked bit, a bit of the ICRC or a bit after it does not change the sum. Flipping any other bit changes
// the sum or is an error.
func TestEveryBit(t *testing.T) {
	eachImplementation(t, func() {
		for _, p := range packets(t) {
			ip := append(bytes.Clone(p.ip), 0, 0, 0) // Ethernet padding
			mask := make([]byte, len(ip))
			if ip[0]>>4 == 4 {
				mask[1], mask[8], mask[10], mask[11] = 0xFF, 0xFF, 0xFF, 0xFF // TOS, TTL, checksum
			} else {
				mask[0], mask[1], mask[2], mask[3] = 0x0F, 0xFF, 0xFF, 0xFF // traffic class, flow label
				mask[7] = 0xFF                                              // hop limit
			}
			mask[p.udp+6], mask[p.udp+7] = 0xFF, 0xFF // checksum
			mask[p.udp+8+4] = 0xFF                    // FECN, BECN, reserved
			for i := len(p.ip) - 4; i < len(ip); i++ {
				mask[i] = 0xFF
			}
			want := wiretest.Must(icrc.Sum(ip, icrc.AsSent))(t)
			for i := range ip {
				for bit := byte(1); bit != 0; bit <<= 1 {
					ip[i] ^= bit
					got, err := icrc.Sum(ip, icrc.AsSent)
					ip[i] ^= bit
					if mask[i]&bit != 0 {
						require.NoError(t, err, "%s: octet %d, bit %#02x", p.name, i, bit)
						require.Equal(t, want, got, "%s: octet %d, bit %#02x", p.name, i, bit)
					} else if err == nil {
						require.NotEqual(t, want, got, "%s: octet %d, bit %#02x", p.name, i, bit)
					}
				}
			}
		}
	})
}

// The ICRC is at the end that the UDP length gives, not at the end of the IP packet.
func TestEndByUDPLength(t *testing.T) {
	ip := plain(6, 200)
	be.PutUint16(ip[44:], 8+12+32+4)
	require.NoError(t, icrc.Write(ip, icrc.AsSent))
	_, err := icrc.Verify(ip)
	require.NoError(t, err)
	require.Equal(t, reference(masked(ip[:40], nil, ip[40:40+8+12+32])), leUint32(ip[92:]))
	require.Equal(t, plain(6, 200)[96:], ip[96:])
}

func leUint32(b []byte) uint32 {
	return uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24
}

func TestErrors(t *testing.T) {
	ext := func(hex string) []byte {
		b := wiretest.Hex(t, `60000000 0030 00 40`+src6+dst6+hex+cnp+`00000000`)
		be.PutUint16(b[4:], uint16(len(b)-40))
		return b
	}
	with := func(ip []byte, at int, octets ...byte) []byte {
		copy(ip[at:], octets)
		return ip
	}
	for _, v := range []struct {
		ip   []byte
		err  error
		root error
	}{
		{nil, icrc.ErrHeader, wireerr.Truncated},
		{plain(4, 56)[:19], icrc.ErrHeader, wireerr.Truncated},
		{plain(6, 76)[:39], icrc.ErrHeader, wireerr.Truncated},
		{with(plain(4, 56), 0, 0x4F)[:59], icrc.ErrHeader, wireerr.Truncated},
		{with(plain(4, 56), 0, 0x55), icrc.ErrVersion, wireerr.Other},
		{with(plain(4, 56), 0, 0x44), icrc.ErrIHL, wireerr.Malformed},
		{with(plain(4, 56), 6, 0x20, 0), icrc.ErrFragment, wireerr.Other}, // More Fragments
		{with(plain(4, 56), 6, 0, 1), icrc.ErrFragment, wireerr.Other},    // an offset
		{with(plain(4, 56), 9, 6), icrc.ErrNotUDP, wireerr.Other},         // TCP
		{with(plain(4, 56), 9, 4), icrc.ErrNotUDP, wireerr.Other},         // IP in IP
		{with(plain(4, 56), 2, 0, 19), icrc.ErrUDPHeader, wireerr.Truncated},
		{plain(4, 56)[:20], icrc.ErrUDPHeader, wireerr.Truncated}, // the IP header is whole
		{plain(6, 76)[:40], icrc.ErrUDPHeader, wireerr.Truncated},
		{plain(4, 56)[:28], icrc.ErrIPLength, wireerr.Truncated}, // the UDP header is whole, too
		{plain(6, 76)[:48], icrc.ErrIPLength, wireerr.Truncated},
		{plain(6, 76)[:75], icrc.ErrIPLength, wireerr.Truncated},
		{ext(`11 00 010400000000`)[:48], icrc.ErrUDPHeader, wireerr.Truncated}, // the extension header is whole
		{with(plain(4, 56), 2, 0, 59), icrc.ErrUDPBeyondIP, wireerr.Malformed},
		{with(plain(4, 56), 24, 0, 23), icrc.ErrRoom, wireerr.Truncated},
		{with(plain(4, 56), 24, 0, 0), icrc.ErrRoom, wireerr.Truncated},
		{with(plain(4, 56), 24, 0xFF, 0xFF), icrc.ErrUDPTruncated, wireerr.Truncated},
		{with(plain(6, 76), 6, 44), icrc.ErrFragment, wireerr.Other},
		{with(plain(6, 76), 6, 41), icrc.ErrNotUDP, wireerr.Other}, // IP in IP
		{with(plain(6, 76), 6, 51), icrc.ErrNotUDP, wireerr.Other}, // AH
		{with(plain(6, 76), 4, 0, 7), icrc.ErrUDPHeader, wireerr.Truncated},
		{with(plain(6, 76), 4, 0, 39), icrc.ErrUDPBeyondIP, wireerr.Malformed},
		{with(plain(6, 76), 44, 0, 23), icrc.ErrRoom, wireerr.Truncated},
		{with(plain(6, 76), 44, 0, 41), icrc.ErrUDPTruncated, wireerr.Truncated},
		{ext(`11 00 010400000000`)[:47], icrc.ErrExtension, wireerr.Truncated},
		{ext(`11 06 010400000000`), icrc.ErrExtension, wireerr.Truncated},
		{ext(`3c 00 010400000000 11 FF 010400000000`), icrc.ErrExtension, wireerr.Truncated},
		{with(ext(`11 00 010400000000`), 4, 0, 7), icrc.ErrExtension, wireerr.Truncated},
		{ext(`2c 00 010400000000`), icrc.ErrFragment, wireerr.Other},
		{ext(`3b 00 010400000000`), icrc.ErrNotUDP, wireerr.Other}, // No Next Header
		{ext(`11 05 010400000000`), icrc.ErrUDPHeader, wireerr.Truncated},
		{with(plain(4, 56), 60), icrc.ErrMismatch, wireerr.ICRC},
		{with(plain(6, 76), 60), icrc.ErrMismatch, wireerr.ICRC},
	} {
		t.Run(fmt.Sprintf("%v/%x", v.err, v.ip), func(t *testing.T) {
			before := bytes.Clone(v.ip)
			_, err := icrc.Verify(v.ip)
			require.ErrorIs(t, err, v.err)
			require.ErrorIs(t, err, v.root)
			wiretest.NoAllocs(t, "Verify", func() { icrc.Verify(v.ip) })
			if v.err != icrc.ErrMismatch {
				_, err = icrc.Sum(v.ip, icrc.AsSent)
				require.Equal(t, v.err, err)
				require.Equal(t, v.err, icrc.Write(v.ip, icrc.AsSent))
			}
			require.Equal(t, before, v.ip)
		})
	}
	_, err := icrc.Sum(plain(6, 76), 3)
	require.ErrorIs(t, err, icrc.ErrCoverage)
	require.ErrorIs(t, err, wireerr.Range)
	require.ErrorIs(t, icrc.Write(plain(4, 56), 3), icrc.ErrCoverage)
}

func TestEveryPrefix(t *testing.T) {
	for _, p := range packets(t) {
		wiretest.Prefixes(t, p.ip, func(b []byte) error {
			_, err := icrc.Sum(b, icrc.AsSent)
			require.Equal(t, err, icrc.Write(b, icrc.Skipped))
			_, verify := icrc.Verify(b)
			require.Equal(t, err, verify)
			return err
		})
	}
}

func TestNoAllocations(t *testing.T) {
	eachImplementation(t, func() {
		for _, p := range append(packets(t), packet{ip: plain(6, 4096)}) {
			for c := icrc.AsSent; c <= icrc.Skipped; c++ {
				wiretest.NoAllocs(t, p.name+" Sum", func() { icrc.Sum(p.ip, c) })
				wiretest.NoAllocs(t, p.name+" Write", func() { icrc.Write(p.ip, c) })
				wiretest.NoAllocs(t, p.name+" Verify", func() { icrc.Verify(p.ip) })
			}
		}
	})
}

// A packet with 2,000 extension headers.
func TestManyExtensionHeaders(t *testing.T) {
	ip := wiretest.Hex(t, `60000000 0000 3c 40`+src6+dst6)
	for range 1999 {
		ip = append(ip, 60, 0, 1, 4, 0, 0, 0, 0)
	}
	ip = append(ip, 17, 0, 1, 4, 0, 0, 0, 0)
	ip = append(ip, wiretest.Hex(t, cnp+`00000000`)...)
	be.PutUint16(ip[4:], uint16(len(ip)-40))
	for c, want := range referenceSums(ip) {
		got := wiretest.Must(icrc.Sum(ip, c))(t)
		require.Equal(t, want, got)
	}
}
