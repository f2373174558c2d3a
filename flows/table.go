package flows

import (
	"time"

	"github.com/rocecn/rocecn/internal/flowtable"
	"github.com/rocecn/rocecn/internal/qplearn"
)

// Config configures a [Table]. The zero value has the defaults.
type Config struct {
	// MaxFlows is the maximum number of flows, 131,072 if 0 and at least 2. Answers without
	// requests in the same direction count as a flow. By the size of the structures a flow takes
	// 0.2 KB, and more with:
	//   - requests: 0.6 KB; a second one: 0.2 KB, and up to 2 KB with many requests under way or gaps
	//   - answers: 0.2 KB
	//   - READs or ATOMICs: 0.1 KB to 3 KB, by their number
	//   - responses to the READs and ATOMICs of the other end: 0.3 KB
	//   - Identifications of IPv4 that are not 0, of requests and of responses: 0.5 KB each
	//   - a NAK or a retransmission: 0.3 KB
	//   - retransmissions after timeouts: 0.2 KB to 5.1 KB, by their number
	//   - learning of queue pairs: 0.4 KB until they are known, then 0.2 KB
	//   - packets that a switch trimmed: 0.8 KB
	//   - answers that match no flow: 0.4 KB
	//   - round trip times, and times from CE to a CNP: 0.1 KB to 4.6 KB for each of the two
	//     distributions, by their range
	MaxFlows int
	// Shards divides the flows between several tables that observe the same packets. This table
	// keeps the address pairs of shard number Shard, from 0 to Shards-1. Together the tables report
	// the same as a single one, except that the counts of an Unpaired may be divided between them.
	// With 0 or 1 Shards nothing is divided.
	Shard, Shards int
	// Seed is qpmap.Config.Seed: with a nonzero seed the same packets give the same results.
	Seed uint64
	// LinkRate is the rate in bits per second of the links with PFC or PAUSE frames. If it is 0,
	// 100 Gbit/s is assumed, and Link.Assumed is set.
	LinkRate uint64
	// Series keeps the history of each flow for [Table.Series], of all flows together for
	// [Table.Totals], and of links for [Table.Pauses]. It takes 3 KB for each flow; 17 KB for the first 256
	// flows, and for those with trouble up to 1,024 in all; 25 KB more for up to 1,024 flows with trouble;
	// and 8 KB more for a flow with queue depths: up to 160 MB besides the 3 KB for each flow.
	Series bool
	// Evidence keeps frames, times and rates for Flow.Evidence. By the size of the structures it takes
	// 1.7 KB more for each flow, 0.9 KB more with marks or notifications, and 0.1 KB to 4.6 KB more if the
	// flow recovered from a CNP that slowed it down.
	Evidence bool
}

const (
	defaultMaxFlows = 1 << 17
	minFlows        = 2       // both directions of a connection must fit
	maxLinks        = 1 << 12 // limit of source addresses of PFC frames
)

// A Table counts flows. It is not safe for concurrent use.
//
// A full table evicts a flow that has not been seen for long, flows with a single packet first, and
// adds its counts to [Table.Evicted]. A flow that returns later is a new flow. Counts are never
// added to another flow.
type Table struct {
	config  Config
	streams flowtable.Table[key, stream]
	last    *stream // returned last by streamOf, or nil
	numbers uint32  // sequence numbers assigned to streams so far
	held    uint32  // id of the stream that must not be evicted; 0 for none
	evicted Evicted
	changes *changes // nil until the first call of Changes

	flows      pool[flow]
	histories  pool[history]
	asks       pool[asks]
	responses  pool[responses]
	outers     pool[Outer]
	retries    pool[retries]
	trimmings  pool[trimmings]
	discards   pool[flowDiscards]
	histograms pool[Histogram]
	earlies    pool[earlyReplies]
	serieses   seriesPools
	evidences  pool[evidence]

	// With Config.Evidence: signs of answers by stream, congestion by flow, and load by receiver.
	answerSigns pool[[answerSignKinds]sign]
	episodes    pool[episodes]
	loads       pool[load]
	loadIDs     map[[16]byte]uint32

	pairs       *qplearn.Map
	lastLearned uint32 // PSN of the packet last passed to the map

	labels labels
	names  names
	links  map[[6]byte]*link
	pauses map[pauseKey]*pauses // with Config.Series
	all    bins                 // bins of all flows together, with Config.Series
	allEnd int64

	capture captureState
	latest  int64 // latest time of a packet, nanoseconds since 1970, continued over clock steps
	assumed bool  // Config.LinkRate was 0
	stats   Stats
}

