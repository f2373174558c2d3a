package cm

import "github.com/rocecn/rocecn/internal/wireerr"

var errAttribute = wireerr.New("cm", "Attribute", 0, "not one of a message that this package decodes", wireerr.Other)

// Captures often keep only the first octets of a packet. The fields that
// describe the connection come before the paths and the private data, so
// [Attribute.Fill] can save them.

// cuts has, for each message by its Attribute, the ends of its groups of
// fields. A group is read completely or not at all, and the first one must be
// there.
var cuts = [...][]int{
	AttributeREQ:     {52, 96, 140, MessageSize}, // Primary, Alternate, PrivateData
	AttributeMRA:     {10, MessageSize},          // PrivateData
	AttributeREJ:     {12, 84, MessageSize},      // Info, PrivateData
	AttributeREP:     {24, 28, 36, MessageSize},  // ResponderResources to Reserved4, LocalCAGUID, PrivateData
	AttributeRTU:     {8, MessageSize},           // PrivateData
	AttributeDREQ:    {12, MessageSize},          // PrivateData
	AttributeDREP:    {8, MessageSize},           // PrivateData
	AttributeSIDRREQ: {16, MessageSize},          // PrivateData
	AttributeSIDRREP: {24, 96, MessageSize},      // Info, PrivateData
}

// Fill returns a complete message, for its Decode, from its first octets b, which a capture with a short snap
// length has kept. The fields up to the queue pair and the PSN must be there: 52 octets of a REQ, 24 of a REP
// or SIDR_REP, 16 of a SIDR_REQ, 12 of a REJ or DREQ, 10 of an MRA, 8 of an RTU or DREP. With fewer octets Fill
// returns the error of Decode. Each later group of fields, such as a path or the private data, is kept if all
// of it is there, otherwise it is zero. Fill returns an error if a is not [Attribute.IsKnown].
func (a Attribute) Fill(b []byte) (whole [MessageSize]byte, err error) {
	if !a.IsKnown() {
		return whole, errAttribute
	}
	there := 0
	for _, end := range cuts[a] {
		if len(b) >= end {
			there = end
		}
	}
	if there == 0 {
		return whole, errsTruncated[a]
	}
	copy(whole[:], b[:there])
	return whole, nil
}
