package play

import (
	"net/netip"
	"time"

	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/receiver"
	"github.com/rocecn/rocecn/rocev2"
)

func init() { roles["receiver"] = func() config { return new(receiverConfig) } }

// receiverConfig is the configuration of the notification point.
type receiverConfig struct {
	common
	Self     ownAddresses  `json:"self"`
	Interval time.Duration `json:"interval"`
	QPs      []struct {
		Src    netip.Addr `json:"src"`
		Dst    netip.Addr `json:"dst"`
		DestQP uint32     `json:"dest_qp"`
		SrcQP  uint32     `json:"src_qp"`
	} `json:"qps"`
	Learn bool `json:"learn"`
}

func (c *receiverConfig) role() (role, error) {
	messages, err := c.message()
	if err != nil {
		return nil, err
	}
	r := &notificationPoint{enabled: c.Enabled, messages: messages, pairs: newPairs(c.Learn && c.Enabled, len(c.QPs))}
	cfg := receiver.Config{Enabled: c.Enabled, Interval: c.Interval, QPs: r.pairs}
	if c.Enabled {
		if cfg.Self4, cfg.Self6, err = c.Self.families("self"); err != nil {
			return nil, err
		}
	}
	for i, q := range c.QPs {
		if err := checkQP(i, "dest_qp", q.DestQP); err != nil {
			return nil, err
		}
		if err := checkQP(i, "src_qp", q.SrcQP); err != nil {
			return nil, err
		}
		if !c.Enabled {
			continue
		}
		if err := checkFlow(i, q.Src, q.Dst); err != nil {
			return nil, err
		}
		if err := r.pairs.give(i, rocev2.FlowKey{Src: q.Src, Dst: q.Dst, DestQP: q.DestQP}, q.SrcQP); err != nil {
			return nil, err
		}
	}
	r.own = func(k rocev2.FlowKey) bool { return k.Dst == cfg.Self4 || k.Dst == cfg.Self6 }
	r.receiver = receiver.New(cfg)
	return r, nil
}

// notificationPoint plays the receiver.
type notificationPoint struct {
	enabled  bool
	messages message.Config
	pairs    *pairs
	own      func(rocev2.FlowKey) bool
	receiver *receiver.Receiver
	message  message.Message
	buf      []byte
}

func (r *notificationPoint) play(f *frame) (line, []byte) {
	m := &r.message
	m.Decode(f.Data, f.Options, r.messages)
	p := &m.Packet
	if m.Kind == message.Broken && m.Reach == message.ReachUDP && p.DstPort == rocev2.Port && p.ECN() == rocev2.CE {
		if !r.enabled {
			return refuse(node.Disabled), nil
		}
		return refuse(node.Broken), nil
	}
	if m.Reach != message.ReachTransport || m.Kind == message.Broken {
		return line{}, nil
	}
	l := r.pairs.observe(p, f.Time, r.own)
	out, d := r.receiver.Receive(r.buf[:0], p, f.Time)
	r.buf = out[:0]
	switch {
	case d.Reason != node.Accepted:
		return refuse(d.Reason), nil
	case d.Kind != message.Other:
		return line{Action: sent, Kind: d.Kind.String(), To: d.To}, out
	}
	return l, nil
}
