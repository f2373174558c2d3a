package filter

import (
	"encoding/binary"
	"flag"
	"os"
	"os/exec"
	"testing"

	"github.com/rocecn/rocecn/internal/wire"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/proxymsg"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares text with a file in testdata.
func golden(t *testing.T, name, text string) {
	t.Helper()
	file := "testdata/" + name
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

// The name of a chain is always quoted as one word of a shell.
func TestIP6TablesQuotes(t *testing.T) {
	for _, name := range []string{"FORWARD", "a b", "$(id)", "x; reboot", "a'b", "", "`id`\n"} {
		commands := (&Border{}).IP6Tables(name)
		out := wiretest.Must(exec.Command("sh", "-c", `iptables() { :; }
			ip6tables() { case "$*" in *"-m dst"*) printf '%s' "$2"; esac; }
			`+commands).Output())(t)
		require.Equal(t, name, string(out))
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
			for range wiretest.Rounds(20_000) {
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
