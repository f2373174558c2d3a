package inspect

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/stretchr/testify/require"
)

// The traces that Linux wrote: what tshark reads is what we print.
func TestTracesAgreeWithTshark(t *testing.T) {
	const trace = "ipv6.opt.ioam.trace."
	decimal := func(s string) string {
		n := wiretest.Must(strconv.ParseUint(s, 0, 64))(t)
		return strconv.FormatUint(n, 10)
	}
	same := func(s string) string { return s }
	nodes, traces, unavailable := 0, 0, 0
	for _, capture := range wiretest.Captures(t, "ioam-*.pcap") {
		out, _, _ := inspect(nil, "-json", wiretest.Path(t, capture))
		got, rows := lines(t, out), wiretest.Golden(t, capture)
		require.Len(t, got, len(rows), capture)
		for i, row := range rows {
			option := ""
			for _, path := range []string{"ioam.0.", "ioam.1."} {
				if got[i][path+"trace_type"] != "" && got[i][path+"option_type"] == "0x31" {
					option = path
				}
			}
			if option == "" || row.Get(trace+"type") == "0x000002" { // no trace, or one that tshark does not read
				continue
			}
			traces++
			for _, c := range []struct{ name, field string }{
				{"type", "ipv6.opt.ioam.opt_type"}, {"namespace", trace + "ns"}, {"node_len", trace + "nodelen"},
				{"remaining_len", trace + "remlen"},
			} {
				t.Run(c.name, func(t *testing.T) {
					require.Equal(t, row.Get(c.field), got[i][option+c.name], "%s, %s", capture, c.name)
				})
			}
			for _, c := range []struct{ name, field string }{{"overflow", "o"}, {"loopback", "l"}, {"active", "a"}} {
				t.Run(c.name, func(t *testing.T) {
					require.Equal(t, fmt.Sprint(row.Bool(trace+"flag."+c.field)), got[i][option+c.name], "%s, %s",
						capture, c.name)
				})
			}
			require.Equal(t, row.Get(trace+"type"), got[i][option+"trace_type"], capture)
			wide := ""
			if row.Has(trace + "node.id_wide") {
				wide = "_wide"
			}
			for _, test := range []struct {
				name, field string
				text        func(string) string
			}{
				{"hop_limit" + wide, "hlim", same}, {"node_id", "id", decimal}, {"ingress_if", "iif", decimal},
				{"egress_if", "eif", decimal},
				{"ts_sec", "tss", decimal}, {"ts_frac", "tsf", decimal}, {"transit_delay", "trdelay", decimal},
				{"ns_data", "nsdata", decimal},
				{"queue_depth", "qdepth", decimal}, {"checksum_complement", "csum", decimal},
				{"node_id_wide", "id_wide", decimal},
				{"ingress_if_wide", "iif_wide", decimal}, {"egress_if_wide", "eif_wide", decimal},
				{"ns_data_wide", "nsdata_wide", same},
				{"buffer_occupancy", "bufoccup", decimal},
			} {
				t.Run(test.name, func(t *testing.T) {
					for n, value := range row.All(trace + "node." + test.field) {
						want := test.text(value)
						if want == allOnes[test.name] {
							want = "" // unavailable: the key is absent
							unavailable++
						}
						require.Equal(t, want, got[i][fmt.Sprintf("%snodes.%d.%s", option, n, test.name)], "%s, %s",
							capture, test.name)
						nodes++
					}
				})
			}
		}
	}
	require.Equal(t, 11, traces)
	require.NotZero(t, nodes)
	require.NotZero(t, unavailable)
}

// allOnes are the values that stand for unavailable, as text.
var allOnes = map[string]string{
	"node_id": "16777215", "ingress_if": "65535", "egress_if": "65535", "ts_sec": "4294967295", "ts_frac": "4294967295",
	"transit_delay": "4294967295", "ns_data": "4294967295", "queue_depth": "4294967295",
	"checksum_complement": "4294967295", "node_id_wide": "72057594037927935", "ingress_if_wide": "4294967295",
	"egress_if_wide": "4294967295", "ns_data_wide": "0xffffffffffffffff", "buffer_occupancy": "4294967295",
}

