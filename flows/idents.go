package flows

// idents are the Identifications that the IPv4 headers of a flow's last requests
// had. A copy that a network makes has that of its twin; what a sender repeats
// has another one, if the sender gives each packet its own. It need not (RFC
// 6864): in packets that are not to be fragmented the field means nothing, and
// many senders leave it 0.
type idents struct {
	variety
	slots [maxIdents]ident // by PSN
}

// A variety says whether Identifications vary from packet to packet.
type variety struct {
	same, other uint64 // how often the Identification was that of the packet before, and how often not
	last        uint16 // of the packet before
	set         bool   // last is
}

// addIdent takes the Identification of the next packet.
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

// maxIdents is how many requests are remembered: a network's copy comes soon.
const maxIdents = 64

// An ident is the last two Identifications that requests with a PSN had.
type ident struct {
	psn    uint32 // with identSet
	values [2]uint16
}

const identSet = 1 << 31

// isCopy says whether a request with a PSN that was seen is a copy.
func (i *idents) isCopy(psn uint32, of uint16) bool {
	s := &i.slots[psn%maxIdents]
	return s.psn == psn|identSet && (s.values[0] == of || s.values[1] == of) && i.other > i.same
}

// add remembers a request.
func (i *idents) add(psn uint32, of uint16) {
	i.addIdent(of)
	s := &i.slots[psn%maxIdents]
	if s.psn != psn|identSet {
		*s = ident{psn | identSet, [2]uint16{of, of}}
		return
	}
	s.values[0], s.values[1] = of, s.values[0]
}
