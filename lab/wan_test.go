package lab

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/rocecn/rocecn/encap"
	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/fcn"
	"github.com/rocecn/rocecn/internal/wire"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/lab/sim"
	"github.com/rocecn/rocecn/node/congested"
	"github.com/rocecn/rocecn/node/pause"
	"github.com/rocecn/rocecn/node/reaction"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

// wan is hosts, a switch, PE, router, PE, a switch, as many hosts; the link after the router is slow.
func wan(cfg Config, hosts int, slow sim.Rate, delay sim.Time) (*Network, *Port) {
	n := must(New(cfg))
	leaf := []*Switch{n.Switch(), n.Switch()}
	pe, router := []*Switch{n.PE(), n.PE()}, n.Router()
	for _, s := range leaf {
		for range hosts {
			n.Link(n.Host(), s, 100*sim.Gbps, µs)
		}
	}
	n.Link(leaf[0], pe[0], 400*sim.Gbps, µs)
	n.Link(pe[0], router, 400*sim.Gbps, delay)
	out, _ := n.Link(router, pe[1], slow, delay)
	n.Link(pe[1], leaf[1], 400*sim.Gbps, µs)
	for i := range hosts {
		n.RunAt(sim.Time(i)*100*sim.Nanosecond, must(n.Flow(n.Hosts()[i], n.Hosts()[hosts+i], 0)).Endless)
	}
	return n, out
}

// The router names the label that the ingress PE gave the flow, the PE finds the
// flow, and its sender gets the CNP: before any mark could have come back.
func TestFCN(t *testing.T) {
	wiretest.Alone(t)
	first := map[Variant]sim.Time{}
	for _, v := range []Variant{CNP, FCN, FastCNP} {
		cfg := dcqcn(v)
		cfg.EdgeDelay = µs
		n, _ := wan(cfg, 2, 100*sim.Gbps, 100*µs)
		n.Until(2 * ms)
		require.NoError(t, n.Check())
		c := n.Counts()
		require.Equal(t, v == FCN, c.FCNs > 0, v)
		require.Zero(t, c.Unlabeled)
		first[v] = sim.Never
		for _, f := range n.Flows() {
			first[v] = min(first[v], f.FirstCut()-c.Onset)
		}
		if v != FCN {
			continue
		}
		require.Zero(t, c.Marked, "the router marks nothing, and no other node is congested")
		require.InDelta(t, c.FCNs, c.CNPs, 8, "one for each, but those on their way")
		labels := map[uint32]bool{}
		for _, f := range n.Flows() {
			require.False(t, labels[f.label.label], "a label of its own")
			labels[f.label.label] = true
		}
		require.Equal(t, 2, n.Switches()[2].role.pe.Len())
	}
	// To the PE and its host, and with the CNP of a receiver there and back again.
	require.InDelta(t, float64(105*µs), float64(first[FCN]), float64(µs)/10)
	require.InDelta(t, float64(first[FCN]+2*100*µs+5*µs), float64(first[CNP]), float64(2*µs))
	require.Less(t, first[FastCNP], first[FCN])
}

// A node of the WAN sees the packet in the tunnel: another decoder finds in it the octets that were put in.
func TestTunnelOctets(t *testing.T) {
	cfg := dcqcn(FCN)
	n, _ := wan(cfg, 1, 100*sim.Gbps, µs)
	n.Until(20 * µs)
	n.Flows()[0].psn = 0xFFFFFF
	r, k := n.pool.get()
	defer n.pool.release(r)
	*k = packet{kind: data, flow: 0, number: 77, ce: true, ingress: 2, egress: 3, label: 0xABCDE,
		octets: overhead + 1024 + tunnelOctets}
	octets := n.encodeWire(r, k)
	require.Len(t, octets, overhead+1024+tunnelOctets-wire.EthernetSize-frameCheck)
	require.Equal(t, []byte{0x66, 0xBA, 0xBC, 0xDE}, octets[:4], "version, DSCP 26 and CE, the label")
	require.EqualValues(t, 41, octets[6])
	require.Equal(t, n.Switches()[2].role.addr.AsSlice(), octets[8:24])
	require.Equal(t, n.Switches()[3].role.addr.AsSlice(), octets[24:40])
	var p rocev2.Packet
	require.NoError(t, p.Decode(octets, rocev2.DecodeOptions{Link: rocev2.LinkIP}))
	_, err := p.VerifyICRC()
	require.NoError(t, err)
	require.EqualValues(t, 76, p.BTH.PSN, "the 77th after 0xffffff")
	require.Len(t, p.Outer, 40)
	require.Equal(t, 40, (&encap.IPInIPv6{}).Overhead())
	require.EqualValues(t, fcn.MaxFlowLabel, 1<<20-1)
}

