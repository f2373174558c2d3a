package flows

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"maps"
	"math"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/cli"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/sflow"
	"github.com/rocecn/rocecn/flows"
	"github.com/rocecn/rocecn/flows/triage"
	"github.com/rocecn/rocecn/netio"
	"github.com/rocecn/rocecn/rocev2"
)

// A collector counts the packets in sFlow datagrams. With a table, that of flows without -sflow, it only counts the
// discarded packets, for their flows in the table.
type collector struct {
	*options
	port    uint16
	samples *flows.Samples
	into    *flows.Table
	decoder flows.Decoder
	human   human
	out     *bufio.Writer

	agents                 map[agentKey]*agent
	sources                map[netip.Prefix]*sflowSource // sources of the agents
	cleared                time.Time                     // last removal of idle agents
	fullAgents, fullPoints failedEviction
	counts                 sflowCounts

	discarded map[string]uint64 // discarded packets by reason

	from, to time.Time // the present interval, of -interval
}

// agentKey names a part of an agent, which numbers its datagrams.
type agentKey struct {
	address netip.Addr
	part    uint32
}

// An agent is the state for one sFlow agent.
type agent struct {
	next, uptime uint32
	recent       [64]uint64 // hashes of the last datagrams, by the end of their numbers
	points       map[flows.SamplePoint]*dataSource
	last         time.Time // of the last datagram
	source       netip.Prefix
	sampled      bool // a sample of it was counted
}

// An sflowSource has the numbers of agents and points of the datagrams from a prefix, /64 or /24. If a table is full,
// entries of prefixes with more than a quarter of it are evicted.
type sflowSource struct{ agents, points int }

// sourcePrefix returns the prefix of a source of datagrams.
func sourcePrefix(a netip.Addr) netip.Prefix {
	bits := 64
	if a.Is4() {
		bits = 24
	}
	p, _ := a.Prefix(bits) // the zero Prefix if there is no address
	return p
}

// A dataSource is the state for one data source of an agent, a sampling point.
type dataSource struct {
	sampled, discarded lastDrops
	last               time.Time // of the last sample
}

// lastDrops is the last number of samples that the agent reported as dropped.
type lastDrops struct {
	n     uint32
	known bool
}

var hashSeed = maphash.MakeSeed()

// sflowCounts are the counts of the last line, those of an interval where there are such. Agents and points are those
// that are known by then.
type sflowCounts struct {
	Sampled    bool   `json:"sampled"`
	Total      bool   `json:"total"`
	Datagrams  uint64 `json:"datagrams"`
	Lost       uint64 `json:"lost_datagrams"`     // by their sequence numbers
	Duplicates uint64 `json:"repeated_datagrams"` // octet for octet like an earlier one: their samples do not count
	Broken     uint64 `json:"broken_datagrams"`
	Version4   uint64 `json:"version_4_datagrams,omitempty"` // of sFlow version 4, which is not decoded
	Agents     int    `json:"agents"`
	Points     int    `json:"points"` // data sources
	Samples    uint64 `json:"samples"`
	Discarded  uint64 `json:"drop_notifications,omitempty"` // samples of packets that a switch discarded

	// samples that are not decoded, by enterprise and format
	Unknown map[string]uint64 `json:"unknown_samples,omitempty"`

	WithoutHeader uint64 `json:"without_header"`
	Drops         uint64 `json:"dropped_by_agents"` // since they were seen first
	Refused       uint64 `json:"refused"`           // samples not counted because a table was full
	Evicted       uint64 `json:"evicted,omitempty"` // queue pairs removed for those of another source
	Others        uint64 `json:"other_packets"`     // of the samples, neither RoCEv2 nor about congestion
	BrokenPackets uint64 `json:"broken_packets"`
	Truncated     uint64 `json:"cut_packets"` // too short for their kind
}

// Limits, because a sender of datagrams can forge agents, points, formats and reasons.
const (
	maxAgents  = 1024
	maxPoints  = 4096
	maxFormats = 16
	maxReasons = 64
)

