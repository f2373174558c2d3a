package rocev2

import (
	"github.com/rocecn/rocecn/internal/ipudp"
	"github.com/rocecn/rocecn/internal/wireerr"
)

// Errors of VerifyChecksum.
var (
	errChecksum   = wireerr.New("rocev2", "UDP checksum", 0, "does not match", wireerr.Malformed, wireerr.ICRC)
	errNoChecksum = wireerr.New("rocev2", "UDP checksum", 0,
		"0 over IPv6, which only port 4791 allows", wireerr.Malformed, wireerr.ICRC)
)

// VerifyChecksum returns nil if the UDP checksum is right, or is 0 where that
// is allowed: over IPv4, and on port 4791, because the ICRC protects more (RFC
// 768, RFC 8200 section 8.1, RFC 6936). Decode does not verify it, and raw
// captures and AF_PACKET sockets show packets that a UDP socket would drop. d
// must have been decoded. A wrong checksum is an error of rocecn.ErrMalformed and
// rocecn.ErrICRC; a Truncated datagram cannot be verified, which is one of
// rocecn.ErrTruncated.
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
