package cnp

import (
	"net/netip"

	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/rocev2"
)

// AppendPacket appends c as a whole IP packet, IPv4 or IPv6 as the addresses
// are, with its ICRC. The zero Carriage is what hardware does: DSCP 48, hop
// limit 64, UDP source port 0, UDP checksum 0; only its ECN field of 10 differs
// from ours, 00.
func (c *CNP) AppendPacket(b []byte, src, dst netip.Addr, as rocev2.Carriage) ([]byte, error) {
	if err := recognise(c.Opcode, c.Resv6); err != nil {
		return b, err
	}
	var d rocev2.Datagram
	d.Src, d.Dst, d.DstPort = src, dst, rocev2.Port
	if err := as.Apply(&d); err != nil {
		return b, err
	}
	return d.AppendRoCEv2(b, &c.Header, c.Reserved[:], icrc.AsSent)
}

// AppendFor appends the CNP that answers data, a packet that arrived with ECN
// marks: its addresses swapped, its P_Key, and the queue pair of its sender,
// which the data packet does not carry. Whether data was marked
// (data.ECN() == 3) and is of a transport that CNPs are meant for is the
// caller's to check.
func AppendFor(b []byte, data *rocev2.Packet, senderQP uint32, as rocev2.Carriage) ([]byte, error) {
	c := New(senderQP, data.BTH.PKey)
	return c.AppendPacket(b, data.Dst, data.Src, as)
}
