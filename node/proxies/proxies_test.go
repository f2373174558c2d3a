package proxies

import (
	"cmp"
	"encoding/hex"
	"iter"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/pnc"
	"github.com/stretchr/testify/require"
)

func origin(n uint8) pnc.Originator {
	return pnc.Originator{Protocol: pnc.ProtocolISIS, ID: [8]byte{0, 0, 0, 0, 0, n, 0, 2}}
}

func announceProxy(n uint8, prefix, proxy string, metric uint32) pnc.Advertisement {
	return pnc.Advertisement{Prefix: netip.MustParsePrefix(prefix), Proxy: netip.MustParseAddr(proxy), Metric: metric,
		Originator: origin(n)}
}

func requireProxy(t *testing.T, table *Table, sender, want string) {
	t.Helper()
	got, ok := table.Lookup(netip.MustParseAddr(sender))
	if want == "" {
		require.False(t, ok, "%s: %v", sender, got)
		require.Equal(t, netip.Addr{}, got)
		return
	}
	require.True(t, ok, sender)
	require.Equal(t, netip.MustParseAddr(want), got, sender)
}

func TestLongestPrefix(t *testing.T) {
	table := New(Config{})
	for _, a := range []pnc.Advertisement{
		announceProxy(1, "0.0.0.0/0", "198.51.100.1", 1),
		announceProxy(1, "192.0.2.0/24", "198.51.100.2", 9),
		announceProxy(1, "192.0.2.128/25", "198.51.100.3", 9),
		announceProxy(1, "192.0.2.129/32", "198.51.100.4", 9),
		announceProxy(1, "::/0", "2001:db8::1", 1),
		announceProxy(1, "2001:db8:1::/48", "2001:db8::2", 9),
		announceProxy(1, "2001:db8:1:8000::/49", "198.51.100.5", 9),
		announceProxy(1, "2001:db8:1:8000::7/128", "2001:db8::3", 9),
		announceProxy(1, "2001:db8:1:8000::/65", "2001:db8::4", 9),
	} {
		require.NoError(t, table.Insert(a))
	}
	for _, c := range []struct{ name, proxy string }{
		{"10.0.0.1", "198.51.100.1"},
		{"192.0.2.1", "198.51.100.2"},
		{"192.0.2.128", "198.51.100.3"},
		{"192.0.2.129", "198.51.100.4"},
		{"::ffff:192.0.2.129", "198.51.100.4"},
		{"192.0.3.0", "198.51.100.1"},
		{"3fff::1", "2001:db8::1"},
		{"2001:db8:1::1", "2001:db8::2"},
		{"2001:db8:1:8000:8000::", "198.51.100.5"},
		{"2001:db8:1:8000::1", "2001:db8::4"},
		{"2001:db8:1:8000::7", "2001:db8::3"},
		{"fe80::1%eth0", "2001:db8::1"},
	} {
		t.Run(c.name, func(t *testing.T) { requireProxy(t, table, c.name, c.proxy) })
	}
	require.Equal(t, Stats{Advertisements: 9, Prefixes: 9, Originators: 1}, table.Stats())

	require.True(t, table.Withdraw(origin(1), netip.MustParsePrefix("192.0.2.200/25")))
	require.False(t, table.Withdraw(origin(1), netip.MustParsePrefix("192.0.2.200/25")))
	require.False(t, table.Withdraw(origin(2), netip.MustParsePrefix("192.0.2.0/24")))
	require.False(t, table.Withdraw(origin(1), netip.Prefix{}))
	requireProxy(t, table, "192.0.2.128", "198.51.100.2")
	require.True(t, table.Withdraw(origin(1), netip.MustParsePrefix("0.0.0.0/0")))
	requireProxy(t, table, "10.0.0.1", "")

	for _, empty := range []*Table{nil, New(Config{MaxAdvertisements: 1})} {
		requireProxy(t, empty, "192.0.2.1", "")
		requireProxy(t, empty, "2001:db8::1", "")
	}
	_, ok := table.Lookup(netip.Addr{})
	require.False(t, ok)
}

