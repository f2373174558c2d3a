package play

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/encap"
	"github.com/rocecn/rocecn/fcn"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/ipv6opt"
	"github.com/rocecn/rocecn/proxymsg"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

// behind returns a change that puts an options header of this type, 0 or 60,
// before the UDP header, with these options.
func behind(t testing.TB, header uint8, options string) func(*rocev2.Packet) {
	return func(p *rocev2.Packet) {
		b := wiretest.Hex(t, `11 00`+options)
		b[1] = uint8(len(b)/8 - 1)
		p.NextHeader, p.Ext = header, b
	}
}

const option1 = `9e10 20010db800040000000000000000000e 01 02 0000`

func TestBorderOnCapture(t *testing.T) {
	in, err := os.ReadFile(wiretest.Path(t, "messages.pcap"))
	require.NoError(t, err)
	all := records(t, in)
	for _, c := range []struct {
		config string
		kinds  []any // of frames 1 to 24: what is dropped, "" for what passes, nil for no line
	}{
		{`{"enabled": true}`, []any{"", "", "", "", "fastcnp", "fastcnp", "fastcnp", "fastcnp", "", "", "", "", "fcn",
			"fcn", "proxy", "proxy", nil,
			"", "", "", "fastcnp", "", "fcn", "proxy"}},
		{`{"enabled": true, "cnp": true}`, []any{"", "", "cnp", "cnp", "fastcnp", "fastcnp", "fastcnp", "fastcnp", "",
			"", "", "", "fcn", "fcn", "proxy", "proxy", nil,
			"", "", "cnp", "fastcnp", "", "fcn", "proxy"}},
		{`{"enabled": true, "ppfc": true}`, []any{"", "", "", "", "fastcnp", "fastcnp", "fastcnp", "fastcnp", "ppfc",
			"ppfc", "ppfc", "ppfc", "fcn", "fcn", "proxy", "proxy", nil,
			"", "", "", "fastcnp", "ppfc", "fcn", "proxy"}},
		{fmt.Sprintf(`{"enabled": true, "options": ["0x9f", "0x80"], "fcn_port": 9, "proxy_port": %d}`, fcn.Port),
			[]any{"", "", "", "", "", "", "", "", "", "", "", "", "proxy", "proxy", nil, nil, "fcn",
				"", "", "", "", "", "proxy", nil}},
		{`{"enabled": true, "option_types": [159]}`,
			[]any{"", "", "", "", "", "", "", "", "", "", "", "", "fcn", "fcn", "proxy", "proxy", nil,
				"", "", "", "", "", "fcn", "proxy"}},
	} {
		lines, out, _ := rehearse(t, "border", c.config, in)
		var want []map[string]any
		var passed [][]byte
		for i, kind := range c.kinds {
			l := map[string]any{"frame": float64(i + 1), "time": all[i].Time.Format("2006-01-02T15:04:05.000000Z"),
				"role": "border", "reason": ""}
			switch kind {
			case nil:
			case "":
				l["action"] = "passed"
			default:
				l["action"], l["kind"] = "dropped", kind
			}
			if kind != nil {
				want = append(want, l)
			}
			if kind == nil || kind == "" {
				passed = append(passed, all[i].Data[14:])
			}
		}
		require.Equal(t, want, lines, c.config)
		var got [][]byte
		for _, r := range out {
			got = append(got, r.Data)
		}
		require.Equal(t, passed, got, c.config)
	}
}

