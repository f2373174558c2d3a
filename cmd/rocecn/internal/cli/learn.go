package cli

import "github.com/rocecn/rocecn/qpmap"

// LearnConfig returns how the tool learns queue pairs: up to 131,072 connections, with memory as it is needed, at most
// 230 MB. With ports the UDP source port may decide a tie of votes.
func LearnConfig(seed uint64, ports bool) qpmap.Config {
	return qpmap.Config{MaxPairs: 1 << 18, MaxPending: 1 << 16, Ports: ports, Grow: true, Seed: seed}
}
