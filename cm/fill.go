package cm

import "github.com/rocecn/rocecn/internal/wireerr"

var errAttribute = wireerr.New("cm", "Attribute", "not one of the CM messages REQ to SIDR_REP", wireerr.Other)

// groupEnds has, for each Attribute, the ends of the message's groups of fields.
// Fill keeps a group completely or not at all; the first group must be there. The
// fields that describe the connection precede the paths and the private data.
var groupEnds = [...][]int{
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

// Fill returns a complete message for Decode, from the first octets b of a message that a capture with a short snap
// length truncated. The fields up to the queue pair and the PSN must be there: 52 octets of a REQ, 24 of a REP or
// SIDR_REP, 16 of a SIDR_REQ, 12 of a REJ or DREQ, 10 of an MRA, 8 of an RTU or DREP. With fewer octets Fill returns
// the error of Decode. Each later group of fields, such as a path or the private data, is kept if it is complete and
// is zero otherwise. Fill returns an error that matches rocecn.ErrOther if a is not [Attribute.IsKnown].
func (a Attribute) Fill(b []byte) (message [MessageSize]byte, err error) {
	if !a.IsKnown() {
		return message, errAttribute
	}
	kept := 0
	for _, end := range groupEnds[a] {
		if len(b) >= end {
			kept = end
		}
	}
	if kept == 0 {
		return message, errsTruncated[a]
	}
	copy(message[:], b[:kept])
	return message, nil
}
