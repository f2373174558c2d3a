// Package ingress is the ingress PE of FCN section 4.1: it gives every RoCEv2
// flow that enters the WAN a flow label of its own, sends its packets on in an
// IPv6 tunnel under that label, and turns the FCN in which a congested node of
// the WAN names a label into the CNP that the flow's sender understands.
//
//	sender ──> PE ──────────> P (congested) ──────────> egress PE ──> receiver
//	             label L1, ECN copied      │
//	sender <── PE <────────────────────────┘
//	     CNP        FCN: label L1
//
// A [PE] is told of every packet: what enters the WAN goes through Forward (or
// Label, where hardware encapsulates), what leaves it through Observe. Both teach
// it queue pairs, since a CNP needs the one of the sender, which data packets do
// not name. FCN come in through Receive, congestion of the PE itself through
// Congested. A CNP is sent on knowledge only: where the queue pair is not known,
// or could be one of several, there is none.
//
// The zero Config is off. Nothing here reads a clock, starts a goroutine or does
// I/O, and after New nothing is allocated. A PE is not safe for concurrent use:
// one instance a core, which share out the labels (see Config.Instances).
package ingress

import (
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	mathrand "math/rand/v2"
	"net/netip"
	"time"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/encap"
	"github.com/rocecn/rocecn/internal/flowtable"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/acl"
	"github.com/rocecn/rocecn/node/limit"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
)

// Config is what a deployment chooses. The zero value is off.
type Config struct {
	Enabled bool

	// Self is the PE's address in the WAN: the outer source of its tunnels, which
	// FCN are sent to.
	Self netip.Addr
	// CNP4 and CNP6 are the PE's addresses towards senders, the sources of its
	// CNPs. To senders of a family without one nothing is sent: node.NoMethod.
	CNP4, CNP6 netip.Addr
	// Accept has the nodes of the WAN whose FCN count. Nil: none.
	Accept *acl.List
	// QPs are the queue pairs learned. Nil: none, and no CNP is ever sent.
	QPs *qpmap.Map

	// MaxFlows is how many flows the table holds: 64 octets each and 11 to 22 for
	// the index. 0 stands for 65,536, or the labels of the instance if they are fewer.
	// No more than these fit.
	MaxFlows int
	// Idle is how long a flow is silent before it leaves the table: 0 stands for
	// a minute. A flow that comes back after that has a new label.
	Idle time.Duration
	// Quarantine is how long the label of a flow that left is no other flow's, so
	// that an FCN on its way does not hit the wrong one: 0 stands for 5 seconds.
	Quarantine time.Duration

	// In is the rate of FCN of all nodes, and InPerSource that of each of them, so
	// that one cannot use up what the others need. Every FCN of a node on the list
	// takes from both before anything in it is looked at; what one of them refuses
	// takes nothing from the other.
	In, InPerSource limit.Rate
	// MaxSources is for how many nodes InPerSource is kept at once, 24 octets each: 0
	// stands for 4,096.
	MaxSources int
	// PerFlow is the least time between two CNPs about a flow, 0 for no limit;
	// Total limits the CNPs about all of them. Both are looked at last, and only what
	// is sent takes from them.
	PerFlow time.Duration
	Total   limit.Rate

	Carriage rocev2.Carriage // of the CNPs

	// Seed makes labels repeatable. The zero Seed stands for a random one.
	Seed [32]byte

	// Instance is the number of this instance, from 0, of as many as Instances
	// says; 0 stands for one. Each has a share of the labels (12 octets a label),
	// so that an FCN finds its instance by the label alone: see Owner. Packets are
	// to be spread by their pair of addresses, both directions alike, so that
	// each instance sees what its queue pairs are learned from.
	Instance, Instances int
}

// maxFlows is how many flows the table holds where Config does not say.
const maxFlows = 1 << 16

