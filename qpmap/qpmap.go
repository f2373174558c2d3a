// Package qpmap learns from passing traffic which queue pairs belong together.
//
// A data packet names the receiver's queue pair. A CNP must name the sender's, which
// only datagrams (UD) carry. So a proxy, an ingress PE, and every other node that sends
// CNPs on behalf of a receiver or keeps account of flows, has to learn it. The ways, the
// most trusted first:
//
//   - Given: told by the operator, with [Map.Add].
//   - CM: a REQ and the REP that answers it name both queue pairs (package cm).
//     A DREQ, a REJ or a DREP with the addresses and communication ids of the
//     exchange ends the pair.
//   - Votes: a response from B to A with DestQP a and PSN p is a vote for a as the
//     source queue pair of the flow from A to B that has just used p. Three votes
//     for different PSNs make a pair if no other candidate has more than half as
//     many; see [Config].
//   - UD: the DETH of the flow's last packet, unless it is a stray in a connection that is in use.
//
// # When there is no pair
//
// A wrong pair is worse than none, so contradictory evidence gives none. Votes must win in both
// directions: among all queue pairs that could be the flow's source, and among all flows that could
// have the queue pair as their source. So flows that use the same PSNs at the same time tie, and
// have no pair. UC has no responses and so no votes. If more than four flows have used a PSN, its
// responses are no votes, and if more than four queue pairs could be the source, a pair needs twice
// as many votes as any of them may have. The pairs of both directions of a connection are learned
// together. "Has just used" means within a second, or up to a minute where packets are seconds
// apart. The UDP source port counts only if [Config] selects it.
//
// # Lives
//
// Hosts reuse queue pairs, so a pair holds for one life of its flow: a run of requests with
// consecutive PSNs. It includes any number of retransmissions, and gaps of up to 2,048 packets that
// the capture lost. It also includes responses with the PSN of a recent request, or of one in an
// uninterrupted run of requests. A READ uses millions of PSNs that no request shows: of these,
// responses and retransmissions belong to the life up to 2,048 after the last response. For a
// packet outside the life the sender is not known ([ErrUnknown]); the next packet in the life has
// the pair again.
//
// A new life replaces the old one only when it has been answered and the old one has been silent
// for a second, was ended by CM, or was answered less often than the new one since the new one
// began. Until then both are kept, and the window of PSNs decides to which one a packet belongs. UC
// has no answers: there the new life takes the place of the old one when it has had 16 requests and
// the old one has been silent for a second. So an attacker outside the path can neither displace a
// connection by forged CM messages, data and answers, nor make it unknown: it has to guess PSNs, and
// wrong guesses belong to other lives. If two exchanges announce the same first PSN, neither is
// believed until answers decide.
//
// A life without CM messages that begins among the PSNs of the previous one is recognized only by
// its responses. If two connections between the same hosts use the same PSNs, the capture has lost
// packets of them, and an attacker forges more connections of the same queue pairs, a Map can
// believe the wrong one of the two for a while.
//
// # Time and memory
//
// Time is an argument, and may jump back. Entries that no packet has used for
// Config.Idle are forgotten, the pairs of both directions of a connection together.
// [New] allocates all memory, 43 MB with the defaults and 632 bytes for each further
// pair, or with Config.Grow it is allocated as needed. A full table evicts the pair used
// longest ago, first among those that no data has confirmed; never one that is given,
// or is confirmed and in use. If MaxOpen flows have votes but no pair yet, further flows
// have to wait until these have one; Stats.Unlearned counts their packets.
//
// A Map is not safe for concurrent use: use one for each core.
//
// Experimental: this package may change in a minor release.
package qpmap

import (
	"cmp"
	"iter"
	"time"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/internal/flowtable"
	"github.com/rocecn/rocecn/internal/qplearn"
	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/rocev2"
)

// The errors of [Map.SourceQP] and [Map.Add].
var (
	ErrUnknown   = wireerr.New("qpmap", "source queue pair", "not known")
	ErrAmbiguous = wireerr.New("qpmap", "source queue pair", "more than one is possible")
	// ErrFull: Add has no room for more, so a program that restores saved pairs stops here.
	ErrFull = wireerr.New("qpmap", "table of pairs", "full of pairs that are given or in use")
)

