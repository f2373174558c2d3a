package cm

import (
	"fmt"
	"net/netip"

	"github.com/rocecn/rocecn/internal/wireerr"
)

// IPDataSize is the length of an [IPData] in octets.
const IPDataSize = 36

var (
	errTruncatedIPData = wireerr.New("cm", "IP CM private data", "truncated: shorter than 36 octets",
		wireerr.Truncated)
	errIPDataBits = newRangeError("IP CM private data",
		"MajorVersion, MinorVersion, IPVersion or Reserved over 4 bits")
	errIPDataFamily  = newRangeError("IP CM private data", "an IPv4 address, but IPVersion is not 4")
	errIPDataMajor   = wireerr.New("cm", "IP CM private data", "MajorVersion is not 0", wireerr.Malformed)
	errIPDataVersion = wireerr.New("cm", "IP CM private data", "IPVersion is neither 4 nor 6", wireerr.Malformed)
	errIPDataPadding = wireerr.New("cm", "IP CM private data", "the 12 octets before an IPv4 address are not 0",
		wireerr.Malformed)
)

// IPData is the first part of the private data of a [REQ] or a [SIDRREQ] of the
// RDMA IP CM service (IBTA annex A11): the IP addresses of the connection.
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	| Major | Minor | IPVer |Reserv.|            SrcPort            |
//	|                           Src (128)                           |
//	|                           Dst (128)                           |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//
// An IPv4 address is in the last 4 octets, after 12 zero octets.
type IPData struct {
	MajorVersion uint8 // 0; 4 bits
	MinorVersion uint8 // 0; 4 bits
	IPVersion    uint8 // 4 or 6; 4 bits
	Reserved     uint8 // 4 bits
	SrcPort      uint16
	Src, Dst     netip.Addr // IPv4 if IPVersion is 4 and the 12 octets are zero; otherwise all 16 octets as IPv6
}

// Decode reads the IPData at the start of b, the PrivateData of a message, and
// returns the octets after it: the application's private data, which aliases b.
// [ServiceID.IP] reports whether private data begins with an IPData.
func (d *IPData) Decode(b []byte) (rest []byte, err error) {
	if len(b) < IPDataSize {
		return nil, errTruncatedIPData
	}
	d.MajorVersion, d.MinorVersion = b[0]>>4, b[0]&0xf
	d.IPVersion, d.Reserved = b[1]>>4, b[1]&0xf
	d.SrcPort = be.Uint16(b[2:])
	d.Src = decodeIPDataAddr([16]byte(b[4:]), d.IPVersion)
	d.Dst = decodeIPDataAddr([16]byte(b[20:]), d.IPVersion)
	return b[IPDataSize:], nil
}

// AppendBinary appends the 36 octets to b. It encodes the zero Addr as zeros.
func (d *IPData) AppendBinary(b []byte) ([]byte, error) {
	switch {
	case (d.MajorVersion|d.MinorVersion|d.IPVersion|d.Reserved)>>4 != 0:
		return b, errIPDataBits
	case d.IPVersion != 4 && (d.Src.Is4() || d.Dst.Is4()):
		return b, errIPDataFamily
	}
	b = append(b, d.MajorVersion<<4|d.MinorVersion, d.IPVersion<<4|d.Reserved)
	b = be.AppendUint16(b, d.SrcPort)
	return appendIPDataAddr(appendIPDataAddr(b, d.Src), d.Dst), nil
}

func decodeIPDataAddr(b [16]byte, version uint8) netip.Addr {
	if version == 4 && [12]byte(b[:]) == ([12]byte{}) {
		return netip.AddrFrom4([4]byte(b[12:]))
	}
	return netip.AddrFrom16(b)
}

func appendIPDataAddr(b []byte, a netip.Addr) []byte {
	octets := a.As16()
	if a.Is4() {
		clear(octets[:12])
	}
	return append(b, octets[:]...)
}

// Validate returns an error if MajorVersion is not 0, if IPVersion is neither 4 nor
// 6, or if IPVersion is 4 and an address is not IPv4.
func (d *IPData) Validate() error {
	switch {
	case d.MajorVersion != 0:
		return errIPDataMajor
	case d.IPVersion != 4 && d.IPVersion != 6:
		return errIPDataVersion
	case d.IPVersion == 4 && !(d.Src.Is4() && d.Dst.Is4()):
		return errIPDataPadding
	}
	return nil
}

// String returns the version, the addresses and the port.
func (d IPData) String() string {
	return fmt.Sprintf("IPv%d from %v port %d to %v", d.IPVersion, d.Src, d.SrcPort, d.Dst)
}

// ServiceID identifies the service of a requested connection.
type ServiceID uint64

// ipServiceID is the upper 5 octets of a ServiceID of the RDMA IP CM service
// (IBTA annex A11.2.3).
const ipServiceID = 0x0000000001

// IPServiceID returns the ServiceID of the RDMA IP CM service for a port. protocol
// is 6 (TCP) for connections and 17 (UDP) for datagrams.
func IPServiceID(protocol uint8, port uint16) ServiceID {
	return ipServiceID<<24 | ServiceID(protocol)<<16 | ServiceID(port)
}

// IP returns the protocol and destination port of a ServiceID of the RDMA IP CM
// service. ok is false for other services.
func (s ServiceID) IP() (protocol uint8, port uint16, ok bool) {
	return uint8(s >> 16), uint16(s), s>>24 == ipServiceID
}

// String returns protocol and port, or the number.
func (s ServiceID) String() string {
	if protocol, port, ok := s.IP(); ok {
		return fmt.Sprintf("IP protocol %d port %d", protocol, port)
	}
	return fmt.Sprintf("ServiceID 0x%016x", uint64(s))
}
