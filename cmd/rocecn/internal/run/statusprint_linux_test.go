package run

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/io/fastpath"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/roles"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/node"
)

// The status as text has everything that an operator asks for, in 80 columns.
func TestFormatStatus(t *testing.T) {
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.Local)
	long := netip.MustParseAddr("2001:db8:1111:2222:3333:4444:5555:6666")
	level, depth, probe := uint8(3), uint64(70000), now.Add(4*time.Second)
	s := &agentStatus{
		Loaded: now.Add(-time.Hour), Good: true,
		Roles: []roleStatus{{
			Name: "switch", Sources: []string{"queues"}, Observe: []string{"rejections"}, Sink: "net",
			Packets: map[string]uint64{"sent": 1200, "refused": 34}, Sent: map[string]uint64{"fastcnp": 1200},
			Refused: map[string]uint64{"limited": 30, "not_capable": 4},
			Tables:  []roles.Table{{Name: "rejections", Entries: 1, Max: 16384}},
			Rejecting: &rejectingStatus{Total: 1, Hosts: []rejectingHostStatus{
				{Host: long, Since: now.Add(-time.Minute), NextProbe: &probe}}},
			Senders: &flowList{Total: 300, Forgotten: 5, Listed: []flowStatus{
				{Src: long, decisionCounts: decisionCounts{Sent: 1200, Limited: 30, Refused: 4}, Last: now}}},
			Flows: &flowList{Total: 1, Listed: []flowStatus{{Src: long, Dst: long.Next(), DestQP: 1<<24 - 1,
				decisionCounts: decisionCounts{Sent: 1200, Limited: 30}, Kind: "fastcnp", To: long,
				Reason: "limited", Level: &level, Depth: &depth, Last: now.Add(-2 * time.Second)}}},
		}},
		Sources: []sourceStatus{{Name: "queues", Type: "qdisc", Input: "eth0", Up: true, N: 1234567}},
		Sinks: []sinkStatus{{Name: "net", Role: "switch", Up: true, N: 1100,
			Errors: map[string]uint64{"limited": 100}}},
		Routing: []routingStatus{{Source: "routers", Proxies: 1500, Held: 20, Max: 65536, Messages: 4321,
			Refused: map[string]uint64{"malformed": 2},
			Routers: []routerStatus{{long, "leaf1", now.Add(-time.Minute), 3, 1480}}}},
	}
	require.Equal(t, `agent at [::1]:9479: ready
configuration loaded 1h0m0s ago

role switch, from queues, rejections
  packets: refused 34, sent 1,200
  sent: fastcnp 1,200
  rejected: limited 30, not_capable 4
  sink net: up, sent 1,100
  not sent: limited 100
  tables: rejections 1 of 16,384
  senders, the latest first: 300, and 5 forgotten
    2001:db8:1111:2222:3333:4444:5555:6666
      notified 1,200, limited 30, rejected 4, 0s ago
    299 more; /status lists 1
  flows, the latest first: 1
    2001:db8:1111:2222:3333:4444:5555:6666 >
      2001:db8:1111:2222:3333:4444:5555:6667 qp 16777215
      notified 1,200, limited 30, by fastcnp to
        2001:db8:1111:2222:3333:4444:5555:6666, last reason limited, level 3,
        depth 70,000, 2s ago
  hosts that reject Fast CNPs: 1
    2001:db8:1111:2222:3333:4444:5555:6666: since 11:59:00, next probe in 4s

sources
  queues (qdisc, eth0): up, packets 1,234,567, lost 0

proxies from routers: 1,500 of 65,536, of lost sessions 20, messages 4,321
  rejected: malformed 2
  router 2001:db8:1111:2222:3333:4444:5555:6666 leaf1: connected 1m0s ago, peers
    3, proxies 1,480
`, formatStatus(s, "[::1]:9479", now))

	// Marks that were not made, a due probe, and a source that the kernel reads.
	probe = now
	s.Roles[0].Packets["marked"], s.Roles[0].MarksNotMade, s.Roles[0].MarkedCopies = 12, 9, 7 // 5 by the kernel
	s.Roles[0].FlowsError = "permission denied"
	s.Roles[0].Flows.Listed[0].Marked = 7
	s.Sources[0] = sourceStatus{Name: "queues", Type: "qdisc", Input: "eth0", Up: true, Kernel: true}
	text := formatStatus(s, "[::1]:9479", now)
	for _, want := range []string{
		"\n  flows of the kernel are missing: permission denied\n",
		"\n  packets: marked 5, not marked 7, refused 34, sent 1,200\n" +
			"  marks not made: 9; the agent only sees copies of packets\n",
		" limited 30, not marked 7, by fastcnp to\n",
		"since 11:59:00, its next congested\n      packet is answered by a probe\n",
		"\n  queues (qdisc, eth0): up, read by the kernel\n",
	} {
		require.Contains(t, text, want)
	}
	s.WaitsFor, s.Good = strings.Repeat("source.queues: eth0 ", 9), false
	s.Roles[0].Name = "switch\x1b[31m"
	for line := range strings.Lines(formatStatus(s, "[::1]:9479", now)) {
		require.LessOrEqual(t, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")), statusWidth, line)
		require.NotContains(t, line, "\x1b")
	}
}

