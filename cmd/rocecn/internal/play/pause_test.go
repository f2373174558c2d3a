package play

import (
	"encoding/json"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/rocecn/rocecn/encap"
	"github.com/rocecn/rocecn/ppfc"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

// pauseWith returns the configuration of a host, the sender, with these keys, too.
func pauseWith(keys string) string {
	return `{"enabled": true, "self": ["2001:db8:1::a", "198.51.100.1"],
		"accept": ["2001:db8:ffff::/48", "192.0.2.9/32"],
		"qps": [{"dst": "2001:db8:4::e", "dest_qp": 17, "qp": 33},
			{"dst": "198.51.100.2", "dest_qp": 17, "qp": 34}]` + keys + `}`
}

// aPPFC returns a notification to the sender about an address and queue pair 17.
func aPPFC(t testing.TB, src, congested netip.Addr, typ ppfc.Type, us int, change ...func(*rocev2.Packet)) []byte {
	t.Helper()
	n := ppfc.New(17, 0xFFFF, ppfc.Extension{Congested: congested, Type: typ,
		Pause: time.Duration(us) * time.Microsecond})
	to := senderAddr
	if src.Is4() {
		to = senderIPv4
	}
	b, err := n.AppendPacket(nil, src, to, rocev2.Carriage{})
	require.NoError(t, err)
	var p rocev2.Packet
	require.NoError(t, p.DecodeIP(b))
	for _, c := range change {
		c(&p)
	}
	b, err = p.AppendBinary(nil)
	require.NoError(t, err)
	return b
}

// Every reading of the contract, one packet each.
func TestPauseLines(t *testing.T) {
	node4 := netip.MustParseAddr("192.0.2.9")
	stranger := netip.MustParseAddr("2001:db8:bad::1")
	stop := aPPFC(t, switchAddr, receiverAddr, ppfc.Stop, 100)
	tunnel, err := (&encap.IPInIPv6{Src: switchAddr, Dst: senderAddr}).Append(nil, stop, 5)
	require.NoError(t, err)
	wrongICRC := slices.Clone(stop)
	wrongICRC[len(wrongICRC)-1] ^= 1
	for _, c := range []struct {
		name, config string
		packet       []byte
		want         string // without frame, time and role; empty: no line
	}{
		{"stop", pauseWith(``), stop, `{"action":"accepted","pause_us":100,"qp":33,"reason":"","state":"stopped"}`},
		{"hold", pauseWith(``), aPPFC(t, switchAddr, receiverAddr, ppfc.Hold, 65535),
			`{"action":"accepted","pause_us":65535,"qp":33,"reason":"","state":"held"}`},
		{"alarm", pauseWith(``), aPPFC(t, switchAddr, receiverAddr, ppfc.Alarm, 7),
			`{"action":"accepted","pause_us":7,"qp":33,"reason":"","state":"alarmed"}`},
		{"resume", pauseWith(``), aPPFC(t, switchAddr, receiverAddr, ppfc.Resume, 100),
			`{"action":"accepted","pause_us":0,"qp":33,"reason":"","state":"running"}`},
		{"IPv4", pauseWith(``), aPPFC(t, node4, receiverIPv4, ppfc.Stop, 100),
			`{"action":"accepted","pause_us":100,"qp":34,"reason":"","state":"stopped"}`},
		{"IPv4 flow in IPv6", pauseWith(``), aPPFC(t, switchAddr, receiverIPv4, ppfc.Stop, 100),
			`{"action":"accepted","pause_us":100,"qp":34,"reason":"","state":"stopped"}`},
		{"capped", pauseWith(`, "max_pause": "50us"`), stop,
			`{"action":"accepted","pause_us":50,"qp":33,"reason":"","state":"stopped"}`},
		{"cap 0", pauseWith(`, "max_pause": "0"`), stop,
			`{"action":"accepted","pause_us":100,"qp":33,"reason":"","state":"stopped"}`},
		{"another queue pair", pauseWith(``), aPPFC(t, switchAddr, receiverAddr, ppfc.Stop, 100, destQP(18)),
			`{"action":"accepted","pause_us":100,"reason":"","state":"stopped"}`},
		{"another destination", pauseWith(``), aPPFC(t, switchAddr, stranger, ppfc.Stop, 100),
			`{"action":"accepted","pause_us":100,"reason":"","state":"stopped"}`},
		{"the node's own address", pauseWith(``), aPPFC(t, switchAddr, switchAddr, ppfc.Stop, 100),
			`{"action":"accepted","pause_us":100,"reason":"","state":"stopped"}`},
		{"P bit and 16 octets: a CNP", pauseWith(``),
			packet(t, aCNP, func(p *rocev2.Packet) { p.BTH.Resv6 = 0x20; p.Dst = senderAddr }), ``},
		{"CNP", pauseWith(``), packet(t, aCNP, to(senderAddr)), ``},
		{"data", pauseWith(``), packet(t), ``},
		{"nothing", pauseWith(``), nil, ``},

		{"to another", pauseWith(``), aPPFC(t, switchAddr, receiverAddr, ppfc.Stop, 100, to(receiverAddr)),
			`{"action":"refused","reason":"not_ours"}`},
		{"to another, IPv4", pauseWith(``), aPPFC(t, node4, receiverIPv4, ppfc.Stop, 100, to(receiverIPv4)),
			`{"action":"refused","reason":"not_ours"}`},
		{"a stranger's, to another", pauseWith(``), aPPFC(t, stranger, receiverAddr, ppfc.Stop, 100, to(receiverAddr)),
			`{"action":"refused","reason":"not_ours"}`},
		{"a stranger's that is cut", pauseWith(``), aPPFC(t, stranger, receiverAddr, ppfc.Stop, 100)[:60],
			`{"action":"refused","reason":"denied"}`},
		{"to another, cut", pauseWith(``), aPPFC(t, switchAddr, receiverAddr, ppfc.Stop, 100, to(receiverAddr))[:60],
			`{"action":"refused","reason":"not_ours"}`},
		{"tunnelled", pauseWith(``), tunnel, `{"action":"refused","reason":"tunnelled"}`},
		{"a stranger's", pauseWith(``), aPPFC(t, stranger, receiverAddr, ppfc.Stop, 100),
			`{"action":"refused","reason":"denied"}`},
		{"the receiver's", pauseWith(``), aPPFC(t, receiverAddr, receiverAddr, ppfc.Stop, 100),
			`{"action":"refused","reason":"denied"}`},
		{"empty accept", `{"enabled": true, "self": ["2001:db8:1::a"]}`, stop,
			`{"action":"refused","reason":"denied"}`},
		{"broken", pauseWith(``), aPPFC(t, switchAddr, receiverAddr, ppfc.Stop, 100,
			func(p *rocev2.Packet) { p.Payload = p.Payload[:20] }), `{"action":"refused","reason":"broken"}`},
		{"shorter than its length", pauseWith(``), stop[:len(stop)-10], `{"action":"refused","reason":"broken"}`},
		{"ICRC", pauseWith(``), wrongICRC, `{"action":"refused","reason":"icrc"}`},
		{"disabled", `{}`, stop, `{"action":"refused","reason":"disabled"}`},
		{"disabled, with a wrong self", `{"self": ["::1"]}`, stop, `{"action":"refused","reason":"disabled"}`},
		{"disabled, data", `{}`, packet(t), ``},
	} {
		lines, out, _ := rehearse(t, "pause", c.config, every(time.Second, c.packet))
		require.Empty(t, out, c.name)
		if c.want == "" {
			require.Empty(t, lines, c.name)
			continue
		}
		require.Len(t, lines, 1, c.name)
		require.Equal(t, "pause", lines[0]["role"])
		delete(lines[0], "frame")
		delete(lines[0], "time")
		delete(lines[0], "role")
		got, err := json.Marshal(lines[0])
		require.NoError(t, err)
		require.Equal(t, c.want, string(got), c.name)
	}
}

// Limits come behind the list and before what is in a notification; a node that
// sends without end takes nothing from another one's share.
func TestPauseLimits(t *testing.T) {
	a := aPPFC(t, switchAddr, receiverAddr, ppfc.Stop, 100)
	b := aPPFC(t, switchAddr.Next(), receiverAddr, ppfc.Stop, 100)
	stranger := aPPFC(t, netip.MustParseAddr("2001:db8:bad::1"), receiverAddr, ppfc.Stop, 100)
	wrongICRC := slices.Clone(a)
	wrongICRC[len(wrongICRC)-1] ^= 1
	in := every(0, stranger, wrongICRC, a, a, wrongICRC, b, b)
	for keys, want := range map[string][]any{
		``: {"denied", "icrc", "", "", "icrc", "", ""},
		`, "rate_in": {"per_second": 1, "burst": 2}`: {"denied", "icrc",
			"", "limited", "limited", "limited", "limited"},
		`, "rate_in_source": {"per_second": 1, "burst": 2}`: {"denied", "icrc",
			"", "limited", "limited", "", ""},
		`, "rate_in_source": {"per_second": 1, "burst": 2}, "rate_in": {"per_second": 1, "burst": 3}`: {"denied",
			"icrc",
			"", "limited", "limited", "", "limited"},
	} {
		lines, _, _ := rehearse(t, "pause", pauseWith(keys), in)
		var reasons []any
		for _, l := range lines {
			reasons = append(reasons, l["reason"])
		}
		require.Equal(t, want, reasons, keys)
	}
}

func TestPauseConfig(t *testing.T) {
	for _, c := range []struct{ config, message string }{
		{`{"enabled": true}`, `self: `},
		{`{"enabled": true, "self": ["::1"]}`, `self[0]: ::1`},
		{`{"enabled": true, "self": ["2001:db8::1"], "qps": [{"dest_qp": 1, "qp": 2}]}`, `qps[0].dst: missing`},
		{`{"enabled": true, "self": ["2001:db8::1"], "qps": [{"dst": "::2", "dest_qp": 16777216, "qp": 2}]}`,
			`qps[0].dest_qp: 16777216 has more than 24 bits`},
		{`{"enabled": true, "self": ["2001:db8::1"], "qps": [{"dst": "::2", "dest_qp": 1, "qp": 16777216}]}`,
			`qps[0].qp: 16777216 has more than 24 bits`},
		{`{"enabled": true, "self": ["2001:db8::1"], "qps": [{"dst": "::2", "qp": 2}]}`, `qps[0].dest_qp: missing`},
		{`{"enabled": true, "self": ["2001:db8::1"], "qps": [{"dst": "::2", "dest_qp": 2}]}`, `qps[0].qp: missing`},
		{`{"rate_in": {"per_second": "1"}}`, `rate_in.per_second: a number needed`},
		{`{"rate_in_source": []}`, `rate_in_source: an object needed`},
		{`{"max_pause": 5}`, `max_pause: a duration is text`},
		{`{"accept": ["::"]}`, `accept[0]: "::" is not a prefix`},
		{`{"learn": true}`, `learn: unknown key`},
	} {
		_, err := configured("pause", file(t, c.config))
		require.ErrorContains(t, err, c.message)
	}
	// An address family without own address: its flows are never found by what
	// comes, but they are no mistake.
	_, err := configured("pause", file(t,
		`{"enabled": true, "self": ["2001:db8::1"], "qps": [{"dst": "192.0.2.1", "dest_qp": 1, "qp": 2}]}`))
	require.NoError(t, err)
}
