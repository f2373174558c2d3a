package wire

// SrcPort returns the source port in a UDP or TCP header.
func SrcPort(udp []byte) uint16 { return be.Uint16(udp) }

// DstPort returns the destination port in a UDP or TCP header.
func DstPort(udp []byte) uint16 { return be.Uint16(udp[2:]) }

// UDPLength returns the Length field of a UDP header: header and data in octets.
func UDPLength(udp []byte) uint16 { return be.Uint16(udp[4:]) }

// IsTunnelPort reports whether a UDP destination port is that of VXLAN, VXLAN-GPE, Geneve, MPLS, GTP-U or GUE.
func IsTunnelPort(port uint16) bool {
	switch port {
	case PortVXLAN, PortVXLAN2, PortGPE, PortGeneve, PortMPLS, PortGTPU, PortGUE:
		return true
	}
	return false
}
