package play

import (
	"bytes"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/cnp"
	"github.com/rocecn/rocecn/encap"
	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/proxymsg"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

var proxyAddr = netip.MustParseAddr("2001:db8:1::fe")

// proxyWith returns the configuration of a proxy with these keys, too.
func proxyWith(keys string) string {
	return `{"enabled": true, "self": ["2001:db8:1::fe", "198.51.100.254"], "accept": ["2001:db8:ffff::/48", ` +
		`"192.0.2.0/24"]` + keys + `}`
}

const cnpForAll = `, "senders": [{"prefix": "::/0", "send": "cnp"}, {"prefix": "0.0.0.0/0", "send": "cnp"}]`

// proxyMessage returns the message about an IP packet, from one address to another.
func proxyMessage(t testing.TB, about []byte, from, to netip.Addr) []byte {
	t.Helper()
	var f rocev2.Frame
	_ = f.Decode(about, rocev2.DecodeOptions{Link: rocev2.LinkIP})
	m, err := proxymsg.For(&f, 3)
	require.NoError(t, err)
	b, err := m.AppendPacket(nil, from, to, proxymsg.Config{})
	require.NoError(t, err)
	return b
}

// replay returns the records of a capture in testdata as raw IP, without what is
// no IP.
func replay(t testing.TB, name string) (all []capture.Record) {
	t.Helper()
	for _, p := range wiretest.Capture(t, name) {
		var f rocev2.Frame
		_ = f.Decode(p.Data, rocev2.DecodeOptions{})
		if ip := f.Outermost(); ip != nil {
			all = append(all, capture.Record{Data: ip, Time: p.Time})
		}
	}
	return all
}

// A connection is set up through the proxy, and both its flows become congested:
// each CNP has the queue pair that CM named, and the ICRC is right. After the
// connection has ended nothing is sent.
func TestProxyLearnsFromCM(t *testing.T) {
	const config = `{"enabled": true, "self": ["10.77.0.254"], "accept": ["192.0.2.0/24"], "senders": [{"prefix": ` +
		`"10.77.0.0/24", "send": "cnp"}]}`
	congested, self := netip.MustParseAddr("192.0.2.5"), netip.MustParseAddr("10.77.0.254")
	in := replay(t, "rxe-ucmatose4.pcap")
	data := func(src string, qp uint32) []byte {
		i := slices.IndexFunc(in, func(r capture.Record) bool {
			var p rocev2.Packet
			return p.DecodeIP(r.Data) == nil && p.Src.String() == src && p.BTH.DestQP == qp &&
				p.BTH.Opcode == bth.RCSendOnly
		})
		return in[i].Data
	}
	about := func(src string, qp uint32) capture.Record {
		return capture.Record{Data: proxyMessage(t, data(src, qp), congested, self), Time: in[0].Time}
	}
	isDREQ := func(r capture.Record) bool { // the first CM message behind the data
		var p rocev2.Packet
		return p.DecodeIP(r.Data) == nil && p.BTH.DestQP == 1 && len(p.Payload) == 256 && p.Payload[17] == 0x15
	}
	before := slices.Concat(in[:slices.IndexFunc(in, isDREQ)],
		[]capture.Record{about("10.77.0.1", 0x11), about("10.77.0.2", 0x12)})
	after := slices.Concat(in, []capture.Record{about("10.77.0.1", 0x11)})
	early := slices.Concat([]capture.Record{about("10.77.0.1", 0x11)}, in)

	lines, out, _ := rehearse(t, "proxy", config, captureOf(capture.Raw, time.Microsecond, before...))
	require.Len(t, lines, 4)
	require.Equal(t, [][]any{{"learned", 17.}, {"learned", 18.}},
		[][]any{{lines[0]["action"], lines[0]["qp"]}, {lines[1]["action"], lines[1]["qp"]}})
	require.Len(t, out, 2)
	for i, want := range []struct {
		to string
		qp uint32
	}{{"10.77.0.1", 0x11}, {"10.77.0.2", 0x12}} {
		require.Equal(t, "sent", lines[2+i]["action"])
		require.Equal(t, "cnp", lines[2+i]["kind"])
		require.Equal(t, want.to, lines[2+i]["to"])
		var p rocev2.Packet
		require.NoError(t, p.DecodeIP(out[i].Data))
		got, err := cnp.FromPacket(&p)
		require.NoError(t, err)
		require.Equal(t, cnp.New(want.qp, 0xFFFF), got)
		require.Equal(t, self, p.Src)
		require.Equal(t, want.to, p.Dst.String())
		_, err = icrc.Verify(p.IP)
		require.NoError(t, err)
	}
	for _, none := range [][]capture.Record{after, early} {
		_, out, summary := rehearse(t, "proxy", config, captureOf(capture.Raw, time.Microsecond, none...))
		require.Empty(t, out)
		require.Contains(t, summary, "refused: 1 unknown_qp\n")
	}
}

// Without CM, votes decide: three, and twice as many as for any other pair.
func TestProxyLearnsFromVotes(t *testing.T) {
	in := replay(t, "rxe-rping6.pcap")
	in = slices.DeleteFunc(in, func(r capture.Record) bool {
		var p rocev2.Packet
		return p.DecodeIP(r.Data) == nil && p.BTH.DestQP == 1
	})
	var first rocev2.Packet
	for _, r := range in {
		if first.DecodeIP(r.Data) == nil {
			break
		}
	}
	config := `{"enabled": true, "self": ["2001:db8::1"], "accept": ["2001:db8:ffff::/48"], "senders": [{"prefix": ` +
		`"::/0", "send": "cnp"}]}`
	asked := capture.Record{
		Data: proxyMessage(t, first.IP, switchAddr, netip.MustParseAddr("2001:db8::1")), Time: in[len(in)-1].Time,
	}
	lines, out, _ := rehearse(t, "proxy", config, captureOf(capture.Raw, time.Microsecond, append(in, asked)...))
	require.Equal(t, "learned", lines[0]["action"])
	require.Equal(t, "sent", lines[len(lines)-1]["action"])
	var p rocev2.Packet
	require.NoError(t, p.DecodeIP(out[len(out)-1].Data))
	require.EqualValues(t, 0x11, p.BTH.DestQP)
}

// Every sentence about the proxy, one frame each, after a datagram (UD) that
// names its source queue pair, 34, and one of another flow that two queue pairs
// send to.
func TestProxyLines(t *testing.T) {
	ud := func(src, dst netip.Addr, qp, source uint32) []byte {
		return packet(t, from(src), to(dst), destQP(qp), func(p *rocev2.Packet) {
			p.BTH.Opcode, p.BTH.DETH.SrcQP, p.BTH.PKey = bth.UDSendOnly, source, 0x8001
		})
	}
	six, four := ud(senderAddr, receiverAddr, 17, 34), ud(senderIPv4, receiverIPv4, 17, 35)
	about := func(ip []byte) []byte { return proxyMessage(t, ip, switchAddr, proxyAddr) }
	changed := func(change func(ip []byte)) []byte {
		b := about(six)
		change(b)
		b[46], b[47] = 0, 0
		var d rocev2.Datagram
		require.NoError(t, d.DecodeIP(b))
		d.Checksum = 1
		b, err := d.AppendBinary(nil)
		require.NoError(t, err)
		return b
	}
	tunnelled, err := (&encap.IPInIPv6{Src: switchAddr, Dst: proxyAddr}).Append(nil, about(six), 1)
	require.NoError(t, err)
	innerTunnel, err := (&encap.IPInIPv6{Src: switchAddr, Dst: receiverAddr}).Append(nil, four, 1)
	require.NoError(t, err)
	inGRE := slices.Concat(wiretest.Hex(t, fmt.Sprintf("4500%04x 00000000 402f0000 c0000201 c0000202 00000800",
		24+len(four))), four)
	fragment := slices.Concat(about(six)[:40], []byte{17, 0, 0, 1, 0, 0, 0, 1}, about(six)[40:104])
	fragment[6], fragment[4], fragment[5] = 44, 0, 72
	for _, c := range []struct {
		name, config string
		packet       []byte
		want         []any // action, reason, kind, to; none: no line
	}{
		{"CNP over IPv6", proxyWith(cnpForAll), about(six), []any{"sent", "", "cnp", "2001:db8:1::a"}},
		{"CNP over IPv4", proxyWith(cnpForAll), about(four), []any{"sent", "", "cnp", "198.51.100.1"}},
		{"message over IPv4", proxyWith(cnpForAll),
			proxyMessage(t, six, netip.MustParseAddr("192.0.2.5"), netip.MustParseAddr("198.51.100.254")),
			[]any{"sent", "", "cnp", "2001:db8:1::a"}},
		{"below a tunnel", proxyWith(cnpForAll), about(innerTunnel), []any{"sent", "", "cnp", "198.51.100.1"}},
		{"in GRE", proxyWith(cnpForAll), about(inGRE), []any{"refused", "broken", "-", "-"}},
		{"in GRE, the family given", proxyWith(`, "family": 4` + cnpForAll), about(inGRE),
			[]any{"sent", "", "cnp", "198.51.100.1"}},
		{"of the other family", proxyWith(`, "family": 6` + cnpForAll), about(four),
			[]any{"refused", "tuple_mismatch", "-", "-"}},
		{"Fast CNP", proxyWith(`, "senders": [{"prefix": "::/0", "send": "fastcnp"}]`), about(packet(t)),
			[]any{"sent", "", "fastcnp", "2001:db8:1::a"}},
		{"PPFC", proxyWith(`, "senders": [{"prefix": "198.51.100.1/32", "send": "ppfc"}]`), about(packet(t, ipv4)),
			[]any{"sent", "", "ppfc", "198.51.100.1"}},
		{"Fast CNP over IPv4", proxyWith(`, "senders": [{"prefix": "0.0.0.0/0", "send": "fastcnp"}]`), about(four),
			[]any{"refused", "no_method", "-", "-"}},
		{"none", proxyWith(`, "senders": [{"prefix": "::/0", "send": "none"}]`), about(six),
			[]any{"refused", "no_method", "-", "-"}},
		{"longest prefix",
			proxyWith(`, "senders": [{"prefix": "2001:db8:1::/48", "send": "none"}, {"prefix": "::/0", "send": ` +
				`"cnp"}]`),
			about(six), []any{"refused", "no_method", "-", "-"}},
		{"no senders", proxyWith(``), about(six), []any{"refused", "no_method", "-", "-"}},
		{"unknown", proxyWith(cnpForAll), about(packet(t, destQP(99))), []any{"refused", "unknown_qp", "-", "-"}},
		{"ambiguous", proxyWith(cnpForAll), about(ud(senderAddr, receiverAddr, 18, 40)),
			[]any{"refused", "ambiguous_qp", "-", "-"}},
		{"UC", proxyWith(cnpForAll), about(packet(t, opcode(bth.UCSendOnly), destQP(20))),
			[]any{"refused", "unknown_qp", "-", "-"}},
		{"acknowledgement", proxyWith(cnpForAll), about(packet(t, opcode(bth.RCAcknowledge))),
			[]any{"refused", "acknowledgement", "-", "-"}},
		{"CNP", proxyWith(cnpForAll), about(packet(t, aCNP)), []any{"refused", "notification", "-", "-"}},
		{"sender link-local", proxyWith(cnpForAll), about(packet(t, from(netip.MustParseAddr("fe80::1")))),
			[]any{"refused", "address", "-", "-"}},
		{"sender is the proxy", proxyWith(cnpForAll), about(packet(t, from(proxyAddr))),
			[]any{"refused", "own_address", "-", "-"}},
		{"to another", proxyWith(cnpForAll), proxyMessage(t, six, switchAddr, receiverAddr),
			[]any{"refused", "not_ours", "-", "-"}},
		{"tunnelled", proxyWith(cnpForAll), tunnelled, []any{"refused", "tunnelled", "-", "-"}},
		{"denied", proxyWith(cnpForAll), proxyMessage(t, six, senderAddr, proxyAddr),
			[]any{"refused", "denied", "-", "-"}},
		{"empty list", `{"enabled": true, "self": ["2001:db8:1::fe"]` + cnpForAll + `}`, about(six),
			[]any{"refused", "denied", "-", "-"}},
		{"checksum", proxyWith(cnpForAll), func() []byte { b := about(six); b[60]++; return b }(),
			[]any{"refused", "checksum", "-", "-"}},
		{"TCP", proxyWith(cnpForAll), changed(func(ip []byte) { ip[48+32] = 6 }),
			[]any{"refused", "tuple_mismatch", "-", "-"}},
		{"another port", proxyWith(cnpForAll), changed(func(ip []byte) { ip[48+33]++ }),
			[]any{"refused", "tuple_mismatch", "-", "-"}},
		{"no invoking packet", proxyWith(cnpForAll),
			changed(func(ip []byte) { ip[4], ip[5], ip[44], ip[45] = 0, 48, 0, 48 }),
			[]any{"refused", "broken", "-", "-"}},
		{"short", proxyWith(cnpForAll), changed(func(ip []byte) { ip[4], ip[5], ip[44], ip[45] = 0, 20, 0, 20 }),
			[]any{"refused", "broken", "-", "-"}},
		{"UDP length", proxyWith(cnpForAll), func() []byte { b := about(six); b[44], b[45] = 0, 7; return b }(),
			[]any{"refused", "broken", "-", "-"}},
		{"fragment", proxyWith(cnpForAll), fragment, []any{"refused", "fragment", "-", "-"}},
		{"disabled", `{}`, about(six), []any{"refused", "disabled", "-", "-"}},
		{"disabled, broken", `{"self": ["::1"]}`, fragment, []any{"refused", "disabled", "-", "-"}},
		{"data", proxyWith(cnpForAll), packet(t), nil},
		{"fragment to another port", proxyWith(cnpForAll + `, "proxy_port": 1023`), fragment, nil},
		{"another port of ours", proxyWith(cnpForAll + `, "proxy_port": 1023`), about(six), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := every(time.Millisecond, six, four, ud(senderAddr, receiverAddr, 18, 40),
				ud(senderAddr, receiverAddr, 18, 41), c.packet)
			lines, out, _ := rehearse(t, "proxy", c.config, in)
			if len(lines) > 0 && lines[0]["action"] == "learned" {
				require.Equal(t, []any{34., 35., 40.}, []any{lines[0]["qp"], lines[1]["qp"], lines[2]["qp"]})
				lines = lines[3:]
			}
			if c.want == nil {
				require.Empty(t, lines)
				require.Empty(t, out)
				return
			}
			require.Len(t, lines, 1)
			require.Equal(t, append([]any{5.}, c.want...), words(lines, "action", "reason", "kind", "to")[0])
			require.Equal(t, c.want[0] == "sent", len(out) == 1)
			if len(out) == 1 {
				var m message.Message
				require.NoError(t, m.Decode(out[0].Data, rocev2.DecodeOptions{Link: rocev2.LinkIP}, message.Config{}))
				require.Equal(t, c.want[2], m.Kind.String())
				_, err := icrc.Verify(m.Packet.IP)
				require.NoError(t, err)
				if m.Kind == message.CNP {
					require.EqualValues(t, 0x8001, m.CNP.PKey)
				}
			}
		})
	}
}

