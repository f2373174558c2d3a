package filter

import (
	"cmp"
	"fmt"
	"strings"
	"testing"

	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/fcn"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/proxymsg"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/bpf"
)

// The option types in the octets of these tests and of wiretest.Frames, independent of the defaults.
var experimental = fastcnp.CodePoints{Option1: fastcnp.ExperimentalType, Option2: fastcnp.ExperimentalType}

// pinned returns a border with those of them that it does not name.
func pinned(b Border) Border {
	b.FCNPort = cmp.Or(b.FCNPort, fcn.ExperimentalPort)
	b.ProxyPort = cmp.Or(b.ProxyPort, proxymsg.ExperimentalPort)
	b.CodePoints = cmp.Or(b.CodePoints, experimental)
	return b
}

// borders are configurations of a border.
var borders = []Border{
	pinned(Border{}),
	pinned(Border{CNP: true}),
	pinned(Border{PPFC: true}),
	pinned(Border{CNP: true, PPFC: true, FCNPort: 4000, ProxyPort: 4001}),
	pinned(Border{CodePoints: fastcnp.CodePoints{Option1: 0x9E, Option2: 0xBE}}),
	pinned(Border{CodePoints: fastcnp.CodePoints{Option1: 0xC2, Option2: 0x1E}, PPFC: true}),
}

// TestProgramIsMatch runs the programs on random frames. Inside their domain they select the packets that Match drops,
// outside it at least those.
func TestProgramIsMatch(t *testing.T) {
	for link := range links {
		for i := range borders {
			r := &borders[i]
			program, err := r.Program(link)
			vm := machine(t, program, err)
			m := wiretest.NewFrames(uint64(i)<<8 | uint64(link))
			o := rocev2.DecodeOptions{Link: link}
			var inside, dropped int
			for n := 0; inside < wiretest.Rounds(4000); n++ {
				frame := frameOf(m, link, m.IntN(3))
				verdict := wiretest.Must(vm.Run(frame))(t)
				kind, drop := r.Match(framed(frame, o))
				switch inDomain(frame, link) {
				case true:
					inside++
					require.Equal(t, drop, verdict != 0, "%v, %+v: %v\n%x", link, *r, kind, frame)
				case false:
					require.True(t, !drop || verdict != 0, "%v, %+v: %v\n%x", link, *r, kind, frame)
				}
				if drop {
					dropped++
				}
			}
			require.Greater(t, dropped, wiretest.Rounds(400))
		}
	}
}

// Packets to match: an IPv6 header with a flow label of 0, from 2001:db8::1 to 2001:db8::2, with a payload that has a
// length and a type.
func v6(next, payload string) string {
	return `60000000` + length(payload) + next +
		`40 20010db8000000000000000000000001 20010db8000000000000000000000002` + payload
}

// v4 is the same with an IPv4 header, flags and fragment offset.
func v4(fragment, payload string) string {
	return `4500` + length(strings.Repeat(`00`, 20)+payload) + `0001` + fragment + `4011 0000 c0000201 c0000202` +
		payload
}

// length returns the length of octets in hex as 16 bits in hex.
func length(octets string) string {
	return fmt.Sprintf("%04x", len(strings.Join(strings.Fields(octets), ""))/2)
}

