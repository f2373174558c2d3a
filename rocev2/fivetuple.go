package rocev2

import (
	"fmt"
	"net/netip"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/internal/ipudp"
	"github.com/rocecn/rocecn/internal/wire"
	"github.com/rocecn/rocecn/internal/wireerr"
)

// A FiveTuple identifies a flow by the addresses, the protocol and the ports of its packets. It is comparable and can
// be the key of a map.
type FiveTuple struct {
	Src, Dst         netip.Addr
	Protocol         uint8  // protocol number of IP: 6 for TCP, 17 for UDP, including RoCEv2
	SrcPort, DstPort uint16 // ports; 0 if the protocol is neither TCP nor UDP
}

// String returns addresses, ports and protocol, as in
// "192.0.2.1:49152 > 192.0.2.2:4791 protocol 17".
func (t FiveTuple) String() string {
	return fmt.Sprintf("%v > %v protocol %d", netip.AddrPortFrom(t.Src, t.SrcPort),
		netip.AddrPortFrom(t.Dst, t.DstPort), t.Protocol)
}

var errTCPHeader = wireerr.New("rocev2", "TCP header",
	"truncated: shorter than 4 octets, the ports", wireerr.Truncated)

// FiveTuple returns the flow of the innermost packet. If that packet itself has a type 4 Routing header (SRv6 without
// encapsulation) with Segments Left above 0, Dst is the final destination, Segment List[0]. The sender and the receiver
// of the flow use this address, also in the UDP checksum and the ICRC.
//
// A tunnel that carries no IP is an error, because the five-tuple of the tunnel would name the wrong sender. Every
// fragment is an error, even the first one, because the later fragments of the same flow have no ports. On error t is
// the zero FiveTuple. Protocols other than TCP and UDP have no ports.
func (f *Frame) FiveTuple() (t FiveTuple, err error) {
	err = f.fiveTuple(&t)
	return t, err
}

// fiveTuple sets a zero t. It is a separate function so that FiveTuple can be inlined, because returning a struct of so
// many words takes longer than setting it.
func (f *Frame) fiveTuple(t *FiveTuple) error {
	b := f.octets
	if f.single() {
		ports := be.Uint64(b[f.udp:])
		switch length := int(uint16(ports >> 16)); {
		case length < 8:
			return errUDPLength
		case f.udp+length > f.end && !isTrimmed(b[f.udp:f.end]):
			return errUDPBeyondIP
		}
		ip := b[f.ip:]
		if t.Src, t.Dst = wire.Addresses(ip); f.udp > f.ip+wire.IPv6Size {
			t.Dst = netip.AddrFrom16([16]byte(ipudp.FinalDestination(ip, f.udp-f.ip)))
		}
		t.Protocol, t.SrcPort, t.DstPort = wire.ProtoUDP, uint16(ports>>48), uint16(ports>>32)
		return nil
	}
	w, err := f.flow()
	if err != nil {
		return err
	}
	ip := b[w.ip:]
	t.Src, t.Dst = wire.Addresses(ip)
	if w.routed {
		t.Dst = netip.AddrFrom16([16]byte(ipudp.FinalDestination(ip, w.udp-w.ip)))
	}
	t.Protocol = w.proto
	if w.proto == wire.ProtoUDP || w.proto == wire.ProtoTCP {
		ports := be.Uint32(b[w.udp:])
		t.SrcPort, t.DstPort = uint16(ports>>16), uint16(ports)
	}
	return nil
}

// flow returns the walk to the innermost packet, with the error of FiveTuple.
func (f *Frame) flow() (*way, error) {
	w := f.inner()
	switch {
	case f.broken != nil:
		return w, f.broken
	case w.err == nil:
		return w, w.checkLength(f.octets, w.allowTruncated)
	case w.err != errNotUDP && w.err != errUDPHeader:
		return w, w.err
	case w.overruns, !w.allowTruncated && w.missing:
		return w, errIPLength
	case w.err == errUDPHeader:
		return w, w.err
	case w.proto == wire.ProtoTCP && min(w.end, w.stop)-w.udp < 4:
		return w, errTCPHeader
	}
	return w, nil
}

// MayAnswer returns nil if the flow of the innermost packet, of any protocol, may be reported to a node other than its
// source. Unlike [Packet.MayAnswer], it accepts packets in tunnels. It rejects RoCEv2 notifications, and UDP datagrams
// to these ports, which carry other notifications, with [ErrNotification], and RoCEv2 acknowledgements with
// [ErrAcknowledgement]. For a frame without a flow it returns the error of FiveTuple.
func (f *Frame) MayAnswer(ports ...uint16) error {
	w, err := f.flow()
	switch {
	case err != nil:
		return err
	case w.proto != wire.ProtoUDP:
		return nil
	}
	for _, port := range ports {
		if w.port == port {
			return ErrNotification
		}
	}
	if w.port != Port || min(w.end, w.stop) <= w.udp+8 {
		return nil // other traffic, or the capture does not show the opcode
	}
	return answersOpcode(bth.Opcode(f.octets[w.udp+8]))
}