// maxIdle is the time without datagrams after which a full table no longer keeps an agent or a point.
const maxIdle = 10 * time.Minute

// longLate is the maximum age difference in milliseconds of a datagram that is out of order.
const longLate = 10_000

// collectSamples is -sflow ADDR: datagrams that come to a socket, or those in captures that
// go to its port.
func (o *options) collectSamples(ctx context.Context, stdout, stderr io.Writer) (status int) {
	_, port, _ := strings.Cut(o.sflow[strings.LastIndexByte(o.sflow, ':'):], ":")
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return cli.Misuse(stderr, "flows", fmt.Errorf("-sflow: port %q: want a number from 1 to 65535", port))
	}
	o.decoder.NoICRC = true
	c := newCollector(o)
	c.port, c.samples, c.out = uint16(n), flows.NewSamples(o.table.MaxFlows), bufio.NewWriterSize(stdout, 64<<10)
	c.human = human{colour: cli.IsTerminal(stdout) && os.Getenv("NO_COLOR") == ""}
	if len(o.inputs.Names) == 0 {
		err = c.receiveDatagrams(ctx, stderr)
	}
	for _, name := range o.inputs.Names {
		var out cli.OutputError
		if err := c.readCapture(ctx, name, stderr); errors.As(err, &out) {
			return cli.End(stderr, "flows", out)
		} else if err != nil {
			cli.PrintError(stderr, "flows", name, err)
			status = cli.Failed
		}
	}
	if err == nil {
		err = c.printSamples()
	}
	if err != nil {
		return cli.End(stderr, "flows", err)
	}
	return status
}

func newCollector(o *options) *collector {
	return &collector{options: o, decoder: o.decoder, agents: map[agentKey]*agent{},
		sources: map[netip.Prefix]*sflowSource{},
		counts:  sflowCounts{Sampled: true, Total: true}, discarded: map[string]uint64{}}
}

// receiveDatagrams counts the datagrams to a socket, until an interrupt.
func (c *collector) receiveDatagrams(ctx context.Context, stderr io.Writer) error {
	in, err := netio.ListenUDP(c.sflow)
	if err != nil {
		return fmt.Errorf("-sflow: %w", err)
	}
	defer in.Close()
	poll, err := netio.NewPoll(ctx, in)
	if err != nil {
		return err
	}
	defer poll.Close()
	fmt.Fprintf(stderr, "rocecn flows: receiving sFlow at %v\n", in.Local())
	limit := time.Duration(-1)
	if c.interval > 0 {
		limit = min(c.interval, 200*time.Millisecond)
	}
	for {
		_, packets, err := poll.Next(limit)
		if err == io.EOF {
			cli.PrintDropped(stderr, "flows", in.Lost(), "datagram")
			return nil
		} else if err != nil {
			return err
		}
		for i := range packets {
			var d rocev2.Datagram
			if d.DecodeIP(packets[i].Data) == nil {
				if err := c.countDatagram(d.Data, d.Src, packets[i].Time); err != nil {
					return err
				}
			}
		}
		if len(packets) == 0 && c.interval > 0 {
			if err := c.advanceTo(time.Now()); err != nil {
				return err
			}
		}
	}
}

// readCapture counts the datagrams in a capture, or on an interface.
func (c *collector) readCapture(ctx context.Context, name string, stderr io.Writer) error {
	in, err := c.inputs.Open(ctx, name, func(int64) error {
		if c.inputs.Live && c.interval > 0 { // nothing comes
			return c.advanceTo(time.Now())
		}
		return nil
	}, nil)
	if err != nil {
		return err
	}
	defer in.Close()
	defer func() { cli.PrintDropped(stderr, "flows", in.Dropped(), "packet") }()
	var r capture.Record
	var f rocev2.Frame
	for {
		switch err := in.Next(&r); {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		case !r.Supported():
			continue
		}
		var d rocev2.Datagram
		f.Decode(r.Data, r.Options())
		if v := f.Outer(); v.Mirrored() || v.Datagram(&d, c.port) != nil {
			continue
		}
		if err := c.countDatagram(d.Data, d.Src, r.Time); err != nil {
			return err
		}
	}
}

