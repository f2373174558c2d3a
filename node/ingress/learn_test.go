package ingress

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/encap"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/acl"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
)

func newLearner(t testing.TB, change func(*Config)) *Role {
	return newPE(t, func(c *Config) {
		c.LearnLabels = true
		if change != nil {
			change(c)
		}
	})
}

// under shows a PE a packet that a kernel has put into a tunnel, under a label.
func (pe *Role) under(t testing.TB, label uint32, packet []byte, at time.Time) node.Decision {
	t.Helper()
	b := wiretest.Must(tunnel.Append(nil, packet, label))(t)
	frame.Decode(b, rocev2.DecodeOptions{Link: rocev2.LinkIP})
	return pe.learnOnly(&frame, 0, at)
}

// to returns the flow to another queue pair of the same receiver.
func to(k rocev2.FlowKey, qp uint32) rocev2.FlowKey {
	k.DestQP = qp
	return k
}

// The label that others gave a flow names it: an FCN about it becomes the CNP for the flow's sender.
func TestLearnedLabel(t *testing.T) {
	pe := newLearner(t, nil)
	for _, row := range []struct {
		label uint32
		c     rocev2.FlowKey
	}{{0x12345, flow4}, {0xFFFFF, flow6}} {
		t.Run(fmt.Sprint(row.label), func(t *testing.T) {
			_, _, reason := pe.receiveFCN(nil, p1, messageAbout(t, row.label), start)
			require.Equal(t, node.ReasonUnknownLabel, reason)
			d := pe.under(t, row.label, octets(t, row.c, 1), start)
			require.Equal(t, []any{node.ActionLearned, row.label, row.c}, []any{d.Action, d.Label, d.Flow.FlowKey})
			require.Equal(t, node.NoAction, pe.under(t, row.label, octets(t, row.c, 1), start).Action, "nothing new")
			out, n, reason := pe.receiveFCN([]byte{9}, p1, messageAbout(t, row.label), start)
			require.Equal(t, node.NoReason, reason)
			require.Equal(t, notice{Flow: row.c, Label: row.label, SrcQP: 0x21, Level: 3}, n)
			self := cnp6
			if row.c.Src.Is4() {
				self = cnp4
			}
			requireCNP(t, out[1:], self, row.c.Src, 0x21, 0x8001)
		})
	}
	require.Equal(t, []int{2, pe.cfg.MaxFlows - 2}, []int{pe.Len(), pe.Free()})
	require.EqualValues(t, 2, pe.effect(node.EffectOpened))
	known := map[uint32]rocev2.FlowKey{}
	for f := range pe.Flows(start) {
		require.Equal(t, []any{uint32(0x21), true, uint16(0x8001)}, []any{f.SrcQP, f.KnownQP, f.PKey})
		known[f.Label] = f.FlowKey
	}
	require.Equal(t, map[uint32]rocev2.FlowKey{0x12345: flow4, 0xFFFFF: flow6}, known)
}

// No CNP is sent about two flows with one label until one of them has been idle for Idle. A flow with two labels is
// known by both.
func TestSharedLabel(t *testing.T) {
	pe := newLearner(t, func(c *Config) { c.Idle = 10 * time.Second })
	other := to(flow6, 0x12)
	require.NoError(t, pe.cfg.QPs.(*qpmap.Map).Add(qpmap.Key{FlowKey: other}, qpmap.Pair{SrcQP: 0x22}))
	at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	seen := func(s int, label uint32, k rocev2.FlowKey, want node.Action) {
		t.Helper()
		require.Equal(t, want, pe.under(t, label, octets(t, k, 1), at(s)).Action)
	}
	requireNotified := func(s int, label uint32, want node.Reason, qp uint32) {
		t.Helper()
		_, n, reason := pe.receiveFCN(nil, p1, messageAbout(t, label), at(s))
		require.Equal(t, []any{want, qp}, []any{reason, n.SrcQP})
	}
	seen(0, 7, flow6, node.ActionLearned)
	requireNotified(0, 7, node.NoReason, 0x21)
	seen(5, 7, other, node.ActionLearned)
	requireNotified(5, 7, node.ReasonAmbiguousLabel, 0)
	require.Empty(t, countFlows(pe, at(5)))
	seen(6, 7, flow6, node.NoAction) // by turns, and no line for each
	seen(7, 7, other, node.NoAction)
	requireNotified(7, 7, node.ReasonAmbiguousLabel, 0)
	requireNotified(15, 7, node.ReasonAmbiguousLabel, 0) // the first was seen at 6
	seen(15, 7, other, node.NoAction)
	seen(16, 7, other, node.ActionLearned) // the first has been idle since 6
	requireNotified(16, 7, node.NoReason, 0x22)
	seen(16, 8, other, node.ActionLearned)
	requireNotified(16, 8, node.NoReason, 0x22)
	requireNotified(16, 7, node.NoReason, 0x22)
	requireNotified(26, 7, node.ReasonUnknownLabel, 0) // silent since 16
	requireNotified(26, 8, node.ReasonUnknownLabel, 0)
	require.Zero(t, pe.Len())
}