var errQPRange = wireerr.New("qpmap", "queue pair", "over 0xffffff, more than 24 bits", wireerr.Range)

// The types of a Map's configuration, contents and counters.
type (
	// Config has the limits of a Map and the rules of its elections: MaxPairs, MaxPending and MaxOpen entries, Idle,
	// MinVotes and Ratio, Ports, Grow and Seed. Zero fields stand for the defaults.
	Config = qplearn.Config
	// Stats are the counters of a Map: entries now, pairs learned by basis, pairs ended, replaced, expired and evicted,
	// and CM messages not believed.
	Stats = qplearn.Stats
	// A Pair is the sender of a flow, as far as it is known: SrcQP, PKey, MTU, Transport, the Basis From, and the time
	// Seen of the last packet that agreed.
	Pair = qplearn.Pair
	// A Basis is the kind of evidence for a pair. Its text is "cm", "votes", "ud", "given" or "port", and "unknown"
	// for 0.
	Basis = qplearn.Basis
)

// The bases.
const (
	BasisCM    = qplearn.BasisCM    // a REQ and its REP
	BasisVotes = qplearn.BasisVotes // the PSNs of requests and responses
	BasisUD    = qplearn.BasisUD    // a DETH
	BasisGiven = qplearn.BasisGiven // Map.Add
	BasisPort  = qplearn.BasisPort  // votes that tie unless the UDP source port counts: see Config.Ports
)

// A Key names a flow of a domain.
type Key struct {
	rocev2.FlowKey
	Domain uint32 // such as the number of a VPN, which may have addresses of its own
}

func keyOf(k *Key) flowtable.Key { return flowtable.KeyOf(k.Src, k.Dst, k.DestQP, k.Domain) }

func public(k *flowtable.Key) Key { return Key{k.FlowKey(), k.Domain} }

// A Map has the queue pairs that were learned. Make one with [New].
type Map struct {
	qps *qplearn.Map
}

// New returns an empty Map, with all of its memory unless Config.Grow.
func New(cfg Config) *Map { return &Map{qplearn.New(cfg)} }

// Observe learns from a packet of either direction: data, responses and CM messages.
// It ignores all others, packets that are trimmed or lack a header that it reads, and responses
// and CM messages with a wrong ICRC, which their receiver drops. The ICRC of a truncated packet is
// not known, nor that of a p without octets in p.IP. It does not allocate unless Config.Grow, does
// not keep p, and returns the number of pairs learned, which [Map.Learned] yields.
func (m *Map) Observe(p *rocev2.Packet, domain uint32, now time.Time) (learned int) {
	if p.Truncated && lacksEvidence(p) {
		return 0
	}
	var o qplearn.Observation
	o.Set(p, domain)
	return m.qps.Learn(&o, now)
}

// lacksEvidence reports whether a truncated packet is a trimmed one, or lacks the extended headers that a Map reads.
func lacksEvidence(p *rocev2.Packet) bool {
	op := p.BTH.Opcode
	missing := op.Headers() &^ p.BTH.Present
	return p.Trimmed || missing.Has(bth.HasAETH) || missing.Has(bth.HasDETH) ||
		missing != 0 && op.Operation() == bth.OpRDMAReadRequest
}

// Learned yields the pairs that the last [Map.Observe] learned: one of a datagram,
// otherwise those of both directions. The loop must not change the Map.
func (m *Map) Learned() iter.Seq2[Key, Pair] { return m.each(m.qps.Learned()) }

// SourceQP returns the sender of the flow's last packet or, before the first packet of a connection
// that CM announces, the announced sender. It returns [ErrUnknown] or [ErrAmbiguous] when there is
// no pair, and allocates nothing.
//
// The sender of the flow's packets, or of the announcement of a connection before there were
// any, is their sender also if they are forged. A pair that was learned after the flow's
// last packet holds for it only if it explains it, as SourceQPOf does.
func (m *Map) SourceQP(k Key, now time.Time) (Pair, error) {
	key := keyOf(&k)
	m.qps.Now(now)
	p, ambiguous := m.qps.Sender(&key)
	if p == nil {
		return Pair{}, missing(ambiguous)
	}
	return m.qps.Pair(p), nil
}

