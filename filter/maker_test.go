package filter

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/rocecn/rocecn/ipv6opt"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/bpf"
)

// maker makes frames at random: every kind of packet that a border sees, with
// something wrong in many of them.
type maker struct{ *rand.Rand }

func newMaker(seed uint64) maker { return maker{rand.New(rand.NewPCG(seed, 13))} }

// oneOf returns one of the values.
func oneOf[T any](m maker, values ...T) T { return values[m.IntN(len(values))] }

// octets returns n octets of any value.
func (m maker) octets(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = uint8(m.Uint32())
	}
	return b
}

// link puts a packet behind the header of a link type, with tags behind
// Ethernet.
func (m maker) link(l rocev2.LinkType, tags int, ip []byte) (frame []byte) {
	ether := uint16(etherIPv6)
	if ip[0]>>4 == 4 {
		ether = etherIPv4
	}
	switch l {
	case rocev2.LinkIP:
		return ip
	case rocev2.LinkEthernet:
		frame = m.octets(12)
	case rocev2.LinkSLL:
		frame = m.octets(14)
	case rocev2.LinkSLL2:
		return slices.Concat(binary.BigEndian.AppendUint16(nil, ether), m.octets(18), ip)
	}
	for range tags {
		frame = binary.BigEndian.AppendUint16(frame, oneOf[uint16](m, 0x8100, 0x88A8, 0x9100))
		frame = append(frame, m.octets(2)...)
	}
	frame = binary.BigEndian.AppendUint16(frame, ether)
	return append(frame, ip...)
}

// ip returns an IP packet.
func (m maker) ip() []byte {
	if m.IntN(5) == 0 {
		return m.ipv4()
	}
	return m.ipv6()
}

func (m maker) ipv4() []byte {
	options := make([]byte, 4*oneOf(m, 0, 0, 0, 1, 10))
	b := m.udp()
	h := m.octets(20)
	h[0] = 0x45 + uint8(len(options)/4)
	binary.BigEndian.PutUint16(h[2:], uint16(20+len(options)+len(b)))
	binary.BigEndian.PutUint16(h[6:], oneOf[uint16](m, 0, 0, 0x4000, 0x2000, 0x2001))
	h[9] = oneOf[uint8](m, protoUDP, protoUDP, protoUDP, protoUDP, 6)
	return slices.Concat(h, options, b)
}

func (m maker) ipv6() []byte {
	b := m.udp()
	next := oneOf[uint8](m, protoUDP, protoUDP, protoUDP, protoUDP, protoUDP, protoUDP, protoUDP, 6)
	for range m.IntN(5) {
		kind := oneOf[uint8](m, protoHopByHop, protoRouting, protoFragment, protoDestOpts, protoDestOpts, protoDestOpts, protoDestOpts)
		var h []byte
		switch kind {
		case protoFragment:
			h = m.octets(8)
			binary.BigEndian.PutUint16(h[2:], oneOf[uint16](m, 0, 1, 8))
		case protoRouting:
			h = m.octets(8 * oneOf(m, 1, 3, 5))
			h[1] = uint8(len(h)/8 - 1)
		default:
			h = m.options()
		}
		h[0] = next
		next, b = kind, append(h, b...)
	}
	h := m.octets(40)
	h[0] = 0x60
	binary.BigEndian.PutUint16(h[4:], uint16(len(b)))
	h[6] = next
	return append(h, b...)
}

// options returns an options header, some of whose options are those of Fast
// CNPs.
func (m maker) options() []byte {
	h := []byte{0, 0}
	for range m.IntN(4) {
		switch t := oneOf[uint8](m, 0, 1, 0x9E, 0x9E, 0x31, 0x1E, 0xBE, 0xC2); t {
		case 0:
			h = append(h, make([]byte, m.IntN(9))...)
		default:
			data := m.octets(oneOf(m, 0, 1, 4, 15, 16, 17, 26, 46))
			h = append(append(h, t, uint8(len(data))), data...)
		}
	}
	pad := -len(h) & 7
	if pad > 1 && m.IntN(2) == 0 {
		h = append(h, 1, uint8(pad-2))
		pad -= 2
	}
	h = append(h, make([]byte, pad)...)
	h[1] = uint8(len(h)/8 - 1)
	return h
}

