package inspect

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/cnp"
	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/fcn"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/ipv6opt"
	"github.com/rocecn/rocecn/ppfc"
	"github.com/rocecn/rocecn/proxymsg"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

var (
	sender6, receiver6, switch6, proxy6 = ip("2001:db8:1::1"), ip("2001:db8:4::e"), ip("2001:db8:ffff::5"),
		ip("2001:db8:ffff::9")
	sender4, receiver4, switch4, proxy4 = ip("192.0.2.1"), ip("192.0.2.14"), ip("198.51.100.5"), ip("198.51.100.9")
)

func ip(s string) netip.Addr { return netip.MustParseAddr(s) }

// A sample is a packet of messages.pcap.
type sample struct {
	name   string
	octets []byte
}

// samples are packets of each kind, and a broken one of each.
func samples(t testing.TB) []sample {
	whole := func(octets []byte, err error) []byte {
		t.Helper()
		require.NoError(t, err)
		return octets
	}
	roce := func(src, dst netip.Addr, h bth.Header, payload int) *rocev2.Packet {
		p := &rocev2.Packet{BTH: bth.Headers{Header: h}, Payload: make([]byte, payload)}
		p.Src, p.Dst, p.SrcPort, p.DstPort, p.HopLimit = src, dst, 49152, rocev2.Port, 61
		return p
	}
	udp := func(port uint16, octets string) []byte {
		d := rocev2.Datagram{Src: switch6, Dst: sender6, SrcPort: 49152, DstPort: port, HopLimit: 61, Checksum: 1,
			Data: wiretest.Hex(t, octets)}
		return whole(d.AppendBinary(nil))
	}

	// The congested packets. The trace is that of three nodes, type F20000.
	write := bth.Header{Opcode: bth.RCRDMAWriteOnly, PKey: 0xFFFF, DestQP: 17, AckReq: true, PSN: 42}
	data6, data4 := roce(sender6, receiver6, write, 64), roce(sender4, receiver4, write, 64)
	for _, p := range []*rocev2.Packet{data6, data4} {
		p.TrafficClass, p.FlowLabel = 26<<2|3, 0x12345
		p.BTH.RETH = bth.RETH{VirtualAddress: 0x7F0000001000, RKey: 0x1234, DMALength: 64}
	}
	data6octets, data4octets := whole(data6.AppendBinary(nil)), whole(data4.AppendBinary(nil))
	traced := *data6
	traced.Ext = wiretest.Hex(t, `11 09 01 00 31 46 0000 007b2800 f2000000
		3d0000d4 01910192 00000001 00000002 00000040
		3e0000c3 012d012e 00000001 00000001 0000ffff
		3f0000b2 00c900ca 00000001 00000000 00000005 01 02 0000`)
	ack := roce(receiver6, sender6, bth.Header{Opcode: bth.RCAcknowledge, PKey: 0xFFFF, DestQP: 33, PSN: 42}, 0)
	ack.BTH.AETH = bth.AETH{Syndrome: 0x1F, MSN: 7}
	var flow6, flow4 rocev2.Frame
	flow6.Decode(data6octets, rocev2.DecodeOptions{Link: rocev2.LinkIP})
	flow4.Decode(data4octets, rocev2.DecodeOptions{Link: rocev2.LinkIP})

	as := rocev2.Carriage{SrcPort: 49152}
	fcns, proxies := fcn.Config{Carriage: as}, proxymsg.Config{Carriage: as}
	fast := func(p *rocev2.Packet, source netip.Addr) []byte {
		octets, _, err := fastcnp.AppendFor(nil, p, source, nil, fastcnp.Config{})
		return whole(octets, err)
	}
	pause := func(src, dst, congested netip.Addr, typ ppfc.Type, pause time.Duration) []byte {
		n := ppfc.New(17, 0xFFFF, ppfc.Extension{Congested: congested, Type: typ, Port: 7, Pause: pause})
		return whole(n.AppendPacket(nil, src, dst, ppfc.Config{Carriage: as}))
	}
	brokenFast := roce(switch6, sender6, cnp.New(17, 0xFFFF).Header, 16)
	brokenFast.NextHeader = 60
	brokenFast.Ext = wiretest.Hex(t, "1102"+fmt.Sprintf("%02x", uint8(fastcnp.Option1Type))+
		"0f 20010db80004000000000000000000 0103000000")
	cnp6, cnp4 := cnp.New(33, 0xFFFF), cnp.New(33, 0xFFFF)
	cnp4.PSN = 1

	return []sample{
		{"data", data6octets},
		{"ack", whole(ack.AppendBinary(nil))},
		{"cnp", whole(cnp6.AppendPacket(nil, receiver6, sender6, cnp.Config{Carriage: as}))},
		{"cnp, IPv4", whole(cnp4.AppendPacket(nil, receiver4, sender4, cnp.Config{Carriage: as}))},
		{"fastcnp, option 1, network", fast(data6, switch6)},
		{"fastcnp, option 1, receiver", fast(data6, receiver6)},
		{"fastcnp, option 2, network", fast(&traced, switch6)},
		{"fastcnp, option 2, receiver", fast(&traced, receiver6)},
		{"ppfc, stop", pause(switch6, sender6, switch6, ppfc.Stop, 100*time.Microsecond)},
		{"ppfc, resume", pause(switch6, sender6, switch6, ppfc.Resume, 0)},
		{"ppfc, alarm, IPv4", pause(switch4, sender4, switch4, ppfc.Alarm, 0)},
		{"ppfc, hold, IPv4 in IPv6", pause(switch6, sender6, switch4, ppfc.Hold, ppfc.MaxPause)},
		{"fcn", whole(fcn.Message{FlowLabel: 0xBEEF5, Level: 7}.AppendPacket(nil, switch6, sender6, fcns))},
		{"fcn, IPv4", whole(fcn.Message{FlowLabel: 1, Level: 1, Reserved: 511}.AppendPacket(nil, switch4, sender4,
			fcns))},
		{"proxy", whole(proxymsg.AppendFor(nil, &flow6, switch6, proxy6, 3, proxies))},
		{"proxy, IPv4", whole(proxymsg.AppendFor(nil, &flow4, switch4, proxy4, 0, proxies))},
		{"other", udp(9, "00")},
		{"broken data", udp(4791, "0a00ffff 00000011 8000002a 0000000000000000000000000000 00000000")},
		{"broken ack", udp(4791, "1100ffff 00000021 0000002a 00000000")},
		{"broken cnp", udp(4791, "8100ffff 40000021 00000000 000000000000000000000000000000 00000000")},
		{"broken fastcnp", whole(brokenFast.AppendBinary(nil))},
		{"broken ppfc", udp(4791, "8100ffff 60000011 00000000 0000000000000000000000000000000000000000 00000000")},
		{"broken fcn", udp(fcn.Port, "beef5e00 00")},
		{"broken proxy", udp(proxymsg.Port, "c0000201 c000020e 11 c000 12b7 6000")},
	}
}

