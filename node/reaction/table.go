package reaction

import (
	"fmt"
	"iter"
	"net/netip"
	"time"

	"github.com/rocecn/rocecn/internal/clock"
	"github.com/rocecn/rocecn/internal/flowtable"
	"github.com/rocecn/rocecn/ioam"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/pause"
	"github.com/rocecn/rocecn/ppfc"
)

// TableConfig is the configuration of a [Table]. If it is not Enabled, the
// Table limits no flow.
type TableConfig struct {
	Enabled bool

	// DCQCN reacts to CNPs and Fast CNPs. Its Line is the rate of the port for the whole table.
	DCQCN DCQCNConfig

	// HPCC, if enabled, reacts in place of DCQCN to the Fast CNPs with a trace of queue depths. The slower of the two
	// counts.
	HPCC HPCCConfig
	// Bandwidth is the bandwidth of each port in a trace, in bits a second, because IOAM has no field for it. 0
	// stands for Line.
	Bandwidth uint64

	// MaxFlows is the number of flows that are kept, 1,024 by default. A new one in a full table evicts the one that
	// was notified longest ago, which then sends at full rate.
	MaxFlows int
	// Idle is the time without a packet or a notification after which a flow is removed; 0 stands for 10 s.
	Idle time.Duration
	// MaxPause is the longest duration of a stop or hold; 0 stands for [ppfc.MaxPause], the longest that a PPFC can
	// request.
	MaxPause time.Duration
}

const (
	defaultFlows = 1 << 10
	mostFlows    = 1 << 20
	defaultIdle  = 10 * time.Second
)

func (c *TableConfig) checkFields() error {
	for _, wrong := range []struct {
		invalid bool
		key     string
		value   any
		want    string
	}{
		{c.DCQCN.Line == 0 || c.DCQCN.Line > maxLine, "DCQCN.Line", c.DCQCN.Line, "1 to 2^50 bits a second"},
		{c.HPCC.Enabled && c.HPCC.Line != c.DCQCN.Line, "HPCC.Line", c.HPCC.Line,
			fmt.Sprintf("%d, the line rate of DCQCN", c.DCQCN.Line)},
		{c.Bandwidth > maxLine, "Bandwidth", c.Bandwidth, "at most 2^50 bits a second"},
		{c.MaxFlows < 0 || c.MaxFlows > mostFlows, "MaxFlows", c.MaxFlows, "0 to 2^20"},
		{c.Idle < 0, "Idle", c.Idle, "0 or more"},
		{c.MaxPause < 0 || c.MaxPause > ppfc.MaxPause, "MaxPause", c.MaxPause, fmt.Sprintf("0 to %v", ppfc.MaxPause)},
	} {
		if wrong.invalid {
			return &ConfigError{wrong.key, wrong.value, wrong.want}
		}
	}
	return nil
}

// A FlowID identifies a flow of the host: its destination, and the queue pair there, 24 bits.
type FlowID struct {
	Dst    netip.Addr
	DestQP uint32
}

// An Order is the permitted rate of a flow, or its pause.
type Order struct {
	Flow FlowID
	Rate uint64        // rate in bits a second; that of the port if the flow is not limited
	Stop time.Duration // time for which the flow must not send, before it sends at Rate
	Gone bool          // the flow was removed from the table and is not limited
}

// A Table has the reaction points of the flows of a host. It contains the flows
// that were notified, until they are idle. It has no clock: see [Table.Next].
// It is not safe for concurrent use.
type Table struct {
	cfg       TableConfig
	dcqcn     *DCQCN
	hpcc      *HPCC
	bandwidth func(ioam.Node) uint64
	flows     flowtable.Table[flowtable.Key, reacting]
	clock     clock.Clock
	next      int64 // by the clock: when Advance has something to do; never before it
	gone      []FlowID
	pending   bool // some flow has changed
	hops      []Hop
	stats     TableStats
}

