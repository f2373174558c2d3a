package play

import (
	"net/netip"
	"time"

	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
)

// pairs are the queue pairs that a host knows: those of its configuration, and
// what it learns from the capture.
type pairs struct {
	*qpmap.Map
	learn  bool
	given  map[rocev2.FlowKey]uint32
	either map[rocev2.FlowKey]bool // given twice, with different queue pairs
}

func newPairs(learn bool, given int) *pairs {
	cfg := qpmap.Config{}
	if !learn {
		cfg = qpmap.Config{MaxPairs: max(given, 2), MaxPending: 1, MaxOpen: 1}
	}
	return &pairs{
		Map: qpmap.New(cfg), learn: learn, given: map[rocev2.FlowKey]uint32{}, either: map[rocev2.FlowKey]bool{},
	}
}

// give takes the i-th pair of a configuration.
func (p *pairs) give(i int, k rocev2.FlowKey, qp uint32) error {
	if other, ok := p.given[k]; ok && other != qp {
		p.either[k] = true
	}
	p.given[k] = qp
	if err := p.Add(qpmap.Key{FlowKey: k}, qpmap.Pair{SrcQP: qp}); err != nil {
		return wrong(index("qps", i), "%v", err)
	}
	return nil
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
			return wrong(join(index("qps", i), "dst"), "missing")
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
		if err := p.give(i, k, qp); err != nil {
			return err
		}
	}
	return nil
}

// SourceQP returns what is known of the sender of a flow.
func (p *pairs) SourceQP(k qpmap.Key, now time.Time) (qpmap.Pair, error) {
	if p.either[k.FlowKey] {
		return qpmap.Pair{}, qpmap.ErrAmbiguous
	}
	return p.Map.SourceQP(k, now)
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
	switch at := join(index("qps", i), key); {
	case qp == nil:
		return 0, wrong(at, "missing")
	case *qp >= 1<<24:
		return 0, wrong(at, "%d has more than 24 bits", *qp)
	}
	return *qp, nil
}

// checkFlow says whether the addresses of a flow are there, and of one family.
func checkFlow(i int, src, dst netip.Addr) error {
	switch {
	case !src.IsValid():
		return wrong(join(index("qps", i), "src"), "missing")
	case !dst.IsValid():
		return wrong(join(index("qps", i), "dst"), "missing")
	case src.Is4() != dst.Is4():
		return wrong(join(index("qps", i), "dst"), "%v is not of the family of %v", dst, src)
	}
	return nil
}
