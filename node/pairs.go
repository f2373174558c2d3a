package node

import (
	"iter"
	"time"

	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
)

// Pairs is a table of queue pairs. A *[qpmap.Map] implements it. If a table also has the methods SourceQPOf,
// SourceQPAmid and Connects of the Map, roles call these for the sender of an earlier packet, such as the one in a
// proxy message, and for flows with a last packet that may be forged.
type Pairs interface {
	// SourceQP returns the queue pair that sends the flow k. The errors are those of [qpmap.Map].
	SourceQP(k qpmap.Key, now time.Time) (qpmap.Pair, error)
}

// A Learner is a table of queue pairs that learns from the packets of a role. A *[qpmap.Map] implements it.
type Learner interface {
	Pairs
	// Observe learns from a packet, and returns the number of pairs that it has learned.
	Observe(p *rocev2.Packet, domain uint32, now time.Time) (learned int)
	// Learned yields the pairs that the last Observe learned.
	Learned() iter.Seq2[qpmap.Key, qpmap.Pair]
}
