package cnp

import (
	"net/netip"

	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/internal/answer"
	"github.com/rocecn/rocecn/rocev2"
)

// Config is the configuration of the CNPs that a deployment sends.
type Config struct {
	// Carriage has the fields of IP and UDP. Its zero value gives DSCP 48, hop limit 64 and UDP checksum 0, as
	// hardware sends; unlike hardware, the ECN field is 00 and the UDP source port is not 0.
	Carriage rocev2.Carriage
	// InnerSource lets AppendFor also answer packets inside another IP header (D17); see rocev2.Packet.MayAnswer.
	InnerSource bool
}

// AppendPacket appends c as a complete IP packet from src to dst, both IPv4 or
// both IPv6, with its ICRC. It rejects addresses that rocev2.CheckAnswerable
// rejects, with rocev2.ErrNotReachable. It replaces P_Key 0 with
// bth.DefaultPKey; to send P_Key 0, encode a [rocev2.Packet].
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

// AppendFor appends the CNP with which a receiver answers data, a marked
// packet: a complete IP packet with its ICRC, from src to the source of data.
// The CNP names senderQP, the sender's queue pair, which the data packet does
// not carry, and has the P_Key of data (bth.DefaultPKey in place of 0). A
// receiver passes data.FinalDst() as src, the address to which the data was
// sent.
//
// The caller checks that data is marked (data.ECN() == rocev2.CE) and that its
// transport reacts to CNPs. AppendFor returns b unchanged and an error for
// packets that rocev2.Packet.MayAnswer rejects, for unreachable addresses
// (rocev2.ErrNotReachable), and for a src of another family.
func AppendFor(b []byte, data *rocev2.Packet, src netip.Addr, senderQP uint32, cfg Config) ([]byte, error) {
	var a answer.Answer
	if err := a.To(data, senderQP, cfg.InnerSource); err != nil {
		return b, err
	}
	return a.Append(b, &src, &data.Src, 0, &cfg.Carriage, icrc.AsSent)
}
