package icrc_test

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"testing"

	"github.com/rocecn/rocecn/icrc"
)

// plain returns an IPv4 or IPv6 packet without options and extension headers
// whose ICRC covers n octets. Behind the BTH it is all zero for a CNP.
func plain(version, n int) []byte {
	ip := make([]byte, n+4)
	udp := 20
	for i := range ip {
		ip[i] = byte(i * i >> 3)
	}
	if version == 6 {
		udp = 40
		ip[0], ip[6] = 0x60, 17
		binary.BigEndian.PutUint16(ip[4:], uint16(n+4-40))
	} else {
		ip[0], ip[9] = 0x45, 17
		ip[6], ip[7] = 0x40, 0
		binary.BigEndian.PutUint16(ip[2:], uint16(n+4))
	}
	binary.BigEndian.PutUint16(ip[udp+4:], uint16(n+4-udp))
	if n == udp+8+12+16 {
		clear(ip[udp+20:])
	}
	return ip
}

// Side by side: this package and hash/crc32 over the octets that the ICRC
// covers. A CNP has 56 in IPv4 (60 with its ICRC), 76 in IPv6.
func BenchmarkSum(b *testing.B) {
	for _, p := range []struct{ version, n int }{
		{4, 56}, {4, 256}, {4, 1024}, {4, 4096}, {6, 76}, {6, 256}, {6, 1024}, {6, 4096},
	} {
		ip := plain(p.version, p.n)
		covered := ip[:p.n]
		name := fmt.Sprintf("ip=%d/octets=%d/by=", p.version, p.n)
		b.Run(name+"icrc", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				icrc.Sum(ip, icrc.AsSent)
			}
		})
		b.Run(name+"crc32", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				crc32.ChecksumIEEE(covered)
			}
		})
	}
}
