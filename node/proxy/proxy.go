// Package proxy is the proxy node of PROXY section 4. It is close to senders that a congested node cannot notify
// itself: the congested node sends a message to the proxy, which translates it into one that the sender understands.
//
//	sender ──────── proxy ──────── congested node ──────── receiver
//	        <─ CNP ─       <─ message: five-tuple, level,
//	           with the       invoking packet
//	           sender's queue pair
//
// The message names the receiver's queue pair, a CNP must name the sender's. So a [Role] must see the traffic in both
// directions, from which it learns queue pairs. If the sender's is not known, or could be one of several, no CNP is
// sent: the proxy never guesses. Fast CNP and PPFC name the receiver's queue pair, from which senders find their own.
// For senders that do not use RoCEv2 see [Other].
//
// On several cores, each instance gets the traffic and the messages of its own pairs of addresses.
//
// Experimental: this package may change in a minor release.
package proxy

import (
	"cmp"
	"fmt"
	"net/netip"
	"time"

	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/internal/enumtext"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/acl"
	"github.com/rocecn/rocecn/node/internal/role"
	"github.com/rocecn/rocecn/ppfc"
	"github.com/rocecn/rocecn/proxymsg"
	"github.com/rocecn/rocecn/rocev2"
)

// An Answer is the message by which a sender is notified: one that it understands.
type Answer uint8

// The answers.
const (
	NoAnswer      Answer = iota // nothing is sent
	AnswerCNP                   // the CNP of RoCEv2
	AnswerFastCNP               // over IPv6 only
	AnswerPPFC
	AnswerOther // something else, which the program sends: see [Role.Message]
)

var answers = []string{"none", "cnp", "fastcnp", "ppfc", "other"}

// String returns the answer in lower case, "none" for NoAnswer.
func (a Answer) String() string { return enumtext.Name(a, answers, "Answer") }

// MarshalText returns the text of String.
func (a Answer) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText sets a from the text of String.
func (a *Answer) UnmarshalText(text []byte) error { return enumtext.OneOf(a, text, answers) }

// Config is the configuration, in the words of package [node].
type Config struct {
	Enabled bool

	// Self4 and Self6 are the addresses to which messages are sent, and the source addresses of the proxy's
	// notifications. Senders of a family without one are not notified: node.ReasonNoMethod.
	Self4, Self6 netip.Addr
	Port         uint16    // of the messages; 0 stands for proxymsg.Port
	Accept       *acl.List // the congested nodes
	// Senders have, by prefix, the message that a sender understands. No other senders get a message;
	// a sender without an entry is node.ReasonNoMethod.
	Senders *acl.Map[Answer]
	// FromReceiver: CNPs come from the address of the flow's receiver, as ordinary ones do, and not from the proxy's
	// own.
	FromReceiver bool

	// QPs are the queue pairs learned. Without them no CNP is sent. If several senders have used a queue pair one after
	// the other, a *[qpmap.Map] finds the one that sent the invoking packet.
	QPs node.Pairs

	In, InPerSource      node.Rate
	PerFlow              time.Duration // between two answers about a flow
	Out                  node.Rate     // of answers
	MaxFlows, MaxSources int           // for PerFlow, 16 octets each, 65,536 by default; for InPerSource, 24, 4,096
	Seed                 uint64

	// Family is the address family of the five-tuples in messages; 0 stands for inferred (D8).
	Family proxymsg.Family

	Carriage   rocev2.Carriage // of the messages sent
	CodePoints fastcnp.CodePoints
	Pause      ppfc.Extension // extension of a PPFC; the zero value: stop, for 0 µs
}

// A Role is a proxy node.
type Role struct {
	cfg      Config
	self     role.Self
	qps      role.Pairs
	memory   role.Memory
	latest   role.Latest
	intake   role.Intake
	pace     role.Pace
	counters node.Counters
	datagram rocev2.Datagram
	message  proxymsg.Message
	invoking rocev2.Frame  // of a message
	packet   rocev2.Packet // the one in it, or the one to learn from
}

// New returns a Role; see [node.Role].
func New(cfg Config) (*Role, error) {
	return role.New(&Role{}, cfg)
}

// Configure changes the rules.
func (p *Role) Configure(cfg Config) error {
	self := role.Self{V4: cfg.Self4, V6: cfg.Self6}
	cfg.Port = cmp.Or(cfg.Port, proxymsg.Port)
	if cfg.Enabled {
		sizes := []role.Size{{Name: "MaxFlows", N: cfg.MaxFlows, Default: 1 << 16},
			{Name: "MaxSources", N: cfg.MaxSources, Default: 1 << 12}}
		_, err := p.memory.Configure("proxy", cfg.Seed, sizes, self.Needed(), role.CheckTime("PerFlow", cfg.PerFlow),
			role.CheckRate("Out", cfg.Out), role.CheckRate("In", cfg.In),
			role.CheckRate("InPerSource", cfg.InPerSource), role.CheckFastCNP("", cfg.fastCNP()), checkPause(cfg.Pause))
		if err != nil {
			return err
		}
		p.intake.Configure(cfg.Accept, cfg.In, cfg.InPerSource, p.memory.Size(1), p.memory.Seed())
		p.pace.Configure(cfg.Out, cfg.PerFlow, p.memory.Size(0))
	}
	p.cfg, p.self, p.qps = cfg, self, role.PairsOf(cfg.QPs)
	p.intake.On, p.intake.Self = cfg.Enabled, self
	return nil
}

// fastCNP returns the configuration of Fast CNPs.
func (c *Config) fastCNP() fastcnp.Config {
	return fastcnp.Config{Carriage: c.Carriage, CodePoints: c.CodePoints, Long: fastcnp.LongTraceFallBack}
}

// checkPause returns an error for an extension that no PPFC can have.
func checkPause(e ppfc.Extension) error {
	switch {
	case !e.Congested.IsValid():
		e.Congested = netip.IPv6Unspecified() // the flow's destination, when one is sent
	case e.Congested.Is4In6():
		return fmt.Errorf("the Pause: Congested %v is IPv4-mapped", e.Congested)
	}
	if _, err := e.AppendBinary(nil); err != nil {
		return fmt.Errorf("the Pause: %w", err)
	}
	return nil
}

// Counters returns the counters. Any goroutine may read it.
func (p *Role) Counters() *node.Counters { return &p.counters }
