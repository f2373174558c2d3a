// Package bth reads and writes the Base Transport Header (BTH) of RoCEv2 and
// the extended transport headers that stand between it and the payload.
//
//	UDP, destination port 4791
//	BTH, 12 octets                      Header
//	extended headers, 0 to 40 octets    RDETH DETH XRCETH FETH RETH AtomicETH
//	                                    AETH AtomicAckETH ImmDt IETH
//	payload, then 0 to 3 octets of pad
//	ICRC, 4 octets
//
// Which extended headers a packet has is a matter of its [Opcode] alone.
// [Headers] takes the BTH and all of them in one step; [Header] is the BTH by
// itself.
//
// Every bit of a header is in a field, the reserved ones too, so that what was
// decoded is written back octet for octet. Decoding takes whatever the bits
// say; the Validate methods are strict. Writing refuses values that do not fit
// their field. All fields are big-endian on the wire.
//
// The formats are those of the InfiniBand Architecture Specification (IBTA),
// volume 1, chapter 9; the CNP is in its annex A17, FLUSH and ATOMIC WRITE are
// in its annex A19.
package bth
