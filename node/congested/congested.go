// Package congested is the node where congestion occurs: the switch or router that tells the senders (FAST section 4,
// PROXY section 4, FCN section 4.1, PPFC section 3).
//
// Its agent is shown the packets that meet congestion, each with the level that the node's queue has reached, and
// says what to do: which notification to send and to whom, whether to mark ECN on the packet as well, or why neither.
//
//	packet, level  ──> Congested ──> notification for the sender, its proxy or its ingress PE
//	                             ──> whether to mark ECN on the packet
//	the queue fell ──> Resume    ──> PPFCs that let run again what was stopped
//	any packet     ──> Receive       from ICMPv6 errors: who does not understand Fast CNPs
//
// That the trigger is the node's own queue matters: a CE mark on an arriving packet was set by another node, and
// where all senders understand Fast CNPs no packet has one.
package congested

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/fcn"
	"github.com/rocecn/rocecn/ioam"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/acl"
	"github.com/rocecn/rocecn/node/internal/role"
	"github.com/rocecn/rocecn/node/level"
	"github.com/rocecn/rocecn/node/limit"
	"github.com/rocecn/rocecn/ppfc"
	"github.com/rocecn/rocecn/proxymsg"
	"github.com/rocecn/rocecn/rocev2"
)

// Proxies say which proxy serves a sender. An *acl.Map[netip.Addr] does.
type Proxies interface {
	Lookup(sender netip.Addr) (proxy netip.Addr, ok bool)
}

// Config is what a deployment chooses. The zero Config is off.
type Config struct {
	// Enabled: without it nothing is sent and nothing marked.
	Enabled bool

	// Self4 and Self6 are the node's own addresses, IPv4 and IPv6, such that others can reach them (FAST section 4):
	// New refuses others. What has to come from an address that is not set is not sent: node.NoMethod.
	Self4, Self6 netip.Addr

	Methods *acl.Map[Method]     // by sender; none is node.NoMethod
	Capable *acl.Map[Capability] // by sender; Unknown where there is none
	Proxies Proxies              // by sender; nil has none
	PEs     *acl.List            // the ingress PEs that FCNs and PPFCs may go to; nil has none

	// CannotMark: the node sees packets but cannot change them, as an agent behind a mirror port cannot. Then no
	// Decision has MarkECN, and packets that only a mark could answer, those of senders that do not understand Fast
	// CNPs and those whose Method is Mark, are answered by Fallback: Proxy, FCN, PPFC, or Nothing, which is
	// node.NotCapable.
	CannotMark bool
	Fallback   Method

	// PauseFrom says from which level on a PPFC asks for what. PauseIngress: PPFCs go to the ingress PE of the tunnel
	// that the packet came in, if it is one of PEs, and not to the sender. PPFC.NodeAddress says whom they name
	// (D15).
	PauseFrom    PauseFrom
	PauseIngress bool

	// PerFlow is the least time between two notifications of one flow at each level: the more congested, the more
	// often (FCN section 4.1). 0 sets no limit. A flow is one of a source, a destination and a destination queue
	// pair; of FCNs one of an ingress PE and a flow label. Out limits all notifications together. The PPFCs of
	// [Agent.Resume] take from neither: there is at most one for each that did.
	PerFlow [8]time.Duration
	Out     limit.Rate

	// InnerSource: answer the inner source of tunnelled packets directly, with Fast CNPs and PPFC. A node inside a
	// tunnel's routing domain cannot reach it (D17).
	InnerSource bool

	// RejectedFor is how long a sender counts as not capable after it has rejected a Fast CNP; 0 stands for an hour.
	RejectedFor time.Duration

	// How much is kept at once, 16 octets each, and 64 for a flow that was paused; 0 stands for the default. Where
	// more come, those sent or learned longest ago are forgotten.
	MaxFlows    int // flows that were notified: 65,536
	MaxSent     int // Fast CNPs that may still be rejected: 4,096
	MaxRejected int // senders that have rejected one: 16,384
	MaxPaused   int // flows that a PPFC has stopped or held: 4,096

	// Seed keeps others from choosing flows and rejections that collide; 0 stands for a random one.
	Seed uint64

	// What the messages are built with. The agent decides itself about the inner source, and chooses a UDP source
	// port for proxy messages and FCNs where the Carriage has none. The ports and option types are also those by
	// which messages are told apart.
	FastCNP fastcnp.Config
	Proxy   proxymsg.Config
	FCN     fcn.Config
	PPFC    ppfc.Config
}

