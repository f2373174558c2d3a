package ppfc

import (
	"encoding/binary"
	"net/netip"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/internal/answer"
	"github.com/rocecn/rocecn/rocev2"
)

// Config is what a deployment chooses of the notifications about packets.
type Config struct {
	Carriage rocev2.Carriage // the zero value as in AppendPacket

	// NodeAddress: Congested, where the Extension leaves it open, is the address of
	// the congested node, as the draft explains the field: what an ingress that
	// pauses a port's traffic goes by. Without it, it is the flow's destination,
	// which with DestQP is all that a host can find its own queue pair by, and
	// after which the draft names the field (D15).
	NodeAddress bool

	InnerSource bool // answer packets that came inside another IP header, too: rocev2.Packet.MayAnswer (D17)
}

// AppendPacket appends n as a whole IP packet from src to dst, both IPv4 or both
// IPv6, with its ICRC. The family of n.Congested may be the other one. The zero
// Carriage gives DSCP 48, hop limit 64, UDP source port 0, UDP checksum 0. An
// IPv4-mapped IPv6 address is refused, as n.Congested too, which would be sent as
// an IPv6 address (D10): Unmap it.
func (n *Notification) AppendPacket(b []byte, src, dst netip.Addr, as rocev2.Carriage) ([]byte, error) {
	if n.Congested.Is4In6() {
		return b, errMapped
	}
	octets, err := n.AppendBinary(make([]byte, 0, bth.Size+SizeIPv6+4)) // on the stack
	if err != nil {
		return b, err
	}
	d := rocev2.Datagram{Data: octets[:len(octets)+4]}
	if err := answer.Carry(&d, src, dst, &as); err != nil {
		return b, err
	}
	return answer.AppendRoCEv2(b, &d)
}

// AppendFor appends the notification with which the node at src says e to the
// source of a congested packet, as a whole IP packet with its ICRC, with the
// packet's queue pair and P_Key. Where e.Congested is not set, it
// is the packet's final destination, so that the notification names the flow as
// its sender knows it, unless cfg.NodeAddress says otherwise (D15). What
// rocev2.Packet.MayAnswer refuses is refused, and so are addresses that cannot be
// answered, rocev2.ErrNotReachable, a src of another family, and an IPv4-mapped
// e.Congested.
func AppendFor(b []byte, congested *rocev2.Packet, src netip.Addr, e Extension, cfg Config) ([]byte, error) {
	switch {
	case e.Congested.IsValid():
	case cfg.NodeAddress:
		e.Congested = src
	default:
		e.Congested = congested.FinalDst()
	}
	if e.Congested.Is4In6() && e.Congested != src { // which is refused as a source
		return b, errMapped
	}
	var a answer.Answer
	if err := a.To(congested, congested.BTH.DestQP, cfg.InnerSource); err != nil {
		return b, err
	}
	if !src.IsValid() {
		return b, rocev2.ErrNotReachable
	}
	if err := e.fits(); err != nil {
		return b, err
	}
	fields := e.fields()
	a.Octets[0] |= Bit << 24
	if e.Congested.Is4() {
		octets := e.Congested.As4()
		a.Octets[1], a.Octets[2] = uint64(binary.BigEndian.Uint32(octets[:])), fields
		a.Len = bth.Size + SizeIPv4
	} else {
		octets := e.Congested.AsSlice()
		high, low := binary.BigEndian.Uint64(octets), binary.BigEndian.Uint64(octets[8:])
		a.Octets[1], a.Octets[2] = high>>32, high<<32|low>>32
		a.Octets[3], a.Octets[4] = low<<32|fields>>32, fields<<32
		a.Len = bth.Size + SizeIPv6
	}
	return a.Append(b, &src, &congested.Src, 0, &cfg.Carriage, icrc.AsSent)
}