// Packets that another flow sends with a label, or forges, do no harm while they are few: at most three packets of the
// flow are not answered after each.
func TestFewForgedLabels(t *testing.T) {
	for _, c := range []struct {
		name     string
		every    int // packets of the flow to one that is forged
		answered int // of 1,000
	}{
		{"none", 2000, 1000}, {"one of 100", 100, 990}, {"one of 10", 10, 990}, {"one of 4", 4, 990}, {"each", 1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			pe, answered := newLearner(t, nil), 0
			forged := octets(t, to(flow6, 0x12), 1)
			pe.under(t, 7, octets(t, flow6, 1), start)
			for i := range 1000 {
				if i%c.every == c.every-1 {
					pe.under(t, 7, forged, start)
				}
				pe.under(t, 7, octets(t, flow6, 1), start)
				if _, n, reason := pe.receiveFCN(nil, p1, messageAbout(t, 7), start); reason == node.NoReason {
					answered++
					require.EqualValues(t, 0x21, n.SrcQP)
				}
			}
			require.GreaterOrEqual(t, answered, c.answered)
			require.True(t, c.every > 1 || answered < 10, answered)
		})
	}
}

// A domain, or a source, that fills the table costs the others at most 1 % of their flows, with labels of its own and
// with those of others.
func TestFloodedTable(t *testing.T) {
	honest, flood := flow6, flow6
	honest.Src = netip.MustParseAddr("2001:db8:77::1")
	for _, c := range []struct {
		name   string
		learn  bool
		domain uint32 // of the flood
	}{
		{"own labels, domain", false, 2}, {"own labels, source", false, 1},
		{"labels of others, domain", true, 2}, {"labels of others, source", true, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			pe := newPE(t, func(cfg *Config) { cfg.LearnLabels, cfg.MaxFlows = c.learn, 4096 })
			next := uint32(0)
			send := func(k rocev2.FlowKey, qp, domain uint32, label uint32) node.Reason {
				k.DestQP = qp
				if !c.learn {
					_, reason := pe.give(packetOf(k), domain, start)
					return reason
				}
				b := wiretest.Must(tunnel.Append(nil, octets(t, k, 1), label))(t)
				frame.Decode(b, rocev2.DecodeOptions{Link: rocev2.LinkIP})
				return pe.learnOnly(&frame, domain, start).Reason
			}
			burst := func(n int) {
				for range n {
					next++
					send(flood, next, c.domain, next)
				}
			}
			burst(8192)
			known := 0
			for i := range uint32(1000) {
				if send(honest, i, 1, 500_000+i) == node.NoReason {
					known++
				}
				burst(10)
			}
			require.Equal(t, 1000, known)
			still, before := 0, pe.Len()
			for i := range uint32(1000) {
				if send(honest, i, 1, 500_000+i) == node.NoReason {
					still++
				}
			}
			require.Equal(t, []int{1000, before}, []int{still, pe.Len()})
			require.NotEqual(t, node.NoReason, send(flood, 1<<23, c.domain, 400_000), "the flood evicts no flow")
		})
	}
}

