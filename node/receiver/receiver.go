// Package receiver is the role of a host that receives data: it answers data
// packets marked CE with CNPs (IBTA annex A17.9.3, CA17-44; FAST section 3).
// [Role.Receive] appends the CNP for each packet that needs one.
//
//	sender ── data ──> switch ── data, CE ──> receiver
//	       <─ CNP ─────────────────────────────┘
//
// A CNP must name the queue pair that sent the data packet. A datagram (UD)
// contains it in its DETH. Packets of connections do not: for those the role
// asks Config.QPs, and sends no CNP if the queue pair is unknown or ambiguous.
//
// Experimental: this package may change in a minor release.
package receiver

import (
	"net/netip"
	"time"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/cm"
	"github.com/rocecn/rocecn/cnp"
	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/internal/limit"
	"github.com/rocecn/rocecn/internal/wire"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/internal/role"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
)

// Config is the configuration. Package [node] describes the fields that all roles have.
type Config struct {
	Enabled      bool
	Self4, Self6 netip.Addr
	QPs          node.Pairs // queue pairs of the senders of connections

	// PerFlow is the shortest time between two notifications to the same queue pair of the same host: one CNP
	// stands for all packets marked since the last one (CA17-44). 50 µs is usual in hardware.
	PerFlow time.Duration
	// Out limits all notifications. Datagrams (UD) get only the part of it that connections leave: they are easy to
	// forge, because they contain the queue pair of their sender.
	Out      node.Rate
	MaxFlows int    // entries of the table for PerFlow, 16 octets each; 65,536 by default
	Seed     uint64 // seed of the hash tables; 0 is a random one

	CNP cnp.Config // configuration of CNPs; InnerSource has no effect

	// Fast selects Fast CNPs as the answers to IPv6 packets: receivers may send them as well (FAST section 4). A Fast
	// CNP identifies the flow by the receiver's queue pair, so it needs no QPs.
	Fast    bool
	FastCNP fastcnp.Config // configuration of Fast CNPs; InnerSource has no effect
}

// A Role answers the packets to one host.
type Role struct {
	cfg      Config
	self     role.Self
	qps      role.Pairs
	memory   role.Memory
	latest   role.Latest
	pace     role.Pace     // of all notifications
	known    *limit.Shared // of those for connections; a limit of its own, so that datagrams cannot exhaust it
	packet   rocev2.Packet
	counters node.Counters
}

// New returns a Role; see [node.Role].
func New(cfg Config) (*Role, error) {
	return role.New(&Role{}, cfg)
}

// Configure changes the rules.
func (r *Role) Configure(cfg Config) error {
	self := role.Self{V4: cfg.Self4, V6: cfg.Self6}
	if cfg.Enabled {
		sizes := []role.Size{{Name: "MaxFlows", N: cfg.MaxFlows, Default: 1 << 16}}
		_, err := r.memory.Configure("receiver", cfg.Seed, sizes, self.Needed(), role.CheckTime("PerFlow", cfg.PerFlow),
			role.CheckRate("Out", cfg.Out), role.CheckCarriage("CNP.Carriage", cfg.CNP.Carriage),
			role.CheckFastCNP("FastCNP.", cfg.FastCNP))
		if err != nil {
			return err
		}
		r.pace.Configure(cfg.Out, cfg.PerFlow, r.memory.Size(0), r.memory.Seed())
		r.known = r.known.With(limit.Rate(cfg.Out))
	}
	r.cfg, r.self, r.qps = cfg, self, role.PairsOf(cfg.QPs)
	return nil
}

// Counters returns the counters. Any goroutine may read it.
func (r *Role) Counters() *node.Counters { return &r.counters }

// Receive decides about a packet and appends the CNP, a complete IP packet, to
// out, which must not overlap the octets of f. RoCEv2 packets of either
// direction also teach QPs; if Receive does nothing else, the Action is
// node.ActionLearned. With Event.Observe Receive only learns.
//
// Only data packets marked CE get a CNP. If such a packet gets none, the Reason
// is the first of these that applies:
//   - ReasonDisabled
//   - ReasonBroken: the packet may be marked data but cannot be decoded
//   - ReasonTrimmed: a trimmed packet has no ICRC
//   - ReasonNotOurs: the packet is addressed to another host
//   - ReasonTunnelled
//   - ReasonAddress
//   - ReasonUnknownQP or ReasonAmbiguousQP: a CNP to a guessed queue pair could
//     slow down another flow. Queue pairs 0 and 1, which only carry management,
//     count as unknown
//   - ReasonLimited: PerFlow or Out
//   - ReasonICRC: checked last because it takes the most time
func (r *Role) Receive(out []byte, f *rocev2.Frame, e node.Event) (sent []byte, d node.Decision) {
	if sent = out; f != nil {
		e.Now = r.latest.Or(e.Now)
		sent, d.Reason = r.receiveFrame(out, f, &e, &d)
		r.counters.Settle(&d)
	}
	return sent, d
}

// Due does nothing: a receiver sends nothing unless it receives a frame.
func (r *Role) Due(out []byte, _ time.Time) (sent []byte, d node.Decision) { return out, d }