// Every sentence of the contract, one packet each. "passed" and "dropped" have
// a line, what is silent passes.
func TestBorderLines(t *testing.T) {
	const (
		passed   = `{"action":"passed","reason":""}`
		fast     = `{"action":"dropped","kind":"fastcnp","reason":""}`
		disabled = `{"action":"refused","reason":"disabled"}`
		on       = `{"enabled": true, "option_types": ["0x9e"]}`
	)
	tunnel := func(inner []byte) []byte {
		b, err := (&encap.IPInIPv6{Src: switchAddr, Dst: receiverAddr}).Append(nil, inner, 5)
		require.NoError(t, err)
		return b
	}
	fastCNP := packet(t, aCNP, behind(t, ipv6opt.DestinationOptions, option1))
	udpTo := func(port uint16) []byte { return packet(t, func(p *rocev2.Packet) { p.DstPort = port }) }
	lied := func(p []byte, at int, value uint16) []byte {
		p = slices.Clone(p)
		binary.BigEndian.PutUint16(p[at:], value)
		return p
	}
	for _, c := range []struct {
		name, config string
		packet       []byte
		want         string
	}{
		{"data", on, packet(t), passed},
		{"CNP", on, packet(t, aCNP), passed},
		{"other UDP", on, udpTo(53), ``},
		{"Fast CNP", on, fastCNP, fast},
		{"FCN", on, udpTo(fcn.Port), `{"action":"dropped","kind":"fcn","reason":""}`},
		{"proxy message", on, udpTo(proxymsg.Port), `{"action":"dropped","kind":"proxy","reason":""}`},
		{"FCN over IPv4", on, packet(t, ipv4, func(p *rocev2.Packet) { p.DstPort = fcn.Port }),
			`{"action":"dropped","kind":"fcn","reason":""}`},

		{"off: data", `{}`, packet(t), disabled},
		{"off: Fast CNP", `{"enabled": false, "cnp": true}`, fastCNP, disabled},
		{"off: other", `{}`, udpTo(53), ``},

		{"the option in data", on, packet(t, behind(t, ipv6opt.DestinationOptions, option1)), passed},
		{"the option in Hop-by-Hop", on, packet(t, aCNP, behind(t, ipv6opt.HopByHop, option1)), passed},
		{"another option in a CNP", on, packet(t, aCNP,
			behind(t, ipv6opt.DestinationOptions, `1e10 20010db800040000000000000000000e 01 02 0000`)), passed},
		{"the option behind others", on, packet(t, aCNP,
			behind(t, ipv6opt.DestinationOptions, `0101 00 1e03 aabbcc 9e00 00 01 01 00`)), fast},
		{"of one octet", on, packet(t, aCNP, behind(t, ipv6opt.DestinationOptions, `9e01 00 0101 00`)), fast},
		{"beyond its header", on, packet(t, aCNP, behind(t, ipv6opt.DestinationOptions, `0102 0000 9eff`)), fast},
		{"its type alone", on, packet(t, aCNP, behind(t, ipv6opt.DestinationOptions, `0103 000000 9e`)), fast},
		{"its type in the data of another", on, packet(t, aCNP, behind(t, ipv6opt.DestinationOptions, `1e04 9e009e00`)),
			passed},

		{"Fast CNP cut behind its OpCode", on, fastCNP[:40+24+9], fast},
		{"Fast CNP cut behind the type", on, fastCNP[:43], fast},
		{"Fast CNP cut before the type", on, fastCNP[:42], ``},
		{"FCN in two fragments, the first without its header", on, wiretest.Hex(t, `60000000 0010 2c40
			20010db8000000000000000000000001 20010db8000000000000000000000002
			2b00 0001 00000007 3c00 fd00 00000000`), `{"action":"dropped","kind":"error","reason":""}`},
		{"the second of them", on, wiretest.Hex(t, `60000000 001c 2c40
			20010db8000000000000000000000001 20010db8000000000000000000000002
			2b00 0008 00000007 1100 0104 00000000 c000 03fd 000c 0000 beef5400`), ``},
		{"FCN cut behind the port", on, udpTo(fcn.Port)[:44], `{"action":"dropped","kind":"fcn","reason":""}`},
		{"FCN cut before the port", on, udpTo(fcn.Port)[:43], ``},
		{"FCN, UDP length 3", on, lied(udpTo(fcn.Port), 44, 3), `{"action":"dropped","kind":"fcn","reason":""}`},
		{"FCN, UDP length beyond the packet", on, lied(udpTo(fcn.Port), 44, 999),
			`{"action":"dropped","kind":"fcn","reason":""}`},
		{"FCN, IP length beyond the packet", on, lied(udpTo(fcn.Port), 4, 999),
			`{"action":"dropped","kind":"fcn","reason":""}`},
		{"CNP of 15 octets", on, packet(t, aCNP, func(p *rocev2.Packet) { p.Payload = p.Payload[:15] }), passed},

		{"Fast CNP in a tunnel", on, tunnel(fastCNP), fast},
		{"FCN in a tunnel in a tunnel", on, tunnel(tunnel(udpTo(fcn.Port))),
			`{"action":"dropped","kind":"fcn","reason":""}`},
		{"data in a tunnel", on, tunnel(packet(t)), passed},
	} {
		lines, out, _ := rehearse(t, "border", c.config, every(time.Second, c.packet))
		if c.want == "" {
			require.Empty(t, lines, c.name)
		} else {
			require.Len(t, lines, 1, c.name)
			delete(lines[0], "frame")
			delete(lines[0], "time")
			delete(lines[0], "role")
			got, err := json.Marshal(lines[0])
			require.NoError(t, err)
			require.Equal(t, c.want, string(got), c.name)
		}
		if crosses := c.want == "" || c.want == passed || c.want == disabled; crosses {
			require.Len(t, out, 1, c.name)
			require.Equal(t, c.packet, out[0].Data, c.name)
			require.Equal(t, noon, out[0].Time)
		} else {
			require.Empty(t, out, c.name)
		}
	}
}

