package inspect

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/stretchr/testify/require"
)

// wrappers put one tunnel each around an IP packet. The name is that in the output.
var wrappers = []struct {
	name string
	wrap func(t testing.TB, ip []byte) []byte // an IP packet around an IP packet
}{
	{"erspan1", func(t testing.TB, ip []byte) []byte { return gre4(t, "000088be", inFrame(t, ip)) }},
	{"erspan2", func(t testing.TB, ip []byte) []byte {
		return gre4(t, "100088be 00000001 12c86005 000000a2", inFrame(t, ip))
	}},
	{"erspan3", func(t testing.TB, ip []byte) []byte {
		return gre4(t, "100022eb 00000001 22c86005 01020304 0007 8009 0c00000011223344", inFrame(t, ip))
	}},
	{"gre", func(t testing.TB, ip []byte) []byte { return gre4(t, "20006558 00002a00", inFrame(t, ip)) }},
	{"vxlan", func(t testing.TB, ip []byte) []byte { return udp4(t, 4789, "0800000000002a00", inFrame(t, ip)) }},
	{"geneve", func(t testing.TB, ip []byte) []byte {
		return udp4(t, 6081, "0140655800002a00 01048000", inFrame(t, ip))
	}},
	{"mpls", func(t testing.TB, ip []byte) []byte {
		return udp4(t, 6635, "3e800040 3e801140 00000000", inFrame(t, ip))
	}},
	{"srv6", func(t testing.TB, ip []byte) []byte {
		b := wiretest.Hex(t,
			"602beef5 0000 2b 40 20010db8000000000000000000000001 20010db8000000000000000000000002 2904040101000000"+
				"20010db8000000000000000000000003 20010db8000000000000000000000002")
		b[40] = map[byte]byte{4: 4, 6: 41}[ip[0]>>4]
		b = append(b, ip...)
		binary.BigEndian.PutUint16(b[4:], uint16(len(b)-40))
		return b
	}},
}

func inFrame(t testing.TB, ip []byte) []byte {
	etherType := "86dd"
	if ip[0]>>4 == 4 {
		etherType = "0800"
	}
	return append(wiretest.Hex(t, "020000000001 020000000002 81002007"+etherType), ip...)
}

func ip4(protocol byte, payload []byte) []byte {
	b := append([]byte{0x45, 0, 0, 0, 0, 0, 0, 0, 64, protocol, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2}, payload...)
	binary.BigEndian.PutUint16(b[2:], uint16(len(b)))
	return b
}

func gre4(t testing.TB, header string, payload []byte) []byte {
	return ip4(47, append(wiretest.Hex(t, header), payload...))
}

func udp4(t testing.TB, port uint16, header string, payload []byte) []byte {
	b := append(wiretest.Hex(t, "c001 0000 0000 0000"+header), payload...)
	binary.BigEndian.PutUint16(b[2:], port)
	binary.BigEndian.PutUint16(b[4:], uint16(len(b)))
	return ip4(17, b)
}

// Within two tunnels, a packet prints the same values as without, and the names of the tunnels.
func TestTunnels(t *testing.T) {
	all := samples(t)
	var plain [][]byte
	for _, s := range all {
		plain = append(plain, s.octets)
	}
	alone := allLines(t, plain)
	for _, outer := range wrappers {
		t.Run(outer.name, func(t *testing.T) {
			for _, inner := range wrappers {
				t.Run(inner.name, func(t *testing.T) {
					var wrapped [][]byte
					for _, ip := range plain {
						wrapped = append(wrapped, outer.wrap(t, inner.wrap(t, ip)))
					}
					without := allLines(t, wrapped, "-outer")
					for i, got := range allLines(t, wrapped) {
						want := maps.Clone(alone[i])
						if want["kind"] == "other" {
							require.Equal(t, "other", got["kind"])
							require.NotContains(t, got, "tunnels.0")
							continue
						}
						if outer.name == "srv6" && inner.name == "srv6" { // IP in IP is not a matter of -outer
							withoutLink(without[i])
							require.Equal(t, want, without[i])
						} else {
							require.Equal(t, "other", without[i]["kind"])
						}
						want["tunnels.0"], want["tunnels.1"] = outer.name, inner.name
						require.Equal(t, []string{outer.name, inner.name},
							[]string{got["outer.0.kind"], got["outer.1.kind"]})
						withoutLink(got)
						require.Equal(t, want, got, "%s in %s in %s", all[i].name, inner.name, outer.name)
					}
					require.True(t, strings.HasSuffix(human(t, wrapped[0]), "  in "+outer.name+" "+inner.name))
				})
			}
		})
	}
}

