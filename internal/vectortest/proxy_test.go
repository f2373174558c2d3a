package vectortest

import (
	"testing"

	"github.com/rocecn/rocecn/proxymsg"
)

func TestProxy(t *testing.T) {
	run(t, "proxy", func(b []byte) (o outcome) {
		var m proxymsg.Message
		if err := m.Decode(b, 0); err != nil {
			return outcome{err: err}
		}
		family := 4
		if m.Src.Is6() {
			family = 6
		}
		o.decoded = fields{
			"family": family, "src": m.Src, "dst": m.Dst, "protocol": m.Protocol, "src_port": m.SrcPort,
			"dst_port": m.DstPort,
			"level":    m.Level, "reserved": m.Reserved, "invoking_len": len(m.Invoking),
		}
		if h, err := m.BTH(); err == nil {
			o.decoded["invoking_dest_qp"] = h.DestQP
		}
		o.deviates = m.Validate()
		o.encoded, o.err = m.AppendBinary(nil)
		return o
	})
}
