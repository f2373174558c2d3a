// Package triage says in sentences what happened in a capture of RoCEv2 traffic, to whom and why, as far as that can
// be told from it, and in which frames to look:
//
//	table := flows.New(flows.Config{Evidence: true})
//	… // table.Observe every packet
//	for _, v := range triage.Explain(table.Snapshot()) {
//		fmt.Println(v.Cause, v.Party, v.Text, v.Filter)
//	}
//
// Each rule stands in a file of its own, with what it takes for evidence, and what speaks against it. A rule blames
// only whom the capture convicts: what was not captured convicts nobody. Explain takes time by flows, not by packets,
// and needs neither clock nor files.
//
// Experimental: this package may change in a minor release.
package triage
