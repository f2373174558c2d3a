package roles

import (
	"net/netip"
	"time"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/config"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/acl"
	"github.com/rocecn/rocecn/node/pause"
	"github.com/rocecn/rocecn/rocev2"
)

// pauseConfig is the configuration of an ingress or a host that takes PPFC.
type pauseConfig struct {
	common
	Self     ownAddresses   `json:"self"`
	Accept   []netip.Prefix `json:"accept"`    // the nodes whose notifications count
	MaxPause time.Duration  `json:"max_pause"` // no state lasts longer; 0: as long as a notification asks for
	QPs      []hostPair     `json:"qps"`

	RateIn     rate `json:"rate_in"`        // of notifications, whatever becomes of them
	RateInFrom rate `json:"rate_in_source"` // of those of one node
}

// Lacks is that of [Lacking].
func (c *pauseConfig) Lacks() error {
	if len(c.Accept) == 0 {
		return config.Wrong("accept", "missing: without it no node's notifications count")
	}
	return nil
}

// Apply is that of [Config].
func (c *pauseConfig) Apply(old Role) (Role, error) {
	if _, err := c.message(); err != nil {
		return nil, err
	}
	cfg := pause.Config{
		Enabled: c.Enabled, Accept: acl.New(c.Accept...), MaxPause: c.MaxPause,
		In: node.Rate(c.RateIn), InPerSource: node.Rate(c.RateInFrom),
	}
	r := again[pauseRole](old)
	configure := func() error { return apply(&r.Table, pause.New, cfg) }
	if !c.Enabled {
		return r, configure()
	}
	var err error
	if cfg.Self4, cfg.Self6, err = c.Self.families("self", true); err != nil {
		return nil, err
	}
	qps := newPairs(nil, false, len(c.QPs), c.learning(false))
	if err := qps.giveHost(c.QPs, cfg.Self4, cfg.Self6); err != nil {
		return nil, err
	}
	cfg.QPs = qps
	return r, qps.use(configure)
}

type pauseRole struct{ *pause.Table }

// Play does what PPFC notifications ask for. Those for others have a line, too.
func (r *pauseRole) Play(out []byte, f *rocev2.Frame, now time.Time) ([]byte, Verdict) {
	out, d := r.Receive(out, f, 0, now)
	v := Verdict{Decision: d.Decision}
	if d.Action == node.Accepted {
		v.State, v.Pause, v.Keys = d.State.String(), d.Pause, State
	}
	return out, v
}

// Stopped returns how many flows and ports do not run.
func (r *pauseRole) Stopped() int { return r.Len() }

// Expire lets those run whose time is over.
func (r *pauseRole) Expire(now time.Time) int {
	before := r.Len()
	r.Next(now)
	return before - r.Len()
}
