// Package triage finds problems in a capture of RoCEv2 traffic, with their causes, affected
// flows and the frames that show them:
//
//	table := flows.New(flows.Config{Evidence: true})
//	… // table.Observe every packet
//	for _, v := range triage.Explain(table.Snapshot()) {
//		fmt.Println(v.Cause, v.Party, v.Suspects, v.Text, v.Next)
//	}
//
// A rule finds one or several causes. It names a host or port as the party only if the evidence excludes
// all other explanations; otherwise it lists suspects. Packets missing from a capture are not
// sufficient evidence: they may have taken another path, or the capture lost them. docs/triage.md lists
// the evidence of each cause, and the comments of the rules have the reasons.
//
// If the capture is a sample of the packets (flows.Capture.Sampled), there are no verdicts about losses,
// retransmissions and missing answers. The time of [Explain] grows with the number of flows, not of
// packets.
//
// Experimental: this package may change in a minor release.
package triage
