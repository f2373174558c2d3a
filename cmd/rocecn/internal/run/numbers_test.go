package run

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/bmp"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/roles"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/congested"
	"github.com/rocecn/rocecn/node/reaction"
)

// A numberedProgram is a program in the kernel with counters that all differ.
type numberedProgram struct{ countedProgram }

func (*numberedProgram) readCounts() (n kernelCounts) {
	for i := range n.outcomes {
		n.outcomes[i] = uint64(10_000 * (i + 1))
	}
	for i := range n.sent {
		n.sent[i] = uint64(200_000 + 10_000*i)
	}
	for i := range n.rejected {
		n.rejected[i] = uint64(300_000 + 10_000*i)
	}
	for i := range n.errors {
		n.errors[i] = uint64(600_000 + 10_000*i)
	}
	n.toSink, n.transmitted = 700_000, 710_000
	return n
}

const numberedConfig = `
[role.switch]
enabled = true
sources = ["in"]
observe = ["also", "routers"]
sink = "out"
self = ["2001:db8:ffff::7"]
methods = [{ senders = "::/0", method = "proxy" }]
per_flow = "1s"
proxies_from = "routing"
pnc_code = 65281
seed = 1
[role.sender]
enabled = true
sources = ["also"]
sink = "net"
`

// numberedAgent returns an agent with a switch, and a sender with a program in the kernel. Their
// counters differ. Its log has no times.
func numberedAgent(t *testing.T) (*server, *bytes.Buffer) {
	t.Helper()
	s := prepared(t, readConfig("status")+"[sink.net]\ntype = \"raw\"\n"+numberedConfig+everyRole["sender"])
	t.Cleanup(s.close)
	s.dry = false
	output := new(bytes.Buffer)
	s.log = slog.New(slog.NewTextHandler(output, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}}))
	at := time.Unix(1_800_000_000, 0).UTC()
	s.reloaded.at, s.reloaded.good = at, true
	n := uint64(0)
	next := func() uint64 { n++; return n }
	setAll := func(all []atomic.Uint64) {
		for i := range all {
			all[i].Store(next())
		}
	}
	require.Len(t, s.actors, 2)
	for i, a := range s.actors {
		setAll(a.outcomes[:])
		a.packets.Store(next())
		a.marksNotMade.Store(next())
		copies := next()
		a.markedCopies.Store(copies)
		a.outcomes[node.ActionMarked].Add(copies) // copies are part of the marked packets
		for j := range a.sizes {
			a.sizes[j].Store(int64(next()))
		}
		a.rateStats.Store(&reaction.TableStats{Flows: int(next()), Slowed: int(next()), Least: next(), Cuts: next(),
			Stops: next(), Evicted: next()})
		a.tables.Store(&[]roles.Table{{Name: "first", Entries: int(next()), Max: int(next())},
			{Name: "second", Entries: int(next()), Max: int(next())}})
		counters := a.Role.Counters()
		count := func(c node.Count) {
			for range next() {
				counters.Inc(c)
			}
		}
		for _, k := range kinds {
			count(node.Count{Action: node.ActionSent, Message: k})
		}
		for _, r := range reasons {
			count(node.Count{Action: node.ActionRefused, Reason: r})
		}
		for _, e := range effects {
			count(node.Count{Effect: e})
		}
		a.rejecting.Store(&rejectingHosts{total: 7 + i, listed: []congested.Rejection{
			{Host: netip.MustParseAddr("2001:db8::1"), Since: at.Add(-time.Minute)},
			{Host: netip.MustParseAddr("2001:db8::2"), Since: at.Add(-time.Hour), NextProbe: at.Add(time.Second)}}})
		a.out.packets.Store(next())
		a.out.bytes.Store(next())
		setAll(a.out.errors[:])
		a.out.up.Store(i == 0)
	}
	for i, p := range s.parts {
		p.events.Store(next())
		p.lost.Store(next())
		p.reopened.Store(next())
		p.up.Store(i == 0)
		p.published.Store(&[]queue{{"eth0", uint8(2 + i), next()}, {"eth1", uint8(4 + i), next()}})
	}
	s.border.dropped = map[borderDrops]uint64{{"border[0]", "fast_cnp"}: next(), {"border[0]", "fcn"}: next(),
		{"border[1]", "fast_cnp"}: next(), {"switch", "proxy"}: next()}
	ports := []kernelPort{{name: "eth2", source: "also", kind: "packet"},
		{name: "eth3", source: "also", kind: "packet"}, {name: "eth4"}}
	s.kernels = []*kernelRole{{name: "sender", program: new(numberedProgram), closedCounts: new(kernelCounts),
		numbers: []int{0, 3, 4}, config: kernelConfig{ports: ports}}}
	s.file.visitTables(func(_ string, s *bmpSource) {
		for i, router := range []string{"2001:db8::a", "2001:db8::b", "2001:db8::c"} {
			session := wiretest.Must(s.table.Open(netip.MustParseAddr(router), at.Add(-time.Minute)))(t)
			file := filepath.Join("..", "bmp", "testdata", []string{"frr.bmp", "gobgp.bmp", "frr.bmp"}[i])
			stream := bytes.NewReader(wiretest.Must(os.ReadFile(file))(t))
			for r := bufio.NewReader(stream); ; {
				m, err := bmp.ReadMessage(r, nil)
				if err == io.EOF {
					break
				}
				require.NoError(t, err)
				if err := session.Receive(m, at); err != nil {
					require.ErrorIs(t, err, bmp.ErrTerminated)
				}
			}
			if i > 0 {
				session.Close(at)
			}
		}
	})
	return s, output
}

var update = flag.Bool("update", false, "write testdata/numbers.txt again")

// Each number of the agent is in the metrics, the status and the log under its own name. The numbers follow each other
// in the order in which numberedAgent sets them, except those of routing, which come from messages of routers: two
// peers, prefixes and proxies of a router. Latencies, losses of sources in the kernel, rejections of routing and the
// installed rules of borders stay 0.
func TestEveryNumber(t *testing.T) {
	s, output := numberedAgent(t)
	s.logStatus()
	version := regexp.MustCompile(`(?m)^rocecn_build_info.*\n`)
	metrics := version.ReplaceAllString(string(s.formatMetrics()), "")
	answer := s.buildStatus()
	answer.Config = ""
	status := string(wiretest.Must(json.MarshalIndent(answer, "", " "))(t))
	for _, r := range answer.Roles {
		for i := range r.Rejecting.Hosts { // the text has the time of this host
			at := &r.Rejecting.Hosts[i].Since
			*at = time.Date(at.Year(), at.Month(), at.Day(), at.Hour(), at.Minute(), 0, 0, time.Local)
		}
	}
	text := formatStatus(answer, "agent", s.reloaded.at.Add(90*time.Second))
	all := strings.Join([]string{"log:", output.String(), "metrics:", metrics, "status:", status, "text:", text}, "\n")
	const file = "testdata/numbers.txt"
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(all), 0o644))
		return
	}
	want := string(wiretest.Must(os.ReadFile(file))(t))
	require.Equal(t, want, all, "read the difference, and then run go test -run TestEveryNumber -update")
}