// frames lays samples out as Ethernet frames.
func frames(t testing.TB, all []sample) (frames [][]byte) {
	for i := range all {
		octets := all[i].octets
		etherType := "86dd"
		if octets[0]>>4 == 4 {
			etherType = "0800"
		}
		frame := append(wiretest.Hex(t, "020000000002 020000000001"+etherType), octets...)
		frames = append(frames, append(frame, make([]byte, max(0, 60-len(frame)))...))
	}
	return frames
}

// The samples are those of messages.pcap, which -update writes. TestGolden has the lines that are printed of it.
func TestMessages(t *testing.T) {
	file := capturing(capture.Ethernet, frames(t, samples(t))...)
	if *update {
		require.NoError(t, os.WriteFile(wiretest.Path(t, "messages.pcap"), file, 0o644))
	}
	require.Equal(t, file, octetsOf(t, "messages.pcap"))
}

// The trace that a Fast CNP met on its own way is not the one that it is about.
func TestFastCNPWithTwoTraces(t *testing.T) {
	p := rocev2.Packet{BTH: bth.Headers{Header: cnp.New(17, 0xFFFF).Header}, Payload: make([]byte, 16)}
	p.Src, p.Dst, p.DstPort = switch6, sender6, rocev2.Port
	p.Ext = wiretest.Hex(t, `3c 02 01 00 31 0e 0000 007c0800 80000000 3f000001 01020000
		11 04 01 00 `+fmt.Sprintf("%02x", uint8(fastcnp.Option2Type))+` 1e 0000 007b0800 80000000 3f000002
		20010db800040000000000000000000e 01020000`)
	octets := build(t, p)
	got := line(t, octets)
	require.Equal(t, []string{"fastcnp", "0x31", "124", "1", "", "123", "2"}, []string{
		got["kind"], got["ioam.0.option_type"], got["ioam.0.namespace"], got["ioam.0.nodes.0.node_id"],
		got["fast_cnp.ioam.option_type"], got["fast_cnp.ioam.namespace"], got["fast_cnp.ioam.nodes.0.node_id"],
	})
	require.Contains(t, human(t, octets), "is congested  trace ns=123: 2  IOAM trace ns=124: 1")
}

// The ports of FCN and proxy messages are the user's to choose.
func TestPorts(t *testing.T) {
	all := map[string]string{}
	for _, s := range samples(t) {
		if port, ok := map[string]uint16{"fcn": 7000, "proxy": 7001}[s.name]; ok {
			out, _, _ := inspect(capturing(capture.Raw, s.octets), "-json", "-fcn-port", "7000", "-proxy-port", "7001",
				"-")
			require.Equal(t, "other", lines(t, out)[0]["kind"])
			binary.BigEndian.PutUint16(s.octets[udpAt(s.octets)+2:], port)
			out, _, _ = inspect(capturing(capture.Raw, s.octets), "-json", "-fcn-port", "7000", "-proxy-port", "7001",
				"-")
			all[s.name] = lines(t, out)[0]["kind"]
			require.Equal(t, "other", line(t, s.octets)["kind"])
		}
	}
	require.Equal(t, map[string]string{"fcn": "fcn", "proxy": "proxy"}, all)
}

