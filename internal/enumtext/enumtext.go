// Package enumtext prints and parses enumerations.
package enumtext

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/rocecn/rocecn/internal/wireerr"
)

// An Enum is an octet with a name.
type Enum interface {
	~uint8
	String() string
}

// Name returns the name of a value. For a value without a name it returns the type's name with the
// number, as in "Kind(9)".
func Name[T ~uint8 | ~uint16](v T, names []string, typ string) string {
	if int(v) < len(names) && names[v] != "" {
		return names[v]
	}
	return typ + "(" + strconv.Itoa(int(v)) + ")"
}

// Unmarshal sets to to the value that prints as text. The error names pkg, field, the text and the names, which have no
// parentheses.
func Unmarshal[T Enum](to *T, text []byte, pkg, field string) error {
	for v := range 256 {
		if T(v).String() == string(text) {
			*to = T(v)
			return nil
		}
	}
	var names []string
	for v := range 256 {
		if s := T(v).String(); !strings.ContainsRune(s, '(') {
			names = append(names, s)
		}
	}
	return wireerr.New(pkg, field, wanted(text, names), wireerr.Range)
}

// wanted returns the text of an error about a name that is none of these.
func wanted(text []byte, names []string) string {
	given := strconv.Quote(string(text))
	last := len(names) - 1
	if last < 1 || last > 20 {
		return given + ": unknown name"
	}
	return given + ": want " + strings.Join(names[:last], ", ") + " or " + names[last]
}

// OneOf sets to to the value of one of these texts. The error names the text and them.
func OneOf[T ~uint8](to *T, text []byte, texts []string) error {
	i := slices.Index(texts, string(text))
	if i < 0 {
		return errors.New(wanted(text, texts))
	}
	*to = T(i)
	return nil
}
