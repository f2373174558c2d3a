package vectortest

import (
	"testing"

	"github.com/rocecn/rocecn/pfc"
)

func TestPFC(t *testing.T) {
	run(t, "pfc", func(b []byte) (o outcome) {
		if opcode, _ := pfc.Opcode(b); opcode == pfc.OpcodePause {
			var p pfc.Pause
			rest, err := p.Decode(b)
			if err != nil {
				return outcome{err: err}
			}
			o.decoded = fields{"opcode": "pause", "pause_quanta": p.Quanta}
			o.encoded, o.err = p.AppendBinary(nil)
			o.encoded = append(o.encoded, rest...)
			return o
		}
		var p pfc.PFC
		rest, err := p.Decode(b)
		if err != nil {
			return outcome{err: err}
		}
		enabled := []int{}
		for priority := range p.All() {
			enabled = append(enabled, priority)
		}
		o.decoded = fields{"opcode": "pfc", "enabled": enabled, "quanta": p.Quanta}
		o.deviates = p.Validate()
		o.encoded, o.err = p.AppendBinary(nil)
		o.encoded = append(o.encoded, rest...)
		return o
	})
}