// udp returns a UDP datagram, most often RoCEv2.
func (m maker) udp() []byte {
	b := m.octets(8 + 12 + oneOf(m, 12, 16, 16, 16, 24, 100) + 4)
	binary.BigEndian.PutUint16(b[2:], oneOf[uint16](m, 4791, 4791, 4791, 4791, 4791, 4791, 1021, 1022, 53))
	binary.BigEndian.PutUint16(b[4:], uint16(len(b)))
	binary.BigEndian.PutUint32(b[12:], oneOf(m, m.Uint32(), 17, 0xABCDEF))
	b[8] = oneOf[uint8](m, 0x81, 0x81, 0x81, 0x81, 0x04, 0x11, 0x0A)
	b[12] = oneOf[uint8](m, 0x40, 0x40, 0x60, 0)
	return b
}

// mutate changes octets of a frame, cuts it or pads it.
func (m maker) mutate(frame []byte) []byte {
	b := slices.Clone(frame)
	for range oneOf(m, 0, 0, 0, 1, 2, 5) {
		b[m.IntN(len(b))] = oneOf(m, uint8(m.Uint32()), 0, 0x9E, 0x81, protoUDP, protoDestOpts, protoFragment)
	}
	switch m.IntN(8) {
	case 0:
		b = b[:m.IntN(len(b)+1)]
	case 1:
		b = append(b, make([]byte, m.IntN(40))...)
	}
	return b
}

// inDomain says whether a frame is in the domain for which Program promises
// to be equal to Match.
func inDomain(b []byte, l rocev2.LinkType) bool {
	at := map[rocev2.LinkType]int{rocev2.LinkEthernet: 14, rocev2.LinkSLL: 16, rocev2.LinkSLL2: 20}[l]
	if at > 0 {
		ether := at - 2
		if l == rocev2.LinkSLL2 {
			ether = 0
		}
		for tags := 0; ; tags, ether, at = tags+1, at+2, at+4 {
			if len(b) < at {
				return true
			}
			switch binary.BigEndian.Uint16(b[ether:]) {
			case 0x8100, 0x88A8, 0x9100:
				if tags == 2 {
					return false
				}
				continue
			case 0x8847, 0x8848:
				return false
			}
			break
		}
	}
	ip := b[at:]
	switch {
	case len(ip) >= 20 && ip[0]>>4 == 4:
		n := int(ip[0]&15) * 4
		return !isTunnel(ip[9], ip[min(n, len(ip)):])
	case len(ip) < 40 || ip[0]>>4 != 6:
		return true
	}
	next, rest := ip[6], ip[40:]
	for n := 0; ; n++ {
		switch next {
		case 0, 43, 60, 44:
		default:
			return !isTunnel(next, rest)
		}
		if n == 4 {
			return false
		}
		if len(rest) < 8 {
			return true
		}
		size := 8 + 8*int(rest[1])
		if next == 44 {
			size = 8
		}
		h := rest[:min(size, len(rest))]
		if next == 60 {
			options := ipv6opt.Header{Options: h[2:]}
			count := 0
			for range options.All() {
				count++
			}
			if count > maxOptions {
				return false
			}
		}
		next, rest = h[0], rest[len(h):]
	}
}

func isTunnel(protocol uint8, udp []byte) bool {
	if protocol == 17 && len(udp) >= 4 {
		return slices.Contains(tunnelPorts, uint32(binary.BigEndian.Uint16(udp[2:])))
	}
	return slices.Contains(tunnelProtocols, uint32(protocol))
}

// machine returns a virtual machine of x/net that runs a program.
func machine(t testing.TB, raw []bpf.RawInstruction, err error) *bpf.VM {
	t.Helper()
	require.NoError(t, err)
	require.LessOrEqual(t, len(raw), 4096)
	program, ok := bpf.Disassemble(raw)
	require.True(t, ok)
	vm, err := bpf.NewVM(program)
	require.NoError(t, err)
	return vm
}