// countDatagram counts the samples of a datagram that came from an address at a time, in its interval.
func (c *collector) countDatagram(b []byte, from netip.Addr, at time.Time) error {
	if c.interval > 0 {
		if err := c.advanceTo(at); err != nil {
			return err
		}
	}
	c.countSamples(b, from, at)
	return nil
}

// countSamples counts the samples of a datagram that came from an address at a time. It does not contain the times of
// the samples.
func (c *collector) countSamples(b []byte, from netip.Addr, at time.Time) {
	c.counts.Datagrams++
	var d sflow.Datagram
	switch err := d.Decode(b); err {
	case nil:
	case sflow.ErrVersion4:
		c.counts.Version4++
		return
	default:
		c.counts.Broken++
		return
	}
	a, place := c.lookUpAgent(&d, sourcePrefix(from), maphash.Bytes(hashSeed, b), at)
	if place == again {
		c.counts.Duplicates++
		return
	}
	broken := false
	for {
		var s sflow.Sample
		ok, err := d.Next(&s)
		broken = broken || err != nil || ok && s.Rate == 0 && !s.Discarded && !s.Unknown
		if !ok {
			if broken {
				c.counts.Broken++
			}
			return
		}
		c.countSample(&s, d.Agent, a, place, from, at)
	}
}

// countSample counts a sample of an agent, in a datagram from an address. a is the state of the agent, or nil if it is
// not in the table.
func (c *collector) countSample(s *sflow.Sample, address netip.Addr, a *agent, place place, source netip.Addr,
	at time.Time,
) {
	switch {
	case s.Unknown:
		if c.counts.Unknown == nil {
			c.counts.Unknown = map[string]uint64{}
		}
		countNamed(c.counts.Unknown, fmt.Sprintf("%d:%d", s.Format>>12, s.Format&0xFFF), maxFormats)
		return
	case s.Discarded:
		c.counts.Discarded++
	default:
		c.counts.Samples++
	}
	from := flows.SamplePoint{Agent: address, Type: s.SourceType, Index: s.SourceIndex}
	switch {
	case a == nil || !c.admitPoint(a, from, s, place, at):
		c.counts.Refused++
	case s.Rate == 0 && !s.Discarded:
	case s.Header == nil:
		c.counts.WithoutHeader++
	default:
		var p flows.Packet
		c.decoder.Decode(&p, s.Header, s.Options)
		sample := flows.Sample{SamplePoint: from, Rate: s.Rate, Queue: queueOf(s, address), Source: source}
		switch {
		case c.into != nil && s.Discarded:
			c.into.ObserveDiscard(&p, sample.Queue.EgressQueue, reasonOf(s), at)
		case c.into != nil:
		case !s.Discarded:
			c.samples.Observe(&p, sample, at)
		default:
			if reason := reasonOf(s); c.samples.ObserveDiscard(&p, sample, reason, at) {
				countNamed(c.discarded, reason, maxReasons)
			}
		}
	}
}

// countNamed counts a name that comes from the network: after most names the others count as "other".
func countNamed(counts map[string]uint64, name string, most int) {
	if _, known := counts[name]; !known && len(counts) >= most {
		name = flows.OtherReason
	}
	counts[name]++
}

// A place is that of a datagram among those of its agent.
type place uint8

const (
	inOrder place = iota // newer than all others
	late                 // before the last one
	again                // that of one that has come, and it is the same
)

