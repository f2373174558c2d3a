// Package ingress is the ingress PE of FCN section 4.1: it gives every RoCEv2 flow that enters the WAN a flow label
// of its own, sends its packets on in an IPv6 tunnel under that label, and turns the FCN in which a congested node of
// the WAN names a label into the CNP that the flow's sender understands.
//
//	sender ──> PE ──────────> P (congested) ──────────> egress PE ──> receiver
//	             label L1, ECN copied      │
//	sender <── PE <────────────────────────┘
//	     CNP        FCN: label L1
//
// A [Role] sees every packet that enters the WAN, even if hardware encapsulates it, and every packet that comes from
// the WAN, FCN among them. Where the kernel or hardware chooses the labels itself, it sees those in the tunnels: see
// Config.LearnLabels. From both directions it learns queue pairs, as a CNP must name that of the sender, which data
// packets do not. If the queue pair is not known, or could be one of several, no CNP is sent: the PE never guesses. For
// congestion of the PE itself see Event.Level.
//
// On several cores the instances share out the labels: see Config.Instances.
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

// Config is the configuration, in the words of package [node].
type Config struct {
	Enabled bool

	// WAN is the PE's address in the WAN: the outer source of its tunnels, which FCN are sent to.
	WAN  netip.Addr
	Port uint16 // of FCN; 0 stands for fcn.Port
	// Self4 and Self6 are the PE's addresses towards senders, the sources of its CNPs. Both are optional: senders of
	// a family without one get no CNP, node.ReasonNoMethod.
	Self4, Self6 netip.Addr
	Accept       *acl.List // nodes of the WAN

	// Tunnel encapsulates the packets that enter the WAN; with nil, if hardware does that, they are not appended, and
	// the Decision has the label.
	Tunnel encap.Tunnel
	// IgnoreTunnels: packets that arrive in a tunnel do not enter the WAN. Otherwise they are forwarded with label 0.
	IgnoreTunnels bool

	QPs node.Pairs // learned; without them no CNP is sent

	// MaxFlows is the number of flows that the table holds: 64 octets each and 11 to 22 for the index. The default
	// is 65,536, or the number of the instance's labels if that is lower, which is also the maximum. A full table
	// evicts no flow.
	MaxFlows int
	// Idle is the time without a packet after which a flow leaves the table; 0 stands for a minute. A flow that
	// comes back later gets a new label.
	Idle time.Duration
	// Quarantine is the time for which the label of a flow that has left is given to no other flow, as an FCN about
	// it may be on its way; 0 stands for 5 seconds.
	Quarantine time.Duration

	In, InPerSource node.Rate     // of FCN
	MaxSources      int           // for InPerSource, 24 octets each; 4,096 by default
	PerFlow         time.Duration // between two CNPs about a flow
	Out             node.Rate     // of CNPs

	Carriage rocev2.Carriage // of the CNPs

	Seed uint64 // with which labels are repeatable, too

	// LearnLabels is for a PE in which other components encapsulate and choose the labels. The role assigns no label,
	// forwards nothing, and learns the label of each flow from packets in tunnels from WAN. Linux takes a label from
	// a hash of addresses and ports, or copies the packet's own. So two flows may have the same label, and while both
	// are live no CNP is sent about either. MaxFlows is then the number of labels in the table, 80 octets each and 11
	// to 22 for the index. Quarantine has no effect: a label that moves from one flow to another belongs to no flow
	// for Idle.
	LearnLabels bool

	// Instance is the number of this instance, from 0, of Instances; 0 Instances stand for one. Each instance has a
	// share of the labels (12 octets a label), so that the label tells which instance an FCN is for: see Owner.
	// Spread packets by their pair of addresses, so that an instance sees both directions, from which it learns queue
	// pairs.
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

// Configure changes the rules. Flows keep their labels. LearnLabels, Instance and Instances cannot change either.
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
	case first:
		pe.table = flowtable.New[flowtable.Key, entry](cfg.MaxFlows, false, (*flowtable.Key).Hash)
		pe.labels = newLabels(cfg.Instance, cfg.Instances, pe.memory.Seed())
	}
	pe.labels.quarantine, pe.clock.Slack = int64(cfg.Quarantine), cfg.Idle
	pe.intake.Configure(cfg.Accept, cfg.In, cfg.InPerSource, pe.memory.Size(1), pe.memory.Seed())
	pe.pace.Configure(cfg.Out, cfg.PerFlow, cfg.MaxFlows)
	return nil
}

// Counters returns the counters. Any goroutine may read it.
func (pe *Role) Counters() *node.Counters { return &pe.counters }

// Len returns the number of flows that have a label; with LearnLabels, the number of known labels.
func (pe *Role) Len() int { return pe.table.Len() + pe.learned.Len() }

// Free returns the number of further flows for which the table has room and a free label, as of the last packet or
// call of Due. A label that a flow has given back is in quarantine at first. With LearnLabels it is the number of
// further labels for which the table has room.
func (pe *Role) Free() int {
	free := pe.memory.Size(0) - pe.Len()
	if pe.memory.Size(4) == 1 { // LearnLabels
		return free
	}
	return min(free, pe.labels.countFree(pe.clock.Now()))
}

// Due removes the flows that have been silent for Idle. It appends nothing to out. Receive removes them as well: call
// Due when there is no traffic, so that Receive has less to remove later.
func (pe *Role) Due(out []byte, now time.Time) (sent []byte, d node.Decision) {
	pe.expireFlows(pe.latest.Or(now))
	return out, d
}

func (pe *Role) expireFlows(now time.Time) {
	if pe.cfg.Enabled {
		pe.releaseLabels(pe.clock.Ticks(now))
	}
}

// A Flow is a flow that has a label.
type Flow struct {
	qpmap.Key
	Label   uint32
	SrcQP   uint32 // the sender's queue pair, if KnownQP
	KnownQP bool
	PKey    uint16 // of the last packet
}

// Flows iterates over copies of the flows that have a label, the one seen longest ago first; with LearnLabels over the
// labels that one flow alone has. The loop must not use the Role.
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
		pe.labels.release(e.label, e.seen+int64(pe.cfg.Idle))
		pe.table.Remove(i)
	}
	pe.forgetIdle(now)
}
