package run

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/roles"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/netio"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
)

// aboutFlow is a decision about a flow from sender number sender.
func aboutFlow(action node.Action, reason node.Reason, sender byte, qp uint32) *node.Decision {
	src := netip.MustParseAddr("2001:db8:1::").As16()
	src[15] = sender
	d := &node.Decision{Action: action, Reason: reason, Flow: qpmap.Key{FlowKey: rocev2.FlowKey{
		Src: netip.AddrFrom16(src), Dst: netip.MustParseAddr("2001:db8:4::e"), DestQP: qp}}}
	if action == node.ActionSent {
		d.Message, d.To = message.KindFastCNP, d.Flow.Src
	}
	return d
}

// logging is an agent with a switch that logs in JSON into the buffer.
func logging(t *testing.T, agent string) (*server, *actor, *bytes.Buffer) {
	t.Helper()
	s := prepared(t, agent+readConfig("status")+"[role.switch]\nenabled = true\nsources = [\"in\"]\nsink = \"out\"\n"+
		everyRole["switch"])
	output := new(bytes.Buffer)
	s.log = slog.New(slog.NewJSONHandler(output, nil))
	return s, s.actors[0], output
}

// logLines returns the lines of a log without their times.
func logLines(t *testing.T, output *bytes.Buffer) (all []map[string]any) {
	t.Helper()
	for line := range strings.Lines(output.String()) {
		var fields map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &fields))
		delete(fields, "time")
		all = append(all, fields)
	}
	output.Reset()
	return all
}

// The first decision of a kind is logged at the next housekeeping, later ones every 10 s with their number and the flow
// with most of them, and the rest when the agent ends.
func TestDigest(t *testing.T) {
	s, a, output := logging(t, "")
	a.Role.(*roles.Switch).Level = roles.UnknownLevel
	at := time.Unix(1e9, 0)
	decide := func(n int, d *node.Decision) {
		for range n {
			a.handleDecision(d, nil, false)
		}
	}
	line := func(action, reason string, count, flowCount float64, sender string, more map[string]any) map[string]any {
		fields := map[string]any{"level": "INFO", "msg": "decisions", "role": "switch", "action": action,
			"count": count, "flow_count": flowCount, "src": "2001:db8:1::" + sender, "dst": "2001:db8:4::e",
			"dest_qp": 17.}
		if reason != "" {
			fields["reason"] = reason
		}
		for k, v := range more {
			fields[k] = v
		}
		return fields
	}
	a.depth, a.deep = 70000, true
	decide(1, aboutFlow(node.ActionRefused, node.ReasonNotCapable, 1, 17))
	a.runTimers(at, s)
	require.Equal(t, []map[string]any{line("refused", "not_capable", 1, 1, "1", map[string]any{"depth": 70000.})},
		logLines(t, output))

	decide(5, aboutFlow(node.ActionRefused, node.ReasonNotCapable, 1, 17))
	decide(7, aboutFlow(node.ActionRefused, node.ReasonNotCapable, 2, 17))
	decide(3, aboutFlow(node.ActionSent, node.NoReason, 3, 17))
	a.runTimers(at.Add(9*time.Second), s)
	require.Equal(t, []map[string]any{line("sent", "", 3, 3, "3", map[string]any{
		"kind": "fastcnp", "to": "2001:db8:1::3", "depth": 70000.})}, logLines(t, output))
	a.runTimers(at.Add(10*time.Second), s)
	require.Equal(t, []map[string]any{line("refused", "not_capable", 12, 7, "2", map[string]any{"depth": 70000.})},
		logLines(t, output))
	a.runTimers(at.Add(time.Minute), s)
	require.Empty(t, logLines(t, output))

	decide(2, aboutFlow(node.ActionSent, node.NoReason, 3, 17))
	a.close()
	require.Len(t, logLines(t, output), 1)
	a.close()
	require.Empty(t, logLines(t, output))
}

