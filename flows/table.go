package flows

import (
	"time"

	"github.com/rocecn/rocecn/internal/flowtable"
	"github.com/rocecn/rocecn/internal/qplearn"
)

// Config is what a user chooses. The zero value stands for the defaults.
type Config struct {
	// MaxFlows is how many flows are kept at once, 131,072 if 0 and at least 2. Answers
	// take the place of a flow, unless requests go the same way. A flow takes 1 KB, with
	// requests that follow one another 3.5 KB, with READs or ATOMICs among them 3 KB
	// more, and 5 KB more for each of its two distributions of times.
	MaxFlows int
	// Shard and Shards divide the flows among several tables that see the same
	// packets: this one keeps what belongs to the address pairs of shard number
	// Shard, 0 to Shards-1. Together they report what one table would, except that an
	// Unpaired with messages about several address pairs may be in several parts, which
	// add up to it. With 0 or 1 Shards nothing is divided.
	Shard, Shards int
	// Seed is that of qpmap.Config: with any but 0 the same packets always give the same.
	Seed uint64
	// LinkRate is the rate of the links that PFC and PAUSE frames are about, in bits
	// a second. If it is 0, they are taken for links of 100 Gbit/s, and each Link
	// says so.
	LinkRate uint64
	// Series keeps how each flow went over time, for [Table.Series], and all of them
	// together, for [Table.Totals] and [Table.Pauses]: in 17 KB more a flow, and 25 KB
	// where there is trouble, as long as 450 MB have room for that; then 3 KB.
	Series bool
	// Evidence keeps in which frames what happened, for Flow.Evidence, in 1.7 KB more a flow, and 2 KB more where a
	// CNP made it slow down.
	Evidence bool
}

const (
	defaultMaxFlows = 1 << 17
	minFlows        = 2       // both directions of a connection: one of them must make no room for the other
	maxLinks        = 1 << 12 // source addresses of PFC frames
)

// A Table keeps account of flows. It is not safe for concurrent use.
//
// When it is full, it gives up a flow that has not been seen for long, those
// with a single packet first, and adds its counts to what [Table.Evicted]
// returns. A flow that comes back later is a new one. Counts never go to
// another flow.
type Table struct {
	config  Config
	streams flowtable.Table[key, stream]
	numbers uint32 // given to streams so far
	held    uint32 // id of the stream that eviction must spare, 0 for none
	evicted Evicted
	changes *changes // nil until Changes is called

	histories  pool[history]
	asks       pool[asks]
	histograms pool[Histogram]
	earlies    pool[earlyReplies]
	serieses   seriesPools
	evidences  pool[evidence]

	pairs       *qplearn.Map
	lastLearned uint32 // PSN of the packet that the map was shown last

	labels labels
	names  names
	links  map[[6]byte]*link
	pauses map[pauseKey]*pauses // with Config.Series
	all    bins                 // of all flows together, with Config.Series
	allEnd int64

	latest  int64 // nanoseconds since 1970: the latest time of a packet
	assumed bool  // LinkRate was not given
	stats   Stats
}

// Stats counts what a [Table] was given.
type Stats struct {
	Packets    uint64 // all of them
	Others     uint64 // of these, neither RoCEv2 nor one of the drafts' messages
	Broken     uint64 // RoCEv2 or one of those messages, and does not parse
	DroppedPFC uint64 // PFC frames given up, as they came from too many addresses
	// Cut are packets of which the snap length cut what the accounting needs. Those whose
	// BTH is there count all the same; what the others are cannot be said. Needs is the
	// snap length that would have been enough for all of them; 0 where none was cut.
	Truncated  uint64
	SnapLength int
}

// New returns an empty table.
func New(c Config) *Table {
	if c.MaxFlows <= 0 {
		c.MaxFlows = defaultMaxFlows
	}
	c.MaxFlows = max(c.MaxFlows, minFlows)
	assumed := c.LinkRate == 0
	if assumed {
		c.LinkRate = assumedLinkRate
	}
	return &Table{
		config: c, streams: flowtable.New[key, stream](c.MaxFlows, true, (*key).Hash),
		serieses: seriesPools{maxFine: maxFine}, labels: newLabels(), links: map[[6]byte]*link{},
		pauses: map[pauseKey]*pauses{}, assumed: assumed,
		pairs: qplearn.New(qplearn.Config{
			MaxPairs: 2 * c.MaxFlows, MaxOpen: min(2*c.MaxFlows, 1<<12), Grow: true,
			Ports: true, // flows sends nothing to anybody
			Seed:  c.Seed,
		}),
	}
}

// Stats returns what the table was given so far.
func (t *Table) Stats() Stats { return t.stats }

// Observe records a packet, the one with this number in its capture, that was
// seen now. Packets come in the order in which they were captured; time may
// jump back.
func (t *Table) Observe(p *Packet, frame uint64, now time.Time) {
	t.stats.Packets++
	at := unixNano(now)
	t.latest = max(t.latest, at)
	if p.snapLength > 0 {
		t.stats.Truncated++
		t.stats.SnapLength = max(t.stats.SnapLength, int(p.snapLength))
	}
	switch p.kind {
	case truncatedKind:
	case otherTraffic:
		t.stats.Others++
	case invalidKind:
		t.stats.Broken++
	case requestKind:
		if p.tunnelled {
			t.labels.addRequest(p)
		}
		if t.ownsShard(&p.pkt.Flow) {
			t.observeRequest(p, frame, at)
		} else {
			t.names.addFlow(&p.pkt.Flow)
		}
	case answerKind, cnpKind:
		if t.ownsShard(&p.pkt.Flow) {
			t.observeAnswer(p, frame, at)
		}
	case pfcKind:
		t.observePause(&p.pause, frame, at)
	default:
		t.observeNotice(p, frame, at)
	}
}

// unixNano returns the time since 1970, and 0 for one before that, as is that
// of a capture without times, or after 2242: two of them are never further apart
// than 64 bits can say.
func unixNano(t time.Time) int64 {
	if s := t.Unix(); s < 0 || s >= 1<<33 {
		return 0
	}
	return t.UnixNano()
}

// ownsShard says whether a packet with these addresses belongs to the table's shard.
func (t *Table) ownsShard(k *key) bool {
	return t.config.Shards <= 1 || hashOfPair(k)%uint64(t.config.Shards) == uint64(t.config.Shard)
}
