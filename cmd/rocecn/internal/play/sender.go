package play

import (
	"errors"
	"net/netip"
	"time"

	"github.com/rocecn/rocecn/bth"
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
	s := &dataSender{}
	cfg := sender.Config{
		Enabled: c.Enabled, Accept: acl.New(c.Accept...), AllowTunnel: c.AllowTunnel,
		ReceiversSendNone: c.Receivers != nil && !*c.Receivers,
		PerSource:         c.PerSource, Rate: limit.Rate(c.Rate), Window: c.Window, CodePoints: messages.CodePoints,
	}
	if c.Enabled {
		if cfg.Self4, cfg.Self6, err = c.Self.families("self"); err != nil {
			return nil, err
		}
	}
	s.pairs = newHostPairs(newPairs(c.Learn && c.Enabled, len(c.QPs)), cfg.Self4, cfg.Self6)
	if c.Enabled {
		if err := s.pairs.give(c.QPs); err != nil {
			return nil, err
		}
	}
	cfg.QPs = s.pairs
	s.sender = sender.New(cfg)
	return s, nil
}

// dataSender plays the sender.
type dataSender struct {
	pairs  *hostPairs
	sender *sender.Sender
	packet rocev2.Packet
}

func (s *dataSender) play(f *frame) (line, []byte) {
	if !isNotification(&s.packet, f) {
		if s.packet.Decode(f.Data, f.Options) != nil {
			return line{}, nil
		}
		return s.pairs.observe(&s.packet, f.Time), nil
	}
	e, reason := s.sender.Receive(f.Data, f.Options, f.Time)
	if reason != node.Accepted {
		return refuse(reason), nil
	}
	l := line{Action: accepted, Origin: e.Origin.String(), Again: &e.Again}
	if e.KnownQP {
		l.QP = &e.QP
	}
	if e.Kind == message.PPFC {
		l.State = states[e.Pause.Type]
		l.PauseUS = pauseUS(e.Pause)
	}
	return l, nil
}

// states are what a flow is after a PPFC.
var states = map[ppfc.Type]string{ppfc.Stop: "stopped", ppfc.Resume: "running", ppfc.Alarm: "alarmed", ppfc.Hold: "held"}

// pauseUS returns for how many microseconds a PPFC asks; a resume for none.
func pauseUS(e ppfc.Extension) *uint32 {
	us := uint32(e.Pause / time.Microsecond)
	if e.Type == ppfc.Resume {
		us = 0
	}
	return &us
}

// isNotification says whether a frame is a notification to port 4791, or one that
// is broken, or so broken that nobody can tell. It decodes into p.
func isNotification(p *rocev2.Packet, f *frame) bool {
	err := p.Decode(f.Data, f.Options)
	switch {
	case err == nil:
		return p.BTH.Opcode == bth.CNP
	case errors.Is(err, rocev2.ErrNotRoCEv2):
		return false
	}
	o := f.Options
	o.Cut = true // as far as its octets go
	return p.Datagram.Decode(f.Data, o, rocev2.Port) != nil || len(p.Data) > 0 && bth.Opcode(p.Data[0]) == bth.CNP
}