// complete sets the defaults and says what is wrong with the rest.
func (c *Config) complete() error {
	if c.Instances == 0 {
		c.Instances = 1
	}
	if c.Instances < 1 || c.Instances > MaxLabel || c.Instance < 0 || c.Instance >= c.Instances {
		return fmt.Errorf("ingress: Instance %d of %d Instances", c.Instance, c.Instances)
	}
	labels := share(c.Instance, c.Instances)
	if c.Instance == 0 {
		labels--
	}
	if c.MaxFlows == 0 {
		c.MaxFlows = min(maxFlows, labels)
	}
	if c.MaxFlows < 1 || c.MaxFlows > labels {
		return fmt.Errorf("ingress: MaxFlows %d: 1 to %d, the number of labels, allowed", c.MaxFlows, labels)
	}
	if c.Idle == 0 {
		c.Idle = time.Minute
	}
	if c.Quarantine == 0 {
		c.Quarantine = 5 * time.Second
	}
	if c.MaxSources == 0 {
		c.MaxSources = 1 << 12
	}
	if c.MaxSources < 0 {
		return fmt.Errorf("ingress: MaxSources %d is negative", c.MaxSources)
	}
	if c.Idle < 0 || c.Quarantine < 0 || c.PerFlow < 0 {
		return errors.New("ingress: Idle, Quarantine or PerFlow is negative")
	}
	for _, a := range []struct {
		name    string
		addr    netip.Addr
		four    bool
		missing bool // may be
	}{{"Self", c.Self, false, false}, {"CNP4", c.CNP4, true, true}, {"CNP6", c.CNP6, false, true}} {
		if a.missing && !a.addr.IsValid() {
			continue
		}
		if a.addr.Is4() != a.four || rocev2.Answerable(a.addr) != nil {
			return fmt.Errorf("ingress: %s %v is no unicast address of its family that others can reach", a.name, a.addr)
		}
	}
	if err := c.Carriage.Apply(new(rocev2.Datagram)); err != nil {
		return err
	}
	if c.Seed == ([32]byte{}) {
		rand.Read(c.Seed[:]) // never fails
	}
	return nil
}

// A PE is an ingress PE.
type PE struct {
	cfg    Config
	hash   uint64 // the seed of hashes
	clock  clock
	table  table
	labels labels
	in     *limit.Bucket
	from   *limit.Buckets // by source
	flows  *limit.Every
	total  *limit.Bucket
	stats  Stats
	packet rocev2.Packet // of Forward
}

// Stats counts what a PE did.
type Stats struct {
	Flows         int                  // in the table now
	Opened        uint64               // flows that got a label
	Labelled      uint64               // packets that went with a label
	NotECNCapable uint64               // of these, how many are not ECN-capable: no node on the way says anything about them
	Unlabelled    uint64               // packets that went with label 0, whatever they are
	Sent          uint64               // CNPs
	Refused       [node.Reasons]uint64 // by reason: FCN and congestion without a CNP, packets without a label
}

// New returns a PE. A Config that is off needs no more than that. Otherwise all
// memory that the PE will ever use is allocated here; the error names what is
// wrong with the Config.
func New(cfg Config) (*PE, error) {
	if !cfg.Enabled {
		return &PE{}, nil
	}
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	random := mathrand.NewChaCha8(cfg.Seed)
	pe := &PE{
		cfg:    cfg,
		hash:   random.Uint64(),
		clock:  clock{slack: int64(max(cfg.Idle, time.Second))},
		table:  flowtable.New[flowtable.Key, entry](cfg.MaxFlows, false, (*flowtable.Key).Hash),
		labels: newLabels(cfg.Instance, cfg.Instances, int64(cfg.Quarantine), random),
		in:     limit.NewBucket(cfg.In),
		from:   limit.NewBuckets(cfg.InPerSource, cfg.MaxSources),
		total:  limit.NewBucket(cfg.Total),
	}
	if cfg.PerFlow > 0 {
		pe.flows = limit.NewEvery(cfg.MaxFlows)
	}
	return pe, nil
}

// Stats returns the counters.
func (pe *PE) Stats() Stats {
	s := pe.stats
	s.Flows = pe.table.Len()
	return s
}

// A Forwarded says how Forward sent a packet on.
type Forwarded struct {
	Label  uint32 // of the outer header
	RoCEv2 bool   // other traffic has label 0 and leaves no trace
	// Reason is why a RoCEv2 packet has label 0: node.TableFull, node.Broken for
	// one that does not parse, node.Tunnelled for one inside another IP header,
	// whose source may be out of reach (D17). Otherwise it is node.Accepted.
	Reason node.Reason
}

// Forward appends to out the outer packet in which packet, an IPv4 or IPv6
// packet that came without a tunnel, goes through the WAN: with the label of its
// flow, and the packet unchanged inside. It also learns from it. domain is the
// VPN that the packet came from, 0 without.
//
// The error is node.Disabled.Err(), or that of the tunnel.
func (pe *PE) Forward(out, packet []byte, domain uint32, via encap.Tunnel, now time.Time) ([]byte, Forwarded, error) {
	if !pe.cfg.Enabled {
		return out, Forwarded{}, pe.refuse(node.Disabled).Err()
	}
	var f Forwarded
	switch err := pe.packet.DecodeIP(packet); {
	case err == nil:
		f.RoCEv2 = true
		f.Label, f.Reason = pe.Label(&pe.packet, domain, now)
	case !errors.Is(err, rocev2.ErrNotRoCEv2):
		f.RoCEv2, f.Reason = true, node.Broken
		pe.refuse(node.Broken)
	}
	if f.Label == 0 {
		pe.stats.Unlabelled++
	}
	out, err := via.Append(out, packet, f.Label)
	return out, f, err
}