// What crosses is written as IP packets: without Ethernet, VLAN tags and
// padding. What is no IP packet cannot be.
func TestBorderOutIsIP(t *testing.T) {
	ip := packet(t, ipv4)
	tagged := slices.Concat(wiretest.Hex(t, `020000000002 020000000001 8100 0064 0800`), ip, make([]byte, 9))
	arp := wiretest.Hex(t, `ffffffffffff 020000000001 0806 0001 0800 0604 0001`)
	in := captureOf(capture.Ethernet, time.Microsecond, capture.Record{Data: arp, Time: noon},
		capture.Record{Data: tagged, Time: noon})
	lines, out, summary := rehearse(t, "border", `{"enabled": true}`, in)
	require.Equal(t, [][]any{{2.0, "passed"}}, words(lines, "action"))
	require.Len(t, out, 1)
	require.Equal(t, ip, out[0].Data)
	require.Equal(t, capture.Raw, out[0].Link)
	require.Equal(t, "frames: 2 read, 1 packet written\npassed: 1\n", summary)
}

// What the capture has cut is a part of a packet in OUT as well.
func TestBorderOutIsCut(t *testing.T) {
	for _, whole := range [][]byte{packet(t), packet(t, ipv4)} {
		frame := slices.Concat(wiretest.Hex(t, `020000000002 020000000001`), []byte{0x08, 0x00}, whole)
		if whole[0]>>4 == 6 {
			copy(frame[12:], []byte{0x86, 0xDD})
		}
		in := captureOf(capture.Ethernet, time.Microsecond,
			capture.Record{Data: frame[:80], OrigLen: uint32(len(frame)), Time: noon})
		lines, out, _ := rehearse(t, "border", `{"enabled": true}`, in)
		require.Equal(t, [][]any{{1.0, "passed"}}, words(lines, "action"))
		require.Equal(t, whole[:66], out[0].Data)
		require.EqualValues(t, len(whole), out[0].OrigLen)
	}
}

func TestBorderConfig(t *testing.T) {
	for _, c := range []struct{ config, message string }{
		{`{"options": [1]}`, `options[0]: 0x01`},
		{`{"options": [158], "option_types": [158]}`, `options: option_types are given as well`},
		{`{"cnp": 1}`, `cnp: true or false needed`},
		{`{"self": []}`, `self: unknown key`},
		{`{"fcn_port": 70000}`, `fcn_port: 70000`},
	} {
		_, err := configured("border", file(t, c.config))
		require.ErrorContains(t, err, c.message)
	}
}
