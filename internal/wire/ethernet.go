package wire

// IsTag reports whether an EtherType is that of a VLAN tag, which has its own EtherType after 16 bits of control
// information.
func IsTag(ether uint16) bool {
	return ether == EtherVLAN || ether == EtherSVLAN || ether == EtherVLAN9100
}

// IsMPLS reports whether an EtherType is one of the two for MPLS.
func IsMPLS(ether uint16) bool { return ether == EtherMPLS || ether == EtherMPLS2 }

// SkipTags returns the end of a link-layer header and of the VLAN tags after it, and the last EtherType. The header has
// size octets without tags, and its EtherType is at b[at:]. ok is false if the header or a tag is truncated.
func SkipTags(b []byte, at, size int) (end int, ether uint16, ok bool) {
	for end = size; end <= len(b); at, end = end+2, end+TagSize {
		ether = uint16(b[at])<<8 | uint16(b[at+1])
		if ether == EtherIPv6 || ether == EtherIPv4 || !IsTag(ether) {
			return end, ether, true
		}
	}
	return 0, 0, false
}

// VersionEther returns the EtherType of an IP version: that of IPv6 for 6, that of IPv4 for every other number.
func VersionEther(version uint8) uint16 {
	if version == IPv6 {
		return EtherIPv6
	}
	return EtherIPv4
}