// An ingress PE that has labels for two flows of three: no flow is cut because of packets without a label, and the sums
// are right.
func TestFewLabels(t *testing.T) {
	wiretest.Alone(t)
	cfg := dcqcn(FCN)
	cfg.Labels = 2
	n, _ := wan(cfg, 3, 100*sim.Gbps, 10*µs)
	n.Until(2 * ms)
	require.NoError(t, n.Check())
	c := n.Counts()
	require.Positive(t, c.Unlabeled)
	require.Positive(t, c.Refused)
	cut := 0
	for _, f := range n.Flows() {
		if f.FirstCut() != sim.Never {
			cut++
		}
	}
	require.Equal(t, 2, cut)
}

// Congestion at the ingress PE itself: it sends the CNP, without an FCN.
func TestCongestedPE(t *testing.T) {
	wiretest.Alone(t)
	cfg := dcqcn(FCN)
	n := must(New(cfg))
	leaf, pe, router, far := n.Switch(), n.PE(), n.Router(), n.PE()
	for range 4 {
		n.Link(n.Host(), leaf, 100*sim.Gbps, µs)
	}
	n.Link(leaf, pe, 400*sim.Gbps, µs)
	n.Link(pe, router, 100*sim.Gbps, 10*µs)
	n.Link(router, far, 400*sim.Gbps, 10*µs)
	n.Link(n.Host(), far, 400*sim.Gbps, µs)
	for _, h := range n.Hosts()[:4] {
		must(n.Flow(h, n.Hosts()[4], 0)).Endless()
	}
	n.Until(ms)
	require.NoError(t, n.Check())
	c := n.Counts()
	require.Zero(t, c.FCNs+c.Marked)
	require.Positive(t, c.CNPs)
	require.EqualValues(t, c.CNPs, c.Notified)
}

// A stop of some time is a gap of that time in the flow that it names, and in no
// other; a flow that is held goes no faster, and both are over by themselves.
func TestBrake(t *testing.T) {
	n, _ := star(dcqcn(None), 1, 100*sim.Gbps, µs)
	a := must(n.Flow(n.Hosts()[0], n.Hosts()[1], 20e9))
	b := must(n.Flow(n.Hosts()[0], n.Hosts()[1], 20e9))
	a.Endless()
	b.Endless()
	last := map[*Flow]sim.Time{}
	gap := map[*Flow]sim.Time{}
	n.Delivered = func(f *Flow, sent sim.Time) {
		if was, ok := last[f]; ok {
			gap[f] = max(gap[f], sent-was)
		}
		last[f] = sent
	}
	const stop = 300 * µs
	space := (20 * sim.Gbps).Time(1024 + overhead + 20)
	n.RunAt(100*µs, func() { a.applyPause(pause.StateStopped, (100*µs + stop).Clock()) })
	n.Until(ms)
	require.NoError(t, n.Check())
	require.GreaterOrEqual(t, gap[a], stop)
	require.LessOrEqual(t, gap[a], stop+space)
	require.LessOrEqual(t, gap[b], 2*space)
	require.Equal(t, 20*sim.Gbps, a.Rate())

	// Stopped for ever, and then let go on.
	n.RunAt(1100*µs, func() { a.applyPause(pause.StateStopped, sim.Second.Clock()) })
	n.RunAt(1200*µs, func() { a.applyPause(pause.StateRunning, time.Time{}) })
	n.Until(2 * ms)
	require.InDelta(t, float64(b.Octets())-20e9/8*(stop+100*µs).Seconds(), float64(a.Octets()), 100_000)

	// Held at half the rate: the rate that the reaction point returns counts after the hold.
	a.applyPause(pause.StateHeld, (3 * ms).Clock())
	require.Equal(t, 20*sim.Gbps, a.Rate())
	require.Len(t, n.Hosts()[0].due.heap, 2, "each flow once")
}

