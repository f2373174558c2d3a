// Package config reads configuration files in TOML or JSON. It is strict, so that a misspelt key cannot leave a guard
// off. Keys are the json tags of Go structs, letter by letter. A repeated key and null are errors. Every error names
// the key, in TOML also the line; a syntax error names the line.
package config

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/netip"
	"os"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// An Error is an error of a configuration, with its place.
type Error struct {
	Key  string // as in methods[0].senders; empty for the configuration as a whole
	Text string
	Line int // of the file, 0 where it is not known
}

func (e *Error) Error() string {
	switch {
	case e.Line > 0 && e.Key != "":
		return fmt.Sprintf("line %d: %s: %s", e.Line, e.Key, e.Text)
	case e.Line > 0:
		return fmt.Sprintf("line %d: %s", e.Line, e.Text)
	case e.Key != "":
		return e.Key + ": " + e.Text
	}
	return e.Text
}

// Wrong returns an error about the value of a key.
func Wrong(key, format string, args ...any) error {
	return &Error{Key: key, Text: fmt.Sprintf(format, args...)}
}

// A Tree is a part of a configuration file, in most cases an object, that is to be
// given to a struct.
type Tree struct {
	key   string // where it stands in the file
	value any    // nil, bool, json.Number, string, []any, object, or a type that only TOML has
	lines map[string]int
}

// maxSize and maxKey are the maximum numbers of octets of a file, and of a key, written from the top on: keys that are
// nested are kept with all that is around them.
const (
	maxSize = 4 << 20
	maxKey  = 512
)

// ReadFile returns the content of the file of this name, or an error if it is too long for a configuration.
func ReadFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	octets, err := io.ReadAll(io.LimitReader(f, maxSize+1))
	if err == nil && len(octets) > maxSize {
		err = Wrong("", "over %d MiB, which no configuration has", maxSize>>20)
	}
	return octets, err
}

// checkKey rejects a key, written from the top on, that is too long.
func checkKey(key string, line int) error {
	if len(key) <= maxKey {
		return nil
	}
	begin := strings.ToValidUTF8(key[:16], "")
	return &Error{Key: begin + "…", Text: fmt.Sprintf("a key of over %d octets", maxKey), Line: line}
}

// Read reads a file: JSON if it begins with a brace, else TOML. A byte order mark may come first.
func Read(octets []byte) (*Tree, error) {
	octets = bytes.TrimPrefix(octets, []byte("\uFEFF"))
	if bytes.HasPrefix(bytes.TrimLeft(octets, " \t\r\n"), []byte("{")) {
		return ReadJSON(octets)
	}
	return readTOML(octets)
}

// ReadJSON reads a JSON value.
func ReadJSON(octets []byte) (*Tree, error) {
	var syntax json.RawMessage
	if err := json.Unmarshal(octets, &syntax); err != nil {
		wrong := &Error{Text: "bad JSON: " + err.Error()}
		var at *json.SyntaxError
		if errors.As(err, &at) {
			wrong.Line = 1 + bytes.Count(octets[:at.Offset], []byte("\n"))
		}
		return nil, wrong
	}
	d := json.NewDecoder(bytes.NewReader(octets))
	d.UseNumber()
	value, err := readValue(d, "")
	if err != nil {
		return nil, err
	}
	return &Tree{value: value}, nil
}

// IsTOML reports whether the file was TOML.
func (t *Tree) IsTOML() bool { return t.lines != nil }

// Members returns the parts of an object by their names, in the order of the file.
func (t *Tree) Members() (names []string, parts []*Tree, err error) {
	o, ok := t.value.(object)
	if !ok {
		return nil, nil, t.LocateError(Wrong("", "%s: want an object", describeValue(t.value)))
	}
	for _, m := range o {
		names = append(names, m.key)
		parts = append(parts, &Tree{Join(t.key, m.key), m.value, t.lines})
	}
	return names, parts, nil
}

// Elements returns the parts of a list, and false for other values.
func (t *Tree) Elements() (parts []*Tree, ok bool) {
	list, ok := t.value.([]any)
	for i, e := range list {
		parts = append(parts, &Tree{Index(t.key, i), e, t.lines})
	}
	return parts, ok
}

// Decode sets the structs that to points to: each key is one of one of them.
//
// A field is a bool, a number, a string, a [time.Duration] (written as Go
// writes it, never negative), a [netip.Addr] (without zone, not IPv4-mapped), a
// [netip.Prefix], other types that unmarshal text, a struct, a pointer to, a slice
// or an array of any of these; one value is one for all elements of an array.
// Fields of an embedded struct count as the struct's own.
func (t *Tree) Decode(to ...any) error {
	structs := make([]reflect.Value, len(to))
	for i := range to {
		structs[i] = reflect.ValueOf(to[i]).Elem()
	}
	return t.LocateError(setStructs("", t.value, structs...))
}

