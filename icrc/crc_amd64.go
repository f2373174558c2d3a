package icrc

// wide says that the CPU and the operating system have what updateWide needs.
var wide = hasWide()

// update returns the CRC register r after b, masked.
func update(r uint32, b []byte, m *mask) uint32 {
	if wide && len(b)&3 == 0 && len(b) != 0 {
		return updateWide(r, b, m)
	}
	return updateTables(r, b, m)
}

// updateWide is updateTables for len(b) a multiple of 4, as it is in every
// regular packet, and not 0. It needs AVX2, AVX512F, AVX512BW, AVX512_VBMI2
// and VPCLMULQDQ.
//
//go:noescape
func updateWide(r uint32, b []byte, m *mask) uint32

// hasWide asks CPUID and XGETBV.
func hasWide() bool
