package lab

import (
	"encoding/binary"
	"net/netip"

	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/internal/ipudp"
	"github.com/rocecn/rocecn/internal/wire"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/acl"
	"github.com/rocecn/rocecn/node/congested"
	"github.com/rocecn/rocecn/rocev2"
)

// Capable reports whether the host understands Fast CNPs.
func (h *Host) Capable() bool { return h.index >= h.net.cfg.Incapable }

// capabilities returns the capabilities of the senders as configured in switches: all is that of every capable sender.
func (n *Network) capabilities(all congested.Capability) *acl.Map[congested.Capability] {
	if n.roles.capable != nil {
		return n.roles.capable // all switches know the same
	}
	entries := []acl.Entry[congested.Capability]{{Prefix: hostPrefix, Value: all}}
	if all == congested.Capable {
		for i := range min(n.cfg.Incapable, len(n.hosts)) {
			one := netip.PrefixFrom(numberedAddr(hostPrefix, i), 128)
			entries = append(entries, acl.Entry[congested.Capability]{Prefix: one, Value: congested.Incapable})
		}
	}
	n.roles.capable = acl.NewMap(entries...)
	return n.roles.capable
}

// ignoresMessage reports whether the host does not understand a notification. The host may answer it.
func (h *hostRole) ignoresMessage(ip []byte) bool {
	if h.of.Capable() {
		return false
	}
	n := h.of.net
	var p rocev2.Packet
	if n.roles.decodeFrame(ip).Outer().Packet(&p) != nil {
		return false
	}
	notice, err := fastcnp.FromPacket(&p, fastcnp.CodePoints{})
	if err != nil {
		return false
	}
	n.count.Ignored++
	if to, ok := addrIndex(switchPrefix, notice.Src); ok && n.cfg.Rejects && to < len(n.switches) {
		n.count.Rejected++
		problem := n.buildProblem(h.addr, notice.Src, ip, uint32(notice.Offset))
		h.of.sendLater(n.newMessage(problem, h.of.index, ^to, 0), n.cfg.ReceiverDelay)
	}
	return true
}

const (
	problem  = 4 // RFC 4443 section 3.4
	leastMTU = 1280
)

// buildProblem returns an ICMPv6 Parameter Problem about an octet of a packet, which it quotes.
//
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|   Type = 4    |   Code = 2    |          Checksum             |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                            Pointer                            |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|     the packet, so that all of this has 1,280 octets at most  |
func (n *Network) buildProblem(from, to netip.Addr, about []byte, pointer uint32) []byte {
	about = about[:min(len(about), leastMTU-wire.IPv6Size-wire.ICMPv6Size)]
	b := append(n.roles.frame[:0], make([]byte, wire.IPv6Size+wire.ICMPv6Size)...)
	b = append(b, about...)
	header := ipudp.IPv6Header(0, 0, wire.ICMPv6Size+len(about), wire.ProtoICMPv6, 64)
	ipudp.PutIPv6((*[wire.IPv6Size]byte)(b), header, from, to)
	message := b[wire.IPv6Size:]
	message[0], message[1] = problem, wire.ICMPv6UnrecognisedOption
	binary.BigEndian.PutUint32(message[4:], pointer)
	sum := ipudp.Sum(uint64(len(message))+wire.ProtoICMPv6, b[8:]) // with the pseudo-header (RFC 8200 section 8.1)
	binary.BigEndian.PutUint16(message[2:], ^ipudp.Fold(sum))
	return b
}

// handleRejection handles an ICMPv6 message to a switch, and reports whether the packet is one.
func (s *Switch) handleRejection(k *packet) bool {
	n := s.net
	ip := n.pool.octets(k)
	if len(ip) < wire.IPv6Size || ip[6] != wire.ProtoICMPv6 {
		return false
	}
	_, d := s.role.agent.Receive(nil, n.roles.decodeFrame(ip), node.Event{Observe: true, Now: n.Sim.Now().Clock()})
	if d.Action != node.ActionLearned {
		n.count.Refused++
	}
	return true
}
