package play

import (
	"net/netip"
	"time"

	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/congested"
	"github.com/rocecn/rocecn/rocev2"
)

// A Switch is the node where congestion occurs, which is shown the frames of a
// capture instead of those of its queue. It is what the role switch of this
// command is and what the command answer is.
type Switch struct {
	agent   *congested.Agent
	onlyCE  bool
	flow    rocev2.Flow
	message message.Message
}

// NewSwitch returns a Switch. With onlyCE, data met congestion where its outermost
// IP header has CE; without, all data did.
func NewSwitch(cfg congested.Config, onlyCE bool) (*Switch, error) {
	agent, err := congested.New(cfg)
	if err != nil {
		return nil, err
	}
	return &Switch{agent: agent, onlyCE: onlyCE}, nil
}

// ICMP is [congested.Agent.ICMPFrame]. It comes before the rest.
func (s *Switch) ICMP(frame []byte, o rocev2.DecodeOptions, now time.Time) node.Reason {
	return s.agent.ICMPFrame(frame, o, now)
}

// Data says whether a frame holds RoCEv2 data, below its tunnels but not in a
// mirrored copy, whose data it is, and whether it met congestion.
func (s *Switch) Data(frame []byte, o rocev2.DecodeOptions) (sender netip.Addr, congested, ok bool) {
	f := &s.flow
	if f.Decode(frame, o) != nil || f.Tunnels.Mirrored() {
		return netip.Addr{}, false, false
	}
	s.message.Decode(f.IP, rocev2.DecodeOptions{Link: rocev2.LinkIP, Cut: o.Cut}, message.Config{})
	if s.message.Kind != message.Data {
		return netip.Addr{}, false, false
	}
	return f.Src, !s.onlyCE || f.OuterECN() == rocev2.CE, true
}

// Congested is [congested.Agent.Congested].
func (s *Switch) Congested(b []byte, e *congested.Event, now time.Time) ([]byte, congested.Decision) {
	return s.agent.Congested(b, e, now)
}
