package icrc

// wide says that CPU and operating system have what updateWide needs.
var wide = hasWide()

// What a mask does to a packet without options and extension headers.
var (
	maskPlainIPv4 = mask{64 + 1: 0xFF, 64 + 8: 0xFF, 64 + 10: 0xFF, 64 + 11: 0xFF,
		64 + 26: 0xFF, 64 + 27: 0xFF, 64 + 32: 0xFF}
	maskPlainIPv6 = mask{64: 0x0F, 64 + 1: 0xFF, 64 + 2: 0xFF, 64 + 3: 0xFF, 64 + 7: 0xFF,
		64 + 46: 0xFF, 64 + 47: 0xFF, 64 + 52: 0xFF}
)

// plain is plainTables, faster where it can.
func plain(b []byte) uint32 {
	switch {
	case !wide || len(b)&3 != 0:
		return plainTables(b)
	case b[0]>>4 == 6:
		return updateWide(prefixed, b, &maskPlainIPv6)
	default:
		return updateWide(prefixed, b, &maskPlainIPv4)
	}
}

// update is updateTables, faster where it can.
func update(r uint32, b []byte, m *mask) uint32 {
	if !wide || len(b)&3 != 0 {
		return updateTables(r, b, m)
	}
	return updateWide(r, b, m)
}

// updateWide is updateTables for CPUs with AVX2, AVX512F, AVX512BW,
// AVX512_VBMI2 and VPCLMULQDQ. len(b) must be a multiple of 4, as it is in
// every regular packet, and not 0.
//
//go:noescape
func updateWide(r uint32, b []byte, m *mask) uint32

// hasWide asks CPUID and XGETBV for these.
func hasWide() bool
