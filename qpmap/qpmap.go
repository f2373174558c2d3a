// Package qpmap learns from passing traffic which queue pairs belong together.
//
// A data packet names the receiver's queue pair, but a CNP must name the sender's, which only datagrams (UD) carry. So
// each node that sends CNPs on behalf of a receiver, such as a proxy or an ingress PE, and each program that keeps
// statistics of flows has to learn it. A [Map] uses this evidence, the most trusted first:
//
//   - Given: a pair that the operator adds with [Map.Add].
//   - CM: a REQ and the REP that answers it name both queue pairs (package cm). A DREQ, a REJ or a DREP with the
//     addresses and communication ids of the exchange ends the pair.
//   - Votes: a response from B to A with DestQP a and PSN p is a vote that a is the source queue pair of the flow from
//     A to B that used p within the last second, or up to a minute if packets are seconds apart. Three votes for
//     different PSNs make a pair if no other candidate has more than half as many; see [Config].
//   - UD: the DETH of the flow's last packet. It is ignored if the receiver's queue pair has a connection with the
//     same host that was active within the last second.
//
// The pairs of both directions of a connection are learned together.
//
// # When there is no pair
//
// A wrong pair is worse than none, so contradictory evidence gives none:
//
//   - Votes must win in both directions: among all queue pairs that could be the flow's source, and among all flows
//     that could have the queue pair as their source. So flows that use the same PSNs at the same time tie, and have
//     no pair.
//   - If more than four flows have used a PSN, the responses with this PSN are no votes.
//   - If more than four queue pairs could be the source, a pair needs twice as many votes as any of them may have had.
//   - UC has no responses, and so no votes.
//   - The UDP source port decides a tie only with Config.Ports.
//   - Datagrams of two source queue pairs within Config.Idle are ambiguous.
//
// # Lifetimes
//
// Hosts reuse queue pairs, so a pair holds for one lifetime of its flow: a run of requests with consecutive PSNs. These
// packets belong to a lifetime:
//
//   - requests in order, any number of retransmissions, and requests after up to 2,048 packets that were not captured
//   - responses with the PSN of a recent request, or of one in an uninterrupted run of requests
//   - within the PSNs of a READ, which may be millions, responses and retransmissions up to 2,048 after the last
//     response
//
// For any other packet the sender is not known ([ErrUnknown]); the next packet in the lifetime has the pair again.
//
// A new lifetime replaces the old one only when it has been answered, and one of these holds for the old one:
//
//   - it has been silent for a second
//   - CM ended it
//   - it has had fewer answers, in total, than the new one has had since the last of these
//
// Until then both are kept, and the PSN of a packet decides to which one it belongs. UC has no answers: there the new
// lifetime takes the place of the old one when it has had 16 requests and the old one has been silent for a second.
//
// So an attacker off the path can neither displace a connection by forged CM messages, data and answers, nor make it
// unknown: it has to guess PSNs, and packets with wrong guesses belong to other lifetimes. If two exchanges announce
// the same first PSN, neither is believed until answers decide.
//
// There are two limits. A lifetime without CM messages that begins among the PSNs of the previous one is recognized
// only by its responses. And if two connections between the same hosts use the same PSNs, packets of them were not
// captured, and an attacker forges more connections of the same queue pairs, a Map can believe the wrong one of the two
// for a while.
//
// # Time and memory
//
// Time is an argument, and may jump back. Entries that no packet has used for Config.Idle are forgotten, the pairs of
// both directions of a connection together. [New] allocates all memory, 43 MB with the defaults and 632 bytes for each
// further pair; with Config.Grow memory is allocated as needed.
//
// A full table evicts the first of these pairs:
//
//   - a pair of a domain that has more pairs than the domain of the new one
//   - a pair between prefixes (/64, or /24 of IPv4) that both have more than a quarter of the domain's pairs, unless
//     those of the new one have, too. If data has confirmed it, data must also have confirmed the new one
//   - the pair that was used longest ago of those that no data has confirmed, except for pairs that were announced
//     while the table was less than half full
//   - the pair that was used longest ago, if it is idle or, for a pair that data has confirmed, silent for a second
//
// It never evicts a pair that is given. So a flood of forged connections harms only its own domain, or only its own
// prefixes. The tables of CM exchanges and of flows without a pair have the same shares.
//
// If Config.MaxOpen flows of the same share have votes but no pair yet, another flow is learned only when one of them
// gets its pair or is idle, or instead of a random one, once in about 256 packets. Stats.Unlearned counts the packets
// without room and these evictions.
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
	// ErrFull: the table has no room for another pair. A program that restores saved pairs can stop there.
	ErrFull = wireerr.New("qpmap", "table of pairs", "full of pairs that are given or in use")
)

