// Package border is the border of a controlled domain, which messages of
// congestion signalling do not cross, neither coming in nor going out (FAST
// section 5, PROXY section 6).
//
// The drafts of FCN and PPFC have no such rule; FCN is kept from crossing all
// the same, PPFC by choice.
//
// What is to be dropped package filter says, also to sockets, tc, nftables and
// ip6tables; those cannot look into tunnels, a Border does.
package border

import (
	"github.com/rocecn/rocecn/filter"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/rocev2"
)

// Config is what a deployment chooses. The zero Config is off: everything
// passes.
type Config struct {
	Enabled bool
	filter.Border
}

// A Border judges packets. It keeps no state but counters. It is not safe for
// concurrent use: one instance a core.
type Border struct {
	cfg   Config
	stats Stats
}

// Stats counts packets.
type Stats struct {
	FastCNP, FCN, Proxy, PPFC, CNP uint64 // dropped
	Broken                         uint64 // dropped: first fragments that could be any of them

	Passed   uint64 // RoCEv2
	Other    uint64 // what is neither RoCEv2 nor a message, and passes
	Disabled uint64 // RoCEv2 and messages that pass because the role is off
}

// A Verdict is what becomes of a packet.
type Verdict struct {
	Kind   message.Kind // Other: neither RoCEv2 nor a message
	Drop   bool
	Reason node.Reason // Disabled where the role is off
}

// New returns a Border.
func New(cfg Config) *Border { return &Border{cfg: cfg} }

// Judge says whether a packet may cross, in either direction. The octets are as
// o describes them; o.Cut does not matter.
func (b *Border) Judge(packet []byte, o rocev2.DecodeOptions) Verdict {
	kind, drop := b.cfg.Match(packet, o)
	switch {
	case kind == message.Other:
		b.stats.Other++
	case !b.cfg.Enabled:
		b.stats.Disabled++
		return Verdict{Kind: kind, Reason: node.Disabled}
	case !drop:
		b.stats.Passed++
	default:
		b.stats.dropped(kind)
	}
	return Verdict{Kind: kind, Drop: drop}
}

func (s *Stats) dropped(kind message.Kind) {
	switch kind {
	case message.FastCNP:
		s.FastCNP++
	case message.FCN:
		s.FCN++
	case message.Proxy:
		s.Proxy++
	case message.PPFC:
		s.PPFC++
	case message.CNP:
		s.CNP++
	case message.Broken:
		s.Broken++
	}
}

// Stats returns what has been counted so far.
func (b *Border) Stats() Stats { return b.stats }
