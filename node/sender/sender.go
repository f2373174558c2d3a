// Package sender is the host whose traffic causes congestion: it decides which
// notifications to believe and says which of its queue pairs each one is about
// (FAST sections 3 to 5). How that queue pair then slows down is out of the
// drafts' scope.
//
// Three messages reach a sender. They name its flow in different ways:
//
//	CNP       from the receiver        by the sender's queue pair
//	Fast CNP  from a switch on the way by the original destination and the receiver's queue pair
//	PPFC      from a switch on the way as a Fast CNP does
package sender

import (
	"errors"
	"net/netip"
	"time"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/cnp"
	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/ioam"
	"github.com/rocecn/rocecn/ipv6opt"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/acl"
	"github.com/rocecn/rocecn/node/limit"
	"github.com/rocecn/rocecn/ppfc"
	"github.com/rocecn/rocecn/rocev2"
)

// Config is what a deployment chooses. The zero Config is off.
type Config struct {
	Enabled      bool       // without it nothing is accepted
	Self4, Self6 netip.Addr // the host's own addresses

	// Accept are the nodes of the network whose notifications count (FAST section
	// 5); nil has none. Receivers are not in it: what they say of a flow counts
	// when it comes from the flow's own destination.
	Accept *acl.List

	// AllowTunnel: accept what came inside another IP header, though access list
	// and border saw only the outer one (D17).
	AllowTunnel bool

	QPs node.Pairs // of the host; nil knows none

	// PerSource is the least time between two notifications of one source that
	// are accepted; 0 sets no limit.
	PerSource time.Duration

	// Window joins the reports of one congestion: what is said of a queue pair
	// less than a Window after the first report is the same news again. A switch
	// that does not know the sender sends a Fast CNP and marks ECN, and then the
	// receiver's CNP follows (FAST section 4). 0 joins nothing.
	Window time.Duration

	CodePoints fastcnp.CodePoints
	Limits     ipv6opt.Limits // of the options in a notification

	// How much is kept at once, 16 octets each; 0 stands for 65,536. Where more
	// come, the oldest are forgotten.
	MaxSources, MaxQPs int
	Seed               uint64 // keeps others from choosing addresses that collide
}

// An Event is a notification that was accepted.
type Event struct {
	Kind   message.Kind   // CNP, FastCNP or PPFC
	From   netip.Addr     // who sent it
	Origin fastcnp.Origin // the receiver of the flow, or a node of the network

	// QP is the host's queue pair that the notification is about. Only a PPFC may
	// be about none that is known: it is then about all traffic to Flow.Dst or
	// through Pause.Port.
	QP      uint32
	KnownQP bool

	// Flow is the flow as its data packets have it; of a CNP, which does not say,
	// only Src is set.
	Flow rocev2.FlowKey

	// SrcPort is the UDP source port of a Fast CNP: that of the congested packet,
	// where the switch has copied it (D6). With it, [Detour] finds another path.
	SrcPort uint16

	// Again: this congestion was reported before, so it must not count twice. Not
	// for PPFC, which says what to do, not what happened.
	Again bool

	Trace *ioam.Trace    // of a Fast CNP with option 2, else nil; aliases the frame, valid until the next Receive
	Pause ppfc.Extension // of a PPFC
}

// Stats counts notifications.
type Stats struct {
	Accepted [message.Proxy + 1]uint64 // by kind
	Again    uint64                    // of these, how many were no news
	Refused  [node.Reasons]uint64      // by reason
}

// A Sender decides for one host. It allocates its memory when it is made, and
// none later. It is not safe for concurrent use: use one instance a core, each for
// the sources that the core sees.
type Sender struct {
	cfg     Config
	packet  rocev2.Packet
	fast    fastcnp.Notification
	sources *limit.Every
	reports *limit.Every // by queue pair
	stats   Stats
}

// New returns a Sender.
func New(cfg Config) *Sender {
	s := &Sender{cfg: cfg}
	if cfg.Enabled {
		s.sources, s.reports = limit.NewEvery(or65536(cfg.MaxSources)), limit.NewEvery(or65536(cfg.MaxQPs))
	}
	return s
}

func or65536(n int) int {
	if n <= 0 {
		return 1 << 16
	}
	return n
}

// Stats returns the counters.
func (s *Sender) Stats() Stats { return s.stats }

// Receive decides about a packet that arrived. The Event is one only where the
// reason is Accepted.
//
// Cheap checks come before dear ones, and the access list before the octets
// that somebody wants looked at. Of the reasons the first counts: Disabled;
// Broken or NotOurs, for what is no notification or is another host's;
// Tunnelled; Denied; Limited; Broken, for options beyond the limits and messages
// that do not parse; ICRC; UnknownQP and AmbiguousQP. A refusal takes nothing from
// any limit.
func (s *Sender) Receive(frame []byte, o rocev2.DecodeOptions, now time.Time) (Event, node.Reason) {
	e, reason := s.receive(frame, o, now)
	if reason != node.Accepted {
		s.stats.Refused[reason]++
		return Event{}, reason
	}
	s.stats.Accepted[e.Kind]++
	if e.Again {
		s.stats.Again++
	}
	return e, node.Accepted
}

