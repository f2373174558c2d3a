// Package sender is the host with the traffic that causes congestion: it decides which notifications to accept, and
// returns which of its queue pairs each one is about (FAST sections 3 to 5). How that queue pair then slows down is
// out of the drafts' scope.
//
// Three messages reach a sender. They name its flow in different ways:
//
//	CNP       from the receiver        by the sender's queue pair
//	Fast CNP  from a switch on the way by the original destination and the receiver's queue pair
//	PPFC      from a switch on the way as a Fast CNP does
//
// Experimental: this package may change in a minor release.
package sender

import (
	"net/netip"
	"time"

	"github.com/rocecn/rocecn/cnp"
	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/internal/limit"
	"github.com/rocecn/rocecn/ioam"
	"github.com/rocecn/rocecn/ipv6opt"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/acl"
	"github.com/rocecn/rocecn/node/internal/role"
	"github.com/rocecn/rocecn/ppfc"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
)

// Config is the configuration, in the words of package [node].
type Config struct {
	Enabled      bool
	Self4, Self6 netip.Addr

	// Accept has the nodes of the network from which notifications are accepted (FAST section 5). Receivers need not
	// be in it: a notification of a receiver about a flow is accepted if it comes from the flow's own destination,
	// and QPs know the flow.
	Accept *acl.List

	// ReceiversSendNone: the receivers of this network send no Fast CNPs. A Fast CNP from its original destination is
	// then accepted only if that is in the access list. CNPs of receivers are accepted as before.
	ReceiversSendNone bool

	// AllowTunnel: accept notifications inside another IP header, although other access lists on the way, and the
	// border, saw only the outer one (D17).
	AllowTunnel bool

	// QPs are the host's queue pairs. A receiver's CNP names one of the host's queue pairs, and is accepted if that
	// queue pair sends to the receiver. A [QPTable] answers this in one look-up. Other Pairs need two: one for the
	// queue pair of the receiver that sends to the named one, and one to check that the named one sends back to it.
	// So they must know both directions, as a [qpmap.Map] does of connections. A Map knows only one direction of
	// datagrams (UD), so the Role itself stores the destinations of the host's own datagrams.
	QPs node.Pairs

	// Accepted and AcceptedPerSource are the rates of accepted notifications, of all and of each source. A refused
	// notification is not charged.
	Accepted, AcceptedPerSource node.Rate

	// Window is the time, after a first report about a queue pair, in which further reports count as the same
	// congestion (Decision.Repeated). A switch that does not know the sender's capability sends a Fast CNP and marks
	// ECN as well, and the mark makes the receiver send a CNP (FAST section 4). With 0 every report counts.
	Window time.Duration

	CodePoints fastcnp.CodePoints
	Limits     ipv6opt.Limits // of the options in a notification

	// MaxSources is for AcceptedPerSource, 24 octets a source; MaxQPs for Window, 48 a queue pair. 65,536 each by
	// default.
	MaxSources, MaxQPs int
	Seed               uint64
}

// A QPTable is a host's own table of its queue pairs.
type QPTable interface {
	node.Pairs
	// Sends reports whether the host's queue pair with this number sends to dst and, if
	// not, whether the host has a queue pair with this number at all.
	Sends(qp uint32, dst netip.Addr, now time.Time) (sends, known bool)
}

// A Role decides for one host. Config.Window covers only reports to the same instance, and only datagrams seen by the
// same instance teach. Reports about one queue pair come from several sources, and the host's own packets from one.
// So several instances, on several cores, can divide the sources among them only if Window is 0 and Config.QPs is a
// [QPTable].
type Role struct {
	cfg     Config
	self    role.Self
	qps     role.Pairs
	table   QPTable // cfg.QPs, if it is one
	memory  role.Memory
	latest  role.Latest
	from    *limit.Buckets // accepted, by source
	all     *limit.Bucket
	reports *limit.Every // by queue pair
	sent    *limit.Every // datagrams, by queue pair and destination
	// connected has the queue pairs with a connection, and the flows that were looked up for that.
	connected *limit.Every
	counters  node.Counters
	packet    rocev2.Packet
	trace     ioam.Trace // of the last Fast CNP; see node.Decision.Trace
}

// New returns a Role; see [node.Role].
func New(cfg Config) (*Role, error) {
	return role.New(&Role{}, cfg)
}

