package scenario

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/big"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/rocecn/rocecn/lab/sim"
)

// A KeyError means that a key of a scenario has an invalid value.
type KeyError struct {
	Key  string // as in traffic[0].size; empty for the whole scenario
	Text string
}

func (e *KeyError) Error() string {
	if e.Key == "" {
		return "the scenario: " + e.Text
	}
	return e.Key + ": " + e.Text
}

// A decoder sets values from JSON, key by key, so that errors name the key. Values without a key are not
// changed.
type decoder struct {
	keys  []string                   // the keys found, in order
	given map[string]json.RawMessage // their values
}

// addValue puts the given value before the text of an error.
func (d *decoder) addValue(err error) error {
	wrong, ok := err.(*KeyError)
	if !ok {
		return err
	}
	if value, ok := d.given[wrong.Key]; ok {
		wrong.Text = describeValue(value) + ": " + wrong.Text
	}
	return err
}

func (d *decoder) decodeValue(key string, text json.RawMessage, v reflect.Value) error {
	if key != "" {
		d.keys = append(d.keys, key)
		d.given[key] = text
	}
	if string(text) == "null" {
		return &KeyError{key, "null: want a value, or omit the key"}
	}
	if _, ok := v.Addr().Interface().(json.Unmarshaler); !ok {
		switch v.Kind() {
		case reflect.Struct:
			return d.decodeObject(key, text, v)
		case reflect.Slice, reflect.Array:
			return d.decodeList(key, text, v)
		}
	}
	err := json.Unmarshal(text, v.Addr().Interface())
	if _, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok && text[0] != '"' {
		return &KeyError{key, describeValue(text) + ": want a string"}
	}
	if wrong, ok := err.(*json.UnmarshalTypeError); ok {
		number, is := strings.CutPrefix(wrong.Value, "number ")
		size, negative := strings.CutPrefix(number, "-")
		whole := strings.Trim(size, "0123456789") == "" && !(negative && v.CanUint())
		switch {
		case !is || v.Kind() != reflect.Float64 && !whole: // another kind of value
		case negative:
			return &KeyError{key, number + " is too small"}
		default:
			return &KeyError{key, number + " is too large"}
		}
		return &KeyError{key, fmt.Sprintf("%s: want %s", describeValue(text), wantedText(v.Kind()))}
	}
	if err != nil {
		return &KeyError{key, err.Error()}
	}
	return nil
}

// describeValue returns a JSON value, or only the type of a list or an object.
func describeValue(text json.RawMessage) string {
	switch text[0] {
	case '{':
		return "an object"
	case '[':
		return "a list"
	}
	return string(text)
}

// wantedText describes the value of a key of this kind.
func wantedText(kind reflect.Kind) string {
	switch kind {
	case reflect.Bool:
		return "true or false"
	case reflect.Float64:
		return "a number"
	case reflect.Uint8, reflect.Uint64:
		return "a whole number that is not negative"
	case reflect.Int:
		return "a whole number"
	}
	return "a string"
}

func (d *decoder) decodeObject(key string, text json.RawMessage, v reflect.Value) error {
	members := json.NewDecoder(bytes.NewReader(text))
	if open, err := members.Token(); err != nil || open != json.Delim('{') {
		return &KeyError{key, describeValue(text) + ": want an object"}
	}
	fields := map[string]int{}
	var names []string
	for i := range v.NumField() {
		if name := v.Type().Field(i).Tag.Get("json"); name != "-" {
			fields[name] = i
			names = append(names, name)
		}
	}
	seen := map[string]bool{}
	for members.More() {
		token, err := members.Token()
		if err != nil {
			return &KeyError{key, err.Error()}
		}
		name := token.(string) // cannot fail: the JSON is valid
		var member json.RawMessage
		if err := members.Decode(&member); err != nil {
			return &KeyError{joinKey(key, name), err.Error()}
		}
		i, ok := fields[name]
		switch {
		case !ok:
			return &KeyError{joinKey(key, name), "unknown key: want " + strings.Join(names, ", ")}
		case seen[name]:
			return &KeyError{joinKey(key, name), "given twice"}
		}
		seen[name] = true
		if err := d.decodeValue(joinKey(key, name), member, v.Field(i)); err != nil {
			return err
		}
	}
	return nil
}

func joinKey(key, name string) string {
	if key == "" {
		return name
	}
	return key + "." + name
}

func (d *decoder) decodeList(key string, text json.RawMessage, v reflect.Value) error {
	var elements []json.RawMessage
	if json.Unmarshal(text, &elements) != nil {
		return &KeyError{key, describeValue(text) + ": want a list"}
	}
	switch {
	case v.Kind() == reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), len(elements), len(elements)))
	case len(elements) != v.Len():
		return &KeyError{key, fmt.Sprintf("a list of %d: want %d elements", len(elements), v.Len())}
	}
	for i, element := range elements {
		if err := d.decodeValue(fmt.Sprintf("%s[%d]", key, i), element, v.Index(i)); err != nil {
			return err
		}
	}
	return nil
}

// A Rate is written as "100G", "40M".
type Rate sim.Rate

