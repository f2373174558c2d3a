package roles

import (
	"net/netip"
	"time"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/config"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/acl"
	"github.com/rocecn/rocecn/node/pause"
)

// PauseConfig is the configuration of an ingress or a host that takes PPFC.
type PauseConfig struct {
	common
	Self     ownAddresses   `json:"self"`
	Accept   []netip.Prefix `json:"accept"`    // nodes that may notify
	MaxPause time.Duration  `json:"max_pause"` // no state lasts longer; 0: as long as a notification asks for
	QPs      []hostPair     `json:"qps"`

	RateIn     rate `json:"rate_in"`        // of all notifications, accepted or not
	RateInFrom rate `json:"rate_in_source"` // of those of one node
}

// Lacks implements [Lacking].
func (c *PauseConfig) Lacks() error {
	if len(c.Accept) == 0 {
		return config.Wrong("accept", "missing: without it no node's notifications count")
	}
	return nil
}

// Apply implements [Config].
func (c *PauseConfig) Apply(old node.Role) (node.Role, error) {
	if _, err := c.messageConfig(); err != nil {
		return nil, err
	}
	cfg := pause.Config{
		Enabled: c.Enabled, Accept: acl.New(c.Accept...), MaxPause: c.MaxPause,
		In: node.Rate(c.RateIn), InPerSource: node.Rate(c.RateInFrom),
	}
	r := oldOrNew[Pause](old)
	configure := func() error { return configureRole(&r.Role, pause.New, cfg) }
	if !c.Enabled {
		return r, configure()
	}
	var err error
	if cfg.Self4, cfg.Self6, err = c.Self.splitFamilies("self", true); err != nil {
		return nil, err
	}
	qps := newPairs(nil, false, len(c.QPs), c.qpmapConfig(false))
	if err := qps.giveHost(c.QPs, cfg.Self4, cfg.Self6); err != nil {
		return nil, err
	}
	cfg.QPs = qps
	return r, qps.applyGiven(configure)
}

// A Pause is the role of a host or an ingress that PPFC stops.
type Pause struct{ *pause.Role }

// Sizes implements [Sized].
func (r *Pause) Sizes() Sizes { return Sizes{Stopped: r.Len()} }

// Tables implements [Tabled].
func (r *Pause) Tables() []Table { return []Table{{"targets", r.Len(), r.Max()}} }
