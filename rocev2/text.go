package rocev2

import (
	"encoding"

	"github.com/rocecn/rocecn/internal/enumtext"
)

// What is printed as text is read back, also in JSON and as a flag.
var (
	_ encoding.TextMarshaler   = LinkType(0)
	_ encoding.TextUnmarshaler = (*LinkType)(nil)
)

// MarshalText returns what String does.
func (l LinkType) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText sets l to the link type that String returns the text for.
func (l *LinkType) UnmarshalText(text []byte) error {
	return enumtext.Unmarshal(l, text, "rocev2", "link type")
}
