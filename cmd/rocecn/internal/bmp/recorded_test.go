package bmp

import (
	"bufio"
	"bytes"
	"io"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/internal/wiretest"
)

// Streams of FRRouting 8.4.4 (routes of its peers before its import policy) and GoBGP 4.8.0 (Loc-RIB), recorded in the
// trial of pnc/bgptest. Each has these events: a route to fd77::/64 with proxy ::11; fd78::/64 with ::33 from another
// peer; fd77::2/128 with ::22, which is withdrawn; fd77::/64 with ::33, then without a proxy, then with ::11.
func TestRecordedStreams(t *testing.T) {
	for _, c := range []struct{ file, router string }{{"frr.bmp", "router"}, {"gobgp.bmp", "GoBGP"}} {
		t.Run(c.file, func(t *testing.T) {
			table := NewTable(code, Settings{Hold: time.Minute})
			s := wiretest.Must(table.Open(router, start))(t)
			var seen []string
			for _, m := range split(t, wiretest.Must(os.ReadFile("testdata/"+c.file))(t)) {
				err := s.Receive(m, start)
				if err != nil {
					require.ErrorIs(t, err, ErrTerminated)
				}
				proxy := "none"
				if a, ok := table.Lookup(netip.MustParseAddr("fd77::2")); ok {
					proxy = a.String()
				}
				if len(seen) == 0 || seen[len(seen)-1] != proxy {
					seen = append(seen, proxy)
				}
			}
			const of64, of128, after = "2001:db8:ffff::11", "2001:db8:ffff::22", "2001:db8:ffff::33"
			require.Equal(t, []string{"none", of64, of128, of64, after, "none", of64}, seen)
			other, ok := table.Lookup(netip.MustParseAddr("fd78::1"))
			require.True(t, ok)
			require.Equal(t, netip.MustParseAddr(after), other)
			status := table.Status()
			require.Zero(t, status.Malformed+status.Invalid+status.Full)
			require.Equal(t, c.router, status.Routers[0].Name)
		})
	}
}

// split returns the messages of a stream.
func split(t testing.TB, stream []byte) (all [][]byte) {
	r := bufio.NewReader(bytes.NewReader(stream))
	for {
		m, err := ReadMessage(r, nil)
		if err == io.EOF {
			return all
		}
		require.NoError(t, err)
		all = append(all, m)
	}
}