// An Event says how a packet met congestion.
type Event struct {
	Level uint8         // how congested, 0 to 7
	Pause time.Duration // what a PPFC asks for, in microseconds, at most ppfc.MaxPause
	Port  uint16        // what a PPFC says of where; one queue, one port
	Own   *ioam.Node    // the node's own record for the trace in a Fast CNP; nil for none (D14)
}

// An Agent decides for one congested node. It takes its memory when it is switched on, and none later. It is not safe
// for concurrent use, but for [Agent.Counters]: use one instance a core, each for the flows that the core sees.
type Agent struct {
	cfg      Config
	self     role.Self
	memory   role.Memory
	pace     role.Pace
	sent     *limit.Every // by the octets of Fast CNPs
	rejected *limit.Every // by the addresses of senders
	paused   pausedFlows
	counters node.Counters

	message message.Message
	flow    rocev2.Flow
}

// New returns an Agent. The error says what cannot work; a Config that is off needs nothing.
func New(cfg Config) (*Agent, error) {
	a := &Agent{}
	if err := a.Configure(cfg); err != nil {
		return nil, err
	}
	return a, nil
}

// Configure changes the rules in place: who rejected Fast CNPs, which flows are paused and what the limits hold,
// stays. The sizes and Seed cannot change. A Config with an error changes nothing.
func (a *Agent) Configure(cfg Config) error {
	self := role.Self{V4: cfg.Self4, V6: cfg.Self6}
	if cfg.Enabled {
		memory, err := a.memory.Check(cfg.Seed, role.Size{Name: "MaxFlows", N: cfg.MaxFlows, Default: 1 << 16},
			role.Size{Name: "MaxSent", N: cfg.MaxSent, Default: 1 << 12},
			role.Size{Name: "MaxRejected", N: cfg.MaxRejected, Default: 1 << 14},
			role.Size{Name: "MaxPaused", N: cfg.MaxPaused, Default: 1 << 12})
		if err = role.First("congested", err, self.Check(), role.CheckRate("Out", cfg.Out), cfg.check()); err != nil {
			return err
		}
		if !a.memory.Taken() {
			a.sent, a.rejected = limit.NewEvery(memory.Size(1)), limit.NewEvery(memory.Size(2))
			a.paused = newPausedFlows(memory.Size(3))
		}
		a.memory = memory
		a.pace.Configure(cfg.Out, max(slices.Max(cfg.PerFlow[:]), 0), memory.Size(0))
	}
	cfg.RejectedFor = cmp.Or(cfg.RejectedFor, time.Hour)
	cfg.FCN.Port = cmp.Or(cfg.FCN.Port, fcn.ExperimentalPort)
	cfg.Proxy.Port = cmp.Or(cfg.Proxy.Port, proxymsg.ExperimentalPort)
	cfg.FastCNP.InnerSource = true // who is answered is decided here
	a.cfg, a.self = cfg, self
	return nil
}

// check says what else of a Config cannot work.
func (c *Config) check() error {
	for i, interval := range c.PerFlow {
		if interval < 0 {
			return fmt.Errorf("PerFlow[%d] %v is negative", i, interval)
		}
	}
	if f := c.PauseFrom; max(f.Alarm, f.Hold, f.Stop) > level.Max {
		return fmt.Errorf("PauseFrom %+v has a level over %d", f, level.Max)
	}
	switch c.Fallback {
	case Nothing:
	case Proxy, FCN, PPFC:
		if !c.CannotMark {
			return errors.New("Fallback is for a node that CannotMark")
		}
	default:
		return fmt.Errorf("Fallback %v: none, proxy, fcn or ppfc allowed", c.Fallback)
	}
	return role.CheckTime("RejectedFor", c.RejectedFor)
}

// Counters returns what has been counted. It may be read from another goroutine.
func (a *Agent) Counters() *node.Counters { return &a.counters }
