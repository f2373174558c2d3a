// Package triage finds problems in a capture of RoCEv2 traffic, with their causes, affected
// flows and the frames that show them:
//
//	table := flows.New(flows.Config{Evidence: true})
//	… // table.Observe every packet
//	for _, v := range triage.Explain(table.Snapshot()) {
//		fmt.Println(v.Cause, v.Party, v.Text, v.Filter)
//	}
//
// Each rule is in a file of its own, with its evidence and counter-evidence. A rule names a host
// or port only if the capture contains evidence against it; the absence of packets from the
// capture is none. The time of Explain grows with the number of flows, not of packets.
//
// Experimental: this package may change in a minor release.
package triage
