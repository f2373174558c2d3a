package filter

import (
	"encoding/binary"
	"flag"
	"os"
	"os/exec"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/bpf"

	"github.com/rocecn/rocecn/internal/wire"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/ipv6opt"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/proxymsg"
	"github.com/rocecn/rocecn/rocev2"
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

// isUnreadType reports whether an EtherType is that of MPLS labels, a timestamp of Arista or a CSIG tag.
func isUnreadType(ether uint16) bool {
	return ether == 0x8847 || ether == 0x8848 || ether == 0xD28B || ether == 0x9900
}

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
			case len(b) >= ether+2 && isUnreadType(binary.BigEndian.Uint16(b[ether:])): // a cut header can say so, too
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

var update = flag.Bool("update", false, "write the golden files again")

// golden compares text with a file in testdata.
func golden(t *testing.T, name, text string) {
	t.Helper()
	file := wiretest.OwnPath(t, name)
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
	}
	want := wiretest.Must(os.ReadFile(file))(t)
	require.Equal(t, string(want), text)
}

// The rules as they are printed. Package kerneltest tests their effect.
func TestRules(t *testing.T) {
	for _, c := range []struct {
		name string
		r    Border
	}{
		{"default", Border{}}, {"cnp", Border{CNP: true}}, {"ppfc", Border{PPFC: true}},
		{"both", Border{CNP: true, PPFC: true, FCNPort: 4000, ProxyPort: 4001}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.r = pinned(c.r)
			golden(t, c.name+".nft", c.r.NFT("rocecn"))
			golden(t, c.name+".sh", c.r.IP6Tables("FORWARD"))
		})
	}
}

// The name of a chain is always quoted as one word of a shell. The shell finds no programs: if the name were not
// quoted, nothing would change on the machine.
func TestIP6TablesQuotes(t *testing.T) {
	sh := wiretest.Tool(t, "sh")
	for _, name := range []string{"FORWARD", "a b", "$(echo a)", "x; echo a", "a'b", "", "`echo a`\n"} {
		commands := (&Border{}).IP6Tables(name)
		cmd := exec.Command(sh, "-c", `iptables() { :; }
			ip6tables() { case "$*" in *"-m dst"*) printf '%s' "$2"; esac; }
			`+commands)
		cmd.Env = []string{"PATH=" + t.TempDir()}
		require.Equal(t, name, string(wiretest.Must(cmd.Output())(t)))
	}
}

func TestValidate(t *testing.T) {
	for _, c := range []struct {
		border Border
		err    error
	}{
		{Border{}, nil}, {Border{FCNPort: 4790, ProxyPort: 4792}, nil},
		{Border{FCNPort: 4791}, errPort}, {Border{ProxyPort: 4791}, errPort},
		{Border{FCNPort: proxymsg.Port}, errSame}, {Border{FCNPort: 7, ProxyPort: 7}, errSame},
	} {
		require.Equal(t, c.err, c.border.Validate())
		_, err := c.border.Program(rocev2.LinkEthernet)
		require.Equal(t, c.err, err)
	}
}

// TestXTPrograms runs the programs for xt_bpf on the packets that the other matches of their rules select.
func TestXTPrograms(t *testing.T) {
	for i, r := range []Border{{}, {CNP: true, PPFC: true}, {PPFC: true}, {CNP: true}} {
		notCNP := i == 0
		for _, version := range []int{4, 6} {
			raw := xtProgram(version, &r)
			if notCNP {
				raw = xtProgram(version, nil)
			}
			require.LessOrEqual(t, len(raw), 64)
			vm := machine(t, raw, nil)
			m := wiretest.NewFrames(uint64(i))
			for range wiretest.RoundsOrLong(5000, 20_000) {
				ip := m.Mutate(m.IP())
				if len(ip) < 40 || int(ip[0]>>4) != version || !inDomain(ip, rocev2.LinkIP) {
					continue
				}
				kind, drop := r.Match(framed(ip, rocev2.DecodeOptions{Link: rocev2.LinkIP}))
				if kind == message.KindOther || kind == message.KindFCN || kind == message.KindProxy {
					continue // told by the port
				}
				verdict := wiretest.Must(vm.Run(trimmed(ip)))(t)
				options, fragment := headers(ip)
				switch {
				case notCNP && drop: // dropped because not selected
					require.Zero(t, verdict, "%v %x", kind, ip)
				case notCNP && kind != message.KindCNP && kind != message.KindPPFC && kind != message.KindError &&
					!fragment:
					require.NotZero(t, verdict, "%v %x", kind, ip)
				case !notCNP && !options && !fragment:
					require.Equal(t, drop, verdict != 0, "%v %x", kind, ip)
				}
			}
		}
	}
}

// headers reports whether a packet has a Destination Options header and whether it is a fragment.
func headers(ip []byte) (options, fragment bool) {
	if ip[0]>>4 == 4 {
		return false, binary.BigEndian.Uint16(ip[6:])&0x3FFF != 0
	}
	for next, rest := ip[6], ip[40:]; ; next, rest = rest[0], rest[min(8+8*int(rest[1]), len(rest)):] {
		switch next {
		case wire.ProtoFragment:
			return options, true
		case wire.ProtoDestinationOptions:
			options = true
		case wire.ProtoHopByHop, wire.ProtoRouting:
		default:
			return options, false
		}
		if len(rest) < 2 {
			return options, false
		}
	}
}

// trimmed returns a packet without the octets after it, as the kernel sees it.
func trimmed(ip []byte) []byte {
	n := int(binary.BigEndian.Uint16(ip[2:]))
	if ip[0]>>4 == 6 {
		n = 40 + int(binary.BigEndian.Uint16(ip[4:]))
	}
	return ip[:min(n, len(ip))]
}