var errQPRange = wireerr.New("qpmap", "queue pair", "over 0xffffff, more than 24 bits", wireerr.Range)

// The types of a Map's configuration, contents and counters.
type (
	// Config has the limits of a Map and its rules for votes. Zero fields stand for the defaults:
	//
	//	MaxPairs    pairs, one for each direction of a connection: 65,536
	//	MaxPending  CM exchanges: 4,096
	//	MaxOpen     flows without a pair: MaxPairs
	//	Idle        time without a packet after which an entry is forgotten: 10 minutes
	//	MinVotes    votes that a pair needs: 3
	//	Ratio       votes of a pair for each vote of the next candidate: 2
	//	Ports       whether the UDP source port decides votes that tie: false. Many hosts use one port in both
	//	            directions of a connection, but not all, so such a pair is no proof
	//	Grow        whether memory is allocated as needed instead of in New: false
	//	Seed        seed of the hash table of requests; by default a random one, which attackers cannot guess. With
	//	            the same seed the same packets give the same pairs
	Config = qplearn.Config
	// Stats are the counters of a Map. A packet counts once in Full and Unlearned together:
	//
	//	Pairs, Pending, Open  current entries: pairs, CM exchanges, flows without a pair
	//	CM, Votes, UD, Ports  pairs learned, by basis
	//	Ended                 pairs ended by CM
	//	NewLifetimes          confirmed pairs replaced by a new connection of their queue pairs
	//	Expired, Evicted      pairs forgotten after Config.Idle, and evicted from a full table
	//	Full                  packets for which the table of pairs had no room
	//	Unlearned             packets for which MaxOpen left no room, or that evicted a flow with votes
	//	Unmatched             CM messages that belong to no known exchange or pair
	//	Conflicts             CM messages not believed, because they contradict an earlier one, or data
	Stats = qplearn.Stats
	// A Pair is the sender of a flow, as far as it is known:
	//
	//	SrcQP      the sender's queue pair, 24 bits
	//	PKey       the P_Key of the REQ or of the flow's last packet
	//	MTU        path MTU in octets, or 0 if it is not known
	//	Transport  transport of the connection or datagrams
	//	From       basis of the pair
	//	Seen       time of the last packet that agreed with the pair
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
// and CM messages with a wrong ICRC, which their receiver drops. Packets with an ICRC that cannot
// be verified count as right: truncated ones, and those without octets in p.IP. Observe does not
// allocate unless Config.Grow, does not keep p, and returns the number of pairs learned, which
// [Map.Learned] yields.
func (m *Map) Observe(p *rocev2.Packet, domain uint32, now time.Time) (learned int) {
	var o qplearn.Observation
	if !o.Set(p, domain) {
		return 0
	}
	return m.qps.Learn(&o, now)
}

// Learned yields the pairs that the last [Map.Observe] learned: one of a datagram,
// otherwise those of both directions. The loop must not change the Map.
func (m *Map) Learned() iter.Seq2[Key, Pair] { return m.each(m.qps.Learned()) }

// SourceQP returns the sender of the flow's last packet or, before the first packet of a connection
// that CM announces, the announced sender. It returns [ErrUnknown] or [ErrAmbiguous] when there is
// no pair, and allocates nothing.
//
// If that packet, or the announcement before the first packet, is forged, the result is about
// the forged one. A pair that was learned after the flow's last packet is returned only if this
// packet may belong to its connection, see [Map.SourceQPOf].
func (m *Map) SourceQP(k Key, now time.Time) (Pair, error) {
	key := keyOf(&k)
	m.qps.Now(now)
	p, ambiguous := m.qps.Sender(&key)
	if p == nil {
		return Pair{}, missing(ambiguous)
	}
	return m.qps.Pair(p), nil
}

// SourceQPAmid is [Map.SourceQP] for a flow in which packets of a connection are mixed with forged ones. If the last
// packet belongs to no connection, but packets of a connection and others have alternated within the last 50 ms, it
// returns the sender of that connection. It returns an error if the connection may be the forged one: if it has no
// answers, as all of UC, or if requests of the flow outside it have successive PSNs. Use it for a message that names a
// flow, but none of its packets, such as an FCN.
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

// Connects returns nil if the destination queue pair of a flow has a connection with a queue pair of the flow's source,
// otherwise [ErrUnknown] or [ErrAmbiguous]. Unlike SourceQP it does not depend on the flow's last packet, which may be
// forged. A sender uses it to decide whether to accept a CNP of the receiver.
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
// its age counts from Seen, and it ages and ends as learned pairs do. The first request
// after Add must be answered before the pair is believed, as the queue pair may have
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
