package lab

import (
	"time"

	"github.com/rocecn/rocecn/internal/enumtext"
	"github.com/rocecn/rocecn/lab/sim"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/congested"
	"github.com/rocecn/rocecn/node/reaction"
)

// A Variant says how senders are notified.
type Variant uint8

// The variants. In all of them RED decides by the same thresholds and the same
// random numbers which packets meet congestion.
const (
	None           Variant = iota // no marks and no notifications
	CNP                           // packets are marked, the receiver sends CNPs immediately
	CNPPolled                     // the receiver checks once every interval; only for comparison with such models
	FastCNP                       // the switch sends Fast CNPs and marks nothing
	FastCNPMarks                  // the switch does not know whether senders are capable: it sends Fast CNPs and marks
	Oracle                        // as FastCNP, but the sender is notified without any delay
	Proxy                         // the switch notifies the first switch of the sender, which sends the CNP
	FCN                           // a router of the WAN notifies the ingress PE, which sends the CNP; switches mark
	PPFC                          // the switch asks the sender to hold or stop, and to continue; the rate is not cut
	PPFCAndCNP                    // as PPFC, and packets are marked as with CNP
	HPCC                          // acknowledgements carry the trace of each port; no marks, no notifications
	HPCCFastCNP                   // Fast CNPs carry, in option 2, the trace of the ports before the congested one
	HPCCFastCNPOwn                // as HPCCFastCNP, with the congested port's own record
	HPCCBoth                      // HPCC and HPCCFastCNPOwn together
)

// Variants is the number of variants.
const Variants = int(HPCCBoth) + 1

var variants = []string{
	"none", "cnp", "cnp-polled", "fastcnp", "fastcnp-marks", "oracle", "proxy", "fcn", "ppfc", "ppfc-cnp",
	"hpcc", "hpcc-fastcnp", "hpcc-fastcnp-own", "hpcc-both",
}

// HPCC reports whether senders use HPCC.
func (v Variant) HPCC() bool { return v >= HPCC }

// byAck reports whether acknowledgements carry the trace.
func (v Variant) byAck() bool { return v == HPCC || v == HPCCBoth }

// recordsOwn reports whether switches add their own record to the trace in a Fast CNP.
func (v Variant) recordsOwn() bool { return v == HPCCFastCNPOwn || v == HPCCBoth }

// usesPPFC reports whether switches send PPFCs.
func (v Variant) usesPPFC() bool { return v == PPFC || v == PPFCAndCNP }

// Decides reports whether RED decides which packets experience congestion.
func (v Variant) Decides() bool { return v != None && v != PPFC && v != HPCC }

// Answers reports whether receivers answer marks with CNPs.
func (v Variant) Answers() bool {
	switch v {
	case CNP, CNPPolled, FastCNPMarks, FCN, PPFCAndCNP:
		return true
	}
	return false
}

// String returns the name of v in scenarios.
func (v Variant) String() string { return enumtext.Name(v, variants, "Variant") }

// MarshalText returns the same text as String.
func (v Variant) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// UnmarshalText sets v from the text that String returns.
func (v *Variant) UnmarshalText(text []byte) error { return enumtext.OneOf(v, text, variants) }

// A Point is where a switch decides whether a packet meets congestion.
type Point uint8

// The points. A mark made at arrival waits in the queue with its packet, a
// notification does not: results of different points must not be compared.
const (
	AtDeparture Point = iota // by the queue after the packet has left
	AtArrival                // by the queue that the packet finds
)

var points = []string{"departure", "arrival"}

// String returns "departure" or "arrival".
func (p Point) String() string { return enumtext.Name(p, points, "Point") }

// MarshalText returns the same text as String.
func (p Point) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText sets p from the text that String returns.
func (p *Point) UnmarshalText(text []byte) error { return enumtext.OneOf(p, text, points) }

// RED determines which packets experience congestion, by the octets in a queue: none below
// Min, all above Max, and between them with a probability that rises to
// Probability. With Max 0 no packet does.
type RED struct {
	Min, Max    int64
	Probability float64
	At          Point
}

// Buffer is the memory of a switch, in octets.
type Buffer struct {
	Total int64 // shared by all ports, with room for a frame at least; 0 is unlimited

	// Alpha times the free octets of Total is the most that one queue may have:
	// the queue of an egress port or, with PFC, all packets from one ingress
	// port.
	Alpha float64

	// Queue is the most that one queue of an egress port may have; 0 is no limit.
	Queue int64

	// PFC pauses the data class of a neighbour if its packets exceed the limit of Alpha, or XOFF if that is above 0,
	// and resumes it when they are XON below that. For the packets that arrive until then each port has up to Headroom,
	// and all ports together up to Pool if that is above 0. Reserve is each port's own memory, outside Total.
	PFC                                bool
	XOFF, XON, Headroom, Pool, Reserve int64

	// Trim: a switch without space for a packet of data forwards its headers, and the receiver asks for the packet.
	// Only with Selective.
	Trim bool

	// Watchdog is the maximum time for which the data class of a switch's port may be paused without a break. After it
	// the waiting packets are dropped, and so are those that arrive until the pause ends. 0 is no limit.
	Watchdog sim.Time
}

