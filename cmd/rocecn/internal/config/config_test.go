package config

import (
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/stretchr/testify/require"
)

// file is a configuration with tables of every kind.
type file struct {
	Name  string           `json:"name"`
	Every [3]time.Duration `json:"every"`
	Sizes []uint32         `json:"sizes"`
	Share float64          `json:"share"`
	Table struct {
		On    bool         `json:"on"`
		Rules []rule       `json:"rules"`
		Addr  netip.Addr   `json:"addr"`
		Deep  map1         `json:"deep"`
		List  []netip.Addr `json:"list"`
	} `json:"table"`
	Items []rule `json:"items"`
}

type rule struct {
	Senders netip.Prefix `json:"senders"`
	N       int          `json:"n"`
}

type map1 struct {
	N uint8 `json:"n"`
}

func decode(t *testing.T, text string) (f file, err error) {
	t.Helper()
	tree, err := Read([]byte(text))
	if err == nil {
		err = tree.Decode(&f)
	}
	return f, err
}

// The same in TOML and in JSON.
func TestTOML(t *testing.T) {
	f, err := decode(t, `
		name = "a" # a comment
		every = "5ms"
		sizes = [1, 0x10, 1_000]
		share = 1e3
		table.deep.n = 7
		[table]
		on = true
		addr = "2001:db8::1"
		rules = [{senders = "10.0.0.0/8"}, {senders = "::/0", n = 3}]
		[[items]]
		n = 1
		[[items]]
		n = 2
	`)
	require.ErrorContains(t, err, "bad TOML") // table.deep makes table, which is then defined again
	require.Zero(t, f)
	f = wiretest.Must(decode(t, `
		name = "a" # a comment
		every = "5ms"
		sizes = [1, 0x10, 1_000]
		share = 1e3
		[table]
		deep.n = 7
		on = true
		addr = "2001:db8::1"
		rules = [{senders = "10.0.0.0/8"}, {senders = "::/0", n = 3}]
		[[items]]
		n = 1
		[[items]]
		n = 2
	`))(t)
	same, err := decode(t, `{"name": "a", "every": ["5ms", "5ms", "5ms"], "sizes": [1, 16, 1000], "share": 1000,
		"table": {"deep": {"n": 7}, "on": true, "addr": "2001:db8::1",
			"rules": [{"senders": "10.0.0.0/8"}, {"senders": "::/0", "n": 3}]},
		"items": [{"n": 1}, {"n": 2}]}`)
	require.NoError(t, err)
	require.Equal(t, same, f)
	require.Equal(t, [3]time.Duration{5e6, 5e6, 5e6}, f.Every)
	require.Equal(t, 3, f.Table.Rules[1].N)
}

// Every error names the key and the line.
func TestWhere(t *testing.T) {
	for _, c := range []struct{ name, message string }{
		{"name = 1", "line 1: name: 1: want text"},
		{"\n\nname = \"a\"\n\nsizes = [1, -1]", "line 5: sizes[1]: -1: want a whole number"},
		{"# a\n[table]\non = true\n\naddr = \"x\"", `line 5: table.addr: "x" is not an address`},
		{"[table]\nrules = [\n{n = 1},\n{m = 1}]", "line 2: table.rules[1].m: unknown key"},
		{"[[items]]\nn = 1\n[[items]]\nn = -2", "line 4: items[1].n: -2: want a whole number"},
		{"[items]\nn = 1", "items: an object: want a list"},
		{"[table]\n[table.deep]\nn = 1.0", "line 3: table.deep.n: 1e+00: want a whole number"},
		{"[table]\n\"on\" = false\ndeep = 1", "line 3: table.deep: 1: want an object"},
		{"[other]\nn = 1", "line 1: other: unknown key; known are name, every"},
		{"name = \"a\"\nname = \"b\"", "line 2: bad TOML: "},
		{"name = \n", "line 1: bad TOML: "},
		{"name = \"a\"\n[table]\n[table]", "line 3: bad TOML: "},
		{"share = inf", ": want a number"},
		{"share = nan", ": want a number"},
		{"name = 2026-11-23", "line 1: name: 2026-11-23: want text"},
		{"every = \"-1s\"", `line 1: every: "-1s" is negative`},
		{"every = [\"1s\", \"2s\"]", "line 1: every: a list of 2: want one value or a list of 3"},
		{"every = [\"1s\", \"2s\", 3]", "line 1: every[2]: a duration is text"},
		{"sizes = [4294967296]", "line 1: sizes[0]: 4294967296: want a whole number"},
		{"a = " + strings.Repeat("[", 100_000), "bad TOML: "},
		{"[table]\n[[items]]\n[items.deep]\nn = 1", "line 3: items[0].deep: unknown key"},
		{"[[items]]\n[[items]]\nsenders = \"10.0.0.0\"\n#", `line 3: items[1].senders: "10.0.0.0": want a prefix`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := decode(t, c.name)
			require.ErrorContains(t, err, c.message)
		})
	}
}

