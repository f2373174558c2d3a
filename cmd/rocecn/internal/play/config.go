package play

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"math"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A keyError is what is wrong with a configuration, and where.
type keyError struct {
	key string // as in methods[0].senders; empty for the configuration as a whole
	why string
}

func (e *keyError) Error() string {
	if e.key == "" {
		return e.why
	}
	return e.key + ": " + e.why
}

// wrong returns an error about the value of a key.
func wrong(key, format string, args ...any) error {
	return &keyError{key, fmt.Sprintf(format, args...)}
}

// decode sets the struct that v points to from a JSON object. It is stricter
// than package json, for a slip in a configuration must not leave a guard off:
// keys are those of the json tags, letter by letter, none of them twice, null
// is no value, and every error names the key.
//
// A field is a bool, a number, a string, a [time.Duration] (written as Go
// writes it, never negative), one [byLevel], a [netip.Addr] (without zone, not IPv4-mapped), a
// [netip.Prefix], whatever else unmarshals text, a struct, a pointer to or a
// slice of any of these. Fields of an embedded struct count as the struct's own.
func decode(octets []byte, v any) error {
	var syntax json.RawMessage
	if err := json.Unmarshal(octets, &syntax); err != nil {
		return wrong("", "bad JSON: %v", err)
	}
	d := json.NewDecoder(bytes.NewReader(octets))
	d.UseNumber()
	value, err := readValue(d, "")
	if err != nil {
		return err
	}
	return set("", value, reflect.ValueOf(v).Elem())
}

// An object is a JSON object with its keys in order.
type object []member

type member struct {
	key   string
	value any // nil, bool, json.Number, string, []any or object
}

