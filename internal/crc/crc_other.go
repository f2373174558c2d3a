//go:build !amd64 && !arm64

package crc

// Use is the way that is taken.
var Use = tablesOnly

func Plain(b []byte) uint32 { return plainTables(b) }

func stored(b []byte, udp int) uint32 { return either(b, udp) }

func Extended(b []byte, udp int) uint32 { return extendedTables(b, udp) }

func update(r uint32, b []byte, m *mask) uint32 { return updateTables(r, b, m) }
