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

// allKinds has a field of each kind. The keys of inner belong to the same object.
type allKinds struct {
	First string `json:"first"`
	inner
	Bool     bool          `json:"bool"`
	Float    float64       `json:"float"`
	Duration time.Duration `json:"duration"`
	Addr     netip.Addr    `json:"addr"`
	Prefix   netip.Prefix  `json:"prefix"`
	Last     *uint16       `json:"last"`
	hidden   int
}

type inner struct {
	U8    uint8     `json:"u8"`
	U16   uint16    `json:"u16"`
	U32   uint32    `json:"u32"`
	U64   uint64    `json:"u64"`
	Int   int       `json:"int"`
	Pair  [2]uint8  `json:"pair"`
	Text  addrText  `json:"text"`
	Texts []*uint16 `json:"texts"`
}

// addrText is a type with a text of its own.
type addrText struct{ text string }

func (a *addrText) UnmarshalText(b []byte) error {
	if a.text = string(b); a.text == "bad" {
		return fs.ErrInvalid
	}
	return nil
}

// Every kind of value has its own limits, and an error of its own for values of another type.
func TestEveryKind(t *testing.T) {
	number := uint16(65535)
	for _, c := range []struct {
		text string
		want allKinds
		err  string
	}{
		{text: `"duration": "0s"`},
		{text: `"duration": "1ns"`, want: allKinds{Duration: 1}},
		{text: `"duration": "-1ns"`, err: `duration: "-1ns": want 0s or more`},
		{text: `"duration": "1"`, err: `duration: "1": want a duration, as in "50us"`},
		{text: `"duration": 1`, err: `duration: want a duration as text, as in "50us"`},
		{text: `"addr": "192.0.2.1"`, want: allKinds{Addr: netip.AddrFrom4([4]byte{192, 0, 2, 1})}},
		{text: `"addr": "fe80::1%lo"`, err: `addr: "fe80::1%lo": want an address without a zone, not IPv4-mapped`},
		{text: `"addr": "::ffff:192.0.2.1"`,
			err: `addr: "::ffff:192.0.2.1": want an address without a zone, not IPv4-mapped`},
		{text: `"addr": true`, err: "addr: want an address as text"},
		{text: `"prefix": "192.0.2.1/24"`, want: allKinds{Prefix: netip.MustParsePrefix("192.0.2.0/24")}},
		{text: `"prefix": "::ffff:192.0.2.0/120"`,
			err: `prefix: "::ffff:192.0.2.0/120": want a prefix, as in "2001:db8::/32"`},
		{text: `"prefix": ["::/0"]`, err: "prefix: a list: want a prefix as text"},
		{text: `"text": "a"`, want: allKinds{inner: inner{Text: addrText{"a"}}}},
		{text: `"text": 1.50`, want: allKinds{inner: inner{Text: addrText{"1.50"}}}},
		{text: `"text": "bad"`, err: "text: invalid argument"},
		{text: `"text": null`, err: "text: null: want text"},
		{text: `"bool": true`, want: allKinds{Bool: true}},
		{text: `"bool": "true"`, err: `bool: "true": want true or false`},
		{text: `"first": "x"`, want: allKinds{First: "x"}},
		{text: `"first": {}`, err: "first: an object: want text"},
		{text: `"u8": 255, "u16": 65535, "u32": 4294967295, "u64": 18446744073709551615`,
			want: allKinds{inner: inner{U8: 255, U16: 65535, U32: 4294967295, U64: 18446744073709551615}}},
		{text: `"u8": 256`, err: "u8: 256: want a whole number from 0 to 255"},
		{text: `"u16": 65536`, err: "u16: 65536: want a whole number from 0 to 65535"},
		{text: `"u32": 4294967296`, err: "u32: 4294967296: want a whole number from 0 to 4294967295"},
		{text: `"u64": 18446744073709551616`,
			err: "u64: 18446744073709551616: want a whole number from 0 to 18446744073709551615"},
		{text: `"u64": "1"`, err: `u64: "1": want a number`},
		{text: `"int": 2147483647`, want: allKinds{inner: inner{Int: 2147483647}}},
		{text: `"int": 2147483648`, err: "int: 2147483648: want a whole number from 0 to 2147483647"},
		{text: `"int": -1`, err: "int: -1: want a whole number from 0 to 2147483647"},
		{text: `"int": "1"`, err: `int: "1": want a number`},
		{text: `"float": 0.25`, want: allKinds{Float: 0.25}},
		{text: `"float": -0.5`, err: "float: -0.5: want a number of 0 or more"},
		{text: `"float": 1e400`, err: "float: 1e400: want a number of 0 or more"},
		{text: `"float": "1"`, err: `float: "1": want a number`},
		{text: `"pair": 3`, want: allKinds{inner: inner{Pair: [2]uint8{3, 3}}}},
		{text: `"pair": [3, 4]`, want: allKinds{inner: inner{Pair: [2]uint8{3, 4}}}},
		{text: `"pair": [3, 400]`, err: "pair[1]: 400: want a whole number from 0 to 255"},
		{text: `"pair": 400`, err: "pair: 400: want a whole number from 0 to 255"},
		{text: `"pair": [3]`, err: "pair: a list of 1: want one value or a list of 2"},
		{text: `"texts": [65535]`, want: allKinds{inner: inner{Texts: []*uint16{&number}}}},
		{text: `"texts": 1`, err: "texts: 1: want a list"},
		{text: `"last": 65535`, want: allKinds{Last: &number}},
		{text: `"last": 65536`, err: "last: 65536: want a whole number from 0 to 65535"},
		{text: `"hidden": 1`, err: "hidden: unknown key; known are first, u8, u16, u32, u64, int, pair, text, texts, " +
			"bool, float, duration, addr, prefix, last"},
	} {
		t.Run(c.text, func(t *testing.T) {
			var got allKinds
			err := wiretest.Must(Read([]byte("{" + c.text + "}")))(t).Decode(&got)
			if c.err != "" {
				require.EqualError(t, err, c.err)
				require.Zero(t, got.hidden)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
	keys := []string{"first", "u8", "u16", "u32", "u64", "int", "pair", "text", "texts", "bool", "float", "duration",
		"addr", "prefix", "last"}
	require.Equal(t, keys, Keys(allKinds{}))
	require.Equal(t, keys, Keys(new(allKinds)))
}

// An error has the line and the key that are known.
func TestErrorText(t *testing.T) {
	for _, c := range []struct {
		err  Error
		want string
	}{
		{Error{Key: "a.b", Text: "text", Line: 7}, "line 7: a.b: text"}, {Error{Text: "text", Line: 7}, "line 7: text"},
		{Error{Key: "a.b", Text: "text"}, "a.b: text"}, {Error{Text: "text"}, "text"},
	} {
		require.EqualError(t, &c.err, c.want)
	}
}
