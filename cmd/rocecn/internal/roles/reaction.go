package roles

import (
	"errors"
	"net/netip"
	"slices"
	"time"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/config"
	"github.com/rocecn/rocecn/internal/wire"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/reaction"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
)

// reactionConfig is the configuration of the reaction points of notified flows. Rates are in bits a second.
type reactionConfig struct {
	Kind       string        `json:"kind"`        // paper, the default, or connectx
	Line       uint64        `json:"line"`        // of the port
	Min        uint64        `json:"min"`         // 0: 1 Mbit/s
	Additive   uint64        `json:"additive"`    // 0: value of the kind, as for timer
	Hyper      *uint64       `json:"hyper"`       // absent: value of the kind
	Timer      time.Duration `json:"timer"`       // of increase
	AlphaTimer time.Duration `json:"alpha_timer"` // of α
	RTT        time.Duration `json:"rtt"`         // of HPCC, for Fast CNPs with a trace; 0: DCQCN hears them as well
	Bandwidth  uint64        `json:"bandwidth"`   // of each port in a trace; 0: line
	MaxFlows   int           `json:"max_flows"`   // 0: 1,024
	Idle       time.Duration `json:"idle"`        // 0: 10 s
	MaxPause   time.Duration `json:"max_pause"`   // 0: as long as a PPFC asks for
}

// minRate is the least rate of a flow, maxFlows the maximum number of flows.
const (
	minRate  = 1000
	maxFlows = 1 << 16
)

// tableConfig returns the configuration of the reaction points, which is off without the key.
func (c *reactionConfig) tableConfig() (t reaction.TableConfig, err error) {
	if c == nil {
		return t, nil
	}
	if err := checkWord("reaction.kind", c.Kind, "paper", "connectx"); err != nil {
		return t, err
	}
	t = reaction.TableConfig{
		Enabled: true, DCQCN: reaction.PaperDCQCN(c.Line),
		Bandwidth: c.Bandwidth, MaxFlows: c.MaxFlows, Idle: c.Idle, MaxPause: c.MaxPause,
	}
	if c.Kind == "connectx" {
		t.DCQCN = reaction.ConnectX(c.Line)
	}
	if c.RTT != 0 {
		t.HPCC = reaction.PaperHPCC(c.Line, c.RTT)
	}
	if c.Min != 0 {
		t.DCQCN.Min, t.HPCC.Min = c.Min, c.Min
	}
	if c.Additive != 0 {
		t.DCQCN.Additive, t.HPCC.RAI = c.Additive, c.Additive
	}
	if c.Hyper != nil {
		t.DCQCN.Hyper = *c.Hyper
	}
	if c.Timer != 0 {
		t.DCQCN.Timer = c.Timer
	}
	if c.AlphaTimer != 0 {
		t.DCQCN.AlphaTimer = c.AlphaTimer
	}
	switch {
	case c.Min != 0 && c.Min < minRate:
		return t, config.Wrong("reaction.min", "%d: want at least %d bits a second", c.Min, minRate)
	case c.MaxFlows < 0 || c.MaxFlows > maxFlows:
		return t, config.Wrong("reaction.max_flows", "%d: want 0 to %d", c.MaxFlows, maxFlows)
	}
	_, err = reaction.NewTable(t)
	var wrong *reaction.ConfigError
	if errors.As(err, &wrong) {
		return t, config.Wrong(config.Join("reaction", reactionKeys[wrong.Key]), "%v: want %s", wrong.Value, wrong.Want)
	}
	return t, err
}

// reactionKeys are the keys by their names in package reaction.
var reactionKeys = map[string]string{
	"DCQCN.Line": "line", "HPCC.Line": "line", "Line": "line", "Min": "min", "Additive": "additive", "RAI": "additive",
	"Hyper": "hyper", "Timer": "timer", "AlphaTimer": "alpha_timer", "BaseRTT": "rtt", "Bandwidth": "bandwidth",
	"Idle": "idle", "MaxPause": "max_pause",
}

