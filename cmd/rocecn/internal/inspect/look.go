package inspect

import (
	"errors"
	"fmt"

	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
)

// A finding is everything that is said about one packet, in one line. It is
// valid until the next packet is looked at.
type finding struct {
	file   string // empty when there is only one
	frame  int    // from 1
	record *capture.Record
	kind   message.Kind
	err    error // rule that a packet of kind error breaks, or reason for kind other

	// The ICRC is not there: the snapshot length or a network device cut the packet, or a switch trimmed it. A frame
	// that only lost its Ethernet padding is complete.
	truncated, trimmed bool

	// needed is the number of octets of the frame that is sufficient to decode it, if the capture kept too few, or 0.
	needed int

	message  *message.Message
	walked   *rocev2.Frame    // nil for a link type that is not supported
	datagram *rocev2.Datagram // nil when the walk did not get to UDP
	packet   *rocev2.Packet   // nil for kinds without a BTH

	icrcOK   bool // packet is not nil and complete, and its ICRC is right
	coverage icrc.Coverage

	ioam      []ioamOption // of every header on the way, the outermost first
	source    qpmap.Pair   // of kind data and ack: the sender's queue pair, where it is asked for and known
	sourceErr error        // why it is not known

	optionsError error          // an option overruns one of these headers (D19)
	tunnels      rocev2.Tunnels // that the packet came in; none for kind other
}

// A recordDecoder looks at packets one by one.
type recordDecoder struct {
	config message.Config
	outer  bool       // decode the outer packet of mirrors and overlays
	pairs  *qpmap.Map // nil without -pairs

	finding finding
	message message.Message
	frame   rocev2.Frame
	ioam    []ioamOption
}

var errLinkType = errors.New("link type not supported")

// decodeRecord decodes a packet of a capture. It keeps the fields file and frame of the finding.
func (l *recordDecoder) decodeRecord(r *capture.Record, o rocev2.DecodeOptions) *finding {
	f := &l.finding
	*f = finding{file: f.file, frame: f.frame, record: r, truncated: r.Truncated(), message: &l.message}
	if !r.Supported() {
		f.kind, f.err = message.KindOther, errLinkType
		return f
	}
	m := &l.message
	o.Outer = l.outer
	f.walked = &l.frame
	f.walked.Decode(r.Data, o)
	l.config.SkipVerify = true // verified below, for data and acknowledgements as well
	f.err = m.DecodeView(f.walked.Outer(), l.config)
	l.passTunnels()
	f.kind = m.Kind

	reachesUDP := m.Reach != message.ReachNothing
	if f.err == rocev2.ErrPort { // other UDP has addresses and ports to show as well
		reachesUDP = f.walked.Outer().Datagram(&m.Packet.Datagram) == nil
	}
	plain := false // without options
	if reachesUDP {
		d := &m.Packet.Datagram
		f.datagram = d
		f.truncated, f.trimmed = d.Truncated && !d.Trimmed, d.Trimmed
		plain = d.Ext == nil && d.Outer == nil && f.tunnels.Len() == 0
	}
	if m.Reach == message.ReachTransport && f.err == nil {
		f.packet = &m.Packet
		if !m.Packet.Truncated {
			var err error
			f.coverage, err = icrc.Verify(f.packet.IP)
			f.icrcOK = err == nil
		}
	}
	if o.AllowTruncated && (f.kind == message.KindError || f.kind == message.KindOther) {
		// An error caused by truncation is not an error of the packet.
		if f.needed = int(min(int64(message.SnapLength(f.walked, l.config)), int64(r.OrigLen))); f.needed != 0 {
			f.err = fmt.Errorf("truncated by the snapshot length: want %d octets", f.needed)
		}
	}
	if f.kind == message.KindPFC || f.kind == message.KindPause {
		f.truncated = false // only its padding can be missing
	}
	if !plain {
		f.optionsError = f.walked.OptionsError()
		f.ioam = l.decodeOptions(f.walked.IOAM())
	}
	l.learnPairs(f)
	return f
}

// innermostIP returns the packet from its innermost IP header on, nil when there is none.
func (f *finding) innermostIP() (ip []byte) {
	switch {
	case f.walked == nil:
		return nil
	case f.walked.Options().Outer:
		return f.walked.Outer().IP()
	}
	return f.walked.BorderPacket()
}

// passTunnels decodes the packet inside tunnels. If that is neither RoCEv2 nor a congestion message, the finding
// describes the outer packet and has no tunnels.
func (l *recordDecoder) passTunnels() {
	f, m := &l.finding, &l.message
	if l.outer || l.frame.Tunnels().Len() == 0 {
		return
	}
	if m.Kind == message.KindOther { // or only IP in IP stands around it
		err := m.DecodeView(l.frame.Inner(), l.config)
		if m.Kind == message.KindOther {
			return
		}
		f.err = err
	}
	f.tunnels = l.frame.Tunnels()
}
