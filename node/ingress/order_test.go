package ingress

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/encap"
	"github.com/rocecn/rocecn/fcn"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/internal/role"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
)

// A case is an FCN about a flow, and a PE that answers it unless a fault is put
// in.
type fcnCase struct {
	cfg   Config
	flow  rocev2.FlowKey
	op    bth.Opcode
	label uint32          // added to the flow's
	extra []byte          // octets after the FCN
	d     rocev2.Datagram // Src, Dst; Outer and Truncated; Checksum 1: a wrong one
	spent func(*Role)     // earlier messages that have used up limits
}

// faults are the faults of an FCN, in the order of the checks.
var faults = []struct {
	name string
	do   func(*fcnCase)
	want node.Reason
	udp  bool // Receive does not look at it: the socket has
}{
	{"off", func(c *fcnCase) { c.cfg.Enabled = false }, node.ReasonDisabled, false},
	{"to another node", func(c *fcnCase) { c.d.Dst = egress }, node.ReasonNotOurs, true},
	{"in a tunnel", func(c *fcnCase) { c.d.Outer = make([]byte, 40) }, node.ReasonTunnelled, true},
	{"not on the list", func(c *fcnCase) { c.d.Src = addr("2001:db8:ff::5") }, node.ReasonDenied, false},
	{"the node's rate", func(c *fcnCase) {
		c.cfg.InPerSource = node.Rate{PerSecond: 1}
		spend(c, func(pe *Role) { pe.intake.Admit(c.d.Src, start) })
	}, node.ReasonLimited, false},
	{"the rate of all nodes", func(c *fcnCase) {
		c.cfg.In = node.Rate{PerSecond: 1}
		spend(c, func(pe *Role) { pe.intake.Admit(p1.Next(), start) })
	}, node.ReasonLimited, false},
	{"cut", func(c *fcnCase) { c.d.Truncated = true }, node.ReasonBroken, true},
	{"checksum", func(c *fcnCase) { c.d.Checksum = 1 }, node.ReasonChecksum, true},
	{"an octet too many", func(c *fcnCase) { c.extra = []byte{0} }, node.ReasonBroken, false},
	{"another label", func(c *fcnCase) { c.label = 1 }, node.ReasonUnknownLabel, false},
	{"acknowledgements", func(c *fcnCase) { c.op = bth.Opcode(bth.OpAcknowledge) }, node.ReasonAcknowledgement, false},
	{"sender link-local", func(c *fcnCase) { c.flow.Src = addr("fe80::1") }, node.ReasonAddress, false},
	{"sender is the PE", func(c *fcnCase) { c.flow.Src = own }, node.ReasonOwnAddress, false},
	{"no address towards senders", func(c *fcnCase) { c.cfg.Self6 = netip.Addr{} }, node.ReasonNoMethod, false},
	{"pair not known", func(c *fcnCase) { c.cfg.QPs = nil }, node.ReasonUnknownQP, false},
	{"the flow's interval", func(c *fcnCase) {
		c.cfg.PerFlow = time.Hour
		spend(c, func(pe *Role) {
			pe.pace.Charge(role.Hash(&qpmap.Key{FlowKey: c.flow}, pe.memory.Seed()), role.Source{}, start)
		})
	}, node.ReasonLimited, false},
	{"the rate of CNPs", func(c *fcnCase) {
		c.cfg.Out = node.Rate{PerSecond: 1}
		spend(c, func(pe *Role) { pe.pace.Charge(1, role.Source{Addr: c.flow.Src}, start) })
	}, node.ReasonLimited, false},
}

func spend(c *fcnCase, what func(*Role)) {
	before := c.spent
	c.spent = func(pe *Role) {
		if before != nil {
			before(pe)
		}
		what(pe)
	}
}