// A flow of a domain with fewer flows evicts the one without a packet for the longest time, not the oldest one.
func TestLongestIdleFlowIsEvicted(t *testing.T) {
	for _, learn := range []bool{false, true} {
		t.Run(fmt.Sprintf("learn=%t", learn), func(t *testing.T) {
			pe := newPE(t, func(cfg *Config) { cfg.LearnLabels, cfg.MaxFlows = learn, 8 })
			send := func(qp, domain uint32, ms int) {
				at := start.Add(time.Duration(ms) * time.Millisecond)
				if k := to(flow6, qp); learn {
					b := wiretest.Must(tunnel.Append(nil, octets(t, k, 1), qp))(t)
					frame.Decode(b, rocev2.DecodeOptions{Link: rocev2.LinkIP})
					pe.learnOnly(&frame, domain, at)
				} else {
					pe.give(packetOf(k), domain, at)
				}
			}
			for qp := range uint32(8) {
				send(1+qp, 1, int(qp))
			}
			send(1, 1, 8)
			send(3, 1, 9)
			for qp := range uint32(3) {
				send(11+qp, 2, 10+int(qp))
			}
			var left []uint32
			for f := range pe.Flows(start.Add(13 * time.Millisecond)) {
				left = append(left, f.DestQP)
			}
			require.ElementsMatch(t, []uint32{1, 3, 6, 7, 8, 11, 12, 13}, left, "2, 4 and 5 are gone")
		})
	}
}

// A PE that is switched off keeps its flows, and gives the same answers when it is on again.
func TestOffKeepsFlows(t *testing.T) {
	for _, learn := range []bool{false, true} {
		pe := newPE(t, func(c *Config) { c.LearnLabels, c.MaxFlows = learn, 16 })
		if learn {
			pe.under(t, 7, octets(t, flow6, 1), start)
			pe.under(t, 7, octets(t, to(flow6, 0x12), 1), start)
			pe.under(t, 8, octets(t, flow4, 1), start)
		} else {
			pe.give(packetOf(flow6), 0, start)
		}
		known, free := countFlows(pe, start), pe.Free()
		require.Len(t, known, 1)
		require.NoError(t, pe.Configure(Config{QPs: pe.cfg.QPs}))
		require.Equal(t, known, countFlows(pe, start))
		require.Equal(t, free, pe.Free())
	}
}

func countFlows(pe *Role, now time.Time) (all []Flow) {
	for f := range pe.Flows(now) {
		all = append(all, f)
	}
	return all
}

// Only RoCEv2 packets in the tunnels of the PE into the WAN teach labels.
func TestLearnRejects(t *testing.T) {
	pe := newLearner(t, func(c *Config) { c.MaxFlows = 1 })
	data := octets(t, flow6, 1)
	d := pe.under(t, 0, data, start)
	require.Equal(t, []any{node.ActionRefused, node.ReasonUnknownLabel}, []any{d.Action, d.Reason})
	for _, c := range []struct {
		name string
		b    []byte
	}{
		{"no tunnel", data},
		{"a tunnel from there", tunnelled(t, &encap.IPInIPv6{Src: egress, Dst: own}, data, 7)},
		{"not RoCEv2", tunnelled(t, tunnel, func() []byte { b := octets(t, flow6, 1); b[43]++; return b }(), 7)},
		{"truncated", tunnelled(t, tunnel, data, 7)[:99]},
	} {
		t.Run(c.name, func(t *testing.T) {
			frame.Decode(c.b, rocev2.DecodeOptions{Link: rocev2.LinkIP})
			require.Zero(t, pe.learnOnly(&frame, 0, start))
		})
	}
	for _, op := range []bth.Opcode{bth.RCAcknowledge, bth.CNP} {
		p := packetOf(flow6)
		p.BTH.Opcode, p.Payload = op, make([]byte, 16)
		require.Equal(t, node.NoAction, pe.under(t, 7, octetsOf(t, p), start).Action, op)
	}
	require.Zero(t, pe.Len())

	require.Equal(t, node.ActionLearned, pe.under(t, 7, data, start).Action)
	d = pe.under(t, 8, octets(t, flow4, 1), start)
	require.Equal(t, []any{node.ActionRefused, node.ReasonTableFull}, []any{d.Action, d.Reason})
	d = pe.under(t, 8, octets(t, flow4, 1), start.Add(time.Minute))
	require.Equal(t, node.ActionLearned, d.Action, "the other has been silent")

	off := newPE(t, func(c *Config) { c.IgnoreTunnels = true }) // labels are its own
	require.Zero(t, off.under(t, 7, data, start))
	frame.Decode(data, rocev2.DecodeOptions{Link: rocev2.LinkIP})
	out, d := pe.enter(nil, &frame, 0, tunnel, start)
	require.Empty(t, out)
	require.Zero(t, d, "others encapsulate")
	require.ErrorContains(t, pe.Configure(func() Config { c := pe.cfg; c.LearnLabels = false; return c }()),
		"LearnLabels cannot change")
	cfg := config()
	cfg.LearnLabels, cfg.Instances = true, 2
	_, err := New(cfg)
	require.ErrorContains(t, err, "LearnLabels with several Instances")
}

