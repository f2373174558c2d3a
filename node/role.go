package node

import (
	"time"

	"github.com/rocecn/rocecn/rocev2"
)

// A Role is what all roles have in common, for programs that run any of them. C is the role's Config and D its
// decision: a [Decision], or a larger one that embeds it.
//
//	role       what it also does
//	congested  Congested, for packets that met congestion; Resume, when they no longer do
//	ingress    Forward and Congested, for packets that enter the WAN; Expire
//	pause      State and Next: what is stopped, and when to look again
//
// Each package has New, which makes a role and configures it. The error is that of Configure.
type Role[C any, D Decided] interface {
	// Configure changes the rules in place: what was learned and what the limits hold stays. Sizes and seeds cannot
	// change once the role was on. The error names the field that is wrong, and nothing has changed then. A Config
	// that is not Enabled is not checked.
	Configure(C) error

	// Receive decides about a frame that the role sees, and appends to out the IP packet to send, if any. out must not
	// overlap the frame. The domain, such as a VPN, tells apart flows that have the same addresses.
	//
	// Checks come in the order of what they cost: whether the role is on, then whose message it is and the limits on
	// messages, then the contents. A message that is refused is not charged to the limits that are checked later.
	Receive(out []byte, f *rocev2.Frame, domain uint32, now time.Time) (sent []byte, d D)

	// Counters returns what has been counted. Any goroutine may read it while the role works.
	Counters() *Counters
}

// Decided is implemented by the decisions of all roles.
type Decided interface {
	// Common returns what the decisions of all roles have.
	Common() Decision
}

// Common returns d. Larger decisions embed d, and so have this method.
func (d Decision) Common() Decision { return d }
