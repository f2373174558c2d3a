package bth

// MaxPSN is the largest Packet Sequence Number; the next one is 0.
const MaxPSN = 1<<24 - 1

// AddPSN returns the PSN that is n behind a PSN, which wraps at 24 bits.
func AddPSN(psn, n uint32) uint32 { return (psn + n) & MaxPSN }

// ComparePSN returns how far a is behind b on the shorter way round the 24 bits
// of a PSN: negative where a comes before b, from -8,388,608 to 8,388,607.
func ComparePSN(a, b uint32) int {
	return int(int32((a-b)<<8) >> 8)
}
