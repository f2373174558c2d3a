package flows

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/internal/traffic"
	"github.com/rocecn/rocecn/internal/wiretest"
)

// What docs/flows.md shows is what the command prints.
func TestDocumentation(t *testing.T) {
	root := filepath.Dir(wiretest.Path(t))
	doc, err := os.ReadFile(filepath.Join(root, "docs", "flows.md"))
	require.NoError(t, err)
	lossy := filepath.Join(t.TempDir(), "lossy.pcap")
	f, err := os.Create(lossy)
	require.NoError(t, err)
	require.NoError(t, traffic.Generate(21, traffic.Options{Connections: 4}).Write(f))
	require.NoError(t, f.Close())

	shown := 0
	for i, block := range strings.Split(string(doc), "```") {
		if i%2 == 0 {
			continue
		}
		var args []string
		want := ""
		for line := range strings.Lines(strings.TrimPrefix(block, "\n")) {
			if command, ok := strings.CutPrefix(line, "$ rocecn flows "); ok {
				args = strings.Fields(strings.ReplaceAll(command, "'", ""))
			} else if !strings.HasPrefix(line, "$ ") {
				want += line
			}
		}
		require.NotEmpty(t, args, block)
		last := &args[len(args)-1]
		if *last = filepath.Join(root, *last); !strings.Contains(*last, "testdata") {
			*last = lossy
		}
		var out, stderr bytes.Buffer
		status := Run(context.Background(), args, nil, &out, &stderr)
		got := out.String()
		if status != 0 {
			got += stderr.String()
		}
		require.Equal(t, want, got, block)
		shown++
	}
	require.Equal(t, 4, shown)
}