// run returns the reasons that ReceivePacket and Receive give.
func (c *fcnCase) run(t *testing.T) (packet, data node.Reason) {
	if c.cfg.QPs != nil {
		c.cfg.QPs.(*qpmap.Map).Add(qpmap.Key{FlowKey: c.flow}, qpmap.Pair{SrcQP: 0x21})
	}
	pe := wiretest.Must(New(c.cfg))(t)
	p := packetOf(c.flow)
	p.BTH.Opcode = c.op
	label, _ := pe.give(p, 0, start)
	c.d.Data = append(messageAbout(t, label^c.label), c.extra...)
	sent := rocev2.Datagram{SrcPort: 1, DstPort: fcn.Port, Checksum: 1, Data: c.d.Data}
	sent.Src, sent.Dst = c.d.Src, c.d.Dst
	ip := wiretest.Must(sent.AppendBinary(nil))(t)
	ip[46] ^= uint8(c.d.Checksum)
	if c.d.Outer != nil {
		ip = wiretest.Must((&encap.IPInIPv6{Src: p1, Dst: own}).Append(nil, ip, 0))(t)
	}
	if c.d.Truncated {
		ip = ip[:len(ip)-1]
	}
	truncated := rocev2.DecodeOptions{Link: rocev2.LinkIP, AllowTruncated: c.d.Truncated}
	require.NoError(t, c.d.Decode(ip, truncated))
	if c.spent != nil && c.cfg.Enabled {
		c.spent(pe)
	}
	out, n, packet := pe.see([]byte{9}, &c.d, start)
	require.Equal(t, packet == node.NoReason, n != notice{})
	require.Equal(t, packet == node.NoReason, len(out) > 1)
	_, _, data = pe.receiveFCN(nil, c.d.Src, append(messageAbout(t, label^c.label), c.extra...), start)
	return packet, data
}

func newCase() *fcnCase {
	c := &fcnCase{cfg: config(), flow: flow6, op: bth.Opcode(bth.OpSendOnly)}
	c.cfg.MaxFlows = 16
	c.cfg.Instances = 1 << 12 // few labels: a PE is made in no time
	c.d.Src, c.d.Dst = p1, own
	return c
}

// For an FCN with two faults, the reason is the one that is checked first.
func TestOrderOfFaults(t *testing.T) {
	packet, data := newCase().run(t)
	require.Equal(t, node.NoReason, packet)
	require.Equal(t, node.NoReason, data)
	for i, first := range faults {
		t.Run(first.name, func(t *testing.T) {
			for _, second := range faults[i:] {
				if first.name == "sender link-local" && second.name == "sender is the PE" {
					continue // one sender
				}
				c := newCase()
				second.do(c)
				if first.name != second.name {
					first.do(c)
				}
				packet, data := c.run(t)
				require.Equal(t, first.want, packet, "%s, %s", first.name, second.name)
				switch {
				case !first.udp:
					require.Equal(t, first.want, data, "%s, %s", first.name, second.name)
				case !second.udp:
					require.Equal(t, second.want, data, "%s, %s", first.name, second.name)
				}
			}
		})
	}
}

// The PE's own congestion: the same reasons from the sender's address on, and its
// own before them.
func TestOrderOfFaultsWhenCongested(t *testing.T) {
	faults := []struct {
		do   func(*Config, *rocev2.Packet)
		want node.Reason
	}{
		{func(c *Config, p *rocev2.Packet) { c.Enabled = false }, node.ReasonDisabled},
		{func(c *Config, p *rocev2.Packet) { p.Outer = make([]byte, 40) }, node.ReasonTunnelled},
		{func(c *Config, p *rocev2.Packet) { p.BTH.Opcode = bth.CNP }, node.ReasonNotification},
		{func(c *Config, p *rocev2.Packet) { p.TrafficClass = 0 }, node.ReasonNotCapable},
		{func(c *Config, p *rocev2.Packet) { p.Src = own }, node.ReasonOwnAddress},
		{func(c *Config, p *rocev2.Packet) { c.Self6 = netip.Addr{} }, node.ReasonNoMethod},
		{func(c *Config, p *rocev2.Packet) { p.BTH.DestQP++ }, node.ReasonUnknownQP},
	}
	for i, first := range faults {
		for _, second := range faults[i:] {
			p := packetOf(flow6)
			pe := newPE(t, func(c *Config) {
				c.Instances = 1 << 12
				second.do(c, p)
				if first.want != second.want {
					first.do(c, p)
				}
			})
			_, _, reason := pe.receiveQueued(t, nil, p, 0, start)
			require.Equal(t, first.want, reason, "%v, %v", first.want, second.want)
		}
	}
}

// The configured addresses of the PE are its own; all others are not.
func TestOwnAddresses(t *testing.T) {
	for _, c := range []struct {
		src, dst netip.Addr
		want     node.Reason
	}{
		{own, remote6, node.ReasonOwnAddress}, {cnp6, remote6, node.ReasonOwnAddress}, {cnp4, remote4,
			node.ReasonOwnAddress},
		{cnp6.Next(), remote6, node.NoReason}, {cnp4.Next(), remote4, node.NoReason},
	} {
		flow := rocev2.FlowKey{Src: c.src, Dst: c.dst, DestQP: 7}
		pe := newPE(t, func(cfg *Config) { cfg.QPs.(*qpmap.Map).Add(qpmap.Key{FlowKey: flow}, qpmap.Pair{SrcQP: 5}) })
		_, _, reason := pe.receiveQueued(t, nil, packetOf(flow), 0, start)
		require.Equal(t, c.want, reason, c.src)
	}
}

