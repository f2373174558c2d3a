package play

import (
	"net/netip"
	"time"

	"github.com/rocecn/rocecn/node/limit"
	"github.com/rocecn/rocecn/node/receiver"
	"github.com/rocecn/rocecn/rocev2"
)

func init() { roles["receiver"] = func() config { return new(receiverConfig) } }

// receiverConfig is the configuration of the notification point.
type receiverConfig struct {
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
	Learn bool `json:"learn"`
}

func (c *receiverConfig) role() (role, error) {
	if _, err := c.message(); err != nil {
		return nil, err
	}
	pairs := newPairs(c.Learn && c.Enabled, len(c.QPs))
	cfg := receiver.Config{Enabled: c.Enabled, PerFlow: c.Interval, Out: limit.Rate(c.Rate), QPs: pairs}
	if c.Enabled {
		var err error
		if cfg.Self4, cfg.Self6, err = c.Self.families("self"); err != nil {
			return nil, err
		}
	}
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
		if err := pairs.give(i, rocev2.FlowKey{Src: q.Src, Dst: q.Dst, DestQP: destQP}, srcQP); err != nil {
			return nil, err
		}
	}
	r, err := receiver.New(cfg)
	return &notificationPoint{r}, err
}

// notificationPoint plays the receiver.
type notificationPoint struct{ *receiver.Receiver }

func (r *notificationPoint) play(out []byte, f *rocev2.Frame, now time.Time) ([]byte, line) {
	out, d := r.Receive(out, f, 0, now)
	return out, lineOf(&d)
}
