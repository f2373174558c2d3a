// Package ipudp has code that builders of IP and UDP headers share: headers, checksums, and the addresses that can be
// sent to.
package ipudp

// Reachable6 reports whether the IPv6 address of these two halves is a unicast
// address that others can reach.
func Reachable6(high, low uint64) bool {
	const linkLocal = 0xFE80 << 48 // the lowest one
	return high-1 < linkLocal-1 || reachable6(high, low)
}

// reachable6 is Reachable6 for the lowest and the highest addresses.
func reachable6(high, low uint64) bool {
	switch {
	case high == 0 && (low < 2 || low>>32 == 0xFFFF): // unspecified, loopback, IPv4-mapped
	case high>>56 == 0xFF: // multicast
	case high>>54 == 0xFE80>>6: // link-local
	default:
		return true
	}
	return false
}

// Reachable4 is Reachable6 for an IPv4 address.
func Reachable4(a uint32) bool {
	switch first := a >> 24; {
	case first-1 >= 224-1: // this network (0), multicast and reserved (from 224 on)
	case first == 127: // loopback
	case a>>16 == 169<<8|254: // link-local
	default:
		return true
	}
	return false
}
