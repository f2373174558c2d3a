package play

import (
	"net/netip"
	"time"

	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/acl"
	"github.com/rocecn/rocecn/node/limit"
	"github.com/rocecn/rocecn/node/sender"
	"github.com/rocecn/rocecn/ppfc"
	"github.com/rocecn/rocecn/rocev2"
)

func init() { roles["sender"] = func() config { return new(senderConfig) } }

// senderConfig is the configuration of the data sender.
type senderConfig struct {
	common
	Self   ownAddresses   `json:"self"`
	Accept []netip.Prefix `json:"accept"` // notifiers in the network
	QPs    []hostPair     `json:"qps"`

	Learn       bool          `json:"learn"`
	PerSource   time.Duration `json:"per_source"`
	Rate        rate          `json:"rate"`
	Window      time.Duration `json:"window"`
	AllowTunnel bool          `json:"allow_tunnel"`
	Receivers   *bool         `json:"receivers"` // whether Fast CNPs of receivers count; absent: they do
}

func (c *senderConfig) role() (role, error) {
	messages, err := c.message()
	if err != nil {
		return nil, err
	}
	cfg := sender.Config{
		Enabled: c.Enabled, Accept: acl.New(c.Accept...), AllowTunnel: c.AllowTunnel,
		ReceiversSendNone: c.Receivers != nil && !*c.Receivers,
		PerSource:         c.PerSource, In: limit.Rate(c.Rate), Window: c.Window, CodePoints: messages.CodePoints,
	}
	if c.Enabled {
		if cfg.Self4, cfg.Self6, err = c.Self.families("self"); err != nil {
			return nil, err
		}
	}
	pairs := newHostPairs(newPairs(c.Learn && c.Enabled, len(c.QPs)), cfg.Self4, cfg.Self6)
	if c.Enabled {
		if err := pairs.give(c.QPs); err != nil {
			return nil, err
		}
	}
	cfg.QPs = pairs
	s, err := sender.New(cfg)
	return &dataSender{s}, err
}

// dataSender plays the sender.
type dataSender struct{ *sender.Sender }

func (s *dataSender) play(out []byte, f *rocev2.Frame, now time.Time) ([]byte, line) {
	out, d := s.Receive(out, f, 0, now)
	l := lineOf(&d.Decision)
	if d.Action != node.Taken {
		return out, l
	}
	l.Origin, l.Again = d.Origin.String(), &d.Again
	if d.Kind == message.PPFC {
		us := uint32(d.Pause.Pause / time.Microsecond)
		if d.Pause.Type == ppfc.Resume {
			us = 0
		}
		l.State, l.PauseUS = states[d.Pause.Type], &us
	}
	return out, l
}

// states are what a flow is after a PPFC.
var states = map[ppfc.Type]string{
	ppfc.Stop: "stopped", ppfc.Resume: "running", ppfc.Alarm: "alarmed", ppfc.Hold: "held",
}
