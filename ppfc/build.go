package ppfc

import (
	"encoding/binary"
	"net/netip"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/rocev2"
)

// Config is what a deployment chooses of the notifications that it sends. The
// zero Carriage gives DSCP 48, hop limit 64, UDP source port 0, UDP checksum 0.
type Config struct {
	Src      netip.Addr // the congested node's own address
	Carriage rocev2.Carriage
	PKey     uint16 // AppendFor: 0 stands for the congested packet's; AppendPacket does not use it

	// NodeAddress: AppendFor's Congested, where it is not given, is Src, the
	// address of the congested node, as the draft explains the field: what an
	// ingress that pauses a port's traffic goes by. Without it, it is the flow's
	// destination, which with DestQP is all that a host can find its own queue pair
	// by, and after which the draft names the field (D15).
	NodeAddress bool

	// InnerSource: AppendFor answers a packet that came inside another IP header,
	// too: rocev2.MayAnswer (D17).
	InnerSource bool
}

// AppendPacket appends n as a whole IP packet from cfg.Src to dst, IPv4 or IPv6
// as these are, with its ICRC. The family of n.Congested may be the other one.
func (n *Notification) AppendPacket(b []byte, dst netip.Addr, cfg Config) ([]byte, error) {
	if err := n.recognise(); err != nil {
		return b, err
	}
	if cfg.Src.Is4In6() || dst.Is4In6() {
		return b, rocev2.ErrMapped
	}
	var buf [SizeIPv6]byte
	extension, err := n.Extension.AppendBinary(buf[:0])
	if err != nil {
		return b, err
	}
	var d rocev2.Datagram
	d.Src, d.Dst, d.DstPort = cfg.Src, dst, rocev2.Port
	if err := cfg.Carriage.Apply(&d); err != nil {
		return b, err
	}
	return d.AppendRoCEv2(b, &n.Header, extension, icrc.AsSent)
}

// AppendFor appends the notification that says e to the source of a congested
// packet, with the packet's queue pair and P_Key. Where e.Congested is not set, it
// is the packet's final destination, so that the notification names the flow as
// its sender knows it, unless cfg.NodeAddress says otherwise (D15). What
// rocev2.MayAnswer refuses is refused, and so are addresses that cannot be
// answered, rocev2.ErrNotReachable, and a Src of another family,
// rocev2.ErrAddress.
func AppendFor(b []byte, congested *rocev2.Packet, e Extension, cfg Config) ([]byte, error) {
	switch {
	case e.Congested.IsValid():
	case cfg.NodeAddress:
		e.Congested = cfg.Src
	default:
		e.Congested = congested.FinalDst()
	}
	if cfg.PKey == 0 {
		cfg.PKey = congested.BTH.PKey
	}
	if err := rocev2.MayAnswer(congested, cfg.InnerSource); err != nil {
		return b, err
	}
	switch {
	case congested.BTH.DestQP > 0xFFFFFF:
		return b, bth.ErrDestQPRange
	case !cfg.Src.IsValid():
		return b, rocev2.ErrNotReachable
	}
	if err := e.fits(); err != nil {
		return b, err
	}
	a, fields := rocev2.Answer{Len: bth.Size + SizeIPv6}, e.fields()
	a.Octets[0] = uint64(bth.CNP)<<56 | uint64(cfg.PKey)<<32 | becn | bth.PPFCBit<<24 | uint64(congested.BTH.DestQP)
	if e.Congested.Is4() {
		octets := e.Congested.As4()
		a.Octets[1], a.Octets[2] = uint64(binary.BigEndian.Uint32(octets[:])), fields
		a.Len = bth.Size + SizeIPv4
	} else {
		octets := e.Congested.AsSlice()
		high, low := binary.BigEndian.Uint64(octets), binary.BigEndian.Uint64(octets[8:])
		a.Octets[1], a.Octets[2] = high>>32, high<<32|low>>32
		a.Octets[3], a.Octets[4] = low<<32|fields>>32, fields<<32
	}
	return cfg.Carriage.AppendAnswer(b, &cfg.Src, &congested.Src, 0, &a, icrc.AsSent)
}

const becn = 1 << 30 // in octets 4 to 7 of the BTH
