// Package shape paces RoCEv2 flows that leave a Linux host, including those of soft-RoCE.
//
// A program in the kernel sets the earliest departure time of each packet of such a flow. qdisc fq of the
// interface keeps the packet until then. Without fq no packet waits: see [CheckFQ] and [InstallFQ].
package shape

import (
	"net/netip"
	"time"
)

// Config configures a [Shaper].
type Config struct {
	// Interfaces are the interfaces by which the flows leave.
	Interfaces []string
	// MaxFlows is the largest number of flows with an order.
	MaxFlows int
}

// A Flow is identified by its destination address and queue pair, 24 bits.
type Flow struct {
	Dst    netip.Addr
	DestQP uint32
}

// An Order limits a flow.
type Order struct {
	// Rate is in bits per second of whole frames, without preamble and FCS. 0 is the full rate, and the least is
	// [MinRate].
	Rate uint64
	Stop time.Duration // time in which no packet leaves, at most [MaxStop]
}

const (
	// MinRate is the lowest rate, in bits per second. A lower rate counts as MinRate.
	MinRate = 1000
	// MaxStop is the longest stop. A longer one counts as MaxStop.
	MaxStop = 5 * time.Second
	// Lease is the time after the last [Shaper.Tick] in which orders apply.
	Lease = 3 * time.Second
)

// Shaped has the counters of a [Shaper]. Each packet of a flow with an order is counted in one field.
type Shaped struct {
	Passed  uint64 // left without delay
	Delayed uint64
	Stopped uint64 // delayed by a stop
	Capped  uint64 // delayed by the limit of 9 s, beyond which no delay is owed
}
