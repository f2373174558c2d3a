package inspect

import (
	"cmp"
	"fmt"
	"net/netip"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/cm"
	"github.com/rocecn/rocecn/rocev2"
)

// decodeMessage returns the CM message M in octets, which are all that follow the header.
func decodeMessage[M any, P interface {
	*M
	Decode([]byte) ([]byte, error)
}](octets []byte) (m M) {
	P(&m).Decode(octets)
	return m
}

// formatCM returns the text and the JSON object for the CM message in a packet, if it carries one. A truncated message
// has only the fields that the capture kept; if that does not include the queue pair, only its name is returned.
func formatCM(p *rocev2.Packet) (text, object string, ok bool) {
	h, there, ok := cm.DecodePayload(&p.BTH, p.Payload, p.PayloadLen())
	if !ok {
		return "", "", false
	}
	whole, err := h.Attribute.Fill(there)
	if err != nil {
		return "CM " + h.Attribute.String(),
			fmt.Sprintf(`{"message":"%v","transaction":"0x%016x"}`, h.Attribute, h.TransactionID), true
	}
	octets := whole[:]
	// Those that answer another message begin with the communication IDs of both sides. RTU has nothing else.
	ids := decodeMessage[cm.RTU](octets)
	text = fmt.Sprintf("CM %v id=0x%08x to 0x%08x", h.Attribute, ids.LocalCommID, ids.RemoteCommID)
	object = fmt.Sprintf(`,"local_comm_id":"0x%08x","remote_comm_id":"0x%08x"`, ids.LocalCommID, ids.RemoteCommID)
	switch h.Attribute {
	case cm.AttributeREQ:
		m := decodeMessage[cm.REQ](octets)
		gids, members := "", ""
		local, remote := m.Primary.LocalGID.Unmap(), m.Primary.RemoteGID.Unmap()
		if !p.Truncated || !local.IsUnspecified() {
			gids = fmt.Sprintf(" %v > %v", local, remote)
			members = fmt.Sprintf(`,"local_gid":"%v","remote_gid":"%v"`, local, remote)
		}
		service, ip := ipData(m.ServiceID, m.PrivateData[:])
		text = fmt.Sprintf("CM REQ from qp=0x%06x expects psn=%d first  id=0x%08x  %v%s  %s mtu=%d%s", m.LocalQPN,
			m.StartingPSN, m.LocalCommID, m.ServiceID, gids, transportName(&m), m.MTU(), service)
		object = fmt.Sprintf(`,"local_comm_id":"0x%08x","service_id":"0x%016x","local_qp":%d,"starting_psn":%d`+
			`,"transport":"%s","pkey":"0x%04x","mtu":%d%s%s`, m.LocalCommID,
			uint64(m.ServiceID), m.LocalQPN, m.StartingPSN, transportName(&m), m.PKey, m.MTU(), members, ip)
	case cm.AttributeREP:
		m := decodeMessage[cm.REP](octets)
		qp := cmp.Or(m.LocalQPN, m.LocalEECN) // for XRC the second one
		text = fmt.Sprintf("CM REP from qp=0x%06x expects psn=%d first  id=0x%08x answers 0x%08x", qp,
			m.StartingPSN, m.LocalCommID, m.RemoteCommID)
		object += fmt.Sprintf(`,"local_qp":%d,"starting_psn":%d`, qp, m.StartingPSN)
	case cm.AttributeREJ:
		m := decodeMessage[cm.REJ](octets)
		text += "  " + m.Reason.String()
		object += fmt.Sprintf(`,"reason":%d,"reason_name":"%v"`, m.Reason, m.Reason)
	case cm.AttributeDREQ:
		m := decodeMessage[cm.DREQ](octets)
		text += fmt.Sprintf("  ends qp=0x%06x", m.RemoteQPN)
		object += fmt.Sprintf(`,"remote_qp":%d`, m.RemoteQPN)
	case cm.AttributeSIDRREQ:
		m := decodeMessage[cm.SIDRREQ](octets)
		service, ip := ipData(m.ServiceID, m.PrivateData[:])
		text = fmt.Sprintf("CM SIDR_REQ id=0x%08x %v%s", m.RequestID, m.ServiceID, service)
		object = fmt.Sprintf(`,"request_id":"0x%08x","service_id":"0x%016x","pkey":"0x%04x"%s`, m.RequestID,
			uint64(m.ServiceID), m.PKey, ip)
	case cm.AttributeSIDRREP:
		m := decodeMessage[cm.SIDRREP](octets)
		text = fmt.Sprintf("CM SIDR_REP id=0x%08x %v %v qp=0x%06x qkey=0x%08x", m.RequestID, m.Status, m.ServiceID,
			m.QPN, m.QKey)
		object = fmt.Sprintf(`,"request_id":"0x%08x","service_id":"0x%016x","status":%d,"status_name":"%v","qp":%d`+
			`,"qkey":"0x%08x"`, m.RequestID, uint64(m.ServiceID), m.Status, m.Status, m.QPN, m.QKey)
	}
	return text, fmt.Sprintf(`{"message":"%v","transaction":"0x%016x"%s}`, h.Attribute, h.TransactionID, object), true
}

// ipData returns the addresses that the application connects, of which the private data of the RDMA IP CM service
// says: to people, and as a member of a JSON object. Other services have none.
func ipData(service cm.ServiceID, private []byte) (text, member string) {
	var d cm.IPData
	if _, _, ok := service.IP(); !ok {
		return "", ""
	}
	if _, err := d.Decode(private); err != nil || d.Validate() != nil {
		return "", ""
	}
	return fmt.Sprintf("  for %v > %v", netip.AddrPortFrom(d.Src, d.SrcPort), d.Dst),
		fmt.Sprintf(`,"ip_cm":{"version":%d,"src_port":%d,"src":"%v","dst":"%v"}`, d.IPVersion, d.SrcPort, d.Src, d.Dst)
}

func transportName(m *cm.REQ) string {
	switch {
	case m.TransportType < cm.TransportTypeExtended:
		return bth.Transport(m.TransportType).String()
	case m.ExtendedTransport == cm.ExtendedTransportXRC:
		return bth.TransportXRC.String()
	}
	return "extended"
}
