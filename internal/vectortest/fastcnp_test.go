package vectortest

import (
	"testing"

	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/rocev2"
)

// experimental are the option types in the vectors.
var experimental = fastcnp.CodePoints{Option1: fastcnp.ExperimentalType, Option2: fastcnp.ExperimentalType}

func TestFastCNP(t *testing.T) {
	run(t, "fastcnp", func(b []byte) (o outcome) {
		var p rocev2.Packet
		if err := p.DecodeIP(b); err != nil {
			return outcome{err: err}
		}
		n, err := experimental.FromPacket(&p)
		if err != nil {
			return outcome{err: err}
		}
		o.decoded = fields{
			"src": n.Src, "dst": n.Dst, "dest_qp": n.CNP.DestQP, "pkey": hexadecimal(n.CNP.PKey, 4),
			"option":      n.Option.Number,
			"option_type": hexadecimal(n.OptionType, 2), "offset": n.Offset, "original_dst": n.Option.OriginalDst,
			"origin": n.Origin().String(),
		}
		if n.Option.Number == 2 {
			o.decoded["ioam"] = traceFields(&n.Option.Trace)
		}
		o.deviates = n.Validate()
		o.encoded, o.err = p.AppendBinary(nil)
		return o
	})
}
