package message

import (
	"encoding"

	"github.com/rocecn/rocecn/internal/enumtext"
)

// What is printed as text is read back, also in JSON and as a flag.
var (
	_ encoding.TextMarshaler   = Kind(0)
	_ encoding.TextUnmarshaler = (*Kind)(nil)
	_ encoding.TextMarshaler   = Reach(0)
	_ encoding.TextUnmarshaler = (*Reach)(nil)
)

// MarshalText returns what String does.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText sets k to the kind that String returns the text for.
func (k *Kind) UnmarshalText(text []byte) error {
	return enumtext.Unmarshal(k, text, "message", "kind")
}

// MarshalText returns what String does.
func (r Reach) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText sets r to the reach that String returns the text for.
func (r *Reach) UnmarshalText(text []byte) error {
	return enumtext.Unmarshal(r, text, "message", "reach")
}
