package rocev2

import "github.com/rocecn/rocecn/internal/wireerr"

// What VerifyChecksum finds.
var (
	// ErrChecksum: the UDP checksum is wrong.
	ErrChecksum   = wireerr.New("rocev2", "UDP checksum", 0, "does not match", wireerr.Malformed)
	errNoChecksum = wireerr.New("rocev2", "UDP checksum", 0,
		"0 over IPv6, where only port 4791 may leave it out", wireerr.Malformed)
)

// VerifyChecksum returns nil where the UDP checksum is right, or 0 where it may
// be: over IPv4 and on port 4791, whose ICRC protects more (RFC 768, RFC 8200
// section 8.1, RFC 6936). Decode does not look at it, and a raw capture or
// AF_PACKET socket shows packets that a UDP socket would drop. d must have been
// decoded; one that is Truncated cannot be verified: [ErrCut].
func (d *Datagram) VerifyChecksum() error {
	switch {
	case d.Truncated:
		return ErrCut
	case d.Checksum == 0 && d.Src.Is6() && d.DstPort != Port:
		return errNoChecksum
	case d.Checksum == 0:
		return nil
	}
	udp := d.headerLen()
	if len(d.IP) < udp+int(d.Length) {
		return ErrCut
	}
	if fold(pseudoSum(d.IP[:udp+int(d.Length)], udp)) != 0xFFFF {
		return ErrChecksum
	}
	return nil
}
