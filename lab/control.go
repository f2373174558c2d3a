package lab

import (
	"math"
	"time"

	"github.com/rocecn/rocecn/ioam"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/reaction"
)

// A Control is the reaction point of a flow: an algorithm for congestion control. The laboratory calls its methods in
// the order of simulated time. After each call it reads the rate, the window and the time of the next change, and
// schedules the next packet again if they differ.
//
//	Sent       a packet leaves the host
//	Acked      an acknowledgement arrives
//	Lost       packets will be retransmitted
//	Notified   a notification takes effect
//	Advance    the time that Next returned has come
//
// An algorithm embeds [ControlBase], and implements the methods that it needs. Package rtt has examples.
type Control interface {
	// Rate returns the rate at which packets leave the host, in bits a second. 0 counts as 1.
	Rate() uint64

	// Window returns the most octets on the wire that may be unacknowledged; 0 is no limit other than Config.Window.
	// It counts as at least a packet, and as at least Config.AckEvery packets.
	Window() uint64

	// Next returns when the rate or the window will change if nothing else happens, and whether it will.
	Next() (at time.Time, ok bool)

	Advance(now time.Time)
	Sent(octets uint64, now time.Time)        // octets on the wire of a packet that begins to leave
	Acked(a *Ack, now time.Time)              // a is valid until Acked returns
	Lost(octets uint64, now time.Time)        // octets of data that will be retransmitted
	Notified(d *node.Decision, now time.Time) // d is valid until Notified returns
}

// An Ack is an acknowledgement as it arrives at the sender.
type Ack struct {
	RTT    time.Duration // since the packet that caused it began to leave the host
	Marked bool          // a packet since the acknowledgement before this one had the mark CE
	Octets uint64        // octets of data that it acknowledges first, in whole packets

	// Number is the number of the first packet that it does not acknowledge, Next that of the next packet to be sent.
	Number, Next uint64

	Hops []reaction.Hop // ports on the path, in variants in which acknowledgements carry the trace
}

// ControlBase has the methods of a [Control] without effect, except Rate: no window and no timers.
type ControlBase struct{}

// Window implements Control.
func (ControlBase) Window() uint64 { return 0 }

// Next implements Control.
func (ControlBase) Next() (at time.Time, ok bool) { return at, false }

// Advance implements Control.
func (ControlBase) Advance(time.Time) {}

// Sent implements Control.
func (ControlBase) Sent(uint64, time.Time) {}

// Acked implements Control.
func (ControlBase) Acked(*Ack, time.Time) {}

// Lost implements Control.
func (ControlBase) Lost(uint64, time.Time) {}

// Notified implements Control.
func (ControlBase) Notified(*node.Decision, time.Time) {}

// dcqcnControl is DCQCN as a Control.
type dcqcnControl struct {
	ControlBase
	reaction.DCQCNFlow
}

func (c *dcqcnControl) Next() (at time.Time, ok bool)            { return c.DCQCNFlow.Next() }
func (c *dcqcnControl) Advance(now time.Time)                    { c.DCQCNFlow.Advance(now) }
func (c *dcqcnControl) Sent(octets uint64, now time.Time)        { c.DCQCNFlow.Sent(octets, now) }
func (c *dcqcnControl) Notified(d *node.Decision, now time.Time) { c.React(d, now) }

// hpccControl is HPCC as a Control.
type hpccControl struct {
	ControlBase
	reaction.HPCCFlow
	net *Network
}

func (c *hpccControl) Next() (at time.Time, ok bool) { return c.HPCCFlow.Next() }
func (c *hpccControl) Advance(now time.Time)         { c.HPCCFlow.Advance(now) }

func (c *hpccControl) Window() uint64 {
	if w := c.HPCCFlow.Window(1); w < math.MaxUint64 {
		return w
	}
	return 0
}

func (c *hpccControl) Acked(a *Ack, _ time.Time) { c.Acknowledged(a.Number, a.Next, a.Hops) }

func (c *hpccControl) Notified(d *node.Decision, now time.Time) {
	if d.Trace != nil {
		n := c.net
		c.React(d, reaction.Hops(n.roles.hops[:0], d.Trace, ioam.TimeFormatPTP, n.recordBandwidth), now)
	}
}
