package ppfc

import (
	"encoding/binary"
	"net/netip"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/internal/answer"
	"github.com/rocecn/rocecn/internal/ipudp"
	"github.com/rocecn/rocecn/rocev2"
)

// Config is the configuration of the notifications that a deployment sends.
type Config struct {
	// Carriage has the fields of IP and UDP. Its zero value gives DSCP 48, hop limit 64 and UDP checksum 0.
	Carriage rocev2.Carriage

	// NodeAddress is used if the Extension has no Congested address: with it
	// AppendFor sends the address of the congested node, for an ingress that pauses
	// the traffic to a port; without it the destination of the flow, for a sender
	// that finds its queue pair by this address and DestQP (D15).
	NodeAddress bool

	// InnerSource lets AppendFor also answer packets inside another IP header (D17); see rocev2.Packet.MayAnswer.
	InnerSource bool
}

// AppendPacket appends n as a complete IP packet from src to dst, both IPv4 or
// both IPv6, with its ICRC. n.Congested may be of the other family.
// AppendPacket rejects addresses, including n.Congested, that
// rocev2.CheckAnswerable rejects, with rocev2.ErrNotReachable. It replaces
// P_Key 0 with bth.DefaultPKey; to send P_Key 0, encode a [rocev2.Packet].
func (n Notification) AppendPacket(b []byte, src, dst netip.Addr, cfg Config) ([]byte, error) {
	n.PKey = answer.PKey(n.PKey)
	octets, err := n.AppendBinary(make([]byte, 0, bth.Size+SizeIPv6+4)) // on the stack
	if err == nil {
		err = rocev2.CheckAnswerable(n.Congested)
	}
	if err != nil {
		return b, err
	}
	d := rocev2.Datagram{Data: octets[:len(octets)+4]}
	if err := answer.Carry(&d, src, dst, &cfg.Carriage); err != nil {
		return b, err
	}
	return answer.AppendRoCEv2(b, &d, icrc.AsSent)
}

// AppendFor appends the notification of a congested node about a packet: a
// complete IP packet with its ICRC, from src to the source of the packet. It
// has the DestQP and the P_Key of the packet (bth.DefaultPKey in place of 0)
// and the extension e.
//
// If e.Congested is not set, AppendFor sets it to the final destination of the
// packet, which together with DestQP identifies the flow for its sender, or to
// src if cfg.NodeAddress is set (D15).
//
// On error b is returned unchanged. AppendFor rejects packets that
// rocev2.Packet.MayAnswer rejects, unreachable addresses, including e.Congested
// (rocev2.ErrNotReachable), and a src of another family.
func AppendFor(b []byte, congested *rocev2.Packet, src netip.Addr, e Extension, cfg Config) ([]byte, error) {
	switch {
	case e.Congested.IsValid():
	case cfg.NodeAddress:
		e.Congested = src
	default:
		e.Congested = congested.FinalDst()
	}
	var a answer.Answer
	if err := a.To(congested, congested.BTH.DestQP, cfg.InnerSource); err != nil {
		return b, err
	}
	fields := e.packFields()
	a.Octets[0] |= Bit << 24
	reachable := false
	switch {
	case e.Congested.Is6():
		high, low := ipudp.Halves(&e.Congested)
		reachable = ipudp.Reachable6(high, low)
		a.Octets[1], a.Octets[2] = high>>32, high<<32|low>>32
		a.Octets[3], a.Octets[4] = low<<32|fields>>32, fields<<32
		a.Len = bth.Size + SizeIPv6
	case e.Congested.Is4():
		octets := e.Congested.As4()
		address := binary.BigEndian.Uint32(octets[:])
		reachable = ipudp.Reachable4(address)
		a.Octets[1], a.Octets[2] = uint64(address), fields
		a.Len = bth.Size + SizeIPv4
	}
	if !reachable {
		return b, rocev2.ErrNotReachable
	}
	if err := e.rangeError(); err != nil {
		return b, err
	}
	return a.Append(b, &src, &congested.Src, 0, &cfg.Carriage, icrc.AsSent)
}
