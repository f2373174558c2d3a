package rocev2

import "net/netip"

// Tunnelled says whether the flow's packet came in a tunnel: inside another IP header.
func (f *Flow) Tunnelled() bool { return len(f.Outermost) > 0 && &f.Outermost[0] != &f.IP[0] }

// OuterSrc returns the source address of the outermost IP header, which in a tunnel is its ingress.
func (f *Flow) OuterSrc() netip.Addr { src, _ := addresses(f.Outermost); return src }

// OuterDst returns the destination address of the outermost IP header.
func (f *Flow) OuterDst() netip.Addr { _, dst := addresses(f.Outermost); return dst }

// OuterFlowLabel returns the flow label of the outermost IP header, 20 bits, and 0 where that is IPv4.
func (f *Flow) OuterFlowLabel() uint32 { return flowLabel(f.Outermost) }

// OuterECN returns the ECN field of the outermost IP header.
func (f *Flow) OuterECN() uint8 { return ecnOf(f.Outermost) }