// The command status asks the address that it is given, and reports answers that are no status.
func TestStatus(t *testing.T) {
	run := func(args ...string) (status int, stdout, stderr string) {
		var out, errs bytes.Buffer
		status = Status(t.Context(), args, nil, &out, &errs)
		return status, out.String(), errs.String()
	}
	s, a, _ := logging(t, "")
	a.handleDecision(aboutFlow(1, 0, 1, 17), nil, false)
	s.file.agent.HTTP = "given"
	a.updateSizes(time.Now())
	answer := wiretest.Must(json.Marshal(s.buildStatus()))(t)
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/status" {
			http.NotFound(w, r)
			return
		}
		w.Write(answer)
	}))
	defer agent.Close()
	address := strings.TrimPrefix(agent.URL, "http://")
	status, stdout, stderr := run(address)
	require.Zero(t, status, stderr)
	require.Contains(t, stdout, "\nrole switch, from in\n")
	require.Contains(t, stdout, "2001:db8:1::1 > 2001:db8:4::e qp 17\n")

	answer = []byte("<html>")
	status, _, stderr = run(address)
	require.Equal(t, 1, status)
	require.Contains(t, stderr, "the answer is not the status of an agent")
	agent.Config.Handler = http.NotFoundHandler()
	status, _, stderr = run(address)
	require.Equal(t, 1, status)
	require.Contains(t, stderr, "the answer is 404 Not Found: want the key http of an agent")
	status, _, stderr = run("a b")
	require.Equal(t, 1, status)
	require.Contains(t, stderr, "want an address and a port")
	status, _, _ = run("a", "b")
	require.Equal(t, 2, status)
}

// fullRole is a role of which the tables for queue pairs were full.
type fullRole struct{ node.Role }

func (fullRole) Sizes() roles.Sizes { return roles.Sizes{Pairs: 262144, Unlearned: 1168} }

// Status, metrics and log say that queue pairs could not be learned because the tables were full.
func TestFullTablesOfPairs(t *testing.T) {
	s, a, output := logging(t, "")
	for _, row := range []struct {
		name string
		role node.Role
		want bool
	}{{"with space", a.Role, false}, {"full", fullRole{a.Role}, true}} {
		t.Run(row.name, func(t *testing.T) {
			a.Role = row.role
			a.updateSizes(time.Now())
			contain := require.NotContains
			if row.want {
				contain = require.Contains
			}
			status := s.buildStatus()
			contain(t, string(wiretest.Must(json.Marshal(status))(t)), `"unlearned":1168`)
			contain(t, formatStatus(status, "[::1]:9479", time.Now()),
				"\n  queue pairs may be unknown: the tables were full for 1,168 packets\n")
			contain(t, string(s.formatMetrics()), "\nrocecn_role_unlearned_total{role=\"switch\"} 1168\n")
			output.Reset()
			s.logStatus()
			contain(t, output.String(), `"unlearned":1168`)
		})
	}
}

