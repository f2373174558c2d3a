//go:build !amd64

package icrc

// update returns the CRC register r after b, masked.
func update(r uint32, b []byte, m *mask) uint32 { return updateTables(r, b, m) }
