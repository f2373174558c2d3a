package cnp

import (
	"net/netip"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/rocev2"
)

// Config is what a deployment chooses of the CNPs that it sends. The zero
// Carriage is what hardware does: DSCP 48, hop limit 64, UDP source port 0, UDP
// checksum 0; only its ECN field of 10 differs from ours, 00.
type Config struct {
	Src      netip.Addr // AppendFor: the zero Addr stands for the address that the data packet was sent to
	Carriage rocev2.Carriage
	PKey     uint16 // AppendFor: 0 stands for the data packet's; AppendPacket does not use it

	// InnerSource: AppendFor answers a packet that came inside another IP header,
	// too: rocev2.MayAnswer (D17).
	InnerSource bool
}

// AppendPacket appends c as a whole IP packet from cfg.Src to dst, IPv4 or IPv6
// as these are, with its ICRC.
func (c *CNP) AppendPacket(b []byte, dst netip.Addr, cfg Config) ([]byte, error) {
	switch {
	case c.Opcode != bth.CNP:
		return b, ErrNotCNP
	case cfg.Src.Is4In6() || dst.Is4In6():
		return b, rocev2.ErrMapped
	}
	var d rocev2.Datagram
	d.Src, d.Dst, d.DstPort = cfg.Src, dst, rocev2.Port
	if err := cfg.Carriage.Apply(&d); err != nil {
		return b, err
	}
	return d.AppendRoCEv2(b, &c.Header, c.Reserved[:], icrc.AsSent)
}

// AppendFor appends the CNP that answers data, a packet that arrived with ECN
// marks: to its source, with its P_Key and the queue pair of its sender, which
// the data packet does not carry. Whether data was marked (data.ECN() ==
// rocev2.CE) and is of a transport that CNPs are meant for is the caller's to
// check. What rocev2.MayAnswer refuses is refused, and so are addresses that cannot
// be answered, rocev2.ErrNotReachable, and a Src of another family,
// rocev2.ErrAddress.
func AppendFor(b []byte, data *rocev2.Packet, senderQP uint32, cfg Config) ([]byte, error) {
	if !cfg.Src.IsValid() {
		cfg.Src = data.FinalDst()
	}
	if cfg.PKey == 0 {
		cfg.PKey = data.BTH.PKey
	}
	if err := rocev2.MayAnswer(data, cfg.InnerSource); err != nil {
		return b, err
	}
	if senderQP > 0xFFFFFF {
		return b, bth.ErrDestQPRange
	}
	a := rocev2.Answer{Len: Size}
	a.Octets[0] = uint64(bth.CNP)<<56 | uint64(cfg.PKey)<<32 | becn | uint64(senderQP)
	return cfg.Carriage.AppendAnswer(b, &cfg.Src, &data.Src, 0, &a, icrc.AsSent)
}
