package qplearn

import (
	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/cm"
	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/internal/flowtable"
	"github.com/rocecn/rocecn/rocev2"
)

// An Observation has the fields of a packet that a Map can learn from. It has no pointers.
type Observation struct {
	Flow     flowtable.Key // the packet's own, with its final destination
	SrcPort  uint16        // UDP
	PKey     uint16
	Opcode   bth.Opcode
	Syndrome bth.Syndrome // of the AETH
	AckReq   bool
	SrcQP    uint32 // of the DETH
	PSN      uint32
	DMA      uint32 // DMA length of the RETH, octets
	Payload  uint32 // octets, without pad
	Rejected bool   // the packet has a wrong ICRC, so that its receiver drops it

	CM Exchange // of a packet of connection management
}

// Set fills all of o from a packet in a domain. It verifies the ICRC of responses and of connection
// management, which are the evidence for pairs, unless the packet is truncated or was not decoded
// from octets. Set reports whether a Map can learn from the packet: not if it is trimmed or lacks a header that a Map
// reads.
func (o *Observation) Set(p *rocev2.Packet, domain uint32) bool {
	*o = Observation{
		Flow:    flowtable.KeyOf(p.Src, p.FinalDst(), p.BTH.DestQP&flowtable.MaxQP, domain),
		SrcPort: p.SrcPort, PKey: p.BTH.PKey, Opcode: p.BTH.Opcode, Syndrome: p.BTH.AETH.Syndrome, AckReq: p.BTH.AckReq,
		SrcQP: p.BTH.DETH.SrcQP, PSN: p.BTH.PSN, DMA: p.BTH.RETH.DMALength,
	}
	if n := p.PayloadLen(); n > 0 {
		o.Payload = uint32(n)
	}
	management := p.BTH.DestQP == cm.QP
	if management {
		o.CM.Set(p)
	}
	if (management || response(o.Opcode)) && !p.Truncated && len(p.IP) > 0 {
		_, err := icrc.Verify(p.IP)
		o.Rejected = err != nil
	}
	return !p.Truncated || !lacksEvidence(p)
}

// lacksEvidence reports whether a truncated packet is a trimmed one, or lacks the extended headers that a Map reads.
func lacksEvidence(p *rocev2.Packet) bool {
	op := p.BTH.Opcode
	missing := op.Headers() &^ p.BTH.Present
	return p.Trimmed || missing.Has(bth.HasAETH) || missing.Has(bth.HasDETH) ||
		missing != 0 && op.Operation() == bth.OpRDMAReadRequest
}

// An Exchange has the fields of a message of connection management that describe queue pairs. The
// zero value stands for a packet that is none of these messages.
type Exchange struct {
	Attribute cm.Attribute // REQ, REP, DREQ, DREP or REJ; 0: none of these
	Local     uint32       // communication id of the message's sender
	Remote    uint32       // communication id of its receiver
	QP        uint32       // local queue pair of a REQ or REP, remote one of a DREQ
	EECN      uint32       // of a REP: Local EE Context Number, for XRC the local queue pair
	PSN       uint32       // of a REQ or REP: Starting PSN, the first that its sender will receive
	PKey      uint16       // of a REQ
	MTU       uint16       // of a REQ: octets; 0: not given
	Transport bth.Transport
}

// Set fills x if the packet carries such a message, and reports whether it does. It also reads
// truncated packets, as far as they go: a REQ needs the first 138 octets of an Ethernet frame over
// IPv4, 158 over IPv6.
func (x *Exchange) Set(p *rocev2.Packet) bool {
	*x = Exchange{}
	sent := len(p.Payload)
	if p.Truncated {
		sent = p.PayloadLen()
	}
	h, message, ok := cm.DecodePayload(&p.BTH, p.Payload, sent)
	if !ok {
		return false
	}
	whole, err := h.Attribute.Fill(message)
	if err != nil {
		return false
	}
	switch h.Attribute {
	case cm.AttributeREQ:
		if !x.setREQ(whole[:]) {
			return false
		}
	case cm.AttributeREP:
		var m cm.REP
		m.Decode(whole[:])
		x.Local, x.Remote, x.QP, x.EECN, x.PSN = m.LocalCommID, m.RemoteCommID, m.LocalQPN, m.LocalEECN, m.StartingPSN
	case cm.AttributeDREQ:
		var m cm.DREQ
		m.Decode(whole[:])
		x.Local, x.Remote, x.QP = m.LocalCommID, m.RemoteCommID, m.RemoteQPN
	case cm.AttributeDREP, cm.AttributeREJ:
		var m cm.DREP // which has the ids where a REJ has them
		m.Decode(whole[:])
		x.Local, x.Remote = m.LocalCommID, m.RemoteCommID
	default:
		return false
	}
	x.Attribute = h.Attribute
	return true
}

// setREQ fills x from a REQ, unless its transport is not RC, UC or XRC.
func (x *Exchange) setREQ(message []byte) bool {
	var m cm.REQ
	m.Decode(message)
	switch {
	case m.TransportType == cm.TransportTypeRC:
		x.Transport = bth.TransportRC
	case m.TransportType == cm.TransportTypeUC:
		x.Transport = bth.TransportUC
	case m.TransportType == cm.TransportTypeExtended && m.ExtendedTransport == cm.ExtendedTransportXRC:
		x.Transport = bth.TransportXRC
	default:
		return false
	}
	x.Local, x.QP, x.PSN = m.LocalCommID, m.LocalQPN, m.StartingPSN
	x.PKey, x.MTU = m.PKey, m.MTU()
	return true
}

// psns returns the number of PSNs that a request uses: a READ uses one for each response packet,
// and these have the size of the path MTU. With mtu 0, not known, it returns the smallest and the
// largest possible number.
func (o *Observation) psns(mtu uint16) (least, most uint32) {
	if o.Opcode.Operation() != bth.OpRDMAReadRequest {
		return 1, 1
	}
	if mtu != 0 {
		n := bth.ReadPSNs(o.DMA, mtu)
		return n, n
	}
	return bth.ReadPSNs(o.DMA, 4096), bth.ReadPSNs(o.DMA, 256)
}

// asks reports whether a request requires a response.
func (o *Observation) asks() bool {
	switch o.Opcode.Operation() {
	case bth.OpRDMAReadRequest, bth.OpCmpSwap, bth.OpFetchAdd:
		return true
	}
	return o.AckReq
}

// continues reports whether the packet is a response to a READ other than the first or only one:
// its PSN is within the READ's range, but is not the READ's own.
func (o *Observation) continues() bool {
	op := o.Opcode.Operation()
	return op == bth.OpRDMAReadResponseMiddle || op == bth.OpRDMAReadResponseLast
}

func (o *Observation) refuses() bool { // reports whether the packet is a NAK or an RNR NAK
	return o.Opcode.Operation() == bth.OpAcknowledge && o.Syndrome.Type() != bth.SyndromeACK
}