// TestBadJSON checks that the error for invalid JSON names the line.
func TestBadJSON(t *testing.T) {
	for _, c := range []struct{ name, message string }{
		{"{", "line 1: bad JSON: "},
		{"{\n\n\"name\": x}", "line 3: bad JSON: "},
		{"{\"name\": \"\"}\n}", "line 2: bad JSON: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := decode(t, c.name)
			require.ErrorContains(t, err, c.message)
		})
	}
}

// A key that is too long and a value that is nested too deeply are rejected with their line, before they take memory.
func TestLongKeys(t *testing.T) {
	nested := func(begin, middle, end string) string {
		return strings.Repeat(begin, 9000) + middle + strings.Repeat(end, 9000)
	}
	const long = "…: a key of over 512 octets"
	for _, c := range []struct{ text, message string }{
		{"\nname = \"a\"\n" + strings.Repeat("a.", 40_000) + "a = 1", "line 3: a.a.a.a.a.a.a.a." + long},
		{"[[items]]\n[" + strings.Repeat("ab", 300) + "]\nn = 1", "line 2: abababababababab" + long},
		{"[[items]]\na = " + nested("[", "", "]"), "line 2: items[0].a[0][0]" + long},
		{"\na = " + nested("{a = ", "1", "}"), "line 2: a.a.a.a.a.a.a.a." + long},
		{nested(`{"a": `, "1", "}"), "a.a.a.a.a.a.a.a." + long},
		{`{"a": ` + nested("[", "", "]") + "}", "a[0][0][0][0][0]" + long},
		{strings.Repeat("a", 512) + " = 1", "unknown key"},
	} {
		t.Run(c.text, func(t *testing.T) {
			_, err := decode(t, c.text)
			require.Error(t, err)
			require.Contains(t, err.Error(), c.message)
		})
	}
}

// A byte order mark means nothing.
func TestByteOrderMark(t *testing.T) {
	for _, text := range []string{"name = \"a\"", `{"name": "a"}`} {
		f := wiretest.Must(decode(t, "\uFEFF"+text))(t)
		require.Equal(t, "a", f.Name)
	}
}

// A file may be of some size, but not without end.
func TestReadFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a.toml")
	require.NoError(t, os.WriteFile(name, make([]byte, maxSize), 0o600))
	octets, err := ReadFile(name)
	require.NoError(t, err)
	require.Len(t, octets, maxSize)
	_, err = ReadFile("/dev/zero")
	require.EqualError(t, err, "over 4 MiB, which no configuration has")
	_, err = ReadFile(name + "x")
	require.ErrorIs(t, err, fs.ErrNotExist)
}

// Read accepts or rejects any octets without a panic.
func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"name": "a", "items": [{"n": 1}]}`))
	f.Add([]byte("name = \"a\"\n[[items]]\nn = 1\n[table.deep]\n\"n\" = 1"))
	f.Fuzz(func(t *testing.T, octets []byte) {
		tree, err := Read(octets)
		if err != nil {
			return
		}
		var to file
		_ = tree.Decode(&to)
	})
}
