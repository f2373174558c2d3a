// Package flows counts the events of every RoCEv2 flow: PSNs that were skipped, retransmissions
// and their cause, marks, notifications and NAKs, and round trip times.
//
// A flow consists of the data of one direction: the requests and responses from a source to a queue
// pair of a destination. Answers (ACKs, NAKs) and notifications (CNPs and messages of nodes) are
// counted with the flow that they are about. This needs the queue pairs of both ends, which are known
// from connection management, from PSNs that requests and answers have in common, from UDP source
// ports if PSNs are not conclusive, or from the DETH of a datagram. Answers that cannot be matched are
// counted separately, never for the wrong flow.
//
// If a queue pair is used again for a new connection, its flow continues: a flow has one or more connections.
//
// A [Decoder] decodes the fields of a packet that a [Table] counts:
//
//	var d flows.Decoder
//	var p flows.Packet
//	table := flows.New(flows.Config{})
//	frame := uint64(0)
//	for r, err := range capture.File("trace.pcapng") {
//		if err != nil {
//			log.Fatal(err)
//		}
//		frame++
//		d.Decode(&p, r.Data, r.Options())
//		table.Observe(&p, frame, r.Time)
//	}
//	for _, f := range table.Snapshot().Flows {
//		fmt.Println(f.FlowKey, f.PSN.NeverSeen(), f.Causes)
//	}
//
// One pass over the packets is enough. Memory grows with the number of flows up to
// [Config.MaxFlows], not with packets; packets of a known flow allocate nothing.
//
// Experimental: this package may change in a minor release.
package flows
