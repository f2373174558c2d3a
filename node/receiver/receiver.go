// Package receiver is the notification point: the host that answers data packets marked CE with CNPs (IBTA annex
// A17.9.3, CA17-44; FAST section 3).
//
// A CNP must name the queue pair that sent the data packet. The packet itself says so only if it is a datagram (UD), in
// its DETH. For connections the receiver looks the queue pair up in Config.QPs.
//
//	sender ── data ──> switch ── data, CE ──> Receiver
//	       <─ CNP ─────────────────────────────┘
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
	"github.com/rocecn/rocecn/internal/wire"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/internal/role"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
)

// Config is the configuration, in the words of package [node].
type Config struct {
	Enabled      bool
	Self4, Self6 netip.Addr
	QPs          node.Pairs // of connections

	// PerFlow is the shortest time between two notifications that name the same queue pair of the same host: one CNP
	// stands for all packets marked since the last one (CA17-44). 50 µs is usual in hardware.
	PerFlow  time.Duration
	Out      node.Rate // of all notifications
	MaxFlows int       // for PerFlow, 16 octets each; 65,536 by default
	Seed     uint64

	// CNP and FastCNP are the parameters of the messages. Packets in tunnels get none, even with InnerSource.
	CNP cnp.Config

	// Fast: answer IPv6 packets with Fast CNPs, which receivers may send as well (FAST section 4). A Fast CNP names
	// the flow by the receiver's queue pair, so it needs no QPs.
	Fast    bool
	FastCNP fastcnp.Config
}

// A Role answers for one host.
type Role struct {
	cfg      Config
	self     role.Self
	qps      role.Pairs
	memory   role.Memory
	latest   role.Latest
	pace     role.Pace
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
		r.pace.Configure(cfg.Out, cfg.PerFlow, r.memory.Size(0))
	}
	r.cfg, r.self, r.qps = cfg, self, role.PairsOf(cfg.QPs)
	return nil
}

// Counters returns the counters. Any goroutine may read it.
func (r *Role) Counters() *node.Counters { return &r.counters }

// Receive decides about a packet, and appends the CNP to send, a whole IP packet, to out, which must not overlap the
// octets of f. RoCEv2 packets of either direction also teach QPs: if a packet only did that, the Action is
// node.ActionLearned. With Event.Observe it can do no more.
//
// Only data packets marked CE are answered by a CNP. If one is not, the first of these reasons is given:
// ReasonDisabled; ReasonBroken (it may be marked data but cannot be decoded); ReasonTrimmed; ReasonNotOurs (to another
// host); ReasonTunnelled; ReasonAddress (the sender's address cannot be answered); ReasonUnknownQP or ReasonAmbiguousQP
// (a CNP for a guessed queue pair could slow down the wrong flow; queue pairs 0 and 1 carry management only);
// ReasonLimited (PerFlow or Out); ReasonICRC, which is checked last as it costs the most.
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
	case !r.pace.Ready(named, r.cfg.PerFlow, now):
		return b, node.ReasonLimited
	}
	if !p.Truncated { // a packet that a capture cut has no ICRC to verify
		if _, err := icrc.Verify(p.IP); err != nil {
			return b, node.ReasonICRC
		}
	}
	out, err := r.appendCNP(b, p, fast, d.SrcQP)
	if err != nil {
		return b, node.ReasonBroken
	}
	r.pace.Charge(named, now)
	d.Action, d.Message, d.To = node.ActionSent, message.KindCNP, p.Src
	if fast {
		d.Message = message.KindFastCNP
	}
	return out, node.NoReason
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
