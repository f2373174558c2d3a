package rocev2

import (
	"net/netip"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/internal/ipudp"
	"github.com/rocecn/rocecn/internal/wireerr"
)

// Reasons not to answer a packet. A program that gets one of these errors continues with the next packet. It can
// overrule only ErrTunnelled, by InnerSource in the Config of the message.
var (
	// ErrNotReachable means that other hosts cannot reach an address of the message: see [CheckAnswerable].
	ErrNotReachable = wireerr.New("rocev2", "address",
		"not a unicast address that others can reach", wireerr.Range)
	// ErrNotification means that the packet is a CNP, another message with opcode 0x81, an FCN or a proxy message.
	ErrNotification = wireerr.New("rocev2", "packet", "itself a notification, which nothing answers",
		wireerr.Other)
	// ErrAcknowledgement means that the packet is an Acknowledge or an ATOMIC Acknowledge.
	ErrAcknowledgement = wireerr.New("rocev2", "opcode",
		"an acknowledgement, which nothing answers", wireerr.Other)
	// ErrTunnelled means that the packet is inside another IP header or below MPLS labels (D17).
	ErrTunnelled = wireerr.New("rocev2", "packet", "inside another IP header: its source is out of reach",
		wireerr.Other)
)

// MayAnswer returns nil if a node may answer p with a notification to its source. The AppendFor methods of all messages
// apply this rule. MayAnswer rejects
//
//   - a notification, with [ErrNotification]: two nodes would answer each other for ever;
//   - an acknowledgement, with [ErrAcknowledgement]: it carries no data that its sender could slow down, and its DestQP
//     is the queue pair of the data's sender;
//   - a packet inside another IP header or below MPLS labels, with [ErrTunnelled]: a node inside the routing domain
//     of a tunnel cannot reach the inner source (D17).
//
// ErrTunnelled is checked last, so that a node that can reach the inner source may answer in spite of it. MayAnswer
// does not recognize a tunnelled packet that was removed from its tunnel before it was decoded, for example by DecodeIP
// of the result of [View.IP].
//
// A fragment is never a Packet: Decode rejects it with [ErrFragment]. [CheckAnswerable] checks whether the source can
// be reached.
func (p *Packet) MayAnswer() error {
	if err := answersOpcode(p.BTH.Opcode); err != nil {
		return err
	}
	if len(p.Outer) > 0 {
		return ErrTunnelled
	}
	return nil
}

func answersOpcode(op bth.Opcode) error {
	switch {
	case op == bth.CNP:
		return ErrNotification
	case op.IsAcknowledge():
		return ErrAcknowledgement
	}
	return nil
}

// CheckAnswerable returns nil if a is a unicast address that other hosts can reach. A notification may have such an
// address as its source, as its destination or in its contents; the functions that build messages apply this rule.
// CheckAnswerable returns [ErrNotReachable] for an invalid, unspecified, loopback, multicast, link-local or broadcast
// address, and for an IPv4-mapped IPv6 address, which is never sent (FAST section 4, RFC 4443 section 2.4, RFC 1122
// section 3.2.2).
//
// Sockets of both families return IPv4 addresses as IPv4-mapped IPv6 addresses. Call Unmap of such an address first.
func CheckAnswerable(a netip.Addr) error {
	switch {
	case a.Is6():
		if ipudp.Reachable6(ipudp.Halves(&a)) {
			return nil
		}
	case a.Is4():
		octets := a.As4()
		if ipudp.Reachable4(be.Uint32(octets[:])) {
			return nil
		}
	}
	return ErrNotReachable
}
