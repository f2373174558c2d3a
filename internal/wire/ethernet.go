package wire

// IsTag reports whether an EtherType is that of a VLAN tag, which has its own EtherType after 16 bits of control
// information.
func IsTag(ether uint16) bool {
	return ether == EtherVLAN || ether == EtherSVLAN || ether == EtherVLAN9100
}

// IsMPLS reports whether an EtherType is one of the two for MPLS.
func IsMPLS(ether uint16) bool { return ether == EtherMPLS || ether == EtherMPLS2 }

// SkipTags returns the end of a link-layer header and of the tags after it, and the last EtherType. The header has size
// octets without tags, and its EtherType is at b[at:]. Besides VLAN tags, it skips timestamps of Arista, and CSIG tags
// with this TPID:
//
//	+---------------+-----------------------------+
//	| 0xD28B        | subtype 1, version          | timestamp: 6 octets in version 0x20, 8 in 0x10 and 0x11
//	| TPID of CSIG  | T (3), R (1), S (5), LM (7) |
//	+---------------+-----------------------------+
//
// ok is false if the header or a tag is truncated.
func SkipTags(b []byte, at, size int, csig uint16) (end int, ether uint16, ok bool) {
	for end = size; end <= len(b); {
		ether = be.Uint16(b[at:])
		n := TagSize
		switch {
		case ether == EtherIPv6, ether == EtherIPv4:
			return end, ether, true
		case IsTag(ether), ether == csig:
		case ether == EtherTimestamp:
			if len(b)-end < 4 {
				return 0, 0, false
			}
			if n = TimestampSize(b[end:]); n == 0 {
				return end, ether, true
			}
		default:
			return end, ether, true
		}
		end += n
		at = end - 2
	}
	return 0, 0, false
}

// TimestampSize returns the length of a timestamp of Arista from its subtype and version on, which b begins with, up to
// the end of the EtherType after it, or 0 if it is of another kind.
func TimestampSize(b []byte) int {
	const subtype = 1 << 16
	switch be.Uint32(b) {
	case subtype | 0x10, subtype | 0x11:
		return 4 + 8 + 2
	case subtype | 0x20:
		return 4 + 6 + 2
	}
	return 0
}

// VersionEther returns the EtherType of an IP version: that of IPv6 for 6, that of IPv4 for every other number.
func VersionEther(version uint8) uint16 {
	if version == IPv6 {
		return EtherIPv6
	}
	return EtherIPv4
}