// A limit on a flow is that of one VPN's flow, also where another has the same
// addresses.
func TestLimitsOfDomains(t *testing.T) {
	pe := newPE(t, func(c *Config) {
		c.PerFlow = time.Hour
		c.QPs.(*qpmap.Map).Add(qpmap.Key{FlowKey: flow6, Domain: 1}, qpmap.Pair{SrcQP: 0x31})
	})
	for domain := range uint32(2) {
		label, reason := pe.give(packetOf(flow6), domain, start)
		require.Equal(t, node.NoReason, reason)
		_, n, reason := pe.receiveFCN(nil, p1, messageAbout(t, label), start)
		require.Equal(t, node.NoReason, reason, "domain %d", domain)
		require.Equal(t, domain, n.Domain)
		_, _, reason = pe.receiveFCN(nil, p1, messageAbout(t, label), start)
		require.Equal(t, node.ReasonLimited, reason)
		_, _, reason = pe.receiveQueued(t, nil, packetOf(flow6), domain, start)
		require.Equal(t, node.ReasonLimited, reason, "the same limit")
	}
}

// Congestion of a flow that has left the table is of no label.
func TestCongestedAfterIdle(t *testing.T) {
	pe := newPE(t, func(c *Config) { c.Idle = time.Second })
	label, reason := pe.give(packetOf(flow6), 0, start)
	require.Equal(t, node.NoReason, reason)
	for _, row := range []struct {
		at   time.Duration
		want uint32
	}{{time.Second - 1, label}, {time.Second, 0}} {
		t.Run(fmt.Sprint(row.at), func(t *testing.T) {
			pe := newPE(t, func(c *Config) { c.Idle = time.Second })
			again, _ := pe.give(packetOf(flow6), 0, start)
			require.Equal(t, label, again, "the same seed")
			_, n, reason := pe.receiveQueued(t, nil, packetOf(flow6), 0, start.Add(row.at))
			require.Equal(t, node.NoReason, reason)
			require.Equal(t, row.want, n.Label)
		})
	}
}

// A label is free again exactly one quarantine after its flow left the table, and
// not before.
func TestQuarantineEnds(t *testing.T) {
	const idle, quarantine = time.Second, 3 * time.Second
	pe := newPE(t, func(c *Config) {
		c.Instances, c.Instance, c.MaxFlows = maxLabel, 5, 1 // one label: 5
		c.Idle, c.Quarantine = idle, quarantine
	})
	other := packetOf(flow4)
	label, reason := pe.give(packetOf(flow6), 0, start)
	require.Equal(t, node.NoReason, reason)
	require.EqualValues(t, 5, label)
	for _, at := range []time.Duration{0, idle - 1, idle, idle + quarantine - 1} {
		_, reason = pe.give(other, 0, start.Add(at))
		require.Equal(t, node.ReasonTableFull, reason, at)
	}
	label, reason = pe.give(other, 0, start.Add(idle+quarantine))
	require.Equal(t, node.NoReason, reason)
	require.EqualValues(t, 5, label)
}

// Two capture queues with clocks 200 ms apart take turns: no limit admits more packets than configured, and no flow
// loses its label.
func TestLimitsOfTwoQueues(t *testing.T) {
	const second = 10_000 // FCN a second
	for _, row := range []struct {
		name   string
		change func(*Config)
		want   int // in a second
	}{
		{"in", func(c *Config) { c.In = node.Rate{PerSecond: 20, Burst: 2} }, 2 + 19},
		{"in per source", func(c *Config) { c.InPerSource = node.Rate{PerSecond: 20, Burst: 2} }, 2 + 19},
		{"per flow", func(c *Config) { c.PerFlow = 50 * time.Millisecond }, 20},
		{"total", func(c *Config) { c.Out = node.Rate{PerSecond: 20, Burst: 2} }, 2 + 19},
	} {
		t.Run(row.name, func(t *testing.T) {
			pe := newPE(t, func(cfg *Config) {
				cfg.Idle, cfg.Quarantine, cfg.Instances = 150*time.Millisecond, 100*time.Millisecond, 1<<12
				row.change(cfg)
			})
			sent := 0
			var first uint32
			for i := range second {
				now := start.Add(time.Duration(i) * time.Second / second)
				if i%2 == 1 {
					now = now.Add(-200 * time.Millisecond)
				}
				label, reason := pe.give(packetOf(flow6), 0, now)
				require.Equal(t, node.NoReason, reason)
				if first == 0 {
					first = label
				}
				require.Equal(t, first, label, "%d", i)
				if _, _, reason := pe.receiveFCN(nil, p1, messageAbout(t, label), now); reason == node.NoReason {
					sent++
				}
			}
			require.Equal(t, row.want, sent)
			require.EqualValues(t, 1, pe.effect(node.EffectOpened))
		})
	}
}

