package play

import (
	"encoding/json"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/roles"
	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

// receiverWith returns the configuration of a receiver with these keys, too.
func receiverWith(keys string) string {
	return `{"enabled": true, "self": ["2001:db8:4::e", "198.51.100.2"]` + keys + `}`
}

const receiverPairs = `, "qps": [{"src": "2001:db8:1::a", "dst": "2001:db8:4::e", "dest_qp": 17, "src_qp": 34},
	{"src": "198.51.100.1", "dst": "198.51.100.2", "dest_qp": 17, "src_qp": 35}]`

func TestReceiverLines(t *testing.T) {
	ce := ecn(rocev2.CE)
	tooShort := packet(t, ce)
	tooShort[45] = 10
	damaged := packet(t, ce)
	damaged[70] ^= 1
	for _, c := range []struct {
		name, config string
		packet       []byte
		want         string // without frame, time and role; empty: no line
	}{
		{"CE", receiverWith(receiverPairs), packet(t, ce),
			`{"action":"sent","reason":"","kind":"cnp","to":"2001:db8:1::a"}`},
		{"CE, IPv4", receiverWith(receiverPairs), packet(t, ce, ipv4),
			`{"action":"sent","reason":"","kind":"cnp","to":"198.51.100.1"}`},
		{"CE, UD", receiverWith(``), packet(t, ce, opcode(bth.UDSendOnly)),
			`{"action":"sent","reason":"","kind":"cnp","to":"2001:db8:1::a"}`},
		{"ECT", receiverWith(receiverPairs), packet(t), ``},
		{"CE, ack", receiverWith(receiverPairs), packet(t, ce, opcode(bth.RCAcknowledge)), ``},
		{"CE, CNP", receiverWith(receiverPairs), packet(t, ce, aCNP), ``},
		{"CE, other UDP", receiverWith(receiverPairs), packet(t, ce, func(p *rocev2.Packet) { p.DstPort = 53 }), ``},
		{"CE, unknown flow", receiverWith(``), packet(t, ce), `{"action":"refused","reason":"unknown_qp"}`},
		{"CE, given twice",
			receiverWith(`, "qps": [{"src": "2001:db8:1::a", "dst": "2001:db8:4::e", "dest_qp": 17, "src_qp": 34},
			{"src": "2001:db8:1::a", "dst": "2001:db8:4::e", "dest_qp": 17, "src_qp": 35}]`), packet(t, ce),
			`{"action":"refused","reason":"ambiguous_qp"}`},
		{"CE, another host's", receiverWith(receiverPairs), packet(t, ce, to(senderAddr.Next())),
			`{"action":"refused","reason":"not_ours"}`},
		{"CE, from multicast", receiverWith(receiverPairs), packet(t, ce, from(netip.MustParseAddr("ff02::1"))),
			`{"action":"refused","reason":"address"}`},
		{"CE, ICRC", receiverWith(receiverPairs), damaged, `{"action":"refused","reason":"icrc"}`},
		{"CE, broken", receiverWith(receiverPairs), tooShort, `{"action":"refused","reason":"broken"}`},
		{"CE, shorter than its length", receiverWith(receiverPairs), packet(t, ce)[:80],
			`{"action":"refused","reason":"broken"}`},
		{"ECT, shorter than its length", receiverWith(receiverPairs), packet(t)[:80], ``},
		{"CE, CNP shorter than its length", receiverWith(receiverPairs), packet(t, ce, aCNP)[:70], ``},
		{"disabled, shorter than its length", `{}`, packet(t, ce)[:80], `{"action":"refused","reason":"disabled"}`},
		{"disabled", `{}`, packet(t, ce), `{"action":"refused","reason":"disabled"}`},
		{"disabled, broken", `{}`, tooShort, `{"action":"refused","reason":"disabled"}`},
		{"disabled, ECT", `{}`, packet(t), ``},
	} {
		lines, out, _ := rehearse(t, "receiver", c.config, every(time.Second, c.packet))
		if c.want == "" {
			require.Empty(t, lines, c.name)
			require.Empty(t, out, c.name)
			continue
		}
		require.Len(t, lines, 1, c.name)
		var want map[string]any
		require.NoError(t, json.Unmarshal([]byte(c.want), &want))
		want["frame"], want["time"], want["role"] = 1., "2026-11-21T12:00:00.000000Z", "receiver"
		require.Equal(t, want, lines[0], c.name)
		require.Equal(t, want["action"] == "sent", len(out) == 1, c.name)
	}
	_, out, _ := rehearse(t, "receiver", receiverWith(receiverPairs), every(0, packet(t, ce)))
	var m message.Message
	require.NoError(t, m.Decode(out[0].Data, rocev2.DecodeOptions{Link: rocev2.LinkIP}, message.Config{}))
	require.Equal(t, []any{message.CNP, receiverAddr, uint32(34), uint16(0xFFFF)},
		[]any{m.Kind, m.Packet.Src, m.CNP.DestQP, m.CNP.PKey})
	_, err := icrc.Verify(m.Packet.IP)
	require.NoError(t, err)
}

func TestReceiverInterval(t *testing.T) {
	ce := packet(t, ecn(rocev2.CE))
	lines, out, _ := rehearse(t, "receiver", receiverWith(receiverPairs+`, "interval": "50us"`),
		every(25*time.Microsecond, ce, ce, ce, ce))
	require.Equal(t, [][]any{{1., "sent", ""}, {2., "refused", "limited"}, {3., "sent", ""},
		{4., "refused", "limited"}}, words(lines, "action", "reason"))
	require.Equal(t, []time.Time{noon, noon.Add(50 * time.Microsecond)}, []time.Time{out[0].Time, out[1].Time})
}

// The interval goes by the queue pair that the CNP names, and the rate is that of
// all CNPs.
func TestReceiverLimits(t *testing.T) {
	ce := ecn(rocev2.CE)
	datagram := func(source, dest uint32) []byte {
		return packet(t, ce, opcode(bth.UDSendOnly), destQP(dest), func(p *rocev2.Packet) { p.BTH.DETH.SrcQP = source })
	}
	in := every(time.Millisecond, datagram(34, 5), datagram(34, 6), packet(t, ce), datagram(35, 5), datagram(34, 5))
	for keys, want := range map[string][]any{
		``:                       {"", "", "", "", ""},
		`, "interval": "4ms"`:    {"", "limited", "limited", "", ""},
		`, "rate": {"burst": 0}`: {"", "", "", "", ""},
		`, "rate": {"per_second": 1000, "burst": 1}`:                 {"", "", "", "", ""},
		`, "rate": {"per_second": 500}`:                              {"", "limited", "", "limited", ""},
		`, "rate": {"per_second": 1, "burst": 3}`:                    {"", "", "", "limited", "limited"},
		`, "rate": {"per_second": 1, "burst": 2}, "interval": "3ms"`: {"", "limited", "limited", "", "limited"},
	} {
		lines, _, _ := rehearse(t, "receiver", receiverWith(receiverPairs+keys), in)
		var got []any
		for _, l := range lines {
			got = append(got, l["reason"])
		}
		require.Equal(t, want, got, keys)
	}
}

// A receiver that learns: connection management names both queue pairs.
func TestReceiverLearns(t *testing.T) {
	in, err := os.ReadFile(wiretest.Path(t, "rxe-rping6.pcap"))
	require.NoError(t, err)
	lines, _, summary := rehearse(t, "receiver", `{"enabled": true, "self": ["fd77::2"], "learn": true}`, in)
	require.Contains(t, summary, "learned: ")
	require.NotEmpty(t, lines)
	for _, l := range lines {
		require.Equal(t, "learned", l["action"])
		require.Contains(t, l, "qp")
	}
}

func TestReceiverMalformed(t *testing.T) {
	for keys, message := range map[string]string{
		`"self": ["ff02::1"]`: `self[0]: ff02::1 is not a unicast ` +
			`address`,
		`"interval": "fast"`:      `interval: "fast" is not a duration`,
		`"qps": [{"dst": "::2"}]`: `qps[0].src: missing`,
		`"qps": [{"src": "::2"}]`: `qps[0].dst: missing`,
		`"qps": [{"src": "::2", "dst": "1.2.3.4"}]`: `qps[0].dst: 1.2.3.4 is not of ` +
			`the family of ::2`,
		`"qps": [{"src": "::2", "dst": "::3", "dest_qp": 16777216}]`: `qps[0].dest_qp: 16777216 has ` +
			`more than 24 bits`,
		`"qps": [{"src": "::2", "dst": "::3", "dest_qp": 1, "src_qp": 16777216}]`: `qps[0].src_qp: 16777216 has ` +
			`more than 24 bits`,
		`"qps": [{"src": "::2", "dst": "::3", "src_qp": 1}]`:  `qps[0].dest_qp: missing`,
		`"qps": [{"src": "::2", "dst": "::3", "dest_qp": 1}]`: `qps[0].src_qp: missing`,
		`"qps": [{"qp": 1}]`:         `qps[0].qp: unknown key; known are src, dst, dest_qp, src_qp`,
		`"rate": {"per_second": -1}`: `rate.per_second: -1 is not a number of 0 or more`,
		`"rate": {"burst": 5}`:       `rate.per_second: missing: burst alone`,
		`"rate": 5`:                  `rate: an object needed`,
		`"learn": "yes"`:             `learn: true or false needed`,
		`"accept": []`:               `accept: unknown key`,
	} {
		require.ErrorContains(t, malformed("receiver", keys), message, keys)
	}
}

// malformed returns what is wrong with the configuration of an enabled role that
// has these keys.
func malformed(role, keys string) error {
	head := `{"enabled": true, `
	if keys[:6] != `"self"` {
		head += `"self": ["2001:db8::1"], `
	}
	i, err := roles.Read([]byte(head+keys+`}`), role)
	if err != nil {
		return err
	}
	_, err = i.Apply(nil)
	return err
}
