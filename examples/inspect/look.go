package main

import (
	"errors"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/cnp"
	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/internal/capture"
	"github.com/rocecn/rocecn/rocev2"
)

// A kind says what a packet is to us.
type kind string

const (
	kindData  kind = "data" // RoCEv2, any opcode but those of the next kinds
	kindAck   kind = "ack"  // Acknowledge, ATOMIC Acknowledge
	kindCNP   kind = "cnp"
	kindOther kind = "other" // none of ours
	kindError kind = "error" // ours, and broken
)

// kinds are all of them, in the order of the summary.
var kinds = []kind{kindData, kindAck, kindCNP, kindOther, kindError}

// A finding is everything that is said about one packet, in one line. It is
// valid until the next packet is looked at.
type finding struct {
	file   string // empty when there is only one
	frame  int    // from 1
	record *capture.Record
	kind   kind
	err    error // of kind error what is wrong, of kind other why it is none of ours

	// truncated: the snap length cut the packet, and the ICRC is not there. A
	// frame that only lost its Ethernet padding is whole.
	truncated bool

	datagram *rocev2.Datagram // nil when the walk did not get to UDP
	packet   *rocev2.Packet   // nil for kinds without a BTH
	cnp      *cnp.CNP         // kind cnp

	icrcOK   bool // packet is not nil and not truncated, and its ICRC is right
	coverage icrc.Coverage

	ioam []ioamOption
}

// A looker looks at packets one by one.
type looker struct {
	datagram rocev2.Datagram
	packet   rocev2.Packet
	cnp      cnp.CNP
	ioam     []ioamOption
}

// look says what a packet of a capture is. It leaves file and frame empty.
func (l *looker) look(r *capture.Record) finding {
	f := finding{record: r, truncated: r.Cut()}
	if !r.Supported() {
		f.kind, f.err = kindOther, errLinkType
		return f
	}
	options := rocev2.Options{IP: r.IP(), Cut: r.Cut(), Ports: ports}
	l.ioam = appendIOAM(l.ioam[:0], r.Data, options)
	f.ioam = l.ioam

	err := l.datagram.Decode(r.Data, options)
	switch {
	case err == nil:
		f.datagram = &l.datagram
		f.truncated = l.datagram.Truncated
		l.lookIntoUDP(&f)
	case errors.Is(err, rocev2.ErrNotRoCEv2):
		f.kind, f.err = kindOther, err
		options.Ports = nil // other UDP still has addresses and ports to show
		if err == rocev2.ErrPort && l.datagram.Decode(r.Data, options) == nil {
			f.datagram = &l.datagram
		}
	default:
		f.kind, f.err = kindError, err
	}
	return f
}

var errLinkType = errors.New("link type not supported")

// ports are the UDP destination ports of what we know.
var ports = []uint16{rocev2.Port}

// lookIntoUDP tells apart what is addressed to our ports.
func (l *looker) lookIntoUDP(f *finding) {
	f.kind, f.err = l.rocev2()
	if f.err != nil {
		f.kind = kindError
		return
	}
	f.packet = &l.packet
	if f.kind == kindCNP {
		f.cnp = &l.cnp
	}
	if !f.truncated {
		var err error
		f.coverage, err = icrc.Verify(l.packet.IP)
		f.icrcOK = err == nil
	}
}

// rocev2 tells apart what comes to the port of RoCEv2.
func (l *looker) rocev2() (k kind, err error) {
	if err := l.packet.DecodeDatagram(&l.datagram); err != nil {
		return kindError, err
	}
	switch op := l.packet.BTH.Opcode; {
	case op == bth.CNP:
		l.cnp, err = cnp.FromPacket(&l.packet)
		return kindCNP, err
	case op.Known() && (op.Operation() == bth.OpAcknowledge || op.Operation() == bth.OpAtomicAcknowledge):
		return kindAck, nil
	default:
		return kindData, nil
	}
}
