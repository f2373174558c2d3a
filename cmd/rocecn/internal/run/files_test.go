package run

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// No sink may overwrite another file of the configuration, by any name, whether it exists or not.
func TestSameFiles(t *testing.T) {
	folder := t.TempDir()
	t.Chdir(folder)
	require.NoError(t, os.Mkdir("sub", 0o700))
	require.NoError(t, os.Symlink("sub", "link"))
	require.NoError(t, os.WriteFile("there.pcap", nil, 0o600))
	require.NoError(t, os.Link("there.pcap", "hard.pcap"))
	require.NoError(t, os.Symlink("sub/not.pcap", "not.pcap"))
	require.NoError(t, os.Symlink("loop.pcap", "loop.pcap"))
	const two = "[sink.a]\ntype = \"capture\"\nfile = \"ONE\"\n[TWO.b]\ntype = \"capture\"\nfile = \"OTHER\"\n"
	for _, c := range []struct{ one, two, other, message string }{
		{"a.pcap", "source", "./a.pcap", "line 3: sink.a.file: the file is already used by source.b"},
		{"a.pcap", "sink", "a.pcap", "line 6: sink.b.file: the file is already used by sink.a"},
		{"a.pcap", "sink", folder + "/a.pcap", "line 6: sink.b.file: the file is already used by sink.a"},
		{"sub/a.pcap", "sink", "link/a.pcap", "line 6: sink.b.file: the file is already used by sink.a"},
		{"there.pcap", "sink", "hard.pcap", "line 6: sink.b.file: the file is already used by sink.a"},
		{"not.pcap", "sink", "sub/not.pcap", "line 6: sink.b.file: the file is already used by sink.a"},
		{"loop.pcap", "sink", "a.pcap", ""},
		{"a.pcap", "sink", "sub/../agent.toml", "line 6: sink.b.file: the file is already used by this configuration"},
		{"sub/a.pcap", "sink", "a.pcap", ""},
		{"sub/a.pcap", "source", "a.pcap", ""},
		{"there.pcap", "sink", "a.pcap", ""},
		{"/dev/null", "sink", "/dev/null", ""},
	} {
		config := strings.NewReplacer("ONE", c.one, "TWO", c.two, "OTHER", c.other).Replace(two)
		require.NoError(t, os.WriteFile("agent.toml", []byte(config), 0o600))
		_, err := readFile(t.Context(), filepath.Join(folder, "agent.toml"))
		if c.message == "" {
			require.NoError(t, err, config)
		} else {
			require.EqualError(t, err, c.message)
		}
	}
}
