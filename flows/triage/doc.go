// Package triage finds problems in a capture of RoCEv2 traffic, with their causes, affected
// flows and the frames that show them:
//
//	table := flows.New(flows.Config{Evidence: true})
//	… // table.Observe every packet
//	for _, v := range triage.Explain(table.Snapshot()) {
//		fmt.Println(v.Cause, v.Party, v.Suspects, v.Text, v.Next)
//	}
//
// Each rule is in a file of its own, with its evidence and other explanations of the same picture. A
// rule names a host or port only if the evidence excludes all other explanations; otherwise it lists
// suspects. The absence of packets from the capture is no evidence. The time of Explain grows with
// the number of flows, not of packets.
//
// Experimental: this package may change in a minor release.
package triage
