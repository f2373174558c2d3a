package node

import (
	"iter"
	"time"

	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
)

// Pairs return the queue pair that sends a flow. A *[qpmap.Map] implements them. If they also have the Map's methods
// SourceQPOf, SourceQPAmid and Connects, roles call these for the sender of an earlier packet, such as the one in a
// proxy message, and for flows of which the last packet may be forged.
type Pairs interface {
	SourceQP(k qpmap.Key, now time.Time) (qpmap.Pair, error)
}

// A Learner is Pairs that learn from the packets that a role sees. A *[qpmap.Map] is one.
type Learner interface {
	Pairs
	// Observe learns from a packet, and returns the number of pairs that it has learned.
	Observe(p *rocev2.Packet, domain uint32, now time.Time) (learned int)
	// Learned yields the pairs that the last Observe learned.
	Learned() iter.Seq2[qpmap.Key, qpmap.Pair]
}
