package bth

import (
	"encoding"

	"github.com/rocecn/rocecn/internal/enumtext"
)

// What is printed as text is read back, also in JSON and as a flag.
var (
	_ encoding.TextMarshaler   = Opcode(0)
	_ encoding.TextUnmarshaler = (*Opcode)(nil)
	_ encoding.TextMarshaler   = Transport(0)
	_ encoding.TextUnmarshaler = (*Transport)(nil)
)

// MarshalText returns what String does.
func (o Opcode) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// UnmarshalText sets o to the opcode that String returns the text for.
func (o *Opcode) UnmarshalText(text []byte) error {
	return enumtext.Unmarshal(o, text, "bth", "opcode")
}

// MarshalText returns what String does.
func (t Transport) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText sets t to the transport that String returns the text for.
func (t *Transport) UnmarshalText(text []byte) error {
	return enumtext.Unmarshal(t, text, "bth", "transport")
}
