package congested_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/rocecn/rocecn/internal/wire"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/congested"
	"github.com/stretchr/testify/require"
)

// Each Fast CNP has a flow label of its own, which Seed determines.
func TestFlowLabels(t *testing.T) {
	labels := func(seed uint64) (all []uint32) {
		cfg := method(congested.MethodFastCNP)
		cfg.Seed = seed
		a := agent(t, cfg)
		for range 1000 {
			sent, _ := congest(a, nil, &event{Frame: data(t), Options: ip}, now)
			all = append(all, wire.FlowLabel(sent))
		}
		return all
	}
	first := labels(7)
	require.Equal(t, first, labels(7))
	require.NotContains(t, first, uint32(0))
	distinct := func(all []uint32) int { return len(slices.Compact(slices.Sorted(slices.Values(all)))) }
	require.Greater(t, distinct(first), 990)
	require.Greater(t, distinct(slices.Concat(first, labels(8), labels(0), labels(0))), 3950)
}

// A rejecting host, over the time. A host that rejects every Fast CNP gets one after Probe, and then after twice the
// time again and again, up to an hour. One that accepts the probe gets Fast CNPs again.
func TestProbes(t *testing.T) {
	cfg := method(congested.MethodFastCNP)
	cfg.Probe = 2 * time.Second
	a, e := agent(t, cfg), &event{Frame: data(t), Options: ip}
	at := func(s int) time.Time { return now.Add(time.Duration(s) * time.Second) }
	send := func(s int) []byte {
		out, d := congest(a, nil, e, at(s))
		require.Equal(t, len(out) > 0, d.Kind == message.KindFastCNP)
		require.True(t, d.MarkECN, "the capability is unknown or no")
		return out
	}
	list := func(s int) []congested.Rejection { return slices.Collect(a.Rejections(at(s))) }
	first, second, third := send(0), send(0), send(0)
	require.Equal(t, node.ReasonUnconfirmed, icmp(a, src6, problem(first), at(0)))
	require.Empty(t, list(0))
	require.Equal(t, node.NoReason, icmp(a, src6, problem(second), at(0)))
	next, wait := 2, 2
	for range 20 {
		require.Equal(t, []congested.Rejection{{Host: src6, Since: at(0), NextProbe: at(next)}}, list(next-1))
		require.Empty(t, send(next-1), next)
		probe := send(next)
		require.NotEmpty(t, probe, next)
		require.Empty(t, send(next), "one probe")
		require.Equal(t, []congested.Rejection{{Host: src6, Since: at(0)}}, list(next))
		if next == 2 {
			require.Equal(t, node.NoReason, icmp(a, src6, problem(third), at(next)))
			require.Empty(t, send(next), "sent before the probe: it changes nothing")
		}
		require.Equal(t, node.NoReason, icmp(a, src6, problem(probe), at(next)))
		require.Empty(t, send(next+1))
		wait = min(2*wait, 3600)
		next += wait
	}
	require.NotEmpty(t, send(next))
	require.Empty(t, send(next+1), "the host may still reject the probe")
	require.Len(t, list(next+1), 1)
	require.Empty(t, list(next+2), "it has accepted the probe")
	require.NotEmpty(t, send(next+2))
	require.Empty(t, list(next+2))
	require.Equal(t, node.ReasonUnconfirmed, icmp(a, src6, problem(send(next+3)), at(next+3)), "from the start")
}

// A limit that withholds the probe leaves it due.
func TestProbeLimited(t *testing.T) {
	cfg := method(congested.MethodFastCNP)
	a, e := agent(t, cfg), &event{Frame: data(t), Options: ip}
	for _, reason := range []node.Reason{node.ReasonUnconfirmed, node.NoReason} {
		sent, _ := congest(a, nil, e, now)
		require.Equal(t, reason, icmp(a, src6, problem(sent), now))
	}
	cfg.PerFlow = [8]time.Duration{3 * time.Second}
	require.NoError(t, a.Configure(cfg))
	sender, _ := congest(a, nil, e, now.Add(time.Second))
	require.True(t, len(sender) > 0, "PerFlow is new: no flow has been notified")
	require.Equal(t, node.NoReason, icmp(a, src6, problem(sender), now.Add(time.Second)))
	_, d := congest(a, nil, e, now.Add(3*time.Second))
	require.Equal(t, decision{Packet: message.KindData, Reason: node.ReasonLimited, MarkECN: true}, d)
	sender, _ = congest(a, nil, e, now.Add(4*time.Second))
	require.NotEmpty(t, sender)
}

