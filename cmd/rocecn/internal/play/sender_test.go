package play

import (
	"encoding/json"
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/cnp"
	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/ppfc"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

// senderWith returns the configuration of a sender with these keys, too.
func senderWith(keys string) string {
	return `{"enabled": true, "self": ["2001:db8:1::a", "198.51.100.1"]` + keys + `}`
}

const (
	acceptSwitch = `, "accept": ["2001:db8:ffff::/48"]`
	senderPairs  = `, "qps": [{"dst": "2001:db8:4::e", "dest_qp": 17, "qp": 34}, {"dst": "198.51.100.2", "dest_qp": ` +
		`17, "qp": 35}]`
)

// about decodes a packet that met congestion.
func about(t testing.TB, octets []byte) *rocev2.Packet {
	t.Helper()
	var p rocev2.Packet
	require.NoError(t, p.DecodeIP(octets))
	return &p
}

func fastCNPFrom(t testing.TB, src netip.Addr, congested []byte) []byte {
	t.Helper()
	b, _, err := fastcnp.AppendFor(nil, about(t, congested), src, nil, fastcnp.Config{})
	require.NoError(t, err)
	return b
}

func cnpFor(t testing.TB, data []byte, qp uint32) []byte {
	t.Helper()
	b, err := cnp.AppendFor(nil, about(t, data), about(t, data).FinalDst(), qp, cnp.Config{})
	require.NoError(t, err)
	return b
}

func ppfcFrom(t testing.TB, src netip.Addr, congested []byte, typ ppfc.Type) []byte {
	t.Helper()
	e := ppfc.Extension{Type: typ, Pause: 100 * time.Microsecond}
	b, err := ppfc.AppendFor(nil, about(t, congested), src, e, ppfc.Config{})
	require.NoError(t, err)
	return b
}

func TestSenderLines(t *testing.T) {
	all := senderWith(acceptSwitch + senderPairs)
	stranger := netip.MustParseAddr("2001:db8:bad::1")
	damaged := fastCNPFrom(t, switchAddr, packet(t))
	damaged[len(damaged)-1] ^= 1
	broken := fastCNPFrom(t, switchAddr, packet(t))
	broken[43] = 17
	tunnelled := append(append([]byte{0x60, 0, 0, 0, 0, uint8(len(damaged)), 41, 64},
		append(switchAddr.AsSlice(), senderAddr.AsSlice()...)...),
		fastCNPFrom(t, switchAddr, packet(t))...)
	for _, c := range []struct {
		name, config string
		packet       []byte
		want         string
	}{
		{"Fast CNP", all, fastCNPFrom(t, switchAddr, packet(t)),
			`{"action":"accepted","reason":"","qp":34,"origin":"network","again":false}`},
		{"Fast CNP of the receiver", all, fastCNPFrom(t, receiverAddr, packet(t)),
			`{"action":"accepted","reason":"","qp":34,"origin":"receiver","again":false}`},
		{"CNP", all, cnpFor(t, packet(t), 34),
			`{"action":"accepted","reason":"","qp":34,"origin":"receiver","again":false}`},
		{"CNP, nobody in the list", senderWith(senderPairs), cnpFor(t, packet(t, ipv4), 35),
			`{"action":"accepted","reason":"","qp":35,"origin":"receiver","again":false}`},
		{"CNP of a stranger", all, cnpFor(t, packet(t, to(stranger)), 34), `{"action":"refused","reason":"denied"}`},
		{"CNP, no such queue pair", all, cnpFor(t, packet(t), 36), `{"action":"refused","reason":"unknown_qp"}`},
		{"CNP, the queue pair of another flow", all, cnpFor(t, packet(t), 35),
			`{"action":"refused","reason":"denied"}`},
		{"CNP of a node on the list", all, cnpFor(t, packet(t, to(switchAddr)), 36),
			`{"action":"accepted","reason":"","qp":36,"origin":"receiver","again":false}`},
		{"CNP of one of two", senderWith(`, "qps": [{"dst": "2001:db8:4::e", "dest_qp": 17, "qp": 34},
			{"dst": "2001:db8:4::e", "dest_qp": 18, "qp": 34}]`),
			cnpFor(t, packet(t), 34), `{"action":"accepted","reason":"","qp":34,"origin":"receiver","again":false}`},
		{"Fast CNP of the receiver, unknown flow", all, fastCNPFrom(t, receiverAddr, packet(t, destQP(18))),
			`{"action":"refused","reason":"unknown_qp"}`},
		{"Fast CNP of the receiver about another's flow", all, fastCNPFrom(t, stranger, packet(t, to(receiverAddr))),
			`{"action":"refused","reason":"denied"}`},
		{"Fast CNP of a host that receives nothing", all, fastCNPFrom(t, stranger, packet(t, to(stranger))),
			`{"action":"refused","reason":"unknown_qp"}`},
		{"Fast CNP of the receiver, which sends none", senderWith(acceptSwitch + senderPairs + `, "receivers": false`),
			fastCNPFrom(t, receiverAddr, packet(t)), `{"action":"refused","reason":"denied"}`},
		{"Fast CNP of the receiver, said to send some", senderWith(acceptSwitch + senderPairs + `, "receivers": true`),
			fastCNPFrom(t, receiverAddr, packet(t)),
			`{"action":"accepted","reason":"","qp":34,"origin":"receiver","again":false}`},
		{"CNP where receivers send no Fast CNP", senderWith(senderPairs + `, "receivers": false`),
			cnpFor(t, packet(t), 34), `{"action":"accepted","reason":"","qp":34,"origin":"receiver","again":false}`},
		{"PPFC stop", all, ppfcFrom(t, switchAddr, packet(t), ppfc.Stop),
			`{"action":"accepted","reason":"","qp":34,"origin":"network","again":false,"state":"stopped",` +
				`"pause_us":100}`},
		{"PPFC hold", all, ppfcFrom(t, switchAddr, packet(t), ppfc.Hold),
			`{"action":"accepted","reason":"","qp":34,"origin":"network","again":false,"state":"held","pause_us":100}`},
		{"PPFC alarm", all, ppfcFrom(t, switchAddr, packet(t), ppfc.Alarm),
			`{"action":"accepted","reason":"","qp":34,"origin":"network","again":false,"state":"alarmed",` +
				`"pause_us":100}`},
		{"PPFC resume, unknown flow", senderWith(acceptSwitch), ppfcFrom(t, switchAddr, packet(t), ppfc.Resume),
			`{"action":"accepted","reason":"","origin":"network","again":false,"state":"running","pause_us":0}`},
		{"of a stranger", all, fastCNPFrom(t, stranger, packet(t)), `{"action":"refused","reason":"denied"}`},
		{"nobody in the list", senderWith(senderPairs), fastCNPFrom(t, switchAddr, packet(t)),
			`{"action":"refused","reason":"denied"}`},
		{"another host's", all, fastCNPFrom(t, switchAddr, packet(t, from(senderAddr.Next()))),
			`{"action":"refused","reason":"not_ours"}`},
		{"tunnelled", all, tunnelled, `{"action":"refused","reason":"tunnelled"}`},
		{"tunnels allowed", senderWith(acceptSwitch + senderPairs + `, "allow_tunnel": true`), tunnelled,
			`{"action":"accepted","reason":"","qp":34,"origin":"network","again":false}`},
		{"ICRC", all, damaged, `{"action":"refused","reason":"icrc"}`},
		{"broken option", all, broken, `{"action":"refused","reason":"broken"}`},
		{"cut", all, broken[:90], `{"action":"refused","reason":"broken"}`},
		{"unknown flow", senderWith(acceptSwitch), fastCNPFrom(t, switchAddr, packet(t)),
			`{"action":"refused","reason":"unknown_qp"}`},
		{"ambiguous flow", senderWith(acceptSwitch +
			`, "qps": [{"dst": "2001:db8:4::e", "dest_qp": 17, "qp": 34}, {"dst": "2001:db8:4::e", "dest_qp": 17, ` +
			`"qp": 35}]`),
			fastCNPFrom(t, switchAddr, packet(t)), `{"action":"refused","reason":"ambiguous_qp"}`},
		{"data", all, packet(t), ``},
		{"broken data", all, packet(t)[:90], ``},
		{"other UDP", all, packet(t, func(p *rocev2.Packet) { p.DstPort = 53 }), ``},
		{"nothing", all, nil, ``},
		{"disabled", `{"self": ["::1"]}`, fastCNPFrom(t, switchAddr, packet(t)),
			`{"action":"refused","reason":"disabled"}`},
		{"disabled, data", `{}`, packet(t), ``},
	} {
		lines, out, _ := rehearse(t, "sender", c.config, every(time.Second, c.packet))
		require.Empty(t, out)
		if c.want == "" {
			require.Empty(t, lines, c.name)
			continue
		}
		require.Len(t, lines, 1, c.name)
		var want map[string]any
		require.NoError(t, json.Unmarshal([]byte(c.want), &want))
		want["frame"], want["time"], want["role"] = 1., "2026-11-21T12:00:00.000000Z", "sender"
		require.Equal(t, want, lines[0], c.name)
	}
}

func TestSenderWindowAndSources(t *testing.T) {
	fast, plain := fastCNPFrom(t, switchAddr, packet(t)), cnpFor(t, packet(t), 34)
	lines, _, _ := rehearse(t, "sender", senderWith(acceptSwitch+senderPairs+`, "window": "100us"`),
		every(50*time.Microsecond, fast, plain, fast, plain))
	require.Equal(t, [][]any{{1., 34., false}, {2., 34., true}, {3., 34., false}, {4., 34., true}},
		words(lines, "qp", "again"))
	lines, _, _ = rehearse(t, "sender", senderWith(acceptSwitch+senderPairs+`, "per_source": "100us"`),
		every(50*time.Microsecond, fast, plain, fast, fast))
	require.Equal(t, [][]any{{1., "accepted", ""}, {2., "accepted", ""}, {3., "accepted", ""},
		{4., "refused", "limited"}}, words(lines, "action", "reason"))
	lines, _, _ = rehearse(t, "sender", senderWith(acceptSwitch+senderPairs+
		`, "rate": {"per_second": 10000, "burst": 2}`),
		every(50*time.Microsecond, fast, plain, fast, fast))
	want := [][]any{{1., "accepted", ""}, {2., "accepted", ""}, {3., "accepted", ""}, {4., "refused", "limited"}}
	require.Equal(t, want, words(lines, "action", "reason"))
}

// A sender that learns from its own datagrams, and then finds the flow that a
// switch speaks of.
func TestSenderLearns(t *testing.T) {
	datagram := packet(t, opcode(bth.UDSendOnly), func(p *rocev2.Packet) { p.BTH.DETH.SrcQP = 0x44 })
	lines, _, _ := rehearse(t, "sender", senderWith(acceptSwitch+`, "learn": true`),
		every(time.Millisecond, datagram, datagram, fastCNPFrom(t, switchAddr, datagram)))
	require.Equal(t, [][]any{{1., "learned", 68.}, {3., "accepted", 68.}}, words(lines, "action", "qp"))
	lines, _, _ = rehearse(t, "sender", senderWith(acceptSwitch),
		every(time.Millisecond, datagram, fastCNPFrom(t, switchAddr, datagram)))
	require.Equal(t, [][]any{{2., "refused", "unknown_qp"}}, words(lines, "action", "reason"))
}

func TestSenderMalformed(t *testing.T) {
	for keys, message := range map[string]string{
		`"self": []`:         `self: an enabled role needs its own address`,
		`"accept": ["::"]`:   `accept[0]: "::" is not a prefix`,
		`"window": 1`:        `window: a duration is text`,
		`"qps": [{"qp": 1}]`: `qps[0].dst: missing`,
		`"qps": [{"dst": "::2", "dest_qp": 1, "qp": 16777216}]`: `qps[0].qp: 16777216 has more than 24 bits`,
		`"qps": [{"dst": "::2", "qp": 1}]`:                      `qps[0].dest_qp: missing`,
		`"qps": [{"dst": "::2", "dest_qp": 1}]`:                 `qps[0].qp: missing`,
		`"qps": [{"src": "::2"}]`:                               `qps[0].src: unknown key; known are dst, dest_qp, qp`,
		`"receivers": "no"`:                                     `receivers: true or false needed`,
		`"rate": 5`:                                             `rate: an object needed`,
		`"interval": "1s"`:                                      `interval: unknown key`,
	} {
		require.ErrorContains(t, malformed("sender", keys), message, keys)
	}
}

// A sender that learns knows its queue pairs by number, too: a CNP about one counts
// when it comes from where that one sends to.
func TestSenderLearnsItsOwn(t *testing.T) {
	datagram := func(dst netip.Addr, dest, source uint32) []byte {
		return packet(t, to(dst), destQP(dest), opcode(bth.UDSendOnly),
			func(p *rocev2.Packet) { p.BTH.DETH.SrcQP = source })
	}
	other := receiverAddr.Next()
	lines, _, _ := rehearse(t, "sender", senderWith(`, "learn": true`), every(time.Millisecond,
		datagram(receiverAddr, 5, 0x44), datagram(receiverAddr, 6, 0x44), datagram(other, 5, 0x45),
		packet(t, from(receiverAddr), to(senderAddr), destQP(0x46), opcode(bth.UDSendOnly)), // a flow of another host
		cnpFor(t, packet(t), 0x44), cnpFor(t, packet(t), 0x45),
		cnpFor(t, packet(t, to(other)), 0x45), cnpFor(t, packet(t, to(other)), 0x44),
		cnpFor(t, packet(t), 0x46),
		datagram(receiverAddr, 6, 0x47), // that queue pair has two sources from now on, the one before it one
		cnpFor(t, packet(t), 0x44)))
	require.Equal(t, [][]any{
		{1., "learned", ""}, {2., "learned", ""}, {3., "learned", ""}, {4., "learned", ""},
		{5., "accepted", ""}, {6., "refused", "denied"}, {7., "accepted", ""}, {8., "refused", "denied"},
		{9., "refused", "unknown_qp"},
		{11., "accepted", ""},
	}, words(lines, "action", "reason"))

	// Connection management: both ends of a connection, and neither when it has ended.
	in := replay(t, "rxe-ucmatose4.pcap")
	var data rocev2.Packet
	i := slices.IndexFunc(in, func(r capture.Record) bool {
		return data.DecodeIP(r.Data) == nil && data.Src.String() == "10.77.0.1" &&
			data.BTH.Opcode == bth.RCSendOnly && data.BTH.DestQP > 1
	})
	require.Positive(t, i)
	cnp := capture.Record{Data: cnpFor(t, in[i].Data, 0x11), Time: in[i].Time}
	for _, c := range []struct {
		in   []capture.Record
		want []any
	}{
		{slices.Concat(in[:i+1], []capture.Record{cnp}), []any{"accepted", ""}},
		{slices.Concat(in, []capture.Record{cnp}), []any{"refused", "denied"}},
	} {
		lines, _, _ := rehearse(t, "sender", `{"enabled": true, "self": ["10.77.0.1"], "learn": true}`,
			captureOf(capture.Raw, time.Microsecond, c.in...))
		require.Equal(t, c.want, words(lines, "action", "reason")[len(lines)-1][1:])
	}
}

// Whole captures of whatever kind: every role reads them to the end.
func TestRolesOnCaptures(t *testing.T) {
	for _, name := range wiretest.Captures(t, "*.pcap") {
		in, err := os.ReadFile(wiretest.Path(t, name))
		require.NoError(t, err)
		for _, role := range []string{"switch", "receiver", "sender"} {
			_, _, summary := rehearse(t, role, `{"enabled": true, "self": ["2001:db8::1"]}`, in)
			require.NotEmpty(t, summary)
		}
	}
}

// In front of a host that only knows CNPs, what counts becomes the CNP that the
// receiver would send, once.
func TestTranslator(t *testing.T) {
	stop, resume := ppfcFrom(t, switchAddr, packet(t), ppfc.Stop), ppfcFrom(t, switchAddr, packet(t), ppfc.Resume)
	unknown := fastCNPFrom(t, switchAddr, packet(t, destQP(18)))
	fast := fastCNPFrom(t, switchAddr, packet(t))
	in := every(time.Microsecond, fast, fast, unknown, stop, resume, cnpFor(t, packet(t), 34))
	for as, want := range map[string][][]byte{
		`, "as": "log"`: nil,
		``:              nil,
		`, "as": "cnp"`: {cnpFor(t, packet(t), 34), cnpFor(t, packet(t), 34)},
	} {
		lines, out, _ := rehearse(t, "sender", senderWith(acceptSwitch+senderPairs+`, "window": "1s"`+as), in)
		require.Len(t, lines, 6)
		require.Len(t, out, len(want), as)
		for i := range want {
			got, cnp := about(t, out[i].Data), about(t, want[i])
			require.Equal(t, cnp.FlowKey(), got.FlowKey())
			require.Equal(t, cnp.BTH.Header, got.BTH.Header)
			require.Equal(t, cnp.Payload, got.Payload)
			require.Empty(t, got.Ext)
			_, err := got.VerifyICRC()
			require.NoError(t, err)
		}
	}
	require.ErrorContains(t, malformed("sender", `"as": "ppfc"`), `as: "ppfc" is neither log nor cnp`)
}

// Each notification that counts has the rate that its flow goes on at. The paper's first cut is half, and 55 µs later
// a half of the rest is back. Flows, of one queue pair too, are apart.
func TestSenderRates(t *testing.T) {
	const flows = `, "qps": [{"dst": "2001:db8:4::e", "dest_qp": 17, "qp": 34}, {"dst": "2001:db8:4::e", ` +
		`"dest_qp": 18, "qp": 34}, {"dst": "198.51.100.2", "dest_qp": 17, "qp": 34}, ` +
		`{"dst": "2001:db8:4::e", "dest_qp": 19, "qp": 35}]`
	const reaction = `, "reaction": {"line": 100000000000}`
	stop := func(typ ppfc.Type) []byte { return ppfcFrom(t, switchAddr, packet(t, destQP(19)), typ) }
	in := every(10*time.Microsecond,
		fastCNPFrom(t, switchAddr, packet(t)),             // 0 µs: 17 of IPv6
		fastCNPFrom(t, switchAddr, packet(t)),             // again
		cnpFor(t, packet(t, ipv4), 34),                    // 20 µs: 17 of IPv4
		fastCNPFrom(t, switchAddr, packet(t, destQP(20))), // nobody's
		cnpFor(t, packet(t), 34),                          // 40 µs: 17 and 18
		stop(ppfc.Stop), stop(ppfc.Hold), stop(ppfc.Resume),
		ppfcFrom(t, switchAddr, packet(t, destQP(20)), ppfc.Stop), // about a port
	)
	rates := func(keys string) (all []any) {
		lines, _, _ := rehearse(t, "sender", senderWith(acceptSwitch+flows+keys), in)
		for _, l := range lines {
			all = append(all, l["rate_bps"])
		}
		return all
	}
	// α is 1 and then 1·255/256 + 1/256 = 1 up to rounding: each cut is half, or some bits a second less.
	want := []float64{50e9, 25e9, 50e9, -1, 12.5e9, 0, 0, 100e9, -1}
	for name, keys := range map[string]string{"report": reaction, "shape": reaction + `, "act": "shape"`} {
		got := rates(keys)
		require.Len(t, got, len(want), name)
		for i, rate := range got {
			if want[i] < 0 {
				require.Nil(t, rate, "%s %d", name, i)
			} else {
				require.InDelta(t, want[i], rate, 1000, "%s %d", name, i)
			}
		}
	}
	require.Equal(t, make([]any, len(want)), rates(``), "no reaction, no rates")

	// With a window the second report of the first flow is the same news.
	require.InDelta(t, 50e9, rates(reaction + `, "window": "15us"`)[1], 1000)
	// By option 2 HPCC.
	require.InDelta(t, 50e9, rates(`, "reaction": {"line": 100000000000, "rtt": "10us", "kind": "connectx"}`)[0], 100e6)
}

// What a flow has sent counts, as the capture has it: after 10 MB the rate rises, whatever the time.
func TestSenderRatesByOctets(t *testing.T) {
	data := packet(t, func(p *rocev2.Packet) { p.Payload = make([]byte, 9000-14-40-8-12-4) })
	config := senderWith(acceptSwitch + senderPairs + `, "reaction": {"line": 100000000000, "timer": "1h"}`)
	rate := func(packets int) any {
		in := [][]byte{fastCNPFrom(t, switchAddr, packet(t))}
		for range packets {
			in = append(in, data)
		}
		in = append(in, ppfcFrom(t, switchAddr, packet(t), ppfc.Resume))
		lines, _, _ := rehearse(t, "sender", config, every(0, in...))
		return lines[len(lines)-1]["rate_bps"]
	}
	require.InDelta(t, 50e9, rate(1111), 1) // 9,999,000 octets
	require.InDelta(t, 75e9, rate(1112), 1)
}

// Of hosts of soft-RoCE the queue pairs are learned: a CNP of the receiver, or of a proxy, slows the flow of the queue
// pair down that it names.
func TestSenderRatesOfRealHosts(t *testing.T) {
	first, second := netip.MustParseAddr("fd77::1"), netip.MustParseAddr("fd77::2")
	proxy := netip.MustParseAddr("fd77::fe")
	for _, from := range []netip.Addr{second, proxy} {
		in := replay(t, "rxe-rping6.pcap") // queue pair 0x11 to 0x11
		c := cnp.New(0x11, 0xFFFF)
		notification, err := c.AppendPacket(nil, from, first, rocev2.Carriage{})
		require.NoError(t, err)
		middle := len(in) - 4 // behind that the connection is over
		in = append(in[:middle], capture.Record{Data: notification, Time: in[middle-1].Time})
		lines, _, _ := rehearse(t, "sender", `{"enabled": true, "self": ["fd77::1"], "accept": ["fd77::fe/128"],
			"learn": true, "reaction": {"line": 1000000000}}`, captureOf(capture.Raw, time.Microsecond, in...))
		last := lines[len(lines)-1]
		require.Equal(t, []any{"", 17., 500e6}, []any{last["reason"], last["qp"], last["rate_bps"]}, from)
	}
}

// How fast α falls without notifications is configured: after two of its intervals a cut is a little less than half.
func TestSenderAlphaTimer(t *testing.T) {
	rate := func(alpha string) any {
		config := senderWith(acceptSwitch + senderPairs +
			`, "reaction": {"line": 100000000000, "timer": "1h", "alpha_timer": "` + alpha + `"}`)
		notification := fastCNPFrom(t, switchAddr, packet(t))
		lines, _, _ := rehearse(t, "sender", config, every(time.Second, notification, notification))
		return lines[1]["rate_bps"]
	}
	require.InDelta(t, 25e9, rate("2s"), 1)
	require.InDelta(t, 50e9*(1-255.*255/256/256/2), rate("500ms"), 100)
}
