package lab

import (
	"encoding/binary"

	"github.com/rocecn/rocecn/internal/wire"
)

// With Buffer.Trim a switch without space for a packet of data forwards its headers, at the priority of notifications,
// and the receiver asks for the packet immediately.

// icrcSize is the length of the ICRC, which a trimmed packet has lost.
const icrcSize = 4

// dropPacket drops a packet for which a port has no space, or trims it.
func (s *Switch) dropPacket(in, out *Port, r ref, k *packet) {
	n := s.net
	if !n.cfg.Buffer.Trim || k.kind != data || out.drops {
		n.countLost(r, k)
		return
	}
	n.countLoss(k)
	n.trimPacket(r, k)
	if !s.admitPacket(in, &out.queues[k.prio], k) {
		n.pool.release(r)
		return
	}
	n.count.Trimmed++
	out.enqueuePacket(r, k)
}

// trimPacket removes the payload and the ICRC of a packet of data. The IP length is then that of the rest, and the UDP
// length is still that of the whole packet.
func (n *Network) trimPacket(r ref, k *packet) {
	whole := n.encodePacket(r, k)
	rest := n.head - wire.EthernetSize - icrcSize - frameCheck
	k.kind, k.prio = trimmed, n.cfg.NotificationPriority
	k.octets -= int32(len(whole) - rest)
	octets := append(n.pool.buffer(k), whole[:rest]...)
	binary.BigEndian.PutUint16(octets[4:], uint16(rest-wire.IPv6Size))
	n.pool.setOctets(k, octets)
}

// receiveTrimmed handles the headers of a packet: the receiver asks for the packet.
func (f *Flow) receiveTrimmed(r ref, k *packet) {
	if int32(k.number-f.expected) < 0 || f.early.has(k.number, f.expected) {
		f.sendAck(ack, r, k)
		return
	}
	if int32(k.number-f.highest) >= 0 && !f.net.cfg.Spray {
		f.trimmed.set(k.number, f.highest)
	}
	f.asked = k.number
	f.sendAck(nak, r, k)
}
