package play

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/encap"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/ioam"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

// switchWith returns the configuration of a switch with these keys, too.
func switchWith(keys string) string {
	return `{"enabled": true, "self": ["2001:db8:ffff::5", "192.0.2.9"]` + keys + `}`
}

const fastCNPForAll = `, "methods": [{"senders": "::/0", "method": "fastcnp"}, {"senders": "0.0.0.0/0", "method": ` +
	`"fastcnp"}]`

// A whole capture: every data packet is answered, acknowledgements are not, and
// other traffic has no line.
func TestSwitchOnCaptures(t *testing.T) {
	for _, c := range []struct {
		name    string
		option  float64
		summary string
	}{
		{"rxe-verbs6.pcap", 1, "frames: 253 read, 72 packets written\nsent: 72\nrefused: 22 acknowledgement\n"},
		{"ioam-linux618-hpcc.pcap", 2, "frames: 3 read, 3 packets written\nsent: 3\n"},
	} {
		in, err := os.ReadFile(wiretest.Path(t, c.name))
		require.NoError(t, err)
		lines, out, summary := rehearse(t, "switch", switchWith(fastCNPForAll), in)
		require.Equal(t, c.summary, summary)
		i := 0
		golden := wiretest.Golden(t, c.name)
		for _, l := range lines {
			require.Equal(t, "switch", l["role"])
			require.Contains(t, l, "mark_ecn")
			if l["action"] != "sent" {
				require.Equal(t, []any{"refused", "acknowledgement", false},
					[]any{l["action"], l["reason"], l["mark_ecn"]})
				continue
			}
			row := golden[int(l["frame"].(float64))-1]
			require.Equal(t, []any{"fastcnp", row.Get("ipv6.src"), c.option, row.Uint("ipv6.tclass.ecn") != 0},
				[]any{l["kind"], l["to"], l["option"], l["mark_ecn"]})
			var m message.Message
			require.NoError(t, m.Decode(out[i].Data, rocev2.DecodeOptions{Link: rocev2.LinkIP}, message.Config{}))
			require.Equal(t, message.FastCNP, m.Kind)
			require.Equal(t, switchAddr, m.FastCNP.Src)
			require.EqualValues(t, row.Uint("infiniband.bth.destqp"), m.FastCNP.CNP.DestQP)
			require.Equal(t, capture.Raw, out[i].Link)
			require.Equal(t, l["time"], out[i].Time.Format("2006-01-02T15:04:05.000000Z"))
			i++
		}
		require.Len(t, out, i)
	}
}

