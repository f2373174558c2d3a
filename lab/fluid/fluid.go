// Package fluid computes the fluid model of DCQCN of its authors (Zhu, Ghobadi,
// Misra, Padhye: "ECN or Delay: Lessons Learnt from Analysis of DCQCN and
// TIMELY", CoNEXT 2016), with which the laboratory is compared: [Params.Fixed]
// returns the fixed point of N equal flows through one port, [Params.Margin]
// its stability, and [Params.Run] integrates the model over time.
//
// The model describes a receiver that checks every 50 µs whether a packet was
// marked. A receiver that sends a CNP for the first marked packet, as in the
// paper, gives higher values.
package fluid

import (
	"math"
	"math/cmplx"
)

// Params are the parameters of the model, in bits a second, octets and seconds.
type Params struct {
	Rate   float64 // C, of the port
	Flows  float64 // N
	Packet float64 // the unit of marks and counters, octets on the wire

	KMin, KMax, PMax float64 // the marking; KMin and KMax in octets

	CNPInterval float64 // τ
	AlphaTimer  float64 // τ'
	Gain        float64 // g
	Timer       float64 // T
	ByteCounter float64 // B
	Stages      float64 // F
	Additive    float64 // R_AI
}

// Paper returns the parameters of the paper for N flows at 40 Gbit/s.
func Paper(flows int) Params {
	return Params{
		Rate: 40e9, Flows: float64(flows), Packet: 1000, KMin: 5e3, KMax: 200e3, PMax: 0.01,
		CNPInterval: 50e-6, AlphaTimer: 55e-6, Gain: 1. / 256,
		Timer: 55e-6, ByteCounter: 10e6, Stages: 5, Additive: 40e6,
	}
}

// PolledAlpha returns α with a receiver that looks every τ, at the model's probability of a mark. In the model
// α = 1−(1−p)^τ'R changes continuously. In a sender it rises with each CNP, and falls once in each τ' after it:
// with the next CNP k·τ later, k being geometric, ⌊kτ/τ'⌋ times.
func (m *Params) PolledAlpha() float64 {
	r := m.packets(m.Rate) / m.Flows
	marked := 1 - noMarkProbability(m.Fixed().P, m.CNPInterval*r)
	falls, still := 0., 1.
	for k := 1.; still > 1e-12; k++ {
		falls += still * marked * math.Floor(k*m.CNPInterval/m.AlphaTimer)
		still *= 1 - marked
	}
	return 1 / (1 + falls)
}

// A Point is a fixed point.
type Point struct {
	P     float64 // the probability of a mark
	Queue float64 // octets
	Alpha float64
	CNPs  float64 // of one flow, per second

	OnRamp bool // P is at most PMax, so that there is such a queue
}

// perPacket returns p/((1−p)^−n − 1): the number of times, per packet, that a stage of n packets ends without a mark.
func perPacket(p, n float64) float64 { return p / math.Expm1(-n*math.Log1p(-p)) }

// noMarkProbability returns the probability that n packets have no mark.
func noMarkProbability(p, n float64) float64 { return math.Exp(n * math.Log1p(-p)) }

// flowDerivative returns the derivatives of the state of a flow. One loop ago its rate in
// packets a second was r, and the probability of a mark p.
func (m *Params) flowDerivative(x state, r, p float64) state {
	b := m.ByteCounter / m.Packet
	marked := 1 - noMarkProbability(p, m.CNPInterval*r)
	bytes, timer := perPacket(p, b), perPacket(p, m.Timer*r)
	additive := bytes*noMarkProbability(p, m.Stages*b) + timer*noMarkProbability(p, m.Stages*m.Timer*r)
	return state{
		alpha:  m.Gain / m.AlphaTimer * (1 - noMarkProbability(p, m.AlphaTimer*r) - x.alpha),
		target: -(x.target-x.rate)/m.CNPInterval*marked + m.packets(m.Additive)*r*additive,
		rate:   -x.rate*x.alpha/(2*m.CNPInterval)*marked + (x.target-x.rate)/2*r*(bytes+timer),
	}
}

// state is the state of a flow; rates in packets a second.
type state struct{ alpha, target, rate float64 }

func (m *Params) packets(bits float64) float64 { return bits / 8 / m.Packet }

