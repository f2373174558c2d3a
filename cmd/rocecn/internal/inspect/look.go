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
	err    error // of kind error what is wrong, of kind other why it is none of ours

	// truncated: the snap length cut the packet, and the ICRC is not there. A
	// frame that only lost its Ethernet padding is whole.
	truncated bool

	// needed is how many octets of the frame tell what it is, where the snap length
	// cut it too short for that; otherwise 0.
	needed int

	message  *message.Message
	outer    bool             // tunnels were not looked into
	datagram *rocev2.Datagram // nil when the walk did not get to UDP
	packet   *rocev2.Packet   // nil for kinds without a BTH

	icrcOK   bool // packet is not nil and not truncated, and its ICRC is right
	coverage icrc.Coverage

	ioam      []ioamOption // of every header on the way, the outermost first
	source    qpmap.Pair   // of kind data and ack: the sender's queue pair, where it is asked for and known
	sourceErr error        // why it is not known

	optionsError error          // an option overruns one of these headers (D19)
	tunnels      rocev2.Tunnels // that the packet came in; none for kind other
}

// A looker looks at packets one by one.
type looker struct {
	config message.Config
	outer  bool       // do not look into mirrors and overlays
	pairs  *qpmap.Map // nil when nobody asks for queue pairs

	finding finding
	message message.Message
	inside  message.Message // of the packet in a tunnel
	inner   rocev2.Inner
	ioam    []ioamOption
}

var errLinkType = errors.New("link type not supported")

// look says what a packet of a capture is. It leaves file and frame alone.
func (l *looker) look(r *capture.Record) *finding {
	f := &l.finding
	*f = finding{file: f.file, frame: f.frame, record: r, truncated: r.Cut(), message: &l.message, outer: l.outer}
	if !r.Supported() {
		f.kind, f.err = message.Other, errLinkType
		return f
	}
	o := r.Options()
	f.err = l.message.Decode(r.Data, o, l.config)
	tunnelled := l.passTunnels(r.Data, o)
	m := f.message
	f.kind = m.Kind

	reachesUDP := m.Reach != message.ReachNothing
	if f.err == rocev2.ErrPort { // other UDP has addresses and ports to show as well
		reachesUDP = m.Packet.Datagram.Decode(r.Data, o) == nil
	}
	plain := false // without options
	if reachesUDP {
		d := &m.Packet.Datagram
		f.datagram = d
		f.truncated = d.Truncated
		plain = d.Ext == nil && d.Outer == nil
	}
	if m.Reach == message.ReachTransport && f.err == nil {
		f.packet = &m.Packet
		if !f.truncated {
			var err error
			f.coverage, err = icrc.Verify(f.packet.IP)
			f.icrcOK = err == nil
		}
	}
	l.cutShort(f, o)
	if f.kind == message.PFC || f.kind == message.Pause {
		f.truncated = false // only its padding can be missing
	}
	switch {
	case tunnelled:
		f.optionsError = l.inner.OptionsError()
		f.ioam = l.options(l.inner.IOAM())
	case !plain:
		f.optionsError = rocev2.OptionsError(r.Data, o)
		f.ioam = l.options(rocev2.IOAMOptions(r.Data, o))
	}
	l.learn(f)
	return f
}

// cutShort says what is wrong with a packet that the capture cut too short, which
// is no fault of the packet's.
func (l *looker) cutShort(f *finding, o rocev2.DecodeOptions) {
	if !o.Cut || f.kind != message.Broken && f.kind != message.Other {
		return
	}
	b, before := f.record.Data, 0
	if f.message == &l.inside {
		b, o, before = l.inner.IP, l.inner.Options(), len(b)-len(l.inner.IP)
	}
	if f.needed = message.SnapLength(b, o, l.config); f.needed != 0 {
		f.needed += before
		f.err = fmt.Errorf("cut by the snap length: %d octets would do", f.needed)
	}
}

// ip returns the packet from its innermost IP header on, nil when there is none.
func (f *finding) ip() (ip []byte) {
	o := f.record.Options()
	switch {
	case !f.record.Supported():
		return nil
	case f.outer:
		_, ip, _ = rocev2.Split(f.record.Data, o)
		return ip
	}
	return rocev2.Innermost(f.record.Data, o)
}

// passTunnels looks into the tunnels that the packet came in, if there are any,
// unless it is one of ours already without that: then only IP in IP can stand
// around it. What is inside and none of ours is as if there were no tunnel. It
// returns whether l.inner says what stands on the way.
func (l *looker) passTunnels(b []byte, o rocev2.DecodeOptions) bool {
	f, m := &l.finding, &l.message
	other := m.Kind == message.Other
	switch {
	case l.outer, m.Kind == message.PFC, m.Kind == message.Pause:
		return false
	case m.Reach != message.ReachNothing && m.Packet.Outer == nil:
		return false
	}
	if l.inner.Decode(b, o) != nil || l.inner.Tunnels.Len() == 0 {
		return false
	}
	if other {
		err := l.inside.Decode(l.inner.IP, l.inner.Options(), l.config)
		if l.inside.Kind == message.Other {
			return true
		}
		f.message, f.err = &l.inside, err
		f.truncated = l.inner.Cut
	}
	f.tunnels = l.inner.Tunnels
	return true
}
