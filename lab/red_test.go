package lab

import (
	"math"
	"testing"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/lab/sim"
)

// Ports decide about a packet independently: with the probability p at each of h switches, the share of packets
// that arrive marked is 1−(1−p)^h, and Fast CNPs a packet are p·h.
func TestREDOfSeveralPorts(t *testing.T) {
	wiretest.Alone(t)
	const p = 0.1
	for h := 1; h <= 6; h++ {
		for _, v := range []Variant{CNP, FastCNP} {
			n := must(New(Config{
				Seed: 1, Variant: v, AckEvery: 64, DataPriority: 3, AckPriority: 3, NotificationPriority: 6,
				// The middle of a ramp so long that the queue does not matter.
				RED: RED{Min: -1e12, Max: 1e12, Probability: 2 * p},
			}))
			from, to := n.Host(), n.Host()
			at := Node(from)
			for range h {
				s := n.Switch()
				n.Link(at, s, 100*sim.Gbps, sim.Microsecond)
				at = s
			}
			n.Link(at, to, 100*sim.Gbps, sim.Microsecond)
			f, err := n.Flow(from, to, 10*sim.Gbps)
			if err != nil {
				t.Fatal(err)
			}
			f.Endless()
			n.Until(20 * sim.Millisecond)
			c := n.Counts()
			packets := float64(c.Delivered)
			got, share := float64(c.CNPs)/packets, 1-math.Pow(1-p, float64(h))
			off := 5 * math.Sqrt(share*(1-share)/packets)
			if v == FastCNP {
				got, share = float64(c.FastCNPs)/packets, p*float64(h)
				off = 5 * math.Sqrt(p*(1-p)*float64(h)/packets)
			}
			off += 10 / packets // on the way at the end
			if math.Abs(got-share) > off {
				t.Errorf("%v, %d switches: %.4f notifications a packet of %d, should be %.4f ± %.4f", v, h, got,
					c.Delivered, share, off)
			}
		}
	}
}
