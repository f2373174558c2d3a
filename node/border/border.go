// Package border is the role of a border router of a controlled domain. It
// drops congestion messages in both directions, because a message from outside
// could slow down any flow inside (FAST section 5, PROXY section 6).
// [Role.Receive] decides about each packet that is to cross the border.
//
// The drafts of FCN and PPFC have no such rule. A Role drops FCNs as well, and
// PPFCs and CNPs if Config requires it.
//
// Package filter has the same rules for sockets, tc, nftables and ip6tables.
// Those do not look into tunnels, and drop those that they recognize; a Role
// looks into tunnels, and drops the others only with Config.DropTunnels.
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

// Config is the configuration. If it is not Enabled, all packets cross.
type Config struct {
	Enabled bool
	filter.Border
}

// A Role decides about packets at a border. Its only state are its counters.
type Role struct {
	cfg      Config
	counters node.Counters
}

// New returns a Role; see [node.Role].
func New(cfg Config) (*Role, error) {
	return role.New(&Role{}, cfg)
}

// Configure changes the Config. If cfg is Enabled and [filter.Border.Validate]
// rejects it, Configure returns that error and changes nothing.
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

// Receive decides whether a packet may cross the border, in either direction.
// It must not cross if the Action is node.ActionDropped; with every other
// Action it may.
//
//   - node.ActionPassed: RoCEv2, or a message that may cross
//   - node.ActionRefused with node.ReasonDisabled: the same, while the Role is
//     not enabled
//   - node.NoAction: other traffic, and every packet with Event.Observe
//
// Receive appends nothing to out and ignores the domain and the time of the
// Event. The result for a frame that a capture has truncated is the same as for
// the complete frame.
func (b *Role) Receive(out []byte, f *rocev2.Frame, e node.Event) (sent []byte, d node.Decision) {
	if f == nil || e.Observe {
		return out, d
	}
	kind, drop := b.cfg.Match(f)
	d.Packet = kind
	switch {
	case kind == message.KindOther && !(drop && b.cfg.Enabled):
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