// lookUpAgent returns the agent of a datagram, or nil if the table is full, and the place of the datagram. It counts
// the datagrams that are lost before it.
func (c *collector) lookUpAgent(d *sflow.Datagram, from netip.Prefix, hash uint64, at time.Time) (*agent, place) {
	k := agentKey{d.Agent, d.SubAgent}
	a := c.agents[k]
	if a == nil {
		if len(c.agents) >= maxAgents {
			c.removeIdle(at)
		}
		if len(c.agents) >= maxAgents && !c.evictAgent(from) {
			return nil, inOrder
		}
		a = &agent{next: d.Sequence, points: map[flows.SamplePoint]*dataSource{}, source: from}
		if c.sources[from] == nil {
			c.sources[from] = new(sflowSource)
		}
		c.sources[from].agents++
		c.agents[k] = a
		c.counts.Agents++
	}
	a.last = at
	recent := &a.recent[d.Sequence%uint32(len(a.recent))]
	if *recent == hash {
		return a, again
	}
	*recent = hash
	switch {
	case d.Sequence-a.next <= 1<<31:
		c.counts.Lost += uint64(d.Sequence - a.next)
	case a.uptime-d.Uptime < longLate: // out of order: it counted as lost
		c.counts.Lost -= min(c.counts.Lost, 1)
		return a, late
	} // or it was restarted
	a.next, a.uptime = d.Sequence+1, d.Uptime
	return a, inOrder
}

// removeIdle removes the agents and points that sent nothing for [maxIdle]. It checks all of them at most once
// a second, so that datagrams of forged agents cost little.
func (c *collector) removeIdle(now time.Time) {
	if since := now.Sub(c.cleared); since >= 0 && since < time.Second {
		return
	}
	c.cleared = now
	for k, a := range c.agents {
		idle := now.Sub(a.last) >= maxIdle
		for p, of := range a.points {
			if idle || now.Sub(of.last) >= maxIdle {
				c.removePoint(a, p)
			}
		}
		if idle {
			c.removeAgent(k)
		}
	}
}

func (c *collector) removePoint(a *agent, p flows.SamplePoint) {
	c.fullPoints = failedEviction{}
	delete(a.points, p)
	c.sources[a.source].points--
	c.counts.Points--
}

func (c *collector) removeAgent(k agentKey) {
	c.fullAgents = failedEviction{}
	a := c.agents[k]
	for p := range a.points {
		c.removePoint(a, p)
	}
	delete(c.agents, k)
	if c.sources[a.source].agents--; c.sources[a.source].agents == 0 {
		delete(c.sources, a.source)
	}
	c.counts.Agents--
}

// Evictions from a full table remove several entries together, and after one that found none the next ones that would
// find none either are skipped. So datagrams of forged agents cost little, although an eviction checks all entries.
const (
	evictedTogether  = 64
	skippedEvictions = 64
)

// A failedEviction is the last eviction, if it found no entry to remove.
type failedEviction struct {
	own  int // entries of the prefix of the new entry
	skip int // further evictions to be skipped
}

// skips reports whether an eviction for a prefix with this number of entries is skipped.
func (f *failedEviction) skips(own int) bool {
	if f.skip == 0 || own < f.own {
		return false
	}
	f.skip--
	return true
}

// A victim is an agent, or one of its points, that may be evicted.
type victim struct {
	key     agentKey
	of      *agent
	point   flows.SamplePoint // zero for an agent
	sampled bool              // an agent with samples: agents without are evicted first
	last    time.Time
}

// evictAgent evicts agents from the full table for one of a prefix, and reports whether it did. It removes the agents
// that were idle longest of those without samples, or else of those of a prefix with more than a quarter of all
// agents and more than the new one's.
func (c *collector) evictAgent(from netip.Prefix) (evicted bool) {
	own := 0
	if s := c.sources[from]; s != nil {
		own = s.agents
	}
	if c.fullAgents.skips(own) {
		return false
	}
	mayEvict := func(a *agent) bool {
		n := c.sources[a.source].agents
		return !a.sampled || n > maxAgents/4 && n > own
	}
	var victims []victim
	for k, a := range c.agents {
		if mayEvict(a) {
			victims = append(victims, victim{key: k, of: a, sampled: a.sampled, last: a.last})
		}
	}
	evicted = evictOldest(victims, mayEvict, func(v *victim) { c.removeAgent(v.key) })
	if !evicted {
		c.fullAgents = failedEviction{own, skippedEvictions}
	}
	return evicted
}

