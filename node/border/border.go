// Package border is the border of a controlled domain, which messages of congestion signalling do not cross, neither
// coming in nor going out (FAST section 5, PROXY section 6).
//
// The drafts of FCN and PPFC have no such rule; FCN is kept from crossing all the same, PPFC by choice.
//
// What is to be dropped package filter says, also to sockets, tc, nftables and ip6tables; those cannot look into
// tunnels, a Border does.
package border

import (
	"time"

	"github.com/rocecn/rocecn/filter"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/rocev2"
)

// Config is what a deployment chooses. The zero Config is off: everything passes.
type Config struct {
	Enabled bool
	filter.Border
}

// A Border judges packets. It keeps no state but counters. It is not safe for concurrent use, but for
// [Border.Counters]: one instance a core.
type Border struct {
	cfg      Config
	counters node.Counters
}

// New returns a Border. There is no Config that cannot work: the error is nil.
func New(cfg Config) (*Border, error) {
	b := &Border{}
	return b, b.Configure(cfg)
}

// Configure changes the rules in place. The error is nil.
func (b *Border) Configure(cfg Config) error {
	b.cfg = cfg
	return nil
}

// Counters returns what has been counted. It may be read from another goroutine. With node.Nothing it counts the
// packets that are neither RoCEv2 nor a message.
func (b *Border) Counters() *node.Counters { return &b.counters }

// Receive says whether a packet may cross, in either direction: all but those with node.Dropped may. Nothing is
// appended to out, and neither domain nor time matters. node.Nothing is for what is neither RoCEv2 nor a message;
// Refused as Disabled is what passes since the role is off. Whether the capture cut the frame does not matter.
func (b *Border) Receive(out []byte, f *rocev2.Frame, _ uint32, _ time.Time) ([]byte, node.Decision) {
	var d node.Decision
	kind, drop := b.cfg.Match(f)
	d.Packet = kind
	switch {
	case kind == message.Other:
		b.counters.Inc(node.Count{})
	case !b.cfg.Enabled:
		d.Reason = node.Disabled
	case drop:
		d.Action, d.Kind = node.Dropped, kind
	default:
		d.Action = node.Passed
	}
	b.counters.Decided(&d)
	return out, d
}