// A program that sends for the node can probe a host as well.
func TestRecordProbe(t *testing.T) {
	a, e := agent(t, method(congested.MethodFastCNP)), &event{Frame: data(t), Options: ip}
	sent, _ := congest(a, nil, e, now)
	another, _ := congest(a, nil, e, now)
	require.Equal(t, node.ReasonUnconfirmed, icmp(a, src6, problem(sent), now))
	require.Equal(t, node.NoReason, icmp(a, src6, problem(another), now))
	later := now.Add(time.Second)
	a.RecordProbe(src6, 0, later)
	a.RecordProbe(dst6, 0, later) // has not rejected anything
	require.Equal(t, []congested.Rejection{{Host: src6, Since: now}}, slices.Collect(a.Rejections(later)))
	a.RecordSent(sent, 0, later)
	require.Equal(t, node.NoReason, icmp(a, src6, problem(sent), later))
	require.Equal(t, []congested.Rejection{{Host: src6, Since: now, NextProbe: now.Add(3 * time.Second)}},
		slices.Collect(a.Rejections(later)))
	(&congested.Role{}).RecordProbe(src6, 0, now)
	require.Empty(t, slices.Collect((&congested.Role{}).Rejections(now)))
}

// No rejection overrides a configured capability.
func TestConfiguredCapability(t *testing.T) {
	for _, c := range []congested.Capability{congested.CapabilityUnknown, congested.Capable, congested.Incapable} {
		t.Run(c.String(), func(t *testing.T) {
			cfg := method(congested.MethodFastCNP)
			sender := agent(t, cfg)
			cfg.Capable = capable(c)
			a, e := agent(t, cfg), &event{Frame: data(t), Options: ip}
			_, before := congest(a, nil, e, now)
			want := []node.Reason{node.ReasonDenied, node.ReasonDenied}
			if c == congested.CapabilityUnknown {
				want = []node.Reason{node.ReasonUnconfirmed, node.NoReason}
			}
			for _, reason := range want {
				sent, _ := congest(sender, nil, e, now)
				a.RecordSent(sent, 0, now)
				require.Equal(t, reason, icmp(a, src6, problem(sent), now))
			}
			_, after := congest(a, nil, e, now)
			require.Equal(t, c == congested.CapabilityUnknown, before != after)
		})
	}
}

// A second rejection counts within a minute of the first.
func TestUnconfirmedExpires(t *testing.T) {
	for _, c := range []struct {
		after time.Duration
		want  node.Reason
	}{{0, node.NoReason}, {time.Minute - 1, node.NoReason}, {time.Minute, node.ReasonUnconfirmed}} {
		t.Run(c.after.String(), func(t *testing.T) {
			a, e := agent(t, method(congested.MethodFastCNP)), &event{Frame: data(t), Options: ip}
			sent, _ := congest(a, nil, e, now)
			require.Equal(t, node.ReasonUnconfirmed, icmp(a, src6, problem(sent), now))
			sent, _ = congest(a, nil, e, now.Add(c.after))
			require.Equal(t, c.want, icmp(a, src6, problem(sent), now.Add(c.after)))
		})
	}
}