func (r *Role) receiveFrame(b []byte, f *rocev2.Frame, e *node.Event, d *node.Decision) (sent []byte,
	reason node.Reason) {
	p := &r.packet
	d.Packet, reason = role.Decode(p, f)
	asks := false // it is data marked CE, or may be
	switch {
	case e.Observe:
	case reason == node.NoReason, reason == node.ReasonTrimmed:
		asks = p.ECN() == rocev2.CE && d.Packet == message.KindData
	case reason == node.ReasonBroken:
		asks = isMarked(f.BorderPacket()) && role.MayBe(f, message.KindData)
	}
	switch {
	case asks && !r.cfg.Enabled:
		return b, node.ReasonDisabled
	case asks && reason != node.NoReason:
		return b, reason
	case !r.cfg.Enabled || reason != node.NoReason || e.Observe && d.Packet == message.KindCNP:
		return b, node.NoReason
	}
	if r.qps.Learns() {
		r.qps.Learn(d, p, e.Domain, r.self.Peer(p), e.Now)
	}
	if asks {
		return r.appendAnswer(b, p, e.Domain, d, e.Now)
	}
	return b, node.NoReason
}

// isMarked reports whether the ECN field of an IP packet, of which octets may be missing, is CE.
func isMarked(ip []byte) bool {
	const ce = uint8(rocev2.CE)
	return len(ip) > 1 && wire.TrafficClass(ip)&3 == ce
}

func (r *Role) appendAnswer(
	b []byte, p *rocev2.Packet, domain uint32, d *node.Decision, now time.Time,
) ([]byte, node.Reason) {
	d.Action, d.SrcQP, d.KnownQP = node.NoAction, 0, false // the learned pair is not the answer
	d.Flow.FlowKey, d.Flow.Domain = role.PacketKey(p), domain
	switch {
	case !r.self.Has(p.Dst):
		return b, node.ReasonNotOurs
	case len(p.Outer) > 0:
		return b, node.ReasonTunnelled
	case rocev2.CheckAnswerable(p.Src) != nil:
		return b, node.ReasonAddress
	}
	fast := r.cfg.Fast && p.Src.Is6()
	named := r.senderKey(p, d, fast, now)
	switch {
	case d.Reason != node.NoReason:
		return b, d.Reason
	case !r.isWithinLimits(p, named, now):
		return b, node.ReasonLimited
	}
	if !p.Truncated { // a truncated packet has no ICRC to verify
		if _, err := icrc.Verify(p.IP); err != nil {
			return b, node.ReasonICRC
		}
	}
	out, err := r.appendCNP(b, p, fast, d.SrcQP)
	if err != nil {
		return b, node.ReasonBroken
	}
	r.chargeLimits(p, named, now)
	d.Action, d.Message, d.To = node.ActionSent, message.KindCNP, p.Src
	if fast {
		d.Message = message.KindFastCNP
	}
	return out, node.NoReason
}

// isWithinLimits reports whether the limits allow a notification about a packet.
func (r *Role) isWithinLimits(p *rocev2.Packet, named uint64, now time.Time) bool {
	from := role.Source{Addr: p.Src}
	if p.BTH.Present.Has(bth.HasDETH) {
		return r.pace.Ready(named, from, r.cfg.PerFlow, now)
	}
	each, all := r.pace.ReadyKey(named, r.cfg.PerFlow, now), r.known.Ready(from.Share(r.memory.Seed()), now)
	return each && all
}

// chargeLimits charges a notification about a packet to the limits.
func (r *Role) chargeLimits(p *rocev2.Packet, named uint64, now time.Time) {
	from := role.Source{Addr: p.Src}
	if p.BTH.Present.Has(bth.HasDETH) {
		r.pace.Charge(named, from, now)
		return
	}
	r.pace.ChargeDebt(named, now)
	r.known.Charge(from.Share(r.memory.Seed()), now)
}

// senderKey returns the key of the limits, by the fields that the notification names: for a CNP the sender's address
// and queue pair, regardless of the queue pair of this host to which the data went; for a Fast CNP the flow.
func (r *Role) senderKey(p *rocev2.Packet, d *node.Decision, fast bool, now time.Time) uint64 {
	if fast {
		return role.Hash(&d.Flow, r.memory.Seed())
	}
	if p.BTH.Present.Has(bth.HasDETH) {
		if d.SrcQP, d.KnownQP = p.BTH.DETH.SrcQP, true; d.SrcQP <= cm.QP { // management, which no CNP slows down
			d.SrcQP, d.KnownQP, d.Reason = 0, false, node.ReasonUnknownQP
		}
	} else {
		r.qps.Find(d, now)
	}
	evicted := qpmap.Key{FlowKey: rocev2.FlowKey{Dst: p.Src, DestQP: d.SrcQP}, Domain: d.Flow.Domain}
	return role.Hash(&evicted, r.memory.Seed())
}

// appendCNP appends the notification. A CNP names the sender's queue pair.
func (r *Role) appendCNP(b []byte, p *rocev2.Packet, fast bool, senderQP uint32) ([]byte, error) {
	if fast {
		out, _, err := fastcnp.AppendFor(b, p, p.Dst, nil, r.cfg.FastCNP)
		return out, err
	}
	return cnp.AppendFor(b, p, p.Dst, senderQP, r.cfg.CNP)
}
