package ioam

import (
	"encoding"

	"github.com/rocecn/rocecn/internal/enumtext"
)

// What is printed as text is read back, also in JSON and as a flag.
var (
	_ encoding.TextMarshaler   = OptType(0)
	_ encoding.TextUnmarshaler = (*OptType)(nil)
)

// MarshalText returns what String does.
func (t OptType) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText sets t to the type that String returns the text for.
func (t *OptType) UnmarshalText(text []byte) error {
	return enumtext.Unmarshal(t, text, "ioam", "type")
}
