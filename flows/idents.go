package flows

import "github.com/rocecn/rocecn/bth"

// idents are the Identifications in the IPv4 headers of a flow's last requests. A copy made by the
// network has the Identification of the original. A retransmission has another one if the sender
// numbers its packets, which RFC 6864 does not require of packets that are not to be fragmented:
// many senders leave the field 0.
type idents struct {
	variety
	// slots are indexed by PSN modulo maxIdents, and nil while all Identifications are 0. Of these, only the last is
	// added when the slots are made: an earlier request with Identification 0 is not known as an original.
	slots *[maxIdents]ident
}

// reset forgets all requests.
func (i *idents) reset() {
	slots := i.slots
	if *i = (idents{}); slots != nil {
		*slots = [maxIdents]ident{}
		i.slots = slots
	}
}

// A variety counts whether Identifications vary from packet to packet.
type variety struct {
	same, other uint64 // packets with the Identification of the previous packet, and packets with another one
	near        uint64 // of the others, those at most maxStep higher or lower: the sender numbers its packets
	psn         uint32 // PSN of the previous packet, if the slots do not exist yet
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
		if of-v.last < maxStep || v.last-of < maxStep { // lower if packets were reordered
			v.near++
		}
	}
	v.last, v.set = of, true
}

// maxStep is the maximum step between Identifications of a sender that numbers the packets of all its
// flows.
const maxStep = 1 << 10

// isOriginal reports whether a request that fills a gap was sent before the requests after the gap,
// by the Identifications of a sender that numbers its packets. known is false if they do not show it.
func (i *idents) isOriginal(psn uint32, of uint16) (original, known bool) {
	if i.near < 8 || i.near*8 < (i.same+i.other)*7 {
		return false, false
	}
	for n := range uint32(maxIdents) {
		next := bth.AddPSN(psn, n+1)
		if s := &i.slots[next%maxIdents]; s.psn == next|identSet {
			return of-s.values[1] > 1<<15, true
		}
	}
	return false, false
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
	if i.other <= i.same { // always without slots
		return false
	}
	s := &i.slots[psn%maxIdents]
	return s.psn == psn|identSet && (s.values[0] == of || s.values[1] == of)
}

// add adds a request.
func (i *idents) add(psn uint32, of uint16) {
	if i.slots == nil && of != 0 {
		i.slots = new([maxIdents]ident)
		if i.set {
			i.addToSlots(i.psn, 0)
		}
	}
	i.addIdent(of)
	if i.psn = psn; i.slots != nil {
		i.addToSlots(psn, of)
	}
}

func (i *idents) addToSlots(psn uint32, of uint16) {
	s := &i.slots[psn%maxIdents]
	if s.psn != psn|identSet {
		*s = ident{psn | identSet, [2]uint16{of, of}}
		return
	}
	s.values[0], s.values[1] = of, s.values[0]
}
