package fluid

import "math"

// A Class is a set of flows that start together and stay equal.
type Class struct {
	Flows float64
	Start float64 // seconds; they send nothing before
}

// A Moment is the state of the model at a time.
type Moment struct {
	Time  float64   // seconds
	Queue float64   // octets
	Use   float64   // of the port, from 0 to 1
	Rates []float64 // bits a second, of one flow of each class
}

// Run integrates the model with Euler's method, from flows that start at the rate of the port with α = 1, and
// calls see after each step. The loop delay, step and end are in seconds; a delay shorter than a step is one
// step.
//
// Above KMax every packet is marked, as with RED and in the authors' own program. With extended the ramp
// continues above KMax with its slope, as the fixed point and the margins of many flows suppose.
func (m *Params) Run(classes []Class, extended bool, delay, step, end float64, see func(Moment)) {
	flows := make([]state, len(classes))
	port := m.packets(m.Rate)
	for i := range flows {
		flows[i] = state{alpha: 1, target: port, rate: port}
	}
	late := max(int(math.Round(delay/step)), 1)
	type past struct {
		queue float64
		rates []float64
	}
	ring := make([]past, late) // the states of the last loop delay
	for i := range ring {
		ring[i].rates = make([]float64, len(classes))
	}
	queue := 0. // packets
	moment := Moment{Rates: make([]float64, len(classes))}
	for n := range int(end / step) {
		t := float64(n) * step
		was := &ring[n%late]
		p := m.markProbability(was.queue, extended)
		sum := 0.
		for i := range flows {
			x := &flows[i]
			if t < classes[i].Start {
				continue
			}
			sum += classes[i].Flows * x.rate
			r := was.rates[i]
			was.rates[i] = x.rate
			if r == 0 {
				continue // no feedback yet
			}
			d := m.flowAt(*x, r, p)
			x.alpha += d.alpha * step
			x.target = min(x.target+d.target*step, port)
			x.rate = min(max(x.rate+d.rate*step, m.packets(1e6)), port)
		}
		was.queue = queue
		out := port
		if queue <= 0 {
			out = min(sum, port)
		}
		queue = max(queue+(sum-out)*step, 0)
		moment.Time, moment.Queue, moment.Use = t, queue*m.Packet, out/port
		for i := range flows {
			moment.Rates[i] = 0
			if t >= classes[i].Start {
				moment.Rates[i] = flows[i].rate * 8 * m.Packet
			}
		}
		see(moment)
	}
}

// markProbability returns the probability of a mark with a queue of this many packets.
func (m *Params) markProbability(queue float64, extended bool) float64 {
	switch octets := queue * m.Packet; {
	case octets <= m.KMin:
		return 0
	case octets > m.KMax && !extended:
		return 1
	default:
		return min((octets-m.KMin)/(m.KMax-m.KMin)*m.PMax, 1)
	}
}

// flowAt is flow for every probability: at 0 and 1 it uses the limits of the terms.
func (m *Params) flowAt(x state, r, p float64) state {
	const least = 1e-12
	return m.flowDerivative(x, r, min(max(p, least), 1-least))
}
