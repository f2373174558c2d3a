package rocelayers

import (
	"encoding"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"

	"github.com/rocecn/rocecn/cm"
)

// CM is a message of connection management (IBTA chapter 12), with which hosts
// tell each other their queue pairs. UD SEND Only carries it, so a [BTH] layer
// with a DETH stands before it.
//
// Contents is the header and the message.
type CM struct {
	layers.BaseLayer
	final
	cm.Header

	// Message is the message of the type that Attribute names: a *cm.REQ, *cm.MRA, *cm.REJ, *cm.REP, *cm.RTU, *cm.DREQ,
	// *cm.DREP, *cm.SIDRREQ or *cm.SIDRREP. A decoded Message is part of the layer and valid as long as the layer.
	Message encoding.BinaryAppender

	req     cm.REQ
	mra     cm.MRA
	rej     cm.REJ
	rep     cm.REP
	rtu     cm.RTU
	dreq    cm.DREQ
	drep    cm.DREP
	sidrReq cm.SIDRREQ
	sidrRep cm.SIDRREP
}

// carriesCM reports whether the payload of l is a message of connection management that package cm knows.
func (l *BTH) carriesCM() bool {
	h, _, ok := cm.DecodePayload(&l.Headers, l.Payload, len(l.Payload))
	return ok && h.Attribute.IsKnown()
}

// DecodeFromBytes sets l from a management datagram of 256 octets, which it
// aliases. Other lengths and unknown attributes are errors. On error the exported
// fields are unchanged.
func (l *CM) DecodeFromBytes(data []byte, df gopacket.DecodeFeedback) error {
	var h cm.Header
	octets, err := h.Decode(data)
	if err != nil {
		return refuse(err, df)
	}
	if len(octets) > cm.MessageSize {
		return errCMSize
	}
	if !h.Attribute.IsKnown() {
		return errCMAttribute
	}
	messages := [...]interface { // by Attribute
		encoding.BinaryAppender
		Decode([]byte) ([]byte, error)
	}{&l.req, &l.mra, &l.rej, &l.rep, &l.rtu, &l.dreq, &l.drep, &l.sidrReq, &l.sidrRep}
	m := messages[h.Attribute-cm.AttributeREQ]
	if _, err := m.Decode(octets); err != nil {
		return refuse(err, df)
	}
	l.BaseLayer = layers.BaseLayer{Contents: data}
	l.Header, l.Message = h, m
	return nil
}

// SerializeTo prepends the header and Message, which must be of the type that Attribute names.
func (l *CM) SerializeTo(b gopacket.SerializeBuffer, opts gopacket.SerializeOptions) error {
	switch a := attribute(l.Message); {
	case a == 0:
		return errCMAttribute
	case a != l.Attribute:
		return errCMMessage
	}
	var buf [cm.Size]byte
	octets, err := l.Header.AppendBinary(buf[:0])
	if err == nil {
		octets, err = l.Message.AppendBinary(octets)
	}
	return prepend(b, octets, err)
}

// attribute returns the Attribute that names a message, or 0 for another type.
func attribute(message encoding.BinaryAppender) cm.Attribute {
	switch message.(type) {
	case *cm.REQ:
		return cm.AttributeREQ
	case *cm.MRA:
		return cm.AttributeMRA
	case *cm.REJ:
		return cm.AttributeREJ
	case *cm.REP:
		return cm.AttributeREP
	case *cm.RTU:
		return cm.AttributeRTU
	case *cm.DREQ:
		return cm.AttributeDREQ
	case *cm.DREP:
		return cm.AttributeDREP
	case *cm.SIDRREQ:
		return cm.AttributeSIDRREQ
	case *cm.SIDRREP:
		return cm.AttributeSIDRREP
	}
	return 0
}