// updateRates passes a decision to the reaction points, and sets the resulting rate.
func (s *Sender) updateRates(d *node.Decision, f *rocev2.Frame, now time.Time) {
	switch {
	case s.rates == nil:
		return
	case d.Action != node.ActionAccepted:
		s.countOctets(d, f, now)
		return
	case !d.KnownQP: // a PPFC about a port
		return
	}
	var all [maxTo]reaction.FlowID
	flows := append(all[:0], reaction.FlowID{Dst: d.Flow.Dst, DestQP: d.Flow.DestQP})
	if d.Message == message.KindCNP { // which names the host's queue pair
		flows = s.pairs.flowsOf(all[:0], d.SrcQP, d.From, now)
	}
	rate := s.rates.Line()
	for _, flow := range flows {
		s.rates.React(d, flow, now)
		order := s.rates.Now(flow, now)
		if order.Stop > 0 {
			order.Rate = 0
		}
		rate = min(rate, order.Rate)
	}
	s.rate, s.rated = rate, len(flows) > 0
}

// countOctets counts a packet that the host has sent for the reaction points, unless the kernel counts them.
func (s *Sender) countOctets(d *node.Decision, f *rocev2.Frame, now time.Time) {
	if s.counted {
		return
	}
	v := f.Outer()
	v.AllowTruncated = true
	if _, any := s.rates.Next(now); !any || d.Packet != message.KindData || v.Mirrored() || v.Packet(&s.packet) != nil {
		return
	}
	if p := &s.packet; p.Src == s.pairs.self4 || p.Src == s.pairs.self6 {
		headers := wire.EthernetSize + wire.IPv6Size
		if p.Src.Is4() {
			headers = wire.EthernetSize + wire.IPv4Size
		}
		s.rates.Sent(reaction.FlowID{Dst: p.Dst, DestQP: p.BTH.DestQP}, uint64(headers+int(p.Length)), now)
	}
}

// Rates returns the reaction points of the host's flows, nil where there are none.
func (s *Sender) Rates() *reaction.Table { return s.rates }

// Rate returns the rate at which the flow of the last decision may continue, in bits a second, 0 while it is stopped,
// and reports whether it has one.
func (s *Sender) Rate() (bps uint64, ok bool) { return s.rate, s.rated }

// SetCountedByOthers sets whether the caller counts the octets that flows have sent for the reaction points.
// Otherwise the role counts the packets that it sees.
func (s *Sender) SetCountedByOthers(byOthers bool) { s.counted = byOthers }

// Shapes reports whether the rates are made real.
func (c *SenderConfig) Shapes() bool { return c.Enabled && c.Act == "shape" }

// MaxFlows returns the maximum number of flows that have a rate of their own.
func (c *SenderConfig) MaxFlows() int {
	if c.Reaction == nil || c.Reaction.MaxFlows == 0 {
		return 1024
	}
	return c.Reaction.MaxFlows
}

// maxTo is the maximum number of flows of one queue pair that one CNP slows down: a queue pair of datagrams may have
// several.
const maxTo = 5

// flowsOf appends the flows of one of the host's queue pairs that a CNP is about, as far as is known: those to where it
// comes from, or, where the queue pair sends nothing there, as that is a proxy, all of them; those that were learned
// last.
func (h *hostPairs) flowsOf(all []reaction.FlowID, qp uint32, from netip.Addr, now time.Time) []reaction.FlowID {
	add := func(flow reaction.FlowID) {
		if len(all) < maxTo && !slices.Contains(all, flow) {
			all = append(all, flow)
		}
	}
	learned := func(flow reaction.FlowID) {
		k := rocev2.FlowKey{Src: h.self6, Dst: flow.Dst, DestQP: flow.DestQP}
		if flow.Dst.Is4() {
			k.Src = h.self4
		}
		if pair, err := h.SourceQP(qpmap.Key{FlowKey: k}, now); err == nil && pair.SrcQP == qp {
			add(flow)
		}
	}
	var device reaction.FlowID
	connected := false
	if h.device != nil {
		device.Dst, connected = h.device.remotes[qp]
		device.DestQP = h.device.remoteQPs[qp]
	}
	if connected && device.Dst == from {
		add(device)
	}
	for _, destQP := range h.learned[ownQP{qp, from}] {
		learned(reaction.FlowID{Dst: from, DestQP: destQP})
	}
	if len(all) > 0 {
		return all
	}
	if connected && device.Dst.IsValid() {
		add(device)
	}
	for _, flow := range h.last[qp] {
		learned(flow)
	}
	if len(all) == 0 && connected {
		add(reaction.FlowID{Dst: from, DestQP: device.DestQP})
	}
	return all
}