const (
	cnpUDP  = `c000 12b7 0028 0000 8100ffff 40000011 00000000 00000000000000000000000000000000 01020304`
	ppfcUDP = `c000 12b7 0024 0000 8100ffff 60000011 00000000 c0000209 00000007 00000064 01020304`
	ackUDP  = `c000 12b7 001c 0000 1100ffff 00000011 00000000 00000001 01020304`
	dataUDP = `c000 12b7 0018 0000 0400ffff 00000011 00000000 01020304`
	fcnUDP  = `c000 03fd 000c 0000 beef5400`
	fast1   = `1102 9e10 20010db8000000000000000000000009 01020000`
)

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		name   string
		border Border
		ip     string
		kind   message.Kind
		drop   bool
	}{
		{"data", Border{}, v6(`11`, dataUDP), message.KindData, false},
		{"acknowledgement", Border{}, v4(`4000`, ackUDP), message.KindAck, false},
		{"CNP", Border{}, v6(`11`, cnpUDP), message.KindCNP, false},
		{"CNP, kept in", Border{CNP: true}, v4(`0000`, cnpUDP), message.KindCNP, true},
		{"PPFC", Border{CNP: true}, v6(`11`, ppfcUDP), message.KindPPFC, false},
		{"PPFC, kept in", Border{PPFC: true}, v4(`0000`, ppfcUDP), message.KindPPFC, true},
		{"PPFC with the option of Fast CNP", Border{}, v6(`3c`, fast1+ppfcUDP), message.KindPPFC, true},
		{"Fast CNP", Border{}, v6(`3c`, fast1+cnpUDP), message.KindFastCNP, true},
		{"Fast CNP of other types", Border{CodePoints: fastcnp.CodePoints{Option1: 0x80, Option2: 0x9E}},
			v6(`3c`, fast1+cnpUDP), message.KindFastCNP, true},
		{"with other types it is a CNP", Border{CodePoints: fastcnp.CodePoints{Option1: 0x80, Option2: 0x81}},
			v6(`3c`, fast1+cnpUDP), message.KindCNP, false},
		{"after four other headers", Border{},
			v6(`00`, `2b00 0104 00000000 3c00 0000 00000000 3c00 0104 00000000 3c00 0104 00000000`+fast1+cnpUDP),
			message.KindFastCNP, true},
		{"not in the first of two", Border{}, v6(`3c`, `3c00 0104 00000000`+fast1+cnpUDP), message.KindFastCNP, true},
		{"in the first of two", Border{}, v6(`3c`, `3c`+fast1[2:]+`1100 0104 00000000`+cnpUDP), message.KindFastCNP,
			true},
		{"in Hop-by-Hop", Border{}, v6(`00`, fast1+cnpUDP), message.KindCNP, false},
		{"in data", Border{}, v6(`3c`, fast1+dataUDP), message.KindData, false},
		{"before TCP", Border{}, v6(`3c`, `06`+fast1[2:]+cnpUDP), message.KindOther, false},
		{"before UDP to another port", Border{}, v6(`3c`, fast1+`c000 0035 0008 0000`), message.KindOther, false},
		{"an option that overruns hides the next one", Border{},
			v6(`3c`, `1102 1eff 20010db8000000000000000000000009 9e100000`+cnpUDP), message.KindCNP, false},
		{"72 octets of Pad1 before it", Border{}, v6(`3c`, `1109`+strings.Repeat(`00`, 72)+`9e04 00000000`+cnpUDP),
			message.KindFastCNP, true},
		{"first fragment", Border{}, v6(`3c`, `2c`+fast1[2:]+`1100 0001 00000007`+cnpUDP), message.KindFastCNP, true},
		{"second fragment: unknown", Border{}, v6(`3c`, `2c`+fast1[2:]+`1100 0009 00000007`+cnpUDP),
			message.KindFastCNP,
			true},
		{"second fragment without the option", Border{}, v6(`2c`, `1100 0009 00000007`+cnpUDP), message.KindOther,
			false},
		{"the option in the first fragment", Border{}, v6(`2c`, `3c00 0001 00000007`+fast1+cnpUDP), message.KindFastCNP,
			true},
		{"first fragment, Routing (next 60)", Border{}, v6(`2c`, `2b00 0001 00000007 3c00 fd00 00000000`),
			message.KindError,
			true},
		{"the second of it", Border{}, v6(`2c`, `2b00 0008 00000007 1100 0104 00000000`+fcnUDP), message.KindOther,
			false},
		{"first fragment, no data after its header", Border{}, v6(`2c`, `3c00 0001 00000007`), message.KindError,
			true},
		{"first fragment, one octet of a header", Border{}, v6(`2c`, `3c00 0001 00000007 11`), message.KindError, true},
		{"truncated first fragment", Border{}, v6(`2c`, `2b00 0001 00000007 1101 fd00 00000000`), message.KindError,
			true},
		{"first fragment, UDP header to come", Border{}, v6(`2c`, `3c00 0001 00000007 1100 0104 00000000`),
			message.KindError,
			true},
		{"first fragment, half a UDP header", Border{}, v6(`2c`, `1100 0001 00000007 c0000035 0008`), message.KindError,
			true},
		{"first fragment, half a UDP header of an FCN", Border{}, v6(`2c`, `1100 0001 00000007 c00003fd`),
			message.KindFCN,
			true},
		{"first fragment, half a UDP header of RoCEv2", Border{}, v6(`2c`, `1100 0001 00000007`+cnpUDP[:17]),
			message.KindError, true},
		{"first fragment, another port", Border{}, v6(`2c`, `1100 0001 00000007 c0000035 00080000`), message.KindOther,
			false},
		{"first fragment, TCP", Border{}, v6(`2c`, `3c00 0001 00000007 0600 0104 00000000`), message.KindOther, false},
		{"first fragment, the option, headers to come", Border{}, v6(`2c`, `3c00 0001 00000007 3c`+fast1[2:]),
			message.KindFastCNP, true},
		{"a complete packet with a Fragment header", Border{}, v6(`2c`, `1100 0000 00000007`+dataUDP), message.KindData,
			false},
		{"Fragment header twice, headers to come", Border{}, v6(`2c`, `2c00 0000 00000007 3c00 0001 00000008`),
			message.KindError, true},
		{"Fragment header twice, the second of a later one", Border{},
			v6(`2c`, `2c00 0001 00000007 3c00 0009 00000008 11`),
			message.KindOther, false},
		{"half a Fragment header in a first fragment", Border{}, v6(`2c`, `2c00 0001 00000007 1100 00`),
			message.KindError,
			true},
		{"half a Fragment header", Border{}, v6(`2c`, `1100 0001`), message.KindOther, false},
		{"first fragment without opcode", Border{}, v6(`2c`, `1100 0001 00000007`+cnpUDP[:19]), message.KindError,
			false},
		{"first fragment without opcode, CNPs kept in", Border{CNP: true}, v6(`2c`, `1100 0001 00000007`+cnpUDP[:19]),
			message.KindError, true},
		{"first fragment without opcode, PPFC kept in", Border{PPFC: true}, v6(`2c`, `1100 0001 00000007`+cnpUDP[:19]),
			message.KindError, true},
		{"first fragment with the opcode of data, CNPs kept in", Border{CNP: true}, v6(`2c`,
			`1100 0001 00000007`+dataUDP[:37]), message.KindData, false},
		{"IPv4 first fragment, half a UDP header", Border{}, v4(`2000`, `c0000035 0008`), message.KindError, true},
		{"IPv4 first fragment, no port", Border{}, v4(`2000`, `c00000`), message.KindError, true},
		{"IPv4 first fragment, no UDP header", Border{}, v4(`2000`, ``), message.KindError, true},
		{"IPv4 first fragment, another port", Border{}, v4(`2000`, `c0000035 00080000`), message.KindOther, false},
		{"IPv4 first fragment without opcode", Border{}, v4(`2000`, cnpUDP[:19]), message.KindError, false},
		{"IPv4 first fragment without opcode, CNPs kept in", Border{CNP: true}, v4(`2000`, cnpUDP[:19]),
			message.KindError,
			true},
		{"IPv4 without opcode, CNPs kept in", Border{CNP: true}, v4(`4000`, cnpUDP[:19]), message.KindError, false},
		{"no opcode", Border{}, v6(`3c`, fast1+cnpUDP[:19]), message.KindFastCNP, true},
		{"no opcode, no option", Border{}, v6(`11`, cnpUDP[:19]), message.KindError, false},
		{"FCN", Border{}, v6(`11`, fcnUDP), message.KindFCN, true},
		{"FCN to another port", Border{FCNPort: 4000}, v6(`11`, fcnUDP), message.KindOther, false},
		{"first fragment of an FCN", Border{}, v4(`2000`, fcnUDP[:19]), message.KindFCN, true},
		{"second fragment", Border{}, v4(`0001`, fcnUDP), message.KindOther, false},
		{"proxy message, nothing but ports", Border{}, v4(`0000`, `c00003fe`), message.KindProxy, true},
		{"half a port", Border{}, v4(`0000`, `c00003`), message.KindOther, false},
		{"GRE", Border{}, v6(`2f`, `00000800`+v4(`0000`, fcnUDP)), message.KindFCN, true},
		{"a mirrored copy", Border{}, v6(`2f`, `000088be 020000000002 020000000001 0800`+v4(`0000`, fcnUDP)),
			message.KindOther, false},
		{"VXLAN", Border{}, v6(`11`, `c000 12b5 0052 0000 08000000 00000700 020000000002 020000000001 86dd`+v6(`11`,
			fcnUDP)), message.KindFCN, true},
		{"nothing", Border{}, ``, message.KindOther, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			ip := wiretest.Hex(t, c.ip)
			o := rocev2.DecodeOptions{Link: rocev2.LinkIP}
			c.border = pinned(c.border)
			kind, drop := c.border.Match(framed(ip, o))
			require.Equal(t, c.kind, kind)
			require.Equal(t, c.drop, drop)
			wiretest.NoAllocs(t, c.name, func() { c.border.Match(framed(ip, o)) })
			requireProgram(t, &c.border, ip, o.Link)
			for n := range ip {
				c.border.Match(framed(ip[:n:n], o))
			}
		})
	}
}

