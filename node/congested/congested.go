// Package congested is the role of the node where congestion occurs: the switch or router that notifies the senders
// (FAST section 4, PROXY section 4, FCN section 4.1, PPFC section 3).
//
// The program calls [Role.Receive] for each packet that experiences congestion, with the level of the node's queue. The
// decision is the notification to send and its destination, a mark on the packet, or the reason for neither.
//
//	packet, level    ──> Receive ──> notification for the sender, its proxy or its ingress PE
//	                             ──> whether to mark ECN on the packet
//	other packets    ──> Receive     learns from ICMPv6 errors which hosts do not support Fast CNP (Event.Observe)
//	no frame         ──> Receive     the queue of Event.Port has level 0
//	                     Due     ──> PPFCs that let stopped flows run again
//
// The trigger must be the node's own queue. A CE mark on an arriving packet is no trigger: another node has set it,
// and if all senders of a network support Fast CNP no packet has one. Config.OnlyMarked is for a node that sets the
// mark in its own queue.
//
// Experimental: this package may change in a minor release.
package congested

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/fcn"
	"github.com/rocecn/rocecn/internal/flowtable"
	"github.com/rocecn/rocecn/internal/limit"
	"github.com/rocecn/rocecn/ioam"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/acl"
	"github.com/rocecn/rocecn/node/internal/role"
	"github.com/rocecn/rocecn/node/level"
	"github.com/rocecn/rocecn/ppfc"
	"github.com/rocecn/rocecn/proxymsg"
)

// Proxies maps a sender to its proxy. *acl.Map[netip.Addr] and *proxies.Table implement it.
type Proxies interface {
	Lookup(sender netip.Addr) (proxy netip.Addr, ok bool)
}

// Config is the configuration. Package [node] describes the fields that all roles have.
type Config struct {
	Enabled bool

	// Self4 and Self6 must be addresses that others can reach (FAST section 4). Both are optional: a notification
	// that needs an unset source address is not sent, node.ReasonNoMethod.
	Self4, Self6 netip.Addr

	// OnlyMarked: only data with CE counts as congested, in a tunnel also with CE in an outer IP header if the packet
	// itself is ECN-capable (RFC 6040).
	OnlyMarked bool

	Methods *acl.Map[Method]     // by sender; a sender without one is node.ReasonNoMethod
	Capable *acl.Map[Capability] // by sender; a sender without one is CapabilityUnknown
	Proxies Proxies              // by sender; with nil every sender is node.ReasonNoProxy
	PEs     *acl.List            // the ingress PEs that FCNs and PPFCs may go to; with nil none may

	// AnyTunnelled: the ingress PE gets an FCN for every congested tunnel packet from one of PEs, of any contents, such
	// as ESP (FCN section 4.1, which names only the outer header). Methods then apply to the other packets.
	AnyTunnelled bool

	// CannotMark: the node sees packets but cannot change them, such as an agent at a mirror port. Then no Decision has
	// MarkECN. Packets that need a mark (of senders that do not support Fast CNP, or with Method Mark) are answered by
	// Fallback instead: MethodProxy, MethodFCN, MethodPPFC, or NoMethod, which gives node.ReasonNotCapable.
	CannotMark bool
	Fallback   Method

	// PauseFrom selects the request of a PPFC by level. With PauseIngress, PPFCs go to the ingress PE of the packet's
	// tunnel, if it is one of PEs, instead of the sender. PPFC.NodeAddress selects the address that they name (D15).
	// Pause is the duration of a stop or hold, in whole microseconds, at most ppfc.MaxPause.
	PauseFrom    PauseFrom
	PauseIngress bool
	Pause        time.Duration

	// Own is the node's own record, which is added to the trace in a Fast CNP; nil for none (D14). It has at least one
	// field. Receive reads it for each Fast CNP, so the program may change its fields between two calls.
	Own *ioam.Node

	// PerFlow is, by level, the shortest time between two notifications about one flow: the more congested, the more
	// often (FCN section 4.1). 0 sets no limit. A flow is identified by its addresses and destination queue pair; for
	// FCN by the ingress PE and the flow label. Out limits all notifications together. PPFCs of [Role.Due] are
	// exempt, because each ends a pause that was counted when it began.
	PerFlow [8]time.Duration
	Out     node.Rate

	// Probe is the time after which a sender of unknown capability that has rejected Fast CNPs gets one again, a
	// probe. 0 stands for a second; the maximum is an hour. Each rejected probe doubles the time until the next one,
	// up to an hour.
	Probe time.Duration

	// The sizes of the tables, and their defaults. An entry has 16 octets, one of MaxRejected 64, and one of MaxPaused
	// 88.
	MaxFlows    int // flows that were notified: 65,536
	MaxSent     int // Fast CNPs that may still be rejected: 4,096
	MaxRejected int // senders that have rejected a Fast CNP: 16,384
	MaxPaused   int // flows that were stopped or held by a PPFC: 4,096
	// Seed is the key of the tables' hashes and of the flow labels of Fast CNPs. It should be secret, and cannot change
	// once the role was enabled. 0 stands for a random one.
	Seed uint64

	// FastCNP, Proxy, FCN and PPFC configure the messages. With its InnerSource a Fast CNP or PPFC about a tunnelled
	// packet goes to the inner source, which a node in the routing domain of the tunnel usually cannot reach (D17). The
	// ports and option types also identify arriving messages. The flow label in FastCNP has no effect: each Fast CNP
	// has a random one, which verifies rejections.
	FastCNP fastcnp.Config
	Proxy   proxymsg.Config
	FCN     fcn.Config
	PPFC    ppfc.Config
}