// readValue reads the value of a key out of JSON whose syntax is right.
func readValue(d *json.Decoder, key string) (any, error) {
	t, err := d.Token()
	switch t {
	case json.Delim('{'):
		o := object{}
		for d.More() {
			name, _ := d.Token()
			m := member{key: name.(string)}
			for _, before := range o {
				if before.key == m.key {
					return nil, wrong(join(key, m.key), "is given twice")
				}
			}
			if m.value, err = readValue(d, join(key, m.key)); err != nil {
				return nil, err
			}
			o = append(o, m)
		}
		_, err = d.Token()
		return o, err
	case json.Delim('['):
		list := []any{}
		for d.More() {
			v, err := readValue(d, index(key, len(list)))
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

// join returns the key of a member of the object that key names.
func join(key, name string) string {
	if key == "" {
		return name
	}
	return key + "." + name
}

// index returns the key of an element of the list that key names.
func index(key string, i int) string { return fmt.Sprintf("%s[%d]", key, i) }

// set sets v from a JSON value.
func set(key string, value any, v reflect.Value) error {
	switch p := v.Addr().Interface().(type) {
	case *time.Duration:
		s, ok := value.(string)
		if !ok {
			return wrong(key, `a duration is text, as in "50us"`)
		}
		d, err := time.ParseDuration(s)
		if err != nil {
			return wrong(key, `%q is not a duration, as in "50us"`, s)
		}
		if d < 0 {
			return wrong(key, "%q is negative", s)
		}
		*p = d
		return nil
	case *byLevel:
		list, ok := value.([]any)
		if !ok { // one for all levels
			list = slices.Repeat([]any{value}, len(p))
		}
		if len(list) != len(p) {
			return wrong(key, "a duration, or a list of %d, one a level", len(p))
		}
		for i := range p {
			at := key
			if ok {
				at = index(key, i)
			}
			if err := set(at, list[i], reflect.ValueOf(&p[i]).Elem()); err != nil {
				return err
			}
		}
		return nil
	case *netip.Addr:
		s, ok := value.(string)
		if !ok {
			return wrong(key, "an address is text")
		}
		a, err := netip.ParseAddr(s)
		if err != nil || a.Zone() != "" || a.Is4In6() {
			return wrong(key, "%q is not an address, or has a zone or is IPv4-mapped", s)
		}
		*p = a
		return nil
	case *netip.Prefix:
		s, ok := value.(string)
		if !ok {
			return wrong(key, "a prefix is text")
		}
		a, err := netip.ParsePrefix(s)
		if err != nil || a.Addr().Is4In6() {
			return wrong(key, `%q is not a prefix, as in "2001:db8::/32"`, s)
		}
		*p = a.Masked()
		return nil
	case encoding.TextUnmarshaler:
		s, ok := value.(string)
		if n, number := value.(json.Number); number {
			s, ok = n.String(), true
		}
		if !ok {
			return wrong(key, "text needed")
		}
		if err := p.UnmarshalText([]byte(s)); err != nil {
			return wrong(key, "%v", err)
		}
		return nil
	}
	switch v.Kind() {
	case reflect.Pointer:
		p := reflect.New(v.Type().Elem())
		if err := set(key, value, p.Elem()); err != nil {
			return err
		}
		v.Set(p)
	case reflect.Bool:
		b, ok := value.(bool)
		if !ok {
			return wrong(key, "true or false needed")
		}
		v.SetBool(b)
	case reflect.String:
		s, ok := value.(string)
		if !ok {
			return wrong(key, "text needed")
		}
		v.SetString(s)
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		n, ok := value.(json.Number)
		if !ok {
			return wrong(key, "a number needed")
		}
		u, err := strconv.ParseUint(n.String(), 10, v.Type().Bits())
		if err != nil {
			return wrong(key, "%v is not a whole number from 0 to %d", n, uint64(math.MaxUint64)>>(64-v.Type().Bits()))
		}
		v.SetUint(u)
	case reflect.Int:
		n, ok := value.(json.Number)
		if !ok {
			return wrong(key, "a number needed")
		}
		i, err := strconv.ParseInt(n.String(), 10, 32)
		if err != nil || i < 0 {
			return wrong(key, "%v is not a whole number from 0 to %d", n, math.MaxInt32)
		}
		v.SetInt(i)
	case reflect.Float64:
		n, ok := value.(json.Number)
		if !ok {
			return wrong(key, "a number needed")
		}
		f, err := n.Float64()
		if err != nil || f < 0 {
			return wrong(key, "%v is not a number of 0 or more", n)
		}
		v.SetFloat(f)
	case reflect.Slice:
		list, ok := value.([]any)
		if !ok {
			return wrong(key, "a list needed")
		}
		all := reflect.MakeSlice(v.Type(), len(list), len(list))
		for i := range list {
			if err := set(index(key, i), list[i], all.Index(i)); err != nil {
				return err
			}
		}
		v.Set(all)
	case reflect.Struct:
		o, ok := value.(object)
		if !ok {
			return wrong(key, "an object needed")
		}
		for _, m := range o {
			f := field(v, m.key)
			if !f.IsValid() {
				return wrong(join(key, m.key), "unknown key; known are %s", strings.Join(keys(v.Type()), ", "))
			}
			if err := set(join(key, m.key), m.value, f); err != nil {
				return err
			}
		}
		if c, ok := v.Addr().Interface().(interface{ check(key string) error }); ok {
			return c.check(key)
		}
	default:
		panic("play: a configuration cannot hold a " + v.Type().String())
	}
	return nil
}

// byLevel is a duration for each level of congestion, written as a list of eight or
// as one that holds at all levels.
type byLevel [8]time.Duration

// field returns the field of a struct that has this key, the zero Value when
// none has.
func field(v reflect.Value, key string) reflect.Value {
	for i := range v.NumField() {
		switch t := v.Type().Field(i); {
		case t.Anonymous:
			if f := field(v.Field(i), key); f.IsValid() {
				return f
			}
		case t.Tag.Get("json") == key && key != "":
			return v.Field(i)
		}
	}
	return reflect.Value{}
}

// keys returns the keys of a struct.
func keys(t reflect.Type) (all []string) {
	for i := range t.NumField() {
		if f := t.Field(i); f.Anonymous {
			all = append(all, keys(f.Type)...)
		} else if key := f.Tag.Get("json"); key != "" {
			all = append(all, key)
		}
	}
	return all
}
