package icrc_test

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/internal/wiretest"
)

// The package reads no octet before or after the packet: the packet is at the beginning or the end of a page between
// two pages that cannot be read. The packets include every length from the shortest one to 2,100 octets.
func TestReadsNothingElse(t *testing.T) {
	page := syscall.Getpagesize()
	b, err := syscall.Mmap(-1, 0, 3*page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	require.NoError(t, err)
	defer syscall.Munmap(b)
	require.NoError(t, syscall.Mprotect(b[:page], syscall.PROT_NONE))
	require.NoError(t, syscall.Mprotect(b[2*page:], syscall.PROT_NONE))
	b = b[page : 2*page : 2*page]
	all := packets(t)
	for n := 40; n <= 2100; n++ {
		all = append(all, packet{ip: plain(4, n)})
		if n >= 60 {
			all = append(all, packet{ip: plain(6, n)})
		}
	}
	for _, p := range all {
		sums := referenceSums(p.ip)
		eachImplementation(t, func() {
			front, back := b[:len(p.ip)], b[page-len(p.ip):]
			for _, ip := range [][]byte{front, back} {
				copy(ip, p.ip)
				for c, want := range sums {
					got := wiretest.Must(icrc.Sum(ip, c))(t)
					require.Equal(t, want, got)
				}
				require.NoError(t, icrc.Write(ip, icrc.AsSent))
				require.Equal(t, sums[icrc.AsSent], le.Uint32(ip[len(p.ip)-4:]))
			}
		})
	}
}