// A Role decides for one congested node.
type Role struct {
	cfg      Config
	self     role.Self
	memory   role.Memory
	latest   role.Latest
	pace     role.Pace
	sent     *limit.Every // by the octets of Fast CNPs
	labels   *rand.ChaCha8
	rejected rejections
	paused   pausedFlows
	counters node.Counters

	message message.Message
}

// New returns a Role; see [node.Role].
func New(cfg Config) (*Role, error) {
	return role.New(&Role{}, cfg)
}

// Configure changes the rules. The role keeps the hosts that rejected Fast CNPs and the flows that are paused.
func (a *Role) Configure(cfg Config) error {
	self := role.Self{V4: cfg.Self4, V6: cfg.Self6}
	if cfg.Enabled {
		m, sizes := &a.memory, []role.Size{{Name: "MaxFlows", N: cfg.MaxFlows, Default: 1 << 16},
			{Name: "MaxSent", N: cfg.MaxSent, Default: 1 << 12},
			{Name: "MaxRejected", N: cfg.MaxRejected, Default: 1 << 14},
			{Name: "MaxPaused", N: cfg.MaxPaused, Default: 1 << 12}}
		first, err := m.Configure("congested", cfg.Seed, sizes, self.Check(), role.CheckRate("Out", cfg.Out),
			cfg.checkFields())
		if err != nil {
			return err
		}
		if first {
			a.sent = limit.NewEvery(m.Size(1))
			a.labels = newLabels(m.Seed())
			a.rejected.sets = flowtable.NewSets[rejection](m.Size(2))
			a.paused.sets = flowtable.NewSets[pausedFlow](m.Size(3))
		}
		a.pace.Configure(cfg.Out, slices.Max(cfg.PerFlow[:]), m.Size(0), m.Seed())
	}
	a.rejected.configure(cfg.Probe)
	cfg.FCN.Port = cmp.Or(cfg.FCN.Port, fcn.Port)
	cfg.Proxy.Port = cmp.Or(cfg.Proxy.Port, proxymsg.Port)
	a.cfg, a.self = cfg, self
	return nil
}

// newLabels returns the source of flow labels. It is a cipher, so labels do not reveal later ones.
func newLabels(seed uint64) *rand.ChaCha8 {
	var key [32]byte
	binary.BigEndian.PutUint64(key[:], seed)
	return rand.NewChaCha8(key)
}

// checkFields returns an error for other settings that cannot work.
func (c *Config) checkFields() error {
	for i, interval := range c.PerFlow {
		if interval < 0 {
			return fmt.Errorf("PerFlow[%d] %v is negative", i, interval)
		}
	}
	if f := c.PauseFrom; max(f.Alarm, f.Hold, f.Stop) > level.Max {
		return fmt.Errorf("PauseFrom %+v has a level over %d", f, level.Max)
	}
	switch c.Fallback {
	case NoMethod:
	case MethodProxy, MethodFCN, MethodPPFC:
		if !c.CannotMark {
			return errors.New("a Fallback is for a node that CannotMark")
		}
	default:
		return fmt.Errorf("the Fallback %v: none, proxy, fcn or ppfc allowed", c.Fallback)
	}
	if c.Probe > maxProbe {
		return fmt.Errorf("the Probe %v: want at most %v", c.Probe, maxProbe)
	}
	return cmp.Or(c.checkOwn(), role.CheckTime("Probe", c.Probe),
		role.CheckFastCNP("FastCNP.", c.FastCNP),
		role.CheckCarriage("Proxy.Carriage", c.Proxy.Carriage),
		role.CheckCarriage("FCN.Carriage", c.FCN.Carriage), role.CheckCarriage("PPFC.Carriage", c.PPFC.Carriage))
}

// checkOwn returns an error for an own record that cannot be added to a trace.
func (c *Config) checkOwn() error {
	if c.Own == nil {
		return nil
	}
	if c.Own.Type()&^ioam.BitReserved == 0 {
		return errors.New("field Own is empty: want a record with at least one value, or nil")
	}
	if _, err := c.Own.AppendBinary(nil); err != nil {
		return fmt.Errorf("field Own: %w", err)
	}
	return nil
}

// Counters returns the counters. Any goroutine may read it.
func (a *Role) Counters() *node.Counters { return &a.counters }

// A Fill is the number of entries of a table, and their maximum.
type Fill struct{ Entries, Max int }

// Fill returns the fill of the tables of senders that have rejected a Fast CNP and of flows that were stopped or held.
// Rejections that have expired count until a later packet of their sender. Its time is linear in the sizes of the
// tables.
func (a *Role) Fill() (rejected, paused Fill) {
	for i := range a.rejected.sets.All {
		for j := range a.rejected.sets.All[i] {
			if a.rejected.sets.All[i][j].key != 0 {
				rejected.Entries++
			}
		}
	}
	for _, n := range a.paused.ports {
		paused.Entries += int(n)
	}
	rejected.Max, paused.Max = 4*len(a.rejected.sets.All), 4*len(a.paused.sets.All)
	return rejected, paused
}
