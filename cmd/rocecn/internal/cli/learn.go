package cli

import "github.com/rocecn/rocecn/qpmap"

// LearnConfig returns how the tool learns queue pairs: up to 524,288 connections, with memory as it is
// needed, 176 bytes for each pair and 500 for each that is not known yet. With ports the UDP source
// port may decide a tie of votes.
func LearnConfig(seed uint64, ports bool) qpmap.Config {
	return qpmap.Config{MaxPairs: 1 << 20, MaxPending: 1 << 18, Ports: ports, Grow: true, Seed: seed}
}
