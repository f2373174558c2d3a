// Package border is the border of a controlled domain: a filter that drops congestion messages in both directions
// (FAST section 5, PROXY section 6), as a message from outside could slow down any flow inside.
//
// The drafts of FCN and PPFC have no such rule. A Role drops FCN all the same, and PPFC if Config says so.
//
// Package filter has the same rules for sockets, tc, nftables and ip6tables. Unlike those, a Role also looks into
// tunnels.
//
// Experimental: this package may change in a minor release.
package border

import (
	"fmt"
	"time"

	"github.com/rocecn/rocecn/filter"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/internal/role"
	"github.com/rocecn/rocecn/rocev2"
)

// Config is the configuration. While a Role is not enabled, everything passes.
type Config struct {
	Enabled bool
	filter.Border
}

// A Role judges packets. It keeps no state but counters.
type Role struct {
	cfg      Config
	counters node.Counters
}

// New returns a Role; see [node.Role].
func New(cfg Config) (*Role, error) {
	return role.New(&Role{}, cfg)
}

// Configure changes the rules. An enabled Role returns the error of [filter.Border.Validate], and
// changes nothing.
func (b *Role) Configure(cfg Config) error {
	if cfg.Enabled {
		if err := cfg.Validate(); err != nil {
			return fmt.Errorf("border: %w", err)
		}
	}
	b.cfg = cfg
	return nil
}

// Counters returns the counters. Any goroutine may read it. With node.NoAction it counts the packets that are
// neither RoCEv2 nor a message.
func (b *Role) Counters() *node.Counters { return &b.counters }

// Receive decides whether a packet may cross, in either direction. A packet may cross unless its Action
// is node.ActionDropped.
// Packets that are neither RoCEv2 nor a congestion message have node.NoAction, as all have with Event.Observe; while
// the Role is not enabled, the others have node.ActionRefused with node.ReasonDisabled, and cross. Receive appends
// nothing to out, ignores domain and time, and works on frames that a capture has truncated.
func (b *Role) Receive(out []byte, f *rocev2.Frame, e node.Event) (sent []byte, d node.Decision) {
	if f == nil || e.Observe {
		return out, d
	}
	kind, drop := b.cfg.Match(f)
	d.Packet = kind
	switch {
	case kind == message.KindOther:
		b.counters.Inc(node.Count{})
	case !b.cfg.Enabled:
		d.Reason = node.ReasonDisabled
	case drop:
		d.Action, d.Message = node.ActionDropped, kind
	default:
		d.Action = node.ActionPassed
	}
	b.counters.Settle(&d)
	return out, d
}

// Due does nothing: a border has no timers.
func (b *Role) Due(out []byte, _ time.Time) (sent []byte, d node.Decision) { return out, d }
