package conform

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/rocev2"
)

var update = flag.Bool("update", false, "write testdata/results again")

// mayFuse reports whether the compiler may fuse a multiplication and an addition, which rounds the pace of packets
// differently: on amd64 from GOAMD64=v3 on, and on other architectures.
func mayFuse() bool {
	info, _ := debug.ReadBuildInfo()
	return !slices.ContainsFunc(info.Settings, func(s debug.BuildSetting) bool {
		return s.Key == "GOAMD64" && (s.Value == "v1" || s.Value == "v2")
	})
}

// requireResults compares lines with those of a file in testdata/results.
func requireResults(t *testing.T, name, lines string) {
	t.Helper()
	file := wiretest.OwnPath(t, filepath.Join("results", name+".txt"))
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(lines), 0o644))
		return
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	if mayFuse() {
		number := regexp.MustCompile(`sent (many|\d+)|[0-9.]+`)
		want, lines = number.ReplaceAll(want, nil), number.ReplaceAllString(lines, "")
	}
	expected, got := strings.Split(string(want), "\n"), strings.Split(lines, "\n")
	for i := range min(len(expected), len(got)) {
		require.Equal(t, expected[i], got[i], "line %d of %s: read the difference, and then run go test -update", i+1,
			file)
	}
	require.Len(t, got, len(expected), file)
}

// formatResult returns the parts of a result that a report prints, without most fields of packets.
func formatResult(r *result) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s, %.2f s\n\texpected: %s\n\tseen: %s\n", r.Case, r.Verdict, r.Seconds, r.Expected, r.Seen)
	for _, row := range r.rates {
		fmt.Fprintf(&b, "\t%s: %.0f octets a second, then %.0f\n", row.Message, row.Before, row.After)
	}
	return b.String()
}

// formatEvidence returns some fields of the packets that a failure names.
func formatEvidence(r *result) string {
	var b strings.Builder
	for _, packet := range []struct {
		name   string
		fields []field
	}{{"about", r.about}, {"frame", r.frame}} {
		var values []string
		for _, f := range packet.fields {
			switch strings.TrimPrefix(f.Name, "inner ") {
			case "source", "destination", "kind", "opcode", "destination queue pair":
				values = append(values, f.Value)
			}
		}
		fmt.Fprintf(&b, "\t%s: %s\n", packet.name, cmp.Or(strings.Join(values, ", "), "none"))
	}
	return b.String()
}

// stimuli are the kinds of packets that the tester sends in a case, in the order of the first of each kind. They are
// decoded by the library, which shares no code with the tester.
type stimuli struct {
	kinds []string
	count map[string]int
	m     message.Message
}

// add counts a frame.
func (s *stimuli) add(port int, frame []byte) {
	kind := fmt.Sprintf("port %d: %s", port, s.describe(frame))
	if s.count == nil {
		s.count = map[string]int{}
	}
	if s.count[kind] == 0 {
		s.kinds = append(s.kinds, kind)
	}
	s.count[kind]++
}

func (s *stimuli) describe(frame []byte) string {
	m := &s.m
	if err := m.Decode(frame, rocev2.DecodeOptions{}, message.Config{}); err != nil {
		return err.Error()
	}
	p := &m.Packet
	text := fmt.Sprintf("%v of %d octets, ECN %d", m.Kind, len(frame), p.TrafficClass&3)
	flow := fmt.Sprintf("%v to %v", p.Src, p.Dst)
	switch m.Kind {
	case message.KindData, message.KindAck:
		return fmt.Sprintf("%s, opcode %v", text, p.BTH.Opcode)
	case message.KindPPFC:
		return fmt.Sprintf("%s, %s, %v %v for %#x, flags %#x", text, flow, m.PPFC.Type, m.PPFC.Pause, m.PPFC.DestQP,
			m.PPFC.Flags)
	case message.KindFCN:
		return fmt.Sprintf("%s, %s, level %d, reserved %#x", text, flow, m.FCN.Level, m.FCN.Reserved)
	case message.KindProxy:
		return fmt.Sprintf("%s, %s, %v, level %d, reserved %#x", text, flow, m.Proxy.FiveTuple, m.Proxy.Level,
			m.Proxy.Reserved)
	}
	return fmt.Sprintf("%s, %s for %#x", text, flow, p.BTH.DestQP)
}

// takeAll returns the packets since the call before. Numbers above 9 follow from the rate and the duration: they are
// left out.
func (s *stimuli) takeAll() string {
	var b strings.Builder
	for _, kind := range s.kinds {
		count := "many"
		if n := s.count[kind]; n < 10 {
			count = fmt.Sprint(n)
		}
		fmt.Fprintf(&b, "\tsent %s from %s\n", count, kind)
	}
	s.kinds = s.kinds[:0]
	clear(s.count)
	return b.String()
}
