package lab

import (
	"encoding/binary"
	"net/netip"

	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/internal/ipudp"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/acl"
	"github.com/rocecn/rocecn/node/congested"
	"github.com/rocecn/rocecn/rocev2"
)

// Capable says whether the host understands Fast CNPs.
func (h *Host) Capable() bool { return h.index >= h.net.cfg.Incapable }

// capable returns what switches know of the senders, all being capable or not known but those that are not.
func (n *Network) capable(all congested.Capability) *acl.Map[congested.Capability] {
	if n.roles.capable != nil {
		return n.roles.capable // all switches know the same
	}
	entries := []acl.Entry[congested.Capability]{{Prefix: hostPrefix, Value: all}}
	if all == congested.Capable {
		for i := range min(n.cfg.Incapable, len(n.hosts)) {
			one := netip.PrefixFrom(numbered(hostPrefix, i), 128)
			entries = append(entries, acl.Entry[congested.Capability]{Prefix: one, Value: congested.Incapable})
		}
	}
	n.roles.capable = acl.NewMap(entries...)
	return n.roles.capable
}

// ignores says whether the host does not understand a notification. It may answer it.
func (h *hostRole) ignores(ip []byte) bool {
	if h.of.Capable() {
		return false
	}
	n := h.of.net
	var p rocev2.Packet
	if n.roles.reads(ip).Packet(&p) != nil {
		return false
	}
	notice, err := fastcnp.FromPacket(&p)
	if err != nil {
		return false
	}
	n.count.Ignored++
	if to, ok := index(switchPrefix, notice.Src); ok && n.cfg.Rejects && to < len(n.switches) {
		n.count.Rejected++
		problem := n.problem(h.addr, notice.Src, ip, uint32(notice.Offset))
		h.of.later(n.message(problem, h.of.index, ^to, 0), n.cfg.ReceiverDelay)
	}
	return true
}

const (
	ipv6Header   = 40
	icmpHeader   = 8
	icmpv6       = 58
	problem      = 4 // RFC 4443 section 3.4
	unrecognised = 2 // IPv6 option
	leastMTU     = 1280
)

// problem returns an ICMPv6 Parameter Problem about an octet of a packet, which it quotes.
//
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|   Type = 4    |   Code = 2    |          Checksum             |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                            Pointer                            |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|     the packet, so that all of this has 1,280 octets at most  |
func (n *Network) problem(from, to netip.Addr, about []byte, pointer uint32) []byte {
	about = about[:min(len(about), leastMTU-ipv6Header-icmpHeader)]
	b := append(n.roles.frame[:0], make([]byte, ipv6Header+icmpHeader)...)
	b = append(b, about...)
	ipudp.PutIPv6((*[ipv6Header]byte)(b), ipudp.IPv6Header(0, 0, icmpHeader+len(about), icmpv6, 64), from, to)
	message := b[ipv6Header:]
	message[0], message[1] = problem, unrecognised
	binary.BigEndian.PutUint32(message[4:], pointer)
	sum := ipudp.Sum(uint64(len(message))+icmpv6, b[8:]) // with the pseudo-header (RFC 8200 section 8.1)
	binary.BigEndian.PutUint16(message[2:], ^ipudp.Fold(sum))
	return b
}

// rejected handles an ICMPv6 message to a switch, and says whether that is one.
func (s *Switch) rejected(k *packet) bool {
	if len(k.ip) < ipv6Header || k.ip[6] != icmpv6 {
		return false
	}
	n := s.net
	_, d := s.role.agent.Receive(nil, n.roles.reads(k.ip), node.Event{Observe: true, Now: n.Sim.Now().Clock()})
	if d.Action != node.Learned {
		n.count.Refused++
	}
	return true
}