// With PPFC alone the queue stays near its thresholds, nothing is lost, and flows that do not pass the congested port
// continue; a lost resume costs no more than the pause.
func TestPPFC(t *testing.T) {
	wiretest.Alone(t)
	run := func(change func(*Config)) (*Network, *Port) {
		cfg := dcqcn(PPFC)
		cfg.Pausing = pausing()
		change(&cfg)
		n, out := incast(cfg, 8, 100*sim.Gbps, µs)
		n.Until(5 * ms)
		require.NoError(t, n.Check())
		return n, out
	}
	n, out := run(func(*Config) {})
	require.Less(t, out.Most(), int64(4_000_000))
	require.Greater(t, float64(out.Sent()), 0.8*float64((100*sim.Gbps).Octets(5*ms)))
	c := n.Counts()
	require.Positive(t, c.Released)
	require.Zero(t, c.Notified)
	for _, f := range n.Flows() {
		require.Equal(t, 100*sim.Gbps, sim.Rate(f.cc.Rate()), "no rate was cut")
	}

	// Alarms alone change nothing.
	n, _ = run(func(c *Config) { c.Pausing.From = congested.PauseFrom{Alarm: 1} })
	require.Positive(t, n.Counts().PPFCs)
	for _, f := range n.Flows() {
		require.Equal(t, sim.Never, f.FirstCut())
	}
}

// The trace that a sender reads out of a Fast CNP has the records of the ports, with the congested node's own record
// first if the node adds one.
func TestTrace(t *testing.T) {
	for _, v := range []Variant{HPCCFastCNP, HPCCFastCNPOwn, HPCCBoth} {
		cfg := dcqcn(v)
		cfg.HPCC = hpccOf(20 * time.Microsecond)
		n := must(New(cfg))
		var at Node = n.Switch()
		n.Link(n.Host(), at, 100*sim.Gbps, µs)
		n.Link(n.Host(), at, 100*sim.Gbps, µs)
		for range 2 {
			next := n.Switch()
			n.Link(at, next, 400*sim.Gbps, µs)
			at = next
		}
		n.Link(at, n.Host(), 50*sim.Gbps, µs)
		for _, h := range n.Hosts()[:2] {
			must(n.Flow(h, n.Hosts()[2], 0)).Endless()
		}
		seen := 0
		for n.Sim.Now() < 200*µs {
			n.Until(n.Sim.Now() + 100*sim.Nanosecond)
			for _, h := range n.Hosts()[:2] {
				for w := range h.port.peer.wire.n {
					wire := &h.port.peer.wire
					k := n.pool.packetAt(wire.ring[(wire.head+w)&(len(wire.ring)-1)].r)
					if k.kind != message {
						continue
					}
					var p rocev2.Packet
					require.NoError(t, p.Decode(n.pool.octets(k), rocev2.DecodeOptions{Link: rocev2.LinkIP}))
					notice := wiretest.Must(fastcnp.FromPacket(&p, fastcnp.CodePoints{}))(t)
					trace := notice.Option.Trace
					hops := reaction.Hops(nil, &trace, 0, n.recordBandwidth)
					want := 2
					if v != HPCCFastCNP {
						want = 3
						require.Equal(t, uint64(50e9), hops[0].B)
						require.GreaterOrEqual(t, hops[0].QLen, uint64(100_000))
					}
					require.Len(t, hops, want)
					require.Equal(t, uint64(400e9), hops[len(hops)-1].B)
					require.LessOrEqual(t, hops[len(hops)-1].TS, hops[0].TS)
					seen++
				}
			}
		}
		require.Positive(t, seen)
	}
}