// requireProgram requires that the program of a border selects a packet where
// Match drops it, and in its domain nowhere else.
func requireProgram(t *testing.T, r *Border, b []byte, link rocev2.LinkType) {
	t.Helper()
	program, err := r.Program(link)
	verdict := wiretest.Must(machine(t, program, err).Run(b))(t)
	if _, drop := r.Match(framed(b, rocev2.DecodeOptions{Link: link})); drop || inDomain(b, link) {
		require.Equal(t, drop, verdict != 0, "%x", b)
	}
}

// In every tunnel that package rocev2 knows Match finds an FCN, and so no
// program may let it pass.
func TestTunnels(t *testing.T) {
	const macs = `020000000002 020000000001`
	fcn := v6(`11`, fcnUDP)
	udpTo := func(port, payload string) string {
		return v4(`0000`, `c000`+port+length(payload+`0000000000000000`)+`0000`+payload)
	}
	ipOf := func(protocol, payload string) string { return v6(protocol, payload) }
	b := pinned(Border{})
	for _, c := range []struct{ name, frame string }{
		{"IPv4 in IPv6", macs + `86dd` + ipOf(`04`, v4(`0000`, fcnUDP))},
		{"IPv6 in IPv6", macs + `86dd` + ipOf(`29`, fcn)},
		{"GRE", macs + `86dd` + ipOf(`2f`, `000086dd`+fcn)},
		{"Ethernet in GRE", macs + `86dd` + ipOf(`2f`, `00006558`+macs+`86dd`+fcn)},
		{"Ethernet in IPv6", macs + `86dd` + ipOf(`8f`, macs+`86dd`+fcn)},
		{"MPLS in IPv6", macs + `86dd` + ipOf(`89`, `00010140`+fcn)},
		{"MPLS", macs + `8847 00010040 00020140` + fcn},
		{"MPLS after tags", macs + `88a80064 81000065 8848 00020140` + fcn},
		{"VXLAN", macs + `0800` + udpTo(`12b5`, `0800000000000700`+macs+`86dd`+fcn)},
		{"Geneve", macs + `0800` + udpTo(`17c1`, `0000655800000700`+macs+`86dd`+fcn)},
		{"MPLS in UDP", macs + `0800` + udpTo(`19eb`, `00010140`+fcn)},
	} {
		t.Run(c.name, func(t *testing.T) {
			frame := wiretest.Hex(t, c.frame)
			kind, drop := b.Match(framed(frame, rocev2.DecodeOptions{}))
			require.True(t, drop)
			require.Equal(t, message.KindFCN, kind)
			requireProgram(t, &b, frame, rocev2.LinkEthernet)
		})
	}
}

