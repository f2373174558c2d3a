package sender

import (
	"cmp"
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/rocecn/rocecn/internal/clock"
	"github.com/rocecn/rocecn/internal/flowtable"
	"github.com/rocecn/rocecn/internal/hash"
	"github.com/rocecn/rocecn/node/internal/role"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
)

// A Detour chooses UDP source ports that lead flows around congested switches. A
// sender may try to avoid a switch from which it gets Fast CNPs, by changing the
// fields that ECMP hashes (FAST section 4).
//
// A Detour remembers the most recent ports of each flow that were reported, and by
// which switch. A switch that has reported four ports of a flow is probably on all
// of its paths, such as next to the receiver: then the flow keeps its port.
//
// Its memory is fixed: 272 octets a flow, in sets of four flows. A fifth flow in a
// set evicts the one reported longest ago. Time may jump back. A Detour is not
// safe for concurrent use.
type Detour struct {
	hold  int64
	seed  uint64
	clock clock.Clock
	sets  flowtable.Sets[detoured]
}

const (
	// tried is the number of ports kept for each flow.
	tried = 16
	// maxReportedPorts is the number of ports of a flow that a switch reports before the flow stops trying to avoid it.
	maxReportedPorts = 4

	// The ports to choose from, 49152 to 65535: the dynamic ports (RFC 6335
	// section 6), as RoCEv2 uses them.
	firstPort = 49152
	ports     = 1 << 14
)

// detoured has the reports about one flow.
type detoured struct {
	flow    uint64 // its hash; 0: free
	at      int64  // of the last report, in the clock's ticks
	reports [tried]report
}

// report is a report that the path of a port was congested.
type report struct {
	at   int64
	by   uint32 // hash of the switch's address; 0: no report
	port uint16
}

// DetourConfig has the time for which ports are avoided, and the maximum number of flows.
type DetourConfig struct {
	Hold     time.Duration // time for which a reported port is avoided; 0: not at all
	MaxFlows int           // rounded up to a power of two; 0 stands for 4,096
	Seed     uint64        // of the hashes; 0 is a random one
}

// NewDetour returns a Detour with all the memory that it will ever use.
func NewDetour(cfg DetourConfig) *Detour {
	if cfg.Seed == 0 {
		cfg.Seed = rand.Uint64()
	}
	return &Detour{hold: int64(cfg.Hold), seed: cfg.Seed,
		sets: flowtable.NewSets[detoured](cmp.Or(cfg.MaxFlows, 1<<12))}
}

// Report records that a switch has reported congestion on the path that this source port
// of the flow takes.
func (d *Detour) Report(k rocev2.FlowKey, port uint16, by netip.Addr, now time.Time) {
	at := d.clock.Ticks(now)
	f := d.findFlow(k, true)
	f.at = at
	oldest := &f.reports[0]
	for i := range f.reports {
		r := &f.reports[i]
		if r.by == 0 || r.port == port {
			oldest = r
			break
		}
		if r.at < oldest.at {
			oldest = r
		}
	}
	*oldest = report{at: at, by: d.hashOf(by), port: port}
}

// SrcPort returns the source port to use for a flow that now uses port. That is the
// same port, unless it was reported: then one of 49152–65535 that was not, as long
// as there seems to be a way around the switch.
func (d *Detour) SrcPort(k rocev2.FlowKey, port uint16, now time.Time) uint16 {
	f := d.findFlow(k, false)
	if f == nil {
		return port
	}
	since := d.clock.Ticks(now) - d.hold
	reported := f.findReport(port, since)
	if reported == nil || f.countReports(reported.by, since) >= maxReportedPorts {
		return port
	}
	for i := range uint64(2 * tried) { // at least half of them were not reported
		next := uint16(firstPort + hash.Mix(f.flow^0xA0761D6478BD642F, (d.seed+i)^0x9E3779B97F4A7C15)%ports)
		if f.findReport(next, since) == nil {
			return next
		}
	}
	return port
}

// findReport returns the report about a port that was made after a time, nil if there is none.
func (f *detoured) findReport(port uint16, since int64) *report {
	for i := range f.reports {
		if r := &f.reports[i]; r.by != 0 && r.port == port && r.at > since {
			return r
		}
	}
	return nil
}

// countReports returns the number of ports of a flow that a switch has reported after a time.
func (f *detoured) countReports(by uint32, since int64) (n int) {
	for i := range f.reports {
		if r := &f.reports[i]; r.by == by && r.at > since {
			n++
		}
	}
	return n
}

// findFlow returns the entry of a flow, nil if there is none. With make it makes one,
// which may evict the flow of the set that was reported longest ago.
func (d *Detour) findFlow(k rocev2.FlowKey, make bool) *detoured {
	flow, set := d.sets.Find(role.Hash(&qpmap.Key{FlowKey: k}, d.seed))
	oldest := &set[0]
	for i := range set {
		f := &set[i]
		if f.flow == flow {
			return f
		}
		if f.flow == 0 || oldest.flow != 0 && f.at < oldest.at {
			oldest = f
		}
	}
	if !make {
		return nil
	}
	*oldest = detoured{flow: flow}
	return oldest
}

// hashOf returns 32 bits of an address, never 0.
func (d *Detour) hashOf(a netip.Addr) uint32 {
	return max(uint32(role.Hash(&qpmap.Key{FlowKey: rocev2.FlowKey{Src: a}}, d.seed)), 1)
}