func tunnelled(t *testing.T, via encap.Tunnel, packet []byte, label uint32) []byte {
	return wiretest.Must(via.Append(nil, packet, label))(t)
}

// A packet teaches a label and a queue pair at the same time, also if a capture has truncated it after its headers.
func TestLearnsBoth(t *testing.T) {
	pe := newLearner(t, func(c *Config) { c.QPs = qpmap.New(qpmap.Config{}) })
	p := packetOf(flow6)
	p.BTH.Opcode, p.BTH.Present, p.BTH.DETH.SrcQP = bth.UDSendOnly, bth.HasDETH, 0x77
	p.Payload = make([]byte, 500)
	b := tunnelled(t, tunnel, octetsOf(t, p), 5)
	frame.Decode(b[:130], rocev2.DecodeOptions{Link: rocev2.LinkIP, AllowTruncated: true})
	d := pe.learnOnly(&frame, 0, start)
	require.Equal(t, []any{node.ActionLearned, uint32(5), uint32(0x77), true, flow6},
		[]any{d.Action, d.Label, d.SrcQP, d.KnownQP, d.Flow.FlowKey})
}

// A flood of labels takes no more memory than the maximum, and costs none by the packet.
func TestLearnedMemory(t *testing.T) {
	require.LessOrEqual(t, unsafe.Sizeof(lesson{}), uintptr(64)) // and 16 of label, links and padding
	pe := newLearner(t, func(c *Config) { c.MaxFlows, c.Idle = 64, time.Millisecond })
	b := tunnelled(t, tunnel, octets(t, flow6, 1), 1)
	now, n := start, uint32(0)
	out := make([]byte, 0, 256)
	data := make([]byte, 4)
	wiretest.NoAllocs(t, "labels that come and go", func() {
		now, n = now.Add(10*time.Microsecond), n+1
		be.PutUint32(b, 6<<28|1<<20|n&0xFFFFF)
		be.PutUint32(b[40+40+8+4:], n>>2&0xFF)
		frame.Decode(b, rocev2.DecodeOptions{Link: rocev2.LinkIP})
		pe.learnOnly(&frame, 0, now)
		be.PutUint32(data, n<<12)
		_, _, _ = pe.receiveFCN(out, p1, data, now)
	})
	require.LessOrEqual(t, pe.Len(), 64)
	require.NotZero(t, pe.refused(node.ReasonTableFull))
}

