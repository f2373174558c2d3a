package rocev2

import "net/netip"

// Tunnelled says whether the flow's packet came in a tunnel: inside another IP
// header.
func (f *Flow) Tunnelled() bool { return len(f.Outermost) > 0 && &f.Outermost[0] != &f.IP[0] }

// OuterSrc returns the source address of the outermost IP header, which in a
// tunnel is its ingress. f must have been decoded.
func (f *Flow) OuterSrc() netip.Addr {
	if f.outerIPv6() {
		return netip.AddrFrom16([16]byte(f.Outermost[8:24]))
	}
	return netip.AddrFrom4([4]byte(f.Outermost[12:16]))
}

// OuterDst returns the destination address of the outermost IP header.
func (f *Flow) OuterDst() netip.Addr {
	if f.outerIPv6() {
		return netip.AddrFrom16([16]byte(f.Outermost[24:40]))
	}
	return netip.AddrFrom4([4]byte(f.Outermost[16:20]))
}

// OuterFlowLabel returns the flow label of the outermost IP header, 20 bits, and
// 0 where that is IPv4.
func (f *Flow) OuterFlowLabel() uint32 {
	if f.outerIPv6() {
		return be.Uint32(f.Outermost) & 0xFFFFF
	}
	return 0
}

// OuterECN returns the ECN field of the outermost IP header.
func (f *Flow) OuterECN() uint8 {
	if f.outerIPv6() {
		return f.Outermost[1] >> 4 & 3
	}
	return f.Outermost[1] & 3
}

func (f *Flow) outerIPv6() bool { return f.Outermost[0]>>4 == 6 }
