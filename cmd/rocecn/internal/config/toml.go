package config

import (
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// readTOML reads a TOML document.
func readTOML(octets []byte) (*Tree, error) {
	var document map[string]any
	if err := toml.Unmarshal(octets, &document); err != nil {
		var at *toml.DecodeError
		if !errors.As(err, &at) {
			return nil, Wrong("", "bad TOML: %v", err)
		}
		line, _ := at.Position()
		return nil, &Error{Text: "bad TOML: " + at.Error(), Line: line}
	}
	lines, err := linesOf(octets)
	if err != nil {
		return nil, err
	}
	value, err := orderTable(document, "", lines)
	if err != nil {
		return nil, err
	}
	return &Tree{lines: lines, value: value}, nil
}

// orderTable returns a value of TOML as one of JSON, with keys in the order of the file.
func orderTable(value any, key string, lines map[string]int) (any, error) {
	if err := checkKey(key, lineOf(lines, key)); err != nil {
		return nil, err
	}
	switch v := value.(type) {
	case map[string]any:
		o := object{}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			value, err := orderTable(v[name], Join(key, name), lines)
			if err != nil {
				return nil, err
			}
			o = append(o, member{name, value})
		}
		slices.SortStableFunc(o, func(a, b member) int {
			return cmp.Compare(lines[Join(key, a.key)], lines[Join(key, b.key)])
		})
		return o, nil
	case []any:
		list := make([]any, len(v))
		for i := range v {
			value, err := orderTable(v[i], Index(key, i), lines)
			if err != nil {
				return nil, err
			}
			list[i] = value
		}
		return list, nil
	case int64:
		return json.Number(strconv.FormatInt(v, 10)), nil
	case float64:
		if !math.IsNaN(v) && !math.IsInf(v, 0) {
			return json.Number(strconv.FormatFloat(v, 'e', -1, 64)), nil // which is no whole number
		}
	}
	return value, nil // dates, times, inf and nan are nothing that a field could be set from
}

// linesOf returns the lines where the keys of a document stand, as far as they are
// not in an inline table.
func linesOf(octets []byte) (map[string]int, error) {
	lines := map[string]int{}
	elements := map[string]int{} // of arrays of tables
	table := ""
	var p unstable.Parser
	p.Reset(octets)
	line, at := 1, 0
	for p.NextExpression() {
		e := p.Expression()
		key := table
		if e.Kind == unstable.Table || e.Kind == unstable.ArrayTable {
			key = ""
		}
		for parts := e.Key(); parts.Next(); {
			part := parts.Node()
			for begin := int(part.Raw.Offset); at < begin; at++ {
				if octets[at] == '\n' {
					line++
				}
			}
			key = Join(key, string(part.Data))
			if err := checkKey(key, line); err != nil {
				return nil, err
			}
			if _, ok := lines[key]; !ok {
				lines[key] = line
			}
			if n := elements[key]; n > 0 && !(e.Kind == unstable.ArrayTable && parts.IsLast()) {
				key = Index(key, n-1) // the last one is meant
			}
		}
		switch e.Kind {
		case unstable.ArrayTable:
			elements[key]++
			table = Index(key, elements[key]-1)
			lines[table] = line
		case unstable.Table:
			table = key
		}
	}
	return lines, nil
}
