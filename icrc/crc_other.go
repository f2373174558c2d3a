//go:build !amd64

package icrc

func plain(b []byte) uint32 { return plainTables(b) }

func update(r uint32, b []byte, m *mask) uint32 { return updateTables(r, b, m) }
