package vectortest

import (
	"encoding"
	"testing"

	"github.com/rocecn/rocecn/cm"
	"github.com/rocecn/rocecn/internal/wireerr"
)

func TestCM(t *testing.T) {
	run(t, "cm", func(b []byte) (o outcome) {
		var h cm.Header
		message, err := h.Decode(b)
		if err != nil {
			return outcome{err: err}
		}
		var m encoding.BinaryAppender
		switch h.Attribute {
		case cm.AttributeREQ:
			var r cm.REQ
			_, err = r.Decode(message)
			m = &r
			o.decoded = fields{
				"local_comm_id": r.LocalCommID, "local_qpn": r.LocalQPN, "starting_psn": r.StartingPSN,
				"transport": r.TransportType,
				"pkey":      hexadecimal(r.PKey, 4), "mtu": r.PathMTU, "local_gid": r.Primary.LocalGID,
				"remote_gid": r.Primary.RemoteGID,
			}
		case cm.AttributeREP:
			var r cm.REP
			_, err = r.Decode(message)
			m = &r
			o.decoded = fields{"local_comm_id": r.LocalCommID, "remote_comm_id": r.RemoteCommID,
				"local_qpn": r.LocalQPN, "starting_psn": r.StartingPSN}
		case cm.AttributeRTU:
			var r cm.RTU
			_, err = r.Decode(message)
			m = &r
			o.decoded = fields{"local_comm_id": r.LocalCommID, "remote_comm_id": r.RemoteCommID}
		case cm.AttributeDREQ:
			var r cm.DREQ
			_, err = r.Decode(message)
			m = &r
			o.decoded = fields{"local_comm_id": r.LocalCommID, "remote_comm_id": r.RemoteCommID,
				"remote_qpn": r.RemoteQPN}
		case cm.AttributeDREP:
			var r cm.DREP
			_, err = r.Decode(message)
			m = &r
			o.decoded = fields{"local_comm_id": r.LocalCommID, "remote_comm_id": r.RemoteCommID}
		default:
			return outcome{err: wireerr.Other} // the header says so, no decoder is asked
		}
		if err != nil {
			return outcome{err: err}
		}
		o.decoded = with(o.decoded, fields{"message": h.Attribute.String(),
			"transaction_id": hexadecimal(h.TransactionID, 16)})
		o.deviates = h.Validate()
		o.encoded, err = h.AppendBinary(nil)
		if err == nil {
			o.encoded, o.err = m.AppendBinary(o.encoded)
		}
		return o
	})
}
