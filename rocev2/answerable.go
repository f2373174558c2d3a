package rocev2

import (
	"net/netip"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/internal/ipudp"
	"github.com/rocecn/rocecn/internal/wireerr"
)

// Why a packet gets no answer. A program that answers whatever it sees goes on with the next packet. It can overrule
// ErrTunnelled alone, by InnerSource in the message's Config.
var (
	// ErrNotReachable: an address of a message is not one that others can reach: [CheckAnswerable].
	ErrNotReachable = wireerr.New("rocev2", "address", 0,
		"not a unicast address that others can reach", wireerr.Range)
	// ErrNotification: the packet is a CNP, another message with OpCode 0x81, or an FCN or a proxy message.
	ErrNotification = wireerr.New("rocev2", "packet", 0, "itself a notification, which nothing answers",
		wireerr.Other)
	// ErrAcknowledgement: the packet is an Acknowledge or an ATOMIC Acknowledge.
	ErrAcknowledgement = wireerr.New("rocev2", "OpCode", 0,
		"an acknowledgement, which nothing answers", wireerr.Other)
	// ErrTunnelled: the packet came inside another IP header (D17).
	ErrTunnelled = wireerr.New("rocev2", "packet", 0, "inside another IP header: its source is out of reach",
		wireerr.Other)
)

// MayAnswer returns nil if a notification to the packet's source may answer p.
// This is the one rule of every AppendFor. It refuses
//
//   - a notification, [ErrNotification]: two nodes would answer each other for ever;
//   - an acknowledgement, [ErrAcknowledgement]: it carries no data that a sender
//     could slow down, and its DestQP is the queue pair of the data's sender;
//   - a packet found inside another IP header, [ErrTunnelled]: a node inside a
//     tunnel's routing domain cannot reach the inner source (D17). A node that
//     can reach it may answer all the same: this is checked last. A packet that was
//     taken out of its tunnel before, as by DecodeIP of the result of [View.IP], does
//     not show it.
//
// A fragment is never a Packet: Decode refuses it, [ErrFragment]. [CheckAnswerable] checks whether
// the source can be reached.
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

// CheckAnswerable returns nil for a unicast address that others can reach. A
// notification may be sent to it, be sent from it, and name it: this is the one
// rule of every builder. Otherwise it returns [ErrNotReachable]: for an invalid,
// unspecified, loopback, multicast, link-local or broadcast address, and for
// IPv4-mapped IPv6 addresses, which are never sent (FAST section 4, RFC 4443
// section 2.4, RFC 1122 section 3.2.2).
//
// Sockets of both families return IPv4 addresses as IPv4-mapped ones: Unmap
// them.
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
