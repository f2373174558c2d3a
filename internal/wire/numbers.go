package wire

// EtherTypes.
const (
	EtherIPv4       = 0x0800
	EtherIPv6       = 0x86DD
	EtherVLAN       = 0x8100 // IEEE 802.1Q
	EtherSVLAN      = 0x88A8 // IEEE 802.1ad
	EtherVLAN9100   = 0x9100 // stacked tags before 802.1ad
	EtherMACControl = 0x8808 // IEEE 802.3, PAUSE and PFC
	EtherMPLS       = 0x8847
	EtherMPLS2      = 0x8848 // RFC 5332: the label is upstream-assigned
	EtherBridged    = 0x6558 // an Ethernet frame, in GRE and Geneve
	EtherERSPAN2    = 0x88BE // ERSPAN type II, and without sequence number type I; in GRE
	EtherERSPAN3    = 0x22EB // ERSPAN type III; in GRE
	EtherMirror8949 = 0x8949 // mirrors of NVIDIA Spectrum with SONiC; in GRE
	EtherTimestamp  = 0xD28B // timestamps of Arista
	EtherCSIG       = 0x9900 // TPID of a CSIG tag (draft-ravi-ippm-csig), unless another is configured
	EtherRoCEv1     = 0x8915 // RoCEv1: GRH and BTH (IBTA annex A16)
)

// Protocol numbers of IPv4, which are Next Header values of IPv6.
const (
	ProtoHopByHop           = 0 // Hop-by-Hop Options
	ProtoICMP               = 1
	ProtoIPv4               = 4 // IPv4 in IP
	ProtoTCP                = 6
	ProtoUDP                = 17
	ProtoIPv6               = 41 // IPv6 in IP
	ProtoRouting            = 43
	ProtoFragment           = 44
	ProtoGRE                = 47
	ProtoESP                = 50
	ProtoAH                 = 51
	ProtoICMPv6             = 58
	ProtoDestinationOptions = 60
	ProtoEtherIP            = 97  // RFC 3378
	ProtoL2TP               = 115 // L2TPv3 (RFC 3931)
	ProtoSCTP               = 132
	ProtoMPLS               = 137 // RFC 4023
	ProtoEthernet           = 143 // RFC 8986
)

// NoNextHeader is the Next Header value of an IPv6 packet without contents (RFC 8200 section 4.7).
const NoNextHeader = 59

// ICMPv6 Parameter Problem about an IPv6 option that a host does not know (RFC 4443 section 3.4).
const (
	ICMPv6ParameterProblem   = 4 // type
	ICMPv6UnrecognisedOption = 2 // code
)

// SegmentRouting is the Routing Type of a Segment Routing header (RFC 8754).
const SegmentRouting = 4

// UDP destination ports.
const (
	PortRoCEv2 = 4791 // IBTA annex A17
	PortVXLAN  = 4789 // RFC 7348
	PortVXLAN2 = 8472 // VXLAN, default of Linux
	PortGPE    = 4790 // VXLAN-GPE (draft-ietf-nvo3-vxlan-gpe)
	PortGTPU   = 2152 // GTP-U (3GPP TS 29.281)
	PortGUE    = 6080 // GUE (draft-ietf-intarea-gue)
	PortGeneve = 6081 // RFC 8926
	PortMPLS   = 6635 // RFC 7510
	PortL2TP   = 1701 // RFC 2661
	PortAMT    = 2268 // RFC 7450
	PortTeredo = 3544 // RFC 4380
	PortNATT   = 4500 // ESP in UDP (RFC 3948)
	PortFCN    = 1021 // experimental (RFC 4727); fcn.Port may be another one
	PortProxy  = 1022 // experimental (RFC 4727); proxymsg.Port may be another one
)

// Lengths of fixed headers, in octets.
const (
	EthernetSize  = 14 // without tags
	TagSize       = 4  // of one VLAN tag
	IPv4Size      = 20 // without options
	IPv6Size      = 40 // without extension headers
	UDPSize       = 8
	ICMPv6Size    = 8 // of an error message, up to the quoted packet (RFC 4443)
	BTHSize       = 12
	ICRCSize      = 4
	ExtensionUnit = 8  // the unit of the length of an IPv6 extension header
	AddressSize   = 16 // of an IPv6 address
)

// Values of the IP version field.
const (
	IPv4 = 4
	IPv6 = 6
)

// FragmentBits selects More Fragments and the fragment offset in octets 6 and 7 of an IPv4 header. They are 0 in a
// packet that is not a fragment. FragmentOffset selects the offset alone. DontFragment is a flag in the same octets.
const (
	FragmentBits   = 0x3FFF
	FragmentOffset = 0x1FFF
	DontFragment   = 0x4000
)
