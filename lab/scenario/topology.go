package scenario

import (
	"github.com/rocecn/rocecn/lab"
	"github.com/rocecn/rocecn/lab/sim"
)

// builder builds a network.
type builder struct {
	*Topology
	net         *lab.Network
	rate, trunk sim.Rate
	wan         sim.Rate
	delay       sim.Time
}

// buildNetwork builds the network.
func (t *Topology) buildNetwork(cfg lab.Config) (*lab.Network, error) {
	n, err := lab.New(cfg)
	if err != nil {
		return nil, err
	}
	b := &builder{Topology: t, net: n, rate: sim.Rate(t.Rate), trunk: sim.Rate(t.Trunk),
		wan: sim.Rate(t.WAN), delay: t.Delay.sim()}
	if b.trunk == 0 {
		b.trunk = b.rate
	}
	if b.wan == 0 {
		b.wan = b.trunk
	}
	switch t.Kind {
	case "star":
		b.addHosts(b.net.Switch(), t.Hosts)
	case "line":
		b.buildLine()
	case "circle":
		b.buildCircle()
	case "leaf-spine":
		b.leafSpine()
	case "fat-tree":
		b.fatTree()
	case "wan":
		b.connectAcross(b.net.Switch(), b.net.Switch())
	case "two-dc":
		b.twoDC()
	case "fork":
		b.buildFork()
	}
	return b.net, nil
}

// addHosts connects hosts to a switch, and their proxy if it is a switch of its own.
func (b *builder) addHosts(s *lab.Switch, n int) {
	for range n {
		b.net.Link(b.net.Host(), s, b.rate, b.delay)
	}
	proxy := s
	for range b.Proxy {
		next := b.net.Switch()
		b.net.Link(proxy, next, b.trunk, b.delay)
		proxy = next
	}
	b.net.ProxyAt(s, proxy)
}

func (b *builder) buildLine() {
	at := b.net.Switch()
	b.addHosts(at, b.Hosts)
	for i := 1; i < b.Switches; i++ {
		next, rate := b.net.Switch(), b.trunk
		if i == b.SlowHop {
			rate = sim.Rate(b.SlowRate)
		}
		b.net.Link(at, next, rate, b.delay)
		at = next
		if i < b.Switches-1 && b.Between > 0 {
			b.addHosts(at, b.Between)
		}
	}
	b.addHosts(at, b.Hosts)
}

func (b *builder) buildCircle() {
	var all []*lab.Switch
	for range b.Switches {
		s := b.net.Switch()
		b.addHosts(s, b.Hosts)
		all = append(all, s)
	}
	for i, s := range all {
		b.net.Link(s, all[(i+1)%len(all)], b.trunk, b.delay)
	}
}

// leafSpine builds leaves with hosts, and spines, and returns the spines.
func (b *builder) leafSpine() (spines []*lab.Switch) {
	var leaves []*lab.Switch
	for range b.Leaves {
		leaf := b.net.Switch()
		b.addHosts(leaf, b.Hosts)
		leaves = append(leaves, leaf)
	}
	for range b.Spines {
		spine := b.net.Switch()
		for _, leaf := range leaves {
			b.net.Link(leaf, spine, b.trunk, b.delay)
		}
		spines = append(spines, spine)
	}
	return spines
}

// fatTree builds the fat tree of Al-Fares, Loukissas and Vahdat (SIGCOMM 2008):
// the i-th aggregation switch of each pod is connected to the i-th K/2 core
// switches.
func (b *builder) fatTree() {
	half := b.K / 2
	var core []*lab.Switch
	for range half * half {
		core = append(core, b.net.Switch())
	}
	for range b.K {
		var edges []*lab.Switch
		for range half {
			edge := b.net.Switch()
			b.addHosts(edge, half)
			edges = append(edges, edge)
		}
		for i := range half {
			aggregation := b.net.Switch()
			for _, edge := range edges {
				b.net.Link(edge, aggregation, b.trunk, b.delay)
			}
			for _, c := range core[i*half : (i+1)*half] {
				b.net.Link(aggregation, c, b.trunk, b.delay)
			}
		}
	}
}

// connectAcross connects two leaves with hosts by a WAN.
func (b *builder) connectAcross(near, far *lab.Switch) {
	b.addHosts(near, b.Hosts)
	b.addHosts(far, b.Hosts)
	b.overWAN([]*lab.Switch{near}, []*lab.Switch{far})
}

func (b *builder) twoDC() {
	near := b.leafSpine()
	far := b.leafSpine()
	b.overWAN(near, far)
}

// buildFork builds three sites: from the first one to both others everything goes over one link between two routers, at
// SlowRate if that is set.
func (b *builder) buildFork() {
	p, q := b.net.Router(), b.net.Router()
	b.net.Link(p, q, b.slowRate(), b.delay)
	for _, site := range []struct {
		at    *lab.Switch
		delay sim.Time
	}{{p, b.delay}, {q, b.Distance.sim()}, {q, b.delay}} {
		leaf, pe := b.net.Switch(), b.net.PE()
		b.addHosts(leaf, b.Hosts)
		b.net.Link(leaf, pe, b.trunk, b.delay)
		b.net.Link(pe, site.at, b.wan, site.delay)
	}
}

// slowRate returns SlowRate, if that is set, or else the rate of the WAN.
func (b *builder) slowRate() sim.Rate {
	if b.SlowRate > 0 {
		return sim.Rate(b.SlowRate)
	}
	return b.wan
}

// overWAN connects switches by PE, P, PE. SlowRate, if set, is the rate of the link after P.
func (b *builder) overWAN(near, far []*lab.Switch) {
	ingress, p, egress := b.net.PE(), b.net.Router(), b.net.PE()
	distance := b.Distance.sim()
	before := sim.Time(b.Position * float64(distance))
	for _, s := range near {
		b.net.Link(s, ingress, b.trunk, b.delay)
	}
	b.net.Link(ingress, p, b.wan, before)
	b.net.Link(p, egress, b.slowRate(), distance-before)
	for _, s := range far {
		b.net.Link(egress, s, b.trunk, b.delay)
	}
}
