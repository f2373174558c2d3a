// Package proxy is the proxy node of PROXY section 4: it stands close to senders
// that a congested node cannot tell of congestion by itself, takes the message
// that the congested node sends it instead, and translates that into one that the
// sender understands.
//
//	sender ──────── proxy ──────── congested node ──────── receiver
//	        <─ CNP ─       <─ message: five-tuple, level,
//	           with the       invoking packet
//	           sender's queue pair
//
// The message names the receiver's queue pair, a CNP must name the sender's. A
// [Proxy] therefore has to be shown the traffic in both directions, by Observe,
// from which it learns who is whose. A CNP is sent on knowledge only: where the
// queue pair is not known, or could be one of several, there is none. Fast CNP and
// PPFC need none: their senders find it themselves. What senders understand that do
// not use RoCEv2 is the program's to know: see [Other].
//
// The zero Config is off. Nothing here reads a clock, starts a goroutine or does
// I/O, and after New nothing is allocated. A Proxy is not safe for concurrent use:
// one instance a core, to each the traffic and the messages of its own pairs of
// addresses.
package proxy

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/acl"
	"github.com/rocecn/rocecn/node/limit"
	"github.com/rocecn/rocecn/ppfc"
	"github.com/rocecn/rocecn/proxymsg"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
)

// A Method is what a sender understands.
type Method uint8

// The methods.
const (
	Nothing Method = iota // the sender is not told
	CNP                   // the CNP of RoCEv2
	FastCNP               // over IPv6 only
	PPFC
	Other // something else, which the program sends: see [Answer]
)

var methods = []string{"none", "cnp", "fastcnp", "ppfc", "other"}

// String returns the method in lower case, "none" for Nothing.
func (m Method) String() string {
	if int(m) < len(methods) {
		return methods[m]
	}
	return "Method(" + strconv.Itoa(int(m)) + ")"
}

var errMethod = errors.New("none, cnp, fastcnp, ppfc or other needed")

// UnmarshalText sets m from what String returns.
func (m *Method) UnmarshalText(text []byte) error {
	i := slices.Index(methods, string(text))
	if i < 0 {
		return errMethod
	}
	*m = Method(i)
	return nil
}

// MarshalText returns what String does.
func (m Method) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// Config is what a deployment chooses. The zero value is off.
type Config struct {
	Enabled bool

	// Self4 and Self6 are the proxy's own addresses, one at least: where messages
	// are sent to, and the sources of what it sends. To senders of a family
	// without one nothing is sent from it: node.NoMethod.
	Self4, Self6 netip.Addr
	// Accept has the congested nodes whose messages count. Nil: none.
	Accept *acl.List
	// Senders say by prefix what a sender understands. What is sent goes nowhere
	// else, whatever a message says; a sender without an entry is node.NoMethod.
	Senders *acl.Map[Method]
	// FromReceiver: CNPs come from the address of the flow's receiver, as
	// ordinary ones do, and not from the proxy's own.
	FromReceiver bool

	// QPs are the queue pairs learned. Nil: none, and no CNP is ever sent.
	QPs *qpmap.Map

	// In is the rate of messages of all congested nodes, and InPerSource that of
	// each of them, so that one cannot use up what the others need. Every message of
	// a node on the list takes from both before anything in it is looked at; what
	// one of them refuses takes nothing from the other.
	In, InPerSource limit.Rate
	// PerFlow is the least time between two answers about a flow, and Out the rate
	// of answers, both looked at last. Only what is sent, or handed to the program,
	// takes from them.
	//
	// Without a limit, the default, every message is looked at and answered.
	PerFlow time.Duration
	Out     limit.Rate
	// MaxFlows is for how many flows PerFlow is kept at once, 16 octets each: 0
	// stands for 65,536. MaxSources is that of InPerSource, 24 octets each: 0 stands
	// for 4,096.
	MaxFlows, MaxSources int
	// Seed keeps others from choosing flows that push each other out; 0 stands for a
	// random one.
	Seed uint64

	// Family is that of the five-tuples in messages; 0: inferred (D8).
	Family proxymsg.Family

	Carriage   rocev2.Carriage // of what is sent
	CodePoints fastcnp.CodePoints
	Pause      ppfc.Extension // what a PPFC says; the zero one: stop, for 0 µs
}

// A Proxy is a proxy node.
type Proxy struct {
	cfg    Config
	in     *limit.Bucket
	from   *limit.Buckets // by source
	out    *limit.Bucket
	flows  *limit.Every
	stats  Stats
	flow   rocev2.Flow   // of Receive
	packet rocev2.Packet // of Receive
}

// Stats counts what a Proxy did.
type Stats struct {
	Observed uint64               // packets that were learned from
	Sent     uint64               // messages that were translated
	Others   uint64               // messages that were handed to the program
	Refused  [node.Reasons]uint64 // messages that were refused, by reason
}

// New returns a Proxy. A Config that is off needs no more than that. Otherwise all
// memory that the Proxy itself will ever use is allocated here; the error names
// what is wrong with the Config.
func New(cfg Config) (*Proxy, error) {
	if !cfg.Enabled {
		return &Proxy{}, nil
	}
	if !cfg.Self4.IsValid() && !cfg.Self6.IsValid() {
		return nil, errors.New("proxy: neither Self4 nor Self6 is given")
	}
	for i, a := range [...]netip.Addr{cfg.Self4, cfg.Self6} {
		if a.IsValid() && (a.Is4() != (i == 0) || rocev2.Answerable(a) != nil) {
			return nil, fmt.Errorf("proxy: Self%d %v is no unicast address of its family that others can reach", 4+2*i, a)
		}
	}
	if cfg.PerFlow < 0 {
		return nil, fmt.Errorf("proxy: PerFlow %v is negative", cfg.PerFlow)
	}
	if err := cfg.Carriage.Apply(new(rocev2.Datagram)); err != nil {
		return nil, err
	}
	if cfg.Seed == 0 {
		cfg.Seed = rand.Uint64()
	}
	if cfg.MaxFlows == 0 {
		cfg.MaxFlows = 1 << 16
	}
	if cfg.MaxSources == 0 {
		cfg.MaxSources = 1 << 12
	}
	p := &Proxy{
		cfg: cfg, out: limit.NewBucket(cfg.Out),
		in: limit.NewBucket(cfg.In), from: limit.NewBuckets(cfg.InPerSource, cfg.MaxSources),
	}
	if cfg.PerFlow > 0 {
		p.flows = limit.NewEvery(cfg.MaxFlows)
	}
	return p, nil
}

// Observe learns from a packet that passes by, in either direction, and says
// whether it looked at it. What came inside another IP header teaches nothing: its
// addresses are those of some VPN.
func (p *Proxy) Observe(packet *rocev2.Packet, now time.Time) bool {
	if p.cfg.QPs == nil || len(packet.Outer) > 0 {
		return false
	}
	p.stats.Observed++
	p.cfg.QPs.Observe(packet, 0, now)
	return true
}

// Stats returns the counters.
func (p *Proxy) Stats() Stats { return p.stats }

// refuse counts a reason and returns it.
func (p *Proxy) refuse(r node.Reason) node.Reason {
	p.stats.Refused[r]++
	return r
}
