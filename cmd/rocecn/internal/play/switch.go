package play

import (
	"net/netip"
	"time"

	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/acl"
	"github.com/rocecn/rocecn/node/congested"
	"github.com/rocecn/rocecn/node/level"
	"github.com/rocecn/rocecn/node/limit"
	"github.com/rocecn/rocecn/rocev2"
)

func init() { roles["switch"] = func() config { return new(switchConfig) } }

// switchConfig is the configuration of the node where congestion occurs.
type switchConfig struct {
	common
	Self    ownAddresses `json:"self"`
	Methods []struct {
		Senders netip.Prefix      `json:"senders"`
		Method  *congested.Method `json:"method"`
	} `json:"methods"`
	Capable []struct {
		Senders netip.Prefix          `json:"senders"`
		Capable *congested.Capability `json:"capable"`
	} `json:"capable"`
	Proxies []struct {
		Senders netip.Prefix `json:"senders"`
		Proxy   netip.Addr   `json:"proxy"`
	} `json:"proxies"`
	PE          []netip.Prefix `json:"pe"`       // ingress PEs, whom FCNs may go to
	Level       uint8          `json:"level"`    // of every congested frame
	PauseUS     *uint16        `json:"pause_us"` // what a PPFC asks for; absent: 100
	Port        uint16         `json:"port"`     // what a PPFC says of where
	PerFlow     time.Duration  `json:"per_flow"`
	Rate        rate           `json:"rate"`
	Congested   string         `json:"congested"` // all data packets, the default, or those marked ce
	InnerSource bool           `json:"inner_source"`
	OwnRecord   *ownRecord     `json:"own_record"`
}

func (c *switchConfig) role() (role, error) {
	messages, err := c.message()
	if err != nil {
		return nil, err
	}
	switch {
	case c.Level > level.Max:
		return nil, wrong("level", "%d: 0 to %d allowed", c.Level, level.Max)
	case c.Congested != "" && c.Congested != "all" && c.Congested != "ce":
		return nil, wrong("congested", "%q is neither all nor ce", c.Congested)
	}
	s := &congestedSwitch{enabled: c.Enabled, onlyCE: c.Congested == "ce"}
	s.event = congested.Event{Level: c.Level, Pause: 100 * time.Microsecond, Port: c.Port}
	if c.PauseUS != nil {
		s.event.Pause = time.Duration(*c.PauseUS) * time.Microsecond
	}
	if c.OwnRecord != nil {
		if s.event.Own, err = c.OwnRecord.node(); err != nil {
			return nil, err
		}
	}
	// A role that is off looks at frames all the same, to say so.
	cfg := congested.Config{Enabled: true, Rate: limit.Rate(c.Rate), InnerSource: c.InnerSource, PEs: acl.New(c.PE...)}
	for i := range cfg.PerFlow {
		cfg.PerFlow[i] = c.PerFlow
	}
	cfg.FastCNP.CodePoints, cfg.FastCNP.Long = messages.CodePoints, fastcnp.FallBack
	cfg.FCN.Port, cfg.Proxy.Port = messages.FCNPort, messages.ProxyPort
	if c.Enabled {
		if err := c.enabled(&cfg); err != nil {
			return nil, err
		}
	}
	s.agent = congested.New(cfg)
	return s, nil
}

// enabled sets what a role that is off may lack.
func (c *switchConfig) enabled(cfg *congested.Config) (err error) {
	if cfg.Self4, cfg.Self6, err = c.Self.families("self"); err != nil {
		return err
	}
	methods := make([]acl.Entry[congested.Method], len(c.Methods))
	for i, m := range c.Methods {
		if err := senders("methods", i, m.Senders); err != nil {
			return err
		}
		if m.Method == nil {
			return wrong(join(index("methods", i), "method"), "missing")
		}
		methods[i] = acl.Entry[congested.Method]{Prefix: m.Senders, Value: *m.Method}
	}
	capable := make([]acl.Entry[congested.Capability], len(c.Capable))
	for i, m := range c.Capable {
		if err := senders("capable", i, m.Senders); err != nil {
			return err
		}
		if m.Capable == nil {
			return wrong(join(index("capable", i), "capable"), "missing")
		}
		capable[i] = acl.Entry[congested.Capability]{Prefix: m.Senders, Value: *m.Capable}
	}
	proxies := make([]acl.Entry[netip.Addr], len(c.Proxies))
	for i, m := range c.Proxies {
		if err := senders("proxies", i, m.Senders); err != nil {
			return err
		}
		if rocev2.Answerable(m.Proxy) != nil {
			return wrong(join(index("proxies", i), "proxy"), "a unicast address that others can reach needed")
		}
		proxies[i] = acl.Entry[netip.Addr]{Prefix: m.Senders, Value: m.Proxy}
	}
	cfg.Methods, cfg.Capable, cfg.Proxies = acl.NewMap(methods...), acl.NewMap(capable...), acl.NewMap(proxies...)
	return nil
}

// senders returns an error for a rule without senders.
func senders(key string, i int, p netip.Prefix) error {
	if !p.IsValid() {
		return wrong(join(index(key, i), "senders"), "missing")
	}
	return nil
}

// congestedSwitch plays the node where congestion occurs.
type congestedSwitch struct {
	enabled bool
	onlyCE  bool
	agent   *congested.Agent
	event   congested.Event
	flow    rocev2.Flow
	message message.Message
	buf     []byte
}

func (s *congestedSwitch) play(f *frame) (l line, packet []byte) {
	l, packet = s.decide(f)
	if l.Action == silent {
		return l, nil
	}
	if l.MarkECN == nil {
		l.MarkECN = new(bool)
	}
	if !s.enabled {
		l = refuse(node.Disabled)
		l.MarkECN = new(bool)
		return l, nil
	}
	return l, packet
}

func (s *congestedSwitch) decide(f *frame) (line, []byte) {
	switch reason := s.agent.ICMPFrame(f.Data, f.Options, f.Time); reason {
	case node.NotOurs:
	case node.Accepted:
		return line{Action: learned}, nil
	default:
		return refuse(reason), nil
	}
	if s.onlyCE && s.isUnmarkedData(f) {
		return line{}, nil
	}
	s.event.Frame, s.event.Options = f.Data, f.Options
	out, d := s.agent.Congested(s.buf[:0], &s.event, f.Time)
	s.buf = out[:0]
	switch {
	case d.Packet == message.Other && d.Reason == node.NotOurs: // other traffic
		return line{}, nil
	case d.Reason != node.Accepted:
		return refuse(d.Reason), nil
	case d.Kind == message.Other:
		return line{Action: marked, MarkECN: &d.MarkECN}, nil
	}
	return line{Action: sent, Kind: d.Kind.String(), To: d.To, Option: d.Option, MarkECN: &d.MarkECN}, out
}

// isUnmarkedData says whether a frame has data that did not meet congestion where
// CE says so.
func (s *congestedSwitch) isUnmarkedData(f *frame) bool {
	if s.flow.Decode(f.Data, f.Options) != nil || s.flow.OuterECN() == rocev2.CE {
		return false
	}
	inner := rocev2.DecodeOptions{Link: rocev2.LinkIP, Cut: f.Options.Cut}
	s.message.Decode(s.flow.IP, inner, message.Config{})
	return s.message.Kind == message.Data
}