// D16: the lowest metric, then the lowest address.
func TestTie(t *testing.T) {
	all := []pnc.Advertisement{
		announceProxy(1, "192.0.2.0/24", "198.51.100.9", 5),
		announceProxy(2, "192.0.2.0/24", "198.51.100.10", 5),
		announceProxy(3, "192.0.2.0/24", "2001:db8::1", 5),
		announceProxy(4, "192.0.2.0/24", "198.51.100.1", 6),
		announceProxy(5, "192.0.2.0/24", "198.51.100.9", 7), // the first one's proxy by another router
	}
	for range 20 {
		rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		table := New(Config{})
		for _, a := range all {
			require.NoError(t, table.Insert(a))
		}
		for _, want := range []struct {
			proxy string
			from  uint8 // originator that withdraws next
		}{{"198.51.100.9", 1}, {"198.51.100.10", 2}, {"2001:db8::1", 3}, {"198.51.100.1", 4}, {"198.51.100.9", 5},
			{"", 0}} {
			requireProxy(t, table, "192.0.2.1", want.proxy)
			table.Withdraw(origin(want.from), netip.MustParsePrefix("192.0.2.0/24"))
		}
		require.Equal(t, Stats{}, table.Stats())
	}
}

func TestInsertAgain(t *testing.T) {
	table := New(Config{MaxAdvertisements: 2})
	require.NoError(t, table.Insert(announceProxy(1, "192.0.2.0/24", "198.51.100.1", 5)))
	require.NoError(t, table.Insert(announceProxy(1, "192.0.2.0/24", "198.51.100.2", 6)),
		"a second proxy of one origin")
	require.NoError(t, table.Insert(announceProxy(1, "192.0.2.7/24", "198.51.100.1", 5)), "the same again")
	require.Equal(t, 2, table.Stats().Advertisements)
	requireProxy(t, table, "192.0.2.1", "198.51.100.1")
	require.NoError(t, table.Insert(announceProxy(1, "192.0.2.0/24", "198.51.100.1", 7)), "another metric")
	require.Equal(t, 2, table.Stats().Advertisements)
	requireProxy(t, table, "192.0.2.1", "198.51.100.2")
}

func TestRefused(t *testing.T) {
	table := New(Config{MaxAdvertisements: 2})
	for _, proxy := range []string{"0.0.0.0", "127.0.0.1", "224.0.0.1", "255.255.255.255", "::", "::1", "ff02::1",
		"fe80::1", "::ffff:192.0.2.1"} {
		require.Equal(t, errProxy, table.Insert(announceProxy(1, "192.0.2.0/24", proxy, 1)), proxy)
	}
	require.Equal(t, errProxy, table.Insert(pnc.Advertisement{Prefix: netip.MustParsePrefix("192.0.2.0/24")}),
		"no originator")
	require.Equal(t, errPrefix, table.Insert(pnc.Advertisement{Proxy: netip.MustParseAddr("198.51.100.1")}))
	mapped := announceProxy(1, "192.0.2.0/24", "198.51.100.1", 1)
	mapped.Prefix = netip.PrefixFrom(netip.MustParseAddr("::ffff:192.0.2.0"), 120)
	require.Equal(t, errPrefix, table.Insert(mapped))

	require.NoError(t, table.Insert(announceProxy(1, "192.0.2.0/24", "198.51.100.1", 1)))
	require.NoError(t, table.Insert(announceProxy(2, "192.0.2.0/24", "198.51.100.2", 2)))
	require.Equal(t, errFull, table.Insert(announceProxy(1, "203.0.113.0/24", "198.51.100.1", 1)))
	require.NoError(t, table.Insert(announceProxy(2, "192.0.2.0/24", "198.51.100.2", 0)),
		"a full table replaces its own entries")
	requireProxy(t, table, "192.0.2.1", "198.51.100.2")
	wiretest.NoAllocs(t, "Insert, full", func() { _ = table.Insert(says1) })
	require.Equal(t, Refused{Prefix: 2, Proxy: 10, Full: 102}, table.Stats().Refused)

	table = New(Config{})
	for i := range MaxPerPrefix {
		a := announceProxy(uint8(i), "192.0.2.0/24", "198.51.100.1", 1)
		a.Originator.ID[0] = uint8(i >> 8)
		require.NoError(t, table.Insert(a))
	}
	another := announceProxy(0, "192.0.2.0/24", "198.51.100.1", 0)
	another.Originator.ID[0] = 0xFF
	require.Equal(t, errFull, table.Insert(another))
	require.NoError(t, table.Insert(announceProxy(9, "192.0.2.0/24", "198.51.100.1", 0)))
}

var says1 = announceProxy(1, "203.0.113.0/24", "198.51.100.1", 1)

func seq(all ...pnc.Advertisement) iter.Seq2[pnc.Advertisement, error] {
	return func(yield func(pnc.Advertisement, error) bool) {
		for _, a := range all {
			if !yield(a, nil) {
				return
			}
		}
	}
}

