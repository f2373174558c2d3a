package play

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/cli"
	"github.com/rocecn/rocecn/fcn"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

// replay returns the IP packets of a capture in testdata as raw IP.
func replay(t testing.TB, name string) (all []capture.Record) {
	t.Helper()
	for _, p := range wiretest.Capture(t, name) {
		var f rocev2.Frame
		f.Decode(p.Data, rocev2.DecodeOptions{})
		if ip := f.Outer().IP(); ip != nil {
			all = append(all, capture.Record{Data: ip, Time: p.Time})
		}
	}
	return all
}

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
		t.Run(c.name, func(t *testing.T) {
			in := wiretest.Must(os.ReadFile(wiretest.Path(t, c.name)))(t)
			lines, out, summary := rehearse(t, "switch", `{"enabled": true, "self": ["2001:db8:ffff::5"],
			"methods": [{"senders": "::/0", "method": "fastcnp"}]}`, in)
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
				require.Equal(t, message.KindFastCNP, m.Kind)
				require.Equal(t, switchAddr, m.FastCNP.Src)
				require.EqualValues(t, row.Uint("infiniband.bth.destqp"), m.FastCNP.CNP.DestQP)
				require.Equal(t, capture.Raw, out[i].Link)
				require.Equal(t, l["time"], out[i].Time.Format("2006-01-02T15:04:05.000000Z"))
				i++
			}
			require.Len(t, out, i)
		})
	}
}

func TestBorderOnCapture(t *testing.T) {
	in := wiretest.Must(os.ReadFile(wiretest.Path(t, "messages.pcap")))(t)
	all := records(t, in)
	for _, c := range []struct {
		config string
		kinds  []any // kinds of dropped messages in frames 1 to 24, "" for a frame that passes, nil without a line
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
		t.Run(c.config, func(t *testing.T) {
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
			require.Equal(t, want, lines)
			var got [][]byte
			for _, r := range out {
				got = append(got, r.Data)
			}
			require.Equal(t, passed, got)
		})
	}
}

func ingressThrough(tunnel, keys string) string {
	return `{"enabled": true, "tunnel": {"src": "2001:db8:fe::1", "dst": "2001:db8:fe::9", ` + tunnel + `},
		"cnp": ["2001:db8:1::fe", "198.51.100.254"], "accept": ["2001:db8:fe::/48"], "seed": 7` + keys + `}`
}

// All IP packets of a real capture are in OUT, octet for octet inside a tunnel:
// those of RoCEv2 have a line and a label of their flow, the others neither.
func TestIngressForwards(t *testing.T) {
	for _, name := range []string{"rxe-ucmatose4.pcap", "rxe-verbs6.pcap", "rxe-vlan4.pcap"} {
		for _, row := range []struct {
			name     string
			overhead int
		}{
			{`"type": "ipip"`, 40},
			{`"type": "srv6"`, 40 + 8 + 16},
			{`"type": "srv6", "reduced": true`, 40},
			{`"type": "vxlan", "vni": 7`, 40 + 8 + 8 + 14},
		} {
			t.Run(name+" "+row.name, func(t *testing.T) {
				octets := wiretest.Must(os.ReadFile(wiretest.Path(t, name)))(t)
				lines, out, _ := rehearse(t, "ingress", ingressThrough(row.name, ""), octets)
				labels, flows := map[uint32]rocev2.FlowKey{}, map[rocev2.FlowKey]uint32{}
				for _, c := range wiretest.Capture(t, name) {
					var frame rocev2.Frame
					frame.Decode(c.Data, rocev2.DecodeOptions{})
					link, ip := frame.Link(), frame.Outer().IP()
					if ip == nil {
						continue // ARP
					}
					r := out[0]
					out = out[1:]
					require.Equal(t, c.Time, r.Time)
					require.True(t, bytes.HasSuffix(r.Data, ip), "frame %d", c.Number)
					if row.overhead < 70 {
						require.Len(t, r.Data, row.overhead+len(ip))
					} else {
						require.Len(t, r.Data, row.overhead+len(ip)+len(link)-14)
						require.True(t, bytes.HasSuffix(r.Data[:len(r.Data)-len(ip)], link),
							"the frame's own Ethernet header")
					}
					label := binary.BigEndian.Uint32(r.Data) & 0xFFFFF
					var f rocev2.Frame
					f.Decode(r.Data, rocev2.DecodeOptions{Link: rocev2.LinkIP})
					require.Equal(t, "2001:db8:fe::1", f.Outer().Src().String())
					require.Equal(t, "2001:db8:fe::9", f.Outer().Dst().String())
					var p rocev2.Packet
					if p.DecodeIP(ip) != nil {
						require.Zero(t, label)
						continue
					}
					require.Equal(t, p.ECN(), f.Outer().ECN())
					l := lines[0]
					lines = lines[1:]
					require.Equal(t, []any{float64(c.Number), "ingress", "forwarded", "", float64(label)},
						[]any{l["frame"], l["role"], l["action"], l["reason"], l["label"]})
					require.NotZero(t, label)
					k := rocev2.FlowKey{Src: p.Src, Dst: p.FinalDst(), DestQP: p.BTH.DestQP}
					if was, ok := labels[label]; ok {
						require.Equal(t, was, k)
					}
					if was, ok := flows[k]; ok {
						require.Equal(t, was, label)
					}
					labels[label], flows[k] = k, label
				}
				require.Empty(t, lines)
				require.Empty(t, out)
				require.Greater(t, len(flows), 1)
			})
		}
	}
}