// So are the option types of Fast CNP.
func TestOptionTypes(t *testing.T) {
	seen := 0
	for _, s := range samples(t) {
		if !strings.HasPrefix(s.name, "fastcnp, option ") {
			continue
		}
		want := line(t, s.octets)
		number := want["fast_cnp.option"]
		usual := map[string]ipv6opt.Type{"1": fastcnp.Option1Type, "2": fastcnp.Option2Type}[number]
		// after the IPv6 header and the first two octets of the options header
		at := 42 + bytes.IndexByte(s.octets[42:], uint8(usual))
		s.octets[at] = map[string]byte{"1": 0x83, "2": 0x84}[number]
		require.Equal(t, "unknown_option", line(t, s.octets)["kind"])
		for _, c := range []struct{ name, kind string }{
			{"0x83,0x84", "fastcnp"}, {"131,132", "fastcnp"}, {"0x85", "unknown_option"},
			{fmt.Sprintf("0x%02x", s.octets[at]), "fastcnp"},
		} {
			t.Run(c.name, func(t *testing.T) {
				out, _, status := inspect(capturing(capture.Raw, s.octets), "-json", "-option-types", c.name, "-")
				require.Zero(t, status)
				got := lines(t, out)[0]
				require.Equal(t, c.kind, got["kind"], "%s, %s", s.name, c.name)
				if c.kind == "fastcnp" {
					require.Equal(t, fmt.Sprintf("0x%02x", s.octets[at]), got["fast_cnp.option_type"])
					require.Equal(t, []string{number, want["fast_cnp.original_dst"]},
						[]string{got["fast_cnp.option"], got["fast_cnp.original_dst"]})
				}
			})
		}
		seen++
	}
	require.Equal(t, 4, seen)
}

// udpAt returns where the UDP header of an IP packet without options and
// extension headers stands.
func udpAt(ip []byte) int {
	if ip[0]>>4 == 4 {
		return 20
	}
	return 40
}

// Truncated after any octet, a packet prints the same values as the complete packet, except the ICRC.
func TestMessagesCut(t *testing.T) {
	truncated := map[string]int{}
	for _, s := range samples(t) {
		whole := line(t, s.octets)
		for n := range s.octets {
			out, _, status := inspect(captureOf(capture.Raw,
				capture.Record{Data: s.octets[:n], OrigLen: uint32(len(s.octets))}), "-json", "-")
			require.Zero(t, status)
			got := lines(t, out)[0]
			require.Equal(t, "true", got["truncated"], "%s, %d octets", s.name, n)
			require.NotContains(t, got, "icrc.value")
			if got["kind"] != whole["kind"] {
				require.Contains(t, []string{"other", "error"}, got["kind"], "%s, %d octets", s.name, n)
				continue
			}
			truncated[got["kind"]]++
			for key, value := range whole {
				if _, ok := got[key]; ok && key != "time" && key != "error" {
					require.Equal(t, value, got[key], "%s, %d octets: %s", s.name, n, key)
				}
			}
		}
	}
	for _, kind := range []string{"data", "ack", "cnp", "fastcnp", "proxy"} {
		require.NotZero(t, truncated[kind], kind)
	}
}

// Proxy messages about other flows than RoCEv2's, and without a packet.
func TestProxyMessages(t *testing.T) {
	five := rocev2.FiveTuple{Src: sender4, Dst: receiver4, Protocol: 6, SrcPort: 1, DstPort: 2}
	other := five
	other.Protocol, other.SrcPort, other.DstPort = 50, 0, 0
	flow := fmt.Sprintf("198.51.100.5:49152 > 198.51.100.9:%d  Proxy message  level=7  ", proxymsg.Port)
	for _, c := range []struct {
		m           proxymsg.Message
		json, human string
	}{
		{proxymsg.Message{FiveTuple: five, Level: 7},
			`"proxy":{"family":4,"src":"192.0.2.1","dst":"192.0.2.14","protocol":6,"src_port":1,"dst_port":2,` +
				`"level":7,"invoking_len":0}}`,
			flow + "TCP 192.0.2.1:1 > 192.0.2.14:2 is congested  invoking=0  dscp=48"},
		{proxymsg.Message{FiveTuple: other, Level: 7, Reserved: 1},
			`"proxy":{"family":4,"src":"192.0.2.1","dst":"192.0.2.14","protocol":50,"src_port":0,"dst_port":0,` +
				`"level":7,"invoking_len":0}}`,
			flow + "ESP 192.0.2.1 > 192.0.2.14 is congested  invoking=0  dscp=48  deviates: Reserved: not 0"},
	} {
		cfg := proxymsg.Config{Carriage: rocev2.Carriage{SrcPort: 49152}}
		octets := wiretest.Must(c.m.AppendPacket(nil, switch4, proxy4, cfg))(t)
		out, _, _ := inspect(capturing(capture.Raw, octets), "-json", "-")
		require.Contains(t, out, c.json)
		require.Equal(t, c.human, human(t, octets))
	}
}
