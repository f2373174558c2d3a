// Package qdisc receives packets that wait in queues of this host: RoCEv2 packets that were added to a queue of at
// least some depth, with this depth.
//
// A BPF program at the tracepoint qdisc_enqueue watches the queues of any qdisc. It changes nothing in the
// configuration of traffic control. It does not see packets without a queue, which XDP or hardware forwards or
// which leave by an interface with noqueue, nor packets that a qdisc drops. The depth of a queue that is counted
// by CPU, as by pfifo_fast, is unknown: see [Source.Unknown]. A packet of segmentation offload that the qdisc
// (tbf) splits is not seen reliably.
package qdisc

import "time"

// An Interface is an interface with a watched queue.
type Interface struct {
	Name string
	// Threshold is the queue depth in bytes, including the packet, from which on packets are reported.
	Threshold uint64
}

// Tunnels are packets of tunnels that a [Source] reports.
type Tunnels uint8

const (
	NoTunnels  Tunnels = iota
	Readable           // packets that may carry readable RoCEv2: IP in IP, GRE, VXLAN, Geneve
	AllTunnels         // also every other ECN-capable IPv6 packet with a flow label, such as ESP
)

// Config configures [Open].
type Config struct {
	Interfaces []Interface
	// PerFlow is the shortest time between two reported packets of a flow, so that packets that may be answered fit
	// into the ring; 0 sets no limit. A flow is identified by its interface, addresses and destination queue pair,
	// in a tunnel by its outer addresses and flow label.
	PerFlow time.Duration
	// Tunnels are the packets of tunnels to report in addition.
	Tunnels Tunnels
	// Ring is the size in bytes of the buffer of unread packets, rounded up to a power of two; 0 stands for 4 MiB,
	// about 3,200 packets.
	Ring uint32
}

// Snap is the largest number of bytes reported of a packet: as many as the longest proxy message could carry.
const Snap = 1280
