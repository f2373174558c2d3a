package roles

import (
	"iter"
	"net/netip"
	"time"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/config"
	"github.com/rocecn/rocecn/cnp"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/acl"
	"github.com/rocecn/rocecn/node/reaction"
	"github.com/rocecn/rocecn/node/sender"
	"github.com/rocecn/rocecn/rocev2"
)

// SenderConfig is the configuration of the data sender.
type SenderConfig struct {
	common
	Self   ownAddresses   `json:"self"`
	Accept []netip.Prefix `json:"accept"` // notifiers in the network
	QPs    []hostPair     `json:"qps"`

	Learn       bool          `json:"learn"`
	LearnPort   bool          `json:"learn_port"` // whether the UDP source port may decide a tie of votes
	PerSource   time.Duration `json:"per_source"`
	Rate        rate          `json:"rate"`
	Window      time.Duration `json:"window"`
	AllowTunnel bool          `json:"allow_tunnel"`
	Receivers   *bool         `json:"receivers"` // whether Fast CNPs of receivers count; absent: they do
	As          string        `json:"as"`        // use of a notification: log, the default, or cnp

	Act      string          `json:"act"`      // use of rates: report, the default, or shape
	Reaction *reactionConfig `json:"reaction"` // absent: there are no rates
}

// Apply implements [Config].
func (c *SenderConfig) Apply(old node.Role) (node.Role, error) {
	messages, err := c.messageConfig()
	if err != nil {
		return nil, err
	}
	if err := checkWord("as", c.As, "log", "cnp"); err != nil {
		return nil, err
	}
	if err := c.checkAct(); err != nil {
		return nil, err
	}
	rates, err := c.Reaction.tableConfig()
	if err != nil {
		return nil, err
	}
	cfg := sender.Config{
		Enabled: c.Enabled, Accept: acl.New(c.Accept...), AllowTunnel: c.AllowTunnel,
		ReceiversSendNone: c.Receivers != nil && !*c.Receivers,
		AcceptedPerSource: rateOfInterval(c.PerSource), Accepted: node.Rate(c.Rate), Window: c.Window,
		CodePoints: messages.CodePoints,
	}
	if cfg.Self4, cfg.Self6, err = c.Self.splitFamilies("self", c.Enabled); err != nil {
		return nil, err
	}
	before, ok := old.(*Sender)
	if !ok {
		before = &Sender{pairs: &hostPairs{}}
	}
	known := newPairs(before.pairs.pairs, c.Learn && c.Enabled, len(c.QPs), c.qpmapConfig(c.LearnPort))
	pairs := newHostPairs(known, cfg.Self4, cfg.Self6)
	if c.Enabled {
		if err := pairs.addConfigured(c.QPs); err != nil {
			return nil, err
		}
	}
	cfg.QPs = pairs
	s := &Sender{
		Role: before.Role, pairs: pairs, translates: c.As == "cnp", counted: before.counted && c.Shapes(),
	}
	return s, pairs.applyGiven(func() error {
		err := configureRole(&s.Role, sender.New, cfg)
		if err == nil && c.Enabled && rates.Enabled {
			err = configureRole(&before.rates, reaction.NewTable, rates)
			s.rates = before.rates
		}
		return err
	})
}

// checkAct rejects keys that do not go together with rates.
func (c *SenderConfig) checkAct() error {
	switch err := checkWord("act", c.Act, "report", "shape"); {
	case err != nil:
		return err
	case c.Act == "shape" && c.Reaction == nil:
		return config.Wrong("reaction", `missing: how flows slow down, for act = "shape"`)
	case c.Act == "shape" && c.As == "cnp":
		return config.Wrong("act", `want only one of act = "shape" (slows flows of this host) `+
			`and as = "cnp" (notifies another host)`)
	}
	return nil
}

// Translates reports whether it sends CNPs to the host that it serves.
func (c *SenderConfig) Translates() bool { return c.As == "cnp" }

// Limited reports whether it bounds the CNPs that it sends to that host.
func (c *SenderConfig) Limited() bool {
	return c.As != "cnp" || c.PerSource != 0 || c.Rate != rate{} || c.Window != 0
}

// A Sender is the data sender, which learns queue pairs. It may have rates of flows, and stand in front of a host that
// only knows CNPs.
type Sender struct {
	*sender.Role
	pairs      *hostPairs
	translates bool            // it stands in front of a host that only knows CNPs
	rates      *reaction.Table // nil: none
	counted    bool            // others count the octets that flows send
	packet     rocev2.Packet

	rate  uint64 // bits a second that the flow of the last decision may send; 0 while it is stopped
	rated bool   // the last decision is about a flow with a rate
}

// Receive accepts notifications, and appends a CNP for a host that does not understand them.
func (s *Sender) Receive(out []byte, f *rocev2.Frame, e node.Event) ([]byte, node.Decision) {
	out, d := s.Role.Receive(out, f, e)
	if s.rated = false; f != nil {
		s.updateRates(&d, f, e.Now)
	}
	if s.translates && d.KnownQP && (d.Request == node.RequestStop || d.Request == node.RequestSlowDown &&
		d.Message != message.KindCNP) {
		out = s.appendCNP(out, &d, e.Now)
	}
	return out, d
}

// Due implements [node.Role].
func (s *Sender) Due(out []byte, now time.Time) ([]byte, node.Decision) {
	s.pairs.Expire(now)
	return s.Role.Due(out, now)
}

// appendCNP appends the CNP that the flow's receiver would send.
func (s *Sender) appendCNP(out []byte, d *node.Decision, now time.Time) []byte {
	pair, err := s.pairs.SourceQP(d.Flow, now)
	if err != nil {
		return out
	}
	c := cnp.New(d.SrcQP, pair.PKey)
	with, err := c.AppendPacket(out, d.Flow.Dst, d.Flow.Src, cnp.Config{Carriage: rocev2.Carriage{SrcPort: d.SrcPort}})
	if err != nil {
		return out
	}
	return with
}

// OwnPairs iterates over the flows that the host sends, as far as it is known from which of its queue pairs. One that
// comes twice is of the queue pair that comes last: the device's. The loop must not use the role.
func (s *Sender) OwnPairs() iter.Seq2[rocev2.FlowKey, uint32] {
	return func(yield func(rocev2.FlowKey, uint32) bool) {
		for k, pair := range s.pairs.All() {
			if s.pairs.isOwn(k.FlowKey) && !s.pairs.either[k.FlowKey] && !yield(k.FlowKey, pair.SrcQP) {
				return
			}
		}
		if s.pairs.device != nil {
			for qp, pairs := range s.pairs.device.byRemote {
				for _, p := range pairs {
					k := rocev2.FlowKey{Src: s.pairs.self6, Dst: p.Remote, DestQP: qp}
					if p.Remote.Is6() && !yield(k, p.QP) {
						return
					}
				}
			}
		}
	}
}

// SetDevice implements [DeviceUser].
func (s *Sender) SetDevice(d *Device) { s.pairs.setDevice(d) }

// Sizes implements [Sized].
func (s *Sender) Sizes() Sizes { return s.pairs.sizes() }

// Tables implements [Tabled].
func (s *Sender) Tables() []Table {
	all := s.pairs.tables()
	if s.rates != nil {
		all = append(all, Table{"rates", s.rates.Stats().Flows, s.rates.Max()})
	}
	return all
}
