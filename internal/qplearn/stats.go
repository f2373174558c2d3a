package qplearn

// Stats are the counters of a Map.
type Stats struct {
	Pairs, Pending, Open int // entries now

	CM, Votes, UD, Ports uint64 // pairs learned, by basis

	Ended        uint64 // pairs ended by CM
	NewLifetimes uint64 // pairs replaced by a new connection of their queue pairs
	Expired      uint64 // pairs forgotten after Idle
	Evicted      uint64 // pairs evicted for others
	Full         uint64 // packets of which a pair was not learned, and pairs not added, as the table of pairs was full
	Unlearned    uint64 // other packets not learned from, or that displaced a flow with votes, as MaxOpen was reached
	Unmatched    uint64 // CM messages that belong to no known exchange or pair
	Conflicts    uint64 // CM messages not believed: they contradict an earlier one, or data
}
