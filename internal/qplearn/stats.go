package qplearn

// Stats are the counters of a Map. A packet counts once in Full and Unlearned together.
type Stats struct {
	Pairs, Pending, Open int // entries now

	CM, Votes, UD, Ports uint64 // pairs learned, by basis

	Ended        uint64 // pairs ended by CM
	NewLifetimes uint64 // confirmed pairs replaced by a new connection of their queue pairs
	Expired      uint64 // pairs forgotten after Idle
	Evicted      uint64 // pairs evicted for others
	Full         uint64 // packets for which the table of pairs had no room
	Unlearned    uint64 // packets for which MaxOpen left no room, or that evicted a flow with votes
	Unmatched    uint64 // CM messages that belong to no known exchange or pair
	Conflicts    uint64 // CM messages not believed: they contradict an earlier one, or data
}
