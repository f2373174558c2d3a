package nftables

import (
	"testing"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/stretchr/testify/require"
)

// The generation changes with each change by any program, and only then. It is that of the namespace in which the
// ruleset was opened.
func TestGeneration(t *testing.T) {
	wiretest.Tool(t, "nft")
	h, other := wiretest.NewHost(t, "h"), wiretest.NewHost(t, "other")
	r := wiretest.On(t, h, Open)
	generation := func() uint32 {
		return wiretest.Must(r.Generation())(t)
	}
	was := generation()
	for _, change := range []string{
		"add table inet a", "add chain inet a b", "add rule inet a b counter", "flush table inet a", "flush ruleset",
	} {
		h.Run(t, change, "nft", "-f", "-")
		require.NotEqual(t, was, generation(), change)
		was = generation()
		h.Run(t, "", "nft", "list", "ruleset")
		other.Run(t, "add table inet a", "nft", "-f", "-")
		require.Equal(t, was, generation())
	}
}

// Counters are those that nft prints, by comment, of one table.
func TestCounters(t *testing.T) {
	wiretest.Tool(t, "nft")
	h := wiretest.NewHost(t, "h")
	r := wiretest.On(t, h, Open)
	counters := func() map[string]uint64 { return wiretest.Must(r.Counters("a"))(t) }
	require.Empty(t, counters())
	h.Run(t, `table inet a {
	chain b {
		counter packets 7 bytes 700 drop comment "tunnels"
		udp dport 4791 counter packets 5 bytes 500 drop comment "tunnels"
		counter packets 4294967299 bytes 9 drop comment "Fast CNP"
		accept comment "no counter"
	}
}
table inet aa { chain b { counter packets 1 bytes 1 comment "tunnels"; }; }
table ip a { chain b { counter packets 1 bytes 1 comment "tunnels"; }; }
`, "nft", "-f", "-")
	require.Equal(t, map[string]uint64{"tunnels": 12, "Fast CNP": 1<<32 + 3}, counters())
	h.Run(t, "flush ruleset", "nft", "-f", "-")
	require.Empty(t, counters())
}

// The comment is found among other user data, and damaged user data have none.
func TestFindComment(t *testing.T) {
	for _, c := range []struct{ name, data, want string }{
		{"alone", "\x00\x03ab\x00", "ab"},
		{"after another field", "\x01\x01x\x00\x02c\x00", "c"},
		{"none", "\x01\x01x", ""},
		{"longer than the data", "\x00\x09ab", ""},
		{"one octet", "\x00", ""},
		{"empty", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) { require.Equal(t, c.want, findComment([]byte(c.data))) })
	}
}
