package fastcnp

import (
	"encoding"

	"github.com/rocecn/rocecn/internal/enumtext"
)

// What is printed as text is read back, also in JSON and as a flag.
var (
	_ encoding.TextMarshaler   = Origin(0)
	_ encoding.TextUnmarshaler = (*Origin)(nil)
	_ encoding.TextMarshaler   = Choice(0)
	_ encoding.TextUnmarshaler = (*Choice)(nil)
)

// MarshalText returns what String does.
func (o Origin) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// UnmarshalText sets o to the origin that String returns the text for.
func (o *Origin) UnmarshalText(text []byte) error {
	return enumtext.Unmarshal(o, text, "fastcnp", "origin")
}

// MarshalText returns what String does.
func (c Choice) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText sets c to the choice that String returns the text for.
func (c *Choice) UnmarshalText(text []byte) error {
	return enumtext.Unmarshal(c, text, "fastcnp", "choice")
}
