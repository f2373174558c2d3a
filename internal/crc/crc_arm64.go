package crc

import "github.com/rocecn/rocecn/internal/wire"

// instructions is the implementation with the CRC-32 instructions, which are optional
// in ARMv8.0 and in every CPU since ARMv8.1.
//
// Why not PMULL: CRC32X needs no constants and no reduction at the end, which
// counts in packets as short as notifications. Neither has been measured here.
const instructions = tablesOnly + 1

// Use is the fastest implementation of this CPU.
var Use = fastest()

func fastest() Implementation {
	if hasCRC32() {
		return instructions
	}
	return tablesOnly
}

// Plain returns the register after an IP packet without options and extension
// headers, up to the ICRC.
func Plain(b []byte) uint32 {
	switch {
	case Use == tablesOnly:
		return plainTables(b)
	case wire.IsIPv6(b):
		return updateCRC32(prefixed, b, &maskPlainIPv6)
	default:
		return updateCRC32(prefixed, b, &maskPlainIPv4)
	}
}

// stored is packet for one that has just been stored.
func stored(b []byte, udp int) uint32 { return packet(b, udp) }

// Extended returns the register, up to the ICRC, after an IP packet with options or extension
// headers and its UDP header at b[udp:].
func Extended(b []byte, udp int) uint32 { return inParts(b, udp) }

// update is updateTables, faster where it can.
func update(r uint32, b []byte, m *mask) uint32 {
	if Use == tablesOnly {
		return updateTables(r, b, m)
	}
	return updateCRC32(r, b, m)
}

// updateCRC32 is updateTables by the instructions.
//
//go:noescape
func updateCRC32(r uint32, b []byte, m *mask) uint32
