// Package ingress is the role of an ingress PE that receives FCNs (FCN section
// 4.1). It assigns a flow label to each RoCEv2 flow that enters the WAN, and
// encapsulates the packets of the flow in an IPv6 tunnel with this label. It
// translates an FCN, in which a congested node of the WAN reports a label, to a
// CNP for the sender of the flow.
//
//	sender ──> PE ──────────> P (congested) ──────────> egress PE ──> receiver
//	             label L1, ECN copied      │
//	sender <── PE <────────────────────────┘
//	     CNP        FCN: label L1
//
// A [Role] must see every packet that enters the WAN, even if hardware
// encapsulates it, and every packet from the WAN, including FCNs. If the kernel
// or hardware chooses the labels, it must see the encapsulated packets: see
// Config.LearnLabels.
//
// A CNP must name the queue pair of the sender, which data packets do not
// contain. The Role learns queue pairs from both directions. If the queue pair
// is unknown or ambiguous, it sends no CNP. It also sends CNPs if the PE itself
// is congested: see Event.Level.
//
// On several cores the instances divide the labels: see Config.Instances.
//
// Experimental: this package may change in a minor release.
package ingress

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"net/netip"
	"time"

	"github.com/rocecn/rocecn/encap"
	"github.com/rocecn/rocecn/fcn"
	"github.com/rocecn/rocecn/internal/clock"
	"github.com/rocecn/rocecn/internal/flowtable"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/acl"
	"github.com/rocecn/rocecn/node/internal/role"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
)

// Config is the configuration. Package [node] describes the fields that all roles have.
type Config struct {
	Enabled bool

	// WAN is the PE's address in the WAN: the outer source of its tunnels and the destination of FCNs.
	WAN  netip.Addr
	Port uint16 // UDP port of FCNs; 0 stands for fcn.Port
	// Self4 and Self6 are the PE's addresses on the side of the senders, the source addresses of its CNPs. Both are
	// optional: senders of a family without an address get no CNP (node.ReasonNoMethod).
	Self4, Self6 netip.Addr
	Accept       *acl.List // nodes of the WAN from which FCNs are accepted

	// Tunnel encapsulates the packets that enter the WAN. nil is for a PE with hardware that encapsulates them:
	// Receive then appends nothing, and the Decision has the label.
	Tunnel encap.Tunnel
	// IgnoreTunnels is for a PE where packets that arrive in a tunnel do not enter the WAN. Otherwise the role forwards
	// them with label 0.
	IgnoreTunnels bool

	QPs node.Pairs // table of queue pairs; with nil no CNP is sent

	// MaxFlows is the number of flows that the table holds: 64 octets each and 11 to 22 for the index. The default
	// is 65,536, or the number of the instance's labels if that is lower, which is also the maximum. In a full table a
	// new flow replaces one of a domain with more flows than its own, or in its own domain one of a source prefix (/64,
	// or /24 of IPv4) with more flows than its own, while labels are free. Otherwise it gets no label.
	MaxFlows int
	// Idle is the time without a packet after which a flow leaves the table; 0 stands for a minute. A flow that
	// comes back later gets a new label.
	Idle time.Duration
	// Quarantine is the time before the label of a removed flow is assigned again, because an FCN with this label may
	// still arrive; 0 stands for 5 seconds.
	Quarantine time.Duration

	In, InPerSource node.Rate     // limits on received FCNs: of all nodes, and of each
	MaxSources      int           // entries of the table for InPerSource, 24 octets each; 4,096 by default
	PerFlow         time.Duration // shortest time between two CNPs about a flow
	Out             node.Rate     // limit on sent CNPs

	Carriage rocev2.Carriage // fields of IP and UDP in the CNPs

	Seed uint64 // seed of the hash tables and of the labels; 0 is a random one

	// LearnLabels is for a PE in which other components encapsulate and choose the labels. The role assigns no label,
	// forwards nothing, and learns the label of each flow from packets in tunnels from WAN.
	//
	// Linux takes a label from a hash of addresses and ports, or copies the packet's own, so two flows may have the
	// same label. While both are active, no CNP is sent about either (node.ReasonAmbiguousLabel), unless one sends at
	// most a third of the packets of the other: then the label belongs to the other. A label that moves to another flow
	// belongs to none until the new flow has sent about a dozen packets, or the old one has been silent for Idle.
	//
	// MaxFlows is then the number of labels in the table, 80 octets each and 11 to 22 for the index. Quarantine has no
	// effect.
	LearnLabels bool

	// Instances is the number of instances on several cores; 0 stands for 1. Instance is the number of this one, from
	// 0. Each instance assigns a share of the labels (12 octets a label), and an FCN belongs to the instance
	// that is the remainder of its label divided by Instances. Distribute packets by their pair of addresses, so that
	// an instance sees both directions of a flow and can learn its queue pair.
	Instance, Instances int
}