// withoutLink removes the keys that only Ethernet frames have, and those of outer IP headers.
func withoutLink(line flat) flat {
	maps.DeleteFunc(line, func(key, _ string) bool {
		return slices.Contains([]string{"src_mac", "dst_mac", "vlan", "pcp"}, key) || strings.HasPrefix(key, "outer.")
	})
	return line
}

// allLines returns the JSON lines of IP packets.
func allLines(t testing.TB, packets [][]byte, args ...string) []flat {
	t.Helper()
	out, _, status := inspect(capturing(capture.Raw, packets...), append(args, "-json", "-")...)
	require.Zero(t, status)
	got := lines(t, out)
	require.Len(t, got, len(packets))
	return got
}

// Ethernet in front, with labels, and every link type give the same.
func TestTunnelsBelowLinks(t *testing.T) {
	ip := build(t, packet(bth.RCSendOnly))
	want := line(t, ip)
	mirrored := maps.Clone(want)
	mirrored["tunnels.0"] = "erspan2"
	labelled := maps.Clone(want)
	labelled["tunnels.0"] = "mpls"
	mirror := wrappers[1].wrap(t, ip)
	for _, c := range []struct {
		link   uint32
		before string
		octets []byte
		want   flat
	}{
		{capture.Ethernet, "020000000001 020000000002 86dd", ip, want},
		{capture.Ethernet, "020000000001 020000000002 9100 0001 8100 0002 86dd", ip, want},
		{capture.Ethernet, "020000000001 020000000002 0800", mirror, mirrored},
		{capture.Ethernet, "020000000001 020000000002 8847 3e801140", ip, labelled},
		{capture.Ethernet, "020000000001 020000000002 8847 3e801140 00000000", inFrame(t, ip), labelled},
		{capture.Ethernet, "020000000001 020000000002 8847 3e801140", inFrame(t, ip), labelled},
		{113, "0000 0001 0006 020000000002 0000 86dd", ip, want},
		{113, "0000 0001 0006 020000000002 0000 8100 2007 86dd", ip, want},
		{113, "0000 0001 0006 020000000002 0000 0800", mirror, mirrored},
		{113, "0000 0001 0006 020000000002 0000 8847 3e801140", ip, labelled},
		{276, "86dd 0000 00000007 0001 00 06 020000000002 0000", ip, want},
		{276, "0800 0000 00000007 0001 00 06 020000000002 0000", mirror, mirrored},
		{0, "1e000000", ip, want},
		{0, "0000001e", ip, want},
		{0, "18000000", ip, want},
		{0, "1c000000", ip, want},
		{0, "0a000000", ip, want},
		{0, "02000000", mirror, mirrored},
		{0, "00000002", mirror, mirrored},
		{108, "0000001e", ip, want},
		{108, "00000002", mirror, mirrored},
		{12, "", ip, want},
		{14, "", ip, want},
		{capture.Raw, "", mirror, mirrored},
		{228, "", mirror, mirrored},
		{229, "", ip, want},
	} {
		out, messages, status := inspect(capturing(c.link, append(wiretest.Hex(t, c.before), c.octets...)), "-json",
			"-")
		require.Zero(t, status)
		require.NotContains(t, messages, "not supported")
		require.Equal(t, c.want, withoutLink(lines(t, out)[0]), "link type %d, %s", c.link, c.before)
	}
}

