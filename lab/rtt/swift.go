package rtt

import (
	"math"
	"time"

	"github.com/rocecn/rocecn/lab"
)

// SwiftConfig has the parameters of Swift, with their names in the paper. Windows are in packets.
type SwiftConfig struct {
	Line    uint64 // bits a second, at most 2^50
	Payload uint64 // octets of data in a packet, above 0
	Wire    uint64 // octets of a packet on the wire, above 0

	BaseTarget time.Duration // target of the round trip, with all hops
	AI         float64       // additive increase in a round trip
	Beta       float64       // β
	MaxMDF     float64       // the largest share by which a decrease reduces the window

	// A flow with fewer than FSMax packets has a longer target: by α/√cwnd + β, at most FSRange, which a flow with
	// FSMin packets reaches. FSRange 0 is no scaling.
	FSRange      time.Duration
	FSMin, FSMax float64

	Min, Max float64 // limits of the window; below 1 packets are paced
}

// DefaultSwift returns the parameters of a common implementation (Broadcom/csg-htsim, sim/swift.cpp), without flow
// scaling. The first window is that of the target at line rate.
func DefaultSwift(line, payload, wire uint64, target time.Duration) SwiftConfig {
	return SwiftConfig{
		Line: line, Payload: payload, Wire: wire, BaseTarget: target, AI: 1, Beta: 0.8, MaxMDF: 0.5,
		FSMin: 0.1, FSMax: 100, Min: 0.01, Max: 1 << 16,
	}
}

// A Swift is the reaction point of one flow: Swift of Kumar et al., "Swift: Delay is Simple and Effective for
// Congestion Control in the Datacenter", SIGCOMM 2020, Algorithm 1. The delay is that of the fabric: hosts of the
// laboratory take no time. Hop scaling is part of BaseTarget.
type Swift struct {
	lab.ControlBase
	cfg       SwiftConfig
	cwnd      float64
	rtt       time.Duration
	decreased time.Time
}

// NewSwift returns the reaction point of a new flow.
func NewSwift(cfg SwiftConfig) *Swift {
	first := float64(cfg.Line) / 8 * cfg.BaseTarget.Seconds() / float64(cfg.Wire)
	return &Swift{cfg: cfg, cwnd: min(max(first, 1), cfg.Max), rtt: cfg.BaseTarget}
}

// Rate implements [lab.Control]: the line rate, or below one packet in flight a packet in each rtt/cwnd.
func (s *Swift) Rate() uint64 {
	if s.cwnd >= 1 {
		return s.cfg.Line
	}
	return uint64(min(float64(s.cfg.Wire)*8*s.cwnd/s.rtt.Seconds(), float64(s.cfg.Line)))
}

// Window implements [lab.Control].
func (s *Swift) Window() uint64 { return uint64(max(s.cwnd, 1)) * s.cfg.Wire }

// Target returns the target delay for a window.
func (s *Swift) Target(cwnd float64) time.Duration {
	c := &s.cfg
	if c.FSRange == 0 {
		return c.BaseTarget
	}
	alpha := c.FSRange.Seconds() / (1/math.Sqrt(c.FSMin) - 1/math.Sqrt(c.FSMax))
	scaled := alpha/math.Sqrt(cwnd) - alpha/math.Sqrt(c.FSMax)
	return c.BaseTarget + time.Duration(min(max(scaled, 0), c.FSRange.Seconds())*1e9)
}

// Acked implements [lab.Control].
func (s *Swift) Acked(a *lab.Ack, now time.Time) {
	was, c := s.cwnd, &s.cfg
	mayDecrease := now.Sub(s.decreased) >= s.rtt
	s.rtt = max(a.RTT, 1)
	target := s.Target(s.cwnd)
	if packets := float64(a.Octets) / float64(c.Payload); a.RTT < target {
		s.cwnd += c.AI * packets / max(s.cwnd, 1)
	} else if mayDecrease {
		s.cwnd *= max(1-c.Beta*float64(a.RTT-target)/float64(a.RTT), 1-c.MaxMDF)
	}
	s.applyLimits(was, now)
}

// Lost implements [lab.Control].
func (s *Swift) Lost(_ uint64, now time.Time) {
	was := s.cwnd
	if now.Sub(s.decreased) >= s.rtt {
		s.cwnd *= 1 - s.cfg.MaxMDF
	}
	s.applyLimits(was, now)
}

// applyLimits applies the limits of the window, and records the time of a decrease.
func (s *Swift) applyLimits(was float64, now time.Time) {
	s.cwnd = min(max(s.cwnd, s.cfg.Min), s.cfg.Max)
	if s.cwnd < was {
		s.decreased = now
	}
}
