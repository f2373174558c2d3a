package inspect

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/internal/wiretest"
)

// Wireshark lists deviations, wrong ICRCs and errors of packets as expert information, which its users filter for.
func TestWiresharkPluginExpertInformation(t *testing.T) {
	bth := func(octets string) []byte { return datagram(4791, wiretest.Hex(t, octets)) }
	var frames []capture.Record
	type expert struct {
		flags string // numbers of errors, deviations, wrong ICRCs
		text  string
	}
	var want []expert
	for _, packet := range []struct {
		name   string
		octets []byte
		want   expert
	}{
		{"data", bth("0440ffff 00000118 00000001 00000000"), expert{"||1", "Invariant CRC is wrong"}},
		{"data with resv6", bth("0440ffff 01000118 00000001 00000000"), expert{"|1|1", "reserved bits are set"}},
		{"ACK with resv6", bth("1140ffff 20000118 00000001 1f000001 00000000"),
			expert{"|1|1", "reserved bits are set"}},
		{"data with a transport version", bth("0441ffff 00000118 00000001 00000000"),
			expert{"|1|1", "TVer is not 0"}},
		{"BTH of 11 octets", bth("0440ffff 00000118 000000"), expert{"1||", ""}},
	} {
		frame := append([]byte("\x02\x00\x00\x00\x00\x02\x02\x00\x00\x00\x00\x01\x86\xDD"), packet.octets...)
		frames = append(frames, capture.Record{Data: frame, OrigLen: uint32(len(frame)),
			Time: time.Unix(int64(len(frames)), 0)})
		want = append(want, packet.want)
	}
	dir := t.TempDir()
	file := wiretest.File(t, "expert.pcapng", pcapngOf(frames))
	cmd := exec.Command(wiretest.Tool(t, "tshark"), "-n", "-r", file, "-X",
		"lua_script:"+wiretest.Path(t, "..", "wireshark", "rocecn.lua"), "-T", "fields", "-E", "separator=|", "-e",
		"rocecn.broken", "-e", "rocecn.deviation", "-e", "rocecn.icrc.wrong", "-e",
		"_ws.expert.message")
	cmd.Env = append(os.Environ(), "LC_ALL=C", "HOME="+dir, "WIRESHARK_CONFIG_DIR="+dir)
	out, err := cmd.Output()
	require.NoError(t, err)
	lines := slices.Collect(strings.Lines(string(out)))
	require.Len(t, lines, len(want))
	for i, line := range lines {
		fields := strings.Split(line, "|")
		require.Equal(t, want[i].flags, strings.Join(fields[:3], "|"), line)
		require.Contains(t, fields[3], want[i].text)
	}
}

// Wireshark shows each field by its name in the specification, and the number in the base that is usual for it. The
// file has a line for each: its name in filters, type, base of numbers, and name in the specification.
func TestWiresharkPluginFields(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.Command(wiretest.Tool(t, "tshark"), "-G", "fields", "-X",
		"lua_script:"+wiretest.Path(t, "..", "wireshark", "rocecn.lua"))
	cmd.Env = append(os.Environ(), "LC_ALL=C", "HOME="+dir, "WIRESHARK_CONFIG_DIR="+dir)
	out, err := cmd.Output()
	require.NoError(t, err)
	var got []string
	for line := range strings.Lines(string(out)) {
		_, of, ok := strings.Cut(line, "\trocecn.")
		if !ok || !strings.HasPrefix(line, "F\t") {
			continue
		}
		columns := strings.Split(of, "\t") // field, type, protocol, base
		_, kind, _ := strings.Cut(columns[1], "FT_")
		_, base, ok := strings.Cut(columns[3], "BASE_")
		if !ok {
			base = "-"
		}
		got = append(got, strings.ToLower(strings.Join([]string{columns[0], kind, base}, " "))+" "+
			strings.Split(line, "\t")[1])
	}
	slices.Sort(got)
	want := wiretest.Must(os.ReadFile("testdata/plugin_fields.txt"))(t)
	require.Equal(t, string(want), strings.Join(got, "\n")+"\n")
}
