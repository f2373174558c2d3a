package play

import (
	"net/netip"
	"time"

	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/acl"
	"github.com/rocecn/rocecn/node/limit"
	"github.com/rocecn/rocecn/node/pause"
	"github.com/rocecn/rocecn/ppfc"
	"github.com/rocecn/rocecn/rocev2"
)

func init() { roles["pause"] = func() config { return new(pauseConfig) } }

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

func (c *pauseConfig) role() (role, error) {
	if _, err := c.message(); err != nil {
		return nil, err
	}
	r := &pauseRole{}
	if !c.Enabled {
		r.table = pause.New(pause.Config{})
		return r, nil
	}
	cfg := pause.Config{
		Enabled: true, Accept: acl.New(c.Accept...), MaxPause: c.MaxPause,
		In: limit.Rate(c.RateIn), InPerSource: limit.Rate(c.RateInFrom),
	}
	var err error
	if cfg.Self4, cfg.Self6, err = c.Self.families("self"); err != nil {
		return nil, err
	}
	qps := newPairs(false, len(c.QPs))
	if err := qps.giveHost(c.QPs, cfg.Self4, cfg.Self6); err != nil {
		return nil, err
	}
	cfg.QPs = qps
	r.table = pause.New(cfg)
	return r, nil
}

type pauseRole struct {
	table  *pause.Table
	packet rocev2.Packet
}

// play does what PPFC notifications ask for. Those for others have a line, too.
func (r *pauseRole) play(f *frame) (line, []byte) {
	if !isPauseNotification(&r.packet, f) {
		return line{}, nil
	}
	a, reason := r.table.Receive(f.Data, f.Options, f.Time)
	if reason != node.Accepted {
		return refuse(reason), nil
	}
	us := uint32(a.Pause / time.Microsecond)
	l := line{Action: accepted, State: a.State.String(), PauseUS: &us}
	if a.KnownQP {
		l.QP = &a.QP
	}
	return l, nil
}

// isPauseNotification says whether a frame is a PPFC notification, broken or cut
// ones included, as far as their octets go. It decodes into p.
func isPauseNotification(p *rocev2.Packet, f *frame) bool {
	o := f.Options
	o.Cut = true
	return p.Decode(f.Data, o) == nil && ppfc.Is(p)
}
