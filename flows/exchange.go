package flows

import (
	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/cm"
)

// An exchange is what a message of connection management says of queue pairs.
type exchange struct {
	attribute cm.Attribute
	local     uint32 // communication id of whoever sends the message
	remote    uint32 // communication id of the other one
	qp        uint32 // local queue pair; of a DREQ the remote one
	psn       uint32 // the first one that comes to this queue pair
	mtu       uint32 // 0: not said
}

// decode sets e from the payload of a packet, and says whether that is such a
// message.
func (e *exchange) decode(h *bth.Headers, payload []byte) bool {
	if !cm.Carried(h.DestQP, h.DETH.SrcQP, h.DETH.QKey, payload) {
		return false
	}
	var head cm.Header
	body, err := head.Decode(payload)
	if err != nil {
		return false
	}
	switch head.Attribute {
	case cm.AttributeREQ:
		var m cm.REQ
		if _, err = m.Decode(body); err == nil {
			*e = exchange{head.Attribute, m.LocalCommID, 0, m.LocalQPN, m.StartingPSN, uint32(m.MTU())}
		}
	case cm.AttributeREP:
		var m cm.REP
		if _, err = m.Decode(body); err == nil {
			*e = exchange{head.Attribute, m.LocalCommID, m.RemoteCommID, m.LocalQPN, m.StartingPSN, 0}
			if m.LocalQPN == 0 { // as XRC has it
				e.qp = m.LocalEECN
			}
		}
	case cm.AttributeDREQ:
		var m cm.DREQ
		if _, err = m.Decode(body); err == nil {
			*e = exchange{head.Attribute, m.LocalCommID, m.RemoteCommID, m.RemoteQPN, 0, 0}
		}
	default:
		return false
	}
	return err == nil
}