// Label returns the label of the flow that a packet into the WAN belongs to, for
// PEs whose hardware encapsulates, and learns from the packet. The flow gets one
// now if it has none. Label 0 comes with the reason: node.TableFull where there is
// no room for another flow, or no label: only flows that have been silent for
// Idle leave the table. Or it is node.Disabled, or node.Tunnelled.
func (pe *PE) Label(p *rocev2.Packet, domain uint32, now time.Time) (uint32, node.Reason) {
	if !pe.cfg.Enabled {
		return 0, pe.refuse(node.Disabled)
	}
	if len(p.Outer) > 0 {
		return 0, pe.refuse(node.Tunnelled)
	}
	pe.Observe(p, domain, now)
	t := pe.clock.at(now)
	pe.release(t)
	flow := p.FlowKey()
	k := keyOf(&flow, domain)
	hash := k.Hash(pe.table.Seed)
	e, i := pe.table.Find(&k, hash)
	if e != nil {
		pe.table.Renew(i, 0)
	} else {
		if i = pe.table.Add(&k, hash, 0); i == 0 {
			return 0, pe.refuse(node.TableFull)
		}
		label, ok := pe.labels.take(i, t)
		if !ok {
			pe.table.Remove(i)
			return 0, pe.refuse(node.TableFull)
		}
		e = pe.table.At(i)
		e.label = label
		pe.stats.Opened++
	}
	e.seen, e.pKey = t, p.BTH.PKey
	e.data = e.data || answerable(p) == node.Accepted
	pe.stats.Labelled++
	if p.ECN() == rocev2.NotECT {
		pe.stats.NotECNCapable++
	}
	return e.label, node.Accepted
}

// Observe learns from a packet that came out of the WAN, the other direction of
// the flows: connection management, acknowledgements and responses. It says
// whether it looked at it.
func (pe *PE) Observe(p *rocev2.Packet, domain uint32, now time.Time) bool {
	if !pe.cfg.Enabled || pe.cfg.QPs == nil {
		return false
	}
	pe.cfg.QPs.Observe(p, domain, now)
	return true
}

// Expire releases the flows that have been silent for Idle, and returns how many
// that were. Label and Receive do so as well; Expire is for times without traffic,
// so that what they have to do then is not much.
func (pe *PE) Expire(now time.Time) int {
	if !pe.cfg.Enabled {
		return 0
	}
	return pe.release(pe.clock.at(now))
}

// A Flow is one of the table.
type Flow struct {
	rocev2.FlowKey
	Domain uint32
	Label  uint32
	SrcQP  uint32 // the sender's queue pair, if Known
	Known  bool
	PKey   uint16 // of the last packet
}

// Flows iterates over the flows of the table, the one that was not seen for the
// longest time first. Each is a copy, which stays as it is. The PE must not be used
// meanwhile.
func (pe *PE) Flows(now time.Time) iter.Seq[Flow] {
	return func(yield func(Flow) bool) {
		if !pe.cfg.Enabled {
			return
		}
		for i := pe.table.Oldest(0); i != 0; i = pe.table.Newer(i) {
			k, e := pe.table.Key(i), pe.table.At(i)
			f := Flow{FlowKey: flowKey(k), Domain: k.Domain, Label: e.label, PKey: e.pKey}
			pair, reason := pe.senderQP(f.FlowKey, f.Domain, now)
			f.SrcQP, f.Known = pair.SrcQP, reason == node.Accepted
			if !yield(f) {
				return
			}
		}
	}
}

// release releases the flows that have been silent for Idle, and returns how many
// that were. Their labels have been in quarantine since then.
func (pe *PE) release(now int64) (n int) {
	for i := pe.table.Oldest(0); i != 0; i = pe.table.Oldest(0) {
		e := pe.table.At(i)
		if now-e.seen < int64(pe.cfg.Idle) {
			break
		}
		pe.labels.release(e.label, e.seen+int64(pe.cfg.Idle))
		pe.table.Remove(i)
		n++
	}
	return n
}

// refuse counts a reason and returns it.
func (pe *PE) refuse(r node.Reason) node.Reason {
	pe.stats.Refused[r]++
	return r
}

// answerable says what keeps a packet from being answered: nothing answers
// acknowledgements and notifications.
func answerable(p *rocev2.Packet) node.Reason {
	op := p.BTH.Opcode
	switch {
	case op == bth.CNP:
		return node.Notification
	case op.Acknowledges():
		return node.Acknowledgement
	}
	return node.Accepted
}