// A reacting flow is one of a Table.
type reacting struct {
	dcqcn DCQCNFlow
	hpcc  HPCCFlow
	brake Brake

	stopped, held int64 // until when, by the clock
	used          int64 // when it sent or was notified
	rate          uint64
	changed       bool // since Changes last returned it
	returned      bool // Changes has returned it at least once
}

// TableStats are the counters and the state of a Table.
type TableStats struct {
	Flows  int    // flows in the table
	Slowed int    // flows in the table that are stopped or slower than the port
	Least  uint64 // lowest rate of a flow in bits a second: 0 if one is stopped, that of the port if none is limited

	Cuts    uint64 // number of times that a rate fell
	Stops   uint64 // number of times that a flow was stopped
	Evicted uint64 // flows that were evicted from the full table
}

// NewTable returns a Table, or a *[ConfigError]. A TableConfig that is off is not checked.
func NewTable(cfg TableConfig) (*Table, error) {
	t := &Table{}
	return t, t.Configure(cfg)
}

// Configure changes the configuration. If only Idle and MaxPause differ, rates
// stay; otherwise all flows are removed. On error nothing has changed.
func (t *Table) Configure(cfg TableConfig) error {
	if !cfg.Enabled {
		t.forgetAll()
		t.cfg = cfg
		return nil
	}
	if err := cfg.checkFields(); err != nil {
		return err
	}
	dcqcn, err := NewDCQCN(cfg.DCQCN)
	if err != nil {
		return err
	}
	hpcc, err := NewHPCC(cfg.HPCC)
	if err != nil {
		return err
	}
	cfg.MaxFlows, cfg.Idle = valueOr(cfg.MaxFlows, defaultFlows), valueOr(cfg.Idle, defaultIdle)
	cfg.MaxPause, cfg.Bandwidth = valueOr(cfg.MaxPause, ppfc.MaxPause), valueOr(cfg.Bandwidth, cfg.DCQCN.Line)
	same := t.cfg
	same.Idle, same.MaxPause = cfg.Idle, cfg.MaxPause
	t.next = 0
	if same == cfg {
		t.cfg = cfg
		return nil
	}
	t.forgetAll()
	t.cfg, t.dcqcn, t.hpcc = cfg, dcqcn, hpcc
	t.flows = flowtable.New[flowtable.Key, reacting](cfg.MaxFlows, true, (*flowtable.Key).Hash)
	t.bandwidth = func(ioam.Node) uint64 { return cfg.Bandwidth }
	t.hops = make([]Hop, 0, 64)
	return nil
}

func valueOr[T int | uint64 | time.Duration](x, otherwise T) T {
	if x == 0 {
		return otherwise
	}
	return x
}

// Line returns the rate of the port, in bits a second.
func (t *Table) Line() uint64 { return t.cfg.DCQCN.Line }

// Max returns the maximum number of flows.
func (t *Table) Max() int { return t.cfg.MaxFlows }

// React carries out the request of a decision about a flow of the host.
// [node.RequestSlowDown] reduces the rate by DCQCN or HPCC; [node.RequestStop],
// [node.RequestHold] and [node.RequestResume] use a [Brake]. It reports whether
// the decision has one of these requests. The caller determines the flow,
// because a CNP does not name it. Do not call React for a decision without a
// known queue pair.
func (t *Table) React(d *node.Decision, flow FlowID, now time.Time) bool {
	pauses := d.KnownQP && (d.Request == node.RequestStop || d.Request == node.RequestHold ||
		d.Request == node.RequestResume)
	if !t.cfg.Enabled || !pauses && !asksToSlowDown(d) || !flow.Dst.IsValid() {
		return false
	}
	at := t.clock.Ticks(now)
	t.advanceFlows(at)
	k, q, id := t.findFlow(flow)
	switch {
	case q == nil && pauses && d.Request == node.RequestResume:
		return true // it runs
	case q == nil:
		q, id = t.addFlow(&k)
	}
	q.used = at
	t.flows.Renew(id, 0)
	if pauses {
		t.pauseFlow(q, d, at)
	} else {
		t.notifyFlow(q, d, at)
	}
	t.updateOrder(q, at)
	return true
}

