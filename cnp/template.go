package cnp

import (
	"encoding/binary"
	"math/bits"
	"net/netip"

	"github.com/rocecn/rocecn/internal/crc"
	"github.com/rocecn/rocecn/internal/ipudp"
	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/rocev2"
)

// A Template is the CNP from one node to another, whole but for the queue
// pair. It makes each CNP by a copy and a few table look-ups, in a sixth of the
// time that building one takes: CRC-32 is affine, so what the queue pair
// changes in the ICRC does not depend on the rest of the packet.
//
// It has 92 octets and no pointers, and may be used by any number of
// goroutines. All templates share tables of 8 KB, built at start-up in 5 µs.
type Template struct {
	packet   [40 + tailSize]byte // with queue pair 0; 20 + tailSize are used over IPv4
	size     uint8               // 0 in the zero Template
	checksum bool
	icrc     uint32 // of packet
	udpSum   uint32 // what the UDP checksum of packet adds up, but for the ICRC
}

// tailSize is the length of what follows the IP header:
//
//	UDP header (8) | BTH (12) | reserved octets (16) | ICRC (4)
const tailSize = 8 + Size + 4

// What the ICRC changes by: with octets 4 to 7 of the BTH, and with octets 4
// to 7 of an IPv4 header without options.
var (
	destQPDelta = crc.NewDelta(Size - 8)
	idDelta     = crc.NewDelta(20 - 8 + 8 + Size)
)

var (
	be = binary.BigEndian
	le = binary.LittleEndian
)

// NewTemplate returns the Template of the packets from src to dst that
// [CNP.AppendPacket] builds of CNPs that [New] makes with this P_Key. It fails as
// they do. It allocates, AppendPacket does not.
func NewTemplate(src, dst netip.Addr, pKey uint16, as rocev2.Carriage) (t Template, err error) {
	c := New(0, pKey)
	packet, err := c.AppendPacket(t.packet[:0], src, dst, as)
	if err != nil {
		return Template{}, err
	}
	tail := packet[len(packet)-tailSize:]
	t.size, t.checksum, t.icrc = uint8(len(packet)), as.Checksum, le.Uint32(tail[tailSize-4:])
	t.udpSum = uint32(ipudp.Fold(uint64(^be.Uint16(tail[6:])) + uint64(^be.Uint32(tail[tailSize-4:]))))
	return t, nil
}

// AppendPacket appends the CNP with this destination queue pair as a whole IP
// packet. id is the IPv4 Identification, of no meaning over IPv6; 0 stands for
// that of the Carriage, as [CNP.AppendPacket] sends it. The zero Template has no
// addresses and is refused, like a queue pair over 24 bits.
func (t *Template) AppendPacket(b []byte, destQP uint32, id uint16) ([]byte, error) {
	switch {
	case destQP > 0xFFFFFF:
		return b, wireerr.DestQP
	case t.size == 0:
		return b, wireerr.Addresses
	}
	out := append(b, t.packet[:t.size]...)
	sum := t.icrc ^ destQPDelta.Of(destQP)
	if id != 0 && t.size == 20+tailSize {
		ip := out[len(b):]
		was := be.Uint16(t.packet[4:])
		be.PutUint16(ip[4:], id)
		be.PutUint16(ip[10:], ^ipudp.Fold(uint64(^be.Uint16(t.packet[10:]))+uint64(^was)+uint64(id))) // RFC 1624
		sum ^= idDelta.Of(uint32(id^was) << 16)
	}
	tail := (*[tailSize]byte)(out[len(out)-tailSize:])
	be.PutUint32(tail[12:], becn|destQP)
	le.PutUint32(tail[tailSize-4:], sum)
	if t.checksum { // RFC 1624; 0 stands for no checksum
		c := ^ipudp.Fold(uint64(t.udpSum) + uint64(destQP) + uint64(bits.ReverseBytes32(sum)))
		if c == 0 {
			c = 0xFFFF
		}
		be.PutUint16(tail[6:], c)
	}
	return out, nil
}

const becn = 1 << 30 // in octets 4 to 7 of the BTH
