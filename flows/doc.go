// Package flows keeps account of what happened to every flow of RoCEv2 traffic:
// which packets were missing, repeated and why, what was marked, notified and
// refused, and how long answers took.
//
// A flow is the requests of one direction: source, destination and destination
// queue pair. What comes back belongs to it as soon as it is known which queue
// pairs are at the two ends of a connection: from connection management, from
// PSNs that requests and responses have in common, or from a datagram's DETH.
// What cannot be paired is counted apart, and never for the wrong flow.
//
// A [Decoder] reads what counts of a packet, and a [Table] counts it:
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
// It takes one pass, and needs neither clock nor files. Memory grows with flows,
// not with packets, and has a maximum; once a flow is known, its packets
// allocate nothing.
//
// Experimental: this package may change in a minor release.
package flows
