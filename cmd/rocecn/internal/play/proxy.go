package play

import (
	"errors"
	"net/netip"
	"time"

	"github.com/rocecn/rocecn/message"
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
	p := &proxyNode{enabled: c.Enabled, port: messages.ProxyPort, pairs: qpmap.New(qpmap.Config{})}
	cfg := proxy.Config{
		Enabled: c.Enabled, Accept: acl.New(c.Accept...), FromReceiver: c.CNPSource == "destination", QPs: p.pairs,
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
	p.proxy, err = proxy.New(cfg)
	return p, err
}

// proxyNode plays the proxy node.
type proxyNode struct {
	enabled  bool
	port     uint16
	proxy    *proxy.Proxy
	pairs    *qpmap.Map
	datagram rocev2.Datagram
	packet   rocev2.Packet
	buf      []byte
}

func (p *proxyNode) play(f *frame) (line, []byte) {
	switch reason := toPort(&p.datagram, f, p.port); reason {
	case node.NotOurs:
	case node.Accepted:
		out, a, reason := p.proxy.ReceivePacket(p.buf[:0], &p.datagram, f.Time)
		p.buf = out[:0]
		switch {
		case reason != node.Accepted:
			return refuse(reason), nil
		case a.Method == proxy.Other: // what is sent is not the proxy's to know
			return line{Action: accepted, Kind: message.Proxy.String()}, nil
		}
		return line{Action: sent, Kind: a.Method.String(), To: a.Flow.Src, Option: a.Option}, out
	default: // fragment, broken
		if !p.enabled {
			reason = node.Disabled
		}
		return refuse(reason), nil
	}
	if p.packet.Decode(f.Data, f.Options) != nil || !p.proxy.Observe(&p.packet, f.Time) {
		return line{}, nil
	}
	return learnedFrom(p.pairs, &p.packet), nil
}

// toPort looks for a UDP datagram to this port: Accepted says that d is one, Broken
// and Fragment that there is one but not a whole one, NotOurs that there is none.
func toPort(d *rocev2.Datagram, f *frame, port uint16) node.Reason {
	err := d.Decode(f.Data, f.Options, port)
	switch {
	case err == nil:
		return node.Accepted
	case errors.Is(err, rocev2.ErrFragment):
		if first, ok := rocev2.FirstFragmentPort(f.Data, f.Options); ok && first == port {
			return node.Fragment
		}
	case !errors.Is(err, rocev2.ErrNotRoCEv2):
		return node.Broken
	}
	return node.NotOurs
}
