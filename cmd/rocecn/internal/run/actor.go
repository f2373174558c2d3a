package run

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/bmp"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/prometheus"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/roles"
	"github.com/rocecn/rocecn/internal/wire"
	"github.com/rocecn/rocecn/netio"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/congested"
	"github.com/rocecn/rocecn/node/reaction"
	"github.com/rocecn/rocecn/rocev2"
)

// An actor plays one role of the agent.
type actor struct {
	roles.Driver
	instance     *roles.Instance
	server       *server
	out          *outlet         // nil if the role sends nothing
	live         bool            // it has a live source
	isSwitch     bool            // the role uses queue levels
	queued       bool            // a queue was above level 0
	rates        *reaction.Table // rate table of the role, or nil
	inKernel     bool            // the kernel plays the role or paces its flows
	closedCounts kernelCounts    // counts of kernel programs that are closed

	devicePairs   *atomic.Pointer[roles.Device] // queue pairs of the RDMA devices; replaced at each start
	receivedPairs *roles.Device                 // value of devicePairs that the role has
	pairsOrigin   string                        // device of receivedPairs, as the key rdma names it

	frames   int
	now      time.Time   // time on this host
	stamp    time.Time   // time stamp of the packet
	stamps   []time.Time // time stamps of packets with answers that are not flushed
	depth    uint64      // depth of the packet's queue in octets
	deep     bool        // depth is known
	digest   digest
	filledAt time.Time // last update of tables
	seen     seenTables

	counts
}

// counts are the counters of a role. Other goroutines may read them.
type counts struct {
	outcomes     [node.ActionRefused + 1]atomic.Uint64 // by action
	packets      atomic.Uint64                         // packets passed to the sink
	marksNotMade atomic.Uint64                         // marks that the agent could not set
	markedCopies atomic.Uint64                         // those of packets with the outcome marked
	sizes        [sizes]atomic.Int64                   // sizes of the role's tables
	latency      prometheus.Histogram
	rateStats    atomic.Pointer[reaction.TableStats] // nil if the role has no rates
	rejecting    atomic.Pointer[rejectingHosts]      // nil if the role is no switch
	listed       atomic.Pointer[seenStatus]          // nil until the first decision
	tables       atomic.Pointer[[]roles.Table]       // nil until the first housekeeping
}

// setRole sets the role that the actor plays.
func (a *actor) setRole(r node.Role) {
	a.Role, a.Report = r, a.handleDecision
	a.Encapsulations = a.instance.Config.Encapsulations()
	_, a.isSwitch = r.(*roles.Switch)
	a.rates = nil
	if s, ok := r.(*roles.Sender); ok {
		a.rates = s.Rates()
	}
}

// receivePacket passes a packet to the role. The level of its queue may be roles.UnknownLevel.
func (a *actor) receivePacket(p *netio.Packet, e node.Event, now time.Time) {
	a.frames++
	if !p.Supported() {
		a.outcomes[node.NoAction].Add(1)
		return
	}
	if a.isSwitch && e.Level != roles.UnknownLevel {
		a.queued = a.queued || e.Level > 0
		e.Observe = e.Observe || e.Level == 0 // not congested
	}
	a.now, a.stamp = now, p.Time
	a.depth, a.deep = p.Depth, p.DepthKnown
	a.withKernel(func(k kernelProgram) { k.preparePacket(a.Role, p) })
	a.Receive(&p.Record, e)
}

