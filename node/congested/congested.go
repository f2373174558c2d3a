// Package congested is the node where congestion occurs: the switch or router
// that tells the senders (FAST section 4, PROXY section 4, FCN section 4.1, PPFC
// section 3).
//
// Its agent is shown the packets that meet congestion, each with the level that
// the node's queue has reached, and says what to do: which notification to send
// and to whom, whether to mark ECN on the packet as well, or why neither.
//
//	packet, level  ──> Congested ──> notification for the sender, its proxy or its ingress PE
//	                             ──> whether to mark ECN on the packet
//	the queue fell ──> Resume    ──> PPFCs that let run again what was stopped
//	ICMPv6 errors  ──> ICMP          who does not understand Fast CNPs
//
// That the trigger is the node's own queue matters: a CE mark on an arriving
// packet was set by another node, and where all senders understand Fast CNPs no
// packet has one.
package congested

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/fcn"
	"github.com/rocecn/rocecn/ioam"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/acl"
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

	// Self4 and Self6 are the node's own addresses, IPv4 and IPv6, such that
	// others can reach them (FAST section 4): New refuses others. What has to come
	// from an address that is not set is not sent: node.NoMethod.
	Self4, Self6 netip.Addr

	Methods *acl.Map[Method]     // by sender; none is node.NoMethod
	Capable *acl.Map[Capability] // by sender; Unknown where there is none
	Proxies Proxies              // by sender; nil has none
	PEs     *acl.List            // the ingress PEs that FCNs and PPFCs may go to; nil has none

	// CannotMark: the node sees packets but cannot change them, as an agent
	// behind a mirror port cannot. Then no Decision has MarkECN, and packets that
	// only a mark could answer, those of senders that do not understand Fast CNPs
	// and those whose Method is Mark, are answered by Fallback: Proxy, FCN, PPFC,
	// or Nothing, which is node.NotCapable.
	CannotMark bool
	Fallback   Method

	// PauseFrom says from which level on a PPFC asks for what. PauseIngress: PPFCs
	// go to the ingress PE of the tunnel that the packet came in, if it is one of
	// PEs, and not to the sender. PPFC.NodeAddress says whom they name (D15).
	PauseFrom    PauseFrom
	PauseIngress bool

	// PerFlow is the least time between two notifications of one flow at each
	// level: the more congested, the more often (FCN section 4.1). 0 sets no
	// limit. A flow is one of a source, a destination and a destination queue pair;
	// of FCNs one of an ingress PE and a flow label. Rate limits all notifications
	// together. The PPFCs of [Agent.Resume] take from neither: there is at most one
	// for each that did.
	PerFlow [8]time.Duration
	Rate    limit.Rate

	// InnerSource: answer the inner source of tunnelled packets directly, with
	// Fast CNPs and PPFC. A node inside a tunnel's routing domain cannot reach it
	// (D17).
	InnerSource bool

	// RejectedFor is how long a sender counts as not capable after it has
	// rejected a Fast CNP; 0 stands for an hour.
	RejectedFor time.Duration

	// How much is kept at once, 16 octets each, and 64 for a flow that was paused;
	// 0 stands for the default. Where more come, those sent or learned longest ago
	// are forgotten.
	MaxFlows    int // flows that were notified: 65,536
	MaxSent     int // Fast CNPs that may still be rejected: 4,096
	MaxRejected int // senders that have rejected one: 16,384
	MaxPaused   int // flows that a PPFC has stopped or held: 4,096

	// Seed keeps others from choosing flows and rejections that collide; 0 stands
	// for a random one.
	Seed uint64

	// What the messages are built with. The agent decides itself about the inner
	// source, and chooses a UDP source port for proxy messages and FCNs where the
	// Carriage has none.
	FastCNP fastcnp.Config
	Proxy   proxymsg.Config
	FCN     fcn.Config
	PPFC    ppfc.Config
}

// An Event is a packet that met congestion.
type Event struct {
	Frame   []byte               // the packet as it arrived
	Options rocev2.DecodeOptions // what Frame is
	Level   uint8                // how congested, 0 to 7
	Pause   time.Duration        // what a PPFC asks for, in microseconds, at most ppfc.MaxPause
	Port    uint16               // what a PPFC says of where; one queue, one port
	Own     *ioam.Node           // the node's own record for the trace in a Fast CNP; nil for none (D14)
}