// The number of lines in 10 s has a limit over all reasons, each decision is in the count of one line, and with 0 there
// are none.
func TestDigestLimit(t *testing.T) {
	for _, c := range []struct {
		name, agent string
		lines       int // at most, in a minute
	}{
		{"default", "", 5 * 8}, {"2", "[agent.log]\ndecisions = 2\n", 2 * 8},
		{"none", "[agent.log]\ndecisions = 0\n", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, a, output := logging(t, c.agent)
			n, lines, sum := 0, 0, 0.
			count := func() {
				for _, l := range logLines(t, output) {
					lines, sum = lines+1, sum+l["count"].(float64)
				}
			}
			for at := time.Unix(1e9, 0); at.Before(time.Unix(1e9+60, 0)); at = at.Add(housekeepingInterval) {
				for reason := node.ReasonDisabled; reason <= node.ReasonPSNMismatch; reason++ {
					a.handleDecision(aboutFlow(node.ActionRefused, reason, 1, 17), nil, false)
					n++
				}
				a.runTimers(at, s)
			}
			count()
			require.LessOrEqual(t, lines, c.lines)
			if c.lines == 0 {
				a.close()
				require.Empty(t, output)
				return
			}
			require.Greater(t, lines, c.lines/2)
			a.close()
			count()
			require.EqualValues(t, n, sum)
		})
	}
}

// A minute of 50,000 packets a second (here a tenth of them) leaves at most 10 KB in the log.
func TestLogSize(t *testing.T) {
	s, _, output := logging(t, "[agent]\nlog = { level = \"info\" }\n")
	w := &worker{server: s, parts: s.parts, actors: s.actors}
	var packets []netio.Packet
	for qp := range uint32(500) {
		var p netio.Packet
		p.Data = datagram(t, qp+2)
		p.OrigLen, p.Link = uint32(len(p.Data)), capture.Raw
		p.Depth, p.DepthKnown = 15, true
		packets = append(packets, p)
	}
	for at := time.Unix(1e9, 0); at.Before(time.Unix(1e9+60, 0)); at = at.Add(housekeepingInterval) {
		for i := range packets {
			packets[i].Time = at
		}
		w.distributePackets(s.parts[0], packets, at)
		s.actors[0].runTimers(at, s)
	}
	require.Less(t, output.Len(), 10_000)
	s.actors[0].close()
	sum := 0.
	for _, l := range logLines(t, output) {
		if l["msg"] == "decisions" {
			sum += l["count"].(float64)
		}
	}
	require.EqualValues(t, 600*len(packets), sum)
}

// At level debug every decision has a line with the flow, and the level and depth of its queue.
func TestDebugLog(t *testing.T) {
	s, _, output := logging(t, "")
	s.log, s.debug = slog.New(slog.NewTextHandler(output, &slog.HandlerOptions{Level: slog.LevelDebug})), true
	var p netio.Packet
	p.Data = datagram(t, 17)
	p.OrigLen, p.Link = uint32(len(p.Data)), capture.Raw
	p.Depth, p.DepthKnown = 15, true
	w := &worker{server: s, parts: s.parts, actors: s.actors}
	w.distributePackets(s.parts[0], []netio.Packet{p, p, p}, time.Unix(1e9, 0))
	require.Equal(t, 3, strings.Count(output.String(), "level=DEBUG msg=decision "), output)
	require.Regexp(t, ` src=2001:db8:1::a dst=\S+ dest_qp=17 level=1 depth=15\n`, output.String())
	output.Reset()
	s.actors[0].handleDecision(aboutFlow(node.ActionSent, node.NoReason, 1, 17), nil, true)
	require.NotContains(t, output.String(), "depth=") // no packet has caused it
}