// Stats counts the packets given to a [Table] or to [Samples].
type Stats struct {
	Packets    uint64 // all packets
	Others     uint64 // packets that are neither RoCEv2 nor a message of one of the drafts
	Broken     uint64 // invalid RoCEv2 packets and messages
	DroppedPFC uint64 // PFC frames dropped because of too many source addresses
	// Unlearned counts packets that were not used to learn queue pairs because the tables for that were
	// full: they grow up to a multiple of Config.MaxFlows. Flows may lack a source queue pair then.
	Unlearned uint64
	// Truncated counts packets that lack required fields because of the snapshot length. Packets with a
	// complete BTH are counted in their flows nevertheless. SnapLength is the length in octets that is
	// sufficient for all of them; 0 if there are none.
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
		serieses: seriesPools{maxFine: maxFineSeries}, labels: newLabels(), links: map[[6]byte]*link{},
		loadIDs: map[[16]byte]uint32{},
		pauses:  map[pauseKey]*pauses{}, assumed: assumed,
		pairs: qplearn.New(qplearn.Config{
			MaxPairs: 2 * c.MaxFlows, MaxPending: c.MaxFlows, Grow: true,
			Ports: true, // safe here because no notification is sent
			Seed:  c.Seed,
		}),
	}
}

// Stats returns the counts of the packets observed so far.
func (t *Table) Stats() Stats {
	t.processWaiting()
	s, learned := t.stats, t.pairs.Stats()
	s.Unlearned = learned.Unlearned + learned.Full
	return s
}

// Observe records a packet with its frame number and capture time. Packets must be in capture
// order, but times may step back. Up to 4,096 packets are kept until the properties of the capture
// are known, and recorded then. Every method that reports records them first.
func (t *Table) Observe(p *Packet, frame uint64, now time.Time) {
	at, c := unixNano(now), &t.capture
	if p.truncatedLen|uint32(p.unread) != 0 {
		c.countFrame(p)
	}
	if d := at - c.clock.previous; !c.fast || uint64(d) > uint64(leastStep) {
		t.observeSlowly(p, frame, at)
		return
	}
	c.clock.previous = at
	t.observePacket(p, frame, at+c.clock.shift)
}

// observePacket records a packet with a time that continues over clock steps.
func (t *Table) observePacket(p *Packet, frame uint64, at int64) {
	t.stats.Packets++
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
			t.labels.addData(p)
		}
		if t.ownsShard(&p.pkt.Flow) {
			t.observeRequest(p, frame, at)
		} else {
			t.names.addFlow(&p.pkt.Flow)
			t.capture.observeForeign(p)
		}
	case answerKind, cnpKind:
		response := roles[p.pkt.Opcode].isResponse()
		if response && p.tunnelled {
			t.labels.addData(p)
		}
		if t.ownsShard(&p.pkt.Flow) {
			t.observeAnswer(p, frame, at)
		} else {
			if response {
				t.names.addFlow(&p.pkt.Flow)
			}
			t.capture.observeForeign(p)
		}
	case trimmedKind:
		t.observeTrimmed(p, frame, at)
	case pfcKind:
		t.observePause(&p.pause, frame, at)
	default:
		t.observeNotice(p, frame, at)
	}
}

// unixNano returns the nanoseconds since 1970. Times before 1970, such as those of captures without
// times, and after 2242 give 0, so that differences fit 64 bits.
func unixNano(t time.Time) int64 {
	if s := t.Unix(); s < 0 || s >= 1<<33 {
		return 0
	}
	return t.UnixNano()
}

// ownsShard reports whether the addresses belong to the table's shard.
func (t *Table) ownsShard(k *key) bool {
	return t.config.Shards <= 1 || hashOfPair(k)%uint64(t.config.Shards) == uint64(t.config.Shard)
}