// A node that sends without end uses up its own rate with every message that it sends, but not the rates of others.
func TestInPerSource(t *testing.T) {
	pe := newPE(t, func(c *Config) {
		c.InPerSource = node.Rate{PerSecond: 1, Burst: 3}
		c.In = node.Rate{PerSecond: 1, Burst: 5}
	})
	label, reason := pe.give(packetOf(flow6), 0, start)
	require.Equal(t, node.NoReason, reason)
	p2 := p1.Next()
	for i, c := range []struct {
		from netip.Addr
		data []byte
		want node.Reason
	}{
		{addr("2001:db8:ff::5"), nil, node.ReasonDenied}, // takes nothing
		{p1, nil, node.ReasonBroken},
		{p1, messageAbout(t, label^1), node.ReasonUnknownLabel},
		{p1, messageAbout(t, label), node.NoReason},
		{p1, messageAbout(t, label), node.ReasonLimited},
		{p1, nil, node.ReasonLimited},
		{p2, messageAbout(t, label), node.NoReason},
		{p2, messageAbout(t, label), node.NoReason},
		{p2, messageAbout(t, label), node.ReasonLimited}, // by In
		{p2.Next(), messageAbout(t, label), node.ReasonLimited},
	} {
		_, _, reason := pe.receiveFCN(nil, c.from, c.data, start)
		require.Equal(t, c.want, reason, i)
	}
	require.EqualValues(t, 3, pe.counted(node.ActionSent))
}

// A CNP has the P_Key of the flow's last packet; one data packet among
// acknowledgements is enough to be answered.
func TestLastPacketCounts(t *testing.T) {
	pe := newPE(t, nil)
	p := packetOf(flow6)
	p.BTH.PKey = 0x8001
	label, reason := pe.give(p, 0, start)
	require.Equal(t, node.NoReason, reason)
	p.BTH.PKey, p.BTH.Opcode = 0x8002, bth.Opcode(bth.OpAcknowledge)
	_, reason = pe.give(p, 0, start)
	require.Equal(t, node.NoReason, reason)
	out, _, reason := pe.receiveFCN(nil, p1, messageAbout(t, label), start)
	require.Equal(t, node.NoReason, reason)
	requireCNP(t, out, cnp6, sender6, 0x21, 0x8002)
	for f := range pe.Flows(start) {
		require.EqualValues(t, 0x8002, f.PKey)
	}
}

// The values that Flows yields can be kept.
func TestFlowsCollected(t *testing.T) {
	pe := newPE(t, nil)
	for qp := range uint32(5) {
		_, reason := pe.give(packetOf(rocev2.FlowKey{Src: sender6, Dst: remote6, DestQP: qp}), 0, start)
		require.Equal(t, node.NoReason, reason)
	}
	for qp, f := range slices.Collect(pe.Flows(start)) {
		require.EqualValues(t, qp, f.DestQP)
	}
	require.Len(t, slices.Collect(pe.Flows(start)), 5)
}

func TestMaxSources(t *testing.T) {
	cfg := config()
	cfg.MaxSources = -1
	_, err := New(cfg)
	require.ErrorContains(t, err, "MaxSources")
	require.Equal(t, "ingress: MaxSources -1 is negative", fmt.Sprint(err))
}

// By default the rates of many nodes are kept at the same time. Each node has its own rate, and is still limited
// after all the others have sent. The table has 4,096 places in sets, so that of 3,500 nodes some displace others,
// and half as many places could not hold the rest.
func TestManySources(t *testing.T) {
	pe := newPE(t, func(c *Config) { c.InPerSource = node.Rate{PerSecond: 1} })
	label, reason := pe.give(packetOf(flow6), 0, start)
	require.Equal(t, node.NoReason, reason)
	receiveFrom := func(n int) (limited int) {
		from := p1
		for range n {
			if _, _, reason := pe.receiveFCN(nil, from, messageAbout(t, label), start); reason == node.ReasonLimited {
				limited++
			}
			from = from.Next()
		}
		return limited
	}
	require.Zero(t, receiveFrom(64))
	require.Equal(t, 64, receiveFrom(64))
	require.Equal(t, 64, receiveFrom(3500))
	require.Greater(t, receiveFrom(3500), 2500)
}