// Every reading of the contract, one frame each.
func TestSwitchLines(t *testing.T) {
	const (
		fast  = fastCNPForAll
		proxy = `, "methods": [{"senders": "::/0", "method": "proxy"}], "proxies": [{"senders": "2001:db8:1::/48", ` +
			`"proxy": "192.0.2.77"}]`
		fcn  = `, "methods": [{"senders": "::/0", "method": "fcn"}], "pe": ["2001:db8:e::/64"]`
		ppfc = `, "methods": [{"senders": "::/0", "method": "ppfc"}, {"senders": "198.51.100.0/24", "method": "ppfc"}]`
		mark = `, "methods": [{"senders": "::/0", "method": "mark"}]`
	)
	capable := func(is string) string {
		return `, "capable": [{"senders": "2001:db8:1::/48", "capable": "` + is + `"}]`
	}
	tunnel := func(inner []byte, label uint32) []byte {
		b, err := (&encap.IPInIPv6{Src: netip.MustParseAddr("2001:db8:e::1"),
			Dst: netip.MustParseAddr("2001:db8:e::2")}).Append(nil, inner, label)
		require.NoError(t, err)
		return b
	}
	fragment := func(p []byte) []byte {
		b := slices.Concat(p[:40], []byte{17, 0, 0, 1, 0, 0, 0, 1}, p[40:72])
		b[6] = 44
		binary.BigEndian.PutUint16(b[4:], 40)
		return b
	}
	for _, c := range []struct {
		name, config string
		packet       []byte
		want         string // without frame, time and role; empty: no line
	}{
		{"unknown", switchWith(fast), packet(t),
			`{"action":"sent","reason":"","kind":"fastcnp","to":"2001:db8:1::a","mark_ecn":true,"option":1}`},
		{"unknown, Not-ECT", switchWith(fast), packet(t, ecn(0)),
			`{"action":"sent","reason":"","kind":"fastcnp","to":"2001:db8:1::a","mark_ecn":false,"option":1}`},
		{"capable", switchWith(fast + capable("yes")), packet(t),
			`{"action":"sent","reason":"","kind":"fastcnp","to":"2001:db8:1::a","mark_ecn":false,"option":1}`},
		{"not capable", switchWith(fast + capable("no")), packet(t), `{"action":"marked","reason":"","mark_ecn":true}`},
		{"not capable, Not-ECT", switchWith(fast + capable("no")), packet(t, ecn(0)),
			`{"action":"refused","reason":"not_capable","mark_ecn":false}`},
		{"IPv4", switchWith(fast), packet(t, ipv4), `{"action":"refused","reason":"no_method","mark_ecn":false}`},
		{"no methods", switchWith(``), packet(t), `{"action":"refused","reason":"no_method","mark_ecn":false}`},
		{"method none", switchWith(`, "methods": [{"senders": "::/0", "method": "none"}]`), packet(t),
			`{"action":"refused","reason":"no_method","mark_ecn":false}`},
		{"tunnelled", switchWith(fast), tunnel(packet(t), 5),
			`{"action":"refused","reason":"tunnelled","mark_ecn":false}`},
		{"inner source", switchWith(fast + `, "inner_source": true`), tunnel(packet(t), 5),
			`{"action":"sent","reason":"","kind":"fastcnp","to":"2001:db8:1::a","mark_ecn":true,"option":1}`},
		{"mark", switchWith(mark), packet(t), `{"action":"marked","reason":"","mark_ecn":true}`},
		{"proxy", switchWith(proxy), packet(t),
			`{"action":"sent","reason":"","kind":"proxy","to":"192.0.2.77","mark_ecn":false}`},
		{"no proxy", switchWith(`, "methods": [{"senders": "::/0", "method": "proxy"}]`), packet(t),
			`{"action":"refused","reason":"no_proxy","mark_ecn":false}`},
		{"FCN", switchWith(fcn), tunnel(packet(t), 5),
			`{"action":"sent","reason":"","kind":"fcn","to":"2001:db8:e::1","mark_ecn":false}`},
		{"FCN, no tunnel", switchWith(fcn), packet(t),
			`{"action":"refused","reason":"not_tunnelled","mark_ecn":false}`},
		{"FCN, label 0", switchWith(fcn), tunnel(packet(t), 0),
			`{"action":"refused","reason":"unknown_label","mark_ecn":false}`},
		{"FCN, Not-ECT", switchWith(fcn), tunnel(packet(t, ecn(0)), 5),
			`{"action":"refused","reason":"not_capable","mark_ecn":false}`},
		{"FCN, no PEs", switchWith(`, "methods": [{"senders": "::/0", "method": "fcn"}]`), tunnel(packet(t), 5),
			`{"action":"refused","reason":"denied","mark_ecn":false}`},
		{"PPFC", switchWith(ppfc), packet(t),
			`{"action":"sent","reason":"","kind":"ppfc","to":"2001:db8:1::a","mark_ecn":false}`},
		{"PPFC, IPv4", switchWith(ppfc), packet(t, ipv4),
			`{"action":"sent","reason":"","kind":"ppfc","to":"198.51.100.1","mark_ecn":false}`},
		{"PPFC, tunnelled", switchWith(ppfc), tunnel(packet(t), 5),
			`{"action":"refused","reason":"tunnelled","mark_ecn":false}`},
		{"ack", switchWith(fast), packet(t, opcode(bth.RCAcknowledge)),
			`{"action":"refused","reason":"acknowledgement","mark_ecn":false}`},
		{"CNP on its way", switchWith(fast), packet(t, aCNP),
			`{"action":"refused","reason":"not_ours","mark_ecn":false}`},
		{"CNP to the switch", switchWith(fast), packet(t, aCNP, to(switchAddr)),
			`{"action":"refused","reason":"notification","mark_ecn":false}`},
		{"fragment", switchWith(fast), fragment(packet(t)),
			`{"action":"refused","reason":"fragment","mark_ecn":false}`},
		{"broken", switchWith(fast), packet(t)[:90], `{"action":"refused","reason":"broken","mark_ecn":false}`},
		{"own packet", switchWith(fast), packet(t, from(switchAddr)),
			`{"action":"refused","reason":"own_address","mark_ecn":false}`},
		{"from link-local", switchWith(fast), packet(t, from(netip.MustParseAddr("fe80::1"))),
			`{"action":"refused","reason":"address","mark_ecn":false}`},
		{"other UDP", switchWith(fast), packet(t, func(p *rocev2.Packet) { p.DstPort = 53 }), ``},
		{"nothing", switchWith(fast), nil, ``},
		{"only CE, ECT", switchWith(fast + `, "congested": "ce"`), packet(t), ``},
		{"only CE, ack", switchWith(fast + `, "congested": "ce"`), packet(t, opcode(bth.RCAcknowledge)),
			`{"action":"refused","reason":"acknowledgement","mark_ecn":false}`},
		{"only CE, CNP to the node", switchWith(fast + `, "congested": "ce"`), packet(t, aCNP, to(switchAddr)),
			`{"action":"refused","reason":"notification","mark_ecn":false}`},
		{"only CE, CE", switchWith(fast + `, "congested": "ce"`), packet(t, ecn(3)),
			`{"action":"sent","reason":"","kind":"fastcnp","to":"2001:db8:1::a","mark_ecn":true,"option":1}`},
		{"disabled", `{}`, packet(t), `{"action":"refused","reason":"disabled","mark_ecn":false}`},
		{"disabled, other", `{"enabled": false}`, packet(t, func(p *rocev2.Packet) { p.DstPort = 53 }), ``},
		{"disabled, with all the rest", `{"enabled": false, "self": ["::1"]` + fast + `}`, packet(t),
			`{"action":"refused","reason":"disabled","mark_ecn":false}`},
	} {
		lines, out, _ := rehearse(t, "switch", c.config, every(time.Second, c.packet))
		if c.want == "" {
			require.Empty(t, lines, c.name)
			require.Empty(t, out, c.name)
			continue
		}
		require.Len(t, lines, 1, c.name)
		var want map[string]any
		require.NoError(t, json.Unmarshal([]byte(c.want), &want))
		want["frame"], want["time"], want["role"] = 1., "2026-11-21T12:00:00.000000Z", "switch"
		require.Equal(t, want, lines[0], c.name)
		require.Equal(t, want["action"] == "sent", len(out) == 1, c.name)
	}
}