// withOptions returns an IPv6 packet with these options in a Hop-by-Hop header,
// and padding behind them.
func withOptions(t *testing.T, hex string) []byte {
	options := wiretest.Hex(t, hex)
	if n := -(len(options) + 2) & 7; n > 1 {
		options = append(options, append([]byte{1, uint8(n - 2)}, make([]byte, n-2)...)...)
	}
	p := packet(bth.RCSendOnly)
	p.Ext = append([]byte{17, uint8((len(options)+2)/8 - 1)}, options...)
	return build(t, p)
}

func TestIOAM(t *testing.T) {
	for _, c := range []struct{ name, options, json, human string }{
		{
			"every field of a node",
			"01 02 00 00 31 56 00 00 0102 7d02 fff002 00 1111111111111111" + // flags O and A, room for two words
				"3d0000d4 01910192 00000001 00000002 80000000 00000004 00000005 00000006 3d000000000000d4 00000191 " +
				"00000192 1122334455667788 0000000b" +
				"01 00029a 68657921",
			`{"option_type":"0x31","type":0,"namespace":258,"node_len":15,"remaining_len":2,"overflow":true,` +
				`"loopback":false,"active":true,` +
				`"trace_type":"0xfff002","nodes":[{"hop_limit":61,"node_id":212,"ingress_if":401,"egress_if":402,` +
				`"ts_sec":1,"ts_frac":2,` +
				`"transit_delay":2147483648,"ns_data":4,"queue_depth":5,"checksum_complement":6,"hop_limit_wide":61,` +
				`"node_id_wide":212,` +
				`"ingress_if_wide":401,"egress_if_wide":402,"ns_data_wide":"0x1122334455667788",` +
				`"buffer_occupancy":11,` +
				`"snapshot":{"schema":666,"data":"68657921"}}]}`,
			`IOAM trace ns=258: 212 q=5 delay>2s schema=666 "hey!", room for 2 words, OVERFLOW`,
		},
		{
			"incremental trace without nodes, loopback and active",
			"01 02 00 00 31 0a 00 01 007b 0b 05 800000 00",
			`{"option_type":"0x31","type":1,"namespace":123,"node_len":1,"remaining_len":5,"overflow":false,` +
				`"loopback":true,"active":true,` +
				`"trace_type":"0x800000","nodes":[]}`,
			"IOAM trace ns=123, room for 5 words",
		},
		{
			"two nodes, some of it unavailable",
			"01 02 00 00 31 1a 00 00 007b 10 00 880000 00 3d0000d4 000005dc 3effffff ffffffff",
			`{"option_type":"0x31","type":0,"namespace":123,"node_len":2,"remaining_len":0,"overflow":false,` +
				`"loopback":false,"active":false,` +
				`"trace_type":"0x880000","nodes":[{"hop_limit":61,"node_id":212,"transit_delay":1500},` +
				`{"hop_limit":62}]}`,
			"IOAM trace ns=123: ? > 212 delay=1.5µs",
		},
		{
			"direct export",
			"01 02 00 00 11 12 00 04 007b 00 c0 f00000 00 00abcdef 00000007",
			`{"option_type":"0x11","type":4,"namespace":123,"trace_type":"0xf00000","flow_id":11259375,"sequence":7}`,
			"IOAM direct export ns=123 flow=11259375 seq=7",
		},
		{
			"direct export with its flags counted from the wrong end",
			"01 02 00 00 11 12 00 04 007b 00 03 f00000 00 00abcdef 00000007",
			`{"option_type":"0x11","type":4,"namespace":123,"trace_type":"0xf00000","extension_flags":"0x03",` +
				`"unknown_extensions":["0x00abcdef","0x00000007"]}`,
			"IOAM direct export ns=123 flags=0x03 unknown=0x00abcdef,0x00000007",
		},
		{
			"direct export with all eight extensions",
			"01 02 00 00 11 2a 00 04 007b 00 ff f00000 00 00000001 00000002 00000003 00000004 00000005 00000006 " +
				"00000007 00000008",
			`{"option_type":"0x11","type":4,"namespace":123,"trace_type":"0xf00000","flow_id":1,"sequence":2,` +
				`"extension_flags":"0xff",` +
				`"unknown_extensions":["0x00000003","0x00000004","0x00000005","0x00000006","0x00000007","0x00000008"]}`,
			"IOAM direct export ns=123 flow=1 seq=2 flags=0xff " +
				"unknown=0x00000003,0x00000004,0x00000005,0x00000006,0x00000007,0x00000008",
		},
		{
			"direct export without extensions",
			"01 02 00 00 11 0a 00 04 007b 00 00 f00000 00",
			`{"option_type":"0x11","type":4,"namespace":123,"trace_type":"0xf00000"}`,
			"IOAM direct export ns=123",
		},
		{
			"proof of transit",
			"01 02 00 00 31 16 00 02 007b 00 00 0000000000000001 ffffffffffffffff",
			`{"option_type":"0x31","type":2,"namespace":123,"pot_type":0,"pkt_id":"0x0000000000000001",` +
				`"cumulative":"0xffffffffffffffff"}`,
			"IOAM proof of transit ns=123 pktid=0x1 cumulative=0xffffffffffffffff",
		},
		{
			"proof of transit of an unknown type",
			"01 02 00 00 31 06 00 02 007b",
			`{"option_type":"0x31","type":2,"namespace":123,"pot_type":1}`,
			"IOAM proof of transit ns=123 type=1",
		},
		{
			"proof of transit of an unknown type, with data",
			"01 00 31 0a 00 02 007b 0100 cafec0de 0100",
			`{"option_type":"0x31","type":2,"namespace":123,"pot_type":1,"data":"cafec0de"}`,
			"IOAM proof of transit ns=123 type=1 data=cafec0de",
		},
		{
			"edge-to-edge, 64 bits of sequence and time",
			"01 02 00 00 11 16 00 03 007b b000 0000000000000007 00000001 00000002",
			`{"option_type":"0x11","type":3,"namespace":123,"e2e_type":"0xb000","sequence":"0x0000000000000007",` +
				`"ts_sec":1,"ts_frac":2}`,
			"IOAM edge-to-edge ns=123 seq=7",
		},
		{
			"edge-to-edge, 32 bits of sequence",
			"01 02 00 00 11 0a 00 03 007b 4000 00000007",
			`{"option_type":"0x11","type":3,"namespace":123,"e2e_type":"0x4000","sequence":7}`,
			"IOAM edge-to-edge ns=123 seq=7",
		},
		{
			"edge-to-edge, both sequences",
			"01 02 00 00 11 12 00 03 007b c000 0000000000000008 00000007",
			`{"option_type":"0x11","type":3,"namespace":123,"e2e_type":"0xc000","sequence":"0x0000000000000008",` +
				`"sequence_32":7}`,
			"IOAM edge-to-edge ns=123 seq=8 seq=7",
		},
		{
			"edge-to-edge with a bit that nobody has defined",
			"01 02 00 00 11 0e 00 03 007b 2800 00000001 22222222",
			`{"option_type":"0x11","type":3,"namespace":123,"e2e_type":"0x2800","ts_sec":1,"unknown":"22222222"}`,
			"IOAM edge-to-edge ns=123 unknown=22222222",
		},
		{
			"edge-to-edge with nothing",
			"01 02 00 00 11 06 00 03 007b 0000",
			`{"option_type":"0x11","type":3,"namespace":123,"e2e_type":"0x0000"}`,
			"IOAM edge-to-edge ns=123",
		},
		{
			"unknown type",
			"01 02 00 00 31 06 00 05 cafec0de",
			`{"option_type":"0x31","type":5,"data":"cafec0de"}`,
			"IOAM type 5, 4 octets",
		},
		{
			"something else in 0x11",
			"01 02 00 00 11 06 00 04 cafec0de",
			`{"option_type":"0x11","error":"ioam: direct export: truncated: shorter than 8 octets and the words of its extension flags",` +
				`"data":"0004cafec0de"}`,
			"IOAM in option 0x11 BROKEN: direct export: truncated: shorter than 8 octets and the words of its extension flags",
		},
		{
			"nothing",
			"01 02 00 00 31 00",
			`{"option_type":"0x31","error":"ioam: option: truncated: shorter than 2 octets","data":""}`,
			"IOAM in option 0x31 BROKEN: option: truncated: shorter than 2 octets",
		},
		{
			"option that overruns its header",
			"01 02 00 00 31 03",
			`{"option_type":"0x31","error":"ipv6opt: option: Opt Data Len exceeds the header",` +
				`"data":""}`,
			"IOAM in option 0x31 BROKEN: option: Opt Data Len exceeds the header",
		},
		{
			"option without a length",
			"01 03 00 00 00 31",
			`{"option_type":"0x31","error":"ipv6opt: option: Opt Data Len exceeds the header",` +
				`"data":""}`,
			"IOAM in option 0x31 BROKEN: option: Opt Data Len exceeds the header",
		},
		{
			"two options",
			"11 02 00 05 31 04 00 06 cafe",
			`{"option_type":"0x11","type":5,"data":""},{"option_type":"0x31","type":6,"data":"cafe"}`,
			"IOAM type 5, 0 octets  IOAM type 6, 2 octets",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			ip := withOptions(t, c.options)
			out, _, _ := inspect(capturing(capture.Raw, ip), "-json", "-")
			_, got, _ := strings.Cut(out, `"ioam":`)
			want, text := "["+c.json+"]}\n", "  "+c.human
			if strings.Contains(c.json, "exceeds the header") { // D19: also an error of the header
				const overrun = "option: Opt Data Len exceeds the header"
				want = "[" + c.json + `],"options_error":"ipv6opt: ` + overrun + "\"}\n"
				text += "  BROKEN options: " + overrun
			}
			require.Equal(t, want, got, c.name)
			require.Contains(t, out, `"kind":"data"`, c.name)
			require.True(t, strings.HasSuffix(human(t, ip), text), c.name)
		})
	}
	require.NotContains(t, line(t, withOptions(t, "1e 04 00 00 00 00")), "ioam")
}