// Set sets the value that to points to, as Decode sets a field.
func (t *Tree) Set(to any) error {
	return t.LocateError(setValue("", t.value, reflect.ValueOf(to).Elem()))
}

// LocateError returns an error with the place in the file: err is about a key below t.
func (t *Tree) LocateError(err error) error {
	var wrong *Error
	if t == nil || !errors.As(err, &wrong) {
		return err
	}
	at := &Error{Key: t.key, Text: wrong.Text, Line: wrong.Line}
	if t.key == "" || wrong.Key != "" {
		at.Key = Join(t.key, wrong.Key)
	}
	if at.Line == 0 {
		at.Line = lineOf(t.lines, at.Key)
	}
	return at
}

// lineOf returns the line of a key, or of the table around it.
func lineOf(lines map[string]int, key string) int {
	for {
		if line, ok := lines[key]; ok || key == "" {
			return line
		}
		key = key[:max(strings.LastIndexAny(key, ".["), 0)]
	}
}

// An object is a JSON object with its keys in order.
type object []member

type member struct {
	key   string
	value any // nil, bool, json.Number, string, []any or object
}

// readValue reads the value of a key out of JSON with valid syntax.
func readValue(d *json.Decoder, key string) (any, error) {
	if err := checkKey(key, 0); err != nil {
		return nil, err
	}
	t, err := d.Token()
	switch t {
	case json.Delim('{'):
		o, names := object{}, map[string]bool{}
		for d.More() {
			name, _ := d.Token()
			m := member{key: name.(string)}
			if names[m.key] {
				return nil, Wrong(Join(key, m.key), "given twice")
			}
			names[m.key] = true
			if m.value, err = readValue(d, Join(key, m.key)); err != nil {
				return nil, err
			}
			o = append(o, m)
		}
		_, err = d.Token()
		return o, err
	case json.Delim('['):
		list := []any{}
		for d.More() {
			v, err := readValue(d, Index(key, len(list)))
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err = d.Token()
		return list, err
	}
	return t, err
}

// Join returns the key of a member of the object that key names.
func Join(key, name string) string {
	if key == "" {
		return name
	}
	return key + "." + name
}

// Index returns the key of an element of the list that key names.
func Index(key string, i int) string { return fmt.Sprintf("%s[%d]", key, i) }

// setValue sets v from a JSON value.
func setValue(key string, value any, v reflect.Value) error {
	switch p := v.Addr().Interface().(type) {
	case *time.Duration:
		s, ok := value.(string)
		if !ok {
			return Wrong(key, `want a duration as text, as in "50us"`)
		}
		d, err := time.ParseDuration(s)
		if err != nil {
			return Wrong(key, `%q: want a duration, as in "50us"`, s)
		}
		if d < 0 {
			return Wrong(key, "%q: want 0s or more", s)
		}
		*p = d
		return nil
	case *netip.Addr:
		s, ok := value.(string)
		if !ok {
			return Wrong(key, "want an address as text")
		}
		a, err := netip.ParseAddr(s)
		if err != nil || a.Zone() != "" || a.Is4In6() {
			return Wrong(key, "%q: want an address without a zone, not IPv4-mapped", s)
		}
		*p = a
		return nil
	case *netip.Prefix:
		s, ok := value.(string)
		if !ok {
			return Wrong(key, "%s: want a prefix as text", describeValue(value))
		}
		a, err := netip.ParsePrefix(s)
		if err != nil || a.Addr().Is4In6() {
			return Wrong(key, `%q: want a prefix, as in "2001:db8::/32"`, s)
		}
		*p = a.Masked()
		return nil
	case encoding.TextUnmarshaler:
		s, ok := value.(string)
		if n, number := value.(json.Number); number {
			s, ok = n.String(), true
		}
		if !ok {
			return Wrong(key, "%s: want text", describeValue(value))
		}
		if err := p.UnmarshalText([]byte(s)); err != nil {
			return Wrong(key, "%v", err)
		}
		return nil
	}
	switch v.Kind() {
	case reflect.Pointer:
		p := reflect.New(v.Type().Elem())
		if err := setValue(key, value, p.Elem()); err != nil {
			return err
		}
		v.Set(p)
	case reflect.Bool:
		b, ok := value.(bool)
		if !ok {
			return Wrong(key, "%s: want true or false", describeValue(value))
		}
		v.SetBool(b)
	case reflect.String:
		s, ok := value.(string)
		if !ok {
			return Wrong(key, "%s: want text", describeValue(value))
		}
		v.SetString(s)
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		n, ok := value.(json.Number)
		if !ok {
			return Wrong(key, "%s: want a number", describeValue(value))
		}
		u, err := strconv.ParseUint(n.String(), 10, v.Type().Bits())
		if err != nil {
			return Wrong(key, "%v: want a whole number from 0 to %d", n, uint64(math.MaxUint64)>>(64-v.Type().Bits()))
		}
		v.SetUint(u)
	case reflect.Int:
		n, ok := value.(json.Number)
		if !ok {
			return Wrong(key, "%s: want a number", describeValue(value))
		}
		i, err := strconv.ParseInt(n.String(), 10, 32)
		if err != nil || i < 0 {
			return Wrong(key, "%v: want a whole number from 0 to %d", n, math.MaxInt32)
		}
		v.SetInt(i)
	case reflect.Float64:
		n, ok := value.(json.Number)
		if !ok {
			return Wrong(key, "%s: want a number", describeValue(value))
		}
		f, err := n.Float64()
		if err != nil || f < 0 {
			return Wrong(key, "%v: want a number of 0 or more", n)
		}
		v.SetFloat(f)
	case reflect.Slice:
		list, ok := value.([]any)
		if !ok {
			return Wrong(key, "%s: want a list", describeValue(value))
		}
		all := reflect.MakeSlice(v.Type(), len(list), len(list))
		for i := range list {
			if err := setValue(Index(key, i), list[i], all.Index(i)); err != nil {
				return err
			}
		}
		v.Set(all)
	case reflect.Array:
		list, ok := value.([]any)
		switch {
		case !ok: // one for all of them
			for i := range v.Len() {
				if err := setValue(key, value, v.Index(i)); err != nil {
					return err
				}
			}
			return nil
		case len(list) != v.Len():
			return Wrong(key, "a list of %d: want one value or a list of %d", len(list), v.Len())
		}
		for i := range list {
			if err := setValue(Index(key, i), list[i], v.Index(i)); err != nil {
				return err
			}
		}
	case reflect.Struct:
		return setStructs(key, value, v)
	default:
		panic("config: a configuration cannot hold a " + v.Type().String())
	}
	return nil
}

// describeValue returns a value as an error names it.
func describeValue(value any) string {
	switch v := value.(type) {
	case nil:
		return "null"
	case string:
		return strconv.Quote(v)
	case []any:
		return "a list"
	case object:
		return "an object"
	}
	return fmt.Sprint(value)
}

// setStructs sets structs from an object; each of its keys belongs to one of them.
func setStructs(key string, value any, structs ...reflect.Value) error {
	o, ok := value.(object)
	if !ok {
		return Wrong(key, "%s: want an object", describeValue(value))
	}
	for _, m := range o {
		var f reflect.Value
		for i := 0; i < len(structs) && !f.IsValid(); i++ {
			f = findField(structs[i], m.key)
		}
		if !f.IsValid() {
			var known []string
			for _, v := range structs {
				known = append(known, fieldKeys(v.Type())...)
			}
			return Wrong(Join(key, m.key), "unknown key; known are %s", strings.Join(known, ", "))
		}
		if err := setValue(Join(key, m.key), m.value, f); err != nil {
			return err
		}
	}
	for _, v := range structs {
		if c, ok := v.Addr().Interface().(interface{ Check(key string) error }); ok {
			if err := c.Check(key); err != nil {
				return err
			}
		}
	}
	return nil
}

// findField returns the field of a struct that has this key, the zero Value when
// none has.
func findField(v reflect.Value, key string) reflect.Value {
	for i := range v.NumField() {
		switch t := v.Type().Field(i); {
		case t.Anonymous:
			if f := findField(v.Field(i), key); f.IsValid() {
				return f
			}
		case t.Tag.Get("json") == key && key != "":
			return v.Field(i)
		}
	}
	return reflect.Value{}
}

// Keys returns the keys of a struct, of which this is a value or a pointer to one.
func Keys(of any) []string {
	t := reflect.TypeOf(of)
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return fieldKeys(t)
}

func fieldKeys(t reflect.Type) (all []string) {
	for i := range t.NumField() {
		if f := t.Field(i); f.Anonymous {
			all = append(all, fieldKeys(f.Type)...)
		} else if key := f.Tag.Get("json"); key != "" {
			all = append(all, key)
		}
	}
	return all
}