func TestSwitchLimits(t *testing.T) {
	config := switchWith(fastCNPForAll + `, "per_flow": "50us", "rate": {"per_second": 1, "burst": 3}`)
	in := every(25*time.Microsecond, packet(t), packet(t), packet(t), packet(t, destQP(18)), packet(t),
		packet(t, from(senderAddr.Next())))
	lines, _, summary := rehearse(t, "switch", config, in)
	require.Equal(t, [][]any{{1., "sent", ""}, {2., "marked", "limited"}, {3., "sent", ""}, {4., "sent", ""}, {5.,
		"marked", "limited"}, {6., "marked", "limited"}},
		words(lines, "action", "reason"))
	require.Equal(t, "frames: 6 read, 3 packets written\nsent: 3\nmarked: 3 limited\n", summary)
	for _, l := range lines {
		require.Equal(t, true, l["mark_ecn"])
	}

	// What a limit withholds is marked only where the sender may need it, and where
	// it can be.
	in = every(0, packet(t), packet(t), packet(t, ecn(0)))
	for keys, want := range map[string][]any{
		``: {"marked", "limited", true},
		`, "capable": [{"senders": "::/0", "capable": "yes"}]`: {"refused", "limited", false},
		`, "marking": "elsewhere"`:                             {"refused", "limited", false},
	} {
		lines, _, _ := rehearse(t, "switch", switchWith(fastCNPForAll+`, "per_flow": "1s"`+keys), in)
		require.Equal(t, want, words(lines, "action", "reason", "mark_ecn")[1][1:], keys)
		require.Equal(t, []any{"refused", "limited", false}, words(lines, "action", "reason", "mark_ecn")[2][1:], keys)
	}
}

