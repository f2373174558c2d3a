package role_test

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/node/internal/role"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

func TestHash(t *testing.T) {
	addr := netip.MustParseAddr
	key := func(src, dst string, qp, domain uint32) qpmap.Key {
		return qpmap.Key{FlowKey: rocev2.FlowKey{Src: addr(src), Dst: addr(dst), DestQP: qp}, Domain: domain}
	}
	a := key("192.0.2.1", "192.0.2.2", 1, 0)
	seen := map[uint64]qpmap.Key{}
	keys := []qpmap.Key{a, key("192.0.2.2", "192.0.2.1", 1, 0), key("192.0.2.1", "192.0.2.2", 2, 0),
		key("192.0.2.1", "192.0.2.2", 1<<24+1, 0), key("192.0.2.1", "192.0.2.1", 1, 0),
		key("2001:db8::1", "2001:db8::2", 1, 0), {}}
	for domain := range uint32(99) {
		keys = append(keys, key("192.0.2.1", "192.0.2.2", 1, 1+domain))
	}
	for _, k := range keys {
		for _, seed := range []uint64{0, 1, 1 << 63} {
			h := role.Hash(&k, seed)
			require.Equal(t, h, role.Hash(&k, seed))
			require.NotContains(t, seen, h)
			seen[h] = k
		}
	}
	// No half of an address hides the others under every seed.
	for _, half := range []string{"e703:7ed1:a0b4:28db", "5899:65cc:7537:4cc3", "9e37:79b9:7f4a:7c15"} {
		for i := range 1000 {
			this, other := fmt.Sprintf("2001:db8:%x::1", i), fmt.Sprintf("2001:db8:0:%x:%s", i, half)
			for _, k := range []qpmap.Key{key(this, other, 1, 0), key(other, this, 1, 0)} {
				h := role.Hash(&k, 7)
				require.Zero(t, seen[h], k)
				seen[h] = k
			}
		}
	}
	wiretest.NoAllocs(t, "Hash", func() { role.Hash(&a, 7) })
}
