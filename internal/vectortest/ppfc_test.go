package vectortest

import (
	"testing"

	"github.com/rocecn/rocecn/ppfc"
)

func TestPPFC(t *testing.T) {
	run(t, "ppfc", func(b []byte) (o outcome) {
		var n ppfc.Notification
		if err := n.Decode(b); err != nil {
			return outcome{err: err}
		}
		o.decoded = fields{
			"pkey": hexadecimal(n.PKey, 4), "dest_qp": n.DestQP, "address": n.Congested, "flags": n.Flags,
			"type": n.Type.String(),
			"port": n.Port, "reserved": n.Extension.Reserved, "pause_us": n.Pause.Microseconds(),
		}
		o.deviates = n.Validate()
		o.encoded, o.err = n.AppendBinary(nil)
		return o
	})
}