// One interval for all levels, or one for each.
func TestSwitchPerFlow(t *testing.T) {
	perLevel := `["1h", "1h", "40us", "1h", "1h", "1h", "1h", "20us"]`
	in := every(20*time.Microsecond, packet(t), packet(t), packet(t))
	for _, c := range []struct {
		perFlow string
		level   int
		sent    int
	}{
		{`"40us"`, 0, 2}, {`"40us"`, 7, 2}, {`"20us"`, 7, 3}, {`"0"`, 4, 3}, {`"1h"`, 7, 1},
		{perLevel, 0, 1}, {perLevel, 2, 2}, {perLevel, 6, 1}, {perLevel, 7, 3},
	} {
		_, out, _ := rehearse(t, "switch", switchWith(fmt.Sprintf(`%s, "per_flow": %s, "level": %d`, fastCNPForAll,
			c.perFlow, c.level)), in)
		require.Len(t, out, c.sent, "%+v", c)
	}
}

// ppfcOf returns what the packets of OUT say: the type, and whom it is about.
func ppfcOf(t *testing.T, out []capture.Record) (all []string) {
	for i := range out {
		var m message.Message
		require.NoError(t, m.Decode(out[i].Data, rocev2.DecodeOptions{Link: rocev2.LinkIP}, message.Config{}))
		require.Equal(t, message.PPFC, m.Kind)
		n := m.PPFC
		all = append(all, fmt.Sprintf("%v %v qp %d %v", n.Type, n.Congested, n.DestQP, n.Pause))
	}
	return all
}

const (
	ppfcForAll = `, "methods": [{"senders": "::/0", "method": "ppfc"}, {"senders": "0.0.0.0/0", "method": "ppfc"}]`
	// A queue that fills in the first 30 ms and has fallen at 40 ms.
	aQueue = `, "levels": [{"at": "0", "level": 1}, {"at": "10ms", "level": 3}, {"at": "20ms", "level": 5},
		{"at": "40ms", "level": 0}]`
)

