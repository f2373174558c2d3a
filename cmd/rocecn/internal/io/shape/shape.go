// Package shape makes flows of RoCEv2 that leave a Linux host slower, soft-RoCE's among them.
//
// A program in the kernel gives each packet of such a flow the time at which it may leave; qdisc fq of the interface
// keeps it until then. Without fq nothing waits: see [CheckFQ] and [InstallFQ].
package shape

import (
	"net/netip"
	"time"
)

// Config says what a [Shaper] is to have.
type Config struct {
	// Interfaces are those by which the flows leave.
	Interfaces []string
	// MaxFlows is how many flows may have an order at once.
	MaxFlows int
}

// A Flow is known by where it goes, and by the queue pair there, 24 bits.
type Flow struct {
	Dst    netip.Addr
	DestQP uint32
}

// An Order is what a flow may do.
type Order struct {
	Rate uint64        // bits a second of whole frames, without preamble and FCS; 0: full rate. The least is [MinRate].
	Stop time.Duration // nothing leaves for so long, at most [MaxStop]
}

const (
	// MinRate is the lowest rate, in bits a second. A lower one counts as this.
	MinRate = 1000
	// MaxStop is the longest stop. A longer one counts as this.
	MaxStop = 5 * time.Second
	// Lease is how long orders count when [Shaper.Tick] is not called any more.
	Lease = 3 * time.Second
)

// Shaped are the counters of a [Shaper]: each packet of a flow with an order is one of them.
type Shaped struct {
	Passed  uint64 // at once
	Delayed uint64
	Stopped uint64 // until a stop was over
	Capped  uint64 // it made those behind it wait for more than 9 s, which they do not
}
