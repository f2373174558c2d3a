package roles

import (
	"net/netip"
	"time"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/config"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/receiver"
	"github.com/rocecn/rocecn/rocev2"
)

// ReceiverConfig is the configuration of the notification point.
type ReceiverConfig struct {
	common
	Self     ownAddresses  `json:"self"`
	Interval time.Duration `json:"interval"`
	Rate     rate          `json:"rate"`
	QPs      []struct {
		Src    netip.Addr `json:"src"`
		Dst    netip.Addr `json:"dst"`
		DestQP *uint32    `json:"dest_qp"`
		SrcQP  *uint32    `json:"src_qp"`
	} `json:"qps"`
	Learn     bool `json:"learn"`
	LearnPort bool `json:"learn_port"` // whether the UDP source port may decide a tie of votes
}

// Limited implements [Sending].
func (c *ReceiverConfig) Limited() bool { return c.Interval != 0 || c.Rate != rate{} }

// Lacks implements [Lacking].
func (c *ReceiverConfig) Lacks() error {
	if !c.Learn && len(c.QPs) == 0 {
		return config.Wrong("learn", "missing: without it, and without qps, no queue pair of a sender is known")
	}
	return nil
}

// Apply implements [Config].
func (c *ReceiverConfig) Apply(old node.Role) (node.Role, error) {
	if _, err := c.messageConfig(); err != nil {
		return nil, err
	}
	cfg := receiver.Config{Enabled: c.Enabled, PerFlow: c.Interval, Out: node.Rate(c.Rate)}
	var err error
	if cfg.Self4, cfg.Self6, err = c.Self.splitFamilies("self", c.Enabled); err != nil {
		return nil, err
	}
	before := oldOrNew[Receiver](old)
	pairs := newPairs(before.pairs, c.Learn && c.Enabled, len(c.QPs), c.qpmapConfig(c.LearnPort))
	pairs.self4, pairs.self6 = cfg.Self4, cfg.Self6
	for i, q := range c.QPs {
		if !c.Enabled {
			break
		}
		if err := checkFlow(i, q.Src, q.Dst); err != nil {
			return nil, err
		}
		destQP, err := checkQP(i, "dest_qp", q.DestQP)
		if err != nil {
			return nil, err
		}
		srcQP, err := checkQP(i, "src_qp", q.SrcQP)
		if err != nil {
			return nil, err
		}
		pairs.addGiven(rocev2.FlowKey{Src: q.Src, Dst: q.Dst, DestQP: destQP}, srcQP)
	}
	r := &Receiver{before.Role, pairs}
	cfg.QPs = pairs
	return r, pairs.applyGiven(func() error { return configureRole(&r.Role, receiver.New, cfg) })
}

// A Receiver is the notification point, which learns queue pairs.
type Receiver struct {
	*receiver.Role
	pairs *pairs
}

// SetDevice implements [DeviceUser].
func (r *Receiver) SetDevice(d *Device) { r.pairs.setDevice(d) }

// Due implements [node.Role].
func (r *Receiver) Due(out []byte, now time.Time) ([]byte, node.Decision) {
	r.pairs.Expire(now)
	return r.Role.Due(out, now)
}

// Sizes implements [Sized].
func (r *Receiver) Sizes() Sizes { return r.pairs.sizes() }

// Tables implements [Tabled].
func (r *Receiver) Tables() []Table { return r.pairs.tables() }