// A queue that fills and falls: alarm, hold, stop by the level, then one resume
// for each flow that was stopped or held, with the first frame of any kind.
func TestSwitchResumes(t *testing.T) {
	dns := packet(t, func(p *rocev2.Packet) { p.DstPort = 53 })
	at := func(ms int, b []byte) capture.Record {
		return capture.Record{Data: b, Time: noon.Add(time.Duration(ms) * time.Millisecond)}
	}
	in := captureOf(capture.Raw, time.Microsecond,
		at(0, packet(t)),                                                // 1 alarm
		at(5, packet(t, destQP(18))),                                    // 2 alarm, and no more
		at(10, packet(t, destQP(19))),                                   // 3 hold
		at(20, packet(t)),                                               // 4 stop
		at(39, packet(t, ipv4)),                                         // 5 stop
		at(40, dns),                                                     // 6 the first frame after the fall
		at(41, packet(t)),                                               // 7 nothing to say
		at(42, packet(t, opcode(bth.RCAcknowledge))), at(43, packet(t)), // 8, 9
	)
	lines, out, summary := rehearse(t, "switch",
		switchWith(ppfcForAll+aQueue+`, "ppfc": {"alarm": 1, "hold": 2, "stop": 4}, "pause_us": 1000`), in)
	require.Equal(t, []string{
		"alarm 2001:db8:4::e qp 17 1ms", "alarm 2001:db8:4::e qp 18 1ms", "hold 2001:db8:4::e qp 19 1ms",
		"stop 2001:db8:4::e qp 17 1ms", "stop 198.51.100.2 qp 17 1ms",
	}, ppfcOf(t, out[:5]))
	require.ElementsMatch(t, []string{
		"resume 2001:db8:4::e qp 17 0s", "resume 2001:db8:4::e qp 19 0s", "resume 198.51.100.2 qp 17 0s",
	}, ppfcOf(t, out[5:]))
	for _, r := range out[5:] {
		require.Equal(t, noon.Add(40*time.Millisecond), r.Time)
	}
	require.Equal(t, "frames: 9 read, 8 packets written\nsent: 8\nrefused: 1 acknowledgement\n", summary)
	require.Equal(t, [][]any{{1., "sent", "ppfc", false}, {2., "sent", "ppfc", false}, {3., "sent", "ppfc", false},
		{4., "sent", "ppfc", false},
		{5., "sent", "ppfc", false}, {6., "sent", "ppfc", false}, {6., "sent", "ppfc", false}, {6., "sent", "ppfc",
			false}, {8., "refused", "-", false}},
		words(lines, "action", "kind", "mark_ecn"))

	// Stop from level 1 on is the default, and a fall between two frames is one.
	in = captureOf(capture.Raw, time.Microsecond, at(0, packet(t)), at(1, packet(t)), at(30, packet(t, destQP(18))),
		at(31, packet(t)))
	_, out, _ = rehearse(t, "switch", switchWith(ppfcForAll+`, "per_flow": "1h",
		"levels": [{"at": "0", "level": 1}, {"at": "10ms", "level": 0}, {"at": "20ms", "level": 7}]`), in)
	require.Equal(t, []string{"stop 2001:db8:4::e qp 17 100µs", "resume 2001:db8:4::e qp 17 0s",
		"stop 2001:db8:4::e qp 18 100µs"}, ppfcOf(t, out))

	// So at level 0 there is nothing to stop.
	lines, out, _ = rehearse(t, "switch", switchWith(ppfcForAll+`, "levels": [{"at": "20ms", "level": 1}]`), in)
	require.Equal(t, []string{"stop 2001:db8:4::e qp 18 100µs", "stop 2001:db8:4::e qp 17 100µs"}, ppfcOf(t, out))
	require.Len(t, lines, 2)

	// Before the first step the level is 0; with the key, what it lacks is never asked for.
	_, out, _ = rehearse(t, "switch",
		switchWith(ppfcForAll+`, "ppfc": {"hold": 2},
			"levels": [{"at": "1ms", "level": 1}, {"at": "30ms", "level": 2}]`), in)
	require.Equal(t, []string{"hold 2001:db8:4::e qp 18 100µs", "hold 2001:db8:4::e qp 17 100µs"}, ppfcOf(t, out))
	_, out, _ = rehearse(t, "switch", switchWith(ppfcForAll+`, "ppfc": {}, "level": 1`), in)
	require.Len(t, out, 4)
	lines, out, _ = rehearse(t, "switch", switchWith(ppfcForAll+`, "ppfc": {}`), in)
	require.Empty(t, out, "level 0")
	require.Empty(t, lines)

	// The level is that of other messages, too.
	_, out, _ = rehearse(t, "switch", switchWith(aQueue+`, "methods": [{"senders": "::/0", "method": "proxy"}],
		"proxies": [{"senders": "::/0", "proxy": "2001:db8::9"}]`), in)
	for i, level := range []byte{1, 1, 5, 5} {
		require.Equal(t, level<<5, out[i].Data[40+8+32+1+4])
	}

	// A role that is off stops nothing, and so lets nothing run.
	lines, out, _ = rehearse(t, "switch", `{"enabled": false`+ppfcForAll+aQueue+`}`, in)
	require.Empty(t, out)
	require.Len(t, lines, 4)
}