// evictPoint evicts points from the full table for one of an agent, and reports whether it did. It removes the points
// that were idle longest of those of a prefix with more than a quarter of all points and more than the agent's.
func (c *collector) evictPoint(by *agent) (evicted bool) {
	own := c.sources[by.source].points
	if c.fullPoints.skips(own) {
		return false
	}
	mayEvict := func(a *agent) bool {
		n := c.sources[a.source].points
		return n > maxPoints/4 && n > own
	}
	var victims []victim
	for k, a := range c.agents {
		if !mayEvict(a) {
			continue
		}
		for p, source := range a.points {
			victims = append(victims, victim{key: k, of: a, point: p, last: source.last})
		}
	}
	evicted = evictOldest(victims, mayEvict, func(v *victim) { c.removePoint(v.of, v.point) })
	if !evicted {
		c.fullPoints = failedEviction{own, skippedEvictions}
	}
	return evicted
}

// evictOldest removes the victims without samples that were idle longest, or if there are none, those with samples, and
// reports whether there was one. mayEvict may change with each removed victim.
func evictOldest(victims []victim, mayEvict func(*agent) bool, remove func(*victim)) (evicted bool) {
	slices.SortFunc(victims, func(a, b victim) int {
		if a.sampled != b.sampled {
			if a.sampled {
				return 1
			}
			return -1
		}
		return cmp.Or(a.last.Compare(b.last), a.key.address.Compare(b.key.address),
			cmp.Compare(a.key.part, b.key.part), cmp.Compare(a.point.Type, b.point.Type),
			cmp.Compare(a.point.Index, b.point.Index))
	})
	for i := range victims[:min(len(victims), evictedTogether)] {
		if v := &victims[i]; mayEvict(v.of) && v.sampled == victims[0].sampled {
			remove(v)
			evicted = true
		}
	}
	return evicted
}

// admitPoint reports whether a point is in the table, or can be added, and counts the samples that the agent dropped.
func (c *collector) admitPoint(a *agent, p flows.SamplePoint, s *sflow.Sample, place place, at time.Time) bool {
	of := a.points[p]
	if of == nil {
		if c.counts.Points >= maxPoints {
			c.removeIdle(at)
		}
		if c.counts.Points >= maxPoints && !c.evictPoint(a) {
			return false
		}
		of = new(dataSource)
		a.points[p] = of
		c.sources[a.source].points++
		c.counts.Points++
	}
	of.last = at
	a.sampled = true
	drops := &of.sampled // the two kinds of samples have numbers of their own
	if s.Discarded {
		drops = &of.discarded
	}
	if drops.known && place == late { // the last one is newer
		return true
	}
	if more := s.Drops - drops.n; drops.known && more < 1<<31 { // else it was restarted
		c.counts.Drops += uint64(more)
	}
	*drops = lastDrops{s.Drops, true}
	return true
}

// advanceTo prints the interval that ends before or at t, and begins the next.
func (c *collector) advanceTo(t time.Time) error {
	if !c.to.IsZero() && t.Before(c.to) && c.from.Sub(t) <= stepBack {
		return nil
	}
	if !c.to.IsZero() {
		if err := c.printSamples(); err != nil {
			return err
		}
		c.samples = flows.NewSamples(c.table.MaxFlows)
		c.counts = sflowCounts{Sampled: true, Total: true, Agents: c.counts.Agents, Points: c.counts.Points}
		clear(c.discarded)
	}
	c.from, c.to = t, t.Add(c.interval)
	return nil
}