// Configure changes the rules. The reports and the destinations of datagrams stay.
func (s *Role) Configure(cfg Config) error {
	self := role.Self{V4: cfg.Self4, V6: cfg.Self6}
	if cfg.Enabled {
		sizes := []role.Size{{Name: "MaxSources", N: cfg.MaxSources, Default: 1 << 16},
			{Name: "MaxQPs", N: cfg.MaxQPs, Default: 1 << 16}}
		first, err := s.memory.Configure("sender", cfg.Seed, sizes, self.Needed(),
			role.CheckRate("AcceptedPerSource", cfg.AcceptedPerSource), role.CheckRate("Accepted", cfg.Accepted),
			role.CheckTime("Window", cfg.Window), role.CheckFastCNP("", fastcnp.Config{CodePoints: cfg.CodePoints}))
		if err != nil {
			return err
		}
		if first {
			s.reports, s.sent = limit.NewEvery(s.memory.Size(1)), limit.NewEvery(s.memory.Size(1))
			s.connected = limit.NewEvery(s.memory.Size(1))
		}
		s.from = s.from.With(limit.Rate(cfg.AcceptedPerSource), s.memory.Size(0))
		s.all = s.all.With(limit.Rate(cfg.Accepted))
	}
	s.cfg, s.self, s.qps = cfg, self, role.PairsOf(cfg.QPs)
	s.table, _ = cfg.QPs.(QPTable)
	return nil
}

// Counters returns the counters. Any goroutine may read it.
func (s *Role) Counters() *node.Counters { return &s.counters }

// Receive decides about a packet that the host has received or sent. It appends nothing to out. RoCEv2 packets that are
// not notifications teach QPs. The host's own datagrams (UD) also teach where its queue pairs send, so that CNPs about
// them are accepted: for datagrams QPs may never learn the opposite direction. With Event.Observe nothing else happens.
//
// If the Action is node.ActionAccepted, Decision.Request is its request, and SrcQP is the host's queue
// pair that has to react, if KnownQP. Only for a PPFC may that be unknown: it is then about all traffic to Flow.Dst or
// through Port.
//
// Any host can send notifications, so cheap checks come before expensive ones, and the source is checked before the
// contents. The first of these reasons is given: ReasonDisabled; ReasonBroken (it may be a notification but cannot
// be decoded); ReasonNotOurs (to another host); ReasonTunnelled; for a source that is neither on the access list nor
// the flow's destination ReasonDenied, ReasonUnknownQP (no such queue pair is known) or ReasonAmbiguousQP;
// ReasonLimited (Accepted or AcceptedPerSource); ReasonBroken (options beyond Limits, or a malformed message) or
// ReasonUnknownOption; ReasonICRC; for a source on the list ReasonUnknownQP or ReasonAmbiguousQP. A rejected packet
// is not charged to any limit.
func (s *Role) Receive(out []byte, f *rocev2.Frame, e node.Event) (sent []byte, d node.Decision) {
	if f == nil {
		return out, d
	}
	e.Now = s.latest.Or(e.Now)
	s.receiveFrame(f, &e, &d)
	s.counters.Settle(&d)
	if d.Repeated {
		s.counters.Inc(node.Count{Effect: node.EffectRepeated})
	}
	return out, d
}

// Due does nothing: a sender has no timers.
func (s *Role) Due(out []byte, _ time.Time) (sent []byte, d node.Decision) { return out, d }

func (s *Role) receiveFrame(f *rocev2.Frame, e *node.Event, d *node.Decision) {
	p := &s.packet
	var reason node.Reason
	d.Packet, reason = role.Decode(p, f)
	switch {
	case reason == node.ReasonNotOurs, reason == node.ReasonTrimmed,
		reason == node.ReasonBroken && !role.MayBe(f, message.KindCNP):
		return
	case d.Packet == message.KindData, d.Packet == message.KindAck:
		s.observePacket(p, e.Domain, d, e.Now)
		return
	case e.Observe:
		d.Packet = message.KindOther
		return
	case !s.cfg.Enabled:
		d.Reason = node.ReasonDisabled
	case reason == node.ReasonBroken:
		d.Reason = node.ReasonBroken
	case !s.self.Has(p.Dst):
		d.Reason = node.ReasonNotOurs
	case len(p.Outer) > 0 && !s.cfg.AllowTunnel:
		d.Reason = node.ReasonTunnelled
	}
	if reason == node.NoReason {
		d.From = p.Src
	}
	if d.Reason != node.NoReason {
		return
	}
	trust := s.checkSource(p, e.Domain, e.Now)
	if trust.acceptsNone() {
		d.Reason = s.untrustedReason(p, trust)
		return
	}
	var source uint64
	if s.from != nil {
		source = role.Hash(&qpmap.Key{FlowKey: rocev2.FlowKey{Src: p.Src}}, s.memory.Seed())
	}
	switch {
	case !s.isWithinLimits(source, e.Now):
		d.Reason = node.ReasonLimited
	case !s.withinLimits(p):
		d.Reason = node.ReasonBroken
	default:
		d.Flow.Domain = e.Domain
		d.Reason = s.decodeMessage(p, d)
	}
	if d.Reason == node.NoReason {
		d.Reason = trust.reasonFor(d)
	}
	if d.Reason == node.NoReason {
		if _, err := icrc.Verify(p.IP); err != nil {
			d.Reason = node.ReasonICRC
		} else {
			s.findFlow(d, e.Now)
		}
	}
	if d.Reason != node.NoReason {
		*d = node.Decision{Packet: d.Packet, Reason: d.Reason, From: p.Src}
		return
	}
	s.from.Charge(source, e.Now)
	s.all.Charge(e.Now)
	d.Action = node.ActionAccepted
	s.setRequest(d, e.Now)
}

