package roles

import (
	"net/netip"
	"time"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/config"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
)

// pairs are the queue pairs known to a host: those of its configuration, and those learned from packets.
type pairs struct {
	*qpmap.Map
	learn  bool
	config qpmap.Config
	given  map[rocev2.FlowKey]uint32
	in     *map[rocev2.FlowKey]uint32 // those in the table that were given, by whichever pairs that share it
	order  []rocev2.FlowKey           // of those that are given
	either map[rocev2.FlowKey]bool    // given twice, with different queue pairs

	self4, self6 netip.Addr // the host's own addresses
	device       *Device    // pairs of the host's RDMA device; nil: they are unknown

	expired time.Time // when idle ones were forgotten last
}

// Expire forgets pairs that are idle, of all of them once a minute.
func (p *pairs) Expire(now time.Time) int {
	if now.Sub(p.expired) < time.Minute {
		return 0
	}
	p.expired = now
	return p.Map.Expire(now)
}

// qpmapConfig returns how a role learns: up to 131,072 connections, with memory as it is needed. With
// ports the UDP source port may decide a tie of votes.
func (c *common) qpmapConfig(ports bool) qpmap.Config {
	return qpmap.Config{MaxPairs: 1 << 18, MaxPending: 1 << 16, Ports: ports, Grow: true, Seed: c.seed}
}

// newPairs returns pairs without configured queue pairs. They keep the queue pairs that old has learned by the same
// method, if it has learned any, and continue to learn.
func newPairs(old *pairs, learn bool, given int, how qpmap.Config) *pairs {
	p := &pairs{
		learn: learn, config: how, given: map[rocev2.FlowKey]uint32{}, in: new(map[rocev2.FlowKey]uint32),
		either: map[rocev2.FlowKey]bool{},
	}
	if old != nil {
		p.device = old.device
	}
	switch {
	case !learn:
		p.Map = qpmap.New(qpmap.Config{MaxPairs: max(given, minPairs), MaxPending: 1, MaxOpen: 1})
	case old != nil && old.learn && old.config == how:
		p.Map, p.in = old.Map, old.in
	default:
		p.Map = qpmap.New(how)
	}
	return p
}

// minPairs is the least size of a table of pairs: both directions of a connection.
const minPairs = 2

// addGiven takes a pair of a configuration.
func (p *pairs) addGiven(k rocev2.FlowKey, qp uint32) {
	if other, ok := p.given[k]; ok && other != qp {
		p.either[k] = true
	}
	p.given[k] = qp
	p.order = append(p.order, k)
}

// applyGiven puts the given pairs into the table, in place of those given before, and calls
// configure. With an error it restores the pairs before.
func (p *pairs) applyGiven(configure func() error) (err error) {
	before := *p.in
	removeReplaced(p.Map, before, p.given)
	for i, k := range p.order {
		if qp, ok := before[k]; ok && qp == p.given[k] {
			continue
		}
		if err = p.Add(qpmap.Key{FlowKey: k}, qpmap.Pair{SrcQP: p.given[k]}); err != nil {
			err = config.Wrong(config.Index("qps", i), "%v", err)
			break
		}
	}
	if err == nil {
		err = configure()
	}
	if err == nil {
		*p.in = p.given
		return nil
	}
	removeReplaced(p.Map, p.given, before)
	for k, qp := range before {
		if now, ok := p.given[k]; !ok || now != qp {
			_ = p.Add(qpmap.Key{FlowKey: k}, qpmap.Pair{SrcQP: qp}) // there was room for it
		}
	}
	return err
}

// removeReplaced removes the pairs that others replace.
func removeReplaced(m *qpmap.Map, those, others map[rocev2.FlowKey]uint32) {
	for k, qp := range those {
		if other, ok := others[k]; !ok || other != qp {
			m.Remove(qpmap.Key{FlowKey: k})
		}
	}
}

// A hostPair is which of its queue pairs a host sends a flow from.
type hostPair struct {
	Dst    netip.Addr `json:"dst"`
	DestQP *uint32    `json:"dest_qp"`
	QP     *uint32    `json:"qp"`
}

// giveHost takes the pairs in the configuration of a host.
func (p *pairs) giveHost(all []hostPair, self4, self6 netip.Addr) error {
	for i, q := range all {
		if !q.Dst.IsValid() {
			return config.Wrong(config.Join(config.Index("qps", i), "dst"), "missing")
		}
		destQP, err := checkQP(i, "dest_qp", q.DestQP)
		if err != nil {
			return err
		}
		qp, err := checkQP(i, "qp", q.QP)
		if err != nil {
			return err
		}
		k := rocev2.FlowKey{Src: self6, Dst: q.Dst, DestQP: destQP}
		if q.Dst.Is4() {
			k.Src = self4
		}
		p.addGiven(k, qp)
	}
	return nil
}

// sizes returns the sizes of the table.
func (p *pairs) sizes() Sizes {
	s := p.Stats()
	n := s.Pairs
	if p.device != nil {
		n += len(p.device.remotes)
	}
	return Sizes{Pairs: n, Unlearned: s.Unlearned + s.Full}
}

// tables returns the fill of the tables.
func (p *pairs) tables() (all []Table) {
	s := p.Stats()
	if p.learn {
		all = []Table{
			{"pairs", s.Pairs, p.config.MaxPairs}, {"pending_pairs", s.Pending, p.config.MaxPending},
			{"flows_without_pair", s.Open, p.config.MaxPairs},
		}
	} else {
		all = []Table{{"pairs", s.Pairs, max(len(p.given), minPairs)}}
	}
	if p.device != nil {
		all = append(all, Table{"device_pairs", p.device.Len(), maxLearned})
	}
	return all
}

// Observe learns from a packet, if the host learns.
func (p *pairs) Observe(packet *rocev2.Packet, domain uint32, now time.Time) int {
	if !p.learn {
		return 0
	}
	return p.Map.Observe(packet, domain, now)
}

// checkQP returns the queue pair of a configuration, which must be there and have
// 24 bits: one that is missing is not number 0.
func checkQP(i int, key string, qp *uint32) (uint32, error) {
	switch at := config.Join(config.Index("qps", i), key); {
	case qp == nil:
		return 0, config.Wrong(at, "missing")
	case *qp >= 1<<24:
		return 0, config.Wrong(at, "%d has more than 24 bits", *qp)
	}
	return *qp, nil
}

// checkFlow reports whether the addresses of a flow are there, and of one family.
func checkFlow(i int, src, dst netip.Addr) error {
	switch {
	case !src.IsValid():
		return config.Wrong(config.Join(config.Index("qps", i), "src"), "missing")
	case !dst.IsValid():
		return config.Wrong(config.Join(config.Index("qps", i), "dst"), "missing")
	case src.Is4() != dst.Is4():
		return config.Wrong(config.Join(config.Index("qps", i), "dst"),
			"%v: want an address of the family of %v", dst, src)
	}
	return nil
}
