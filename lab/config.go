package lab

import (
	"fmt"
	"slices"
	"time"

	"github.com/rocecn/rocecn/lab/sim"
	"github.com/rocecn/rocecn/node/congested"
	"github.com/rocecn/rocecn/node/limit"
	"github.com/rocecn/rocecn/node/reaction"
	"github.com/rocecn/rocecn/node/sender"
)

// A Variant is how senders are notified.
type Variant uint8

// The variants. In all of them the same packets meet congestion, by the same
// thresholds and the same draws.
const (
	None           Variant = iota // nobody marks and nobody is notified
	CNP                           // packets are marked, the receiver sends CNPs at once
	CNPPolled                     // the receiver looks every interval; only to compare with models that do
	FastCNP                       // the switch sends Fast CNPs and marks nothing
	FastCNPMarks                  // the switch does not know the senders: it sends Fast CNPs and marks
	Oracle                        // as FastCNP, and the sender knows without any delay
	Proxy                         // the switch tells the first switch of the sender, which sends it a CNP
	FCN                           // a router of the WAN tells the ingress PE, which sends the CNP; switches mark
	PPFC                          // the switch asks the sender to hold or stop, and to go on; the rate is not cut
	PPFCAndCNP                    // the same, and packets are marked as for CNP
	HPCC                          // acknowledgements bring what each port said: no marks, no notifications
	HPCCFastCNP                   // Fast CNPs bring what the ports before the congested one said: option 2
	HPCCFastCNPOwn                // and what the congested one itself has to say
	HPCCBoth                      // HPCC and HPCCFastCNPOwn together
)

// Variants is how many there are.
const Variants = int(HPCCBoth) + 1

var variants = []string{
	"none", "cnp", "cnp-polled", "fastcnp", "fastcnp-marks", "oracle", "proxy", "fcn", "ppfc", "ppfc-cnp",
	"hpcc", "hpcc-fastcnp", "hpcc-fastcnp-own", "hpcc-both",
}

// HPCC says whether senders react as HPCC does.
func (v Variant) HPCC() bool { return v >= HPCC }

// byAck says whether acknowledgements bring what the ports said.
func (v Variant) byAck() bool { return v == HPCC || v == HPCCBoth }

// pauses says whether switches send PPFCs.
func (v Variant) pauses() bool { return v == PPFC || v == PPFCAndCNP }

// decides says whether packets meet congestion by RED.
func (v Variant) decides() bool { return v != None && v != PPFC && v != HPCC }

// answers says whether receivers send CNPs for marks.
func (v Variant) answers() bool {
	switch v {
	case CNP, CNPPolled, FastCNPMarks, FCN, PPFCAndCNP:
		return true
	}
	return false
}

// String returns the name that scenarios have.
func (v Variant) String() string {
	if int(v) < len(variants) {
		return variants[v]
	}
	return fmt.Sprintf("Variant(%d)", uint8(v))
}

// MarshalText returns what String does.
func (v Variant) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// UnmarshalText sets v from what String returns.
func (v *Variant) UnmarshalText(text []byte) error {
	return unmarshal(v, variants, text)
}

// A Point is where a switch decides whether a packet meets congestion.
type Point uint8

// The points. A mark made at arrival waits with its packet, a notification
// does not: the two must not be compared.
const (
	AtDeparture Point = iota // by the queue that the packet leaves behind
	AtArrival                // by the queue that the packet finds
)

var points = []string{"departure", "arrival"}

// String returns "departure" or "arrival".
func (p Point) String() string {
	if int(p) < len(points) {
		return points[p]
	}
	return fmt.Sprintf("Point(%d)", uint8(p))
}

// MarshalText returns what String does.
func (p Point) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText sets p from what String returns.
func (p *Point) UnmarshalText(text []byte) error {
	return unmarshal(p, points, text)
}

func unmarshal[T ~uint8](v *T, names []string, text []byte) error {
	i := slices.Index(names, string(text))
	if i < 0 {
		return fmt.Errorf("%q is not one of %q", text, names)
	}
	*v = T(i)
	return nil
}

// RED says which packets meet congestion: by a queue of octets, none below Min,
// all above Max, between them with a probability that rises to Probability. Max 0
// is none ever.
type RED struct {
	Min, Max    int64
	Probability float64
	At          Point
}

