// Package sender is the role of a host that sends data: it decides which
// notifications to accept, and returns the queue pair that must slow down (FAST
// sections 3 to 5). [Role.Receive] decides about each received packet. The
// drafts do not specify how the queue pair slows down; package reaction has
// algorithms.
//
// Three messages reach a sender. They identify its flow in different ways:
//
//	CNP       from the receiver             by the sender's queue pair
//	Fast CNP  from a switch on the path     by the original destination and the receiver's queue pair
//	PPFC      from a switch on the path     as a Fast CNP
//
// [Detour] chooses another UDP source port for a flow, to avoid a congested
// switch.
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

	// Accept contains the nodes of the network from which notifications are accepted (FAST section 5). It need not
	// contain the receivers: a notification from the destination of a flow is accepted if QPs knows the flow.
	Accept *acl.List

	// ReceiversSendNone is for networks in which receivers send no Fast CNPs: a Fast CNP from its original destination
	// is then accepted only if Accept contains that address. CNPs of receivers are accepted as usual.
	ReceiversSendNone bool

	// AllowTunnel accepts notifications inside another IP header, although access lists of other nodes, such as those
	// of the border, saw only the outer header (D17).
	AllowTunnel bool

	// QPs is the table of the host's queue pairs. A CNP of a receiver names one of them, and is accepted if this queue
	// pair sends to the receiver. A [QPTable] answers this in one look-up. Other tables need two, one in each
	// direction: the queue pair of the receiver that sends to the named one, and its opposite. A [qpmap.Map] knows
	// both directions of connections, but only one of datagrams (UD): the Role itself stores the destinations of the
	// host's own datagrams.
	QPs node.Pairs

	// Accepted and AcceptedPerSource are the limits on accepted notifications: of all sources, and of each source. A
	// rejected notification is not charged.
	Accepted, AcceptedPerSource node.Rate

	// Window is the time after a report about a queue pair in which further reports count as the same congestion
	// (Decision.Repeated); with 0 every report counts. A switch that does not know the capability of the sender both
	// sends a Fast CNP and marks the packet, so that the receiver also sends a CNP (FAST section 4).
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
	all     *limit.Shared  // by source
	reports *limit.Every   // by queue pair
	sent    *limit.Every   // datagrams, by queue pair and destination
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

// Configure changes the Config. The reports within Window and the destinations
// of datagrams stay.
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

// Receive decides about a packet that the host has received or sent. It appends
// nothing to out. RoCEv2 packets that are not notifications teach QPs. The
// host's own datagrams (UD) also teach the destinations of its queue pairs, so
// that CNPs about them are accepted. With Event.Observe Receive only learns.
//
// If the Action is node.ActionAccepted, Decision.Request is the request, and
// SrcQP the queue pair of the host that must react, if KnownQP is set. KnownQP
// is unset only for a PPFC about all traffic to Flow.Dst or through Port.
//
// Any host can send notifications, so Receive checks the source before the
// contents, and cheap properties before expensive ones. If it rejects a
// notification, no limit is charged, and the Reason is the first of these that
// applies:
//   - ReasonDisabled
//   - ReasonBroken: the packet may be a notification but cannot be decoded
//   - ReasonNotOurs: the packet is addressed to another host
//   - ReasonTunnelled
//   - ReasonDenied, ReasonUnknownQP or ReasonAmbiguousQP: the source is neither
//     in Accept nor the destination of the flow
//   - ReasonLimited: Accepted or AcceptedPerSource
//   - ReasonBroken or ReasonUnknownOption: the message is malformed, or its
//     options exceed Limits
//   - ReasonICRC
//   - ReasonUnknownQP or ReasonAmbiguousQP: the source is in Accept
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
	if s.from != nil || s.all != nil {
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
	s.all.Charge(source, e.Now)
	d.Action = node.ActionAccepted
	s.setRequest(d, e.Now)
}

// isWithinLimits reports whether the limits let a notification of a source pass.
func (s *Role) isWithinLimits(source uint64, now time.Time) bool {
	from, all := s.from.Ready(source, now), s.all.Ready(source, now) // both see the time, should it jump back
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