// The octets of a trace take time on each link. By hand: a Hop-by-Hop header has 2 octets, padding 2, the option 4 and
// the trace 8 (RFC 9197, RFC 9486); a record has 20 octets, and 28 with the octets sent; the sum is a multiple of 8.
func TestTraceTakesTime(t *testing.T) {
	for _, c := range []struct {
		variant Variant
		hops    int
		octets  int64
	}{{HPCC, 1, 48}, {HPCC, 0, 160}, {HPCC, 8, 240}, {HPCCFastCNP, 1, 40}, {HPCCFastCNP, 5, 120}, {HPCCBoth, 2, 72}} {
		t.Run(fmt.Sprintf("%v, %d", c.variant, c.hops), func(t *testing.T) {
			cfg := dcqcn(c.variant)
			cfg.HPCC, cfg.TraceHops, cfg.Pipeline = hpccOf(20*time.Microsecond), c.hops, 0
			n := must(New(cfg))
			s := n.Switch()
			for range 2 {
				n.Link(n.Host(), s, 100*sim.Gbps, µs)
			}
			var arrived sim.Time
			n.Delivered = func(*Flow, sim.Time) { arrived = n.Sim.Now() }
			must(n.Flow(n.Hosts()[0], n.Hosts()[1], 0)).Post(100)
			n.Until(10 * µs)
			wire := 82 + c.octets + 100 + 20 // with the gap between frames; an octet takes 80 ps
			require.Equal(t, 2*(µs+sim.Time(80*wire)), arrived)
		})
	}
}

// One path of a fat tree's kind for each five-tuple: the packets of a flow stay in order,
// and many flows are spread over all ways.
func TestSpread(t *testing.T) {
	n := must(New(Config{DataPriority: 3, AckPriority: 6, AckEvery: 1}))
	a, b := n.Switch(), n.Switch()
	from, to := n.Host(), n.Host()
	n.Link(from, a, 400*sim.Gbps, µs)
	n.Link(to, b, 400*sim.Gbps, µs)
	for range 4 {
		s := n.Switch()
		n.Link(a, s, 100*sim.Gbps, µs)
		n.Link(s, b, 100*sim.Gbps, µs)
	}
	for range 400 {
		must(n.Flow(from, to, sim.Gbps)).Post(100_000)
	}
	n.Until(5 * ms)
	require.NoError(t, n.Check())
	for _, p := range a.ports[1:] {
		require.InDelta(t, 400*100*1106/4, float64(p.Sent()), 400*100*1106/10)
	}
}

// The buffer: a queue's own limit, the switch's own packets, the pool of headroom and the reserve of a port are all
// accounted for.
func TestBuffers(t *testing.T) {
	cfg := dcqcn(FastCNP)
	cfg.Buffer = Buffer{Total: 1_000_000, Alpha: 1, Queue: 150_000}
	n, out := incast(cfg, 8, 100*sim.Gbps, µs)
	n.Until(ms)
	require.NoError(t, n.Check())
	require.LessOrEqual(t, out.Most(), int64(150_000))
	require.Greater(t, out.Most(), int64(148_000))
	require.Positive(t, n.Counts().LostData)

	// XOFF of 50 KB a port, and a reserve of a frame: nothing is lost with room enough.
	cfg = dcqcn(None)
	cfg.PauseDelay = 500 * sim.Nanosecond
	cfg.Buffer = Buffer{Total: 10_000_000, Alpha: 1, PFC: true, XOFF: 50_000, XON: 3000, Headroom: 60_000,
		Reserve: 4096}
	n, _ = incast(cfg, 8, 100*sim.Gbps, µs)
	n.Until(ms)
	require.NoError(t, n.Check())
	require.Zero(t, n.Counts().Lost)
	needed := n.Switches()[0].Headroom()
	require.Positive(t, needed)
	reserved := int64(0)
	for _, p := range n.Switches()[0].ports {
		reserved += p.in.own
		require.LessOrEqual(t, p.in.own, int64(4096))
	}
	require.Positive(t, reserved)

	// A pool that is smaller than the sum of the headroom of all ports loses packets.
	cfg.Buffer.Pool = 2 * needed
	n, _ = incast(cfg, 8, 100*sim.Gbps, µs)
	n.Until(ms)
	require.NoError(t, n.Check())
	require.Positive(t, n.Counts().LostData)
	require.LessOrEqual(t, n.Switches()[0].over, cfg.Buffer.Pool)
}