func TestReplace(t *testing.T) {
	table := New(Config{})
	require.Equal(t, 2, table.Replace(origin(1),
		seq(announceProxy(1, "192.0.2.0/24", "198.51.100.1", 1),
			announceProxy(1, "203.0.113.0/24", "198.51.100.1", 1))))
	require.Equal(t, 1, table.Replace(origin(2), seq(announceProxy(2, "192.0.2.0/24", "198.51.100.2", 2))))
	require.Equal(t, 1, table.Replace(origin(1), seq(announceProxy(1, "203.0.113.0/24", "198.51.100.1", 1))))
	requireProxy(t, table, "192.0.2.1", "198.51.100.2")
	requireProxy(t, table, "203.0.113.1", "198.51.100.1")
	require.Equal(t, 0, table.Replace(origin(2), seq(announceProxy(1, "192.0.2.0/24", "198.51.100.2", 2))),
		"an advertisement of another originator")
	requireProxy(t, table, "192.0.2.1", "")
	require.Equal(t, 0, table.Replace(origin(1), nil))
	require.Equal(t, Stats{Refused: Refused{Broken: 1}}, table.Stats())
}

// Advertisements are stored as the decoders return them: an LSP arrives, changes, becomes invalid, and expires.
func TestReplaceFromLSP(t *testing.T) {
	const header, reach = "831b010014010000002f04b0000000000001000000000001000003",
		"87120000000a58c00002090401010b04c6336402"
	lsp := wiretest.Must(hex.DecodeString(header + reach))(t)
	table, o := New(Config{}), origin(1)
	require.Equal(t, 1, table.Replace(o, pnc.Codes{}.ReadISIS(lsp)))
	requireProxy(t, table, "192.0.2.200", "198.51.100.2")

	noFlag := slices.Clone(lsp)
	noFlag[27+13] = 0xFE // the prefix attribute flags
	require.Equal(t, 0, table.Replace(o, pnc.Codes{}.ReadISIS(noFlag)))
	requireProxy(t, table, "192.0.2.200", "")

	require.Equal(t, 1, table.Replace(o, pnc.Codes{}.ReadISIS(lsp)))
	require.Equal(t, 0, table.Replace(o, pnc.Codes{}.ReadISIS(lsp[:30])))
	require.EqualValues(t, 1, table.Stats().Refused.Broken)
	requireProxy(t, table, "192.0.2.200", "")

	nobody := slices.Clone(lsp)
	nobody[27+14] = 99 // an unknown sub-TLV in the place of the source router id
	require.Equal(t, 0, table.Replace(o, pnc.Codes{}.ReadISIS(nobody)))
	require.EqualValues(t, 1, table.Stats().Refused.Proxy)

	require.Equal(t, 1, table.Replace(o, pnc.Codes{}.ReadISIS(lsp)))
	expired := slices.Clone(lsp)
	expired[10], expired[11] = 0, 0
	require.Equal(t, 0, table.Replace(o, pnc.Codes{}.ReadISIS(expired)))
	requireProxy(t, table, "192.0.2.200", "")
}

// The table against a list of all advertisements that is searched from end to
// end, over many random changes in a small world.
func TestModel(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	addr := func() netip.Addr {
		if r.IntN(2) == 0 {
			return netip.AddrFrom4([4]byte{192, 0, uint8(r.IntN(2)), uint8(r.IntN(8))})
		}
		return netip.AddrFrom16([16]byte{0x20, 1, 7: uint8(r.IntN(4)), 8: uint8(r.IntN(2)) << 7, 15: uint8(r.IntN(8))})
	}
	prefix := func() netip.Prefix {
		a := addr()
		p, _ := a.Prefix(r.IntN(a.BitLen() + 1))
		return p
	}
	const max = 100
	table, model := New(Config{MaxAdvertisements: max}), []pnc.Advertisement{}
	insert := func(a pnc.Advertisement) bool {
		i := slices.IndexFunc(model, func(m pnc.Advertisement) bool {
			return m.Prefix == a.Prefix && m.Originator == a.Originator && m.Proxy == a.Proxy
		})
		switch {
		case i >= 0:
			model[i] = a
		case len(model) == max:
			return false
		default:
			model = append(model, a)
		}
		return true
	}
	for range wiretest.Rounds(50_000) {
		a := pnc.Advertisement{Prefix: prefix(), Proxy: netip.AddrFrom4([4]byte{198, 51, 100, uint8(1 + r.IntN(3))}),
			Metric: uint32(r.IntN(3)), Originator: origin(uint8(r.IntN(5)))}
		switch r.IntN(10) {
		default:
			require.Equal(t, insert(a), table.Insert(a) == nil)
		case 0, 1:
			n := len(model)
			model = slices.DeleteFunc(model, func(m pnc.Advertisement) bool {
				return m.Originator == a.Originator &&
					m.Prefix == a.Prefix
			})
			require.Equal(t, len(model) != n, table.Withdraw(a.Originator, a.Prefix))
		case 2:
			if r.IntN(10) == 0 {
				model = slices.DeleteFunc(model, func(m pnc.Advertisement) bool { return m.Originator == a.Originator })
				insert(a)
				require.Equal(t, 1, table.Replace(a.Originator, seq(a)))
			}
		}
		require.Equal(t, len(model), table.Stats().Advertisements)

		sender := addr()
		var want netip.Addr
		holds := slices.DeleteFunc(slices.Clone(model),
			func(m pnc.Advertisement) bool { return !m.Prefix.Contains(sender) })
		if len(holds) > 0 {
			want = slices.MinFunc(holds, func(a, b pnc.Advertisement) int {
				return cmp.Or(cmp.Compare(b.Prefix.Bits(), a.Prefix.Bits()), cmp.Compare(a.Metric, b.Metric),
					a.Proxy.Compare(b.Proxy))
			}).Proxy
		}
		got, ok := table.Lookup(sender)
		require.Equal(t, want, got)
		require.Equal(t, want.IsValid(), ok)
	}
	require.NotEmpty(t, model)
	require.ElementsMatch(t, model, slices.Collect(table.All()))
	require.LessOrEqual(t, len(table.entries), max+1, "memory has a maximum")
	for range table.All() {
		break
	}
}

