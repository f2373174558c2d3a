package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// NewJSON returns an encoder of JSON in which characters that a terminal may interpret, such as the control characters
// U+0080 to U+009F and those of bidirectional text, are escaped: the names of hosts come from the network.
func NewJSON(w io.Writer) *json.Encoder { return json.NewEncoder(jsonEscaper{w}) }

// A jsonEscaper passes on whole values of JSON with unprintable characters escaped.
type jsonEscaper struct{ w io.Writer }

// Write implements io.Writer.
func (e jsonEscaper) Write(b []byte) (int, error) {
	if _, err := e.w.Write(EscapeJSON(b)); err != nil {
		return 0, err
	}
	return len(b), nil
}

// EscapeJSON returns JSON with the same values, in which unprintable characters are escaped. It returns b if there are
// none.
func EscapeJSON(b []byte) []byte {
	for i := 0; i < len(b); {
		if b[i] < utf8.RuneSelf {
			i++
			continue
		}
		r, n := utf8.DecodeRune(b[i:])
		if r >= utf8.RuneSelf && !unicode.IsPrint(r) {
			return appendEscaped(append([]byte(nil), b[:i]...), b[i:])
		}
		i += n
	}
	return b
}

func appendEscaped(to, b []byte) []byte {
	for _, r := range string(b) {
		switch {
		case r < utf8.RuneSelf || unicode.IsPrint(r):
			to = utf8.AppendRune(to, r)
		case r > 0xFFFF:
			high, low := utf16.EncodeRune(r)
			to = fmt.Appendf(to, `\u%04x\u%04x`, high, low)
		default:
			to = fmt.Appendf(to, `\u%04x`, r)
		}
	}
	return to
}
