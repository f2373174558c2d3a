package vectortest

import (
	"encoding/hex"
	"testing"

	"github.com/rocecn/rocecn/ipv6opt"
)

func TestOptions(t *testing.T) {
	run(t, "options", func(b []byte) (o outcome) {
		var h ipv6opt.Header
		if _, err := h.Decode(b); err != nil {
			return outcome{err: err}
		}
		options := []fields{}
		for option, err := range h.All() {
			if err != nil {
				return outcome{err: err}
			}
			if !option.Type.IsPadding() {
				options = append(options, fields{"type": hexadecimal(option.Type, 2), "offset": option.Offset,
					"data": hex.EncodeToString(option.Data)})
			}
		}
		o.decoded = fields{"next_header": h.NextHeader, "options": options}
		return o
	})
}