// A neighbour that is over its limit is paused even if there is no headroom for its packets: it loses the packets on
// their way, and no more. A neighbour without waiting packets is not paused, as none would leave to resume it.
func TestPauseWithoutHeadroom(t *testing.T) {
	cfg := dcqcn(None)
	cfg.Timeout = 100 * µs
	cfg.Buffer = Buffer{Total: 1_000_000, Alpha: 0.125, PFC: true, Headroom: 1000}
	n, _ := star(cfg, 8, 100*sim.Gbps, µs)
	for _, h := range n.Hosts()[:8] {
		must(n.Flow(h, n.Hosts()[8], 0)).Post(200_000)
	}
	n.Until(10 * ms)
	require.NoError(t, n.Check())
	c := n.Counts()
	require.Positive(t, c.LostData)
	require.Greater(t, c.Pauses, c.LostData/100, "some packets are on their way at each")
	require.Equal(t, c.Pauses, c.Resumes)
	require.Zero(t, n.pool.used, "all have ended")

	s, in := n.Switches()[0], n.Switches()[0].Ports()[0]
	s.used = cfg.Buffer.Total // by packets of others
	require.False(t, s.admitPacket(in, &queue{}, &packet{kind: data, prio: cfg.DataPriority, octets: 1106}))
	require.False(t, in.in.off)
}

// Limits of a switch and of a host: no more notifications than they allow.
func TestLimits(t *testing.T) {
	wiretest.Alone(t)
	for _, v := range []Variant{CNP, FastCNP} {
		cfg := dcqcn(v)
		cfg.SwitchLimit.PerSecond, cfg.HostLimit.PerSecond = 10_000, 20_000
		n, _ := incast(cfg, 8, 100*sim.Gbps, µs)
		n.Until(5 * ms)
		c := n.Counts()
		require.InDelta(t, map[Variant]float64{CNP: 100, FastCNP: 50}[v], float64(c.CNPs+c.FastCNPs), 2, v)
		require.Positive(t, c.Refused)
	}
}

// Of notifications that are lost half of those that were made arrive; a stop without its
// resume is over when its time is.
func TestNoticeLoss(t *testing.T) {
	wiretest.Alone(t)
	cfg := dcqcn(FastCNP)
	cfg.NoticeLoss = 0.5
	n, _ := incast(cfg, 8, 100*sim.Gbps, µs)
	n.Until(10 * ms)
	require.NoError(t, n.Check())
	c := n.Counts()
	require.Greater(t, c.FastCNPs, uint64(100))
	require.InEpsilon(t, 0.5, float64(c.Notified)/float64(c.FastCNPs), 0.2)
	require.EqualValues(t, c.Lost, c.FastCNPs-c.Notified)
	require.Zero(t, c.LostData)

	cfg = dcqcn(PPFC)
	cfg.NoticeLoss, cfg.Pausing = 0.3, pausing()
	cfg.Pausing.For = 50 * time.Microsecond
	n, out := incast(cfg, 8, 100*sim.Gbps, µs)
	n.Until(5 * ms)
	require.NoError(t, n.Check())
	sent := out.Sent()
	n.Until(10 * ms)
	require.Greater(t, float64(out.Sent()-sent), 0.5*float64((100*sim.Gbps).Octets(5*ms)))
}

// A link of the WAN is equivalent to two of half its delay with a router between them that takes next to no time. An
// FCN that is made, carried and translated without delay is equivalent to an oracle.
func TestSplitWAN(t *testing.T) {
	wiretest.Alone(t)
	build := func(v Variant, split bool, delay sim.Time) (*Network, *Port) {
		cfg := dcqcn(v)
		if delay == 0 {
			cfg.SwitchDelay, cfg.SenderDelay = 0, 0
		}
		n := must(New(cfg))
		pe, router, far := n.PE(), n.Router(), n.PE()
		for range 2 {
			n.LinkUneven(n.Host(), pe, 100*sim.Gbps, µs, delay)
		}
		if split {
			between := n.Router()
			n.LinkUneven(pe, between, 400*sim.Gbps, 5*µs, delay/2)
			n.LinkUneven(between, router, 400_000*sim.Gbps, 5*µs, delay/2)
		} else {
			n.LinkUneven(pe, router, 400*sim.Gbps, 10*µs, delay)
		}
		out, _ := n.Link(router, far, 100*sim.Gbps, 10*µs)
		n.Link(n.Host(), far, 400*sim.Gbps, µs)
		for i, h := range n.Hosts()[:2] {
			n.RunAt(sim.Time(i)*100*sim.Nanosecond, must(n.Flow(h, n.Hosts()[2], 0)).Endless)
		}
		return n, out
	}
	n1, out1 := build(FCN, false, 10*µs)
	n2, out2 := build(FCN, true, 10*µs)
	peak1, sent1, c1 := measured(t, n1, out1, 4*ms)
	peak2, sent2, c2 := measured(t, n2, out2, 4*ms)
	require.InEpsilon(t, peak1, peak2, 0.01)
	require.InEpsilon(t, sent1, sent2, 0.01)
	require.InDelta(t, c1.FCNs, c2.FCNs, 2)

	n1, out1 = build(FCN, false, 0)
	n2, out2 = build(Oracle, false, 0)
	peak1, sent1, _ = measured(t, n1, out1, 4*ms)
	peak2, sent2, _ = measured(t, n2, out2, 4*ms)
	require.InEpsilon(t, peak1, peak2, 0.01)
	require.InEpsilon(t, sent1, sent2, 0.01)
}

