package lab

import (
	"fmt"
	"slices"
	"time"

	"github.com/rocecn/rocecn/lab/sim"
	"github.com/rocecn/rocecn/node/reaction"
)

// A Variant is how senders are notified.
type Variant uint8

// The variants. In all of them the same packets meet congestion, by the same
// thresholds and the same draws.
const (
	None         Variant = iota // nobody marks and nobody is notified
	CNP                         // packets are marked, the receiver sends CNPs at once
	CNPPolled                   // the receiver looks every interval; only to compare with models that do
	FastCNP                     // the switch sends Fast CNPs and marks nothing
	FastCNPMarks                // the switch does not know the senders: it sends Fast CNPs and marks
	Oracle                      // as FastCNP, and the sender knows without any delay
	Proxy                       // the switch tells the first switch of the sender, which sends it a CNP
	HPCC                        // acknowledgements bring what each port said: no marks, no notifications
)

var variants = []string{"none", "cnp", "cnp-polled", "fastcnp", "fastcnp-marks", "oracle", "proxy", "hpcc"}

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
		return fmt.Errorf("%q is none of %q", text, names)
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

	// PFC pauses the data class of a neighbour whose packets have more than
	// Alpha allows, or more than XOFF where that is above 0, and lets it go on when they have
	// XON less. Up to Headroom a port is kept for what comes meanwhile.
	PFC                 bool
	XOFF, XON, Headroom int64
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

	Pipeline    sim.Time // of a switch: from the last octet in to the queue
	SwitchDelay sim.Time // of a switch: from the decision to a notification in its queue
	ProxyDelay  sim.Time // of a proxy: from a message to the CNP in its queue
	PauseDelay  sim.Time // of a port: from a PFC frame to the pause

	Interval      time.Duration // the least time between two notifications of a flow, whoever sends them
	Join          time.Duration // reports of a flow that a sender takes for one and the same; 0 joins none
	ReceiverDelay sim.Time      // of a host: from a marked packet to the CNP in its queue
	SenderDelay   sim.Time      // of a host: from a notification to the new rate

	AckEvery int      // packets; 1 where it is 0. The last one of a message is always acknowledged
	Timeout  sim.Time // of a sender: go back to what is not acknowledged; 0 is never

	DataPriority, AckPriority, NotificationPriority uint8 // 0 to 7; 7 goes first

	// Reaction returns the reaction point of a port; nil has none, and flows keep
	// the rate of the port. HPCC returns that of the variant of this name. What the ports say has no octets here.
	Reaction func(line uint64) reaction.Config
	HPCC     func(line uint64) reaction.HPCCConfig
}
