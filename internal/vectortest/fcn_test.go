package vectortest

import (
	"testing"

	"github.com/rocecn/rocecn/fcn"
)

func TestFCN(t *testing.T) {
	run(t, "fcn", func(b []byte) (o outcome) {
		var m fcn.Message
		if err := m.Decode(b); err != nil {
			return outcome{err: err}
		}
		o.decoded = fields{"flow_label": m.FlowLabel, "level": m.Level, "reserved": m.Reserved}
		o.deviates = m.Validate()
		o.encoded, o.err = m.AppendBinary(nil)
		return o
	})
}
