package filter

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/ipv6opt"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/bpf"
)

// frameOf returns a frame at random with this link layer.
func frameOf(f wiretest.Frames, link rocev2.LinkType, tags int) []byte {
	switch ip := f.IP(); link {
	case rocev2.LinkEthernet:
		return f.Mutate(f.Ethernet(tags, ip))
	case rocev2.LinkSLL:
		return f.Mutate(f.Tagged(f.Octets(14), tags, ip))
	case rocev2.LinkSLL2:
		return f.Mutate(slices.Concat(f.Tagged(nil, 0, ip)[:2], f.Octets(18), ip)) // the EtherType first
	default:
		return f.Mutate(ip)
	}
}

func isLabels(ether uint16) bool { return ether == 0x8847 || ether == 0x8848 }

// inDomain reports whether a frame is in the domain for which Program promises to be equal to Match.
func inDomain(b []byte, l rocev2.LinkType) bool {
	at := map[rocev2.LinkType]int{rocev2.LinkEthernet: 14, rocev2.LinkSLL: 16, rocev2.LinkSLL2: 20}[l]
	if at > 0 {
		ether := at - 2
		if l == rocev2.LinkSLL2 {
			ether = 0
		}
		for tags := 0; ; tags, ether, at = tags+1, at+2, at+4 {
			switch {
			case len(b) >= ether+2 && isLabels(binary.BigEndian.Uint16(b[ether:])): // a cut header can say so, too
				return false
			case len(b) < at:
				return true
			}
			switch binary.BigEndian.Uint16(b[ether:]) {
			case 0x8100, 0x88A8, 0x9100:
				if tags == 2 {
					return false
				}
				continue
			}
			break
		}
	}
	ip := b[at:]
	switch {
	case len(ip) > 9 && ip[0]>>4 == 4: // a header that is cut can still say that it is of a tunnel
		n := int(ip[0]&15) * 4
		return !isTunnel(ip[9], ip[min(n, len(ip)):])
	case len(ip) > 6 && len(ip) < 40 && ip[0]>>4 == 6:
		return !isTunnel(ip[6], nil)
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
	require.LessOrEqual(t, len(raw), 2000)
	program, ok := bpf.Disassemble(raw)
	require.True(t, ok)
	return wiretest.Must(bpf.NewVM(program))(t)
}
