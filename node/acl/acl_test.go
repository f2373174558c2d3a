package acl

import (
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/stretchr/testify/require"
)

func prefixes(s ...string) (p []netip.Prefix) {
	for _, s := range s {
		p = append(p, netip.MustParsePrefix(s))
	}
	return p
}

func TestList(t *testing.T) {
	l := New(prefixes("2001:db8:1::/48", "2001:db8:1:2::/64", "fd00::1/128", "10.1.0.0/16", "192.0.2.77/32",
		"::ffff:198.51.100.0/120")...)
	for _, c := range []struct {
		name string
		in   bool
	}{
		{"2001:db8:1::", true},
		{"2001:db8:1:ffff:ffff:ffff:ffff:ffff", true},
		{"2001:db8:1:2::5", true},
		{"2001:db8:1:3::5", true},
		{"2001:db8:0:ffff:ffff:ffff:ffff:ffff", false},
		{"2001:db8:2::", false},
		{"fd00::", false},
		{"fd00::1", true},
		{"fd00::1%eth0", true},
		{"fd00::2", false},
		{"10.1.0.0", true},
		{"10.1.255.255", true},
		{"10.0.255.255", false},
		{"10.2.0.0", false},
		{"192.0.2.77", true},
		{"192.0.2.76", false},
		{"192.0.2.78", false},
		{"::ffff:10.1.0.1", false}, // IPv6
		{"::10.1.0.1", false},
		{"::ffff:198.51.100.7", true},
		{"198.51.100.7", false},
		{"::", false},
		{"0.0.0.0", false},
		{"255.255.255.255", false},
		{"ffff:ffff:ffff:ffff:ffff:ffff:ffff::", false},
	} {
		t.Run(c.name, func(t *testing.T) { require.Equal(t, c.in, l.Contains(netip.MustParseAddr(c.name))) })
	}
	require.False(t, l.Contains(netip.Addr{}))
}

func TestListsWithoutPrefixes(t *testing.T) {
	var none *List
	for _, l := range []*List{none, New(), {}, New(netip.Prefix{})} {
		for _, a := range []netip.Addr{{}, netip.IPv6Unspecified(), netip.IPv4Unspecified(),
			netip.IPv6LinkLocalAllNodes()} {
			require.False(t, l.Contains(a))
		}
	}
}

func TestEverything(t *testing.T) {
	six, four := New(prefixes("::/0")...), New(prefixes("0.0.0.0/0")...)
	for _, a := range []string{"::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "::ffff:1.2.3.4"} {
		require.True(t, six.Contains(netip.MustParseAddr(a)))
		require.False(t, four.Contains(netip.MustParseAddr(a)))
	}
	for _, a := range []string{"0.0.0.0", "255.255.255.255"} {
		require.True(t, four.Contains(netip.MustParseAddr(a)))
		require.False(t, six.Contains(netip.MustParseAddr(a)))
	}
}

func TestLongestPrefix(t *testing.T) {
	m := NewMap(
		Entry[string]{netip.MustParsePrefix("2001:db8:1:2::/64"), "leaf"},
		Entry[string]{netip.MustParsePrefix("2001:db8::/32"), "site"},
		Entry[string]{netip.MustParsePrefix("2001:db8:1::/48"), "pod"},
		Entry[string]{netip.MustParsePrefix("2001:db8:1::7/48"), "pod again"},
		Entry[string]{netip.MustParsePrefix("2001:db8:1:2::1/128"), "host"},
		Entry[string]{netip.MustParsePrefix("10.0.0.0/8"), "four"},
		Entry[string]{netip.MustParsePrefix("0.0.0.0/0"), "other"},
	)
	for _, c := range []struct{ name, want string }{
		{"2001:db8::1", "site"},
		{"2001:db8:1::1", "pod"}, // of equal ones the first
		{"2001:db8:1:2::", "leaf"},
		{"2001:db8:1:2::1", "host"},
		{"2001:db8:1:2::2", "leaf"},
		{"2001:db8:1:3::", "pod"},
		{"2001:db8:2::", "site"},
		{"2001:db9::", ""},
		{"10.255.255.255", "four"},
		{"11.0.0.0", "other"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, ok := m.Lookup(netip.MustParseAddr(c.name))
			require.Equal(t, c.want, got)
			require.Equal(t, c.want != "", ok)
		})
	}
	var none *Map[string]
	_, ok := none.Lookup(netip.MustParseAddr("10.0.0.1"))
	require.False(t, ok)
}

// List.Contains agrees with netip about random prefixes, tested one by one.
func TestAgainstNetip(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	for range 300 {
		var entries []Entry[int]
		address := func() netip.Addr { // few different ones, so that prefixes nest and touch
			var b [16]byte
			for i := range b {
				b[i] = []byte{0, 0x80, 0xFF}[random.IntN(3)]
			}
			if random.IntN(2) == 0 {
				return netip.AddrFrom4([4]byte(b[:4]))
			}
			return netip.AddrFrom16(b)
		}
		for i := range random.IntN(40) {
			a := address()
			entries = append(entries, Entry[int]{netip.PrefixFrom(a, random.IntN(a.BitLen()+1)), i})
		}
		m := NewMap(entries...)
		for range 200 {
			a := address()
			want, bits := 0, -1
			for _, e := range entries {
				if e.Prefix.Contains(a) && e.Prefix.Bits() > bits {
					want, bits = e.Value, e.Prefix.Bits()
				}
			}
			got, ok := m.Lookup(a)
			require.Equal(t, bits >= 0, ok, "%v in %v", a, entries)
			require.Equal(t, want, got, "%v in %v", a, entries)
		}
	}
}

func TestNoAllocations(t *testing.T) {
	l := New(prefixes("2001:db8::/32", "10.0.0.0/8")...)
	in, out := netip.MustParseAddr("10.1.2.3"), netip.MustParseAddr("fe80::1%eth0")
	wiretest.NoAllocs(t, "Contains", func() { _ = l.Contains(in) || l.Contains(out) })
}
