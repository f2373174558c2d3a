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
	"math/rand/v2"
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
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
)

// Config is what a deployment chooses. The zero Config is off.
type Config struct {
	Enabled      bool       // without it nothing is accepted
	Self4, Self6 netip.Addr // the host's own addresses

	// Accept are the nodes of the network whose notifications count (FAST section
	// 5); nil has none. Receivers need not be in it: what they say of a flow counts
	// when it comes from the flow's own destination, and QPs know the flow.
	Accept *acl.List

	// ReceiversSendNone: the receivers of this network send no Fast CNPs, so that
	// one whose source is its original destination needs the access list as well.
	// What they say in CNPs counts all the same.
	ReceiversSendNone bool

	// AllowTunnel: accept what came inside another IP header, though access list
	// and border saw only the outer one (D17).
	AllowTunnel bool

	// QPs are the host's queue pairs; nil knows none. A receiver's CNP names one of
	// them, and counts when that one sends to the receiver. A [QPTable] is asked for
	// that by its number. Other Pairs are asked in both directions: which queue pair
	// of the receiver sends to the one that is named, and whether that is the one
	// that sends to it. So they must know both, as a [qpmap.Map] does that learned a
	// connection. Of datagrams (UD) it knows one: see [Sender.Observe].
	QPs node.Pairs

	// PerSource is the least time between two notifications of one source that
	// are accepted, and Rate limits all of them together. Without a limit, the
	// default, all are accepted. Only what is accepted takes from a limit.
	PerSource time.Duration
	Rate      limit.Rate

	// Window joins the reports of one congestion: what is said of a queue pair
	// less than a Window after the first report is the same news again. A switch
	// that does not know the sender sends a Fast CNP and marks ECN, and then the
	// receiver's CNP follows (FAST section 4). 0 joins nothing.
	Window time.Duration

	CodePoints fastcnp.CodePoints
	Limits     ipv6opt.Limits // of the options in a notification

	// How much is kept at once, 16 octets a source and 32 a queue pair; 0 stands for
	// 65,536. Where more come, the oldest are forgotten.
	MaxSources, MaxQPs int
	Seed               uint64 // keeps others from choosing addresses that collide; 0 stands for a random one
}

// A QPTable is a host's own table of its queue pairs.
type QPTable interface {
	node.Pairs
	// Sends says whether one of the host's queue pairs sends to dst and, where it
	// does not, whether there is one of this number at all.
	Sends(qp uint32, dst netip.Addr, now time.Time) (sends, known bool)
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
	table   QPTable // cfg.QPs, if it is one
	packet  rocev2.Packet
	fast    fastcnp.Notification
	sources *limit.Every
	rate    *limit.Bucket
	reports *limit.Every // by queue pair
	sent    *limit.Every // datagrams, by queue pair and destination
	stats   Stats
}

// New returns a Sender.
func New(cfg Config) *Sender {
	if cfg.Seed == 0 {
		cfg.Seed = rand.Uint64()
	}
	s := &Sender{cfg: cfg}
	if cfg.Enabled {
		s.table, _ = cfg.QPs.(QPTable)
		s.sources, s.reports = limit.NewEvery(or65536(cfg.MaxSources)), limit.NewEvery(or65536(cfg.MaxQPs))
		s.sent, s.rate = limit.NewEvery(or65536(cfg.MaxQPs)), limit.NewBucket(cfg.Rate)
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
// Cheap checks come before dear ones, and who speaks before what is said. Of the
// reasons the first counts: Disabled; Broken or NotOurs, for what is no
// notification or is another host's; Tunnelled; of a source that is neither on the
// access list nor the destination of the flow: Denied, UnknownQP where no such
// queue pair is known, or AmbiguousQP; Limited, by PerSource and by Rate; Broken,
// for options beyond the limits and messages that do not parse, or UnknownOption;
// ICRC; UnknownQP and AmbiguousQP of what the list let in. A refusal takes nothing
// from any limit.
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
	switch {
	case p.BTH.Opcode != bth.CNP, p.Dst != s.cfg.Self4 && p.Dst != s.cfg.Self6:
		return e, node.NotOurs
	case len(p.Outer) > 0 && !s.cfg.AllowTunnel:
		return e, node.Tunnelled
	}
	trust := s.trust(p, now)
	if trust.none() {
		return e, s.distrust(p, trust)
	}
	source := rocev2.FlowKey{Src: p.Src}.Hash(s.cfg.Seed)
	switch {
	case !s.sources.Ready(source, s.cfg.PerSource, now), !s.rate.Ready(now):
		return e, node.Limited
	case !s.withinLimits(p):
		return e, node.Broken
	}
	if reason = s.read(p, &e); reason != node.Accepted {
		return e, reason
	}
	if reason = trust.in(&e); reason != node.Accepted {
		return e, reason
	}
	if _, err := icrc.Verify(p.IP); err != nil {
		return e, node.ICRC
	}
	if reason = s.find(&e, now); reason != node.Accepted {
		return e, reason
	}
	s.sources.Take(source, now)
	s.rate.Take(now)
	s.join(&e, now)
	return e, node.Accepted
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
		if err == cnp.ErrOption { // maybe a Fast CNP of another type, whose DestQP is not the host's
			return node.UnknownOption
		} else if err != nil {
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
	pair, reason := node.SourceQP(s.cfg.QPs, qpmap.Key{FlowKey: e.Flow}, now)
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
	if e.Kind == message.PPFC {
		return
	}
	key := uint64(e.QP)
	if e.Again = !s.reports.Ready(key, s.cfg.Window, now); !e.Again {
		s.reports.Take(key, now)
	}
}