// findFlow looks for a flow; nil, if it is not kept.
func (t *Table) findFlow(flow FlowID) (k flowtable.Key, q *reacting, id uint32) {
	k = flowtable.KeyOf(netip.Addr{}, flow.Dst, flow.DestQP, 0)
	q, id = t.flows.Find(&k, k.Hash(t.flows.Seed))
	return k, q, id
}

// flowOf returns which flow one is.
func (t *Table) flowOf(id uint32) FlowID {
	k := t.flows.Key(id)
	return FlowID{k.FlowKey().Dst, k.DestQP()}
}

// addFlow makes a flow, in the place of another one if need be.
func (t *Table) addFlow(k *flowtable.Key) (*reacting, uint32) {
	if t.flows.Full() {
		t.stats.Evicted++
		t.removeFlow(t.flows.Oldest(0))
	}
	id := t.flows.Add(k, k.Hash(t.flows.Seed), 0)
	q := t.flows.Value(id)
	*q = reacting{dcqcn: t.dcqcn.Start(), hpcc: t.hpcc.Start(), rate: t.Line()}
	return q, id
}

// removeFlow lets a flow go.
func (t *Table) removeFlow(id uint32) {
	if t.flows.Value(id).returned {
		t.gone = append(t.gone, t.flowOf(id))
	}
	t.flows.Remove(id)
}

func (t *Table) forgetAll() {
	for id := range t.flows.All() {
		t.removeFlow(id)
	}
}

// unixTime returns a time of the clock as reaction points want it.
func unixTime(at int64) time.Time { return time.Unix(0, at) }

// notifyFlow notifies the reaction points.
func (t *Table) notifyFlow(q *reacting, d *node.Decision, at int64) {
	if t.cfg.HPCC.Enabled && d.Trace != nil {
		t.hops = Hops(t.hops[:0], d.Trace, ioam.TimeFormatPTP, t.bandwidth)
		for i := range t.hops[:min(len(t.hops), MaxHops)] {
			if t.hops[i].QLen > 0 {
				q.hpcc.Notified(t.hops, unixTime(at))
				return
			}
		}
	}
	q.dcqcn.Notified(unixTime(at))
}

// pauseFlow applies the request of a PPFC.
func (t *Table) pauseFlow(q *reacting, d *node.Decision, at int64) {
	until := at + int64(min(d.Pause, t.cfg.MaxPause))
	switch d.Request {
	case node.RequestStop:
		q.stopped = until
		t.stats.Stops++
	case node.RequestHold:
		q.held = until
	case node.RequestResume:
		q.stopped, q.held = 0, 0
	}
	q.changed, t.pending = true, true
}

// rateAndNext returns the rate of the reaction points, and the time of the next update.
func (t *Table) rateAndNext(q *reacting) (rate uint64, next int64) {
	rate, next = q.dcqcn.Rate(), int64(1<<62)
	if due, ok := q.dcqcn.Next(); ok {
		next = due.UnixNano()
	}
	if t.cfg.HPCC.Enabled {
		rate = min(rate, q.hpcc.Rate())
		if due, ok := q.hpcc.Next(); ok {
			next = min(next, due.UnixNano())
		}
	}
	return rate, next
}

// updateOrder stores the rate of a flow and the time of its next update.
func (t *Table) updateOrder(q *reacting, at int64) {
	rate, next := t.rateAndNext(q)
	switch {
	case q.stopped > at:
		q.brake.Set(pause.StateStopped, unixTime(q.stopped), rate)
		next = min(next, q.stopped)
	case q.held > at:
		q.brake.Set(pause.StateHeld, unixTime(q.held), rate)
		next = min(next, q.held)
		rate = q.brake.Rate(rate, unixTime(at))
	default:
		q.brake.Set(pause.StateRunning, time.Time{}, rate)
	}
	if rate < q.rate {
		t.stats.Cuts++
	}
	if rate != q.rate {
		q.rate, q.changed, t.pending = rate, true, true
	}
	t.next = min(t.next, next, q.used+int64(t.cfg.Idle))
}

