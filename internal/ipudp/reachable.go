// Package ipudp has what builders of IP and UDP headers share: checksums, and
// which addresses can be sent to.
package ipudp

// Reachable6 says of the IPv6 address of these two halves whether it is a unicast
// address that others can reach.
func Reachable6(high, low uint64) bool {
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
	case first == 0, first == 127, first >= 224: // this network, loopback, multicast and reserved
	case a>>16 == 169<<8|254: // link-local
	default:
		return true
	}
	return false
}