// A blind forger knows everything of a Fast CNP but its flow label, and sends a rejection each second for 5,000 s, to a
// switch that sends 200 Fast CNPs a second about the flow. At least 99.9 % of the packets are still answered by a Fast
// CNP.
func TestBlindRejections(t *testing.T) {
	wiretest.Alone(t)
	seeds := uint64(2)
	if wiretest.Long() {
		seeds = 4
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 49))
			cfg := method(congested.MethodFastCNP)
			cfg.Seed = seed + 1
			a, e := agent(t, cfg), &event{Frame: data(t), Options: ip}
			forged, _ := congest(agent(t, cfg), nil, e, now)
			forged = problem(forged)
			answered, buf := 0, []byte(nil)
			const packets = 1_000_000
			for i := range packets {
				at := now.Add(time.Duration(i) * 5 * time.Millisecond)
				var d decision
				buf, d = congest(a, buf[:0], e, at)
				if d.Kind == message.KindFastCNP {
					answered++
				}
				if i%200 != 0 {
					continue
				}
				label := random.Uint32N(1 << 20)
				forged[9], forged[10], forged[11] = uint8(label>>16), uint8(label>>8), uint8(label)
				icmp(a, src6, forged, at)
			}
			require.Greater(t, answered, packets*999/1000)
		})
	}
}

// Rejections costs nothing to a loop that ends early, and allocates nothing for each host.
func TestRejectionsOfMany(t *testing.T) {
	cfg := method(congested.MethodFastCNP)
	cfg.MaxRejected = 16
	a, e := agent(t, cfg), &event{Frame: data(t), Options: ip}
	for i := range 100 {
		e.Frame[23] = uint8(i)
		for range 2 {
			sent, d := congest(a, nil, e, now)
			icmp(a, d.To, problem(sent), now)
		}
	}
	require.Len(t, slices.Collect(a.Rejections(now)), 16)
	wiretest.NoAllocs(t, "Rejections", func() {
		for range a.Rejections(now) {
			break
		}
	})
}

// A host has 1 s to 5 s for the rejection of a probe with any Config.Probe: a later error is not believed, and none can
// come before the time of a round trip.
func TestProbeAnswerTime(t *testing.T) {
	for _, c := range []struct{ probe, within time.Duration }{
		{time.Nanosecond, time.Second}, {3 * time.Second, 3 * time.Second}, {time.Hour, 5 * time.Second},
	} {
		t.Run(c.probe.String(), func(t *testing.T) {
			cfg := method(congested.MethodFastCNP)
			cfg.Probe = c.probe
			a, e := agent(t, cfg), &event{Frame: data(t), Options: ip}
			for _, reason := range []node.Reason{node.ReasonUnconfirmed, node.NoReason} {
				sent, _ := congest(a, nil, e, now)
				require.Equal(t, reason, icmp(a, src6, problem(sent), now))
			}
			at := now.Add(c.probe)
			probe, _ := congest(a, nil, e, at)
			require.NotEmpty(t, probe)
			sent, _ := congest(a, nil, e, at.Add(c.within-1))
			require.Empty(t, sent)
			sent, _ = congest(a, nil, e, at.Add(c.within))
			require.NotEmpty(t, sent)
		})
	}
}

// A host that has rejected Fast CNPs counts by its configured capability as soon as there is one: Rejections, which the
// kernel's switch follows, has it no longer.
func TestCapabilityConfiguredLater(t *testing.T) {
	for _, c := range []congested.Capability{congested.CapabilityUnknown, congested.Capable, congested.Incapable} {
		t.Run(c.String(), func(t *testing.T) {
			cfg := method(congested.MethodFastCNP)
			a, e := agent(t, cfg), &event{Frame: data(t), Options: ip}
			for range 2 {
				sent, _ := congest(a, nil, e, now)
				icmp(a, src6, problem(sent), now)
			}
			require.Len(t, slices.Collect(a.Rejections(now)), 1)
			cfg.Capable = capable(c)
			require.NoError(t, a.Configure(cfg))
			want := map[congested.Capability]int{congested.CapabilityUnknown: 1}[c]
			require.Len(t, slices.Collect(a.Rejections(now)), want)
			sent, _ := congest(a, nil, e, now)
			require.Equal(t, c == congested.Capable, len(sent) > 0)
		})
	}
}