// A proxy or a PE that knows no queue pairs is silent until three acknowledgements of a flow have told it: from then on
// it answers as one that knows all, and never about another flow.
func TestCold(t *testing.T) {
	wiretest.Alone(t)
	for _, v := range []Variant{Proxy, FCN} {
		run := func(cold bool) *Network {
			cfg := dcqcn(v)
			cfg.Cold = cold
			n, _ := wan(cfg, 3, 100*sim.Gbps, 10*µs)
			mirrorProxy := n.Switch() // a proxy that receives the passing packets from a mirror
			n.Link(n.Switches()[0], mirrorProxy, 100*sim.Gbps, µs)
			n.ProxyAt(n.Switches()[0], mirrorProxy)
			n.Until(5 * ms)
			require.NoError(t, n.Check())
			return n
		}
		known, cold := run(false), run(true)
		require.Zero(t, known.Counts().Unlearned)
		c := cold.Counts()
		require.Positive(t, c.Unlearned, v)
		require.InDelta(t, c.CNPs, c.Notified, 6, "%v: no host rejects a packet sent to it", v)
		require.InDelta(t, c.Proxied+c.FCNs, c.CNPs+c.Unlearned, 10, "%v: one answer each, but those on their way", v)
		require.Greater(t, c.CNPs, 5*c.Unlearned, "%v: in the end it knows all", v)
		requireLearned(t, v, known, cold)
	}
}

// requireLearned asserts that flows were told of congestion, but no sooner than three of their acknowledgements could
// have told of their queue pairs.
func requireLearned(t *testing.T, v Variant, known, cold *Network) {
	t.Helper()
	third := 3 * 16 * (100 * sim.Gbps).Time(1024+overhead+gap) // the third acknowledgement's packet has left
	for i, f := range cold.Flows() {
		require.Greater(t, f.FirstCut(), known.Flows()[i].FirstCut(), v)
		require.Greater(t, f.FirstCut(), third+2*23*µs, "%v: there and back", v)
		require.Less(t, f.FirstCut(), sim.Never, v)
	}
}

// Hosts that know no queue pairs learn them from the third acknowledgement of a flow: until then a receiver sends no
// CNP about it, and a sender takes no Fast CNP for it.
func TestColdHosts(t *testing.T) {
	wiretest.Alone(t)
	for _, v := range []Variant{CNP, FastCNP} {
		run := func(cold bool) *Network {
			cfg := dcqcn(v)
			cfg.ColdHosts = cold
			n, _ := wan(cfg, 3, 100*sim.Gbps, 10*µs)
			n.Until(5 * ms)
			require.NoError(t, n.Check())
			return n
		}
		known, cold := run(false), run(true)
		require.Zero(t, known.Counts().Unlearned, v)
		c := cold.Counts()
		require.Positive(t, c.Unlearned, v)
		require.Positive(t, c.Notified, v)
		requireLearned(t, v, known, cold)
	}
}

