//go:build amd64 || arm64

package crc

// The masks of a packet without options and extension headers.
var (
	maskPlainIPv4 = mask{64 + 1: 0xFF, 64 + 8: 0xFF, 64 + 10: 0xFF, 64 + 11: 0xFF,
		64 + 26: 0xFF, 64 + 27: 0xFF, 64 + 32: 0xFF}
	maskPlainIPv6 = mask{64: 0x0F, 64 + 1: 0xFF, 64 + 2: 0xFF, 64 + 3: 0xFF, 64 + 7: 0xFF,
		64 + 46: 0xFF, 64 + 47: 0xFF, 64 + 52: 0xFF}
)
