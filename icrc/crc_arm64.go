package icrc

// instructions is the way by the instructions for CRC-32, which are optional
// in ARMv8.0 and in every CPU since ARMv8.1.
//
// Why not PMULL: CRC32X needs no constants and no reduction at the end, which
// counts in packets as short as notifications. Neither has been measured here.
const instructions = tablesOnly + 1

// use is the way that this CPU is fastest with.
var use = fastest()

func fastest() way {
	if hasCRC32() {
		return instructions
	}
	return tablesOnly
}

// plain is plainTables, faster where it can.
func plain(b []byte) uint32 {
	switch {
	case use == tablesOnly:
		return plainTables(b)
	case b[0]>>4 == 6:
		return updateCRC32(prefixed, b, &maskPlainIPv6)
	default:
		return updateCRC32(prefixed, b, &maskPlainIPv4)
	}
}

// plainStored is plain for a packet that has just been stored.
func plainStored(b []byte) uint32 { return plain(b) }

// extended is extendedTables, faster where it can.
func extended(b []byte, udp int, m *mask) uint32 {
	return update(update(prefixed, b[:udp], m), b[udp:], &maskUDP)
}

// update is updateTables, faster where it can.
func update(r uint32, b []byte, m *mask) uint32 {
	if use == tablesOnly {
		return updateTables(r, b, m)
	}
	return updateCRC32(r, b, m)
}

// updateCRC32 is updateTables by the instructions.
//
//go:noescape
func updateCRC32(r uint32, b []byte, m *mask) uint32
