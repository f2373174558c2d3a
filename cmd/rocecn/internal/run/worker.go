package run

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/roles"
	"github.com/rocecn/rocecn/netio"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/level"
)

// A worker is a goroutine with its own thread that plays some roles and reads all their sources. Roles that share
// a source share a worker, so each source is read once and a role needs no mutex.
type worker struct {
	parts  []*part
	actors []*actor
	server *server

	housekeepingAt time.Time
	halt           atomic.Bool  // set by other goroutines: end soon and leave everything open
	aliveAt        atomic.Int64 // time of the last round, in Unix nanoseconds
	done           chan struct{}
	err            error // reason for the end, or nil, also if the sources have ended
	stopped        bool  // the worker has ended for good
}

// A part is an input of a source with its state.
type part struct {
	input
	entry       *sourceEntry
	subscribers []subscriber
	source      netio.Source // nil if not open
	ended       bool         // no more packets come
	opened      bool         // has been open at least once
	retry       retry
	lastError   string           // last logged reason why the input is closed
	lostBefore  uint64           // packets lost by earlier sources of this part
	levels      map[int]measured // by interface index, 0 for an unknown interface
	names       map[int]string   // names of these interfaces
	published   atomic.Pointer[[]queue]
	up          atomic.Bool

	numbers   []int     // indexes of the watched interfaces
	checkedAt time.Time // last check of the interface indexes

	thresholds             level.Thresholds
	events, lost, reopened atomic.Uint64
}

// A subscriber is a role that receives the packets of an input.
type subscriber struct {
	*actor
	observe bool
}

// A measured level is the level of one queue, with its depth in bytes and the time of the measurement.
type measured struct {
	level uint8
	depth uint64
	at    time.Time
}

// A queue is the published state of one queue.
type queue struct {
	name  string // name of its interface, or "" if unknown
	level uint8
	depth uint64
}

// listQueues returns the queues as last published. Any goroutine may call it.
func (p *part) listQueues() []queue {
	if all := p.published.Load(); all != nil {
		return *all
	}
	return nil
}

// housekeepingInterval is the time between two checks of timers and interfaces.
const housekeepingInterval = 100 * time.Millisecond

// run runs the worker until it is halted, ctx ends or all sources have ended.
func (w *worker) run(ctx context.Context) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer w.server.wakeMain()
	defer close(w.done)
	for !w.halt.Load() && !w.stopped && w.err == nil {
		if w.runHousekeeping(time.Now()); w.err != nil {
			break
		}
		var open []*part
		var sources []netio.Source
		for _, p := range w.parts {
			if p.source != nil && !p.ended {
				open, sources = append(open, p), append(sources, p.source)
			}
		}
		switch {
		case !slices.ContainsFunc(w.parts, func(p *part) bool { return !p.ended }):
			w.stopped = true
		case len(open) > 0:
			poll, err := netio.NewPoll(ctx, sources...)
			if err != nil {
				w.err = err
				break
			}
			w.readSources(ctx, poll, open)
			poll.Close()
		default:
			select {
			case <-ctx.Done():
				w.stopped = true
			case <-time.After(housekeepingInterval):
			}
		}
	}
	for _, a := range w.actors {
		a.flushPackets()
	}
	for _, p := range w.parts {
		p.countLost()
	}
}

// readSources passes packets to the roles until the set of open sources changes or the worker ends.
func (w *worker) readSources(ctx context.Context, poll *netio.Poll, open []*part) {
	for !w.halt.Load() {
		i, packets, err := poll.Next(w.pollTimeout())
		now := time.Now()
		switch {
		case err == io.EOF:
			w.stopped = ctx.Err() != nil
			for _, p := range open {
				p.ended = true
			}
			return
		case err != nil && i < 0:
			w.err = err
			return
		case err != nil && w.handleSourceError(open[i], err):
			return
		case len(packets) > 0:
			w.distributePackets(open[i], packets, now)
		}
		for _, a := range w.actors {
			a.paceFlows(now)
		}
		if now.Sub(w.housekeepingAt) >= housekeepingInterval && (w.runHousekeeping(now) || w.err != nil) {
			return
		}
	}
}

