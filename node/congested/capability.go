package congested

import (
	"encoding/binary"
	"net/netip"
	"time"

	"github.com/rocecn/rocecn/internal/hash"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
)

// answerTime is how long after a Fast CNP an ICMPv6 error about it is believed.
const answerTime = time.Minute

const (
	icmpParameterProblem = 4 // RFC 4443 section 3.4
	icmpHeader           = 8 // the invoking packet follows
)

// capability returns what is known of a sender. That it has rejected a Fast CNP
// counts more than what is configured.
func (a *Agent) capability(sender netip.Addr, now time.Time) Capability {
	if !a.rejected.Ready(a.hashOf(sender), a.cfg.RejectedFor, now) {
		return No
	}
	c, _ := a.cfg.Capable.Lookup(sender)
	return c
}

// Receive takes any packet that the node sees, and learns from ICMPv6 errors, out of frames or from a raw socket for
// ICMPv6, which verifies checksums. Nothing is appended to out.
//
// A host that does not know the option of Fast CNP answers with a Parameter Problem that points at it (RFC 8200
// section 4.2). The agent then counts it as not capable for Config.RejectedFor: the Action is node.Learned. Anybody
// can send such a message, so it must come from the host that was sent, within the last minute, exactly the Fast CNP
// that it quotes, whole, all octets but the hop limit the same: to forge that one has to see the Fast CNP.
//
// Any other Parameter Problem to the node, and those to others that are about a Fast CNP, as no node gets what it did
// not send from another's address, are Refused as Denied. For other traffic the Action is node.Nothing.
func (a *Agent) Receive(out []byte, f *rocev2.Frame, domain uint32, now time.Time) ([]byte, node.Decision) {
	var d node.Decision
	if octets, ok := f.ICMPv6(); ok {
		a.icmp(&d, f, octets, domain, now)
	}
	a.counters.Decided(&d)
	return out, d
}

func (a *Agent) icmp(d *node.Decision, f *rocev2.Frame, octets []byte, domain uint32, now time.Time) {
	between, err := f.FiveTuple()
	if err != nil || len(octets) < icmpHeader || octets[0] != icmpParameterProblem {
		return
	}
	if between.Dst != a.cfg.Self6 || !a.cfg.Enabled {
		if _, err := a.cfg.FastCNP.CodePoints.FromICMP(octets); err == nil {
			d.From, d.Reason = between.Src, node.Denied
			if !a.cfg.Enabled {
				d.Reason = node.Disabled
			}
		}
		return
	}
	d.From, d.Reason = between.Src, node.Denied
	quoted := octets[icmpHeader:]
	// Whether it was sent is cheaper to see than what it is.
	if len(quoted) < ipv6Size || a.sent.Ready(a.hash(quoted), answerTime, now) {
		return
	}
	n, err := a.cfg.FastCNP.CodePoints.FromICMP(octets)
	if err != nil || n.Dst != between.Src {
		return
	}
	d.Action, d.Reason = node.Learned, node.Accepted
	d.Flow = qpmap.Key{FlowKey: n.FlowKey(), Domain: domain}
	a.rejected.Take(a.hashOf(n.Dst), now)
}

const (
	ipv6Size   = 40
	hopLimitAt = 7
)

// hash returns 64 bits that depend on all octets of an IPv6 packet but its hop
// limit, and on the seed.
func (a *Agent) hash(ip []byte) uint64 {
	seed := a.memory.Seed()
	first := binary.BigEndian.Uint64(ip) &^ 0xFF // the hop limit is its last octet
	h := hash.Mix(seed^first, uint64(len(ip))^0x9E3779B97F4A7C15)
	for ip = ip[hopLimitAt+1:]; len(ip) >= 16; ip = ip[16:] {
		h = hash.Mix(h^binary.BigEndian.Uint64(ip), binary.BigEndian.Uint64(ip[8:])^seed^0xD6E8FEB86659FD93)
	}
	var rest [16]byte
	copy(rest[:], ip)
	return hash.Mix(h^binary.BigEndian.Uint64(rest[:]), binary.BigEndian.Uint64(rest[8:])^seed^0xA0761D6478BD642F)
}

// hashOf returns 64 bits that depend on an address and the seed.
func (a *Agent) hashOf(addr netip.Addr) uint64 {
	return rocev2.FlowKey{Src: addr}.Hash(a.memory.Seed())
}
