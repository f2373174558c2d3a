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
	"github.com/rocecn/rocecn/ppfc"
	"github.com/rocecn/rocecn/rocev2"
)

// senderConfig is the configuration of the data sender.
type senderConfig struct {
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
	As          string        `json:"as"`        // what becomes of a notification: log, the default, or cnp

	Act      string          `json:"act"`      // what becomes of rates: report, the default, or shape
	Reaction *reactionConfig `json:"reaction"` // absent: there are no rates
}

// Apply is that of [Config].
func (c *senderConfig) Apply(old Role) (Role, error) {
	messages, err := c.message()
	if err != nil {
		return nil, err
	}
	if err := word("as", c.As, "log", "cnp"); err != nil {
		return nil, err
	}
	if err := c.checkAct(); err != nil {
		return nil, err
	}
	rates, err := c.Reaction.table()
	if err != nil {
		return nil, err
	}
	cfg := sender.Config{
		Enabled: c.Enabled, Accept: acl.New(c.Accept...), AllowTunnel: c.AllowTunnel,
		ReceiversSendNone: c.Receivers != nil && !*c.Receivers,
		AcceptedPerSource: every(c.PerSource), Accepted: node.Rate(c.Rate), Window: c.Window,
		CodePoints: messages.CodePoints,
	}
	if cfg.Self4, cfg.Self6, err = c.Self.families("self", c.Enabled); err != nil {
		return nil, err
	}
	before, ok := old.(*dataSender)
	if !ok {
		before = &dataSender{pairs: &hostPairs{}}
	}
	known := newPairs(before.pairs.pairs, c.Learn && c.Enabled, len(c.QPs), c.learning(c.LearnPort))
	pairs := newHostPairs(known, cfg.Self4, cfg.Self6)
	if c.Enabled {
		if err := pairs.give(c.QPs); err != nil {
			return nil, err
		}
	}
	cfg.QPs = pairs
	pairs.device = before.pairs.device
	s := &dataSender{
		Sender: before.Sender, pairs: pairs, translates: c.As == "cnp", counted: before.counted && c.Shapes(),
	}
	return s, pairs.use(func() error {
		err := apply(&s.Sender, sender.New, cfg)
		if err == nil && c.Enabled && rates.Enabled {
			err = apply(&before.rates, reaction.NewTable, rates)
			s.rates = before.rates
		}
		return err
	})
}

// checkAct refuses what does not go together with rates.
func (c *senderConfig) checkAct() error {
	switch err := word("act", c.Act, "report", "shape"); {
	case err != nil:
		return err
	case c.Act == "shape" && c.Reaction == nil:
		return config.Wrong("reaction", `missing: how flows slow down, for act = "shape"`)
	case c.Act == "shape" && c.As == "cnp":
		return config.Wrong("act", `shape slows flows of this host down, as = "cnp" tells another one to: one of them`)
	}
	return nil
}

// Translates says whether it sends CNPs to the host behind it.
func (c *senderConfig) Translates() bool { return c.As == "cnp" }

// Limited says whether it bounds the CNPs that it sends to that host.
func (c *senderConfig) Limited() bool {
	return c.As != "cnp" || c.PerSource != 0 || c.Rate != rate{} || c.Window != 0
}

// dataSender plays the sender.
type dataSender struct {
	*sender.Sender
	pairs      *hostPairs
	translates bool            // it stands in front of a host that only knows CNPs
	rates      *reaction.Table // nil: none
	counted    bool            // somebody else tells what flows have sent
	packet     rocev2.Packet
}

// Play takes notifications, and says by a CNP what the host does not understand.
func (s *dataSender) Play(out []byte, f *rocev2.Frame, now time.Time) ([]byte, Verdict) {
	out, d := s.Receive(out, f, 0, now)
	v := Verdict{Decision: d.Decision}
	s.react(&v, &d, f, now)
	if d.Action != node.Accepted {
		return out, v
	}
	v.Origin, v.Again, v.Keys = d.Origin, d.Again, v.Keys|Origin
	slower := !d.Again
	if d.Message == message.PPFC {
		v.State, v.Pause, v.Keys = states[d.Pause.Type], d.Pause.Pause, v.Keys|State
		if slower = d.Pause.Type == ppfc.Stop; d.Pause.Type == ppfc.Resume {
			v.Pause = 0
		}
	}
	if s.translates && slower && d.KnownQP && d.Message != message.CNP {
		out = s.translate(out, &d, now)
	}
	return out, v
}

// translate appends the CNP that the flow's receiver would send.
func (s *dataSender) translate(out []byte, d *sender.Decision, now time.Time) []byte {
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

// states are what a flow is after a PPFC.
var states = map[ppfc.Type]string{
	ppfc.Stop: "stopped", ppfc.Resume: "running", ppfc.Alarm: "alarmed", ppfc.Hold: "held",
}

// Own iterates over the flows that the host sends, as far as it is known from which of its queue pairs. One that comes
// twice is of the queue pair that comes last: the device's. The loop must not use the role.
func (s *dataSender) Own() iter.Seq2[rocev2.FlowKey, uint32] {
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

// SetDevice says which queue pairs the host's RDMA device has now, instead of those before; nil: it does not say.
func (s *dataSender) SetDevice(all []DevicePair) {
	s.pairs.device = nil
	if all != nil {
		s.pairs.device = newDevicePairs(all)
	}
}

// Expire is that of [Expirer].
func (s *dataSender) Expire(now time.Time) int { return s.pairs.Expire(now) }

// Pairs returns how many queue pairs are known.
func (s *dataSender) Pairs() int {
	n := s.pairs.Stats().Pairs
	if s.pairs.device != nil {
		n += len(s.pairs.device.remotes)
	}
	return n
}
