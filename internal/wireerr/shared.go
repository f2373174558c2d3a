package wireerr

// Errors that several packages return. Nothing can be done about any of them
// that could not be done about the others of its root, so none is exported.
var (
	DestQP = New("bth", "DestQP", "over 0xffffff, more than 24 bits", Range)

	NotCNP = New("cnp", "opcode", "not 0x81", Other)
	IsPPFC = New("cnp", "P", "set: a PPFC notification, no CNP", Other)
	// CNPLength: anything but 16 octets between BTH and ICRC.
	CNPLength = New("cnp", "reserved octets", "not exactly 16 octets between BTH and ICRC", Malformed)
	// PPFCLength: neither of the two lengths of an extension.
	PPFCLength = New("ppfc", "extension", "neither 12 octets (IPv4) nor 24 (IPv6) between BTH and ICRC", Malformed)

	// OptionType: the act bits of a Fast CNP option's type are not 10 or its chg
	// bit is not 0, as the draft demands of both options: none is built with it
	// (FAST section 4, D21). Pad1 and PadN are not allowed at all, neither to build
	// nor to decode.
	OptionType = New("fastcnp", "option type", "act bits are not 10 or chg bit is not 0", Range)

	Addresses = New("rocev2", "addresses", "must both be IPv4 or both IPv6", Range)
	FlowLabel = New("rocev2", "IPv6 flow label", "over 20 bits", Range)
	TooLong   = New("rocev2", "packet", "over 65535 octets", Range)
)