// The tables of flows and senders have a maximum: the entry that was used longest ago is evicted, and counted.
func TestSeenTables(t *testing.T) {
	_, a, _ := logging(t, "")
	a.handleDecision(aboutFlow(node.ActionSent, node.NoReason, 1, 17), nil, false)
	for qp := range uint32(maxSeenFlows + 10) {
		a.handleDecision(aboutFlow(node.ActionSent, node.NoReason, byte(qp%200), 1000+qp), nil, false)
		a.handleDecision(aboutFlow(node.ActionRefused, node.ReasonLimited, 1, 17), nil, false)
	}
	listed := a.seen.list()
	require.Equal(t, maxSeenFlows, listed.flows.Total)
	require.EqualValues(t, 11, listed.flows.Forgotten)
	require.Len(t, listed.flows.Listed, maxListedFlows)
	require.Equal(t, 200, listed.senders.Total)
	require.Zero(t, listed.senders.Forgotten)
	for _, f := range listed.flows.Listed {
		if f.DestQP == 17 {
			require.Equal(t, decisionCounts{Sent: 1, Limited: maxSeenFlows + 10}, f.decisionCounts)
			require.Equal(t, "limited", f.Reason)
			return
		}
	}
	t.Fatal("the flow in use is not listed", fmt.Sprint(listed.flows.Listed))
}

// /status gets the latest flows first, from a list that is made at most once in a second, and only after a decision.
func TestSeenList(t *testing.T) {
	_, a, _ := logging(t, "")
	start := time.Unix(1e9, 0)
	for i := range 3 {
		a.now = start.Add(time.Duration(i))
		a.handleDecision(aboutFlow(node.ActionSent, node.NoReason, 1, 17+uint32(i)), nil, false)
	}
	a.handleDecision(aboutFlow(node.ActionSent, node.NoReason, 1, 17), nil, false)
	var qps []uint32
	for _, f := range a.seen.listIfDue(start).flows.Listed {
		qps = append(qps, f.DestQP)
	}
	require.Equal(t, []uint32{17, 19, 18}, qps)
	require.Nil(t, a.seen.listIfDue(start.Add(time.Hour)))
	a.handleDecision(aboutFlow(node.ActionSent, node.NoReason, 1, 17), nil, false)
	require.Zero(t, testing.AllocsPerRun(10, func() { a.seen.listIfDue(start.Add(listInterval - 1)) }))
	require.NotNil(t, a.seen.listIfDue(start.Add(listInterval)))
}

// A reload keeps the counts of a role that stays, and logs those of a role that it removes.
func TestDigestAfterReload(t *testing.T) {
	s, a, output := logging(t, "")
	apply := func(config string) {
		f, err := parseFile([]byte(config))
		require.NoError(t, err)
		require.NoError(t, s.applyFile(f, nil))
	}
	at := time.Unix(1e9, 0)
	a.runTimers(at, s)
	for range 3 {
		a.handleDecision(aboutFlow(node.ActionRefused, node.ReasonNotCapable, 1, 17), nil, false)
	}
	apply(string(s.file.octets) + "\n# a comment\n")
	require.Same(t, a, s.actors[0])
	require.Empty(t, output.String())
	require.Equal(t, 1, a.seen.list().flows.Total)
	apply(readConfig("status"))
	lines := logLines(t, output)
	require.Len(t, lines, 1)
	require.EqualValues(t, 3, lines[0]["count"])
	apply(readConfig("status"))
	require.Empty(t, output.String())
}

// A clock that is set back by more than 10 s does not delay the next line by that time.
func TestDigestWithClockSetBack(t *testing.T) {
	s, a, output := logging(t, "")
	at := time.Unix(1e9, 0)
	decide := func() { a.handleDecision(aboutFlow(node.ActionRefused, node.ReasonNotCapable, 1, 17), nil, false) }
	decide()
	a.runTimers(at, s)
	require.Len(t, logLines(t, output), 1)
	decide()
	a.runTimers(at.Add(1-10*time.Second), s)
	require.Empty(t, logLines(t, output), "less than 10 s from the last line")
	a.runTimers(at.Add(-time.Hour), s)
	require.Len(t, logLines(t, output), 1)
	decide()
	a.runTimers(at.Add(10*time.Second-time.Hour-1), s)
	require.Empty(t, logLines(t, output))
	a.runTimers(at.Add(10*time.Second-time.Hour), s)
	require.Len(t, logLines(t, output), 1)
}
