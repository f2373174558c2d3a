// Package bth decodes and encodes the Base Transport Header (BTH) of RoCEv2 and
// the extended transport headers between it and the payload.
//
//	UDP, destination port 4791
//	BTH, 12 octets                      Header
//	extended headers, 0 to 40 octets    RDETH DETH XRCETH FETH RETH AtomicETH
//	                                    AETH AtomicAckETH ImmDt IETH
//	payload, then 0 to 3 octets of pad
//	ICRC, 4 octets
//
// The [Opcode] alone determines the extended headers of a packet. [Headers] is
// the BTH with its extended headers; [Header] is the BTH without them. See the
// examples of Headers.
//
// Every bit of a header is in a field, including reserved bits: a decoded header
// is encoded to the same octets. Decode accepts all values; the Validate methods
// are strict. AppendBinary rejects values that do not fit their field. All fields
// are big-endian on the wire.
//
// The formats are those of the InfiniBand Architecture Specification (IBTA),
// volume 1, chapter 9; of the CNP in its annex A17; of FLUSH and ATOMIC WRITE in
// its annex A19.
package bth
