package crc

// hasCRC32: every Mac with an arm64 CPU has the instructions.
func hasCRC32() bool { return true }
