package congested

import (
	"encoding/binary"
	"net/netip"
	"time"

	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/internal/hash"
	"github.com/rocecn/rocecn/internal/wire"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/internal/role"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
)

// answerTime is the time after a Fast CNP was sent in which an ICMPv6 error about it is accepted.
const answerTime = time.Minute

// lookUpCapability returns the capability of a sender. A rejected Fast CNP overrides the configuration.
func (a *Role) lookUpCapability(sender netip.Addr, domain uint32, now time.Time) Capability {
	if !a.rejected.Ready(a.hashAddr(sender, domain), a.cfg.RejectedFor, now) {
		return Incapable
	}
	c, _ := a.cfg.Capable.Lookup(sender)
	return c
}

// learnICMP learns from an ICMPv6 error that a host does not support Fast CNP.
//
// A host that does not know the option of Fast CNP answers with a Parameter Problem that points at it (RFC 8200
// section 4.2). Any host can send such a message, to turn notifications off. So the role believes only one that comes
// from the host to which it has sent the quoted Fast CNP within the last minute, and that quotes all of its octets
// unchanged except traffic class, flow label and hop limit, which may change on the way, as the ICRC has it: only a
// node that has seen the Fast CNP can forge that. It must come in the domain of the packet that the Fast CNP answered,
// and counts in that one only: another domain may have a host of the same address.
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
	if len(quoted) < wire.IPv6Size || a.sent.Ready(a.hashPacket(quoted, domain), answerTime, now) {
		return
	}
	n, err := fastcnp.FromICMP(octets, a.cfg.FastCNP.CodePoints)
	if err != nil || n.Dst != between.Src {
		return
	}
	d.Action, d.Reason = node.ActionLearned, node.NoReason
	d.Flow = qpmap.Key{FlowKey: n.FlowKey(), Domain: domain}
	a.rejected.Record(a.hashAddr(n.Dst, domain), now)
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

	// constant are the octets of an IPv6 packet's first word that do not change on its way: payload length and next
	// header. The program that sends the packet may give it another DSCP, as a border of a DiffServ domain does.
	constant = 0x00000000_FFFFFF00
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
