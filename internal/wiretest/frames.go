package wiretest

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"

	"github.com/rocecn/rocecn/internal/wire"
)

// Frames makes random frames for tests of decoders: mostly RoCEv2, and most of these CNPs, after
// any IPv6 extension headers, with options of all sorts, and many of them malformed.
type Frames struct{ *rand.Rand }

// NewFrames returns a source that makes the same for the same seed.
func NewFrames(seed uint64) Frames { return Frames{rand.New(rand.NewPCG(seed, 13))} }

// OneOf returns one of the values.
func OneOf[T any](f Frames, values ...T) T { return values[f.IntN(len(values))] }

// Octets returns n octets.
func (f Frames) Octets(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = uint8(f.Uint32())
	}
	return b
}

// Ethernet puts an IP packet after an Ethernet header and VLAN tags.
func (f Frames) Ethernet(tags int, ip []byte) []byte { return f.Tagged(f.Octets(12), tags, ip) }

// Tagged puts an IP packet after octets, VLAN tags and an EtherType.
func (f Frames) Tagged(b []byte, tags int, ip []byte) []byte {
	for range tags {
		b = binary.BigEndian.AppendUint16(b, OneOf[uint16](f, 0x8100, 0x88A8, 0x9100))
		b = append(b, f.Octets(2)...)
	}
	return append(binary.BigEndian.AppendUint16(b, wire.VersionEther(wire.VersionField(ip))), ip...)
}

// IP returns an IPv4 or IPv6 packet.
func (f Frames) IP() []byte {
	if f.IntN(5) == 0 {
		return f.IPv4()
	}
	return f.IPv6()
}

// IPv4 returns an IPv4 packet, without a checksum.
func (f Frames) IPv4() []byte {
	options := make([]byte, 4*OneOf(f, 0, 0, 0, 1, 10))
	b := f.udp()
	h := f.Octets(20)
	h[0] = 0x45 + uint8(len(options)/4)
	binary.BigEndian.PutUint16(h[2:], uint16(20+len(options)+len(b)))
	binary.BigEndian.PutUint16(h[6:], OneOf[uint16](f, 0, 0, 0x4000, 0x2000, 0x2001))
	h[9] = OneOf[uint8](f, wire.ProtoUDP, wire.ProtoUDP, wire.ProtoUDP, wire.ProtoUDP, wire.ProtoTCP)
	return slices.Concat(h, options, b)
}

// IPv6 returns an IPv6 packet with up to four extension headers.
func (f Frames) IPv6() []byte {
	b := f.udp()
	next := uint8(wire.ProtoUDP)
	if f.IntN(8) == 0 {
		next = wire.ProtoTCP
	}
	for range f.IntN(5) {
		const options = wire.ProtoDestinationOptions
		kind := OneOf[uint8](f, wire.ProtoHopByHop, wire.ProtoRouting, wire.ProtoFragment,
			options, options, options, options)
		var h []byte
		switch kind {
		case wire.ProtoFragment:
			h = f.Octets(8)
			binary.BigEndian.PutUint16(h[2:], OneOf[uint16](f, 0, 1, 8))
		case wire.ProtoRouting:
			h = f.Octets(8 * OneOf(f, 1, 3, 5))
			h[1] = uint8(len(h)/8 - 1)
		default:
			h = f.options()
		}
		h[0] = next
		next, b = kind, append(h, b...)
	}
	h := f.Octets(40)
	h[0] = 0x60
	binary.BigEndian.PutUint16(h[4:], uint16(len(b)))
	h[6] = next
	return append(h, b...)
}

// options returns an options header. Some of its options have the types of Fast CNPs.
func (f Frames) options() []byte {
	h := []byte{0, 0}
	for range f.IntN(4) {
		switch t := OneOf[uint8](f, 0, 1, 0x9E, 0x9E, 0x31, 0x1E, 0xBE, 0xC2); t {
		case 0:
			h = append(h, make([]byte, f.IntN(9))...)
		default:
			data := f.Octets(OneOf(f, 0, 1, 4, 15, 16, 17, 26, 46))
			h = append(append(h, t, uint8(len(data))), data...)
		}
	}
	pad := -len(h) & 7
	if pad > 1 && f.IntN(2) == 0 {
		h = append(h, 1, uint8(pad-2))
		pad -= 2
	}
	h = append(h, make([]byte, pad)...)
	h[1] = uint8(len(h)/8 - 1)
	return h
}

// udp returns a UDP datagram, most often RoCEv2.
func (f Frames) udp() []byte {
	b := f.Octets(8 + 12 + OneOf(f, 12, 16, 16, 16, 24, 100) + 4)
	binary.BigEndian.PutUint16(b[2:], OneOf[uint16](f, 4791, 4791, 4791, 4791, 4791, 4791, 1021, 1022, 53))
	binary.BigEndian.PutUint16(b[4:], uint16(len(b)))
	binary.BigEndian.PutUint32(b[12:], OneOf(f, f.Uint32(), 17, 0xABCDEF))
	b[8] = OneOf[uint8](f, 0x81, 0x81, 0x81, 0x81, 0x04, 0x11, 0x0A)
	b[12] = OneOf[uint8](f, 0x40, 0x40, 0x60, 0)
	return b
}

// Mutate returns a copy with octets changed, cut or padded, or as it is.
func (f Frames) Mutate(frame []byte) []byte {
	b := slices.Clone(frame)
	for range OneOf(f, 0, 0, 0, 1, 2, 5) {
		b[f.IntN(len(b))] = OneOf(f, uint8(f.Uint32()), 0, 0x9E, 0x81, wire.ProtoUDP,
			wire.ProtoDestinationOptions, wire.ProtoFragment)
	}
	switch f.IntN(8) {
	case 0:
		b = b[:f.IntN(len(b)+1)]
	case 1:
		b = append(b, make([]byte, f.IntN(40))...)
	}
	return b
}
