package scenario

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rocecn/rocecn/lab/sim"
)

// A KeyError says which key of a scenario is wrong.
type KeyError struct {
	Key  string // as in traffic[0].size
	Text string
}

func (e *KeyError) Error() string { return e.Key + ": " + e.Text }

// decode sets v from JSON, key by key, so that an error names the key. What the
// JSON does not have stays.
func decode(key string, text json.RawMessage, v reflect.Value) error {
	if _, ok := v.Addr().Interface().(json.Unmarshaler); !ok {
		switch v.Kind() {
		case reflect.Struct:
			return decodeStruct(key, text, v)
		case reflect.Slice:
			return decodeSlice(key, text, v)
		}
	}
	err := json.Unmarshal(text, v.Addr().Interface())
	if _, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok && (len(text) == 0 || text[0] != '"') {
		return &KeyError{key, "a text in quotes belongs here"}
	}
	if wrong, ok := err.(*json.UnmarshalTypeError); ok {
		return &KeyError{key, fmt.Sprintf("a %s stands where a %s belongs", wrong.Value, v.Kind())}
	}
	if err != nil {
		return &KeyError{key, err.Error()}
	}
	return nil
}

func decodeStruct(key string, text json.RawMessage, v reflect.Value) error {
	var members map[string]json.RawMessage
	if json.Unmarshal(text, &members) != nil {
		return &KeyError{key, "an object belongs here"}
	}
	fields := map[string]int{}
	var names []string
	for i := range v.NumField() {
		name := v.Type().Field(i).Tag.Get("json")
		fields[name] = i
		names = append(names, name)
	}
	keys := make([]string, 0, len(members))
	for name := range members {
		keys = append(keys, name)
	}
	slices.Sort(keys)
	for _, name := range keys {
		i, ok := fields[name]
		if !ok {
			return &KeyError{join(key, name), "not known; there are " + strings.Join(names, ", ")}
		}
		if err := decode(join(key, name), members[name], v.Field(i)); err != nil {
			return err
		}
	}
	return nil
}

func join(key, name string) string {
	if key == "" {
		return name
	}
	return key + "." + name
}

func decodeSlice(key string, text json.RawMessage, v reflect.Value) error {
	var elements []json.RawMessage
	if json.Unmarshal(text, &elements) != nil {
		return &KeyError{key, "a list belongs here"}
	}
	v.Set(reflect.MakeSlice(v.Type(), len(elements), len(elements)))
	for i, element := range elements {
		if err := decode(fmt.Sprintf("%s[%d]", key, i), element, v.Index(i)); err != nil {
			return err
		}
	}
	return nil
}

// A Rate is written as "100G", "40M".
type Rate sim.Rate

// UnmarshalText reads a rate in bits a second.
func (r *Rate) UnmarshalText(text []byte) error {
	n, err := quantity(string(text))
	if err == nil && (n < 1e6 || n > 1e14) {
		err = fmt.Errorf("%s: from 1M to 100T needed", text)
	}
	*r = Rate(n)
	return err
}

// A Size is written as "64KB", "10MB", in octets; K is 1,000.
type Size int64

// UnmarshalText reads a size.
func (s *Size) UnmarshalText(text []byte) error {
	n, err := quantity(strings.TrimSuffix(string(text), "B"))
	if err == nil && n > 1e12 {
		err = fmt.Errorf("%s: 1TB at most", text)
	}
	*s = Size(n)
	return err
}

// quantity reads a number with K, M, G or T for thousands.
func quantity(text string) (float64, error) {
	unit := 1.
	if i := strings.IndexByte("KMGT", last(text)); i >= 0 {
		text = text[:len(text)-1]
		for range i + 1 {
			unit *= 1000
		}
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || !(n >= 0) || n > 1e15 {
		return 0, fmt.Errorf("%q is not a quantity such as 64K, 100G", text)
	}
	return n * unit, nil
}

func last(text string) byte {
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
		return fmt.Errorf("%q is not a duration such as 600ns, 1.5us, 10ms, of an hour at most", text)
	}
	*t = Time(sim.From(d))
	return nil
}

func (t Time) sim() sim.Time { return sim.Time(t) }

// Read reads a scenario, and what it does not say is as Default has it. An error is a
// *[KeyError] where a key is wrong.
func Read(text []byte) (*Scenario, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	var whole json.RawMessage
	if err := d.Decode(&whole); err != nil {
		return nil, fmt.Errorf("no JSON: %w", err)
	}
	if d.More() {
		return nil, fmt.Errorf("something stands behind the scenario")
	}
	s := Default()
	if err := decode("", whole, reflect.ValueOf(s).Elem()); err != nil {
		return nil, err
	}
	return s, s.check()
}