// UnmarshalText reads a rate in bits a second.
func (r *Rate) UnmarshalText(text []byte) error {
	n, err := parseQuantity(string(text), "")
	if err == nil && (n < 1e3 || n > 1e14) {
		err = fmt.Errorf("%s: want 1K to 100T", text)
	}
	if err == nil && !isWhole(n) {
		err = fmt.Errorf("%s: want whole bits a second", text)
	}
	*r = Rate(math.Round(n))
	return err
}

// String returns a rate as scenarios have it.
func (r Rate) String() string {
	for _, unit := range []struct {
		of   Rate
		name string
	}{{1e9, "G"}, {1e6, "M"}, {1e3, "K"}} {
		if r%unit.of == 0 && r > 0 {
			return fmt.Sprintf("%d%s", r/unit.of, unit.name)
		}
	}
	return strconv.FormatUint(uint64(r), 10)
}

// MarshalText returns the same text as String.
func (r Rate) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// A Size is written as "64KB", "10MB", in octets; K is 1,000.
type Size int64

// UnmarshalText reads a size.
func (s *Size) UnmarshalText(text []byte) error {
	n, err := parseQuantity(string(text), "B")
	if err == nil && n > 1e12 {
		err = fmt.Errorf("%s: want at most 1TB", text)
	}
	if err == nil && !isWhole(n) {
		err = fmt.Errorf("%s: want whole octets", text)
	}
	*s = Size(math.Round(n))
	return err
}

// MarshalText returns the octets.
func (s Size) MarshalText() ([]byte, error) { return strconv.AppendInt(nil, int64(s), 10), nil }

// isWhole reports whether a number is whole, apart from the rounding error of a product such as 1.001·1000.
func isWhole(n float64) bool { return math.Abs(n-math.Round(n)) <= max(1e-3, n*1e-15) }

// parseQuantity reads digits, perhaps with a point, and K, M, G or T for thousands, and perhaps a unit after them.
func parseQuantity(given, suffix string) (float64, error) {
	unit, text := 1., strings.TrimSuffix(given, suffix)
	if i := strings.IndexByte("KMGT", lastByte(text)); i >= 0 {
		text = text[:len(text)-1]
		for range i + 1 {
			unit *= 1000
		}
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || strings.Trim(text, "0123456789.") != "" || n > 1e15 {
		return 0, fmt.Errorf("%q: want a quantity such as 64K or 100G", given)
	}
	return n * unit, nil
}

func lastByte(text string) byte {
	if text == "" {
		return ' '
	}
	return text[len(text)-1]
}

// A Time is written as "1.5us", "10ms".
type Time sim.Time

// UnmarshalText reads a duration.
func (t *Time) UnmarshalText(text []byte) error {
	d, err := time.ParseDuration(string(text))
	if err != nil || d < 0 || d > time.Hour {
		return fmt.Errorf("%q: want a duration of at most 1h, such as 600ns, 1.5us or 10ms", text)
	}
	if !isExact(string(text), d) {
		return fmt.Errorf("%q: want whole nanoseconds", text)
	}
	*t = Time(sim.From(d))
	return nil
}

var part = regexp.MustCompile(`([0-9.]+)([^0-9.]+)`)

// isExact reports whether a duration equals its text: [time.ParseDuration] drops fractions of a nanosecond.
func isExact(text string, d time.Duration) bool {
	sum := new(big.Rat)
	for _, p := range part.FindAllStringSubmatch(text, -1) {
		n, ok := new(big.Rat).SetString(p[1])
		unit, err := time.ParseDuration("1" + p[2])
		if !ok || err != nil {
			return false
		}
		sum.Add(sum, n.Mul(n, new(big.Rat).SetInt64(int64(unit))))
	}
	return sum.Cmp(new(big.Rat).SetInt64(int64(d))) == 0
}

// MarshalText returns the duration as scenarios have it.
func (t Time) MarshalText() ([]byte, error) { return []byte(duration(t).String()), nil }

func (t Time) sim() sim.Time { return sim.Time(t) }

// errorLine returns the line of a JSON syntax error, from 1 on; the last line if the text ends too early.
func errorLine(text []byte, err error) int {
	at := int64(len(text))
	if wrong, ok := err.(*json.SyntaxError); ok {
		at = min(wrong.Offset, at)
	}
	return 1 + bytes.Count(bytes.TrimRight(text[:at], "\n"), []byte("\n"))
}

// Read reads a scenario. Keys that are missing have the values of Default. The error is a *[KeyError] if a key
// is wrong.
func Read(text []byte) (*Scenario, error) {
	file := json.NewDecoder(bytes.NewReader(text))
	var whole json.RawMessage
	if err := file.Decode(&whole); err != nil {
		return nil, fmt.Errorf("not JSON: %w, in line %d", err, errorLine(text, err))
	}
	if _, err := file.Token(); err != io.EOF {
		return nil, fmt.Errorf("there is more after the scenario, in line %d",
			1+bytes.Count(text[:file.InputOffset()], []byte("\n")))
	}
	var head struct{ Reaction struct{ Kind string } }
	_ = json.Unmarshal(whole, &head) // the decoder finds the error
	s, d := DefaultOf(head.Reaction.Kind), decoder{given: map[string]json.RawMessage{}}
	if err := d.decodeValue("", whole, reflect.ValueOf(s).Elem()); err != nil {
		return nil, err
	}
	if err := s.checkScenario(); err != nil {
		return s, d.addValue(err)
	}
	return s, s.checkUseless(d.keys)
}