// Every RoCEv2 packet of a capture with truncated frames has its line and label. Truncated packets are not forwarded.
func TestIngressCutCapture(t *testing.T) {
	var in []capture.Record
	for _, r := range replay(t, "rxe-perf4.pcap") {
		r.OrigLen = uint32(len(r.Data))
		r.Data = r.Data[:min(len(r.Data), 60)]
		in = append(in, r)
	}
	whole := wiretest.Must(os.ReadFile(wiretest.Path(t, "rxe-perf4.pcap")))(t)
	all, allOut, _ := rehearse(t, "ingress", ingressThrough(`"type": "ipip"`, ""), whole)
	lines, out, _ := rehearse(t, "ingress", ingressThrough(`"type": "ipip"`, ""),
		captureOf(capture.Raw, time.Microsecond, in...))
	require.Equal(t, len(all), len(lines))
	require.Less(t, len(out), len(allOut))
	for i, l := range lines {
		require.Equal(t, "forwarded", l["action"])
		require.Equal(t, all[i]["label"], l["label"])
	}
}

// Labels repeat with the same seed alone.
func TestIngressSeed(t *testing.T) {
	label := func(seed string) uint32 {
		lines, _, _ := rehearse(t, "ingress",
			`{"enabled": true, "tunnel": {"type": "ipip", "src": "2001:db8:fe::1", "dst": "2001:db8:fe::9"}`+seed+`}`,
			every(0, packet(t)))
		return uint32(lines[0]["label"].(float64))
	}
	require.Equal(t, label(`, "seed": 7`), label(`, "seed": 7`))
	require.Equal(t, label(`, "seed": "any text"`), label(`, "seed": "any text"`))
	require.NotEqual(t, label(`, "seed": 7`), label(`, "seed": 8`))
	require.NotEqual(t, label(``), label(``)) // one in a million that it fails
}

// A flood of new flows, forged CM messages and forged FCN.
func TestIngressFlood(t *testing.T) {
	core, pe := netip.MustParseAddr("2001:db8:fe::5"), netip.MustParseAddr("2001:db8:fe::1")
	var in [][]byte
	for i := range uint32(3000) {
		forged := wiretest.Must(fcn.Message{FlowLabel: i, Level: 2}.AppendPacket(nil, core, pe, fcn.Config{}))(t)
		in = append(in, packet(t, func(p *rocev2.Packet) { p.BTH.DestQP = 100 + i }), forged)
	}
	lines, out, _ := rehearse(t, "ingress", ingressThrough(`"type": "ipip"`, `, "max_flows": 16`),
		every(time.Microsecond, in...))
	require.Len(t, lines, 6000)
	require.Len(t, out, 3000)
	count := map[string]int{}
	for _, l := range lines {
		count[fmt.Sprint(l["action"], " ", l["reason"])]++
	}
	require.Equal(t, 16, count["forwarded "])
	require.Equal(t, 2984, count["forwarded table_full"])
	require.Zero(t, count["sent "])
}

// Every role reads each capture in testdata to its end. The roles have addresses and queue pairs of messages.pcap, so
// each takes the actions of its kind.
func TestRolesOnCaptures(t *testing.T) {
	const (
		accept = `, "accept": ["2001:db8:ffff::/48", "198.51.100.5/32"]`
		pair   = `, "qps": [{"src": "2001:db8:1::1", "dst": "2001:db8:4::e", "dest_qp": 17, "src_qp": 33}]`
		own    = `, "qps": [{"dst": "2001:db8:4::e", "dest_qp": 17, "qp": 33}]`
		sender = `{"enabled": true, "self": ["2001:db8:1::1", "192.0.2.1"]` + accept + own + `}`
	)
	tested := []struct {
		role, config string
		actions      []string
	}{
		{"border", `{"enabled": true, "cnp": true, "ppfc": true}`, []string{"dropped", "passed"}},
		{"ingress", ingressThrough(`"type": "ipip"`, ""), []string{"forwarded", "refused"}},
		{"pause", sender, []string{"accepted", "refused"}},
		{"proxy", `{"enabled": true, "self": ["2001:db8:ffff::9", "198.51.100.9"]` + accept + `,
			"senders": [{"prefix": "::/0", "send": "fastcnp"}]}`, []string{"learned", "refused", "sent"}},
		{"receiver", `{"enabled": true, "self": ["2001:db8:4::e"]` + pair + `}`, []string{"sent"}},
		{"sender", sender, []string{"accepted", "refused"}},
		{"switch", `{"enabled": true, "self": ["2001:db8:ffff::5", "198.51.100.5"],
			"methods": [{"senders": "::/0", "method": "fastcnp"}, {"senders": "0.0.0.0/0", "method": "mark"}]}`,
			[]string{"refused", "sent"}},
	}
	for _, c := range tested {
		t.Run(c.role, func(t *testing.T) {
			actions := map[string]int{}
			for _, name := range wiretest.Captures(t, "*.pcap") {
				in := wiretest.Must(os.ReadFile(wiretest.Path(t, name)))(t)
				lines, out, summary := rehearse(t, c.role, c.config, in)
				frames := len(records(t, in))
				read := fmt.Sprintf("frames: %d read, %s written\n", frames, cli.Count(len(out), "packet"))
				require.Contains(t, summary, read, name)
				require.LessOrEqual(t, len(lines), frames, name)
				for _, l := range lines {
					actions[l["action"].(string)]++
				}
			}
			require.Equal(t, c.actions, slices.Sorted(maps.Keys(actions)), actions)
		})
	}
}