// Whom a PPFC goes to and whom it names: one choice each.
func TestSwitchPPFCTarget(t *testing.T) {
	tunnelled, err := (&encap.IPInIPv6{Src: netip.MustParseAddr("2001:db8:e::1"),
		Dst: netip.MustParseAddr("2001:db8:e::2")}).Append(nil, packet(t), 5)
	require.NoError(t, err)
	for _, c := range []struct {
		keys   string
		packet []byte
		to     string // or the reason
		says   string
	}{
		{``, packet(t), "2001:db8:1::a", "stop 2001:db8:4::e qp 17 100µs"},
		{`, "ppfc_address": "destination", "ppfc_to": "sender"`, packet(t), "2001:db8:1::a",
			"stop 2001:db8:4::e qp 17 100µs"},
		{`, "ppfc_address": "node"`, packet(t), "2001:db8:1::a", "stop 2001:db8:ffff::5 qp 17 100µs"},
		{`, "ppfc_to": "ingress", "pe": ["2001:db8:e::/64"]`, tunnelled, "2001:db8:e::1",
			"stop 2001:db8:4::e qp 17 100µs"},
		{`, "ppfc_to": "ingress", "pe": ["2001:db8:e::/64"], "ppfc_address": "node"`, tunnelled, "2001:db8:e::1",
			"stop 2001:db8:ffff::5 qp 17 100µs"},
		{`, "ppfc_to": "ingress", "pe": ["2001:db8:f::/64"]`, tunnelled, "denied", ""},
		{`, "ppfc_to": "ingress"`, tunnelled, "denied", ""},
		{`, "ppfc_to": "ingress", "pe": ["2001:db8:e::/64"]`, packet(t), "not_tunnelled", ""},
	} {
		lines, out, _ := rehearse(t, "switch", switchWith(ppfcForAll+c.keys), every(0, c.packet))
		require.Len(t, lines, 1)
		if c.says == "" {
			require.Equal(t, []any{"refused", c.to}, []any{lines[0]["action"], lines[0]["reason"]}, c.keys)
			continue
		}
		require.Equal(t, []any{"sent", "ppfc", c.to}, []any{lines[0]["action"], lines[0]["kind"], lines[0]["to"]},
			c.keys)
		require.Equal(t, []string{c.says}, ppfcOf(t, out), c.keys)
	}
}

// Where nobody marks here, no line says so.
func TestSwitchMarkingElsewhere(t *testing.T) {
	const (
		not       = `, "capable": [{"senders": "::/0", "capable": "no"}]`
		elsewhere = `, "marking": "elsewhere"`
		proxy     = `, "proxies": [{"senders": "::/0", "proxy": "2001:db8::9"}], "fallback": "proxy"`
		mark      = `, "methods": [{"senders": "::/0", "method": "mark"}]`
	)
	for _, c := range []struct {
		keys string
		want []any
	}{
		{fastCNPForAll, []any{"sent", "", "fastcnp", true}},
		{fastCNPForAll + `, "marking": "self"` + not, []any{"marked", "", "-", true}},
		{fastCNPForAll + elsewhere, []any{"sent", "", "fastcnp", false}},
		{fastCNPForAll + elsewhere + not, []any{"refused", "not_capable", "-", false}},
		{fastCNPForAll + elsewhere + not + `, "fallback": "none"`, []any{"refused", "not_capable", "-", false}},
		{fastCNPForAll + elsewhere + not + proxy, []any{"sent", "", "proxy", false}},
		{fastCNPForAll + elsewhere + not + `, "fallback": "ppfc"`, []any{"sent", "", "ppfc", false}},
		{fastCNPForAll + elsewhere + not + `, "fallback": "fcn"`, []any{"refused", "not_tunnelled", "-", false}},
		{fastCNPForAll + elsewhere + proxy, []any{"sent", "", "fastcnp", false}},
		{mark + elsewhere, []any{"refused", "not_capable", "-", false}},
		{mark + elsewhere + proxy, []any{"sent", "", "proxy", false}},
	} {
		lines, _, _ := rehearse(t, "switch", switchWith(c.keys), every(0, packet(t)))
		require.Len(t, lines, 1)
		require.Equal(t, c.want, words(lines, "action", "reason", "kind", "mark_ecn")[0][1:], c.keys)
	}
}

// A trace is copied; with the node's own record in front of the others.
func TestSwitchOwnRecord(t *testing.T) {
	in, err := os.ReadFile(wiretest.Path(t, "ioam-linux618-room.pcap"))
	require.NoError(t, err)
	trace := func(config string, ownRecord any) ioam.Trace {
		lines, out, _ := rehearse(t, "switch", config, in)
		require.Equal(t, []any{2., ownRecord}, []any{lines[0]["option"], lines[0]["own_record"]})
		var m message.Message
		require.NoError(t, m.Decode(out[0].Data, rocev2.DecodeOptions{Link: rocev2.LinkIP}, message.Config{}))
		return m.FastCNP.Option.Trace
	}
	verbatim := trace(switchWith(fastCNPForAll), nil)
	own := trace(switchWith(fastCNPForAll+
		`, "own_record": {"hop_limit": 60, "node_id": 5, "ingress_if": 1, "egress_if": 2, "ts_sec": 3, "ts_frac": 4,
		"transit_delay": 5, "ns_data": 6, "queue_depth": 7, "hop_limit_wide": 8, "node_id_wide": 9,
		"ingress_if_wide": 10,
		"egress_if_wide": 11, "ns_data_wide": "0xc", "buffer_occupancy": 13}`), true)
	require.EqualValues(t, int(verbatim.RemainingLen)-verbatim.Type.NodeLen(), own.RemainingLen)
	for n := range own.Nodes() {
		require.EqualValues(t, 5, n.NodeID)
		require.EqualValues(t, 7, n.QueueDepth)
		break
	}
}