// Pausing is the configuration of the PPFCs that switches send.
type Pausing struct {
	// Up and Down are the depths of a data queue, in octets, at which its
	// congestion level rises and falls: see [level.Thresholds]. At level 0 all
	// flows that were stopped or held may continue.
	Up, Down []uint64

	From     congested.PauseFrom // the level from which on each request is sent
	For      time.Duration       // requested length of the pause; whole microseconds
	Interval time.Duration       // the least time between two PPFCs about a flow, except those that end a pause
	Most     time.Duration       // the longest pause that a host or a PE accepts; 0: any

	// Ingress: routers of the WAN send PPFCs to the ingress PE of the packet and not to the sender. The PE
	// stores the packets of flows that it stops.
	Ingress bool
}

// Config is common to all nodes of a network. A delay of 0 is no delay; no delay is longer than an hour. [New] rejects
// an invalid value with an error that names the field.
type Config struct {
	Seed    uint64
	Variant Variant
	RED     RED
	Buffer  Buffer

	// Payload is the octets of data in a packet: a multiple of 4 up to 8,192; 1,024 if it is 0. A frame has 82
	// more, and takes another 20 on the wire.
	Payload int

	Pausing Pausing // for the variants with PPFC; RED has no influence on it

	// TraceHops is the number of ports for which the trace of HPCC's packets
	// has room: 5 if it is 0, at most 8. Each takes 28 octets of every data
	// packet, or 20 if acknowledgements do not carry the trace.
	TraceHops int

	// Labels is the number of flows for which an ingress PE has labels; 0 stands for all labels that exist. Idle is the
	// time after which a flow without packets loses its label; 0 stands for a minute.
	Labels int
	Idle   time.Duration

	// Incapable is the number of hosts, from the first, that do not understand Fast CNPs. Switches know that, but
	// for FastCNPMarks: they mark the packets of such senders, and receivers answer the marks. With Oracle it has
	// no effect.
	Incapable int

	// Rejects: these hosts answer each Fast CNP with an ICMPv6 Parameter Problem, from which the switch learns that.
	// Otherwise they drop it.
	Rejects bool

	// Cold: proxies and ingress PEs do not know the queue pairs of flows at the start. They learn them from the
	// data and acknowledgements that they see, and send nothing about a flow until then.
	Cold bool

	// ColdHosts: hosts do not know which queue pairs theirs talk to at the start. They learn it from the data and
	// acknowledgements that they send and receive. Until then a receiver sends no CNP about a flow, and a sender
	// obeys no Fast CNP about it.
	ColdHosts bool

	// Forget is the time after which a proxy or PE that learns forgets a queue pair without packets; 0 stands for ten
	// minutes.
	Forget time.Duration

	Pipeline    sim.Time // of a switch: from the last octet in to the queue
	SwitchDelay sim.Time // of a switch: from the decision to a notification in its queue
	ProxyDelay  sim.Time // of a proxy: from a message to the CNP in its queue
	EdgeDelay   sim.Time // of an ingress PE: from an FCN to the CNP in its queue, from a PPFC until it takes effect
	PauseDelay  sim.Time // of a port: from a PFC frame to the pause

	NoticeLoss float64 // the share of notifications that each switch loses, from 0 to 1

	SwitchLimit, HostLimit node.Rate // of all notifications of a switch, of a host; the zero Rate is no limit

	Interval      time.Duration // the least time between two notifications of a flow by one node
	Join          time.Duration // further reports of a flow within this time count as the same congestion; 0: none do
	ReceiverDelay sim.Time      // of a host: from a marked packet to the CNP in its queue
	SenderDelay   sim.Time      // of a host: from a notification to the new rate

	// Window is the maximum amount of unacknowledged data of a flow in octets, rounded down to packets; 0 is no limit.
	// It must be at least AckEvery packets, since otherwise no acknowledgement would be sent. HPCC has its own window.
	Window int64

	// Selective: receivers keep packets that arrive after a missing one, and senders retransmit the missing ones only.
	// Spray: each packet of data takes one of the shortest paths at random, except inside a tunnel; only with
	// Selective. A missing packet is then retransmitted after Timeout, because a late one is not lost.
	Selective, Spray bool

	// AckEvery is the number of packets of an acknowledgement: 1 where it is 0, and with HPCC. The last packet of a
	// message is always acknowledged.
	AckEvery int
	Timeout  sim.Time // retransmission timeout of a sender; 0 is never

	DataPriority, AckPriority, NotificationPriority uint8 // 0 to 7; 7 goes first

	// Reaction returns the reaction point's parameters for a port; if it is nil, flows keep the rate of the
	// port. HPCC does the same for the variants of HPCC. Control, if it is not nil, replaces both: it returns the
	// reaction point of a new flow with this maximum rate, in bits a second.
	Reaction func(line uint64) reaction.DCQCNConfig
	HPCC     func(line uint64) reaction.HPCCConfig
	Control  func(line uint64) Control
}
