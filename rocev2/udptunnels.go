package rocev2

import (
	"slices"

	"github.com/rocecn/rocecn/internal/wire"
	"github.com/rocecn/rocecn/internal/wireerr"
)

// Errors of tunnels in UDP, except VXLAN, Geneve and MPLS.
var (
	errGPE = wireerr.New("rocev2", "VXLAN-GPE header",
		"version is not 0, or the next protocol is neither IP nor Ethernet", ErrNotRoCEv2)
	errGTPU = wireerr.New("rocev2", "GTP-U header",
		"truncated: 8 octets needed, and those of its options", ErrNotRoCEv2, wireerr.Truncated)
	errGTPUMessage = wireerr.New("rocev2", "GTP-U header",
		"not version 1 of GTP, or not a G-PDU", ErrNotRoCEv2)
	errGUE = wireerr.New("rocev2", "GUE header",
		"truncated: 4 octets needed, and as many as Hlen gives", ErrNotRoCEv2, wireerr.Truncated)
	errGUEMessage = wireerr.New("rocev2", "GUE header",
		"a control message, another version, or neither IP nor Ethernet", ErrNotRoCEv2)
	errPayloadType      = wireerr.New("rocev2", "tunnel", "carries neither IP nor Ethernet with IP", ErrNotRoCEv2)
	errPayloadTruncated = wireerr.New("rocev2", "tunnel",
		"truncated before its payload can be identified", ErrNotRoCEv2, wireerr.Truncated)
)

// tunnelInUDP moves the walk through the header of a tunnel after a UDP header.
func (w *way) tunnelInUDP(b []byte, at int) error {
	switch w.port {
	case wire.PortVXLAN, wire.PortVXLAN2:
		return w.vxlan(b, at)
	case wire.PortGeneve:
		return w.geneve(b, at)
	case wire.PortMPLS:
		return w.labels(b, at)
	case wire.PortGPE:
		return w.gpe(b, at)
	case wire.PortGTPU:
		return w.gtpu(b, at)
	case wire.PortGUE:
		return w.gue(b, at)
	}
	if slices.Contains(w.encapsulations.VXLANPorts, w.port) {
		return w.vxlan(b, at)
	}
	return w.ipOrEthernet(FOU, b, at)
}

// gpe moves the walk through a VXLAN-GPE header (draft-ietf-nvo3-vxlan-gpe-13 section 3.1). Next Protocol is 1 for
// IPv4, 2 for IPv6 and 3 for Ethernet; with P 0, the payload is Ethernet, as in VXLAN.
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|R|R|Ver|I|P|B|O|           Reserved            | Next Protocol |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|           VXLAN Network Identifier            |   Reserved    |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
func (w *way) gpe(b []byte, at int) error {
	const version, hasProtocol = 0x30, 0x04
	h := b[at:]
	switch {
	case len(h) < 8:
		return errVXLAN
	case h[0]&version != 0:
		return errGPE
	case h[0]&hasProtocol == 0:
		return w.payload(VXLANGPE, wire.EtherBridged, b, at+8)
	}
	switch h[3] {
	case 1:
		return w.payload(VXLANGPE, wire.EtherIPv4, b, at+8)
	case 2:
		return w.payload(VXLANGPE, wire.EtherIPv6, b, at+8)
	case 3:
		return w.payload(VXLANGPE, wire.EtherBridged, b, at+8)
	}
	return errGPE
}

// gtpu moves the walk through a GTP-U header (3GPP TS 29.281 section 5). If one of E, S and PN is 1, sequence number,
// N-PDU number and type of the next extension header follow. With E, there are extension headers as long as this type
// is not 0; the first octet of each is its length in units of 4 octets, and the last one the type of the next.
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|Ver = 1|1|0|E|S|N| Type = 255  |            Length             |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                  Tunnel Endpoint Identifier                   |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
func (w *way) gtpu(b []byte, at int) error {
	const versionAndType, version1, gPDU, options, extensions = 0xF0, 0x30, 255, 0x07, 0x04
	h := b[at:]
	switch {
	case len(h) < 8:
		return errGTPU
	case h[0]&versionAndType != version1 || h[1] != gPDU:
		return errGTPUMessage
	}
	flags := h[0] & options
	if at += 8; flags == 0 {
		return w.ipOrEthernet(GTPU, b, at)
	}
	if at += 4; at > len(b) {
		return errGTPU
	}
	for flags&extensions != 0 && b[at-1] != 0 {
		if at == len(b) || b[at] == 0 || len(b)-at < 4*int(b[at]) {
			return errGTPU
		}
		at += 4 * int(b[at])
	}
	return w.ipOrEthernet(GTPU, b, at)
}

// gue moves the walk through a GUE header of version 0 (draft-ietf-intarea-gue-09 section 3.1). C is 1 in control
// messages, and Hlen the length of the optional fields in units of 4 octets. In version 1, which is 01 in the first two
// bits, the payload is an IP packet without a header before it (section 4).
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	| 0 |C|  Hlen   |   Protocol    |             Flags             |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
func (w *way) gue(b []byte, at int) error {
	h := b[at:]
	if len(h) < 4 {
		return errGUE
	}
	switch version := h[0] >> 6; {
	case version == 1:
		return w.payload(GUE, wire.VersionEther(wire.VersionField(h)), b, at)
	case version != 0, h[0]&0x20 != 0:
		return errGUEMessage
	}
	protocol := h[1]
	if at += 4 + 4*int(h[0]&0x1F); at > len(b) {
		return errGUE
	}
	switch protocol {
	case wire.ProtoIPv4:
		return w.payload(GUE, wire.EtherIPv4, b, at)
	case wire.ProtoIPv6:
		return w.payload(GUE, wire.EtherIPv6, b, at)
	case wire.ProtoEthernet:
		return w.payload(GUE, wire.EtherBridged, b, at)
	}
	return errGUEMessage
}

// ipOrEthernet adds a tunnel that does not identify its payload, and moves the walk into the payload: an IP packet with
// correct lengths, or an Ethernet frame that carries IP.
func (w *way) ipOrEthernet(tunnel Tunnel, b []byte, at int) error {
	frame, short := w.looksLikeFrame(b, at)
	if at < len(b) {
		version := wire.VersionField(b[at:])
		if (version == wire.IPv4 || version == wire.IPv6) && (!frame || w.fits(b, at)) {
			return w.payload(tunnel, wire.VersionEther(version), b, at)
		}
	}
	switch {
	case frame:
		return w.payload(tunnel, wire.EtherBridged, b, at)
	case short:
		return errPayloadTruncated
	}
	return errPayloadType
}

// mirror8949 moves the walk through the 22 octets, of any value, that mirrors of NVIDIA Spectrum insert between a GRE
// header with protocol type 0x8949 and the copied frame.
func (w *way) mirror8949(b []byte, at int) error {
	const size = 22
	if len(b)-at < size {
		return errGRE
	}
	return w.mirrored(GRE8949, 0, wire.EtherBridged, b, at+size)
}