// handleDecision counts and logs a decision of the role, and sends its packet.
func (a *actor) handleDecision(d *node.Decision, packet []byte, due bool) {
	outcome := d.Action
	if outcome == node.NoAction && len(packet) > 0 {
		outcome = node.ActionForwarded // traffic that the role does not handle
	}
	if d.Action == node.ActionLearned { // before it is counted: a kernel switch then sends the host nothing more
		a.withKernel(func(k kernelProgram) { k.applyDecision(a.Role, d, a.now) })
	}
	if !due {
		a.outcomes[outcome].Add(1)
	}
	if d.MarkECN && a.live {
		a.marksNotMade.Add(1)
		if outcome == node.ActionMarked && !due {
			a.markedCopies.Add(1)
		}
	}
	if len(packet) > 0 && a.out != nil {
		a.packets.Add(1)
		a.out.now = a.stamp
		if dscp := a.out.entry.DSCP; dscp >= 0 && (d.Action == node.ActionSent || d.Action == node.ActionAccepted) {
			wire.SetTrafficClass(packet, uint8(dscp)<<2|wire.TrafficClass(packet)&3) // the ICRC does not cover the DSCP
		}
		if a.out.sendPacket(packet, a.now) && a.live && !due {
			a.stamps = append(a.stamps, a.stamp)
		}
	}
	if d.Action == node.NoAction {
		return
	}
	deep := a.deep && !due
	level := uint8(roles.UnknownLevel)
	if s, ok := a.Role.(*roles.Switch); ok {
		level = s.Level
	}
	group := a.digest.add(d)
	if s, ok := a.Role.(*roles.Sender); ok {
		g := &a.digest.groups[group]
		g.rate, g.rated = s.Rate()
	}
	a.seen.record(group, d, level, a.depth, deep, a.now)
	if a.server.lines != nil {
		a.printDecision(d, deep)
	} else if a.server.debug {
		a.logDecision(d, deep)
	}
}

// flushPackets sends the packets of decisions, and measures the time since the packets arrived.
func (a *actor) flushPackets() {
	if a.out == nil {
		return
	}
	a.out.flush()
	if len(a.stamps) == 0 {
		return
	}
	now := time.Now()
	for _, stamp := range a.stamps {
		if !stamp.IsZero() {
			a.latency.Observe(now.Sub(stamp))
		}
	}
	a.stamps = a.stamps[:0]
}

// runTimers runs due work of the role and its sink. The worker calls it every housekeepingInterval.
func (a *actor) runTimers(now time.Time, s *server) {
	if a.live {
		a.now = now
		a.Due(now)
		a.flushPackets()
	}
	a.receiveDevicePairs()
	a.withKernel(func(k kernelProgram) { k.syncRole(a.Role, now) })
	if s.lines == nil {
		a.logDigest(now, false)
	}
	a.updateSizes(now)
	if a.out != nil && !s.dry {
		log := s.log.With("sink", a.out.entry.name, "role", a.instance.Name)
		a.out.countNeighbourFates(now, log)
		a.out.maintain(now, log)
	}
}

// close closes the sink, and logs the decisions that have no line yet.
func (a *actor) close() {
	if a.out != nil {
		a.out.close()
	}
	if a.server.lines == nil {
		a.logDigest(time.Now(), true)
	}
}

// A size identifies a table of a role.
type size uint8

const (
	pairsSize     size = iota // known queue pairs
	flowsSize                 // flows with a label
	freeSize                  // further flows that could get a label
	stoppedSize               // stopped flows and ports
	unlearnedSize             // packets that were not used to learn queue pairs
	sizes
)

// updateSizes records the sizes of the role's tables.
func (a *actor) updateSizes(now time.Time) {
	a.updateRejecting(now)
	if a.rates != nil {
		if a.live {
			a.rates.Advance(now)
		}
		stats := a.rates.Stats()
		a.rateStats.Store(&stats)
	} else {
		a.rateStats.Store(nil)
	}
	if a.server.file.agent.HTTP != "" {
		_, ok := a.Role.(*roles.Switch)
		a.seen.setListsAll(ok && a.inKernel)
		if listed := a.seen.listIfDue(now); listed != nil {
			a.listed.Store(listed)
		}
	}
	if r, ok := a.Role.(roles.Tabled); ok && now.Sub(a.filledAt).Abs() >= time.Second {
		a.filledAt = now
		tables := r.Tables()
		if s := a.server.file.findBMPSource(&a.instance.Agent); s != nil && s.table != nil {
			tables = append(tables, roles.Table{Name: "proxies", Entries: s.table.Len(), Max: bmp.MaxProxies})
		}
		a.tables.Store(&tables)
	}
	if r, ok := a.Role.(roles.Sized); ok {
		n := r.Sizes()
		for size, n := range [sizes]int{n.Pairs, n.Flows, n.FreeLabels, n.Stopped, int(n.Unlearned)} {
			a.sizes[size].Store(int64(n))
		}
	}
}

