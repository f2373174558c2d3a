// Package cm encodes and decodes the messages of InfiniBand communication
// management (CM, IBTA volume 1, chapter 12). With them two hosts exchange their
// queue pairs, starting PSNs, partition key and path MTU before the first data
// packet.
//
// A message is a management datagram (MAD) of 256 octets: a [Header] of 24 octets
// with the Attribute of the message, then 232 octets of message:
//
//	REQ   ->          requests a connection, names the requester's queue pair
//	      <-  MRA     announces that the answer takes longer
//	      <-  REP     accepts, names the responder's queue pair
//	      <-  REJ     rejects
//	RTU   ->          ready to use
//	DREQ  <->         ends the connection
//	DREP  <->         confirms the end
//
//	SIDR_REQ  ->      requests the queue pair of a datagram service
//	          <- SIDR_REP   names it
//
// RoCEv2 carries the datagram as the payload of a UD SEND Only from queue pair 1
// to queue pair 1; [DecodePayload] reports whether a packet has one. Decode the
// header first, then the message of its Attribute:
//
//	var h cm.Header
//	message, err := h.Decode(payload)
//	if err == nil && h.Attribute == cm.AttributeREQ {
//		var req cm.REQ
//		_, err = req.Decode(message)
//	}
//
// [DecodePayload] and [Attribute.Fill] also read messages that a capture with a
// short snap length truncated. They need the first 76 of the 256 octets of a REQ,
// 48 of a REP, 36 of a DREQ. In a frame over IPv4 these are the first 138, 110 and
// 98 octets; over IPv6 add 20.
//
// All lengths are fixed. Decode returns the octets after the message, which alias
// b. Every reserved bit is in a field, so a decoded message is encoded to the same
// octets. Decode fails only if octets are missing, with an error that matches
// rocecn.ErrTruncated; the receiver is then unchanged. AppendBinary fails only if
// a value does not fit its field, with an error that matches rocecn.ErrRange; it
// then returns b unchanged.
package cm