// A host that does not know the option: its Parameter Problem turns Fast CNPs
// off and marking on. A forged one does nothing.
func TestSwitchLearns(t *testing.T) {
	config := switchWith(fastCNPForAll)
	_, out, _ := rehearse(t, "switch", config, every(0, packet(t)))
	fastCNP := bytes.Clone(out[0].Data)
	forged := bytes.Clone(fastCNP)
	forged[len(forged)-40+7] ^= 1 // another queue pair
	fastCNP[7]--
	lines, _, summary := rehearse(t, "switch", config, every(time.Millisecond,
		wiretest.Rejection(senderAddr, switchAddr, fastCNP), // before it was sent
		packet(t),
		wiretest.Rejection(receiverAddr, switchAddr, fastCNP),
		wiretest.Rejection(senderAddr, switchAddr, forged),
		wiretest.Rejection(senderAddr, receiverAddr, fastCNP),
		wiretest.Rejection(senderAddr, receiverAddr, packet(t)), // somebody else's
		packet(t),
		wiretest.Rejection(senderAddr, switchAddr, fastCNP),
		packet(t),
		packet(t, ecn(0)),
		packet(t, from(senderAddr.Next())),
	))
	require.Equal(t, [][]any{
		{1., "refused", "denied", false},
		{2., "sent", "", true},
		{3., "refused", "denied", false},
		{4., "refused", "denied", false},
		{5., "refused", "denied", false},
		{7., "sent", "", true},
		{8., "learned", "", false},
		{9., "marked", "", true},
		{10., "refused", "not_capable", false},
		{11., "sent", "", true},
	}, words(lines, "action", "reason", "mark_ecn"))
	require.Contains(t, summary, "sent: 3\nmarked: 1\nlearned: 1\nrefused: 1 not_capable, 4 denied\n")
}

func TestSwitchCodePointsAndPorts(t *testing.T) {
	_, out, _ := rehearse(t, "switch", switchWith(fastCNPForAll+`, "option_types": ["0x83", 132]`), every(0, packet(t)))
	require.Equal(t, wiretest.Hex(t, "1102 8310"), out[0].Data[40:44])
	_, out, _ = rehearse(t, "switch",
		switchWith(`, "fcn_port": 2021, "proxy_port": 2022, "methods": [{"senders": "::/0", "method": "proxy"}],
		"proxies": [{"senders": "::/0", "proxy": "2001:db8::9"}], "level": 6`), every(0, packet(t)))
	require.Equal(t, wiretest.Hex(t, "07e6"), out[0].Data[42:44])
	require.EqualValues(t, 6<<5, out[0].Data[40+8+32+1+4])
}

