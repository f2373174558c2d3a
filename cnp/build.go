package cnp

import (
	"net/netip"

	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/internal/answer"
	"github.com/rocecn/rocecn/rocev2"
)

// Config is what a deployment chooses of the CNPs that answer packets.
type Config struct {
	Carriage    rocev2.Carriage // the zero value as in AppendPacket
	InnerSource bool            // answer packets that came inside another IP header, too: rocev2.Packet.MayAnswer (D17)
}

// AppendPacket appends c as a whole IP packet from src to dst, both IPv4 or both
// IPv6, with its ICRC. The zero Carriage is what hardware does: DSCP 48, hop limit
// 64, UDP source port 0, UDP checksum 0; only its ECN field of 10 differs from
// ours, 00. An IPv4-mapped IPv6 address is refused: Unmap it.
func (c *CNP) AppendPacket(b []byte, src, dst netip.Addr, as rocev2.Carriage) ([]byte, error) {
	octets, err := c.AppendBinary(make([]byte, 0, Size+4)) // on the stack
	if err != nil {
		return b, err
	}
	d := rocev2.Datagram{Data: octets[:Size+4]}
	if err := answer.Carry(&d, src, dst, &as); err != nil {
		return b, err
	}
	return answer.AppendRoCEv2(b, &d)
}

// AppendFor appends the CNP that answers data, a packet that arrived with ECN
// marks, as a whole IP packet with its ICRC: to its source, with its P_Key and the
// queue pair of its sender, which the data packet does not carry. A receiver's
// comes from the address that the data was sent to, data.FinalDst().
//
// Whether data was marked (data.ECN() == rocev2.CE) and is of a transport that
// CNPs are meant for is the caller's to check. What rocev2.Packet.MayAnswer refuses is
// refused, and so are addresses that cannot be answered, rocev2.ErrNotReachable,
// and a src of another family.
func AppendFor(b []byte, data *rocev2.Packet, src netip.Addr, senderQP uint32, cfg Config) ([]byte, error) {
	var a answer.Answer
	if err := a.To(data, senderQP, cfg.InnerSource); err != nil {
		return b, err
	}
	return a.Append(b, &src, &data.Src, 0, &cfg.Carriage, icrc.AsSent)
}
