package rocev2

import (
	"github.com/rocecn/rocecn/internal/ipudp"
	"github.com/rocecn/rocecn/internal/wireerr"
)

// Errors of VerifyChecksum.
var (
	errChecksum   = wireerr.New("rocev2", "UDP checksum", "does not match", wireerr.Malformed, wireerr.ICRC)
	errNoChecksum = wireerr.New("rocev2", "UDP checksum",
		"0 over IPv6, which only port 4791 allows", wireerr.Malformed, wireerr.ICRC)
)

// VerifyChecksum returns nil if the UDP checksum is right, or if it is 0 and 0 is allowed: over IPv4, and on port 4791,
// because the ICRC protects more (RFC 768, RFC 8200 section 8.1, RFC 6936). Decode does not verify the checksum. Raw
// captures and AF_PACKET sockets contain packets that a UDP socket would drop. d must have been decoded.
//
// If the checksum is wrong, the error matches rocecn.ErrMalformed and rocecn.ErrICRC. A Truncated datagram cannot be
// verified: the error matches rocecn.ErrTruncated.
func (d *Datagram) VerifyChecksum() error {
	switch {
	case d.Truncated:
		return errTruncated
	case d.Checksum == 0 && d.Src.Is6() && d.DstPort != Port:
		return errNoChecksum
	case d.Checksum == 0:
		return nil
	}
	udp := d.headerLen()
	if len(d.IP) < udp+int(d.Length) {
		return errTruncated
	}
	if ipudp.Fold(ipudp.DatagramSum(d.IP[:udp+int(d.Length)], udp)) != 0xFFFF {
		return errChecksum
	}
	return nil
}
