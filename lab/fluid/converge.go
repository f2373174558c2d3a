package fluid

import "math"

// In the authors' discrete model of convergence all flows are cut at the same time, when the queue has reached
// KMax. A cut sets the target rate to the new rate; each τ' from then on adds R_AI to both. The byte counter
// and fast recovery are left out.

// roundTime returns the length of a round, from cut to cut, in units of τ'. The flows' rates add up to cut after
// the first one, rise to C, and continue until the queue is at KMax.
func (m *Params) roundTime(cut float64) float64 {
	step := m.Flows * m.Additive
	fill := (math.Sqrt(1+8*m.KMax*8/(step*m.AlphaTimer)) - 1) / 2
	return max(1+(m.Rate+(fill+1)*step-cut)/step, 1)
}

// nextAlpha returns α after a round.
func (m *Params) nextAlpha(alpha, round float64) float64 {
	return math.Pow(1-m.Gain, round-1) * ((1-m.Gain)*alpha + m.Gain)
}

// RestingAlpha returns α* of the discrete model: the α that a round does not change.
func (m *Params) RestingAlpha() float64 {
	alpha, _ := m.restingPoint()
	return alpha
}

// restingPoint returns α* and the length of its round.
func (m *Params) restingPoint() (alpha, round float64) {
	peak := m.roundTime(0) - 2 // C, and the excess over it when the queue is full, in units of N·R_AI
	low, high := 0., 1.
	for range 100 {
		alpha = (low + high) / 2
		round = 2 + peak*alpha/2
		if m.nextAlpha(alpha, round) > alpha {
			low = alpha
		} else {
			high = alpha
		}
	}
	return alpha, round
}

// Bound returns the authors' upper bound of the time, in seconds, until any two flows differ by less than a
// tenth of the fair share. It supposes that α is the same in all flows.
func (m *Params) Bound() float64 {
	alpha, round := m.restingPoint()
	return m.AlphaTimer * round * math.Log(0.1/m.Flows) / math.Log(1-alpha/2)
}

// Joining returns the same time in the discrete model, computed round by round, when one flow joins others with
// α*: it begins at the rate of the port with this α.
func (m *Params) Joining(alpha float64) float64 {
	others := *m
	others.Flows--
	old, _ := others.restingPoint()
	new, low, high, took := alpha, others.Rate/others.Flows, m.Rate, 0.
	for apart := false; !apart || math.Abs(high-low) >= 0.1*(others.Flows*low+high)/m.Flows; {
		low, high = low*(1-old/2), high*(1-new/2)
		round := m.roundTime(others.Flows*low + high)
		rise := (round - 1) * m.Additive
		low, high, old, new = low+rise, high+rise, m.nextAlpha(old, round), m.nextAlpha(new, round)
		took += m.AlphaTimer * round
		apart = took > 2e-3 // not while the new one comes down from the rate of the port
	}
	return took
}
