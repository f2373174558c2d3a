package node

import (
	"time"

	"github.com/rocecn/rocecn/rocev2"
)

// An Event is the circumstances under which a role sees a frame.
type Event struct {
	Domain  uint32    // distinguishes flows with the same addresses, such as those of two VPNs
	Level   uint8     // congestion level of the queue that the frame waits in, 0 to 7, as of package level
	Observe bool      // the role only learns from the frame: it answers and forwards nothing
	Port    uint16    // port of the node that the queue belongs to
	Now     time.Time // time of the frame; the zero Time stands for that of the frame before
}

// A Role is the interface of all roles. Each package also has New, which makes a role from its Config, and
// Configure, which changes the rules and keeps learned pairs, counters and limits. Sizes and seeds cannot
// change once the role was enabled. The error of both names the field that is wrong; nothing has changed then. A Config
// that is not Enabled is not checked.
type Role interface {
	// Receive decides about a frame that the role sees, and appends the IP packet to send, if any, to out, which must
	// not overlap the frame. Pointers and slices of the Decision alias the frame and are valid until the next Receive.
	//
	// Checks come in the order of their cost: whether the role is on, then the source of the message and the limits on
	// messages, then the contents. A message that is rejected is not charged to the limits that are checked later.
	Receive(out []byte, f *rocev2.Frame, e Event) ([]byte, Decision)

	// Due performs the actions that are due without a frame: it appends one packet to out, if there is one to send, and
	// forgets expired state. Call it until the Action is NoAction, before each frame or from time to time. Only
	// package congested sends something: the PPFCs that let flows run again.
	Due(out []byte, now time.Time) ([]byte, Decision)

	// Counters returns the counters. Any goroutine may read it while the role works.
	Counters() *Counters
}
