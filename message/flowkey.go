package message

import "github.com/rocecn/rocecn/rocev2"

// FlowKey returns the key of the data flow that m belongs to or is about, in the direction of the data. It reports
// whether the key names one flow:
//
//	Data, Ack       the flow of the packet; an Ack belongs to the flow of its own direction
//	FastCNP, Proxy  the flow that the message names
//	PPFC            from the destination of the notification to the congested destination that it names; a PPFC sent
//	                to an ingress has the ingress in place of the sender
//	CNP             false, with the addresses of the flow and DestQP 0: a CNP carries only the sender's queue pair,
//	                CNP.DestQP
//	other kinds     false, with the zero key; a Proxy whose invoking packet has no BTH as well
//
// m must be complete and verified (see Decode) before a program relies on the key.
func (m *Message) FlowKey() (key rocev2.FlowKey, ok bool) {
	p := &m.Packet
	switch m.Kind {
	case KindData, KindAck:
		return p.FlowKey()
	case KindFastCNP:
		return m.FastCNP.FlowKey(), true
	case KindPPFC:
		return rocev2.FlowKey{Src: p.Dst, Dst: m.PPFC.Congested, DestQP: p.BTH.DestQP}, true
	case KindProxy:
		key, err := m.Proxy.FlowKey()
		return key, err == nil
	case KindCNP:
		return rocev2.FlowKey{Src: p.FinalDst(), Dst: p.Src}, false
	}
	return rocev2.FlowKey{}, false
}
