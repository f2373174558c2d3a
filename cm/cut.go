package cm

// A capture often keeps only the first octets of a packet. What a CM message says
// of its connection stands before the paths and the private data: DecodeCut reads
// it from the octets that are there.

// CarriedCut is [Carried] for a packet of which a capture kept only the first
// octets: payload is what is there of the payload, and sent how many octets of it
// were sent, which of a rocev2.Packet PayloadLen says. It needs the whole MAD
// header, and with all octets there it says what Carried says.
func CarriedCut(destQP, srcQP, qKey uint32, payload []byte, sent int) bool {
	if destQP != QP || srcQP != QP || qKey != QKey || sent != Size || len(payload) < HeaderSize || len(payload) > Size {
		return false
	}
	var h Header
	h.set((*[HeaderSize]byte)(payload))
	return h.Validate() == nil
}

// fill sets whole to the first octets of a message of which b is there: up to the
// last of ends that b reaches, each the end of a group of fields, and zeros behind
// it. So no field is read in part. It returns false if b does not reach the first.
func fill(whole *body, b []byte, ends ...int) bool {
	there := 0
	for _, end := range ends {
		if len(b) < end {
			break
		}
		there = end
	}
	copy(whole[:], b[:there])
	return there > 0
}

// DecodeCut reads the message of which b has the first octets, 52 at least, as a
// capture with a short snap length keeps them. Primary, Alternate and PrivateData
// are each read if they are there as a whole, otherwise all their octets count as
// zero. With fewer octets the error is that of Decode, and m is unchanged.
func (m *REQ) DecodeCut(b []byte) error {
	var whole body
	if !fill(&whole, b, 52, 96, 140, MessageSize) {
		return errTruncatedREQ
	}
	m.set(&whole)
	return nil
}

// DecodeCut is what [REQ.DecodeCut] is: 10 octets are needed, and PrivateData is
// zero unless all of it is there.
func (m *MRA) DecodeCut(b []byte) error {
	var whole body
	if !fill(&whole, b, 10, MessageSize) {
		return errTruncatedMRA
	}
	m.set(&whole)
	return nil
}

// DecodeCut is what [REQ.DecodeCut] is: 12 octets are needed, and Info and
// PrivateData are each zero unless all of it is there.
func (m *REJ) DecodeCut(b []byte) error {
	var whole body
	if !fill(&whole, b, 12, 84, MessageSize) {
		return errTruncatedREJ
	}
	m.set(&whole)
	return nil
}

// DecodeCut is what [REQ.DecodeCut] is: 24 octets are needed, up to StartingPSN.
// ResponderResources to Reserved4, LocalCAGUID, and PrivateData are each zero
// unless they are there as a whole.
func (m *REP) DecodeCut(b []byte) error {
	var whole body
	if !fill(&whole, b, 24, 28, 36, MessageSize) {
		return errTruncatedREP
	}
	m.set(&whole)
	return nil
}

// DecodeCut is what [REQ.DecodeCut] is: 8 octets are needed, and PrivateData is
// zero unless all of it is there.
func (m *RTU) DecodeCut(b []byte) error {
	var whole body
	if !fill(&whole, b, 8, MessageSize) {
		return errTruncatedRTU
	}
	m.set(&whole)
	return nil
}

// DecodeCut is what [REQ.DecodeCut] is: 12 octets are needed, and PrivateData is
// zero unless all of it is there.
func (m *DREQ) DecodeCut(b []byte) error {
	var whole body
	if !fill(&whole, b, 12, MessageSize) {
		return errTruncatedDREQ
	}
	m.set(&whole)
	return nil
}

// DecodeCut is what [REQ.DecodeCut] is: 8 octets are needed, and PrivateData is
// zero unless all of it is there.
func (m *DREP) DecodeCut(b []byte) error {
	var whole body
	if !fill(&whole, b, 8, MessageSize) {
		return errTruncatedDREP
	}
	m.set(&whole)
	return nil
}

// DecodeCut is what [REQ.DecodeCut] is: 16 octets are needed, and PrivateData is
// zero unless all of it is there.
func (m *SIDRREQ) DecodeCut(b []byte) error {
	var whole body
	if !fill(&whole, b, 16, MessageSize) {
		return errTruncatedSIDRREQ
	}
	m.set(&whole)
	return nil
}

// DecodeCut is what [REQ.DecodeCut] is: 24 octets are needed, and Info and
// PrivateData are each zero unless all of it is there.
func (m *SIDRREP) DecodeCut(b []byte) error {
	var whole body
	if !fill(&whole, b, 24, 96, MessageSize) {
		return errTruncatedSIDRREP
	}
	m.set(&whole)
	return nil
}
