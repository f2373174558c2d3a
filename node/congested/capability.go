package congested

import (
	"encoding/binary"
	"net/netip"
	"time"

	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/fcn"
	"github.com/rocecn/rocecn/internal/hash"
	"github.com/rocecn/rocecn/internal/wire"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/internal/role"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
)

// quoteTime is the time after a Fast CNP was sent in which an ICMPv6 error may quote it.
const quoteTime = 5 * time.Second

// lookUpCapability returns the capability of a sender. The configuration comes before rejections: only a sender of
// unknown capability can become incapable. A sender of which a probe is due has an unknown capability.
func (a *Role) lookUpCapability(sender netip.Addr, domain uint32, now time.Time) Capability {
	c, _ := a.cfg.Capable.Lookup(sender)
	if c == CapabilityUnknown && a.rejected.isSilent(a.hashAddr(sender, domain), now) {
		return Incapable
	}
	return c
}

// drawLabel returns the flow label of the next Fast CNP, which only nodes on its path can know. It is never 0. The
// ICRC does not cover it.
func (a *Role) drawLabel() uint32 { return uint32(a.labels.Uint64()%fcn.MaxFlowLabel) + 1 }

// learnICMP learns from an ICMPv6 error that a host does not support Fast CNP.
//
// A host that does not know the option of Fast CNP answers with a Parameter Problem that points at it (RFC 8200
// section 4.2). Any host can send such a message, to turn notifications off. So the role believes only one that comes
// from the host to which it has sent the quoted Fast CNP in the last 5 s, and that quotes all of its octets unchanged
// except traffic class and hop limit, which may change on the way. The flow label does not change (RFC 6437 section 3),
// and a node that has not seen the Fast CNP has to guess it. Two rejections of different Fast CNPs are needed. They
// must come in the domain of the packets that the Fast CNPs answered, and count in that one only: another domain may
// have a host of the same address.
func (a *Role) learnICMP(d *node.Decision, f *rocev2.Frame, domain uint32, now time.Time) {
	octets, ok := f.ICMPv6()
	if !ok {
		return
	}
	between, err := f.FiveTuple()
	if err != nil || len(octets) < wire.ICMPv6Size || octets[0] != wire.ICMPv6ParameterProblem {
		return
	}
	switch {
	case !a.cfg.Enabled:
		d.From, d.Reason = between.Src, node.ReasonDisabled
		return
	case between.Dst != a.cfg.Self6:
		if _, err := fastcnp.FromICMP(octets, a.cfg.FastCNP.CodePoints); err == nil {
			d.From, d.Reason = between.Src, node.ReasonDenied
		}
		return
	}
	d.From, d.Reason = between.Src, node.ReasonDenied
	quoted := octets[wire.ICMPv6Size:]
	// A look-up by hash is cheaper than decoding the quoted packet, so it comes first.
	if len(quoted) < wire.IPv6Size {
		return
	}
	packet := a.hashPacket(quoted, domain)
	if a.sent.Ready(packet, quoteTime, now) {
		return
	}
	n, err := fastcnp.FromICMP(octets, a.cfg.FastCNP.CodePoints)
	if err != nil || n.Dst != between.Src {
		return
	}
	if c, _ := a.cfg.Capable.Lookup(n.Dst); c != CapabilityUnknown {
		return
	}
	d.Flow = qpmap.Key{FlowKey: n.FlowKey(), Domain: domain}
	if !a.rejected.reject(a.hashAddr(n.Dst, domain), packet, n.Dst, domain, now) {
		d.Reason = node.ReasonUnconfirmed
		return
	}
	d.Action, d.Reason = node.ActionLearned, node.NoReason
}

// RecordSent records a Fast CNP, an IPv6 packet, that another program has sent for the node, such as one in the kernel:
// Receive then accepts ICMPv6 errors about it as errors about the node's own.
func (a *Role) RecordSent(ip []byte, domain uint32, now time.Time) {
	if a.cfg.Enabled && len(ip) >= wire.IPv6Size {
		a.sent.Record(a.hashPacket(ip, domain), a.latest.Or(now))
	}
}

const (
	word = 8 // octets

	// constant are the bits of an IPv6 packet's first word that do not change on its way: flow label, payload length
	// and next header. The program that sends the packet may give it another DSCP, as a border of a DiffServ domain
	// does.
	constant = 0x000FFFFF_FFFFFF00
)

// hashPacket returns a seeded hash of a domain and of the octets of an IPv6 packet that do not change on its way.
func (a *Role) hashPacket(ip []byte, domain uint32) uint64 {
	seed := a.memory.Seed()
	first := binary.BigEndian.Uint64(ip) & constant
	h := hash.Mix(seed^first, (uint64(domain)<<32|uint64(len(ip)))^0x9E3779B97F4A7C15)
	for ip = ip[word:]; len(ip) >= 16; ip = ip[16:] {
		h = hash.Mix(h^binary.BigEndian.Uint64(ip), binary.BigEndian.Uint64(ip[8:])^seed^0xD6E8FEB86659FD93)
	}
	var rest [16]byte
	copy(rest[:], ip)
	return hash.Mix(h^binary.BigEndian.Uint64(rest[:]), binary.BigEndian.Uint64(rest[8:])^seed^0xA0761D6478BD642F)
}

// hashAddr returns a seeded hash of an address and its domain.
func (a *Role) hashAddr(addr netip.Addr, domain uint32) uint64 {
	return role.Hash(&qpmap.Key{FlowKey: rocev2.FlowKey{Src: addr}, Domain: domain}, a.memory.Seed())
}
