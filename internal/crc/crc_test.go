package crc

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/internal/wire"
)

// register computes the register bit by bit, with the fields masked that the annex lists.
func register(ip []byte, udp int) uint32 {
	masked := map[int]byte{udp + 6: 0xFF, udp + 7: 0xFF, udp + 12: 0xFF}
	if ip[0]>>4 == 6 {
		masked[0], masked[1], masked[2], masked[3], masked[7] = 0x0F, 0xFF, 0xFF, 0xFF, 0xFF
	} else {
		masked[1], masked[8], masked[10], masked[11] = 0xFF, 0xFF, 0xFF, 0xFF
	}
	r := ^uint32(0)
	add := func(v byte) {
		r ^= uint32(v)
		for range 8 {
			r = r>>1 ^ 0xEDB88320&-(r&1)
		}
	}
	for range 8 {
		add(0xFF)
	}
	for i, v := range ip {
		add(v | masked[i])
	}
	return r
}

// TestWrite tests all lengths of headers and data with every implementation of this CPU. An IPv4 header with options
// may be as long as an IPv6 header.
func TestWrite(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 0))
	best := Use
	defer func() { Use = best }()
	check := func(version byte, udp, data int) {
		ip := make([]byte, udp+fixedLen+data+wire.ICRCSize)
		for i := range ip {
			ip[i] = byte(random.Uint32())
		}
		ip[0] = version<<4 | ip[0]&0x0F
		end := len(ip) - wire.ICRCSize
		want := ^register(ip[:end], udp)
		for Use = tablesOnly; Use <= best; Use++ {
			Write(ip, udp)
			require.Equal(t, want, le.Uint32(ip[end:]), "IPv%d, UDP at %d of %d, %d", version, udp, len(ip), Use)
		}
	}
	for data := range 300 {
		for udp := wire.IPv4Size; udp <= 60; udp += 4 {
			check(4, udp, data)
		}
		for udp := wire.IPv6Size; udp <= 40+264; udp += 8 {
			check(6, udp, data)
		}
	}
	for _, data := range []int{1024, 4096, 9000, 65000} {
		check(4, wire.IPv4Size, data)
		check(6, wire.IPv6Size, data)
		check(6, wire.IPv6Size+24, data+1)
	}
}

// FuzzUpdate compares every implementation of this CPU with the tables, from any register on and with the mask of an
// IPv6, an IPv4 or a UDP header or none. There are at least 20 octets, as between the parts of a packet.
func FuzzUpdate(f *testing.F) {
	octets := make([]byte, 2000)
	for i := range octets {
		octets[i] = byte(i * 7)
	}
	for i, n := range []int{20, 40, 56, 60, 76, 100, 256, 260, 1024, 1999} {
		f.Add(uint32(i)*0x9E3779B9, octets[:n], uint8(i))
	}
	best := Use
	f.Fuzz(func(t *testing.T, r uint32, b []byte, header uint8) {
		if len(b) < 20 {
			return
		}
		m := []*mask{&maskIPv6, &maskIPv4, &maskUDP, &maskNothing}[header%4]
		want := updateTables(r, b, m)
		defer func() { Use = best }()
		for Use = tablesOnly; Use <= best; Use++ {
			require.Equal(t, want, update(r, b, m))
		}
	})
}