func TestProxySource(t *testing.T) {
	ud := packet(t, func(p *rocev2.Packet) { p.BTH.Opcode, p.BTH.DETH.SrcQP = bth.UDSendOnly, 34 })
	for source, want := range map[string]netip.Addr{``: proxyAddr, `, "cnp_source": "self"`: proxyAddr,
		`, "cnp_source": "destination"`: receiverAddr} {
		_, out, _ := rehearse(t, "proxy", proxyWith(cnpForAll+source),
			every(0, ud, proxyMessage(t, ud, switchAddr, proxyAddr)))
		var p rocev2.Packet
		require.NoError(t, p.DecodeIP(out[0].Data))
		require.Equal(t, want, p.Src)
	}
}

func TestProxyLimits(t *testing.T) {
	ud := func(qp uint32) []byte {
		return packet(t, destQP(qp), func(p *rocev2.Packet) { p.BTH.Opcode, p.BTH.DETH.SrcQP = bth.UDSendOnly, 34 })
	}
	about := func(qp uint32) []byte { return proxyMessage(t, ud(qp), switchAddr, proxyAddr) }
	in := every(25*time.Microsecond, ud(21), ud(22), about(21), about(21), about(29), about(21), about(22), about(22),
		about(22))
	for keys, want := range map[string][]any{
		``:                     {"", "", "unknown_qp", "", "", "", ""},
		`, "per_flow": "50us"`: {"", "limited", "unknown_qp", "", "", "limited", ""},
		`, "rate_out": {"per_second": 1, "burst": 2}`: {"", "", "unknown_qp", "limited", "limited", "limited",
			"limited"},
		`, "rate_in": {"per_second": 1, "burst": 2}`: {"", "", "limited", "limited", "limited", "limited",
			"limited"},
		`, "rate_in": {"per_second": 1}, "per_flow": "1h"`: {"", "limited", "limited", "limited", "limited", "limited",
			"limited"},
		// What is not answered was looked at, too.
		`, "rate_in": {"per_second": 1, "burst": 4}`: {"", "", "unknown_qp", "", "limited", "limited", "limited"},
		`, "rate_in": {"per_second": 1, "burst": 4}, "per_flow": "1h"`: {
			"", "limited", "unknown_qp", "limited", "limited", "limited", "limited",
		},
		`, "rate_in_source": {"per_second": 1, "burst": 3}`: {
			"", "", "unknown_qp", "limited", "limited", "limited", "limited",
		},
		`, "rate_in": {"per_second": 1, "burst": 9}, "rate_in_source": {"per_second": 1}`: {
			"", "limited", "limited", "limited", "limited", "limited", "limited",
		},
	} {
		lines, _, _ := rehearse(t, "proxy", proxyWith(cnpForAll+keys), in)
		var got []any
		for _, l := range lines[2:] {
			got = append(got, l["reason"])
		}
		require.Equal(t, want, got, keys)
	}
}

