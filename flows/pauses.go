package flows

import (
	"bytes"
	"cmp"
	"net"
	"slices"
	"time"
)

// AllPriorities stands for the whole link in Pause.Priority and as the last index of
// Link.PauseSigns.
const AllPriorities = 8

// A Pause is an interval in which a priority of a link was paused without interruption. If there
// are too many, adjacent pauses are merged, with the interruptions between them.
type Pause struct {
	Src      net.HardwareAddr // source address of the frames
	Priority int              // 0 to 7 for PFC, or AllPriorities
	From, To time.Time
	Paused   time.Duration // paused time within the interval
	XOFF     uint64        // number of XOFF frames
	Frame    uint64        // number of the first of them
}

// Limits of the pauses kept. The first exactPauses of each priority are never merged.
const (
	maxPauseLists = 256
	maxPauses     = 1024
	exactPauses   = maxPauses / 2
)

// pauses are the pauses of one priority of a link in order of time.
type pauses struct {
	all   []stretch
	grain int64 // maximum length of merged pauses in nanoseconds; 0 while none are merged
}

// A stretch is a pause; its times are in nanoseconds since 1970.
type stretch struct {
	from, to, paused int64
	xoff, frame      uint64
}

// extendLast extends the last pause by the time paused by the last frame.
func (p *pauses) extendLast(since int64, paused time.Duration) {
	if n := len(p.all); n > 0 && paused > 0 {
		last := &p.all[n-1]
		last.to = max(last.to, since+int64(paused))
		last.paused += int64(paused)
	}
}

// addXOFF records a frame that pauses the priority from now on.
func (p *pauses) addXOFF(now int64, frame uint64) {
	if n := len(p.all); n > 0 {
		if last := &p.all[n-1]; now <= last.to || n > exactPauses && now-last.from < p.grain {
			last.xoff++
			return
		}
	}
	for len(p.all) == maxPauses {
		p.grain = max(2*p.grain, minWidth)
		p.mergeClose()
	}
	p.all = append(p.all, stretch{from: now, to: now, xoff: 1, frame: frame})
}

// mergeClose merges pauses that span at most grain together, except for the first ones.
func (p *pauses) mergeClose() {
	kept := p.all[:exactPauses+1]
	for _, s := range p.all[exactPauses+1:] {
		last := &kept[len(kept)-1]
		if s.to-last.from > p.grain {
			kept = append(kept, s)
			continue
		}
		last.to, last.paused, last.xoff = max(last.to, s.to), last.paused+s.paused, last.xoff+s.xoff
	}
	p.all = kept
}

// A pauseKey is a priority of a link.
type pauseKey struct {
	mac      [6]byte
	priority uint8
}

// pausesOf returns the pauses of a priority, or nil if none are kept or there are too many lists.
func (t *Table) pausesOf(mac [6]byte, priority int) *pauses {
	if !t.config.Series {
		return nil
	}
	k := pauseKey{mac, uint8(priority)}
	p := t.pauses[k]
	if p == nil && len(t.pauses) < maxPauseLists {
		p = new(pauses)
		t.pauses[k] = p
	}
	return p
}

// Pauses returns the pauses by source address, priority and time, or nil without Config.Series.
// [Priority.Paused] describes when a pause ends.
func (t *Table) Pauses() (all []Pause) {
	t.processWaiting()
	for k, p := range t.pauses {
		now := t.links[k.mac].priorities[k.priority]
		before := now.Paused
		now.countUntil(t.latest)
		list := pauses{all: slices.Clone(p.all)}
		list.extendLast(now.since, now.Paused-before)
		for _, s := range list.all {
			all = append(all, Pause{bytes.Clone(k.mac[:]), int(k.priority), timeOf(s.from), timeOf(s.to),
				time.Duration(s.paused), s.xoff, s.frame})
		}
	}
	slices.SortStableFunc(all, func(a, b Pause) int {
		return cmp.Or(bytes.Compare(a.Src, b.Src), cmp.Compare(a.Priority, b.Priority), a.From.Compare(b.From))
	})
	return all
}
