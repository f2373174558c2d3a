package cnp

import (
	"net/netip"

	"github.com/rocecn/rocecn/rocev2"
)

// Config says how a CNP is carried. The zero value is what hardware does:
// DSCP 48, hop limit 64, UDP source port 0, UDP checksum 0; only its ECN field
// of 10 differs from ours, 00.
type Config struct {
	rocev2.Carriage
	SrcPort  uint16 // UDP source port
	Checksum bool   // compute the UDP checksum instead of sending 0
}

// AppendPacket appends c as a whole IP packet, IPv4 or IPv6 as the addresses
// are, with its ICRC.
func (c *CNP) AppendPacket(b []byte, src, dst netip.Addr, cfg Config) ([]byte, error) {
	if err := recognise(c.Opcode, c.Resv6); err != nil {
		return b, err
	}
	var p rocev2.Packet
	p.Src, p.Dst = src, dst
	p.SrcPort, p.DstPort = cfg.SrcPort, rocev2.Port
	if cfg.Checksum {
		p.Checksum = 0xFFFF
	}
	p.BTH.Header = c.Header
	p.Payload = c.Reserved[:]
	if err := cfg.Apply(&p.Datagram); err != nil {
		return b, err
	}
	return p.AppendBinary(b)
}

// AppendFor appends the CNP that answers data, a packet that arrived with ECN
// marks: its addresses swapped, its P_Key, and the queue pair of its sender,
// which the data packet does not carry. Whether data was marked
// (data.ECN() == 3) and is of a transport that CNPs are meant for is the
// caller's to check.
func AppendFor(b []byte, data *rocev2.Packet, senderQP uint32, cfg Config) ([]byte, error) {
	c := New(senderQP, data.BTH.PKey)
	return c.AppendPacket(b, data.Dst, data.Src, cfg)
}
