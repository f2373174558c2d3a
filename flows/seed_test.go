package flows

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/internal/hash"
	"github.com/rocecn/rocecn/internal/traffic"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/qpmap"
)

var le = binary.LittleEndian

// longestProbe returns the largest number of keys that share the lower bits of their hash.
func (t *Table) longestProbe() (most int) {
	same := map[uint64]int{}
	for id := range t.streams.All() {
		h := t.streams.Key(id).Hash(t.streams.Seed) & 0xFFF
		same[h]++
		most = max(most, same[h])
	}
	return most
}

// Keys that collide in one table do not collide in another: they cannot be chosen without its seed.
func TestCollidingKeys(t *testing.T) {
	n := wiretest.Rounds(1000)
	pair := key{Src: netip.MustParseAddr("2001:db8::1").As16(), Dst: netip.MustParseAddr("2001:db8::2").As16()}
	queuePair := func(i uint64) key { k := pair; k.QP = uint32(i); return k }
	road := key{QP: 17} // the hash of its addresses is 0 for any prefix
	le.PutUint64(road.Src[8:], 0x78BD642FA0761D64)
	le.PutUint64(road.Dst[8:], 0x78BD642FA0761D64)
	prefixes := func(i uint64) key { k := road; le.PutUint64(k.Src[:], i); le.PutUint64(k.Dst[:], ^i); return k }
	for _, c := range []struct {
		name   string
		key    func(i uint64) key
		chosen func(k *key, seed uint64) bool // seed is that of one of the tables
		slow   bool                           // in that table
	}{
		{"by the seed", queuePair, func(k *key, seed uint64) bool { return k.Hash(seed)&0xFFF == 7 }, true},
		{"without a seed", queuePair,
			func(k *key, _ uint64) bool {
				return hash.Mix(hashOf(k)^uint64(k.QP), 0xE7037ED1A0B428DB)&0xFFF == 7
			}, false},
		{"road 0", prefixes, func(k *key, _ uint64) bool { return hashOf(k) == 0 }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			known, table := New(Config{}), New(Config{})
			require.NotEqual(t, known.streams.Seed, table.streams.Seed)
			for i := uint64(2); table.streams.Len() < n; i++ {
				if k := c.key(i); c.chosen(&k, known.streams.Seed) {
					known.streamOf(&k)
					require.Same(t, table.streamOf(&k), table.streamOf(&k))
				}
			}
			require.Less(t, table.longestProbe(), 12)
			require.Equal(t, c.slow, known.longestProbe() == n)
		})
	}
}

// Votes belong to the addresses of a response, even if other addresses have the same hash.
func TestVotesWithCollidingAddresses(t *testing.T) {
	s := newScript(t)
	here := netip.MustParseAddr("2001:db8:1::641d:76a0:2f64:bd78") // road 0 leads there from anywhere
	there := netip.MustParseAddr("2001:db8:2:0:641d:76a0:2f64:bd78")
	s.a, s.b = netip.MustParseAddr("2001:db8::a"), here
	forth := s.keyAB()
	require.Zero(t, hashOf(&forth))
	s.sendOnly(1, 2, 3, 4, 5)
	s.b = there
	s.answerACK(1, 2, 3, 4, 5)
	s.b = here
	require.Zero(t, s.onlyFlow().SrcQPFrom)
	require.Zero(t, s.onlyFlow().ACKs)
	s.sendOnly(6, 7, 8, 9).answerACK(6, 7, 8, 9)
	require.Equal(t, qpmap.BasisVotes, s.onlyFlow().SrcQPFrom)
	require.EqualValues(t, 4, s.onlyFlow().ACKs)
}

// The output of a table does not depend on its seed, neither in its order nor when it is full.
func TestSeedsAgree(t *testing.T) {
	made := traffic.Generate(5, traffic.Options{Connections: 40})
	for _, config := range []Config{{}, {MaxFlows: 16}, {Shards: 3, Shard: 1}} {
		one := tableOf(made, config)
		for range 4 {
			other := tableOf(made, config)
			require.NotEqual(t, one.streams.Seed, other.streams.Seed)
			require.Equal(t, keyOrder(one), keyOrder(other))
			require.Equal(t, one.Snapshot(), other.Snapshot())
		}
		require.Equal(t, config.MaxFlows > 0, one.Evicted().Flows > 0)
	}
}

func keyOrder(t *Table) (keys []string) {
	for _, f := range t.Snapshot().Flows {
		keys = append(keys, f.FlowKey.String())
	}
	for _, u := range t.Snapshot().Unpaired {
		keys = append(keys, u.FlowKey.String())
	}
	return keys
}