// The octets of an acknowledgement are those that a host sends: IBTA section 9.7.5, by hand.
func TestAckOctets(t *testing.T) {
	n, _ := wan(dcqcn(None), 1, 100*sim.Gbps, µs)
	n.Until(0)
	f := n.Flows()[0]
	f.psn = 0xFFFFF0
	for _, c := range []struct {
		k        packet
		syndrome byte
		psn      []byte
	}{
		{packet{kind: ack, number: 0x21}, 0x1F, []byte{0, 0, 0x10}},
		{packet{kind: nak, number: 0x21}, 0x60, []byte{0, 0, 0x11}},
	} {
		c.k.egress = -1
		octets := n.encodePacket(0, &c.k)
		require.Len(t, octets, n.ackHead-wire.EthernetSize-frameCheck)
		require.Equal(t, f.dst.role.addr.AsSlice(), octets[8:24])
		require.Equal(t, f.src.role.addr.AsSlice(), octets[24:40])
		require.Equal(t, []byte{0x11, 0, 0xFF, 0xFF, 0, 0, 0, 2, 0}, octets[48:57], "acknowledgement, to queue pair 2")
		require.Equal(t, c.psn, octets[57:60])
		require.Equal(t, []byte{c.syndrome, 0, 0, 0}, octets[60:64])
		var p rocev2.Packet
		require.NoError(t, p.Decode(octets, rocev2.DecodeOptions{Link: rocev2.LinkIP}))
		_, err := p.VerifyICRC()
		require.NoError(t, err)
	}
}

// Routers send PPFCs to the ingress PE, which stores the packets of stopped flows, and senders are not notified: the
// router's queue stays near its thresholds, nothing is lost or out of order, and at the end all packets arrive. With
// PFC and a limited buffer the PE pauses its neighbours.
func TestPausingPE(t *testing.T) {
	wiretest.Alone(t)
	run := func(change func(*Config)) (*Network, *Port) {
		cfg := dcqcn(PPFC)
		cfg.Pausing, cfg.EdgeDelay, cfg.Timeout = pausing(), µs, 0
		cfg.Pausing.Ingress = true
		change(&cfg)
		n := must(New(cfg))
		leaf, pe, router, far := n.Switch(), n.PE(), n.Router(), n.PE()
		for range 3 {
			n.Link(n.Host(), leaf, 100*sim.Gbps, µs)
		}
		n.Link(leaf, pe, 400*sim.Gbps, µs)
		n.Link(pe, router, 400*sim.Gbps, 10*µs)
		out, _ := n.Link(router, far, 100*sim.Gbps, 10*µs)
		to := n.Host()
		n.Link(to, far, 400*sim.Gbps, µs)
		for i, h := range n.Hosts()[:3] {
			f := must(n.Flow(h, to, 0))
			n.RunAt(sim.Time(i)*100*sim.Nanosecond, func() { f.Post(20_000_000) })
		}
		return n, out
	}
	for _, level := range []congested.PauseFrom{{Stop: 1}, {Hold: 1, Stop: 2}, {Hold: 1}} {
		n, out := run(func(cfg *Config) { cfg.Pausing.From = level })
		n.Until(3 * ms)
		require.NoError(t, n.Check())
		c := n.Counts()
		require.Positive(t, c.PPFCs)
		require.InDelta(t, c.PPFCs+c.Released, c.Braked, 30, "except those in flight")
		require.Equal(t, level.Stop > 0, n.Switches()[1].Stored() > 10_000_000, "%+v: the hosts go on", level)
		require.Equal(t, level.Stop == 0, out.Most() > 4_000_000, "%+v: a hold keeps the excess", level)
		for _, f := range n.Flows() {
			require.Zero(t, f.brake, "no node notifies the senders")
			require.Less(t, f.FirstCut(), 200*µs)
		}
		require.Greater(t, float64(out.Sent()), 0.8*float64((100*sim.Gbps).Octets(3*ms)))
		n.Until(10 * ms)
		require.NoError(t, n.Check())
		require.Zero(t, n.Switches()[1].stored)
		require.Zero(t, n.Counts().Lost)
		for _, f := range n.Flows() {
			require.Empty(t, maps.Collect(f.Waiting()))
		}
	}

	n, _ := run(func(cfg *Config) {
		cfg.Pausing.From, cfg.PauseDelay = congested.PauseFrom{Stop: 1}, 500*sim.Nanosecond
		cfg.Buffer = Buffer{Total: 4_000_000, Alpha: 1, PFC: true, XON: 3000, Headroom: 400_000}
	})
	for n.Sim.Now() < 20*ms {
		n.Until(n.Sim.Now() + 500*µs)
		require.NoError(t, n.Check())
	}
	require.Positive(t, n.Counts().Pauses)
	require.Zero(t, n.Counts().Lost)
	require.Zero(t, n.Switches()[1].stored)
	require.Zero(t, n.Switches()[1].used)
}
