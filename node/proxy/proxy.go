// Package proxy is the role of a proxy (PROXY section 4). A proxy is close to
// senders that a congested node cannot notify itself. [Role.Receive] translates
// the message of a congested node to a notification that the sender
// understands.
//
//	sender ──────── proxy ──────── congested node ──────── receiver
//	        <─ CNP ─       <─ message: five-tuple, level,
//	           with the       invoking packet
//	           sender's queue pair
//
// The message names the queue pair of the receiver, and a CNP must name that of
// the sender. A [Role] learns queue pairs from the traffic, so it must see both
// directions. If the sender's queue pair is unknown or ambiguous, it sends no
// CNP. A Fast CNP or PPFC names the queue pair of the receiver, as the message
// does. [AnswerOther] is for senders that do not use RoCEv2.
//
// On several cores each instance gets the traffic and the messages of its own
// pairs of addresses.
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

// An Answer is the kind of notification that a sender understands.
type Answer uint8

// The answers.
const (
	NoAnswer      Answer = iota // no notification
	AnswerCNP                   // CNP
	AnswerFastCNP               // Fast CNP, over IPv6 only
	AnswerPPFC                  // PPFC with Config.Pause
	AnswerOther                 // notification that the program itself sends: see [Role.Message]
)

var answers = []string{"none", "cnp", "fastcnp", "ppfc", "other"}

// String returns the answer in lower case, "none" for NoAnswer.
func (a Answer) String() string { return enumtext.Name(a, answers, "Answer") }

// MarshalText returns the text of String.
func (a Answer) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText sets a to the answer with this String.
func (a *Answer) UnmarshalText(text []byte) error { return enumtext.OneOf(a, text, answers) }

// Config is the configuration, in the words of package [node].
type Config struct {
	Enabled bool

	// Self4 and Self6 are the destination addresses of messages and the source addresses of notifications. Senders of
	// a family without an address get no notification (node.ReasonNoMethod).
	Self4, Self6 netip.Addr
	Port         uint16    // UDP port of messages; 0 stands for proxymsg.Port
	Accept       *acl.List // congested nodes from which messages are accepted
	// Senders contains the answer that the senders in a prefix understand. Other senders get no notification
	// (node.ReasonNoMethod).
	Senders *acl.Map[Answer]
	// FromReceiver makes the receiver of the flow the source address of CNPs, as in the CNPs of the receiver itself.
	FromReceiver bool

	// QPs is the table of queue pairs. With nil no CNP is sent. If several senders have used a queue pair one after
	// the other, a *[qpmap.Map] finds the one that sent the invoking packet.
	QPs node.Pairs

	In, InPerSource node.Rate     // limits on received messages: of all nodes, and of each
	PerFlow         time.Duration // shortest time between two notifications about a flow
	Out             node.Rate     // limit on sent notifications
	MaxFlows        int           // entries of the table for PerFlow, 16 octets each; 65,536 by default
	MaxSources      int           // entries of the table for InPerSource, 24 octets each; 4,096 by default
	Seed            uint64        // seed of the hash tables; 0 is a random one

	// Family is the address family of the five-tuples in messages; 0 stands for inferred (D8).
	Family proxymsg.Family

	Carriage   rocev2.Carriage    // fields of IP and UDP in notifications
	CodePoints fastcnp.CodePoints // types of the Fast CNP options
	Pause      ppfc.Extension     // extension of a PPFC; the zero value is a stop for 0 µs
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
		p.pace.Configure(cfg.Out, cfg.PerFlow, p.memory.Size(0), p.memory.Seed())
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
