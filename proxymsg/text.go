package proxymsg

import (
	"encoding"

	"github.com/rocecn/rocecn/internal/enumtext"
)

// What is printed as text is read back, also in JSON and as a flag.
var (
	_ encoding.TextMarshaler   = Family(0)
	_ encoding.TextUnmarshaler = (*Family)(nil)
)

// MarshalText returns what String does.
func (f Family) MarshalText() ([]byte, error) { return []byte(f.String()), nil }

// UnmarshalText sets f to the family that String returns the text for.
func (f *Family) UnmarshalText(text []byte) error {
	return enumtext.Unmarshal(f, text, "proxymsg", "family")
}
