package congested

import (
	"encoding/binary"

	"github.com/rocecn/rocecn/fcn"
	"github.com/rocecn/rocecn/internal/wire"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/level"
	"github.com/rocecn/rocecn/rocev2"
)

// isFromPE reports whether a frame is a tunnel packet from an ingress PE, judged by its outer headers.
func (a *Role) isFromPE(f *rocev2.Frame) bool {
	outer := f.Outer()
	return a.cfg.PEs.Contains(outer.Src()) && !outer.Mirrored() && isTunnel(outer.IP())
}

// appendAnyFCN notifies the ingress PE of a tunnel packet of any contents.
func (a *Role) appendAnyFCN(b []byte, s *congestion) ([]byte, node.Reason) {
	outer := s.frame.Outer()
	if a.cfg.OnlyMarked && outer.ECN() != rocev2.CE {
		return b, node.NoReason
	}
	s.tunnelled, s.Packet = true, message.KindData
	s.Flow.Src, s.Flow.Dst = outer.Src(), outer.Dst()
	var err error
	if outer.ECN() == rocev2.NotECT {
		err = fcn.ErrNotECNCapable
	}
	return a.appendFCNMessage(b, s, fcn.Message{FlowLabel: outer.FlowLabel(), Level: level.ToFCN(s.event.Level)}, err)
}

// isTunnel reports whether an IPv6 packet carries a tunnel: by its protocol, or by its UDP port. Fragments have the
// protocol of the whole packet; of UDP only the first one has the port.
func isTunnel(ip []byte) bool {
	if len(ip) < wire.IPv6Size || wire.Version(ip) != wire.IPv6 {
		return false
	}
	next, at, _, whole := wire.SkipExtensions(ip, wire.IPv6Size, ip[6])
	if whole && next == wire.ProtoFragment && len(ip)-at >= wire.ExtensionUnit {
		if next = ip[at]; binary.BigEndian.Uint16(ip[at+2:])>>3 != 0 { // fragment offset
			at = len(ip)
		} else {
			at += wire.ExtensionUnit
		}
	}
	if !whole {
		return false
	}
	switch next {
	case wire.ProtoIPv4, wire.ProtoIPv6, wire.ProtoGRE, wire.ProtoESP, wire.ProtoAH, wire.ProtoEtherIP, wire.ProtoL2TP,
		wire.ProtoMPLS, wire.ProtoEthernet:
		return true
	case wire.ProtoUDP:
		return len(ip)-at >= 4 && isTunnelPort(binary.BigEndian.Uint16(ip[at+2:]))
	}
	return false
}

// isTunnelPort reports whether a UDP port is that of a tunnel.
func isTunnelPort(port uint16) bool {
	switch port {
	case wire.PortVXLAN, wire.PortVXLAN2, wire.PortGPE, wire.PortGTPU, wire.PortGUE, wire.PortGeneve, wire.PortMPLS,
		wire.PortL2TP, wire.PortAMT, wire.PortTeredo, wire.PortNATT:
		return true
	}
	return false
}
