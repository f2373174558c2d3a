// Package cm encodes and decodes the messages of InfiniBand communication
// management (IBTA volume 1, chapter 12), with which two hosts tell each other
// their queue pairs, starting PSNs, partition key and path MTU before the first
// data packet.
//
// A message is a management datagram (MAD) of 256 octets: a [Header] of 24,
// whose Attribute names the message, and 232 octets of message:
//
//	REQ   ->          asks for a connection, names the requester's queue pair
//	      <-  MRA     asks for patience
//	      <-  REP     accepts, names the responder's queue pair
//	      <-  REJ     refuses
//	RTU   ->          ready to use
//	DREQ  <->         ends the connection
//	DREP  <->         confirms the end
//
//	SIDR_REQ  ->      asks for the queue pair of a datagram service
//	          <- SIDR_REP   names it
//
// RoCEv2 carries the datagram as the payload of a UD SEND Only from queue pair 1
// to queue pair 1; [DecodePayload] tells whether a packet has one. The header is
// decoded first, and then the message that its Attribute names:
//
//	var h cm.Header
//	message, err := h.Decode(payload)
//	if err == nil && h.Attribute == cm.AttributeREQ {
//		var req cm.REQ
//		_, err = req.Decode(message)
//	}
//
// Captures often keep only the first octets of a packet. [DecodePayload] and
// [Attribute.Fill] read such messages, too. They need the first 76 of the 256 octets
// of a REQ, 48 of a REP, 36 of a DREQ. In a frame over IPv4 these are the first
// 138, 110 and 98 octets, over IPv6 20 more.
//
// All lengths are fixed. Decode returns what follows in b, which aliases b. Every
// reserved bit is a field and is kept, so that a
// decoded message is encoded to the same octets. Decoding fails only if octets
// are missing, with an error that errors.Is matches with rocecn.ErrTruncated.
// Encoding fails only if a value does not fit its field, with rocecn.ErrRange.
// On error the receiver is unchanged, and the buffer is returned as it was.
package cm
