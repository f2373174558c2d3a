package cm

import "github.com/rocecn/rocecn/internal/wireerr"

var errAttribute = wireerr.New("cm", "Attribute", 0, "names no message", wireerr.Other)

// A capture often keeps only the first octets of a packet. What a CM message says
// of its connection stands before the paths and the private data: [Attribute.Fill]
// keeps it.

// CarriedCut is [Carried] for a packet of which a capture kept only the first
// octets: payload is what is there of the payload, and sent how many octets of it
// were sent, which of a rocev2.Packet PayloadLen says. It needs the whole MAD
// header, and with all octets there it says what Carried says.
func CarriedCut(destQP, srcQP, qKey uint32, payload []byte, sent int) bool {
	if destQP != QP || srcQP != QP || qKey != QKey || sent != Size || len(payload) < HeaderSize || len(payload) > Size {
		return false
	}
	var h Header
	h.Decode(payload)
	return h.Validate() == nil
}

// cuts says of each message, by its Attribute, where each group of fields ends
// that is read as a whole or not at all: the first group must be there.
var cuts = [len(attributeNames)][]int{
	{52, 96, 140, MessageSize}, // REQ: Primary, Alternate, PrivateData
	{10, MessageSize},          // MRA: PrivateData
	{12, 84, MessageSize},      // REJ: Info, PrivateData
	{24, 28, 36, MessageSize},  // REP: ResponderResources to Reserved4, LocalCAGUID, PrivateData
	{8, MessageSize},           // RTU: PrivateData
	{12, MessageSize},          // DREQ: PrivateData
	{8, MessageSize},           // DREP: PrivateData
	{16, MessageSize},          // SIDR_REQ: PrivateData
	{24, 96, MessageSize},      // SIDR_REP: Info, PrivateData
}

// Fill returns a whole message, for its Decode, of which b has the first octets,
// as a capture with a short snap length keeps them. The fields up to the queue pair and
// the PSN must be there: 52 octets of a REQ, 24 of a REP or SIDR_REP, 16 of a SIDR_REQ,
// 12 of a REJ or DREQ, 10 of an MRA, 8 of an RTU or DREP. With fewer the error is that
// of Decode. Of the groups behind them, such as a path or the private data, each
// is kept if all of it is there, and otherwise zero. It is an error if a is not
// [Attribute.Known].
func (a Attribute) Fill(b []byte) (whole [MessageSize]byte, err error) {
	if !a.Known() {
		return whole, errAttribute
	}
	there := 0
	for _, end := range cuts[a-AttributeREQ] {
		if len(b) >= end {
			there = end
		}
	}
	if there == 0 {
		return whole, errsTruncated[a-AttributeREQ]
	}
	copy(whole[:], b[:there])
	return whole, nil
}
