package roles

import (
	"time"

	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/rocev2"
)

// A Driver gives the frames of a capture or of a network to a role.
type Driver struct {
	Role           node.Role
	Encapsulations *rocev2.Encapsulations // of the frames; nil for the standard ones

	// Report is called with each decision and the packet to send, empty if there is none. due: the decision is about no
	// frame.
	Report func(d *node.Decision, packet []byte, due bool)

	frame    rocev2.Frame
	now      time.Time // of the last frame that had a time
	buf      []byte
	decision node.Decision
}

// UnknownLevel is the Level of an Event if the level of the queue is unknown. The configuration then sets the level.
const UnknownLevel = 0xFF

// Receive gives a frame to the role, after the decisions that are due. A frame without a time has the time of the frame
// before.
func (v *Driver) Receive(r *capture.Record, e node.Event) {
	if !r.Time.IsZero() {
		v.now = r.Time
	}
	v.Due(v.now)
	e.Now = v.now
	o := r.Options()
	o.Encapsulations = v.Encapsulations
	v.frame.Decode(r.Data, o) // the role reports errors of the frame
	var packet []byte
	packet, v.decision = v.Role.Receive(v.packetBuffer(), &v.frame, e)
	v.Report(&v.decision, packet, false)
}

// Due reports the decisions that are due.
func (v *Driver) Due(now time.Time) {
	for {
		var packet []byte
		if packet, v.decision = v.Role.Due(v.packetBuffer(), now); v.decision.Action == node.NoAction {
			return
		}
		v.Report(&v.decision, packet, true)
	}
}

// packetBuffer returns a buffer for a packet. It is longer than any packet that has an IPv6 header and tunnels in
// front of it.
func (v *Driver) packetBuffer() []byte {
	if v.buf == nil {
		v.buf = make([]byte, 0, 68<<10)
	}
	return v.buf[:0]
}