// A flow that both the kernel and the agent decided about is listed and counted once, also if it is not among the
// latest flows of the agent. The lists have the latest flows and senders of both.
func TestMergeFlows(t *testing.T) {
	at := time.Unix(1e9, 0)
	src, dst := netip.MustParseAddr("2001:db8:1::a"), netip.MustParseAddr("2001:db8:4::e")
	nameFlow := func(i int) flowStatus { return flowStatus{Src: src, Dst: dst, DestQP: uint32(i)} }
	refused := decisionCounts{Refused: 1}
	r := &roleStatus{Senders: &flowList{Total: 1, Listed: []flowStatus{
		{Src: src, decisionCounts: refused, Reason: "unconfirmed", Last: at}}}, Flows: new(flowList)}
	for i := range 100 { // flows 0 to 99 of the agent, before those of the kernel
		f := nameFlow(i)
		f.decisionCounts, f.Reason, f.Last = refused, "unconfirmed", at.Add(-time.Duration(i))
		r.Flows.Listed = append(r.Flows.Listed, f)
	}
	r.Flows.Total = 100
	failure := errors.New("interrupted")
	r.addKernelFlows(func(visit func(*fastpath.Flow)) error {
		for i := 90; i < 1090; i++ { // flows 90 to 1089 of the kernel, the last one first
			visit(&fastpath.Flow{Src: src, Dst: dst, DestQP: uint32(i), Sent: 2, Limited: 3, Level: 2,
				Depth: uint64(i), Last: at.Add(time.Duration(2000 - i))})
		}
		return failure
	})
	r.limitFlows()
	require.Equal(t, "interrupted", r.FlowsError)
	require.Equal(t, 1090, r.Flows.Total)
	require.Len(t, r.Flows.Listed, 64)
	for n, f := range r.Flows.Listed {
		i := 90 + n
		level, depth := uint8(2), uint64(i)
		want := nameFlow(i)
		want.Sent, want.Limited, want.Kind, want.To, want.Reason = 2, 3, "fastcnp", src, "limited"
		want.Level, want.Depth, want.Last = &level, &depth, at.Add(time.Duration(2000-i))
		if i < 100 {
			want.Refused = 1
		}
		require.Equal(t, want, f)
	}
	level, depth := uint8(2), uint64(90)
	require.Equal(t, &flowList{Total: 1, Listed: []flowStatus{{Src: src,
		decisionCounts: decisionCounts{Sent: 2000, Limited: 3000, Refused: 1}, Reason: "limited",
		Kind: "fastcnp", To: src, Level: &level, Depth: &depth, Last: at.Add(2000 - 90)}}}, r.Senders)
}

// A switch in the kernel lists all flows of the agent, to which those of the kernel are added.
func TestListOfAllFlows(t *testing.T) {
	s, a, _ := logging(t, "")
	for i := range uint32(100) {
		a.handleDecision(aboutFlow(1, 0, 1, 17+i), nil, false)
	}
	s.file.agent.HTTP = "given"
	now := time.Now()
	for _, c := range []struct {
		name     string
		inKernel bool
		want     int
	}{{"agent", false, 64}, {"kernel", true, 100}, {"agent again", false, 64}} {
		t.Run(c.name, func(t *testing.T) {
			now = now.Add(listInterval)
			a.inKernel = c.inKernel
			a.updateSizes(now)
			require.Equal(t, 100, a.listed.Load().flows.Total)
			require.Len(t, a.listed.Load().flows.Listed, c.want)
			require.Len(t, s.buildStatus().Roles[0].Flows.Listed, 64)
		})
	}
}
