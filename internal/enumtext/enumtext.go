// Package enumtext reads the text that an enumeration prints.
package enumtext

import (
	"strconv"

	"github.com/rocecn/rocecn/internal/wireerr"
)

// An Enum is an octet with a name.
type Enum interface {
	~uint8
	String() string
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
	return wireerr.New(pkg, field, 0, strconv.Quote(string(text))+" is none", wireerr.Range)
}
