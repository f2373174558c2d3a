package play

import (
	"errors"
	"net/netip"
	"time"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/node"
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
	r := &notificationPoint{enabled: c.Enabled, pairs: newPairs(c.Learn && c.Enabled, len(c.QPs))}
	cfg := receiver.Config{Enabled: c.Enabled, Interval: c.Interval, Rate: limit.Rate(c.Rate), QPs: r.pairs}
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
		if err := r.pairs.give(i, rocev2.FlowKey{Src: q.Src, Dst: q.Dst, DestQP: destQP}, srcQP); err != nil {
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
	pairs    *pairs
	own      func(rocev2.FlowKey) bool
	receiver *receiver.Receiver
	packet   rocev2.Packet
	buf      []byte
}

func (r *notificationPoint) play(f *frame) (line, []byte) {
	p := &r.packet
	switch err := p.Decode(f.Data, f.Options); {
	case errors.Is(err, rocev2.ErrNotRoCEv2), err != nil && !isBrokenData(p, f):
		return line{}, nil
	case err != nil && !r.enabled:
		return refuse(node.Disabled), nil
	case err != nil:
		return refuse(node.Broken), nil
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

// isBrokenData says whether a broken RoCEv2 packet asks for a CNP, as far as can
// be read: it is marked CE, and nothing says that it is no data. It decodes into p.
func isBrokenData(p *rocev2.Packet, f *frame) bool {
	ip := rocev2.Innermost(f.Data, f.Options)
	if len(ip) < 2 || ip[0]>>4 == 4 && ip[1]&3 != rocev2.CE || ip[0]>>4 == 6 && ip[1]>>4&3 != rocev2.CE {
		return false
	}
	o := f.Options
	o.Cut = true // as far as its octets go
	if p.Datagram.Decode(f.Data, o, rocev2.Port) != nil || len(p.Data) == 0 {
		return true
	}
	op := bth.Opcode(p.Data[0])
	return op != bth.CNP && !op.Acknowledges()
}