// A packet in another IP header has come through a tunnel, unless a mirror has put it there, or it is no packet.
func TestIsTunnelled(t *testing.T) {
	const (
		udp   = "4500 001c 0000 0000 4011 0000 0a000001 0a000002 1000 2000 0008 0000"
		other = "45000000 00000000 40 04 0000 c0000201 c0000202" // IP in IP
		gre   = "45000000 00000000 40 2f 0000 c0000201 c0000202"
		eth   = "020000000002 020000000001 0800"
	)
	for _, row := range []struct {
		name, octets string
		want         bool
	}{
		{"no tunnel", udp, false},
		{"IP in IP", other + udp, true},
		{"GRE", gre + "0000 0800" + udp, true},
		{"mirrored", gre + "0000 88be" + eth + udp, false}, // ERSPAN type I
		{"cut", other + udp[:39], false},
		{"nothing", "", false},
	} {
		t.Run(row.name, func(t *testing.T) {
			octets := wiretest.Hex(t, row.octets)
			if len(octets) > 20 {
				binary.BigEndian.PutUint16(octets[2:], uint16(len(octets)))
			}
			var f rocev2.Frame
			f.Decode(octets, rocev2.DecodeOptions{Link: rocev2.LinkIP})
			require.Equal(t, row.want, isTunnelled(&f))
		})
	}
}

// A new configuration in the midst of a sequence keeps the labels of flows and the state of the limits. An invalid
// one changes nothing.
func TestConfigure(t *testing.T) {
	var cfg Config
	pe := newPE(t, func(c *Config) {
		c.MaxFlows, c.PerFlow, c.In = 16, time.Second, node.Rate{PerSecond: 1e-3, Burst: 3}
		cfg = *c
	})
	label, reason := pe.give(packetOf(flow6), 0, start)
	require.Equal(t, node.NoReason, reason)
	receiveFCN := func(at time.Duration) node.Reason {
		_, _, reason := pe.receiveFCN(nil, p1, messageAbout(t, label), start.Add(at))
		return reason
	}
	require.Equal(t, node.NoReason, receiveFCN(0))

	for _, c := range []struct {
		name   string
		change func(*Config)
	}{
		{"WAN", func(c *Config) { c.WAN = cnp4 }},
		{"Self4", func(c *Config) { c.Self4 = cnp6 }},
		{"In has a Burst", func(c *Config) { c.In = node.Rate{Burst: 3} }},
		{"Out", func(c *Config) { c.Out.PerSecond = -1 }},
		{"MaxFlows cannot", func(c *Config) { c.MaxFlows = 17 }},
		{"MaxSources cannot", func(c *Config) { c.MaxSources = 17 }},
		{"Seed cannot", func(c *Config) { c.Seed++ }},
		{"Instance cannot", func(c *Config) { c.Instances, c.Instance = 2, 1 }},
		{"Instances cannot", func(c *Config) { c.Instances = 2 }},
		{"Quarantine -1ns", func(c *Config) { c.Quarantine = -1 }},
		{"PerFlow -1ns is neg", func(c *Config) { c.PerFlow = -1 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			bad := cfg
			bad.Accept = nil
			c.change(&bad)
			require.ErrorContains(t, pe.Configure(bad), c.name)
		})
	}
	require.Equal(t, node.ReasonLimited, receiveFCN(0), "the list is as it was, and so is the flow's interval")

	cfg.PerFlow, cfg.Seed = 500*time.Millisecond, 0 // the seed stays
	require.NoError(t, pe.Configure(cfg))
	again, reason := pe.give(packetOf(flow6), 0, start.Add(time.Millisecond))
	require.Equal(t, []any{label, node.NoReason}, []any{again, reason})
	require.Equal(t, node.NoReason, receiveFCN(500*time.Millisecond), "half of it is enough now")
	require.Equal(t, node.ReasonLimited, receiveFCN(time.Second), "three were looked at: the rate of all is used up")

	cfg.In, cfg.Accept = node.Rate{}, acl.New()
	require.NoError(t, pe.Configure(cfg))
	require.Equal(t, node.ReasonDenied, receiveFCN(2*time.Second))
	cfg.Enabled = false
	require.NoError(t, pe.Configure(cfg))
	require.Equal(t, node.ReasonDisabled, receiveFCN(2*time.Second))
	cfg.Enabled, cfg.Accept = true, config().Accept
	require.NoError(t, pe.Configure(cfg))
	require.Equal(t, node.NoReason, receiveFCN(3*time.Second), "off and on again, the label is known")
	require.Equal(t, 1, pe.Len())
}
