package rocev2

// LinkPayload returns the EtherType at the end of the link-layer header of the
// octets that o describes, VLAN tags included, and what follows it: a way to
// frames that are not IP, such as those of flow control. It returns 0 and nil
// where the header is not whole, or is of a link type without EtherTypes.
func LinkPayload(b []byte, o DecodeOptions) (etherType uint16, payload []byte) {
	end, _, ether, err := linkEnd(b, o.Link)
	if ether == 0 || err != nil && err != errNotIP {
		return 0, nil
	}
	return ether, b[end:len(b):len(b)]
}