// Cut anywhere, by the snap length or by a mirroring switch.
func TestTunnelsCut(t *testing.T) {
	ip := build(t, packet(bth.RCRDMAWriteOnly))
	whole := line(t, ip)
	for _, w := range wrappers {
		t.Run(w.name, func(t *testing.T) {
			octets := w.wrap(t, ip)
			found := 0
			for n := range octets {
				out, _, _ := inspect(captureOf(capture.Raw,
					capture.Record{Data: octets[:n], OrigLen: uint32(len(octets))}),
					"-json", "-")
				got := lines(t, out)[0]
				require.Equal(t, "true", got["truncated"], "%s, %d octets", w.name, n)
				require.NotContains(t, got, "icrc.value")
				if got["kind"] != "data" {
					require.Contains(t, []string{"other", "error"}, got["kind"])
					continue
				}
				found++
				require.Equal(t, w.name, got["tunnels.0"])
				for _, key := range []string{"ip.src", "udp.src", "bth.psn", "RETH.va", "payload_len"} {
					require.Equal(t, whole[key], got[key])
				}
			}
			require.Equal(t, len("abc")+1+4, found) // with payload, pad and ICRC
		})
	}
	for _, header := range []string{"100088be 00000001 12c86405 000000a2",
		"100022eb 00000001 22c86405 01020304 0007 8008"} {
		mirror := gre4(t, header, inFrame(t, ip[:len(ip)-6]))
		got := line(t, mirror)
		require.Equal(t, "data", got["kind"])
		require.Equal(t, "true", got["truncated"])
		require.NotContains(t, got, "icrc.value")
		require.Equal(t, whole["payload_len"], got["payload_len"])
	}
}

// Tunnel headers with any octet damaged: no panic, one line for each packet, and no values other than those of the
// packet.
func TestTunnelsDamaged(t *testing.T) {
	ip := build(t, packet(bth.RCSendOnly))
	for _, w := range wrappers {
		t.Run(w.name, func(t *testing.T) {
			octets := w.wrap(t, ip)
			var all [][]byte
			for at := range len(octets) - len(ip) {
				for _, value := range []byte{0x00, 0x01, 0x3F, 0x7F, 0x80, 0xFF} {
					damaged := slices.Clone(octets)
					damaged[at] = value
					all = append(all, damaged)
				}
			}
			for i, got := range allLines(t, all) {
				if got["kind"] == "data" {
					require.Equal(t, "42", got["bth.psn"], "%s: %x", w.name, all[i])
				} else {
					require.Contains(t, []string{"other", "error"}, got["kind"])
				}
			}
		})
	}
	deep := ip
	for range 100 {
		deep = wrappers[4].wrap(t, deep)
	}
	require.Equal(t, "other", line(t, deep)["kind"])
}

// The snapshot length may truncate the padding of a flow control frame, and nothing else.
func TestFlowControlTruncated(t *testing.T) {
	const macs = "0180c2000001 001122334455 8808"
	for _, c := range []struct{ name, octets string }{
		{"PFC", "0101 0018 0000 0000 0000 ffff 0000 0000 0000 0000"},
		{"PFC without a priority", "0101 0000 0001 0000 0000 0000 0000 0000 0000 0002"},
		{"PAUSE", "0001 ffff"},
		{"PAUSE that resumes", "0001 0000"},
		{"unknown opcode", "0002 0000"},
	} {
		t.Run(c.name, func(t *testing.T) {
			frame := wiretest.Hex(t, macs+c.octets+strings.Repeat("00", 60))[:60]
			n := len(wiretest.Hex(t, macs+c.octets))
			for cut := range n + 1 {
				record := capture.Record{Data: frame[:cut], OrigLen: 60}
				out, _, _ := inspect(captureOf(capture.Ethernet, record), "-json", "-")
				got := lines(t, out)[0]
				switch {
				case strings.HasPrefix(c.octets, "0002") || cut < 16:
					require.Equal(t, "other", got["kind"], cut)
				case cut < n:
					require.Equal(t, "error", got["kind"], cut)
					require.Equal(t, "true", got["truncated"], cut)
				default:
					require.NotContains(t, got, "truncated")
				}
			}
		})
	}
	_, messages, _ := inspect(capturing(capture.Ethernet, wiretest.Hex(t, macs+"0001ffff"),
		wiretest.Hex(t, macs+"0001ff")), "-")
	require.Contains(t, messages, "2 packets: 1 pause, 1 error\n")
}