func (s *Sender) receive(frame []byte, o rocev2.DecodeOptions, now time.Time) (e Event, reason node.Reason) {
	if !s.cfg.Enabled {
		return e, node.Disabled
	}
	p := &s.packet
	if err := p.Decode(frame, o); err != nil {
		if errors.Is(err, rocev2.ErrNotRoCEv2) {
			return e, node.NotOurs
		}
		return e, node.Broken
	}
	source := rocev2.FlowKey{Src: p.Src}.Hash(s.cfg.Seed)
	switch {
	case p.BTH.Opcode != bth.CNP, p.Dst != s.cfg.Self4 && p.Dst != s.cfg.Self6:
		return e, node.NotOurs
	case len(p.Outer) > 0 && !s.cfg.AllowTunnel:
		return e, node.Tunnelled
	case !s.cfg.Accept.Contains(p.Src) && !s.fromReceiver(p):
		return e, node.Denied
	case !s.sources.Ready(source, s.cfg.PerSource, now):
		return e, node.Limited
	case !s.withinLimits(p):
		return e, node.Broken
	}
	if reason = s.read(p, &e); reason != node.Accepted {
		return e, reason
	}
	if _, err := icrc.Verify(p.IP); err != nil {
		return e, node.ICRC
	}
	if reason = s.find(&e, now); reason != node.Accepted {
		return e, reason
	}
	s.sources.Take(source, now)
	s.join(&e, now)
	return e, node.Accepted
}

// fromReceiver says whether a notification is a receiver's: a CNP, or a Fast CNP
// that comes from the original destination. That this is the destination of one
// of the host's own flows is seen when the flow is looked up.
func (s *Sender) fromReceiver(p *rocev2.Packet) bool {
	if ppfc.Is(p) {
		return false
	}
	if len(p.Ext) == 0 {
		return true
	}
	fast, err := s.cfg.CodePoints.FromPacket(p)
	return err == fastcnp.ErrNotFastCNP || err == nil && fast.Origin() == fastcnp.Receiver
}

// withinLimits says whether the options are no more than a host has to look at
// (RFC 8504 section 5.3).
func (s *Sender) withinLimits(p *rocev2.Packet) bool {
	if len(p.Ext) == 0 {
		return true
	}
	for typ, octets := range p.Extensions() {
		var h ipv6opt.Header
		if typ != ipv6opt.HopByHop && typ != ipv6opt.DestinationOptions {
			continue
		}
		if _, err := h.Decode(octets); err != nil || s.cfg.Limits.Check(&h) != nil {
			return false
		}
	}
	return true
}

// read sets what the notification says.
func (s *Sender) read(p *rocev2.Packet, e *Event) node.Reason {
	e.From, e.Flow.Src = p.Src, p.Dst
	if ppfc.Is(p) {
		n, err := ppfc.FromPacket(p)
		if err != nil {
			return node.Broken
		}
		e.Kind, e.Pause = message.PPFC, n.Extension
		e.Flow = s.flow(n.Congested, n.DestQP)
		return node.Accepted
	}
	var err error
	switch s.fast, err = s.cfg.CodePoints.FromPacket(p); err {
	case nil:
		e.Kind, e.Origin, e.SrcPort = message.FastCNP, s.fast.Origin(), p.SrcPort
		e.Flow.Dst, e.Flow.DestQP = s.fast.Option.OriginalDst, s.fast.CNP.DestQP
		if s.fast.Option.Number == 2 {
			e.Trace = &s.fast.Option.Trace
		}
		return node.Accepted
	case fastcnp.ErrNotFastCNP:
		c, err := cnp.FromPacket(p)
		if err != nil {
			return node.Broken
		}
		e.Kind, e.Origin, e.QP, e.KnownQP = message.CNP, fastcnp.Receiver, c.DestQP, true
		return node.Accepted
	}
	return node.Broken
}

// flow returns the host's own flow to a destination and its queue pair.
func (s *Sender) flow(dst netip.Addr, destQP uint32) rocev2.FlowKey {
	k := rocev2.FlowKey{Src: s.cfg.Self6, Dst: dst, DestQP: destQP}
	if dst.Is4() {
		k.Src = s.cfg.Self4
	}
	return k
}

// find finds the host's queue pair.
//
// A PPFC should name the flow by its destination. A node that writes its own
// address there, as the draft's text has it, gives the host nothing to find the
// queue pair by: the notification is then about no flow that is known (D15).
func (s *Sender) find(e *Event, now time.Time) node.Reason {
	if e.KnownQP {
		return node.Accepted
	}
	pair, reason := node.SourceQP(s.cfg.QPs, e.Flow, 0, now)
	switch {
	case reason == node.Accepted:
		e.QP, e.KnownQP = pair.SrcQP, true
	case e.Kind == message.PPFC:
		return node.Accepted
	}
	return reason
}

// join says whether the congestion was reported before.
func (s *Sender) join(e *Event, now time.Time) {
	if e.Kind == message.PPFC || s.cfg.Window <= 0 {
		return
	}
	key := uint64(e.QP)
	if e.Again = !s.reports.Ready(key, s.cfg.Window, now); !e.Again {
		s.reports.Take(key, now)
	}
}