// Sent counts octets that a flow has sent since the last call. It ignores flows
// that are not in the table.
func (t *Table) Sent(flow FlowID, octets uint64, now time.Time) {
	_, q, _ := t.findFlow(flow)
	if q == nil || octets == 0 {
		return
	}
	at := t.clock.Ticks(now)
	q.used = at
	// A flow ends a stage of its byte counter at most with each packet, which these are many of.
	for stage := valueOr(t.cfg.DCQCN.ByteCounter, 1<<30); octets > 0; {
		part := min(octets, stage, 1<<30)
		q.dcqcn.Sent(part, unixTime(at))
		octets -= part
	}
	t.updateOrder(q, at)
}

// Advance performs the changes that are due: rates rise, stops end, and idle
// flows are removed. The time that it takes is linear in the flows of the
// table; before the time of Next it returns immediately.
func (t *Table) Advance(now time.Time) { t.advanceFlows(t.clock.Ticks(now)) }

func (t *Table) advanceFlows(at int64) {
	if at < t.next {
		return
	}
	t.next = 1 << 62
	for id := range t.flows.All() {
		q := t.flows.Value(id)
		if at-q.used >= int64(t.cfg.Idle) {
			t.removeFlow(id)
			continue
		}
		q.dcqcn.Advance(unixTime(at))
		if t.cfg.HPCC.Enabled {
			q.hpcc.Advance(unixTime(at))
		}
		t.updateOrder(q, at)
	}
}

// Next returns the time at which Advance has something to do; the result is
// false if the table is empty.
func (t *Table) Next(now time.Time) (time.Time, bool) {
	at := t.clock.Ticks(now)
	if t.flows.Len() == 0 {
		return time.Time{}, false
	}
	return now.Add(time.Duration(max(t.next-at, 0))), true
}

// Now returns the order for a flow. A flow that is not in the table is not
// limited.
func (t *Table) Now(flow FlowID, now time.Time) Order {
	t.Advance(now)
	_, q, _ := t.findFlow(flow)
	if q == nil {
		return Order{Flow: flow, Rate: t.Line(), Gone: true}
	}
	return t.orderFor(flow, q)
}

func (t *Table) orderFor(flow FlowID, q *reacting) Order {
	return Order{Flow: flow, Rate: q.rate, Stop: time.Duration(max(q.stopped-t.clock.Now(), 0))}
}

// Changes yields the flows with an order that may differ from that of the
// previous call: first the removed flows, then the others. The loop must not
// use the Table.
func (t *Table) Changes(now time.Time) iter.Seq[Order] {
	return func(yield func(Order) bool) {
		t.clock.Ticks(now)
		for n, flow := range t.gone {
			if !yield(Order{Flow: flow, Rate: t.Line(), Gone: true}) {
				t.gone = append(t.gone[:0], t.gone[n+1:]...)
				return
			}
		}
		t.gone = t.gone[:0]
		if !t.pending {
			return
		}
		for id := range t.flows.All() {
			q := t.flows.Value(id)
			if !q.changed {
				continue
			}
			q.changed, q.returned = false, true
			if !yield(t.orderFor(t.flowOf(id), q)) {
				return
			}
		}
		t.pending = false
	}
}

// All yields the orders of all flows in the table. The loop must not use the
// Table.
func (t *Table) All() iter.Seq[Order] {
	return func(yield func(Order) bool) {
		for id := range t.flows.All() {
			if !yield(t.orderFor(t.flowOf(id), t.flows.Value(id))) {
				return
			}
		}
	}
}

// Stats returns the counters and the state of the flows at the latest time of a
// call.
func (t *Table) Stats() TableStats {
	s := t.stats
	s.Flows, s.Least = t.flows.Len(), t.Line()
	for id := range t.flows.All() {
		q := t.flows.Value(id)
		rate := q.rate
		if q.stopped > t.clock.Now() {
			rate = 0
		}
		if rate < t.Line() {
			s.Slowed++
		}
		s.Least = min(s.Least, rate)
	}
	return s
}
