package conform

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/capture"
)

// runCommandLine runs the command against a device in memory, and returns its status, output and folder.
func runCommandLine(t *testing.T, f *fault, args ...string) (status int, output, dir string) {
	t.Helper()
	s := subjects[0]
	dir = t.TempDir()
	file := filepath.Join(dir, "profile.toml")
	require.NoError(t, os.WriteFile(file, []byte(s.profile), 0o600))
	open := func(_ context.Context, p *profile) (rig, error) {
		for i := range p.Ports {
			p.Ports[i].MAC.mac, p.Ports[i].NeighbourMAC.mac = testerMAC(i), deviceMAC(i)
		}
		return &memoryRig{clock: time.Unix(1_800_000_000, 0).UTC(), device: s.model(t, s.config), fault: f}, nil
	}
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], "DIR", dir)
	}
	var out, messages bytes.Buffer
	status = runWith(t.Context(), append([]string{"-profile", file, "-yes"}, args...), &out, &messages, open)
	require.Empty(t, messages.String())
	return status, out.String(), dir
}

var wrongQP = &fault{out: rewrite(kindFastCNP, func(p *packet) { p.bth[7] ^= 0x80 })}

// The status follows from the verdicts of MUST cases.
func TestStatus(t *testing.T) {
	for _, c := range []struct {
		name, cases string
		fault       *fault
		want        int
	}{
		{"passes", "F01,F23.1", nil, 0},
		{"MUST fails", "F01,F23.1", wrongQP, 3},
		{"does not apply", "F42", nil, 0},
		{"MAY fails", "W33", &fault{out: rewrite(kindFCN, func(p *packet) { p.ip[3] = 9 })}, 0},
		{"inconclusive", "F23.1", &fault{out: func(*memoryRig, int, []byte) []arrival { return nil }}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, _, _ := runCommandLine(t, c.fault, "-case", c.cases)
			require.Equal(t, c.want, status)
		})
	}
}

func TestReports(t *testing.T) {
	status, output, dir := runCommandLine(t, wrongQP, "-case", "F01.1,F23.1,F42.1", "-json", "-junit", "DIR/junit.xml",
		"-html", "DIR/page.html", "-capture", "DIR/captures")
	require.Equal(t, 3, status)

	lines := strings.Split(strings.TrimSpace(output), "\n")
	require.Len(t, lines, 4)
	var failed map[string]any
	require.NoError(t, json.Unmarshal([]byte(lines[1]), &failed))
	require.Equal(t, []any{"F23.1", "F23", "MUST", "FAST 4", "fail", "F23.1.pcapng"}, []any{failed["case"],
		failed["requirement"], failed["level"], failed["section"], failed["verdict"], failed["capture"]})
	require.Regexp(t, "^destination queue pair 0x01....$", failed["expected"])
	require.Regexp(t, "^destination queue pair 0x01....$", failed["seen"])
	require.Positive(t, failed["frame"])
	require.Contains(t, failed, "seconds")
	var total map[string]any
	require.NoError(t, json.Unmarshal([]byte(lines[3]), &total))
	require.Equal(t, []any{true, 1., 1., 0., 1., "rocecn run"}, []any{total["total"], total["pass"], total["fail"],
		total["inconclusive"], total["not_applicable"], total["device"]})
	require.NotEmpty(t, total["rocecn"])

	// The frame of the failure is the Fast CNP with the wrong queue pair.
	number := 0
	for r, err := range capture.File(filepath.Join(dir, "captures", "F23.1.pcapng")) {
		require.NoError(t, err)
		if number++; number == int(failed["frame"].(float64)) {
			p, _ := readFrame(r.Data, nil)
			require.Equal(t, kindFastCNP, p.kind(&points))
			require.Contains(t, failed["seen"], hex24(p.destQP()))
		}
	}

	var suite junitSuite
	octets, err := os.ReadFile(filepath.Join(dir, "junit.xml"))
	require.NoError(t, err)
	require.NoError(t, xml.Unmarshal(octets, &suite))
	require.Equal(t, []int{3, 1, 0, 1}, []int{suite.Tests, suite.Failures, suite.Errors, suite.Skipped})
	require.Contains(t, suite.Cases[1].Failure.Text, "frame")

	page, err := os.ReadFile(filepath.Join(dir, "page.html"))
	require.NoError(t, err)
	for _, part := range []string{`id="F23.1"`, "sent by the tester", "sent by the device", "extension header 60",
		"1 pass, 1 fail (1 MUST)"} {
		require.Contains(t, string(page), part)
	}
	require.NotContains(t, string(page), "://")

	status, output, _ = runCommandLine(t, wrongQP, "-case", "F23.1")
	require.Equal(t, 3, status)
	require.Regexp(t, `(?m)^fail +F23.1 +MUST +FAST 4 .*\n +seen: destination queue pair 0x.* \(frame \d+\)$`, output)
}

// JSON goes to a file that follows the flag. A report that cannot be written gives status 1.
func TestReportFiles(t *testing.T) {
	status, output, dir := runCommandLine(t, nil, "-case", "F42.1", "-json", "DIR/out.json")
	require.Equal(t, 0, status)
	require.Empty(t, output)
	octets, err := os.ReadFile(filepath.Join(dir, "out.json"))
	require.NoError(t, err)
	require.Equal(t, 2, bytes.Count(octets, []byte("\n")))

	r := &report{profile: &profile{}, stdout: failingWriter{}, json: true}
	require.Error(t, r.add(result{}))
	require.Error(t, r.end())
}

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, errors.New("full") }
