package cnp

import (
	"net/netip"

	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/internal/answer"
	"github.com/rocecn/rocecn/rocev2"
)

// Config has the choices of a deployment for the CNPs that it sends.
type Config struct {
	// Carriage has the fields of IP and UDP. Its zero value gives DSCP 48, hop limit 64 and UDP checksum 0, as
	// hardware sends; unlike hardware, the ECN field is 00 and the UDP source port is not 0.
	Carriage rocev2.Carriage
	// InnerSource lets AppendFor also answer packets inside another IP header (D17); see rocev2.Packet.MayAnswer.
	InnerSource bool
}

// AppendPacket appends c as a complete IP packet from src to dst, both IPv4 or both
// IPv6, with its ICRC. It rejects addresses that rocev2.CheckAnswerable rejects,
// with rocev2.ErrNotReachable. P_Key 0 stands for the default partition,
// bth.DefaultPKey; a [rocev2.Packet] sends it as it is.
func (c CNP) AppendPacket(b []byte, src, dst netip.Addr, cfg Config) ([]byte, error) {
	c.PKey = answer.PKey(c.PKey)
	octets, err := c.AppendBinary(make([]byte, 0, Size+4)) // on the stack
	if err != nil {
		return b, err
	}
	d := rocev2.Datagram{Data: octets[:Size+4]}
	if err := answer.Carry(&d, src, dst, &cfg.Carriage); err != nil {
		return b, err
	}
	return answer.AppendRoCEv2(b, &d, icrc.AsSent)
}

// AppendFor appends the CNP that answers data, a packet that arrived with ECN
// marks, as a complete IP packet with its ICRC: to its source, with its P_Key
// (bth.DefaultPKey for 0) and the queue pair of its sender, which the data packet
// does not carry. A receiver sends it from data.FinalDst(), the address to which
// the data was sent.
//
// The caller checks whether data was marked (data.ECN() == rocev2.CE) and is of a
// transport that reacts to CNPs. AppendFor rejects packets that
// rocev2.Packet.MayAnswer rejects, unreachable addresses (rocev2.ErrNotReachable)
// and a src of another family.
func AppendFor(b []byte, data *rocev2.Packet, src netip.Addr, senderQP uint32, cfg Config) ([]byte, error) {
	var a answer.Answer
	if err := a.To(data, senderQP, cfg.InnerSource); err != nil {
		return b, err
	}
	return a.Append(b, &src, &data.Src, 0, &cfg.Carriage, icrc.AsSent)
}
