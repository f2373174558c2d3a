package inspect

import (
	"net/netip"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/cm"
	"github.com/rocecn/rocecn/rocev2"
)

// cmMessage returns the header of the CM message that the packet carries, and
// its octets, if it carries one.
func cmMessage(p *rocev2.Packet) (h cm.Header, message []byte, ok bool) {
	h, message, ok = cm.Carried(p.BTH.DestQP, p.BTH.DETH.SrcQP, p.BTH.DETH.QKey, p.Payload, len(p.Payload))
	return h, message, ok && p.BTH.Opcode == bth.UDSendOnly
}

// decoded returns the CM message M in octets, all of which follow the header.
func decoded[M any, P interface {
	*M
	Decode([]byte) ([]byte, error)
}](octets []byte) (m M) {
	P(&m).Decode(octets)
	return m
}

// cm prints the CM message that the packet carries, if it carries one.
func (p *humanPrinter) cm(f *finding) {
	h, octets, ok := cmMessage(f.packet)
	if !ok {
		return
	}
	switch h.Attribute {
	case cm.AttributeREQ:
		m := decoded[cm.REQ](octets)
		p.word("CM REQ from qp=0x%06x expects psn=%d first", m.LocalQPN, m.StartingPSN)
		p.word("id=0x%08x", m.LocalCommID)
		p.word("%v %v > %v", m.ServiceID, m.Primary.LocalGID.Unmap(), m.Primary.RemoteGID.Unmap())
		p.word("%s mtu=%d", transportName(&m), m.MTU())
		p.ipData(m.ServiceID, m.PrivateData[:])
	case cm.AttributeREP:
		m := decoded[cm.REP](octets)
		p.word("CM REP from qp=0x%06x expects psn=%d first", m.LocalQPN, m.StartingPSN)
		p.word("id=0x%08x answers 0x%08x", m.LocalCommID, m.RemoteCommID)
	case cm.AttributeMRA, cm.AttributeREJ, cm.AttributeRTU, cm.AttributeDREQ, cm.AttributeDREP:
		local, remote := commIDs(octets)
		p.word("CM %v id=0x%08x to 0x%08x", h.Attribute, local, remote)
		switch h.Attribute {
		case cm.AttributeREJ:
			p.text(decoded[cm.REJ](octets).Reason.String())
		case cm.AttributeDREQ:
			p.word("ends qp=0x%06x", decoded[cm.DREQ](octets).RemoteQPN)
		}
	case cm.AttributeSIDRREQ:
		m := decoded[cm.SIDRREQ](octets)
		p.word("CM SIDR_REQ id=0x%08x %v", m.RequestID, m.ServiceID)
		p.ipData(m.ServiceID, m.PrivateData[:])
	case cm.AttributeSIDRREP:
		m := decoded[cm.SIDRREP](octets)
		p.word("CM SIDR_REP id=0x%08x %v %v qp=0x%06x qkey=0x%08x", m.RequestID, m.Status, m.ServiceID, m.QPN, m.QKey)
	default:
		p.word("CM %v", h.Attribute)
	}
}

// commIDs returns the communication IDs of both sides, with which every message
// begins that answers another one. RTU has nothing else.
func commIDs(octets []byte) (local, remote uint32) {
	m := decoded[cm.RTU](octets)
	return m.LocalCommID, m.RemoteCommID
}

// ipData prints the addresses that the application connects.
func (p *humanPrinter) ipData(service cm.ServiceID, private []byte) {
	if d, ok := ipData(service, private); ok {
		p.word("for %v > %v", netip.AddrPortFrom(d.Src, d.SrcPort), d.Dst)
	}
}

// ipData returns what the private data of the RDMA IP CM service says.
func ipData(service cm.ServiceID, private []byte) (d cm.IPData, ok bool) {
	if _, _, ok = service.IP(); !ok {
		return d, false
	}
	_, err := d.Decode(private)
	return d, err == nil && d.Validate() == nil
}