// A Decision is what to do about an Event.
type Decision struct {
	Packet message.Kind // what the packet is; Other: traffic that the agent has no say in
	Reason node.Reason  // Accepted, or why nothing is done

	Kind    message.Kind // of the notification to send; Other: none
	To      netip.Addr   // where it goes
	Option  uint8        // of a Fast CNP: 1 or 2
	MarkECN bool         // set CE on the packet, with rocev2.SetECN on its outermost IP header
}

// Stats counts decisions.
type Stats struct {
	Sent      [message.Proxy + 1]uint64 // notifications by kind
	Marked    uint64                    // packets to be marked, with a notification or without
	Refused   [node.Reasons]uint64      // by reason, ICMPv6 errors too
	Learned   uint64                    // senders that rejected a Fast CNP
	FellBack  uint64                    // notifications sent by Config.Fallback
	Resumed   uint64                    // PPFCs that let a flow run again
	Forgotten uint64                    // paused flows that made room for others, and get none
}

// An Agent decides for one congested node. It allocates its memory when it is
// made, and none later. It is not safe for concurrent use: use one instance a
// core, each for the flows that the core sees.
type Agent struct {
	cfg     Config
	message message.Message
	flow    rocev2.Flow
	inner   rocev2.Inner

	perFlow  *limit.Every
	rate     *limit.Bucket
	sent     *limit.Every // by the octets of Fast CNPs
	rejected *limit.Every // by the addresses of senders
	paused   pausedFlows

	stats Stats
}

// New returns an Agent. A Config that is off needs no more than that; of others
// the error names what cannot work.
func New(cfg Config) (*Agent, error) {
	if !cfg.Enabled {
		return &Agent{}, nil
	}
	if err := cfg.check(); err != nil {
		return nil, err
	}
	if cfg.RejectedFor == 0 {
		cfg.RejectedFor = time.Hour
	}
	if cfg.Seed == 0 {
		cfg.Seed = rand.Uint64()
	}
	cfg.FastCNP.InnerSource = true // who is answered is decided here
	return &Agent{
		cfg:      cfg,
		rate:     limit.NewBucket(cfg.Rate),
		perFlow:  limit.NewEvery(or(cfg.MaxFlows, 1<<16)),
		sent:     limit.NewEvery(or(cfg.MaxSent, 1<<12)),
		rejected: limit.NewEvery(or(cfg.MaxRejected, 1<<14)),
		paused:   newPausedFlows(or(cfg.MaxPaused, 1<<12)),
	}, nil
}

// check says what of a Config cannot work.
func (c *Config) check() error {
	for i, a := range [...]netip.Addr{c.Self4, c.Self6} {
		if a.IsValid() && (a.Is4() != (i == 0) || a.Zone() != "" || rocev2.Answerable(a) != nil) {
			return fmt.Errorf("congested: Self%d %v: a unicast address of its family that others can reach needed", 4+2*i, a)
		}
	}
	for i, interval := range c.PerFlow {
		if interval < 0 {
			return fmt.Errorf("congested: PerFlow[%d] %v is negative", i, interval)
		}
	}
	switch f := c.PauseFrom; {
	case c.RejectedFor < 0:
		return fmt.Errorf("congested: RejectedFor %v is negative", c.RejectedFor)
	case max(f.Alarm, f.Hold, f.Stop) > level.Max:
		return fmt.Errorf("congested: PauseFrom %+v has a level over %d", f, level.Max)
	}
	switch c.Fallback {
	case Nothing:
	case Proxy, FCN, PPFC:
		if !c.CannotMark {
			return errors.New("congested: Fallback is for a node that CannotMark")
		}
	default:
		return fmt.Errorf("congested: Fallback %v: none, proxy, fcn or ppfc allowed", c.Fallback)
	}
	return nil
}

// or returns n, or a default where it is 0 or less.
func or(n, otherwise int) int {
	if n <= 0 {
		return otherwise
	}
	return n
}

// Stats returns the counters.
func (a *Agent) Stats() Stats { return a.stats }