// isWithinLimits reports whether the limits let a notification of a source pass.
func (s *Role) isWithinLimits(source uint64, now time.Time) bool {
	from, all := s.from.Ready(source, now), s.all.Ready(now) // both see the time, should it jump back
	return from && all
}

// withinLimits reports whether the options are within Config.Limits. Long lists of
// options would be a denial-of-service attack on the host (RFC 8504 section 5.3).
func (s *Role) withinLimits(p *rocev2.Packet) bool {
	if p.Src.Is4() {
		return true
	}
	var h ipv6opt.Header
	// as p.Extensions(), but faster
	for next, ext := p.NextHeader, p.Ext; len(ext) > 0; next = h.NextHeader {
		var err error
		if ext, err = h.Decode(ext); err != nil {
			return false
		}
		if (next == ipv6opt.HopByHop || next == ipv6opt.DestinationOptions) && s.cfg.Limits.Check(&h) != nil {
			return false
		}
	}
	return true
}

// decodeMessage decodes the notification into d.
func (s *Role) decodeMessage(p *rocev2.Packet, d *node.Decision) node.Reason {
	d.Flow.Src = p.Dst
	if ppfc.IsNotification(p) {
		n, err := ppfc.FromPacket(p)
		if err != nil {
			return node.ReasonBroken
		}
		d.Packet, d.Message, d.Port, d.Request = message.KindPPFC, message.KindPPFC, n.Port, role.RequestOf(n.Type)
		if d.Request != node.RequestResume {
			d.Pause = n.Pause
		}
		d.Flow.FlowKey = rocev2.FlowKey{Src: s.self.Like(n.Congested), Dst: n.Congested, DestQP: n.DestQP}
		return node.NoReason
	}
	switch n, err := fastcnp.FromPacket(p, s.cfg.CodePoints); err {
	case nil:
		d.Packet, d.Message, d.Origin, d.SrcPort = message.KindFastCNP, message.KindFastCNP, n.Origin(), p.SrcPort
		d.Flow.Dst, d.Flow.DestQP = n.Option.OriginalDst, n.CNP.DestQP
		if n.Option.Number == 2 {
			s.trace = n.Option.Trace
			d.Trace = &s.trace
		}
		return node.NoReason
	case fastcnp.ErrNotFastCNP:
		c, err := cnp.FromPacket(p)
		if err == cnp.ErrOption { // maybe a Fast CNP with an unknown option type: its DestQP is not the host's
			d.Packet = message.KindUnknownOption
			return node.ReasonUnknownOption
		} else if err != nil {
			return node.ReasonBroken
		}
		d.Message, d.Origin, d.SrcQP, d.KnownQP = message.KindCNP, fastcnp.OriginReceiver, c.DestQP, true
		return node.NoReason
	}
	return node.ReasonBroken
}

// findFlow finds the host's queue pair.
//
// A PPFC should name the flow by its destination. A node that writes its own
// address instead, as the draft's text has it, leaves the queue pair unknown: the
// PPFC is accepted without it (D15).
func (s *Role) findFlow(d *node.Decision, now time.Time) {
	if d.KnownQP {
		return
	}
	if s.qps.Find(d, now); d.Message == message.KindPPFC {
		d.Reason = node.NoReason
	}
}

// setRequest sets the request of a CNP or Fast CNP: RequestSlowDown, unless the congestion was reported within
// Config.Window before.
func (s *Role) setRequest(d *node.Decision, now time.Time) {
	if d.Message == message.KindPPFC {
		return
	}
	key := uint64(d.SrcQP)
	if d.Repeated = !s.reports.Ready(key, s.cfg.Window, now); !d.Repeated {
		d.Request = node.RequestSlowDown
		s.reports.Record(key, now)
	}
}
