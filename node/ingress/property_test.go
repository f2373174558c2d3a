package ingress

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

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

func packetOf(k rocev2.FlowKey) *rocev2.Packet {
	p := new(rocev2.Packet)
	p.Src, p.Dst, p.DstPort, p.TrafficClass = k.Src, k.Dst, rocev2.Port, uint8(rocev2.ECT0)
	p.BTH.Opcode, p.BTH.DestQP, p.BTH.PKey = bth.Opcode(bth.OpSendOnly), k.DestQP, 0xFFFF
	return p
}

// After any million of opens, closes and steps of time, the label of a flow is
// one that no other live flow has and none had within the quarantine; a live flow
// keeps its label; a flow is refused only where all flows are live, or all
// labels taken; and the table and its labels have the memory that they began with.
func TestMillionRandomSteps(t *testing.T) {
	for _, row := range []struct {
		name       string
		flows      int // that exist
		maxFlows   int
		instances  int // the more, the fewer labels
		step       time.Duration
		idle, wait time.Duration
	}{
		{"room for all", 200, 400, 1, time.Millisecond, 100 * time.Millisecond, 50 * time.Millisecond},
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
			for range wiretest.Rounds(250_000) { // four cases: a million
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
				case m.live == row.maxFlows || m.live+len(m.waiting) == labels:
					if reason != node.ReasonTableFull || label != 0 {
						t.Fatalf("label %d of a full table: %v", label, reason)
					}
					full++
					continue
				default:
					has := func(f modelFlow) bool { return f.label == label }
					if reason != node.NoReason || label == 0 || Owner(label, row.instances) != cfg.Instance ||
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
			if row.name != "room for all" && row.name != "long silences" {
				require.Greater(t, full, 100)
			}
		})
	}
}

// Every label that there is, once, with the table as large as it gets.
func TestEveryLabel(t *testing.T) {
	instances := maxLabel / wiretest.Rounds(maxLabel) // in a short run, every label of one of ten
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
	require.Equal(t, 0, Owner(7, 0))
	require.Equal(t, 1, Owner(7, 3))
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