// Buffer is the memory of a switch, in octets.
type Buffer struct {
	Total int64 // shared by all ports; 0 has no end

	// Alpha times what is free of Total is what one queue may have: that of an
	// egress port, or with PFC what came in by one port.
	Alpha float64

	// Queue is the most that one queue of an egress port may have, whatever else there is
	// room for; 0 is no limit.
	Queue int64

	// PFC pauses the data class of a neighbour whose packets have more than
	// Alpha allows, or more than XOFF where that is above 0, and lets it go on when they have
	// XON less. Up to Headroom a port is kept for what comes meanwhile, and up to
	// Pool of all ports, where that is above 0. Reserve is what each port has for
	// itself, outside Total.
	PFC                                bool
	XOFF, XON, Headroom, Pool, Reserve int64
}

// Pausing says when switches send PPFCs, and what these ask for.
type Pausing struct {
	// Up and Down are the depths of a data queue, in octets, at which its level of
	// congestion rises and falls: see [level.Thresholds]. At level 0 all that were
	// stopped or held are let go on.
	Up, Down []uint64

	From     congested.PauseFrom // what is asked for at which level
	For      time.Duration       // for how long; whole microseconds
	Interval time.Duration       // the least time between two PPFCs about a flow, but those that let it go on
	Most     time.Duration       // what a host or a PE obeys for at most; 0: whatever is asked for

	// Ingress: routers of the WAN ask the ingress PE of the packet, and not the sender, who is not told. The PE stores
	// what it stops.
	Ingress bool
}

// Config is what all nodes of a network have. Delays of 0 are none.
type Config struct {
	Seed    uint64
	Variant Variant
	RED     RED
	Buffer  Buffer

	// Payload is how many octets of data a packet carries: 1,024 where it is 0. A
	// frame has 82 more, the wire 20 more than that.
	Payload int

	Pausing Pausing // of the variants with PPFC; RED has no part in that

	// TraceHops is for how many ports the trace of HPCC's packets has room, 5 where
	// it is 0, 8 at most. It is in each packet of data: 28 octets a port, and 20
	// where no acknowledgement brings it back.
	TraceHops int

	// Labels is how many flows an ingress PE has labels for; 0 stands for all
	// that there are. Idle is how long a flow keeps its label without a packet; 0 stands
	// for a minute.
	Labels int
	Idle   time.Duration

	// Cold: proxies and ingress PEs do not know the queue pairs of all flows from the start. They learn them from the
	// data and acknowledgements that pass them, and stay silent about a flow until then.
	Cold bool

	Pipeline    sim.Time // of a switch: from the last octet in to the queue
	SwitchDelay sim.Time // of a switch: from the decision to a notification in its queue
	ProxyDelay  sim.Time // of a proxy: from a message to the CNP in its queue
	EdgeDelay   sim.Time // of an ingress PE: from an FCN to the CNP in its queue, from a PPFC to what it asks for
	PauseDelay  sim.Time // of a port: from a PFC frame to the pause

	NoticeLoss float64 // the share of notifications that each switch loses, from 0 to 1

	SwitchLimit, HostLimit limit.Rate // of all notifications of a switch, of a host; the zero Rate is none

	Interval      time.Duration // the least time between two notifications of a flow, whoever sends them
	Join          time.Duration // reports of a flow that a sender takes for one and the same; 0 joins none
	ReceiverDelay sim.Time      // of a host: from a marked packet to the CNP in its queue
	SenderDelay   sim.Time      // of a host: from a notification to the new rate

	AckEvery int      // packets; 1 where it is 0, and with HPCC. The last one of a message is always acknowledged
	Timeout  sim.Time // of a sender: go back to what is not acknowledged; 0 is never

	DataPriority, AckPriority, NotificationPriority uint8 // 0 to 7; 7 goes first

	// Reaction returns the reaction point of a port; nil has none, and flows keep
	// the rate of the port. HPCC returns that of the variants of this name. Control, where
	// it is not nil, takes the place of Reaction: it returns the reaction point of a new flow.
	Reaction func(line uint64) reaction.Config
	HPCC     func(line uint64) reaction.HPCCConfig
	Control  func(line uint64) Control
}

// A Control is a reaction point of the caller's own. It does what the methods of a [reaction.Flow] do, which is one.
type Control interface {
	Rate() uint64 // bits a second, above 0
	Next() (at time.Time, ok bool)
	Look(now time.Time)
	Sent(octets int, now time.Time)
	Hear(d *sender.Decision, now time.Time) // d is the laboratory's, and another one after that
}
