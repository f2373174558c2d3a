package qpmap

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/internal/qplearn"
	"github.com/rocecn/rocecn/rocev2"
)

// Every key comes back as it was given: an IPv4-mapped IPv6 address is no IPv4 address, on neither side.
func TestPublicKey(t *testing.T) {
	addrs := []netip.Addr{
		netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("::ffff:192.0.2.1"), netip.MustParseAddr("2001:db8::1"),
	}
	m := New(Config{})
	want := map[Key]bool{}
	for _, src := range addrs {
		for _, dst := range addrs {
			for _, domain := range []uint32{0, 7} {
				k := Key{rocev2.FlowKey{Src: src, Dst: dst, DestQP: 17}, domain}
				require.NoError(t, m.Add(k, Pair{SrcQP: 18}))
				want[k] = true
				back := keyOf(&k)
				back = back.Reversed(99)
				require.Equal(t, Key{rocev2.FlowKey{Src: dst, Dst: src, DestQP: 99}, domain}, public(&back))
			}
		}
	}
	for k := range m.All() {
		require.True(t, want[k], k)
		delete(want, k)
	}
	require.Empty(t, want)
	_, err := m.SourceQP(Key{rocev2.FlowKey{Src: addrs[0], Dst: addrs[0], DestQP: 17 | 1<<24}, 0}, time.Time{})
	require.ErrorIs(t, err, ErrUnknown, "a queue pair has 24 bits")
}

// QPs returns the map of queue pairs in m.
func (m *Map) QPs() *qplearn.Map { return m.qps }
