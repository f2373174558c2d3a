package flows

import "time"

// A link is what is known of PFC frames from one source address.
type link [8]struct {
	Priority
	paused bool
	since  int64
}

// Priority counts the PFC frames about one priority.
type Priority struct {
	XOFF, XON uint64
	Paused    time.Duration // from each first XOFF to the next XON
}

// pause takes up a PFC frame.
func (t *Table) pause(p *pause, at int64) {
	if t.config.Shards > 1 && fork(0, be64(p.mac))%uint64(t.config.Shards) != uint64(t.config.Shard) {
		return
	}
	l := t.links[p.mac]
	if l == nil {
		if len(t.links) == maxLinks {
			t.stats.Links++
			return
		}
		l = new(link)
		t.links[p.mac] = l
	}
	for i := range l {
		c := &l[i]
		switch bit := uint8(1) << i; {
		case p.enabled&bit == 0:
		case p.xoff&bit != 0:
			c.XOFF++
			if !c.paused {
				c.paused, c.since = true, at
			}
		default:
			c.XON++
			if c.paused {
				c.paused = false
				c.Paused += time.Duration(max(at-c.since, 0))
			}
		}
	}
}

func be64(mac [6]byte) uint64 {
	return uint64(be.Uint16(mac[:]))<<32 | uint64(be.Uint32(mac[2:]))
}
