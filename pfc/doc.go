// Package pfc encodes and decodes the flow control frames of Ethernet, which RoCEv2
// networks use together with congestion notifications: PFC (IEEE 802.1Qbb, now IEEE
// 802.1Q clause 36), which pauses single priorities, and PAUSE (IEEE 802.3x, now IEEE
// 802.3 annex 31B), which pauses the whole link. See the examples.
//
// Both are MAC control frames, which bridges do not forward:
//
//	0180c2000001 | source | 8808 | opcode | parameters | zeros up to 60 octets
//
// Times are in quanta of 512 bit times of the link: see [Duration].
package pfc
