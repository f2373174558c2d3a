package congested

import (
	"cmp"
	"iter"
	"net/netip"
	"time"

	"github.com/rocecn/rocecn/internal/clock"
	"github.com/rocecn/rocecn/internal/flowtable"
)

const (
	firstProbe = time.Second // default of Config.Probe
	maxProbe   = time.Hour   // longest time between two probes

	// minAnswer is the shortest time in which a host may reject a probe, if Config.Probe is shorter.
	minAnswer = time.Second

	// confirmTime is the time after a host's first rejection in which a second one confirms it.
	confirmTime = time.Minute
)

// A Rejection is a host that counts as not capable because it has rejected Fast CNPs.
type Rejection struct {
	Host      netip.Addr
	Domain    uint32    // domain of the packets that the Fast CNPs answered
	Since     time.Time // time of the rejection that confirmed the first one
	NextProbe time.Time // time from which the host gets another Fast CNP; zero while it may still reject a probe
}

// rejections are the hosts that have rejected Fast CNPs, in a set-associative table of fixed size.
//
//	unconfirmed ── another Fast CNP rejected ──> silent ── time of the next probe ──> probed
//	                                               ^                                   │  │
//	                                               └──── probe rejected: twice as long ┘  └── no answer: forgotten
type rejections struct {
	first time.Duration // time until the first probe
	clock clock.Clock
	now   time.Time // latest time of the clock
	sets  flowtable.Sets[rejection]
}

// A rejectionState is the state of a host that has rejected a Fast CNP.
type rejectionState uint8

const (
	unconfirmed rejectionState = iota // one rejection
	silent                            // no Fast CNPs until until
	probed                            // one Fast CNP was sent, which the host may reject until until
)

// A rejection has 64 octets and no pointers. Times are ticks.
type rejection struct {
	key      uint64 // hash of host and domain; 0: free
	packet   uint64 // hash of the Fast CNP that was rejected first, or of the probe; 0: any
	since    int64
	until    int64
	interval time.Duration // between the last probe, or since, and the next
	host     [16]byte
	domain   uint32
	state    rejectionState
}

// configure sets the time until the first probe.
func (r *rejections) configure(probe time.Duration) { r.first = cmp.Or(probe, firstProbe) }

// ticks returns the time on the clock of the table.
func (r *rejections) ticks(now time.Time) int64 {
	r.now = now
	return r.clock.Ticks(now)
}

// find returns the entry of a host, or nil. It removes one that has expired.
func (r *rejections) find(key uint64, at int64) *rejection {
	key, set := r.sets.Find(key)
	for i := range set {
		if e := &set[i]; e.key == key {
			if e.hasExpired(at) {
				*e = rejection{}
				return nil
			}
			return e
		}
	}
	return nil
}

// hasExpired reports whether no second rejection has come in time, or no rejection of the probe.
func (e *rejection) hasExpired(at int64) bool { return e.state != silent && at >= e.until }

// isSilent reports whether a host gets no Fast CNPs now.
func (r *rejections) isSilent(key uint64, now time.Time) bool {
	e := r.find(key, r.ticks(now))
	return e != nil && (e.state == probed || e.state == silent && r.clock.Now() < e.until)
}

// recordSent records that a Fast CNP was sent to a host. It is a probe if the host was silent.
func (r *rejections) recordSent(key, packet uint64, now time.Time) {
	if e := r.find(key, r.ticks(now)); e != nil && e.state == silent {
		wait := min(max(r.first, minAnswer), quoteTime) // no later error is believed
		e.state, e.packet, e.until = probed, packet, r.clock.Now()+int64(wait)
	}
}

// RecordProbe records that another program, such as one in the kernel, has sent a Fast CNP to a host with a NextProbe
// that is due: see [Role.Rejections]. Receive then takes any Fast CNP to this host in the last 5 s as the probe.
func (a *Role) RecordProbe(host netip.Addr, domain uint32, now time.Time) {
	if a.cfg.Enabled {
		a.rejected.recordSent(a.hashAddr(host, domain), 0, a.latest.Or(now))
	}
}

// reject records that a host has rejected a Fast CNP, and reports whether the host counts as not capable.
func (r *rejections) reject(key, packet uint64, host netip.Addr, domain uint32, now time.Time) bool {
	at := r.ticks(now)
	e := r.find(key, at)
	switch {
	case e == nil:
		stored, set := r.sets.Find(key)
		*oldestRejection(set) = rejection{
			key: stored, packet: packet, host: host.As16(), domain: domain, until: at + int64(confirmTime),
		}
		return false
	case e.state == unconfirmed && e.packet == packet:
		return false
	case e.state == unconfirmed:
		e.since, e.interval = at, r.first
	case e.state == probed && (e.packet == packet || e.packet == 0):
		e.interval = min(2*e.interval, maxProbe)
	default: // a Fast CNP that was sent before
		return true
	}
	e.state, e.until = silent, at+int64(e.interval)
	return true
}

// oldestRejection returns the entry of a set that a new one replaces: a free or an unconfirmed one, or the one of which
// the next event comes first.
func oldestRejection(set *[4]rejection) *rejection {
	oldest := &set[0]
	for i := range set {
		e := &set[i]
		if e.key == 0 {
			return e
		}
		if e.state == unconfirmed && oldest.state != unconfirmed ||
			(e.state == unconfirmed) == (oldest.state == unconfirmed) && e.until < oldest.until {
			oldest = e
		}
	}
	return oldest
}

// Rejections yields the hosts that count as not capable because they have rejected Fast CNPs, in no particular order.
// It omits hosts with a capability in Config.Capable.
func (a *Role) Rejections(now time.Time) iter.Seq[Rejection] {
	return func(yield func(Rejection) bool) {
		r := &a.rejected
		at := r.ticks(a.latest.Or(now))
		for i := range r.sets.All {
			for j := range r.sets.All[i] {
				e := &r.sets.All[i][j]
				if e.key == 0 || e.state == unconfirmed || e.hasExpired(at) {
					continue
				}
				host := Rejection{
					Host: netip.AddrFrom16(e.host), Domain: e.domain, Since: r.now.Add(time.Duration(e.since - at)),
				}
				if c, _ := a.cfg.Capable.Lookup(host.Host); c != CapabilityUnknown {
					continue
				}
				if e.state == silent {
					host.NextProbe = r.now.Add(time.Duration(e.until - at))
				}
				if !yield(host) {
					return
				}
			}
		}
	}
}
