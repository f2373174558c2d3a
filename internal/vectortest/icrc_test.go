package vectortest

import (
	"slices"
	"testing"

	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/rocev2"
)

func TestICRC(t *testing.T) {
	run(t, "icrc", func(b []byte) (o outcome) {
		var p rocev2.Packet
		if err := p.DecodeIP(b); err != nil {
			return outcome{err: err}
		}
		coverage, err := icrc.Verify(b)
		if err != nil {
			return outcome{err: err}
		}
		o.decoded = fields{"value": hexadecimal(p.ICRC, 8), "coverage": coverage.String()}
		o.encoded = slices.Clone(b)
		o.err = icrc.Write(o.encoded, coverage)
		return o
	})
}
