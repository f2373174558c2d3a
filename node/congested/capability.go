package congested

import (
	"encoding/binary"
	"net/netip"
	"time"

	"github.com/rocecn/rocecn/internal/hash"
	"github.com/rocecn/rocecn/node"
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

// ICMP takes an ICMPv6 message that came from an address, as a socket for ICMPv6
// delivers it: it begins with the type, and its checksum was verified.
//
// A host that does not know the option of Fast CNP answers with a Parameter
// Problem that points at it (RFC 8200 section 4.2). The agent then counts it as
// not capable for Config.RejectedFor. Anybody can send such a message, so it must
// come from the host that was sent, within the last minute, exactly the Fast CNP
// that it quotes, whole, all octets but the hop limit the same: to forge that one
// has to see the Fast CNP.
//
// The result is Accepted where the sender is not capable as of now, Denied for
// any other Parameter Problem, NotOurs for other messages, Disabled.
func (a *Agent) ICMP(from netip.Addr, message []byte, now time.Time) node.Reason {
	reason := a.icmp(from, message, now)
	switch reason {
	case node.Accepted:
		a.stats.Learned++
	case node.NotOurs: // other traffic is no refusal
	default:
		a.stats.Refused[reason]++
	}
	return reason
}

func (a *Agent) icmp(from netip.Addr, message []byte, now time.Time) node.Reason {
	switch {
	case !a.cfg.Enabled:
		return node.Disabled
	case len(message) < icmpHeader || message[0] != icmpParameterProblem:
		return node.NotOurs
	}
	quoted := message[icmpHeader:]
	// Whether it was sent is cheaper to see than what it is.
	if len(quoted) < ipv6Size || a.sent.Ready(a.hash(quoted), answerTime, now) {
		return node.Denied
	}
	n, err := a.cfg.FastCNP.CodePoints.FromICMP(message)
	if err != nil || n.Dst != from.WithZone("") {
		return node.Denied
	}
	a.rejected.Take(a.hashOf(n.Dst), now)
	return node.Accepted
}

// ICMPFrame is [Agent.ICMP] for those who see frames instead of a socket: for a
// frame with an ICMPv6 message, whose checksum is not verified. NotOurs is other
// traffic, among it messages for others, unless they are about a Fast CNP.
func (a *Agent) ICMPFrame(frame []byte, o rocev2.DecodeOptions, now time.Time) node.Reason {
	f := &a.flow
	if !a.cfg.Enabled {
		return node.Disabled
	}
	if f.Decode(frame, o) != nil || f.Protocol != protoICMPv6 || !f.Src.Is6() || f.Tunnelled() {
		return node.NotOurs
	}
	message := behindExtensions(f.IP)
	if f.Dst != a.cfg.Self6 {
		if _, err := a.cfg.FastCNP.CodePoints.FromICMP(message); err != nil {
			return node.NotOurs
		}
		a.stats.Refused[node.Denied]++ // no node gets what it did not send from another's address
		return node.Denied
	}
	return a.ICMP(f.Src, message, now)
}

const protoICMPv6 = 58

// behindExtensions returns what stands behind the headers of an IPv6 packet that
// was walked before: its extension headers are whole.
func behindExtensions(ip []byte) []byte {
	next, rest := ip[6], ip[ipv6Size:]
	for next == 0 || next == 43 || next == 60 {
		n := 8 + 8*int(rest[1])
		next, rest = rest[0], rest[n:]
	}
	return rest
}

const (
	ipv6Size   = 40
	hopLimitAt = 7
)

// hash returns 64 bits that depend on all octets of an IPv6 packet but its hop
// limit, and on the seed.
func (a *Agent) hash(ip []byte) uint64 {
	first := binary.BigEndian.Uint64(ip) &^ 0xFF // the hop limit is its last octet
	h := hash.Mix(a.cfg.Seed^first, uint64(len(ip))^0x9E3779B97F4A7C15)
	for ip = ip[hopLimitAt+1:]; len(ip) >= 16; ip = ip[16:] {
		h = hash.Mix(h^binary.BigEndian.Uint64(ip), binary.BigEndian.Uint64(ip[8:])^a.cfg.Seed^0xD6E8FEB86659FD93)
	}
	var rest [16]byte
	copy(rest[:], ip)
	return hash.Mix(h^binary.BigEndian.Uint64(rest[:]), binary.BigEndian.Uint64(rest[8:])^a.cfg.Seed^0xA0761D6478BD642F)
}

// hashOf returns 64 bits that depend on an address and the seed.
func (a *Agent) hashOf(addr netip.Addr) uint64 {
	return rocev2.FlowKey{Src: addr}.Hash(a.cfg.Seed)
}
