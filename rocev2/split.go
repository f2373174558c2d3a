package rocev2

// Split returns the link-layer header of b, VLAN tags included, and the outermost
// IP packet behind it, as long as its length field says: what a router takes off
// and what it sends on, RoCEv2 or not. Both alias b. Of a packet that is Cut, ip is
// what is there. The error says that b is no IP packet, or that its length field
// is wrong.
func Split(b []byte, o DecodeOptions) (link, ip []byte, err error) {
	at, version, _, err := linkEnd(b, o.Link)
	if err != nil {
		return nil, nil, err
	}
	ip = b[at:]
	var n int
	switch {
	case len(ip) > 0 && ip[0]>>4 != version || version != 4 && version != 6:
		return nil, nil, errVersion
	case version == 4 && len(ip) < 20:
		return nil, nil, errIPv4Header
	case version == 4:
		n = int(be.Uint16(ip[2:]))
		if n < 20 {
			return nil, nil, errTotal
		}
	case len(ip) < 40:
		return nil, nil, errIPv6Header
	default:
		n = 40 + int(be.Uint16(ip[4:]))
	}
	if n > len(ip) && !o.Cut {
		return nil, nil, errIPLength
	}
	n = min(n, len(ip))
	return b[:at:at], ip[:n:n], nil
}
