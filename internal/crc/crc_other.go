//go:build !amd64 && !arm64

package crc

// Use is the selected implementation.
var Use = tablesOnly

// Plain returns the register after an IP packet without options and extension
// headers, up to the ICRC.
func Plain(b []byte) uint32 { return plainTables(b) }

func stored(b []byte, udp int) uint32 { return packet(b, udp) }

// Extended returns the register, up to the ICRC, after an IP packet with options or extension
// headers and its UDP header at b[udp:].
func Extended(b []byte, udp int) uint32 { return inParts(b, udp) }

func update(r uint32, b []byte, m *mask) uint32 { return updateTables(r, b, m) }