// maxFlows is the default of Config.MaxFlows.
const maxFlows = 1 << 16

// setDefaults sets the defaults, and returns an error if something is wrong.
func (c *Config) setDefaults() error {
	c.Instances = cmp.Or(c.Instances, 1)
	if c.Instances < 1 || c.Instances > maxLabel || c.Instance < 0 || c.Instance >= c.Instances {
		return fmt.Errorf("there is no Instance %d of %d Instances", c.Instance, c.Instances)
	}
	if c.LearnLabels && c.Instances > 1 {
		return errors.New("LearnLabels with several Instances: labels that others choose do not tell the instance")
	}
	labels := labelsPerInstance(c.Instance, c.Instances)
	if c.Instance == 0 {
		labels--
	}
	c.MaxFlows = cmp.Or(c.MaxFlows, min(maxFlows, labels))
	if c.MaxFlows < 1 || c.MaxFlows > labels {
		return fmt.Errorf("MaxFlows %d: 1 to %d, the number of labels, allowed", c.MaxFlows, labels)
	}
	c.Idle, c.Quarantine = cmp.Or(c.Idle, time.Minute), cmp.Or(c.Quarantine, 5*time.Second)
	if !c.WAN.IsValid() {
		return errors.New("WAN is not given")
	}
	return cmp.Or(role.CheckAddr("WAN", c.WAN, false), role.Self{V4: c.Self4, V6: c.Self6}.Check(),
		role.CheckTime("Idle", c.Idle), role.CheckTime("Quarantine", c.Quarantine),
		role.CheckTime("PerFlow", c.PerFlow),
		role.CheckRate("In", c.In), role.CheckRate("InPerSource", c.InPerSource), role.CheckRate("Out", c.Out),
		role.CheckCarriage("Carriage", c.Carriage))
}

// A Role is an ingress PE.
type Role struct {
	cfg      Config
	self     role.Self
	qps      role.Pairs
	memory   role.Memory
	latest   role.Latest
	clock    clock.Clock
	table    table
	labels   labels
	learned  learned
	shares   flowtable.Shares // of the table in use
	intake   role.Intake
	pace     role.Pace
	counters node.Counters
	packet   rocev2.Packet
	datagram rocev2.Datagram
}

// New returns a Role; see [node.Role].
func New(cfg Config) (*Role, error) {
	return role.New(&Role{}, cfg)
}

// Configure changes the Config. Flows keep their labels. LearnLabels, Instance
// and Instances cannot change once the role was enabled.
func (pe *Role) Configure(cfg Config) error {
	cfg.Port = cmp.Or(cfg.Port, fcn.Port)
	if cfg.Enabled {
		if err := pe.allocateTables(&cfg); err != nil {
			return err
		}
	}
	pe.cfg, pe.self, pe.qps = cfg, role.Self{V4: cfg.Self4, V6: cfg.Self6}, role.PairsOf(cfg.QPs)
	pe.intake.On, pe.intake.Self = cfg.Enabled, role.Self{V6: cfg.WAN}
	return nil
}

// allocateTables completes a Config that is on. The first time it allocates the tables.
func (pe *Role) allocateTables(cfg *Config) error {
	wrong := cfg.setDefaults()
	sizes := []role.Size{{Name: "MaxFlows", N: cfg.MaxFlows},
		{Name: "MaxSources", N: cfg.MaxSources, Default: 1 << 12},
		{Name: "Instance", N: cfg.Instance}, {Name: "Instances", N: cfg.Instances}, {Name: "LearnLabels"}}
	if cfg.LearnLabels {
		sizes[4].N = 1
	}
	first, err := pe.memory.Configure("ingress", cfg.Seed, sizes, wrong)
	if err != nil {
		return err
	}
	switch {
	case first && cfg.LearnLabels:
		pe.learned = newLearned(cfg.MaxFlows)
		pe.learned.Seed = pe.memory.Seed() // decides which entries are evicted
	case first:
		pe.table = flowtable.New[flowtable.Key, entry](cfg.MaxFlows, false, (*flowtable.Key).Hash)
		pe.table.Seed = pe.memory.Seed()
		pe.labels = newLabels(cfg.Instance, cfg.Instances, pe.memory.Seed())
	}
	pe.labels.quarantine, pe.clock.Slack = int64(cfg.Quarantine), cfg.Idle
	pe.intake.Configure(cfg.Accept, cfg.In, cfg.InPerSource, pe.memory.Size(1), pe.memory.Seed())
	pe.pace.Configure(cfg.Out, cfg.PerFlow, cfg.MaxFlows, pe.memory.Seed())
	return nil
}