// printSamples prints the samples of the present interval, or all of them.
func (c *collector) printSamples() error {
	all := slices.DeleteFunc(c.samples.Snapshot(), func(s flows.Sampled) bool { return !c.choice.choosesSampled(&s) })
	slices.SortStableFunc(all, func(a, b flows.Sampled) int {
		return cmp.Or(cmp.Compare(countDiscards(b.Discards), countDiscards(a.Discards)),
			cmp.Compare(b.ECN[rocev2.CE]+countNotifications(&b.Answers),
				a.ECN[rocev2.CE]+countNotifications(&a.Answers)),
			cmp.Compare(busiestPoint(&b).Packets, busiestPoint(&a).Packets))
	})
	var verdicts []triage.Verdict
	if c.explains {
		verdicts = triage.ExplainDiscards(all)
	}
	rest := 0
	if c.top > 0 && len(all) > c.top {
		rest, all = len(all)-c.top, all[:c.top]
	}
	s := c.samples.Stats()
	total := c.counts
	total.Refused += c.samples.Refused()
	total.Evicted = c.samples.Evicted()
	total.Others, total.BrokenPackets, total.Truncated = s.Others, s.Broken, s.Truncated
	if c.form != "json" {
		c.printTable(all, rest, &total)
		for i := range verdicts {
			c.out.Write(c.human.appendVerdict(&verdicts[i]))
		}
		return cli.Output(c.out.Flush())
	}
	out := cli.NewJSON(c.out)
	var err error
	if len(c.discarded) > 0 {
		err = out.Encode(discardedCaptureLine{true, c.intervalLine(), c.discarded})
	}
	for i := range verdicts {
		err = cmp.Or(err, out.Encode(verdictLineOf(&verdicts[i])))
	}
	for i := range all {
		err = cmp.Or(err, out.Encode(sampledLineOf(&all[i], c.intervalLine())))
	}
	return cli.Output(cmp.Or(err, out.Encode(struct {
		Interval *intervalLine `json:"interval,omitempty"`
		sflowCounts
	}{c.intervalLine(), total}), c.out.Flush()))
}

// intervalLine returns the present interval, nil if there is none.
func (c *collector) intervalLine() *intervalLine {
	if c.to.IsZero() {
		return nil
	}
	return &intervalLine{formatTime(c.from.UTC()), formatTime(c.to.UTC())}
}

// countNotifications returns the number of notifications.
func countNotifications(a *flows.Answers) uint64 {
	return a.CNPs + a.FastCNPs + a.PPFC + a.FCN + a.Proxy
}

// busiestPoint returns the point with the highest estimate. All counts are 0 if only discarded packets are known.
func busiestPoint(s *flows.Sampled) flows.PointSamples {
	if len(s.Points) == 0 {
		return flows.PointSamples{}
	}
	return slices.MaxFunc(s.Points, func(a, b flows.PointSamples) int { return cmp.Compare(a.Packets, b.Packets) })
}

// A sampledLine is the JSON object of samples to a queue pair.
type sampledLine struct {
	Sampled   bool               `json:"sampled"`
	Src       netip.Addr         `json:"src"`
	Dst       netip.Addr         `json:"dst"`
	DestQP    *uint32            `json:"dest_qp,omitempty"`
	Transport string             `json:"transport,omitempty"`
	First     string             `json:"first"`
	Last      string             `json:"last"`
	Interval  *intervalLine      `json:"interval,omitempty"`
	VLAN      uint16             `json:"vlan,omitempty"`
	PCP       []int              `json:"pcp,omitempty"`
	SrcMAC    string             `json:"src_mac,omitempty"`
	DstMAC    string             `json:"dst_mac,omitempty"`
	SrcPort   uint16             `json:"src_port,omitempty"`
	Varies    []string           `json:"varies,omitempty"`
	DSCP      []int              `json:"dscp,omitempty"`
	Requests  *sampledRequests   `json:"sampled_requests,omitempty"`
	Answers   sampledAnswers     `json:"sampled_answers,omitzero"`
	Points    []sampledPointLine `json:"points"`
	Elsewhere uint64             `json:"samples_elsewhere,omitempty"`

	Discarded  map[string]uint64 `json:"discarded,omitempty"`
	Discards   []discardsLine    `json:"discarded_at,omitempty"`
	WorstQueue *queueSampleLine  `json:"worst_queue,omitempty"`
}