func TestSwitchMalformed(t *testing.T) {
	for _, c := range []struct{ keys, message string }{
		{`"self": []`, `self: an enabled role needs its own address`},
		{`"self": ["::1"]`, `self[0]: ::1 is not a unicast address`},
		{`"methods": [{"method": "fastcnp"}]`, `methods[0].senders: missing`},
		{`"methods": [{"senders": "::/0", "method": "FastCNP"}]`,
			`methods[0].method: none, fastcnp, proxy, fcn, ppfc or mark needed`},
		{`"methods": [{"senders": "::/0"}]`, `methods[0].method: missing`},
		{`"capable": [{"senders": "::/0"}]`, `capable[0].capable: missing`},
		{`"capable": [{"capable": "yes"}]`, `capable[0].senders: missing`},
		{`"capable": [{"senders": "::/0", "capable": true}]`, `capable[0].capable: text needed`},
		{`"capable": [{"senders": "::/0", "capable": "maybe"}]`, `capable[0].capable: unknown, yes or no needed`},
		{`"proxies": [{"senders": "::/0"}]`, `proxies[0].proxy: missing`},
		{`"proxies": [{"proxy": "2001:db8::1"}]`, `proxies[0].senders: missing`},
		{`"level": 8`, `level: 8: 0 to 7 allowed`},
		{`"pause_us": 65536`, `pause_us: 65536 is not a whole number from 0 to 65535`},
		{`"congested": "CE"`, `congested: "CE" is neither all nor ce`},
		{`"option_types": ["0x1e"]`, `option_types[0]: 0x1e: act must be 10`},
		{`"own_record": {"node_id": 16777216}`, `own_record.node_id: 16777216 has more than 24 bits`},
		{`"own_record": {"node_id_wide": 72057594037927936}`,
			`own_record.node_id_wide: 72057594037927936 has more than 56 bits`},
		{`"own_record": {"ns_data_wide": "0xg"}`, `own_record.ns_data_wide: a whole number of 64 bits needed`},
		{`"own_record": {"snapshot": {"schema": 16777216}}`,
			`own_record.snapshot.schema: 16777216 has more than 24 bits`},
		{`"own_record": {"snapshot": {"schema": 1, "data": "00"}}`, `own_record.snapshot.data: a multiple of 4 octets`},
		{`"own_record": {"snapshot": {"schema": 1, "data": "0"}}`,
			`own_record.snapshot.data: hexadecimal digits needed`},
		{`"levels": []`, `levels: an empty list: one level at least needed`},
		{`"levels": [{"at": "0", "level": 1}], "level": 1`, `levels: given together with level: one of them allowed`},
		{`"levels": [{"level": 1}]`, `levels[0].at: missing`},
		{`"levels": [{"at": "0"}]`, `levels[0].level: missing`},
		{`"levels": [{"at": "-1s", "level": 1}]`, `levels[0].at: "-1s" is negative`},
		{`"levels": [{"at": "0", "level": 8}]`, `levels[0].level: 8: 0 to 7 allowed`},
		{`"levels": [{"at": "1s", "level": 1}, {"at": "1s", "level": 2}]`,
			`levels[1].at: 1s is not after the one before`},
		{`"ppfc": {"alarm": 8}`, `ppfc.alarm: 8: 1 to 7 allowed`},
		{`"ppfc": {"hold": 8}`, `ppfc.hold: 8: 1 to 7 allowed`},
		{`"ppfc": {"stop": 0}`, `ppfc.stop: 0: 1 to 7 allowed`},
		{`"ppfc": {"resume": 1}`, `ppfc.resume: unknown key`},
		{`"ppfc_address": "host"`, `ppfc_address: "host" is neither destination nor node`},
		{`"ppfc_to": "pe"`, `ppfc_to: "pe" is neither sender nor ingress`},
		{`"marking": "no"`, `marking: "no" is neither self nor elsewhere`},
		{`"fallback": "proxy"`, `fallback: it is for a node that cannot mark`},
		{`"marking": "elsewhere", "fallback": "fastcnp"`, `fallback: fastcnp: none, proxy, fcn or ppfc allowed`},
		{`"marking": "elsewhere", "fallback": "mark"`, `fallback: mark: none, proxy, fcn or ppfc allowed`},
		{`"marking": "elsewhere", "fallback": "cnp"`, `fallback: none, fastcnp, proxy, fcn, ppfc or mark needed`},
		{`"per_flow": ["1s"]`, `per_flow: one value, or a list of 8 needed`},
		{`"per_flow": ["1s", "1s", "1s", "1s", "1s", "1s", "1s", "1s", "1s"]`, `per_flow: one value, or a list of 8`},
		{`"per_flow": ["1s", "1s", "1s", "1s", "1s", "1s", "1s", 1]`, `per_flow[7]: a duration is text`},
		{`"per_flow": ["1s", "-1s", "1s", "1s", "1s", "1s", "1s", "1s"]`, `per_flow[1]: "-1s" is negative`},
		{`"per_flow": "50"`, `per_flow: "50" is not a duration`},
		{`"per_flow": 50`, `per_flow: a duration is text`},
	} {
		require.ErrorContains(t, malformed("switch", c.keys), c.message, c.keys)
	}
}
