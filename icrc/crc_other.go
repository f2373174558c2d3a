//go:build !amd64 && !arm64

package icrc

// use is the way that is taken.
var use = tablesOnly

func plain(b []byte) uint32 { return plainTables(b) }

func plainStored(b []byte) uint32 { return plainTables(b) }

func extended(b []byte, udp int, m *mask) uint32 { return extendedTables(b, udp, m) }

func update(r uint32, b []byte, m *mask) uint32 { return updateTables(r, b, m) }
