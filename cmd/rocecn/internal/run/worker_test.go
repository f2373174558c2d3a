package run

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/netio"
	"github.com/rocecn/rocecn/node"
	"github.com/stretchr/testify/require"
)

// prepared is an agent that discards all packets and has opened nothing.
func prepared(t *testing.T, config string) *server {
	t.Helper()
	f := wiretest.Must(parseFile([]byte(config)))(t)
	s := &server{log: slog.New(slog.NewTextHandler(io.Discard, nil)), wake: make(chan struct{}, 1), dry: true}
	require.NoError(t, s.applyFile(f, nil))
	return s
}

// No packet causes an allocation.
func TestNoAllocations(t *testing.T) {
	for role, keys := range everyRole {
		role, _, _ := strings.Cut(role, " ")
		s := prepared(t, `
[source.in]
type = "psample"
group = 1
levels = [10, 20]
[sink.out]
type = "raw"
per_second = 1000
[role.`+role+`]
enabled = true
sources = ["in"]
`+sinkOf(role)+keys)
		var packets []netio.Packet
		for _, r := range wiretest.Capture(t, "messages.pcap") {
			var p netio.Packet
			p.Data, p.OrigLen, p.Link = r.Data, uint32(len(r.Data)), capture.Ethernet
			p.Depth, p.DepthKnown, p.Egress = uint64(len(packets)), true, 3
			packets = append(packets, p)
		}
		require.Greater(t, len(packets), 20)
		w := &worker{server: s, parts: s.parts, actors: s.actors}
		now := time.Unix(1e9, 0)
		take := func() {
			now = now.Add(time.Second)
			for i := range packets {
				packets[i].Time = now
			}
			w.distributePackets(s.parts[0], packets, now)
		}
		take()
		require.Zero(t, testing.AllocsPerRun(20, take), role)
		a := s.actors[0]
		n := uint64(0)
		for i := range a.outcomes {
			n += a.outcomes[i].Load()
		}
		require.EqualValues(t, 22*len(packets), n)
		require.Equal(t, a.packets.Load() > 0, a.latency.Count() > 0, role)
	}
}

// A draining queue resumes stopped flows, with or without packets.
func TestLevelsOfQueues(t *testing.T) {
	s := prepared(t, readConfig("levels"))
	data := wiretest.Capture(t, "messages.pcap")[0].Data
	w := &worker{server: s, parts: s.parts, actors: s.actors}
	a := s.actors[0]
	now := time.Unix(1e9, 0)
	meets := func(queue int, depth uint64) {
		var p netio.Packet
		p.Data, p.OrigLen, p.Link, p.Time = data, uint32(len(data)), capture.Ethernet, now
		p.Depth, p.DepthKnown, p.Egress = depth, true, queue
		w.distributePackets(s.parts[0], []netio.Packet{p}, now)
	}
	resumed := func() uint64 { return a.Role.Counters().Load(node.Count{Effect: node.EffectResumed}) }
	meets(1, 999)
	require.Zero(t, a.packets.Load())
	meets(1, 1000)
	meets(2, 5000)
	require.EqualValues(t, 2, a.packets.Load())
	meets(1, 499)
	require.Zero(t, resumed()) // queue 2 is still long
	meets(2, 500)
	require.EqualValues(t, 3, a.packets.Load())
	meets(2, 499)
	require.EqualValues(t, 1, resumed())
	meets(2, 400)
	require.EqualValues(t, 1, resumed())

	meets(1, 1000)
	stale := now.Add(queueIdleTime + 1)
	for _, p := range s.parts {
		p.publishQueues(stale)
	}
	a.resumeFlows(w.highestLevel(a))
	require.EqualValues(t, 2, resumed())
}

// The queue of a removed interface is forgotten.
func TestQueueGone(t *testing.T) {
	const nobodys = 1 << 30
	now := time.Unix(1e9, 0)
	p := &part{levels: map[int]measured{nobodys: {at: now, level: 3, depth: 5}}, names: map[int]string{nobodys: "gone"}}
	p.publishQueues(now)
	require.Equal(t, []queue{{"gone", 3, 5}}, p.listQueues())
	p.publishQueues(now.Add(queueIdleTime + 1))
	require.Empty(t, p.listQueues())
}

// Lists of /status are lists also if they are empty.
func TestStatusOfNothing(t *testing.T) {
	for _, config := range []string{"", "[role.border]\nenabled = true\ninstall = \"nft\""} {
		text := wiretest.Must(json.Marshal(prepared(t, config).buildStatus()))(t)
		require.NotContains(t, string(text), "null")
	}
}

// Opening is retried after 250 ms, then at growing intervals without end.
func TestRetry(t *testing.T) {
	var r retry
	now := time.Unix(1e9, 0)
	for _, pause := range []time.Duration{250e6, 500e6, 1e9, 2e9, 3e9, 3e9, 3e9} {
		require.True(t, r.isDue(now))
		require.False(t, r.isDue(now.Add(pause-1)))
		now = now.Add(pause)
	}
}

// The reason why a source is not open is logged once, again if it changes, and again after it was open.
func TestWhyNotOpen(t *testing.T) {
	s := prepared(t, readConfig("paused")+everyRole["pause"])
	var output bytes.Buffer
	s.log = slog.New(slog.NewTextHandler(&output, nil))
	w, p := &worker{server: s, parts: s.parts, actors: s.actors}, s.parts[0]
	now := time.Unix(1e9, 0)
	lines := func(message string, beats int, err error) int {
		p.open = func() (netio.Source, error) {
			if err == nil {
				return &captureFile{}, nil
			}
			return nil, err
		}
		output.Reset()
		for range beats {
			now = now.Add(housekeepingInterval)
			w.maintainPart(p, now)
		}
		return strings.Count(output.String(), message)
	}
	require.Equal(t, 1, lines("source not open", 100, netio.ErrNoInterface))
	require.Equal(t, 1, lines("source not open", 100, netio.ErrDown))
	require.Zero(t, lines("source not open", 100, nil))
	require.True(t, w.handleSourceError(p, netio.ErrNoInterface))
	require.Contains(t, output.String(), "source lost")
	require.Zero(t, lines("source not open", 100, netio.ErrNoInterface),
		"it was logged that it is lost, with the reason")
	require.Equal(t, 1, lines("source is back", 100, nil))
	w.handleSourceError(p, netio.ErrNoInterface)
	require.Contains(t, output.String(), "source lost")
}

// Stopped flows are counted while they are stopped.
func TestStopped(t *testing.T) {
	s := prepared(t, readConfig("paused")+everyRole["pause"])
	w := &worker{server: s, parts: s.parts, actors: s.actors}
	now := time.Unix(1e9, 0)
	for _, r := range wiretest.Capture(t, "messages.pcap") {
		var p netio.Packet
		p.Data, p.OrigLen, p.Link, p.Time = r.Data, uint32(len(r.Data)), capture.Ethernet, now
		w.distributePackets(s.parts[0], []netio.Packet{p}, now)
	}
	s.actors[0].updateSizes(now)
	require.Contains(t, string(s.formatMetrics()), "\nrocecn_pause_stopped{role=\"pause\"} 1\n")
	require.Contains(t, string(s.formatMetrics()), "\nrocecn_role_effects_total{role=\"pause\",effect=\"stopped\"} 1\n")
	s.actors[0].runTimers(now.Add(time.Hour), s)
	require.Contains(t, string(s.formatMetrics()), "\nrocecn_pause_stopped{role=\"pause\"} 0\n")
}