// host returns an address of which each has a /64 of its own.
func host(i int) netip.Addr {
	return netip.AddrFrom16([16]byte{0x20, 1, 0x0d, 0xb8, uint8(i >> 24), uint8(i >> 16), uint8(i >> 8), uint8(i),
		15: 1})
}

// full returns a table with n prefixes: half of them hosts, the others nets.
func full(t testing.TB, n int) *Table {
	table := New(Config{MaxAdvertisements: n})
	for i := range n {
		p, _ := host(i).Prefix([]int{128, 64, 128, 96}[i%4])
		if err := table.Insert(pnc.Advertisement{Prefix: p,
			Proxy:      netip.AddrFrom4([4]byte{198, 51, uint8(i >> 8), uint8(i)}),
			Originator: origin(uint8(i))}); err != nil {
			t.Fatal(i, p, err)
		}
	}
	return table
}

func TestLookupAllocates(t *testing.T) {
	table := full(t, 1024)
	known, unknown := host(1), netip.MustParseAddr("3fff::1")
	wiretest.NoAllocs(t, "Lookup", func() { table.Lookup(known); table.Lookup(unknown) })
	p, _ := host(0).Prefix(128)
	wiretest.NoAllocs(t, "Withdraw and Insert", func() {
		table.Withdraw(origin(0), p)
		_ = table.Insert(pnc.Advertisement{Prefix: p, Proxy: netip.AddrFrom4([4]byte{198, 51, 100, 1}),
			Originator: origin(0)})
	})
}

func BenchmarkLookup(b *testing.B) {
	table := full(b, defaultMax)
	senders := make([]netip.Addr, 4096)
	for i := range senders {
		senders[i] = host(i * 37 % defaultMax)
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if _, ok := table.Lookup(senders[i&4095]); !ok {
			b.Fatal(senders[i&4095])
		}
		i++
	}
}

func BenchmarkInsertAndWithdraw(b *testing.B) {
	table := full(b, defaultMax-1)
	table.max++
	a := announceProxy(1, "192.0.2.0/24", "198.51.100.1", 1)
	b.ReportAllocs()
	for b.Loop() {
		if table.Insert(a) != nil || !table.Withdraw(a.Originator, a.Prefix) {
			b.Fatal("refused")
		}
	}
}

// Advertisements that come with an error are not stored, from any source.
func TestReplaceWithErrors(t *testing.T) {
	table := New(Config{})
	good := announceProxy(1, "192.0.2.0/24", "198.51.100.1", 1)
	taken := table.Replace(origin(1), func(yield func(pnc.Advertisement, error) bool) {
		if yield(good, errPrefix) {
			yield(announceProxy(1, "203.0.113.0/24", "198.51.100.1", 1), nil)
		}
	})
	require.Equal(t, 1, taken)
	requireProxy(t, table, "192.0.2.1", "")
	requireProxy(t, table, "203.0.113.1", "198.51.100.1")
	require.EqualValues(t, 1, table.Stats().Refused.Broken)
}