// Packets that a PE labels and packets that come out of the WAN both teach it queue pairs, each in its own VPN.
func TestLearns(t *testing.T) {
	datagram := func(src uint32) *rocev2.Packet {
		p := packetOf(flow6)
		p.BTH.Opcode, p.BTH.Present, p.BTH.DETH.SrcQP = bth.UDSendOnly, bth.HasDETH, src
		return p
	}
	pe := newPE(t, nil)
	_, reason := pe.give(datagram(0x77), 5, start)
	require.Equal(t, node.NoReason, reason)
	out := datagram(0x88)
	out.Outer = []byte{0}
	through := wiretest.Must((&encap.IPInIPv6{Src: egress, Dst: own}).Append(nil, octetsOf(t, out)[40:], 0))(t)
	frame.Decode(through, rocev2.DecodeOptions{Link: rocev2.LinkIP})
	_, d := pe.Receive(nil, &frame, node.Event{Domain: 6, Now: start})
	require.Equal(t, []any{node.ActionLearned, uint32(0x88), true}, []any{d.Action, d.SrcQP, d.KnownQP})
	for _, c := range []struct{ domain, want uint32 }{{5, 0x77}, {6, 0x88}} {
		t.Run(fmt.Sprint(c.domain), func(t *testing.T) {
			qp, reason := pe.qps.SourceQP(&qpmap.Key{FlowKey: flow6, Domain: c.domain}, start)
			require.Equal(t, node.NoReason, reason)
			require.Equal(t, c.want, qp)
		})
	}
	_, reason = pe.qps.SourceQP(&qpmap.Key{FlowKey: flow6, Domain: 7}, start)
	require.Equal(t, node.ReasonUnknownQP, reason)
}

// FCN about every label that there is: those that were given have one CNP each,
// about the others nothing is sent.
func TestForgedLabels(t *testing.T) {
	pe := newPE(t, nil)
	given := map[uint32]uint32{}
	for qp := uint32(2); qp < 1002; qp++ {
		k := rocev2.FlowKey{Src: sender6, Dst: remote6, DestQP: qp}
		require.NoError(t, pe.cfg.QPs.(*qpmap.Map).Add(qpmap.Key{FlowKey: k}, qpmap.Pair{SrcQP: 0x10000 + qp}))
		label, reason := pe.give(packetOf(k), 0, start)
		require.Equal(t, node.NoReason, reason)
		given[label] = 0x10000 + qp
	}
	out, data := make([]byte, 0, 256), make([]byte, 4)
	valid := 0
	for i := range uint32(wiretest.Rounds(1 << 20)) {
		label := i * 0x9E375 & maxLabel // all of them, in another order
		if given[label] != 0 {
			valid++
		}
		be.PutUint32(data, label<<12)
		_, n, reason := pe.receiveFCN(out, p1, data, start)
		if reason == node.NoReason && n.SrcQP != given[label] || reason != node.NoReason &&
			(reason != node.ReasonUnknownLabel || given[label] != 0) {
			t.Fatalf("label %d of queue pair %d: %+v, %v", label, given[label], n, reason)
		}
	}
	require.NotZero(t, valid)
	require.EqualValues(t, valid, pe.counted(node.ActionSent))
}

// One FCN, replayed all the time for a second: as many CNPs as the limit of the
// flow says.
func TestReplays(t *testing.T) {
	pe := newPE(t, func(c *Config) { c.PerFlow = time.Millisecond })
	label, reason := pe.give(packetOf(flow6), 0, start)
	require.Equal(t, node.NoReason, reason)
	data := messageAbout(t, label)
	for i := range 100_000 {
		_, _, _ = pe.receiveFCN(nil, p1, data, start.Add(time.Duration(i)*10*time.Microsecond))
	}
	require.EqualValues(t, 1000, pe.counted(node.ActionSent))
	require.EqualValues(t, 99_000, pe.refused(node.ReasonLimited))
}

