package inspect

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/stretchr/testify/require"
)

// Our values of traces that Linux wrote are those of tshark.
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

// withOptions returns an IPv6 packet with these options and padding in a Hop-by-Hop header.
func withOptions(t *testing.T, hex string) []byte {
	options := wiretest.Hex(t, hex)
	if n := -(len(options) + 2) & 7; n > 1 {
		options = append(options, append([]byte{1, uint8(n - 2)}, make([]byte, n-2)...)...)
	}
	p := packet(bth.RCSendOnly)
	p.Ext = append([]byte{17, uint8((len(options)+2)/8 - 1)}, options...)
	return build(t, p)
}