type (
	sampledRequests struct {
		Packets  uint64  `json:"packets"`
		IPOctets uint64  `json:"ip_octets"`
		ECN      ecnLine `json:"ecn"`
	}
	sampledAnswers struct {
		Responses uint64            `json:"responses,omitempty"`
		ACKs      uint64            `json:"acks,omitempty"`
		NAKs      map[string]uint64 `json:"naks,omitempty"`
		RNRNAKs   uint64            `json:"rnr_naks,omitempty"`
		CNPs      uint64            `json:"cnps,omitempty"`
		Fast      uint64            `json:"fast_cnps,omitempty"`
		PPFC      uint64            `json:"ppfc,omitempty"`
		FCN       uint64            `json:"fcn,omitempty"`
		Proxy     uint64            `json:"proxy,omitempty"`
	}
	sampledPointLine struct {
		Agent    netip.Addr `json:"agent"`
		Source   string     `json:"source"`
		Rate     uint32     `json:"sampling_rate"`
		Samples  uint64     `json:"samples"`
		Packets  uint64     `json:"estimated_packets"`
		IPOctets uint64     `json:"estimated_ip_octets"`
	}
)

func sampledLineOf(s *flows.Sampled, during *intervalLine) *sampledLine {
	counted := countedLineOf(&s.Answers)
	l := &sampledLine{Sampled: true, Src: s.Src, Dst: s.Dst, First: formatTime(s.First), Last: formatTime(s.Last),
		Interval: during, Elsewhere: s.OtherPoints, Points: []sampledPointLine{},
		Answers: sampledAnswers{
			s.Responses, s.ACKs, counted.NAKs, s.RNRNAKs, s.CNPs, s.FastCNPs, s.PPFC, s.FCN, s.Proxy,
		}}
	if s.WithQP {
		l.DestQP = &s.DestQP
	}
	if len(counted.NAKs) == 0 {
		l.Answers.NAKs = nil
	}
	if s.Requests.Packets > 0 {
		l.Transport, l.VLAN, l.PCP, l.SrcPort = s.Transport.String(), s.VLAN, setBits(uint64(s.PCP)), s.SrcPort
		l.SrcMAC, l.DstMAC, l.Varies, l.DSCP = s.SrcMAC.String(), s.DstMAC.String(), varyingFields(&s.Varies),
			setBits(s.DSCP)
		l.Requests = &sampledRequests{s.Requests.Packets, s.IPOctets, ecnLine{s.ECN[0], s.ECN[2], s.ECN[1], s.ECN[3]}}
	}
	l.Discarded, l.Discards = discardedOf(s.Discards), discardsLinesOf(s.Discards)
	l.WorstQueue = queueSampleLineOf(&s.Queue)
	for _, p := range s.Points {
		l.Points = append(l.Points, sampledPointLine{p.Agent, sourceOf(p.SamplePoint), p.Rate, p.Samples, p.Packets,
			p.IPOctets})
	}
	return l
}

// sourceOf writes a data source.
func sourceOf(p flows.SamplePoint) string { return fmt.Sprintf("%d:%d", p.Type, p.Index) }

