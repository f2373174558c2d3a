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
	return &pairs{Map: qpmap.New(cfg), learn: learn, given: map[rocev2.FlowKey]uint32{}, either: map[rocev2.FlowKey]bool{}}
}

// give takes the i-th pair of a configuration.
func (p *pairs) give(i int, k rocev2.FlowKey, qp uint32) error {
	if other, ok := p.given[k]; ok && other != qp {
		p.either[k] = true
	}
	p.given[k] = qp
	if err := p.Add(k, 0, qpmap.Pair{SrcQP: qp}); err != nil {
		return wrong(index("qps", i), "%v", err)
	}
	return nil
}

// SourceQP returns what is known of the sender of a flow.
func (p *pairs) SourceQP(k rocev2.FlowKey, domain uint32, now time.Time) (qpmap.Pair, error) {
	if p.either[k] {
		return qpmap.Pair{}, qpmap.ErrAmbiguous
	}
	return p.Map.SourceQP(k, domain, now)
}

// observe learns from a packet. It returns the line of what was learned: the
// queue pair of a flow that is the host's own, if there is one among them.
func (p *pairs) observe(packet *rocev2.Packet, now time.Time, own func(rocev2.FlowKey) bool) (l line) {
	if !p.learn {
		return line{}
	}
	p.Observe(packet, 0, now)
	for k, pair := range p.Learned() {
		if l.Action == silent || own(k.FlowKey) {
			l = line{Action: learned, QP: &pair.SrcQP}
		}
	}
	return l
}

// checkQP says whether a queue pair of a configuration has 24 bits.
func checkQP(i int, key string, qp uint32) error {
	if qp >= 1<<24 {
		return wrong(join(index("qps", i), key), "%d has more than 24 bits", qp)
	}
	return nil
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