// Each congested node has a rate of its own.
func TestProxyRateOfSource(t *testing.T) {
	ud := packet(t, func(p *rocev2.Packet) { p.BTH.Opcode, p.BTH.DETH.SrcQP = bth.UDSendOnly, 34 })
	about := func(from netip.Addr) []byte { return proxyMessage(t, ud, from, proxyAddr) }
	bad := about(switchAddr)
	bad[60]++ // the checksum is looked at behind the rates, and the list before them
	in := every(time.Millisecond, ud, bad,
		about(switchAddr), about(switchAddr.Next()), about(senderAddr), about(switchAddr))
	lines, _, _ := rehearse(t, "proxy", proxyWith(cnpForAll+`, "rate_in_source": {"per_second": 1, "burst": 2}`), in)
	want := [][]any{{1., ""}, {2., "checksum"}, {3., ""}, {4., ""}, {5., "denied"}, {6., "limited"}}
	require.Equal(t, want, words(lines, "reason"))
}

// What a sender understands that does not use RoCEv2 is the program's to know.
func TestProxyOther(t *testing.T) {
	tcp := append([]byte{0x60, 0, 0, 0, 0, 20, 6, 64}, append(senderAddr.AsSlice(), receiverAddr.AsSlice()...)...)
	tcp = append(tcp, 0x9C, 0x40, 1, 187)
	tcp = append(tcp, make([]byte, 16)...)
	for send, want := range map[string][]any{
		"other": {1., "accepted", "", "proxy", "-", "-"}, "cnp": {1., "refused", "tuple_mismatch", "-", "-", "-"},
	} {
		config := proxyWith(`, "senders": [{"prefix": "2001:db8:1::/48", "send": "` + send + `"}]`)
		lines, out, summary := rehearse(t, "proxy", config, every(0, proxyMessage(t, tcp, switchAddr, proxyAddr)))
		require.Equal(t, [][]any{want}, words(lines, "action", "reason", "kind", "to", "option"))
		require.Empty(t, out)
		require.Contains(t, summary, "frames: 1 read, 0 packets written\n")
	}
}