// FuzzMatch compares the program with Match for any octets: it selects at least the packets that Match drops.
func FuzzMatch(f *testing.F) {
	var r Border
	vms := map[rocev2.LinkType]*bpf.VM{}
	for link := range links {
		program, err := r.Program(link)
		vms[link] = machine(f, program, err)
		random := wiretest.NewFrames(uint64(link))
		for range 10 {
			f.Add(frameOf(random, link, 1), uint8(link))
		}
	}
	f.Fuzz(func(t *testing.T, frame []byte, l uint8) {
		link := rocev2.LinkType(l)
		_, drop := r.Match(framed(frame, rocev2.DecodeOptions{Link: link}))
		vm := vms[link]
		if vm == nil {
			return
		}
		verdict := wiretest.Must(vm.Run(frame))(t)
		if drop || inDomain(frame, link) {
			require.Equal(t, drop, verdict != 0)
		}
	})
}

func BenchmarkMatch(b *testing.B) {
	var r Border
	for _, c := range []struct{ name, ip string }{
		{"data", v6(`11`, dataUDP)}, {"fastcnp", v6(`3c`, fast1+cnpUDP)},
		{"vxlan", v6(`11`, `c000 12b5 0052 0000 08000000 00000700 020000000002 020000000001 86dd`+v6(`11`, fcnUDP))},
	} {
		ip := wiretest.Hex(b, c.ip)
		b.Run(c.name, func(b *testing.B) {
			var f rocev2.Frame
			b.ReportAllocs()
			for b.Loop() {
				f.Decode(ip, rocev2.DecodeOptions{Link: rocev2.LinkIP})
				r.Match(&f)
			}
		})
	}
}

func framed(b []byte, o rocev2.DecodeOptions) *rocev2.Frame {
	var f rocev2.Frame
	f.Decode(b, o)
	return &f
}