// A flood of new flows takes the room that there is, and nothing from those that
// are live: neither their labels nor memory beyond the maximum.
func TestFloodOfFlows(t *testing.T) {
	pe := newPE(t, func(c *Config) { c.MaxFlows, c.Idle = 1000, time.Second })
	live := make([]uint32, 100)
	p := packetOf(rocev2.FlowKey{Src: sender6, Dst: remote6})
	label := func(qp uint32, at time.Duration) uint32 {
		p.BTH.DestQP = qp
		l, _ := pe.give(p, 0, start.Add(at))
		return l
	}
	for i := range live {
		live[i] = label(uint32(i), 0)
	}
	flood := wiretest.Rounds(300_000) // in three seconds; in a short run, in 300 ms
	for i := range flood {
		at := time.Duration(i) * 10 * time.Microsecond
		label(1000+uint32(i), at)
		if i%500 == 0 {
			q := i / 500 % len(live)
			if got := label(uint32(q), at); got != live[q] {
				t.Fatalf("after %v flow %d has label %d, not %d", at, q, got, live[q])
			}
		}
	}
	require.LessOrEqual(t, pe.Len(), 1000)
	require.Zero(t, testing.AllocsPerRun(1000, func() { label(1<<20, time.Duration(flood)*10*time.Microsecond) }))
	require.Greater(t, pe.refused(node.ReasonTableFull), uint64(flood)*98/100)
}

// A packet that the capture cut gets its label where its flow shows, and is not forwarded: 40 octets of IPv6, 8 of
// UDP, 12 of BTH, 16 of RETH.
func TestForwardCut(t *testing.T) {
	p := packetOf(flow6)
	p.BTH.Opcode, p.HopLimit, p.BTH.PKey = bth.RCRDMAWriteOnly, 64, 0x8001
	p.Payload = make([]byte, 64)
	write := wiretest.Must(p.AppendBinary(nil))(t)
	other := octets(t, flow6, 1)
	other[40+3]++ // the UDP destination port
	for _, row := range []struct {
		name   string
		octets []byte
		cut    bool // the capture did
		kind   message.Kind
		action node.Action
		reason node.Reason
	}{
		{"in the data", write[:90], true, message.KindData, node.ActionForwarded, 0},
		{"in the RETH", write[:70], true, message.KindError, node.ActionForwarded, 0},
		{"after the BTH", write[:60], true, message.KindError, node.ActionForwarded, 0},
		{"in the BTH", write[:59], true, message.KindError, node.ActionRefused, node.ReasonBroken},
		{"in the UDP header", write[:44], true, message.KindOther, node.NoAction, 0}, // which does not show
		{"other traffic", other[:90], true, message.KindOther, node.NoAction, 0},
		{"by a network device, in the data", write[:90], false, message.KindData, node.ActionForwarded, 0},
		{"by a network device, in the RETH", write[:70], false, message.KindData, node.ActionForwarded, 0},
		{"truncated in the BTH", write[:59], false, message.KindError, node.ActionRefused, node.ReasonBroken},
		{"truncated other traffic", other[:90], false, message.KindOther, node.NoAction, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			pe := newPE(t, nil)
			var f rocev2.Frame
			f.Decode(row.octets, rocev2.DecodeOptions{Link: rocev2.LinkIP, AllowTruncated: row.cut})
			out, d := pe.enter([]byte{9}, &f, 0, tunnel, start)
			require.Equal(t, []byte{9}, out)
			require.Equal(t, []any{row.kind, row.action, row.reason}, []any{d.Packet, d.Action, d.Reason})
			require.Equal(t, row.action == node.ActionForwarded, d.Label != 0)
			require.Zero(t, pe.effect(node.EffectUnlabelled))
		})
	}
}

type noTunnel struct{ encap.Tunnel }

func (noTunnel) Append(b, _ []byte, _ uint32) ([]byte, error) { return b, errors.New("too long") }

// Without a tunnel, and where a packet does not fit into it, nothing is forwarded.
func TestForwardNowhere(t *testing.T) {
	data, other := octets(t, flow6, 1), octets(t, flow6, 1)
	other[40+3]++ // the UDP destination port
	pe := newPE(t, nil)
	frame.Decode(data, rocev2.DecodeOptions{Link: rocev2.LinkIP})
	out, d := pe.enter([]byte{9}, &frame, 0, nil, start)
	require.Equal(t, []byte{9}, out)
	require.NotZero(t, d.Label)
	out, d = pe.enter([]byte{9}, &frame, 0, noTunnel{}, start)
	require.Equal(t, []byte{9}, out)
	require.Equal(t, node.Decision{
		Action: node.ActionRefused, Packet: message.KindData, Reason: node.ReasonBroken,
	}, d)

	frame.Decode(other, rocev2.DecodeOptions{Link: rocev2.LinkIP})
	out, d = pe.enter([]byte{9}, &frame, 0, noTunnel{}, start)
	require.Equal(t, []byte{9}, out)
	require.Equal(t, node.Decision{}, d)
	require.Zero(t, pe.effect(node.EffectUnlabelled))
}