// Fixed returns the fixed point, by bisection of
//
//	a²α / ((b+d)(c+e)) = τ² R_AI R
func (m *Params) Fixed() Point {
	r := m.packets(m.Rate) / m.Flows
	b := m.ByteCounter / m.Packet
	low, high := 1e-12, 0.999
	for range 200 {
		p := math.Sqrt(low * high)
		marked := 1 - noMarkProbability(p, m.CNPInterval*r)
		bytes, timer := perPacket(p, b), perPacket(p, m.Timer*r)
		additive := bytes*noMarkProbability(p, m.Stages*b) + timer*noMarkProbability(p, m.Stages*m.Timer*r)
		left := marked * marked * (1 - noMarkProbability(p, m.AlphaTimer*r)) / ((bytes + timer) * additive)
		if left > m.CNPInterval*m.CNPInterval*m.packets(m.Additive)*r {
			high = p
		} else {
			low = p
		}
	}
	p := low
	return Point{
		P: p, Alpha: 1 - noMarkProbability(p, m.AlphaTimer*r), CNPs: (1 - noMarkProbability(p,
			m.CNPInterval*r)) / m.CNPInterval,
		Queue: m.KMin + min(p/m.PMax, 1)*(m.KMax-m.KMin), OnRamp: p <= m.PMax,
	}
}

// Margin returns the phase margin at the fixed point in degrees, with a loop
// delay in seconds: below 0 the queue oscillates. It is that of the linearized
// model, with the loop cut at the mark; the smallest one if the gain passes 1
// more than once.
//
// If p is above PMax the ramp is assumed to continue above KMax, as the authors
// do.
func (m *Params) Margin(delay float64) float64 {
	at := m.Fixed()
	r := m.packets(m.Rate) / m.Flows
	bytes, timer := perPacket(at.P, m.ByteCounter/m.Packet), perPacket(at.P, m.Timer*r)
	x := state{at.Alpha, r + at.Alpha*at.CNPs/(bytes+timer), r}

	const h = 1e-5
	slope := func(size float64, f func(d float64) state) [3]complex128 {
		up, down := f(size*h), f(-size*h)
		return [3]complex128{
			complex((up.alpha-down.alpha)/(2*size*h), 0),
			complex((up.target-down.target)/(2*size*h), 0),
			complex((up.rate-down.rate)/(2*size*h), 0),
		}
	}
	byAlpha := slope(x.alpha, func(d float64) state {
		return m.flowDerivative(state{x.alpha + d, x.target, x.rate}, r,
			at.P)
	})
	byTarget := slope(x.target, func(d float64) state {
		return m.flowDerivative(state{x.alpha, x.target + d, x.rate},
			r, at.P)
	})
	byRate := slope(x.rate, func(d float64) state {
		return m.flowDerivative(state{x.alpha, x.target, x.rate + d}, r,
			at.P)
	})
	byLate := slope(r, func(d float64) state { return m.flowDerivative(x, r+d, at.P) })
	byMark := slope(at.P, func(d float64) state { return m.flowDerivative(x, r, at.P+d) })
	ramp := m.PMax * m.Packet / (m.KMax - m.KMin) // change of the mark's probability per packet in the queue

	loop := func(w float64) complex128 {
		s := complex(0, w)
		late := cmplx.Exp(complex(0, -w*delay))
		var a [3][3]complex128
		for i := range 3 {
			a[i] = [3]complex128{-byAlpha[i], -byTarget[i], -byRate[i] - byLate[i]*late}
			a[i][i] += s
		}
		rate := solveCramer(a, [3]complex128{byMark[0] * late, byMark[1] * late, byMark[2] * late})
		return -rate * complex(m.Flows*ramp, 0) / s
	}
	return phaseMargin(loop)
}

// phaseMargin returns the smallest phase margin of an open loop, in degrees.
func phaseMargin(loop func(w float64) complex128) float64 {
	least, before := math.Inf(1), loop(1)
	phase := cmplx.Phase(before)
	if phase > 0 { // the phase falls from 0
		phase -= 2 * math.Pi
	}
	for w := 1.0; w < 1e8; w *= 1.002 {
		l := loop(w)
		phase += cmplx.Phase(l / before)
		if cmplx.Abs(before) >= 1 && cmplx.Abs(l) < 1 {
			least = min(least, 180+phase*180/math.Pi)
		}
		before = l
	}
	return least
}

// solveCramer returns the third unknown of three linear equations.
func solveCramer(a [3][3]complex128, b [3]complex128) complex128 {
	whole := determinant3(a)
	for i := range 3 {
		a[i][2] = b[i]
	}
	return determinant3(a) / whole
}

func determinant3(a [3][3]complex128) complex128 {
	return a[0][0]*(a[1][1]*a[2][2]-a[1][2]*a[2][1]) -
		a[0][1]*(a[1][0]*a[2][2]-a[1][2]*a[2][0]) +
		a[0][2]*(a[1][0]*a[2][1]-a[1][1]*a[2][0])
}
