package flows

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/internal/traffic"
	"github.com/rocecn/rocecn/internal/wiretest"
)

// The outputs in docs are those of the command.
func TestDocumentation(t *testing.T) {
	requireDocumented(t, "flows.md", 5)
	requireDocumented(t, "live.md", 2)
	requireDocumented(t, "triage.md", 6)
}

// docs/flows.md describes each key of the JSON of -compare.
func TestCompareKeysAreDocumented(t *testing.T) {
	doc := wiretest.Must(os.ReadFile(filepath.Join(wiretest.Root(t), "docs", "flows.md")))(t)
	_, section, found := strings.Cut(string(doc), "\n## Two capture points\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	for _, of := range []reflect.Type{reflect.TypeFor[comparedLine](), reflect.TypeFor[clocksLine]()} {
		for i := range of.NumField() {
			key, _, _ := strings.Cut(of.Field(i).Tag.Get("json"), ",")
			switch key {
			case "compare", "src", "dst", "dest_qp": // those of any line about a flow
			case "total":
				require.Contains(t, section, "`\"total\":true`")
			default:
				require.Regexp(t, "`(clocks\\.)?"+key+"`", section)
			}
		}
	}
}

func requireDocumented(t *testing.T, name string, blocks int) {
	t.Helper()
	root := wiretest.Root(t)
	doc := wiretest.Must(os.ReadFile(filepath.Join(root, "docs", name)))(t)
	captures := t.TempDir()
	write := func(name string, c *traffic.Capture) {
		f := wiretest.Must(os.Create(filepath.Join(captures, name)))(t)
		require.NoError(t, c.Write(f))
		require.NoError(t, f.Close())
	}
	lossy := traffic.Generate(21, traffic.Options{Connections: 4})
	write("lossy.pcap", lossy)
	var delayed traffic.Capture // three packets are lost, the others come 40 µs later
	for i, f := range lossy.Frames {
		if n := i + 1; n != 20 && n != 40 && n != 60 {
			later := *f
			later.Time = f.Time.Add(40 * time.Microsecond)
			delayed.Frames = append(delayed.Frames, &later)
		}
	}
	write("behind.pcap", &delayed)

	shown := 0
	for i, block := range strings.Split(string(doc), "```") {
		if i%2 == 0 {
			continue
		}
		var args []string
		run, want := Run, ""
		for line := range strings.Lines(strings.TrimPrefix(block, "\n")) {
			if command, ok := strings.CutPrefix(line, "$ rocecn flows "); ok {
				args = strings.Fields(strings.ReplaceAll(command, "'", ""))
			} else if command, ok := strings.CutPrefix(line, "$ rocecn top "); ok {
				run, args = Top, strings.Fields(command)
			} else if !strings.HasPrefix(line, "$ ") {
				want += line
			}
		}
		require.NotEmpty(t, args, block)
		for i, arg := range args {
			switch {
			case strings.HasPrefix(arg, "testdata/"):
				args[i] = wiretest.Path(t, strings.TrimPrefix(arg, "testdata/"))
			case strings.HasSuffix(arg, ".pcap"):
				args[i] = filepath.Join(captures, arg)
			}
		}
		var out, stderr bytes.Buffer
		status := run(context.Background(), args, nil, &out, &stderr)
		got := out.String()
		if status != 0 {
			got += stderr.String()
		}
		require.Equal(t, want, got, block)
		shown++
	}
	require.Equal(t, blocks, shown)
}
