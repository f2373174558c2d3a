package sim_test

import (
	"fmt"

	"github.com/rocecn/rocecn/lab/sim"
)

// port prints the packets that it sends.
type port struct{ sim *sim.Sim }

// Handle implements sim.Handler.
func (p port) Handle(packet uint32) { fmt.Println(p.sim.Now(), "packet", packet) }

// Two packets of 1,250 octets leave a port of 100 Gbit/s.
func Example() {
	var s sim.Sim
	id := s.Add(port{&s})
	rate := 100 * sim.Gbps
	s.Schedule(rate.Time(2500), sim.Departure, id, 2)
	s.Schedule(rate.Time(1250), sim.Departure, id, 1)
	s.Until(sim.Microsecond)
	fmt.Println(s.Now(), s.Events(), "events")
	// Output:
	// 0.1µs packet 1
	// 0.2µs packet 2
	// 1µs 2 events
}