// Counters returns the counters. Any goroutine may read it.
func (pe *Role) Counters() *node.Counters { return &pe.counters }

// Len returns the number of flows that have a label; with LearnLabels, the number of known labels.
func (pe *Role) Len() int { return pe.table.Len() + pe.learned.Len() }

// Max returns the maximum of Len.
func (pe *Role) Max() int { return pe.memory.Size(0) }

// Free returns the number of flows that can still get a label: the table has
// room for them, and a label is neither assigned nor in quarantine. The number
// is that at the last packet or call of Due. With LearnLabels it is the number
// of labels that the table still has room for.
func (pe *Role) Free() int {
	free := pe.memory.Size(0) - pe.Len()
	if pe.memory.Size(4) == 1 { // LearnLabels
		return free
	}
	return min(free, pe.labels.countFree(pe.clock.Now()))
}

// Due removes flows without a packet for Config.Idle. It appends nothing to
// out. Receive removes them as well: call Due while there is no traffic, so
// that Receive has less to remove later.
func (pe *Role) Due(out []byte, now time.Time) (sent []byte, d node.Decision) {
	pe.expireFlows(pe.latest.Or(now))
	return out, d
}

func (pe *Role) expireFlows(now time.Time) {
	if pe.cfg.Enabled {
		pe.releaseLabels(pe.clock.Ticks(now))
	}
}

// A Flow is a flow with a label.
type Flow struct {
	qpmap.Key
	Label   uint32 // flow label in the outer IPv6 header, 20 bits
	SrcQP   uint32 // queue pair of the sender, valid if KnownQP is set
	KnownQP bool   // SrcQP is known
	PKey    uint16 // P_Key of the last packet
}

// Flows yields copies of the flows with a label, the one without a packet for
// the longest time first. With LearnLabels it omits labels that more than one
// flow has. The loop must not use the Role.
func (pe *Role) Flows(now time.Time) iter.Seq[Flow] {
	return func(yield func(Flow) bool) {
		now := pe.latest.Or(now)
		for i := pe.table.Oldest(0); i != 0; i = pe.table.Newer(i) {
			e := pe.table.Value(i)
			if !yield(pe.newFlow(pe.table.Key(i), e.label, e.pKey, now)) {
				return
			}
		}
		for i := pe.learned.Oldest(0); i != 0; i = pe.learned.Newer(i) {
			l := pe.learned.Value(i)
			if !pe.isAmbiguous(l) && !yield(pe.newFlow(&l.flow, *pe.learned.Key(i), l.pKey, now)) {
				return
			}
		}
	}
}

func (pe *Role) newFlow(k *flowtable.Key, label uint32, pKey uint16, now time.Time) Flow {
	f := Flow{Key: role.FlowOf(k), Label: label, PKey: pKey}
	var reason node.Reason
	f.SrcQP, reason = pe.qps.SourceQP(&f.Key, now)
	f.KnownQP = reason == node.NoReason
	return f
}

// releaseLabels removes the flows that have been silent for Idle. The quarantine of a label began when
// its flow had been silent for Idle.
func (pe *Role) releaseLabels(now int64) {
	for i := pe.table.Oldest(0); i != 0; i = pe.table.Oldest(0) {
		e := pe.table.Value(i)
		if now-e.seen < int64(pe.cfg.Idle) {
			break
		}
		pe.removeFlow(i, e.seen+int64(pe.cfg.Idle))
	}
	pe.forgetIdle(now)
}

// removeFlow removes a flow. The quarantine of its label began at a time.
func (pe *Role) removeFlow(i uint32, at int64) {
	pe.labels.release(pe.table.Value(i).label, at)
	pe.shares.Remove(pe.table.Key(i), pe.memory.Seed())
	pe.table.Remove(i)
}

// evictFlow makes space for a flow in a full table if another domain or source has more flows than that of the new
// one. The longest idle one that it finds leaves.
func (pe *Role) evictFlow(k *flowtable.Key, hash uint64, now int64) {
	if pe.labels.countFree(now) == 0 {
		return
	}
	victim := uint32(0)
	for n := range uint64(flowtable.Looks) {
		i := pe.table.Pick(hash>>7 + n*0x9E3779B97F4A7C15>>11)
		if (victim == 0 || pe.table.Value(i).seen < pe.table.Value(victim).seen) &&
			pe.shares.MayEvict(pe.table.Key(i), k, pe.memory.Seed()) {
			victim = i
		}
	}
	if victim != 0 {
		pe.removeFlow(victim, now)
	}
}