// Options of outer headers come first, and packets that are none of ours have
// them too.
func TestIOAMElsewhere(t *testing.T) {
	inner := withOptions(t, "31 04 00 06 cafe")
	hopByHop := wiretest.Hex(t, "29 00 31 04 00 07 cafe")
	outer := append([]byte{0x60, 0, 0, 0, 0, uint8(len(hopByHop) + len(inner)), 0, 9}, make([]byte, 32)...)
	got := line(t, append(append(outer, hopByHop...), inner...))
	require.Equal(t, "7", got["ioam.0.type"])
	require.Equal(t, "6", got["ioam.1.type"])

	icmp := append([]byte{0x60, 0, 0, 0, 0, 8, 60, 9}, make([]byte, 32)...)
	got = line(t, append(icmp, wiretest.Hex(t, "3a 00 11 04 00 05 cafe")...))
	require.Equal(t, "other", got["kind"])
	require.Equal(t, "0x11", got["ioam.0.option_type"])
}

// Options of outer headers alone are seen, whatever the tunnel: IP in IP and VXLAN (RFC 7348 section 5).
func TestIOAMOfOuterHeadersAlone(t *testing.T) {
	inner := build(t, packet(bth.RCSendOnly))
	outer := func(next string, payload []byte) []byte {
		payload = append(wiretest.Hex(t, next+"00 31 04 00 07 cafe"), payload...)
		b := append([]byte{0x60, 0, 0, 0, 0, 0, 0, 9}, make([]byte, 32)...)
		binary.BigEndian.PutUint16(b[4:], uint16(len(payload)))
		return append(b, payload...)
	}
	vxlan := wiretest.Hex(t, "c000 12b5 0000 0000 08000000 00000700 020000000002 020000000001 86dd")
	binary.BigEndian.PutUint16(vxlan[4:], uint16(len(vxlan)+len(inner)))
	for _, c := range []struct {
		name string
		b    []byte
	}{
		{"IP in IP", outer("29", inner)},
		{"VXLAN", outer("11", append(vxlan, inner...))},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := line(t, c.b)
			require.Equal(t, "data", got["kind"], c.name)
			require.Equal(t, "7", got["ioam.0.type"], c.name)
			require.NotContains(t, got, "ioam.1.type", c.name)
		})
	}
}
