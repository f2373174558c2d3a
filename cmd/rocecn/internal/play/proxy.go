package play

import (
	"net/netip"
	"time"

	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/acl"
	"github.com/rocecn/rocecn/node/limit"
	"github.com/rocecn/rocecn/node/proxy"
	"github.com/rocecn/rocecn/ppfc"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
)

func init() { roles["proxy"] = func() config { return new(proxyConfig) } }

// proxyConfig is the configuration of the proxy node.
type proxyConfig struct {
	common
	Self    ownAddresses   `json:"self"`
	Accept  []netip.Prefix `json:"accept"` // congested nodes
	Senders []struct {
		Prefix netip.Prefix  `json:"prefix"`
		Send   *proxy.Method `json:"send"`
	} `json:"senders"`
	CNPSource    string        `json:"cnp_source"` // self, the default, or destination
	RateIn       rate          `json:"rate_in"`
	RateInSource rate          `json:"rate_in_source"` // of each congested node
	RateOut      rate          `json:"rate_out"`
	PerFlow      time.Duration `json:"per_flow"`
}

func (c *proxyConfig) role() (role, error) {
	messages, err := c.message()
	if err != nil {
		return nil, err
	}
	if c.CNPSource != "" && c.CNPSource != "self" && c.CNPSource != "destination" {
		return nil, wrong("cnp_source", "%q is neither self nor destination", c.CNPSource)
	}
	cfg := proxy.Config{
		Enabled: c.Enabled, Accept: acl.New(c.Accept...), Port: messages.ProxyPort,
		FromReceiver: c.CNPSource == "destination", QPs: qpmap.New(qpmap.Config{}),
		In: limit.Rate(c.RateIn), InPerSource: limit.Rate(c.RateInSource),
		Out: limit.Rate(c.RateOut), PerFlow: c.PerFlow,
		CodePoints: messages.CodePoints,
		Pause:      ppfc.Extension{Type: ppfc.Stop, Pause: 100 * time.Microsecond},
	}
	if c.Enabled {
		if cfg.Self4, cfg.Self6, err = c.Self.families("self"); err != nil {
			return nil, err
		}
		senders := make([]acl.Entry[proxy.Method], len(c.Senders))
		for i, s := range c.Senders {
			switch at := index("senders", i); {
			case !s.Prefix.IsValid():
				return nil, wrong(join(at, "prefix"), "missing")
			case s.Send == nil:
				return nil, wrong(join(at, "send"), "missing")
			}
			senders[i] = acl.Entry[proxy.Method]{Prefix: s.Prefix, Value: *s.Send}
		}
		cfg.Senders = acl.NewMap(senders...)
	}
	p, err := proxy.New(cfg)
	return &proxyNode{p}, err
}

// proxyNode plays the proxy node.
type proxyNode struct{ *proxy.Proxy }

func (p *proxyNode) play(out []byte, f *rocev2.Frame, now time.Time) ([]byte, line) {
	out, d := p.Receive(out, f, 0, now)
	l := lineOf(&d.Decision)
	if d.Action == node.Taken { // what is sent is not the proxy's to know
		l.Kind, l.QP = d.Kind.String(), nil
	}
	return out, l
}