// printTable prints samples for people.
func (c *collector) printTable(all []flows.Sampled, rest int, total *sflowCounts) {
	if d := c.intervalLine(); d != nil {
		fmt.Fprintf(c.out, "%s to %s\n", d.From, d.To)
	}
	const unknown = "gaps, losses, retransmissions, round trip times and pairs of queue pairs are unknown"
	fmt.Fprintln(c.out, "samples, not packets:", unknown)
	rows := [][]cell{{}}
	for _, name := range []string{"TO QP", "TR", "SAMPLES", "CE", "ESTIMATE", "OCTETS", "PORT", "AT"} {
		rows[0] = append(rows[0], cell{Text: name})
	}
	names := []string{"FROM AND TO"}
	var remarks [][]string
	for i := range all {
		s, p := &all[i], busiestPoint(&all[i])
		qp, transport, ce, port, at := none, none, cell{Text: none}, none, none
		if len(s.Points) > 0 {
			at = fmt.Sprintf("%v %s", p.Agent, sourceOf(p.SamplePoint))
		}
		if s.WithQP {
			qp = queuePair(s.DestQP)
		}
		if s.Requests.Packets > 0 {
			transport, port = s.Transport.String(), strconv.Itoa(int(s.SrcPort))
			ce = alarmingPart(float64(s.ECN[rocev2.CE]), yellow, "%s", formatPercent(s.ECN[rocev2.CE],
				s.Requests.Packets))
		}
		if s.Varies.SrcPort {
			port = "varies"
		}
		var n uint64
		for _, q := range s.Points {
			n += q.Samples
		}
		rows = append(rows, []cell{{Text: qp}, {Text: transport}, {Text: formatScaled(float64(n + s.OtherPoints))}, ce,
			{Text: "~" + formatScaled(float64(p.Packets))}, {Text: "~" + formatScaled(float64(p.IPOctets))},
			{Text: port}, {Text: at}})
		names = append(names, fmt.Sprintf("%v > %v", s.Src, s.Dst))
		words := formatAnswers(&s.Answers)
		if s.Responses > 0 {
			words = append(words, cli.Count(s.Responses, "response"))
		}
		if len(s.Points) > 1 {
			words = append(words, cli.Count(len(s.Points), "point"))
		}
		words = append(words, formatDiscards(s.Discards)...)
		if s.Queue.HasDepth || s.Queue.HasDelay {
			words = append(words, "deepest queue: "+formatQueueSample(&s.Queue))
		}
		remarks = append(remarks, words)
	}
	if len(all) > 0 {
		c.out.Write(c.human.appendAligned(nil, names, rows, remarks, math.MaxInt))
	}
	if rest > 0 {
		fmt.Fprintf(c.out, "and %s\n", cli.Count(rest, "more line"))
	}
	parts := []string{cli.Count(total.Datagrams, "datagram") + " of " + cli.Count(total.Agents, "agent"),
		cli.Count(total.Samples, "sample") + " at " + cli.Count(total.Points, "point")}
	if total.Discarded > 0 {
		parts = append(parts, cli.Count(total.Discarded, "drop notification")+formatReasons(c.discarded))
	}
	for _, n := range []struct {
		n          uint64
		noun, then string
	}{
		{total.Lost, "datagram", " lost"}, {total.Duplicates, "datagram", " received twice"},
		{total.Broken, "datagram", " broken"}, {total.Drops, "sample", " dropped by agents"},
		{total.WithoutHeader, "sample", " without a header"},
		{total.Refused, "sample", " not counted because a table was full"},
		{total.Evicted, "queue pair", " removed to make room for those of another source"},
		{total.Others, "other packet", ""}, {total.BrokenPackets, "broken packet", ""},
		{total.Truncated, "truncated packet", ""},
	} {
		if n.n > 0 {
			parts = append(parts, cli.Count(n.n, n.noun)+n.then)
		}
	}
	if total.Version4 > 0 {
		parts = append(parts, cli.Count(total.Version4, "datagram")+" of sFlow version 4 (only version 5 is decoded)")
	}
	for _, format := range slices.Sorted(maps.Keys(total.Unknown)) {
		parts = append(parts, cli.Count(total.Unknown[format], "sample")+" of the unknown format "+format)
	}
	for _, line := range wrapParts(parts, columns) {
		fmt.Fprintln(c.out, line)
	}
}
