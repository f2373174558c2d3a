package icrc

// long returns the register r after b, masked; len(b) is a multiple of 4, and
// above shortMax where folding is used.
func long(r uint32, b []byte, m *mask) uint32 {
	if use == wideFolding {
		return updateWide(r, b, m)
	}
	return foldLong(r, b, m)
}

// updateWide is updateTables for CPUs with AVX2, AVX512F, AVX512BW,
// AVX512_VBMI2 and VPCLMULQDQ. len(b) must be a multiple of 4, as it is in
// every regular packet, and not 0.
//
//go:noescape
func updateWide(r uint32, b []byte, m *mask) uint32
