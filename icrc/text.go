package icrc

import (
	"encoding"

	"github.com/rocecn/rocecn/internal/enumtext"
)

// What is printed as text is read back, also in JSON and as a flag.
var (
	_ encoding.TextMarshaler   = Coverage(0)
	_ encoding.TextUnmarshaler = (*Coverage)(nil)
)

// MarshalText returns what String does.
func (c Coverage) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText sets c to the coverage that String returns the text for.
func (c *Coverage) UnmarshalText(text []byte) error {
	return enumtext.Unmarshal(c, text, "icrc", "coverage")
}
