package bmp

import (
	"bufio"
	"bytes"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/pnc"
)

// A stream of any octets does not panic. The table's counts, its advertisements and the advertisements of the views are
// consistent; all advertisements are of hosts; after the end of the session and of the hold time nothing is left.
func FuzzStream(f *testing.F) {
	for _, file := range []string{"frr.bmp", "gobgp.bmp"} {
		f.Add(wiretest.Must(os.ReadFile("testdata/" + file))(f))
	}
	f.Add(bytes.Join([][]byte{
		peer1.sendUp(openPaths), peer1.update(origin, asPath, nhc(1), reach("00000001"+net64)),
		post1.update(origin, asPath2, nhc(2), pref200, reach(net48)), chosen.update(unreach(net64)),
		peer1.update(endOfRIB6), peer1.sendDown(), bmpMessage(5),
	}, nil))
	f.Fuzz(func(t *testing.T, stream []byte) {
		table := NewTable(code, Settings{Hold: time.Minute})
		r := bufio.NewReader(bytes.NewReader(stream))
		sessions := []*Session{wiretest.Must(table.Open(router, start))(t), wiretest.Must(table.Open(router, start))(t)}
		var m []byte
		for n := 0; ; n++ {
			var err error
			if m, err = ReadMessage(r, m); err != nil {
				break
			}
			MessageTime(m)
			if sessions[n%2].Receive(m, start) != nil {
				break
			}
			requireConsistent(t, table)
		}
		table.Lookup(sender)
		for _, s := range sessions {
			s.Close(start)
			requireConsistent(t, table)
		}
		status := table.Status()
		require.Equal(t, status.Proxies, status.Held)
		table.Advance(start.Add(time.Minute))
		requireConsistent(t, table)
		require.Zero(t, table.Status().Proxies)
		require.Empty(t, table.views)
	})
}

func requireConsistent(t *testing.T, table *Table) {
	t.Helper()
	advertised, held := 0, 0
	for id, v := range table.views {
		require.Equal(t, id, v.id)
		require.True(t, v.session != nil || len(v.routes) > 0, "an unused view")
		for r, a := range v.routes {
			advertised++
			if !a.until.IsZero() {
				held++
			}
			require.NoError(t, (&pnc.Advertisement{Prefix: r.prefix, Proxy: a.proxy}).Validate())
			require.NotEqual(t, netip.Addr{}, a.proxy)
		}
	}
	status := table.Status()
	require.Equal(t, advertised, status.Proxies)
	require.Equal(t, held, status.Held)
}
