package check

import (
	"time"

	"github.com/rocecn/rocecn/lab"
	"github.com/rocecn/rocecn/lab/sim"
	"github.com/rocecn/rocecn/node/reaction"
)

// Octets of a frame besides its data, and on the wire besides the frame.
const (
	header = 82
	gap    = 20
)

const (
	µs = sim.Microsecond
	ms = sim.Millisecond
)

// quiet is a network without notifications and reactions.
func quiet() lab.Config {
	return lab.Config{
		Seed: 1, Payload: 1024, AckEvery: 1, DataPriority: 3, AckPriority: 6, NotificationPriority: 6,
	}
}

// paper is DCQCN as the paper has it, at 40 Gbit/s, with packets of 1,002 octets
// on the wire.
func paper(v lab.Variant) lab.Config {
	return lab.Config{
		Seed: 1, Variant: v, Payload: 900, RED: lab.RED{Min: 5000, Max: 200_000, Probability: 0.01},
		Interval: 50 * time.Microsecond, AckEvery: 64, DataPriority: 3, AckPriority: 3, NotificationPriority: 6,
		Reaction: reaction.PaperDCQCN,
	}
}

// star connects senders and, as the last host, one receiver to a switch, and
// returns the port to the receiver.
func (t *trial) star(cfg lab.Config, senders int, rate sim.Rate, delay sim.Time) (*lab.Network, *lab.Port) {
	return t.uneven(cfg, senders, rate, delay, delay)
}

// uneven is star with another delay to the receiver.
func (t *trial) uneven(cfg lab.Config, senders int, rate sim.Rate, delay, leg sim.Time) (*lab.Network, *lab.Port) {
	n := t.newNetwork(cfg)
	s := n.Switch()
	for range senders {
		n.Link(n.Host(), s, rate, delay)
	}
	_, out := n.Link(n.Host(), s, rate, leg)
	return n, out
}

// wan is star with a WAN in between: the senders at a PE, and a router. It returns the router's port to the PE of the
// receiver.
func (t *trial) wan(cfg lab.Config, senders int, rate sim.Rate, delay sim.Time) (*lab.Network, *lab.Port) {
	n := t.newNetwork(cfg)
	near, router, far := n.PE(), n.Router(), n.PE()
	for range senders {
		n.Link(n.Host(), near, rate, delay)
	}
	n.Link(near, router, sim.Rate(senders)*rate, delay)
	out, _ := n.Link(router, far, rate, delay)
	n.Link(n.Host(), far, 2*rate, delay)
	return n, out
}

// startIncast starts an endless flow from each sender of a star within a time, and
// the last one not before another time.
func startIncast(n *lab.Network, within, last sim.Time) error {
	hosts := n.Hosts()
	senders := len(hosts) - 1
	starts := n.Stream("starts", 0)
	for i, h := range hosts[:senders] {
		f, err := n.Flow(h, hosts[senders], 0)
		if err != nil {
			return err
		}
		at := sim.Time(starts.Below(uint64(within)))
		if i == senders-1 {
			at += last
		}
		n.RunAt(at, f.Endless)
	}
	return nil
}

// chain connects two hosts by switches, with links of these rates and delays, that of the first host first.
// With the variant FCN, and if PPFCs go to the ingress PE, they are a WAN: a PE, routers, a PE.
func (t *trial) chain(cfg lab.Config, rates []sim.Rate, delays []sim.Time) (n *lab.Network, links []*lab.Port) {
	n = t.newNetwork(cfg)
	from, to := n.Host(), n.Host()
	var at lab.Node = from
	for i, rate := range rates {
		var next lab.Node = to
		switch {
		case i == len(rates)-1:
		case cfg.Variant != lab.FCN && !cfg.Pausing.Ingress:
			next = n.Switch()
		case i == 0 || i == len(rates)-2:
			next = n.PE()
		default:
			next = n.Router()
		}
		p, _ := n.Link(at, next, rate, delays[i])
		links = append(links, p)
		at = next
	}
	return n, links
}
