package crc

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Every way of this CPU agrees with the tables from any register on, under the mask of the header of an IPv6 packet, of
// an IPv4 packet, of UDP or of nothing. There are 20 octets at least, as between the parts of a packet.
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