// A model is a table as the requirements have it, as simple as can be.
type model struct {
	idle, quarantine time.Duration
	flows            []modelFlow // label 0: not in the table
	live             int
	waiting          []modelFlow // labels in quarantine, and since when
}

type modelFlow struct {
	label uint32
	seen  time.Time
}

// settle takes flows that are idle out, and labels that have waited.
func (m *model) settle(now time.Time) {
	for i, f := range m.flows {
		if f.label != 0 && now.Sub(f.seen) >= m.idle {
			m.flows[i] = modelFlow{}
			m.live--
			m.waiting = append(m.waiting, modelFlow{f.label, f.seen.Add(m.idle)})
		}
	}
	m.waiting = slices.DeleteFunc(m.waiting, func(f modelFlow) bool { return now.Sub(f.seen) >= m.quarantine })
}

// others returns the number of flows in the other domain and in the domain of a flow.
func (m *model) others(i int) (n [2]int) {
	for j, f := range m.flows {
		if f.label == 0 {
			continue
		}
		if j/2%2 == i/2%2 {
			n[1]++
		} else {
			n[0]++
		}
	}
	return n
}

func packetOf(k rocev2.FlowKey) *rocev2.Packet {
	p := new(rocev2.Packet)
	p.Src, p.Dst, p.DstPort, p.TrafficClass = k.Src, k.Dst, rocev2.Port, uint8(rocev2.ECT0)
	p.BTH.Opcode, p.BTH.DestQP, p.BTH.PKey = bth.Opcode(bth.OpSendOnly), k.DestQP, 0xFFFF
	return p
}

// After any opens, closes and steps of time, the label of a flow is
// one that no other live flow has and none had within the quarantine; a live flow
// keeps its label; a flow is refused only where all flows are live and its domain has no fewer
// than the other, or all labels taken; and the table and its labels have the memory that they began with.
func TestRandomSteps(t *testing.T) {
	for _, row := range []struct {
		name       string
		flows      int // that exist
		maxFlows   int
		instances  int // the more, the fewer labels
		step       time.Duration
		idle, wait time.Duration
	}{
		{"space for all", 200, 400, 1, time.Millisecond, 100 * time.Millisecond, 50 * time.Millisecond},
		{"full table", 200, 40, 1, time.Millisecond, 100 * time.Millisecond, 50 * time.Millisecond},
		{"labels exhausted", 200, 60, 1 << 14, time.Millisecond, 30 * time.Millisecond, 60 * time.Millisecond},
		{"long silences", 50, 50, 1 << 14, 20 * time.Millisecond, 100 * time.Millisecond, 300 * time.Millisecond},
	} {
		t.Run(row.name, func(t *testing.T) {
			random := rand.New(rand.NewPCG(7, 11))
			const instance = 5
			cfg := Config{
				Enabled: true, WAN: own, MaxFlows: row.maxFlows, Idle: row.idle, Quarantine: row.wait,
				Instance: min(instance, row.instances-1), Instances: row.instances, Seed: 1,
			}
			pe := wiretest.Must(New(cfg))(t)
			m := model{idle: row.idle, quarantine: row.wait, flows: make([]modelFlow, row.flows)}
			labels := 1 << 20 / row.instances
			if cfg.Instance == 0 {
				labels--
			}
			ring := len(pe.labels.ring)
			packets := make([]*rocev2.Packet, row.flows)
			for i := range packets { // each pair of addresses in two domains and with two queue pairs
				packets[i] = packetOf(rocev2.FlowKey{Src: netip.AddrFrom4([4]byte{10, 0, 0, byte(i / 4)}), Dst: remote4,
					DestQP: uint32(i % 2)})
			}
			now, full, opened := start, 0, 0
			for range wiretest.Rounds(50_000) {
				now = now.Add(time.Duration(random.Int64N(int64(row.step))))
				if random.IntN(200) == 0 {
					now = now.Add(time.Duration(random.Int64N(int64(2 * row.idle))))
				}
				if random.IntN(1000) == 0 {
					pe.expired(now)
				}
				m.settle(now)
				i := random.IntN(row.flows)
				label, reason := pe.give(packets[i], uint32(i/2%2), now)
				switch was := m.flows[i].label; {
				case was != 0:
					if reason != node.NoReason || label != was {
						t.Fatalf("label %d, was %d: %v", label, was, reason)
					}
				case m.live == row.maxFlows && m.live+len(m.waiting) < labels && m.others(i)[0] > m.others(i)[1]+1:
					if reason != node.NoReason || label == 0 {
						t.Fatalf("label %d of a flow of the domain with fewer: %v", label, reason)
					}
					evicted := slices.IndexFunc(m.flows, func(f modelFlow) bool {
						return f.label != 0 && pe.lookUpLabel(f.label) == 0
					})
					if evicted < 0 || evicted/2%2 == i/2%2 {
						t.Fatalf("flow %d of the wrong domain, or none, was evicted for %d", evicted, i)
					}
					m.waiting = append(m.waiting, modelFlow{m.flows[evicted].label, now})
					m.flows[evicted] = modelFlow{}
				case m.live == row.maxFlows || m.live+len(m.waiting) == labels:
					if reason != node.ReasonTableFull || label != 0 {
						t.Fatalf("label %d of a full table: %v", label, reason)
					}
					full++
					continue
				default:
					has := func(f modelFlow) bool { return f.label == label }
					if reason != node.NoReason || label == 0 || int(label)%max(row.instances, 1) != cfg.Instance ||
						slices.ContainsFunc(m.flows, has) || slices.ContainsFunc(m.waiting, has) {
						t.Fatalf("label %d is not free: %v", label, reason)
					}
					opened++
					m.live++
				}
				m.flows[i] = modelFlow{label, now}
			}
			pe.expired(now)
			m.settle(now)
			require.Equal(t, m.live, pe.Len())
			require.LessOrEqual(t, pe.table.Len(), cfg.MaxFlows)
			require.Len(t, pe.labels.ring, ring)
			require.Greater(t, opened, 1000)
			if row.name != "space for all" && row.name != "long silences" {
				require.Greater(t, full, 100)
			}
		})
	}
}