// Packets of kind other are counted, and printed only with -all or -json.
func TestOther(t *testing.T) {
	data, other := build(t, packet(bth.RCSendOnly)), wrappers[0].wrap(t, []byte{0x45})
	file := capturing(capture.Raw, other, data, other)
	out, messages, _ := inspect(file, "-")
	require.Equal(t, 1, strings.Count(out, "\n"))
	require.True(t, strings.HasPrefix(out, "    2  "))
	require.Contains(t, messages, "3 packets: 1 data, 2 other\n")
	for _, flag := range []string{"-all", "-json"} {
		out, _, _ = inspect(file, flag, "-")
		require.Equal(t, 3, strings.Count(out, "\n"), flag)
	}
}

// The lines of a mixed pcapng, of interfaces with different link types.
func TestMixedInterfaces(t *testing.T) {
	ip := build(t, packet(bth.RCSendOnly))
	var file []byte
	be := binary.BigEndian
	block := func(kind uint32, words []uint32, data []byte) {
		data = append(slices.Clone(data), make([]byte, -len(data)&3)...)
		length := uint32(12 + 4*len(words) + len(data))
		file = be.AppendUint32(be.AppendUint32(file, kind), length)
		for _, w := range words {
			file = be.AppendUint32(file, w)
		}
		file = be.AppendUint32(append(file, data...), length)
	}
	block(0x0A0D0D0A, []uint32{0x1A2B3C4D, 1 << 16, 0xFFFFFFFF, 0xFFFFFFFF}, nil)
	links := []struct {
		number uint32
		before string
	}{
		{1, "020000000001 020000000002 86dd"},
		{113, "0000 0001 0006 020000000002 0000 86dd"},
		{101, ""},
		{276, "86dd 0000 00000007 0001 00 06 020000000002 0000"},
		{108, "0000001e"},
		{147, ""},
	}
	for _, l := range links {
		block(1, []uint32{l.number << 16, 0}, nil)
	}
	for i, l := range links {
		data := append(wiretest.Hex(t, l.before), ip...)
		block(6, []uint32{uint32(i), 0, 1000, uint32(len(data)), uint32(len(data))}, data)
	}
	out, messages, status := inspect(file, "-json", "-")
	require.Zero(t, status)
	require.Contains(t, messages, "link type 147 is not supported")
	got := lines(t, out)
	for i, l := range got[:5] {
		require.Equal(t, fmt.Sprint(i+1), l["frame"])
		l["frame"] = "1"
		require.Equal(t, withoutLink(maps.Clone(got[0])), withoutLink(maps.Clone(l)))
	}
	require.Equal(t, "other", got[5]["kind"])
}

// Names of files that are hard to print.
func TestFileNames(t *testing.T) {
	ip := build(t, packet(bth.RCSendOnly))
	for _, c := range []struct{ name, want string }{
		{`a "quoted" \ name`, `a "quoted" \ name`},
		{"tab\tand\x01", "tab\tand\x01"},
		{"µ\xff.pcap", "µ\uFFFD.pcap"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := wiretest.File(t, c.name, capturing(capture.Raw, ip))
			out, _, status := inspect(nil, "-json", path, path)
			require.Zero(t, status)
			require.True(t, strings.HasSuffix(lines(t, out)[0]["file"], c.want), out)
		})
	}
}

// With -outer, other traffic is named by its outermost header.
func TestOtherInTunnel(t *testing.T) {
	octets := wiretest.Hex(t, "45000030 00000000 4004 0000 c0000201 c0000202"+ // IP in IP
		"4500001c 00000000 4001 0000 0a000001 0a000002 0800000000000000")
	out, _, _ := inspect(capturing(capture.Raw, octets), "-all", "-outer", "-")
	require.Contains(t, out, "192.0.2.1 > 192.0.2.2  other: IPv4")
}
