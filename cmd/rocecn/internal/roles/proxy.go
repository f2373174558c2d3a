package roles

import (
	"net/netip"
	"time"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/config"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/acl"
	"github.com/rocecn/rocecn/node/proxy"
	"github.com/rocecn/rocecn/ppfc"
	"github.com/rocecn/rocecn/proxymsg"
)

// ProxyConfig is the configuration of the proxy node.
type ProxyConfig struct {
	common
	Self    ownAddresses   `json:"self"`
	Accept  []netip.Prefix `json:"accept"` // congested nodes
	Senders []struct {
		Prefix netip.Prefix  `json:"prefix"`
		Send   *proxy.Answer `json:"send"`
	} `json:"senders"`
	Family       uint8         `json:"family"`     // of the flows in messages, 4 or 6; 0: inferred
	CNPSource    string        `json:"cnp_source"` // self, the default, or destination
	RateIn       rate          `json:"rate_in"`
	RateInSource rate          `json:"rate_in_source"` // of each congested node
	RateOut      rate          `json:"rate_out"`
	PerFlow      time.Duration `json:"per_flow"`
	LearnPort    bool          `json:"learn_port"` // whether the UDP source port may decide a tie of votes
}

// Limited implements [Sending].
func (c *ProxyConfig) Limited() bool { return c.PerFlow != 0 || c.RateOut != rate{} }

// Lacks implements [Lacking].
func (c *ProxyConfig) Lacks() error {
	switch {
	case len(c.Accept) == 0:
		return config.Wrong("accept", "missing: without it no node's messages count")
	case len(c.Senders) == 0:
		return config.Wrong("senders", "missing: without senders the proxy answers no message")
	}
	return nil
}

// Apply implements [Config].
func (c *ProxyConfig) Apply(old node.Role) (node.Role, error) {
	messages, err := c.messageConfig()
	if err != nil {
		return nil, err
	}
	if err := checkWord("cnp_source", c.CNPSource, "self", "destination"); err != nil {
		return nil, err
	}
	family := proxymsg.Family(c.Family)
	if family != 0 && family != proxymsg.IPv4 && family != proxymsg.IPv6 {
		return nil, config.Wrong("family", "%d: want 4 or 6", c.Family)
	}
	before := oldOrNew[Proxy](old)
	r := &Proxy{before.Role, newPairs(before.pairs, true, 0, c.qpmapConfig(c.LearnPort))}
	cfg := proxy.Config{
		Enabled: c.Enabled, Accept: acl.New(c.Accept...), Port: messages.ProxyPort, Family: family,
		FromReceiver: c.CNPSource == "destination", QPs: r.pairs,
		In: node.Rate(c.RateIn), InPerSource: node.Rate(c.RateInSource),
		Out: node.Rate(c.RateOut), PerFlow: c.PerFlow,
		CodePoints: messages.CodePoints,
		Pause:      ppfc.Extension{Type: ppfc.Stop, Pause: 100 * time.Microsecond},
	}
	if c.Enabled {
		if cfg.Self4, cfg.Self6, err = c.Self.splitFamilies("self", true); err != nil {
			return nil, err
		}
		senders, err := byPrefix[proxy.Answer]("senders", c.Senders)
		if err != nil {
			return nil, err
		}
		cfg.Senders = acl.NewMap(senders...)
	}
	r.pairs.self4, r.pairs.self6 = cfg.Self4, cfg.Self6
	return r, configureRole(&r.Role, proxy.New, cfg)
}

// A Proxy is the proxy node, which learns queue pairs.
type Proxy struct {
	*proxy.Role
	pairs *pairs
}

// SetDevice implements [DeviceUser].
func (p *Proxy) SetDevice(d *Device) { p.pairs.setDevice(d) }

// Due implements [node.Role].
func (p *Proxy) Due(out []byte, now time.Time) ([]byte, node.Decision) {
	p.pairs.Expire(now)
	return p.Role.Due(out, now)
}

// Sizes implements [Sized].
func (p *Proxy) Sizes() Sizes { return p.pairs.sizes() }

// Tables implements [Tabled].
func (p *Proxy) Tables() []Table { return p.pairs.tables() }
