package node

import (
	"time"

	"github.com/rocecn/rocecn/rocev2"
)

// An Event is the context of a frame that a role receives.
type Event struct {
	Domain  uint32    // distinguishes flows with the same addresses, such as those of two VPNs
	Level   uint8     // congestion level of the frame's queue, 0 to 7: see package level
	Observe bool      // the role must only learn from the frame, and answer and forward nothing
	Port    uint16    // port of the node with that queue
	Now     time.Time // time of the frame; the zero Time stands for that of the frame before
}

// A Role is the interface of all roles. The package of each role also has the function New, which returns a role with a
// Config, and the method Configure, which changes the Config and keeps learned pairs, counters and the state of limits.
// Sizes and seeds cannot change once the role was enabled. The error of both names the invalid field, and nothing has
// changed then. A Config that is not Enabled is not checked.
type Role interface {
	// Receive decides about a frame and appends to out the IP packet to send, if any. out must not overlap the frame.
	// Pointers and slices in the Decision alias the frame and are valid until the next Receive.
	//
	// The checks are in the order of their cost: Enabled, the source of the message, the limits, the contents. A
	// message that is rejected is not charged to the limits that are checked later.
	Receive(out []byte, f *rocev2.Frame, e Event) ([]byte, Decision)

	// Due performs the actions that are due without a frame: it appends one packet to out, if there is one to send, and
	// removes expired state. Call it at intervals or before each frame, each time until the Action is NoAction. Only
	// the role of package congested sends packets here: the PPFCs that resume flows.
	Due(out []byte, now time.Time) ([]byte, Decision)

	// Counters returns the counters. Any goroutine may read it while the role works.
	Counters() *Counters
}