// handleSourceError logs an error of a source, and reports whether the source was closed.
func (w *worker) handleSourceError(p *part, err error) bool {
	switch {
	case !p.entry.isLive():
		w.server.log.Error("capture", "source", p.entry.name, "error", err)
		w.server.failed.Store(true)
		p.ended = true // packets after the damage cannot be read
		return true
	case errors.Is(err, netio.ErrAway): // it may be up again soon
		p.up.Store(false)
		p.retry = retry{}
		p.logError("source lost", err, w.server)
		return false
	}
	p.logError("source lost", err, w.server)
	p.close()
	return true
}

// distributePackets passes packets of a part to its roles.
func (w *worker) distributePackets(p *part, packets []netio.Packet, now time.Time) {
	p.events.Add(uint64(len(packets)))
	for i := range packets {
		packet := &packets[i]
		level := p.updateLevel(packet, now)
		for _, to := range p.subscribers {
			to.receivePacket(packet, node.Event{Level: level, Observe: to.observe}, now)
		}
	}
	for _, to := range p.subscribers {
		if to.queued {
			to.resumeFlows(w.highestLevel(to.actor))
		}
		to.flushPackets()
	}
}

// updateLevel records and returns the level of the queue that a packet met, or roles.UnknownLevel.
func (p *part) updateLevel(packet *netio.Packet, now time.Time) (level uint8) {
	switch {
	case packet.DepthKnown && len(p.thresholds.Up) > 0:
		queue := cmp.Or(packet.Egress, packet.Interface)
		level = p.thresholds.Level(packet.Depth, p.levels[queue].level)
		p.levels[queue] = measured{level, packet.Depth, now}
		return level
	case p.entry.Level != nil: // level of any queue
		p.levels[0] = measured{*p.entry.Level, packet.Depth, now}
		return *p.entry.Level
	}
	return roles.UnknownLevel
}

// queueIdleTime is the time without a packet after which a queue counts as empty.
const queueIdleTime = time.Second

// runHousekeeping runs timers, checks interfaces and retries closed sources. It reports whether the set of open
// sources changed.
func (w *worker) runHousekeeping(now time.Time) (changed bool) {
	w.housekeepingAt = now
	w.aliveAt.Store(now.UnixNano())
	for _, p := range w.parts {
		changed = w.maintainPart(p, now) || changed
		p.countLost()
		p.publishQueues(now)
		p.expireProxies(now)
	}
	for _, a := range w.actors {
		a.resumeFlows(w.highestLevel(a))
		a.runTimers(now, w.server) // may send packets
	}
	w.server.flushLines()
	return changed
}

// publishQueues sets queues to empty that no packet has met for a while, and publishes the state of all queues.
func (p *part) publishQueues(now time.Time) {
	known := map[string]measured{}
	if len(p.thresholds.Up) > 0 {
		for _, name := range p.watch {
			known[name] = measured{}
		}
	}
	for number, m := range p.levels {
		if now.Sub(m.at) > queueIdleTime && m.depth|uint64(m.level) > 0 {
			m.level, m.depth = 0, 0
			p.levels[number] = m
			delete(p.names, number) // the index may belong to another interface later
		}
		name, ok := p.names[number]
		if !ok && number > 0 {
			i, err := net.InterfaceByIndex(number)
			if err != nil { // the interface is gone
				if m.level == 0 {
					delete(p.levels, number)
				}
				continue
			}
			name = i.Name
			p.names[number] = name
		}
		if !m.at.Before(known[name].at) {
			known[name] = m
		}
	}
	if len(known) == 0 && len(p.listQueues()) == 0 {
		return
	}
	var all []queue
	for _, name := range sortedKeys(known) {
		all = append(all, queue{name, known[name].level, known[name].depth})
	}
	p.published.Store(&all)
}

