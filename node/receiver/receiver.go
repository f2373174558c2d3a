// Package receiver is the notification point: the host that answers data packets
// marked CE with CNPs (IBTA annex A17.9.3, CA17-44; FAST section 3).
//
// What the data packet does not say is which queue pair sent it, and a CNP must
// name that one. Of datagrams (UD) the DETH does; for connections the receiver
// looks it up in what it was given or has learned ([node.Pairs]).
//
//	sender ── data ──> switch ── data, CE ──> Receiver
//	       <─ CNP ─────────────────────────────┘
package receiver

import (
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/cnp"
	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/limit"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
)

// Config is what a deployment chooses. The zero Config is off.
type Config struct {
	Enabled      bool       // without it nothing is sent
	Self4, Self6 netip.Addr // the host's own addresses

	QPs node.Pairs // of connections; nil knows none

	// Interval is the least time between two notifications that name the same
	// queue pair of the same host: one stands for all packets that were marked
	// meanwhile (CA17-44). Hardware has 50 µs, say. Rate limits all of them
	// together. Without a limit, the default, every marked packet is answered.
	// Only what is sent takes from a limit.
	Interval time.Duration
	Rate     limit.Rate
	MaxFlows int    // 16 octets each; 0 stands for 65,536. Those answered longest ago are forgotten
	Seed     uint64 // keeps others from choosing flows that collide; 0 stands for a random one

	CNP cnp.Config

	// Fast: answer IPv6 with Fast CNPs, which a receiver may send too (FAST
	// section 4). They name the flow by the receiver's queue pair.
	Fast    bool
	FastCNP fastcnp.Config
}

// A Decision is what to do about a data packet.
type Decision struct {
	Reason node.Reason  // Accepted, or why a marked packet is not answered
	Kind   message.Kind // CNP, FastCNP; Other: there is nothing to send
	To     netip.Addr   // where it goes
}

// Stats counts decisions.
type Stats struct {
	Marked  uint64               // data packets with CE
	Sent    uint64               // CNPs and Fast CNPs
	Refused [node.Reasons]uint64 // by reason
}

// A Receiver answers for one host. It allocates its memory when it is made, and
// none later. It is not safe for concurrent use: use one instance a core, each for
// the flows that the core sees.
type Receiver struct {
	cfg   Config
	flows *limit.Every
	rate  *limit.Bucket
	stats Stats
}

// New returns a Receiver.
func New(cfg Config) *Receiver {
	if cfg.Seed == 0 {
		cfg.Seed = rand.Uint64()
	}
	r := &Receiver{cfg: cfg}
	if cfg.Enabled {
		if cfg.MaxFlows <= 0 {
			cfg.MaxFlows = 1 << 16
		}
		r.flows, r.rate = limit.NewEvery(cfg.MaxFlows), limit.NewBucket(cfg.Rate)
	}
	return r
}

// Stats returns the counters.
func (r *Receiver) Stats() Stats { return r.stats }

// Receive decides about a packet that arrived, and appends the CNP to send, a
// whole IP packet, to b, which must not overlap what p aliases.
//
// Only data packets marked CE ask for one. Of the reasons against it the first
// counts: Disabled; NotOurs, for other hosts' packets; Tunnelled; Address, of a
// sender that cannot be answered; UnknownQP and AmbiguousQP: a CNP is never sent
// on a guess; Limited, by Interval and by Rate; ICRC, which is the dearest to look
// at.
func (r *Receiver) Receive(b []byte, p *rocev2.Packet, now time.Time) ([]byte, Decision) {
	if p.ECN() != rocev2.CE || !isData(p.BTH.Opcode) {
		return b, Decision{}
	}
	r.stats.Marked++
	out, d := r.answer(b, p, now)
	if d.Reason != node.Accepted {
		r.stats.Refused[d.Reason]++
		return b, d
	}
	r.stats.Sent++
	return out, d
}

// isData says whether a packet carries data: it is neither an acknowledgement nor
// a notification.
func isData(op bth.Opcode) bool {
	return op != bth.CNP && !op.Acknowledges()
}

func (r *Receiver) answer(b []byte, p *rocev2.Packet, now time.Time) ([]byte, Decision) {
	switch {
	case !r.cfg.Enabled:
		return b, Decision{Reason: node.Disabled}
	case p.Dst != r.cfg.Self4 && p.Dst != r.cfg.Self6:
		return b, Decision{Reason: node.NotOurs}
	case len(p.Outer) > 0:
		return b, Decision{Reason: node.Tunnelled}
	case rocev2.Answerable(p.Src) != nil:
		return b, Decision{Reason: node.Address}
	}
	fast := r.cfg.Fast && p.Src.Is6()
	named, reason := r.named(p, fast, now)
	key := named.Hash(r.cfg.Seed)
	switch {
	case reason != node.Accepted:
		return b, Decision{Reason: reason}
	case !r.flows.Ready(key, r.cfg.Interval, now), !r.rate.Ready(now):
		return b, Decision{Reason: node.Limited}
	}
	if !p.Truncated { // what a capture cut cannot be verified
		if _, err := icrc.Verify(p.IP); err != nil {
			return b, Decision{Reason: node.ICRC}
		}
	}
	out, d := r.build(b, p, fast, named.DestQP)
	if d.Reason == node.Accepted {
		r.flows.Take(key, now)
		r.rate.Take(now)
	}
	return out, d
}

// named returns what the notification names, and what its limit goes by: a CNP the
// sender's queue pair, which is where it goes, whatever queue pair of this host
// the data went to; a Fast CNP the flow.
func (r *Receiver) named(p *rocev2.Packet, fast bool, now time.Time) (rocev2.FlowKey, node.Reason) {
	k := p.FlowKey()
	if fast {
		return k, node.Accepted
	}
	qp, reason := r.sourceQP(p, k, now)
	return rocev2.FlowKey{Dst: p.Src, DestQP: qp}, reason
}

// build appends the notification. A CNP names the sender's queue pair.
func (r *Receiver) build(b []byte, p *rocev2.Packet, fast bool, senderQP uint32) ([]byte, Decision) {
	if fast {
		out, err := fastcnp.AppendFor(b, p, p.Dst, nil, r.cfg.FastCNP)
		return out, decision(message.FastCNP, p.Src, err)
	}
	out, err := cnp.AppendFor(b, p, p.Dst, senderQP, r.cfg.CNP)
	return out, decision(message.CNP, p.Src, err)
}

func decision(kind message.Kind, to netip.Addr, err error) Decision {
	if err != nil {
		return Decision{Reason: node.Broken}
	}
	return Decision{Kind: kind, To: to}
}

// sourceQP returns the queue pair that sent p.
func (r *Receiver) sourceQP(p *rocev2.Packet, k rocev2.FlowKey, now time.Time) (uint32, node.Reason) {
	if p.BTH.Present.Has(bth.HasDETH) {
		return p.BTH.DETH.SrcQP, node.Accepted
	}
	pair, reason := node.SourceQP(r.cfg.QPs, qpmap.Key{FlowKey: k}, now)
	return pair.SrcQP, reason
}