// SourceQPAmid is [Map.SourceQP] for a flow in which packets of a connection are mixed with forged ones: if its last
// packet belongs to no connection, it returns the sender of the packets before it, as long as these come at most 50 ms
// apart. It does not if that connection may be the forged one: if it has no answers, as all of UC, or if requests
// outside it follow one another. It is for a message that names a flow, but none of its packets.
func (m *Map) SourceQPAmid(k Key, now time.Time) (Pair, error) {
	key := keyOf(&k)
	m.qps.Now(now)
	p, ambiguous := m.qps.SenderAmid(&key)
	if p == nil {
		return Pair{}, missing(ambiguous)
	}
	return m.qps.Pair(p), nil
}

// SourceQPOf is [Map.SourceQP] for the packet with this BTH instead of the flow's last
// one: for a message about an earlier packet, such as the invoking packet of PROXY.
func (m *Map) SourceQPOf(k Key, h *bth.Header, now time.Time) (Pair, error) {
	key := keyOf(&k)
	m.qps.Now(now)
	p, ambiguous := m.qps.SenderOf(&key, h)
	if p == nil {
		return Pair{}, missing(ambiguous)
	}
	return m.qps.Pair(p), nil
}

// Connects returns nil if the receiver of a flow has a connection with a queue pair at its source, and so may send
// there; otherwise [ErrUnknown] or [ErrAmbiguous]. Unlike with SourceQP it does not matter which queue pair sent the
// flow's last packet, which may be forged: a sender accepts a CNP by it.
func (m *Map) Connects(k Key, now time.Time) error {
	key := keyOf(&k)
	m.qps.Now(now)
	if connects, ambiguous := m.qps.Connects(&key); !connects {
		return missing(ambiguous)
	}
	return nil
}

// missing returns why there is no pair.
func missing(ambiguous bool) error {
	if ambiguous {
		return ErrAmbiguous
	}
	return ErrUnknown
}

// Add adds a pair that was not learned here, and replaces the pair of the flow.
//
// With From 0 or [BasisGiven] the operator vouches for the pair: it does not age, only
// [Map.Remove] and another Add end it, and Seen is ignored. With any other From it
// comes from [Map.All] of another Map, such as that of the program before a restart:
// it is as old as Seen says, and ages and ends as learned pairs do. The first request
// after it must be answered before the pair is believed, as the queue pair may have
// been reused meanwhile.
//
// PKey 0 stands for 0xffff, the default partition.
func (m *Map) Add(k Key, p Pair) error {
	if (p.SrcQP|k.DestQP)>>24 != 0 {
		return errQPRange
	}
	p.PKey, p.From = cmp.Or(p.PKey, 0xFFFF), cmp.Or(p.From, BasisGiven)
	key := keyOf(&k)
	if !m.qps.Add(&key, p) {
		return ErrFull
	}
	return nil
}

// Remove forgets the pair of a flow, also a given one, and reports whether there was
// one.
func (m *Map) Remove(k Key) bool {
	key := keyOf(&k)
	return m.qps.Remove(&key)
}

// All yields the pairs that [Map.SourceQP] would return, in no particular order, for
// [Map.Add] of another Map. The loop must not change the Map.
func (m *Map) All() iter.Seq2[Key, Pair] { return m.each(m.qps.All()) }

func (m *Map) each(pairs iter.Seq2[*flowtable.Key, *qplearn.Entry]) iter.Seq2[Key, Pair] {
	return func(yield func(Key, Pair) bool) {
		for k, p := range pairs {
			if !yield(public(k), m.qps.Pair(p)) {
				return
			}
		}
	}
}

// Expire forgets all entries that have been idle for Config.Idle, and returns the number of these
// pairs. Calling it is optional: it only frees space early.
func (m *Map) Expire(now time.Time) int { return m.qps.Expire(now) }

// Stats returns the counters.
func (m *Map) Stats() Stats { return m.qps.Stats() }