// rejectingHosts are the hosts that reject Fast CNPs, as /status lists them.
type rejectingHosts struct {
	at     time.Time // when the list was made
	total  int
	listed []congested.Rejection // the first maxListed of them
}

// maxListed is the maximum of hosts that /status lists for a role.
const maxListed = 1000

// updateRejecting lists the hosts that reject Fast CNPs, at most once in a second.
func (a *actor) updateRejecting(now time.Time) {
	s, ok := a.Role.(*roles.Switch)
	if !ok {
		a.rejecting.Store(nil)
		return
	}
	if last := a.rejecting.Load(); last != nil && now.Sub(last.at).Abs() < time.Second {
		return
	}
	hosts := rejectingHosts{at: now}
	for r := range s.Rejections(now) {
		if hosts.total++; hosts.total <= maxListed {
			hosts.listed = append(hosts.listed, r)
		}
	}
	a.rejecting.Store(&hosts)
}

// resumeFlows resumes stopped flows once all queues are at level 0.
func (a *actor) resumeFlows(highest uint8) {
	if !a.isSwitch || !a.queued || highest > 0 {
		return
	}
	a.queued = false
	a.Role.Receive(nil, nil, node.Event{Now: a.now})
	a.Due(a.now)
}

// newLine returns the line about a decision, with the depth of the packet's queue if it is known.
func (a *actor) newLine(d *node.Decision, deep bool) roles.Line {
	l := roles.NewLine(a.instance.Name, a.Role, d, a.frames, a.stamp)
	if depth := a.depth; deep {
		l.Depth = &depth
	}
	return l
}

// printDecision prints a decision as play does.
func (a *actor) printDecision(d *node.Decision, deep bool) {
	octets, err := json.Marshal(a.newLine(d, deep))
	if err != nil {
		panic(err) // cannot happen: a line has only numbers and text
	}
	a.server.linesMu.Lock()
	defer a.server.linesMu.Unlock()
	a.server.lines.Write(append(octets, '\n'))
}

// logDecision logs a decision with the fields of its line, at level debug.
func (a *actor) logDecision(d *node.Decision, deep bool) {
	l := a.newLine(d, deep)
	all := attrs{slog.String("role", a.instance.Name), slog.String("action", d.Action.String())}
	all.addText("reason", d.Reason.String())
	all.addText("kind", l.Kind)
	all.addAddr("to", l.To)
	all.addAddr("from", l.From)
	all.addFlow(rocev2.FlowKey{Src: l.Src, Dst: l.Dst, DestQP: l.DestQP})
	addNumber(&all, "level", l.Level)
	addNumber(&all, "depth", l.Depth)
	addNumber(&all, "qp", l.QP)
	addNumber(&all, "rate_bps", l.RateBPS)
	addNumber(&all, "label", l.Label)
	a.server.log.LogAttrs(context.Background(), slog.LevelDebug, "decision", all...)
}

// attrs are the attributes of a line of the log. Absent values add no attribute.
type attrs []slog.Attr

func (all *attrs) addText(key, text string) {
	if text != "" {
		*all = append(*all, slog.String(key, text))
	}
}

func (all *attrs) addAddr(key string, addr netip.Addr) {
	if addr.IsValid() {
		all.addText(key, addr.String())
	}
}

func (all *attrs) addFlow(f rocev2.FlowKey) {
	all.addAddr("src", f.Src)
	all.addAddr("dst", f.Dst)
	if f.DestQP != 0 {
		addNumber(all, "dest_qp", &f.DestQP)
	}
}

// addNumber adds an attribute if the number is there.
func addNumber[N uint8 | uint32 | uint64](all *attrs, key string, n *N) {
	if n != nil {
		*all = append(*all, slog.Uint64(key, uint64(*n)))
	}
}
