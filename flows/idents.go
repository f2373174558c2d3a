package flows

// idents are the Identifications in the IPv4 headers of a flow's last requests. A copy made by the
// network has the Identification of the original. A retransmission has another one if the sender
// numbers its packets, which RFC 6864 does not require of packets that are not to be fragmented:
// many senders leave the field 0.
type idents struct {
	variety
	slots [maxIdents]ident // indexed by PSN modulo maxIdents
}

// A variety counts whether Identifications vary from packet to packet.
type variety struct {
	same, other uint64 // packets with the Identification of the previous packet, and packets with another one
	last        uint16 // Identification of the previous packet
	set         bool   // last is valid
}

// addIdent counts the Identification of the next packet.
func (v *variety) addIdent(of uint16) {
	switch {
	case !v.set:
	case of == v.last:
		v.same++
	default:
		v.other++
	}
	v.last, v.set = of, true
}

// maxIdents is the number of requests remembered: the copies of a network come soon.
const maxIdents = 64

// An ident holds the last two Identifications of requests with one PSN.
type ident struct {
	psn    uint32 // with identSet
	values [2]uint16
}

const identSet = 1 << 31

// isCopy reports whether a request with a known PSN is a copy made by the network.
func (i *idents) isCopy(psn uint32, of uint16) bool {
	s := &i.slots[psn%maxIdents]
	return s.psn == psn|identSet && (s.values[0] == of || s.values[1] == of) && i.other > i.same
}

func (i *idents) add(psn uint32, of uint16) {
	i.addIdent(of)
	s := &i.slots[psn%maxIdents]
	if s.psn != psn|identSet {
		*s = ident{psn | identSet, [2]uint16{of, of}}
		return
	}
	s.values[0], s.values[1] = of, s.values[0]
}
