package fluid

import (
	"math"
	"math/cmplx"
)

// A Figure is a phase margin in degrees that the authors publish, for a number of flows at 40 Gbit/s and a loop
// delay in seconds.
type Figure struct {
	Flows          int
	Delay          float64
	Additive, KMax float64
	Margin         float64
}

// Params returns the parameters of the figure.
func (f *Figure) Params() Params {
	m := Paper(f.Flows)
	m.Additive, m.KMax = f.Additive, f.KMax
	return m
}

// Figures are those of the authors' files pm_rai40_delay*.txt, and of
// pm_rai10_delay100_kmax1000.txt.
var Figures = figures()

func figures() (all []Figure) {
	flows := [5]int{2, 10, 20, 50, 64}
	for _, row := range []struct {
		delay, additive, max float64
		margins              [5]float64
	}{
		{1e-6, 40e6, 200e3, [5]float64{26.257, 4.5296, 9.4219, 34.874, 43.193}},
		{10e-6, 40e6, 200e3, [5]float64{23.0, 2.5, 7.5, 33, 41}},
		{25e-6, 40e6, 200e3, [5]float64{17.443, -0.91397, 4.3412, 28.836, 36.51}},
		{50e-6, 40e6, 200e3, [5]float64{8.2626, -6.5844, -0.95129, 22.546, 29.548}},
		{100e-6, 40e6, 200e3, [5]float64{-10.1, -17.9, -11.5, 10.0, 15.6}},
		{100e-6, 10e6, 1e6, [5]float64{44.183, 43.849, 19.235, 28.636, 29.962}},
	} {
		for i, margin := range row.margins {
			all = append(all, Figure{flows[i], row.delay, row.additive, row.max, margin})
		}
	}
	return all
}

// Published returns the phase margin as the authors of the model computed the figures of their paper: with an
// approximation of the fixed point for small p, a ramp that continues above KMax, and a linearization without
// the terms of p². Margin has none of these simplifications.
func (m *Params) Published(delay float64) float64 {
	n, c := m.Flows, m.packets(m.Rate)
	b, t, f := m.ByteCounter/m.Packet, m.Timer, m.Stages
	rai, g := m.packets(m.Additive), m.Gain
	rc := c / n
	a := 1/b + 1/(t*rc)

	p := math.Cbrt(rai / (m.AlphaTimer * rc * rc) * a * a)
	marked := 1 - noMarkProbability(p, m.CNPInterval*rc)
	additive := perPacket(p, b)*noMarkProbability(p, f*b) + perPacket(p, t*rc)*noMarkProbability(p, f*t*rc)
	rt := rc * (1 + additive*m.CNPInterval*rai/marked)
	alpha := 1 - noMarkProbability(p, m.AlphaTimer*rc)
	ramp := n * m.PMax * m.Packet / (m.KMax - m.KMin)

	// Derivatives of the state by itself, and by the rate, target and α one loop ago.
	half := 0.5 + a/4
	spread := a/2*rc - half*p*rc // of the rate, by the target
	now := -p*rc*alpha/2 - a/2*rc + a/2*rt + half*p*rc - half*p*rt
	late := -p*rc*alpha/2 - a/2*rc + half*p*rc
	marks := (-rc*rc*alpha/2 - half*rc*rt + half*rc*rc) * ramp
	byAlpha := -p * rc * rc * g * c * ramp / 2
	targetNow := spread * (p*rc + a*rai)
	targetLate := spread * (-p*rt + p*rc + a*rai - (1+2*f+a/2)*rai*p)
	targetMarks := spread * (-rc*rt + rc*rc - (1+2*f+a/2)*rai*rc) * ramp

	loop := func(w float64) complex128 {
		s := complex(0, w)
		k := func(x float64) complex128 { return complex(x, 0) }
		x, y := k(n)*s+k(g*c), s+k(p*rc)
		above := x*y*k(marks) + x*y*s*k(late) + y*k(byAlpha) + x*s*k(targetLate) + x*k(targetMarks)
		below := -s*x*y*s + x*y*s*k(now) + s*x*k(targetNow)
		return above / below * cmplx.Exp(complex(0, -w*delay))
	}
	return phaseMargin(loop)
}
