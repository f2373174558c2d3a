package inspect

import (
	"strings"
	"testing"

	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/stretchr/testify/require"
)

// A packet that the capture truncated is not broken: the error names truncation and the length that is sufficient.
func TestCutTooShort(t *testing.T) {
	var records []capture.Record
	for _, p := range wiretest.Capture(t, "messages.pcap")[:3] { // a WRITE Only, an Acknowledge, a CNP, over IPv6
		records = append(records, capture.Record{Data: p.Data[:64], OrigLen: uint32(len(p.Data))})
	}
	records = append(records, capture.Record{Data: records[0].Data[:54], OrigLen: 200})
	file := write(t, "cut.pcapng", pcapngOf(records))
	out, messages, status := inspect(nil, "-json", file)
	require.Zero(t, status)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	require.Len(t, lines, 4)
	for i, want := range []string{
		`"kind":"error","error":"truncated by the snapshot length: want 90 octets","truncated":true`,
		`"kind":"error","error":"truncated by the snapshot length: want 78 octets","truncated":true`,
		`"kind":"error","error":"truncated by the snapshot length: want 90 octets","truncated":true`,
		`"kind":"other","truncated":true`, // nothing shows that it is ours
	} {
		require.Contains(t, lines[i], want)
	}
	require.Contains(t, messages, "4 packets: 1 other, 3 truncated by the snapshot length\n")
	require.Contains(t, messages, "truncated packets: 4; errors: 0\n")
	require.Contains(t, messages,
		"truncated before the end of the headers: 3, and possibly other traffic; capture with -s 114 or more\n")

	_, messages, _ = inspect(nil, write(t, "other.pcapng", pcapngOf(records[3:])))
	require.Contains(t, messages, "1 packet: 1 other\n")
	require.Contains(t, messages,
		"\nother traffic may be truncated before the end of its headers; capture with -s 114 or more\n")

	out, _, _ = inspect(nil, "-all", file)
	lines = strings.Split(strings.TrimSpace(out), "\n")
	require.Contains(t, lines[0], "ERROR  truncated by the snapshot length: want 90 octets  truncated")
	require.Contains(t, lines[3], "other: UDP  truncated by the snapshot length: want 114 octets  truncated")
}

// A frame with a truncated link-layer header is of kind other. The length wanted of a short frame is its own.
func TestCutHeader(t *testing.T) {
	frame := wiretest.Capture(t, "messages.pcap")[0].Data
	file := write(t, "cut.pcapng", pcapngOf([]capture.Record{
		{Data: frame[:5], OrigLen: 200}, {Data: frame[:13], OrigLen: 82},
		{Data: frame[:13], OrigLen: 0xFFFFFFFF}}))
	out, _, _ := inspect(nil, "-all", file)
	require.Contains(t, out, "  -  other  truncated by the snapshot length: want 114 octets  truncated")
	require.Equal(t, 2, strings.Count(out, "114 octets"))
	require.Contains(t, out, "  -  other  truncated by the snapshot length: want 82 octets  truncated")
}

// A truncated CM message is printed with the fields that the capture kept: name, queue pair, GIDs, private data.
func TestCutMAD(t *testing.T) {
	for _, c := range []struct {
		snap uint32
		want string // first REQ; keys of truncated fields are absent, not 0
	}{
		{54 + 8 + 12 + 8 + 24, `"cm":{"message":"REQ","transaction":"0x000000029927c28c"}`},
		{192, `"local_qp":17,"starting_psn":2740751,"transport":"RC","pkey":"0xffff","mtu":1024}`},
		{300, `"mtu":1024,"local_gid":"fd77::2","remote_gid":"fd77::1"}`},
		{400, `"remote_gid":"fd77::1","ip_cm":{"version":6,"src_port":42824,"src":"fd77::2","dst":"fd77::1"}}`},
	} {
		var records []capture.Record
		for _, p := range wiretest.Capture(t, "rxe-rping6.pcap") {
			n := len(p.Data)
			records = append(records, capture.Record{Data: p.Data[:min(n, int(c.snap))], OrigLen: uint32(n)})
		}
		out, _, status := inspect(nil, "-json", write(t, "cut.pcapng", pcapngOf(records)))
		require.Zero(t, status)
		require.Contains(t, out, c.want)
		require.Equal(t, 5, strings.Count(out, `"cm":`), "REQ, REP, RTU, DREQ, DREP in %d octets", c.snap)
	}
}