// highestLevel returns the highest level of the queues that a role observes.
func (w *worker) highestLevel(a *actor) (highest uint8) {
	for _, p := range w.parts {
		if slices.ContainsFunc(p.subscribers, func(to subscriber) bool { return to.actor == a }) {
			for _, m := range p.levels {
				highest = max(highest, m.level)
			}
		}
	}
	return highest
}

// maintainPart opens a closed part and checks for replaced or returned interfaces. It reports whether the set of
// open sources changed.
func (w *worker) maintainPart(p *part, now time.Time) (changed bool) {
	switch {
	case p.source != nil && p.up.Load() && len(p.watch) > 0 && now.Sub(p.checkedAt) >= time.Second:
		there := interfaceIndexes(p.watch)
		if p.checkedAt = now; slices.Equal(p.numbers, there) {
			return false
		}
		err := p.rewatch(p.source)
		if errors.Is(err, netio.ErrAway) {
			return false
		}
		if err == nil {
			p.setInterfaces(there, w.server)
			return false
		}
		p.logError("source lost", err, w.server)
		p.close()
		changed = true
	case p.ended || p.source != nil && p.up.Load() || !p.retry.isDue(now):
		return false
	case p.source != nil && p.mustReopen():
		p.close()
		changed = true
	case p.source != nil:
		if p.source.(netio.InterfaceSource).IsUp() {
			p.markUp(w.server)
		}
		return false
	}
	p.numbers, p.checkedAt = interfaceIndexes(p.watch), now
	source, err := p.open()
	switch {
	case err != nil: // openSources has rejected permanent errors before
		p.logError("source not open", err, w.server)
	default:
		p.source = source
		p.markUp(w.server)
		changed = true
	}
	return changed
}

// mustReopen reports whether a source that was down must be opened again because its interface is gone or has
// another name.
func (p *part) mustReopen() bool {
	_, ok := p.source.(netio.InterfaceSource)
	return !ok || !slices.Equal(p.numbers, interfaceIndexes(p.watch))
}

// logError logs why no packets come. It logs an error once, as opening is retried.
func (p *part) logError(event string, err error, s *server) {
	if text := err.Error(); p.lastError != text {
		p.lastError = text
		s.log.Warn(event, "source", p.entry.name, "input", p.label, "error", err)
	}
}

// markUp records that packets can come.
func (p *part) markUp(s *server) {
	p.up.Store(true)
	p.retry, p.lastError = retry{}, ""
	if p.opened {
		p.reopened.Add(1)
		s.log.Info("source is back", "source", p.entry.name, "input", p.label)
	}
	p.opened = true
	for i, number := range p.numbers {
		if number == 0 {
			s.log.Warn("interface missing, waiting for it", "source", p.entry.name, "input", p.watch[i])
		}
	}
}

// setInterfaces records replaced interfaces of a source that stays open.
func (p *part) setInterfaces(there []int, s *server) {
	for i, name := range p.watch {
		switch {
		case there[i] == p.numbers[i]:
		case there[i] == 0:
			s.log.Warn("source lost", "source", p.entry.name, "input", name, "error", netio.ErrNoInterface)
		default:
			p.reopened.Add(1)
			s.log.Info("source is back", "source", p.entry.name, "input", name)
		}
	}
	p.numbers = there
}

// close closes the source, which may be opened again.
func (p *part) close() {
	if p.source == nil {
		return
	}
	p.lostBefore += p.source.Lost()
	p.lost.Store(p.lostBefore)
	p.source.Close()
	p.source = nil
	p.up.Store(false)
	p.retry = retry{}
}

func (p *part) countLost() {
	if p.source != nil {
		p.lost.Store(p.lostBefore + p.source.Lost())
	}
}
