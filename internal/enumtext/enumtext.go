// Package enumtext prints enumerations and reads what they print.
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

// Name returns the name of a value, or, where it has none, the value behind the
// name of its type, as in "Kind(9)".
func Name[T ~uint8 | ~uint16](v T, names []string, typ string) string {
	if int(v) < len(names) && names[v] != "" {
		return names[v]
	}
	return typ + "(" + strconv.Itoa(int(v)) + ")"
}

// Unmarshal sets to to the value that prints as text. pkg and field are those
// of the error.
func Unmarshal[T Enum](to *T, text []byte, pkg, field string) error {
	for v := range 256 {
		if T(v).String() == string(text) {
			*to = T(v)
			return nil
		}
	}
	return wireerr.New(pkg, field, 0, "there is none that is called "+strconv.Quote(string(text)), wireerr.Range)
}

// OneOf sets to to the value of one of these texts. The error names them.
func OneOf[T ~uint8](to *T, text []byte, texts []string) error {
	i := slices.Index(texts, string(text))
	if i < 0 {
		last := len(texts) - 1
		return errors.New(strings.Join(texts[:last], ", ") + " or " + texts[last] + " needed")
	}
	*to = T(i)
	return nil
}