// Every label that there is, once, with the table as large as it gets; unless the run is long, every label of
// one of ten instances.
func TestEveryLabel(t *testing.T) {
	instances := 10
	if wiretest.Long() {
		instances = 1
	}
	all := maxLabel / instances
	pe := wiretest.Must(New(Config{Enabled: true, WAN: own, MaxFlows: all, Idle: time.Second, Quarantine: time.Second,
		Instances: instances}))(t)
	given := make([]bool, 1<<20)
	p := packetOf(rocev2.FlowKey{Src: sender6, Dst: remote6})
	for round := range 2 {
		now := start.Add(time.Duration(round) * time.Hour)
		clear(given)
		for i := range uint32(all) {
			p.BTH.DestQP = i
			label, reason := pe.give(p, uint32(round), now)
			if reason != node.NoReason || label == 0 || given[label] {
				t.Fatalf("flow %d: label %d, given before: %v, %v", i, label, given[label], reason)
			}
			given[label] = true
		}
		p.BTH.DestQP = 1 << 23
		_, reason := pe.give(p, uint32(round), now)
		require.Equal(t, node.ReasonTableFull, reason)
		require.Equal(t, []int{all, 0}, []int{pe.Len(), pe.Free()})
	}
	require.Equal(t, all, pe.expired(start.Add(time.Hour+time.Second)))
	require.Equal(t, []int{0, 0}, []int{pe.Len(), pe.Free()}, "all are in quarantine")
	pe.expired(start.Add(2 * time.Hour))
	require.Equal(t, all, pe.Free())
}

// The labels of instances do not meet, and all together are all there are.
func TestInstances(t *testing.T) {
	for _, instances := range []int{1, 2, 3, 7, 64} {
		sum := 0
		for i := range instances {
			l := newLabels(i, instances, 1)
			sum += l.free
		}
		require.Equal(t, maxLabel, sum, instances)
	}
}

// Labels look random: no bit of them, and no difference of two, stands out.
func TestLabelsAreRandom(t *testing.T) {
	labels := func(seed uint64) (all []uint32) {
		pe := wiretest.Must(New(Config{Enabled: true, WAN: own, Seed: seed}))(t)
		for i := range uint32(4096) {
			label, reason := pe.give(packetOf(rocev2.FlowKey{Src: sender6, Dst: remote6, DestQP: i}), 0, start)
			require.Equal(t, node.NoReason, reason)
			all = append(all, label)
		}
		return all
	}
	one := labels(1)
	require.Equal(t, one, labels(1), "the seed makes them repeatable")
	require.NotEqual(t, one, labels(2))
	require.NotEqual(t, labels(0), labels(0))
	for bit := range 20 {
		set := 0
		for _, label := range one {
			set += int(label >> bit & 1)
		}
		require.InDelta(t, 2048, set, 200, "bit %d", bit) // six standard deviations
	}
	ascending := 0
	for i := range one[1:] {
		if one[i+1] > one[i] {
			ascending++
		}
	}
	require.InDelta(t, 2048, ascending, 200)
}
