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
	if p.BTH.Opcode != bth.UDSendOnly || !cm.Carried(p.BTH.DestQP, p.BTH.DETH.SrcQP, p.BTH.DETH.QKey, p.Payload) {
		return h, nil, false
	}
	message, err := h.Decode(p.Payload)
	return h, message, err == nil
}

// cm prints the CM message that the packet carries, if it carries one.
func (p *humanPrinter) cm(f *finding) {
	h, b, ok := cmMessage(f.packet)
	if !ok {
		return
	}
	switch h.Attribute {
	case cm.AttributeREQ:
		var m cm.REQ
		m.Decode(b)
		p.word("CM REQ from qp=0x%06x expects psn=%d first", m.LocalQPN, m.StartingPSN)
		p.word("id=0x%08x", m.LocalCommID)
		p.word("%v %v > %v", m.ServiceID, m.Primary.LocalGID.Unmap(), m.Primary.RemoteGID.Unmap())
		p.word("%s mtu=%d", transportName(&m), m.MTU())
		p.ipData(m.ServiceID, m.PrivateData[:])
	case cm.AttributeMRA:
		var m cm.MRA
		m.Decode(b)
		p.cmIDs("MRA", m.LocalCommID, m.RemoteCommID)
	case cm.AttributeREJ:
		var m cm.REJ
		m.Decode(b)
		p.cmIDs("REJ", m.LocalCommID, m.RemoteCommID)
		p.text(m.Reason.String())
	case cm.AttributeREP:
		var m cm.REP
		m.Decode(b)
		p.word("CM REP from qp=0x%06x expects psn=%d first", m.LocalQPN, m.StartingPSN)
		p.word("id=0x%08x answers 0x%08x", m.LocalCommID, m.RemoteCommID)
	case cm.AttributeRTU:
		var m cm.RTU
		m.Decode(b)
		p.cmIDs("RTU", m.LocalCommID, m.RemoteCommID)
	case cm.AttributeDREQ:
		var m cm.DREQ
		m.Decode(b)
		p.cmIDs("DREQ", m.LocalCommID, m.RemoteCommID)
		p.word("ends qp=0x%06x", m.RemoteQPN)
	case cm.AttributeDREP:
		var m cm.DREP
		m.Decode(b)
		p.cmIDs("DREP", m.LocalCommID, m.RemoteCommID)
	case cm.AttributeSIDRREQ:
		var m cm.SIDRREQ
		m.Decode(b)
		p.word("CM SIDR_REQ id=0x%08x %v", m.RequestID, m.ServiceID)
		p.ipData(m.ServiceID, m.PrivateData[:])
	case cm.AttributeSIDRREP:
		var m cm.SIDRREP
		m.Decode(b)
		p.word("CM SIDR_REP id=0x%08x %v %v qp=0x%06x qkey=0x%08x", m.RequestID, m.Status, m.ServiceID, m.QPN, m.QKey)
	default:
		p.word("CM %v", h.Attribute)
	}
}

func (p *humanPrinter) cmIDs(name string, local, remote uint32) {
	p.word("CM %s id=0x%08x to 0x%08x", name, local, remote)
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
	h, message, ok := cmMessage(packet)
	if !ok {
		return b
	}
	b = append(b, `,"cm":{"message":"`...)
	b = append(b, h.Attribute.String()...)
	b = appendHexField(b, `","transaction":`, h.TransactionID, 16)
	switch h.Attribute {
	case cm.AttributeREQ:
		var m cm.REQ
		m.Decode(message)
		b = appendHexField(b, `,"local_comm_id":`, uint64(m.LocalCommID), 8)
		b = appendHexField(b, `,"service_id":`, uint64(m.ServiceID), 16)
		b = appendUint(b, `,"local_qp":`, m.LocalQPN)
		b = appendUint(b, `,"starting_psn":`, m.StartingPSN)
		b = append(b, `,"transport":"`...)
		b = append(b, transportName(&m)...)
		b = appendHexField(b, `","pkey":`, uint64(m.PKey), 4)
		b = appendUint(b, `,"mtu":`, uint(m.MTU()))
		b = appendAddr(b, `,"local_gid":`, m.Primary.LocalGID.Unmap())
		b = appendAddr(b, `,"remote_gid":`, m.Primary.RemoteGID.Unmap())
		b = appendIPData(b, m.ServiceID, m.PrivateData[:])
	case cm.AttributeMRA:
		var m cm.MRA
		m.Decode(message)
		b = appendCommIDs(b, m.LocalCommID, m.RemoteCommID)
	case cm.AttributeREJ:
		var m cm.REJ
		m.Decode(message)
		b = appendCommIDs(b, m.LocalCommID, m.RemoteCommID)
		b = appendUint(b, `,"reason":`, uint16(m.Reason))
		b = append(b, `,"reason_name":"`...)
		b = append(append(b, m.Reason.String()...), '"')
	case cm.AttributeREP:
		var m cm.REP
		m.Decode(message)
		b = appendCommIDs(b, m.LocalCommID, m.RemoteCommID)
		b = appendUint(b, `,"local_qp":`, m.LocalQPN)
		b = appendUint(b, `,"starting_psn":`, m.StartingPSN)
	case cm.AttributeRTU:
		var m cm.RTU
		m.Decode(message)
		b = appendCommIDs(b, m.LocalCommID, m.RemoteCommID)
	case cm.AttributeDREQ:
		var m cm.DREQ
		m.Decode(message)
		b = appendCommIDs(b, m.LocalCommID, m.RemoteCommID)
		b = appendUint(b, `,"remote_qp":`, m.RemoteQPN)
	case cm.AttributeDREP:
		var m cm.DREP
		m.Decode(message)
		b = appendCommIDs(b, m.LocalCommID, m.RemoteCommID)
	case cm.AttributeSIDRREQ:
		var m cm.SIDRREQ
		m.Decode(message)
		b = appendHexField(b, `,"request_id":`, uint64(m.RequestID), 8)
		b = appendHexField(b, `,"service_id":`, uint64(m.ServiceID), 16)
		b = appendHexField(b, `,"pkey":`, uint64(m.PKey), 4)
		b = appendIPData(b, m.ServiceID, m.PrivateData[:])
	case cm.AttributeSIDRREP:
		var m cm.SIDRREP
		m.Decode(message)
		b = appendHexField(b, `,"request_id":`, uint64(m.RequestID), 8)
		b = appendHexField(b, `,"service_id":`, uint64(m.ServiceID), 16)
		b = appendUint(b, `,"status":`, uint8(m.Status))
		b = append(b, `,"status_name":"`...)
		b = append(append(b, m.Status.String()...), '"')
		b = appendUint(b, `,"qp":`, m.QPN)
		b = appendHexField(b, `,"qkey":`, uint64(m.QKey), 8)
	}
	return append(b, '}')
}

func appendCommIDs(b []byte, local, remote uint32) []byte {
	b = appendHexField(b, `,"local_comm_id":`, uint64(local), 8)
	return appendHexField(b, `,"remote_comm_id":`, uint64(remote), 8)
}

func appendIPData(b []byte, service cm.ServiceID, private []byte) []byte {
	d, ok := ipData(service, private)
	if !ok {
		return b
	}
	b = appendUint(b, `,"ip_cm":{"version":`, d.IPVersion)
	b = appendUint(b, `,"src_port":`, d.SrcPort)
	b = appendAddr(b, `,"src":`, d.Src)
	b = appendAddr(b, `,"dst":`, d.Dst)
	return append(b, '}')
}