// What is broken, or came in a tunnel, teaches nothing, and does not say again what
// the packet before it did.
func TestProxyLearnsOnce(t *testing.T) {
	ud := packet(t, func(p *rocev2.Packet) { p.BTH.Opcode, p.BTH.DETH.SrcQP = bth.UDSendOnly, 34 })
	tunnelled, err := (&encap.IPInIPv6{Src: switchAddr, Dst: receiverAddr}).Append(nil, ud, 1)
	require.NoError(t, err)
	lines, _, _ := rehearse(t, "proxy", proxyWith(cnpForAll), every(time.Millisecond, ud, tunnelled, ud[:70]))
	require.Equal(t, [][]any{{1., "learned"}}, words(lines, "action"))
}

// What a capture cut, or a link type other than Ethernet, teaches as well.
func TestProxyLearnsFromWholeCapture(t *testing.T) {
	in, err := os.ReadFile(wiretest.Path(t, "rxe-ucmatose4.pcap"))
	require.NoError(t, err)
	lines, out, _ := rehearse(t, "proxy", proxyWith(cnpForAll), in)
	require.Empty(t, out)
	require.Equal(t, [][]any{{30., "learned", 17.}, {31., "learned", 18.}}, words(lines, "action", "qp"))
}

func TestProxyConfig(t *testing.T) {
	for config, key := range map[string]string{
		`{"enabled": true}`:                                         "self",
		`{"enabled": true, "self": []}`:                             "self",
		`{"enabled": true, "self": ["::1"]}`:                        "self[0]",
		`{"enabled": true, "self": "2001:db8::1"}`:                  "self",
		`{"enabled": true, "self": ["2001:db8::1", "2001:db8::2"]}`: "self[1]",
		proxyWith(`, "senders": [{"send": "cnp"}]`):                 "senders[0].prefix",
		proxyWith(`, "senders": [{"prefix": "::/0"}]`):              "senders[0].send",
		proxyWith(`, "senders": [{"prefix": "::/0", "send": "cnp"}, {"prefix": "::/0", "send": "x"}]`): "senders[1]." +
			"send",
		proxyWith(`, "senders": [{"prefix": "::/129", "send": "cnp"}]`): "senders[0].prefix",
		proxyWith(`, "senders": [{"senders": "::/0", "send": "cnp"}]`):  "senders[0].senders",
		proxyWith(`, "cnp_source": "Self"`):                             "cnp_source",
		proxyWith(`, "family": 5`):                                      "family",
		proxyWith(`, "rate_in": 5`):                                     "rate_in",
		proxyWith(`, "rate_in_source": []`):                             "rate_in_source",
		proxyWith(`, "rate_in": {"per_second": "5"}`):                   "rate_in.per_second",
		proxyWith(`, "rate_out": {"burst": -1}`):                        "rate_out.burst",
		proxyWith(`, "per_flow": 50`):                                   "per_flow",
		proxyWith(`, "per_flow": "50"`):                                 "per_flow",
		proxyWith(`, "Accept": []`):                                     "Accept",
		proxyWith(`, "proxy_port": 4791`):                               "proxy_port",
		`{"cnp_source": 7}`:                                             "cnp_source",
	} {
		requireWrong(t, "proxy", config, key)
	}
}

// requireWrong plays a role whose configuration is wrong: exit status 2, and a
// message that names the key.
func requireWrong(t *testing.T, role, config, key string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	args := []string{"-role", role, "-config", file(t, config), wiretest.Path(t, "rxe-ucmatose4.pcap")}
	require.Equal(t, 2, Run(t.Context(), args, nil, &stdout, &stderr), config)
	require.Empty(t, stdout.String())
	require.Contains(t, stderr.String(), ".json: "+key+": ", config)
}
