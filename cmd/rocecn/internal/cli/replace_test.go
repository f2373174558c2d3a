package cli

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/stretchr/testify/require"
)

func TestReplace(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "page")
	content := func() string {
		b := wiretest.Must(os.ReadFile(name))(t)
		return string(b)
	}
	alone := func() {
		all := wiretest.Must(os.ReadDir(dir))(t)
		require.Len(t, all, 1, "%v", all)
	}
	write := func(text string) *Replacement {
		r, err := Replace(name)
		require.NoError(t, err)
		_, err = r.WriteString(text)
		require.NoError(t, err)
		return r
	}

	r := write("one")
	require.NoFileExists(t, name)
	require.NoError(t, r.Commit())
	r.Abandon() // too late
	require.Equal(t, "one", content())
	require.NoError(t, os.Chmod(name, 0o666))

	r = write("two")
	require.Equal(t, "one", content())
	r.Abandon()
	require.Equal(t, "one", content())
	alone()

	require.NoError(t, write("three").Commit())
	require.Equal(t, "three", content())
	info, err := os.Stat(name)
	require.NoError(t, err)
	require.EqualValues(t, 0o666, info.Mode())
	alone()

	r = write("four")
	require.NoError(t, r.Close()) // Commit cannot make sure that the data is stored
	require.Error(t, r.Commit())
	require.Equal(t, "three", content())
	alone()

	// A link stays one.
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(name, link))
	r = wiretest.Must(Replace(link))(t)
	_, err = r.WriteString("five")
	require.NoError(t, err)
	require.NoError(t, r.Commit())
	require.Equal(t, "five", content())
	to := wiretest.Must(os.Readlink(link))(t)
	require.Equal(t, name, to)

	for _, bad := range []string{filepath.Join(dir, "none", "page"), dir} {
		_, err = Replace(bad)
		require.ErrorContains(t, err, bad)
	}
	alone()
}

func TestPrintable(t *testing.T) {
	for _, c := range []struct{ name, want string }{
		{"a.pcap", "a.pcap"}, {"größe 一.pcap", "größe 一.pcap"}, {`C:\a".pcap`, `C:\a".pcap`}, {"", ""},
		{"\x1b[31m", `\x1b[31m`}, {"a\nb", `a\nb`},
		{"\"\r", `"\r`}, {"\x9b", `\x9b`}, {"\u009b", `\u009b`}, {"\u202e", `\u202e`}, {"\x7f", `\x7f`},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, Printable(c.name))
		})
	}
}
