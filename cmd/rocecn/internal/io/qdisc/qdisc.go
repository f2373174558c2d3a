// Package qdisc is a source of what waits in the queues of this host: RoCEv2 packets
// that were put into a queue of some length or more, with the depth that they met.
//
// A BPF program at the tracepoint qdisc_enqueue watches the queues, whatever qdisc
// they have; nothing of the configuration of traffic control changes. What never
// meets a queue is not seen: what XDP or hardware forwards, what leaves by an interface
// without one (noqueue), and what a qdisc drops. Nobody knows the depth of a queue that
// is counted by CPU, as pfifo_fast does: see [Source.Unknown]. A packet that
// segmentation offload has made, and that the qdisc (tbf) cuts, is not seen reliably.
package qdisc

import "time"

// An Interface is one whose queue is watched.
type Interface struct {
	Name string
	// Threshold is how many octets are in the queue, the packet included, from which
	// on it is given.
	Threshold uint64
}

// Config says what [Open] watches.
type Config struct {
	Interfaces []Interface
	// PerFlow is the shortest time between two packets of a flow that are given, so
	// that those fit through that may be answered; 0 sets no limit. A flow is known
	// by its addresses and destination queue pair, in a tunnel by its outer addresses
	// and flow label, and by the interface.
	PerFlow time.Duration
	// Tunnels gives packets, too, that may carry RoCEv2 in a tunnel: IP in IP, GRE,
	// VXLAN, Geneve.
	Tunnels bool
	// Ring is the size of the buffer of what is not read yet, in octets; 0 stands for
	// 4 MiB, which is some 7,500 packets. The least power of two is taken that has it.
	Ring uint32
}

// Snap is how many octets of a packet are given at most.
const Snap = 512
