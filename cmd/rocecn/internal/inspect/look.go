package inspect

import (
	"errors"

	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/internal/capture"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/rocev2"
)

// A finding is everything that is said about one packet, in one line. It is
// valid until the next packet is looked at.
type finding struct {
	file   string // empty when there is only one
	frame  int    // from 1
	record *capture.Record
	kind   message.Kind
	err    error // of kind error what is wrong, of kind other why it is none of ours

	// truncated: the snap length cut the packet, and the ICRC is not there. A
	// frame that only lost its Ethernet padding is whole.
	truncated bool

	message  *message.Message
	ip       []byte           // from the IP header on, of kind other and error; nil when there is none
	datagram *rocev2.Datagram // nil when the walk did not get to UDP
	packet   *rocev2.Packet   // nil for kinds without a BTH

	icrcOK   bool // packet is not nil and not truncated, and its ICRC is right
	coverage icrc.Coverage

	ioam []ioamOption
}

// A looker looks at packets one by one.
type looker struct {
	config  message.Config
	message message.Message
	ioam    []ioamOption
}

var errLinkType = errors.New("link type not supported")

// look says what a packet of a capture is. It leaves file and frame empty.
func (l *looker) look(r *capture.Record) finding {
	m := &l.message
	f := finding{record: r, truncated: r.Cut(), message: m}
	if !r.Supported() {
		f.kind, f.err = message.Other, errLinkType
		return f
	}
	options := r.Options()
	l.ioam = appendIOAM(l.ioam[:0], r.Data, options)
	f.ioam = l.ioam

	f.err = m.Decode(r.Data, options, l.config)
	f.kind = m.Kind
	if f.err != nil {
		f.ip = rocev2.Innermost(r.Data, options)
	}
	reachesUDP := m.Reach != message.ReachNothing
	if f.err == rocev2.ErrPort { // other UDP has addresses and ports to show as well
		reachesUDP = m.Packet.Datagram.Decode(r.Data, options) == nil
	}
	if reachesUDP {
		f.datagram = &m.Packet.Datagram
		f.truncated = f.datagram.Truncated
	}
	if m.Reach == message.ReachTransport && f.err == nil {
		f.packet = &m.Packet
		if !f.truncated {
			var err error
			f.coverage, err = icrc.Verify(f.packet.IP)
			f.icrcOK = err == nil
		}
	}
	return f
}
