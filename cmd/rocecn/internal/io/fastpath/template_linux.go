package fastpath

import (
	"net/netip"

	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/rocev2"
)

// fastCNPSize is the length of a Fast CNP with option 1, an IPv6 packet.
const fastCNPSize = 104

// Octets of the congested packet, with one table each, in the order of answer.bpf.c.
var fastCNPPlaces = []octetRange{{24, 16}, {44, 16}, {portAt, 2}, {74, 2}, {77, 3}}

const portAt = 64 // offset of the UDP source port in a Fast CNP

// An octetRange is a range of octets in a packet.
type octetRange struct{ at, octets int }

// A fastCNPTemplate is a Fast CNP with zeros for the octets of the congested packet, its ICRC, and the change of
// the ICRC for each value of each of these octets. That is enough because CRC-32 is affine.
type fastCNPTemplate struct {
	packet [fastCNPSize]byte
	sum    uint32
	tables [39][256]uint32
}

func newFastCNPTemplate(self netip.Addr, c fastcnp.Config) (t *fastCNPTemplate, err error) {
	if c.Carriage.Checksum {
		return nil, errChecksum
	}
	t = new(fastCNPTemplate)
	c.Carriage.FlowLabel = 0 // the kernel draws one for each packet
	var p rocev2.Packet
	p.Src, p.Dst = netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("2001:db8::2")
	if _, _, err = fastcnp.AppendFor(t.packet[:0], &p, self, nil, c); err != nil {
		return nil, err
	}
	port := [2]byte(t.packet[portAt:])
	t.sum, err = fillTables(t.packet[:], fastCNPPlaces, t.tables[:], c.Coverage)
	if c.Carriage.SrcPort != 0 { // a configured port is part of the template
		t.sum ^= t.tables[32][port[0]] ^ t.tables[33][port[1]]
		copy(t.packet[portAt:], port[:])
	}
	return t, err
}

// fillTables clears octets of a packet, and returns the ICRC of the result and a table for each of these octets.
func fillTables(packet []byte, places []octetRange, tables [][256]uint32, coverage icrc.Coverage) (
	sum uint32, err error,
) {
	for _, p := range places {
		clear(packet[p.at:][:p.octets])
	}
	if sum, err = icrc.Sum(packet, coverage); err != nil {
		return 0, err
	}
	for _, p := range places {
		for at := p.at; at < p.at+p.octets; at++ {
			for v := range tables[0] {
				packet[at] = byte(v)
				changed, err := icrc.Sum(packet, coverage)
				if err != nil {
					return 0, err
				}
				tables[0][v] = changed ^ sum
			}
			packet[at] = 0
			tables = tables[1:]
		}
	}
	return sum, nil
}
