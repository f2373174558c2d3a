package config

import (
	"io/fs"
	"net/netip"
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
	const good = `
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
	`
	// table.deep makes table, which is then defined again
	f, err := decode(t, strings.Replace(good, "[table]", "table.deep.n = 7\n[table]", 1))
	require.ErrorContains(t, err, "bad TOML")
	require.Zero(t, f)
	f = wiretest.Must(decode(t, good))(t)
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
	cases := append(wiretest.Cases(t, "wrong.txt", `\n`, "\n"),
		[]string{"a = " + strings.Repeat("[", 100_000), "bad TOML: "})
	for _, c := range cases {
		t.Run(c[1], func(t *testing.T) {
			_, err := decode(t, c[0])
			require.ErrorContains(t, err, c[1])
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
	name := wiretest.File(t, "a.toml", make([]byte, maxSize))
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

// Errors in parts of an object name the whole key.
func TestKeysOfParts(t *testing.T) {
	part := wiretest.Must(Read([]byte(`{"role": {"proxy": {"n": "x"}}}`)))(t)
	for _, want := range []string{"role", "proxy"} {
		names, parts, err := part.Members()
		require.NoError(t, err)
		require.Equal(t, []string{want}, names)
		part = parts[0]
	}
	require.ErrorContains(t, part.Decode(new(map1)), "role.proxy.n: ")
}