func transportName(m *cm.REQ) string {
	switch {
	case m.TransportType < cm.TransportExtended:
		return bth.Transport(m.TransportType).String()
	case m.ExtendedTransport == cm.ExtendedXRC:
		return bth.TransportXRC.String()
	}
	return "extended"
}

// appendCM appends the key cm, if the packet carries such a message.
func appendCM(b []byte, packet *rocev2.Packet) []byte {
	h, octets, ok := cmMessage(packet)
	if !ok {
		return b
	}
	b = appendText(b, `,"cm":{"message":"`, h.Attribute.String())
	b = appendHexField(b, `,"transaction":"0x`, h.TransactionID, 16)
	switch h.Attribute {
	case cm.AttributeMRA, cm.AttributeREJ, cm.AttributeREP, cm.AttributeRTU, cm.AttributeDREQ, cm.AttributeDREP:
		local, remote := commIDs(octets)
		b = appendHexField(b, `,"local_comm_id":"0x`, local, 8)
		b = appendHexField(b, `,"remote_comm_id":"0x`, remote, 8)
	}
	switch h.Attribute {
	case cm.AttributeREQ:
		m := decoded[cm.REQ](octets)
		b = appendHexField(b, `,"local_comm_id":"0x`, m.LocalCommID, 8)
		b = appendHexField(b, `,"service_id":"0x`, m.ServiceID, 16)
		b = appendUint(b, `,"local_qp":`, m.LocalQPN)
		b = appendUint(b, `,"starting_psn":`, m.StartingPSN)
		b = appendText(b, `,"transport":"`, transportName(&m))
		b = appendHexField(b, `,"pkey":"0x`, m.PKey, 4)
		b = appendUint(b, `,"mtu":`, uint(m.MTU()))
		b = appendAddr(b, `,"local_gid":"`, m.Primary.LocalGID.Unmap())
		b = appendAddr(b, `,"remote_gid":"`, m.Primary.RemoteGID.Unmap())
		b = appendIPData(b, m.ServiceID, m.PrivateData[:])
	case cm.AttributeREJ:
		m := decoded[cm.REJ](octets)
		b = appendUint(b, `,"reason":`, m.Reason)
		b = appendText(b, `,"reason_name":"`, m.Reason.String())
	case cm.AttributeREP:
		m := decoded[cm.REP](octets)
		b = appendUint(b, `,"local_qp":`, m.LocalQPN)
		b = appendUint(b, `,"starting_psn":`, m.StartingPSN)
	case cm.AttributeDREQ:
		b = appendUint(b, `,"remote_qp":`, decoded[cm.DREQ](octets).RemoteQPN)
	case cm.AttributeSIDRREQ:
		m := decoded[cm.SIDRREQ](octets)
		b = appendHexField(b, `,"request_id":"0x`, m.RequestID, 8)
		b = appendHexField(b, `,"service_id":"0x`, m.ServiceID, 16)
		b = appendHexField(b, `,"pkey":"0x`, m.PKey, 4)
		b = appendIPData(b, m.ServiceID, m.PrivateData[:])
	case cm.AttributeSIDRREP:
		m := decoded[cm.SIDRREP](octets)
		b = appendHexField(b, `,"request_id":"0x`, m.RequestID, 8)
		b = appendHexField(b, `,"service_id":"0x`, m.ServiceID, 16)
		b = appendUint(b, `,"status":`, m.Status)
		b = appendText(b, `,"status_name":"`, m.Status.String())
		b = appendUint(b, `,"qp":`, m.QPN)
		b = appendHexField(b, `,"qkey":"0x`, m.QKey, 8)
	}
	return append(b, '}')
}

func appendIPData(b []byte, service cm.ServiceID, private []byte) []byte {
	d, ok := ipData(service, private)
	if !ok {
		return b
	}
	b = appendUint(b, `,"ip_cm":{"version":`, d.IPVersion)
	b = appendUint(b, `,"src_port":`, d.SrcPort)
	b = appendAddr(b, `,"src":"`, d.Src)
	b = appendAddr(b, `,"dst":"`, d.Dst)
	return append(b, '}')
}
