package rocev2

import (
	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/internal/wire"
)

// isTrimmed reports whether a datagram with a UDP length that exceeds its IP packet is a trimmed RoCEv2 packet: it is
// sent to port 4791 and has a complete BTH. A switch trims only packets that are longer than the size to which it trims
// them, and acknowledgements and notifications are shorter. Such a packet with a wrong UDP length stays an error:
// otherwise a wrong length would be a way around the ICRC.
func isTrimmed(udp []byte) bool {
	if len(udp) < wire.UDPSize+wire.BTHSize || wire.DstPort(udp) != Port {
		return false
	}
	op := bth.Opcode(udp[wire.UDPSize])
	return op != bth.CNP && !op.IsAcknowledge()
}
