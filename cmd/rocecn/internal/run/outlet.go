package run

import (
	"cmp"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/io/neighbour"
	"github.com/rocecn/rocecn/internal/limit"
	"github.com/rocecn/rocecn/internal/wire"
	"github.com/rocecn/rocecn/netio"
)

// An outlet is a sink as one role uses it.
type outlet struct {
	entry           *sinkEntry
	limit           *sharedLimit // shared by all outlets of the entry; nil: no limit
	sink            netio.Sink   // nil if not open
	now             time.Time    // time of the packet that causes the next one
	retry           retry
	openErrorLogged bool // the reason why it is not open has been logged

	interfaceIndex int       // index of the interface of the sink when it was opened; 0: by route
	checkedAt      time.Time // last check of the interface

	accepted neighbour.Amount // accepted by the kernel since the last flush
	waiting  neighbour.Amount // part of accepted that waits for a neighbour
	watch    *neighbour.Watch // routes and neighbours of sent packets, or nil
	trial    sendTrial
	failedAt time.Time // last trial without a sent packet

	up, unhealthy  atomic.Bool   // whether the sink is open, and whether it has no route although it is
	packets, bytes atomic.Uint64 // packets and bytes sent
	errors         [failures]atomic.Uint64
}

// A sharedLimit is the rate limit of a sink over all roles.
type sharedLimit struct {
	mu     sync.Mutex
	bucket *limit.Bucket
}

func newSharedLimit(perSecond uint32) *sharedLimit {
	if perSecond == 0 {
		return nil
	}
	// The burst is the share of 10 ms.
	rate := limit.Rate{PerSecond: float64(perSecond), Burst: int(max(1, perSecond/100))}
	return &sharedLimit{bucket: limit.NewBucket(rate)}
}

// takeToken reports whether another packet may be sent.
func (l *sharedLimit) takeToken(now time.Time) bool {
	if l == nil {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.bucket.Ready(now) {
		return false
	}
	l.bucket.Charge(now)
	return true
}

// maintain opens a closed sink, and closes a sink when its interface is down, gone or replaced.
func (o *outlet) maintain(now time.Time, log *slog.Logger) {
	device := o.entry.sink.deviceName()
	if o.sink != nil {
		if device == "" || now.Sub(o.checkedAt) < time.Second {
			return
		}
		o.checkedAt = now
		if number, err := lookUpInterface(device); number != o.interfaceIndex {
			log.Warn("sink lost", "error", cmp.Or(err, errReplaced))
			o.openErrorLogged = true
			o.close()
			o.retry = retry{}
		}
	}
	if o.sink != nil || !o.retry.isDue(now) {
		return
	}
	var err error
	o.interfaceIndex, o.checkedAt = 0, now
	if device != "" {
		o.interfaceIndex, err = lookUpInterface(device)
	}
	if err == nil {
		err = o.open()
	}
	switch {
	case err == nil:
		o.retry, o.openErrorLogged = retry{}, false
		log.Info("sink is open")
	case !o.openErrorLogged:
		o.openErrorLogged = true
		log.Warn("sink not open", "error", err)
	}
}

var (
	errReplaced = errors.New("another interface has its name")
	errDown     = errors.New("the interface is down")
)

// lookUpInterface returns the index of an interface that is up.
func lookUpInterface(name string) (int, error) {
	i, err := net.InterfaceByName(name)
	switch {
	case err != nil:
		return 0, netio.ErrNoInterface
	case i.Flags&net.FlagUp == 0:
		return 0, errDown
	}
	return i.Index, nil
}

// open opens the sink. While it is closed, packets are dropped and counted.
func (o *outlet) open() (err error) {
	if o.sink, err = o.entry.sink.open(&o.now); err != nil {
		return err
	}
	if _, routed := o.entry.sink.(*rawSink); routed {
		if o.watch, err = neighbour.Open(o.interfaceIndex); err != nil {
			o.close()
			return err
		}
	}
	if s, ok := o.sink.(netio.UnsentReporter); ok {
		s.OnUnsent(o.recordUnsent)
	}
	o.up.Store(true)
	return nil
}

// sendPacket sends a packet, and reports whether it may reach the network.
func (o *outlet) sendPacket(packet []byte, now time.Time) bool {
	switch {
	case o.sink == nil:
		o.errors[notOpen].Add(1)
		return false
	case !o.limit.takeToken(now):
		o.errors[limited].Add(1)
		return false
	}
	one := neighbour.PacketAmount(packet)
	o.accepted = o.accepted.Add(one)
	if o.watch != nil && o.watch.RecordSent(readDestination(packet), one) {
		o.waiting = o.waiting.Add(one)
	}
	_ = o.sink.Send(packet) // recordUnsent counts errors
	return true
}

// readDestination returns the destination address of an IP packet, or the zero Addr.
func readDestination(ip []byte) netip.Addr {
	_, dst := wire.Addresses(ip)
	return dst
}

// recordUnsent counts a packet that the kernel rejected.
func (o *outlet) recordUnsent(packet []byte, err error) {
	one := neighbour.PacketAmount(packet)
	o.accepted = o.accepted.Sub(one)
	if o.watch != nil && o.watch.RecordUnsent(readDestination(packet), one) {
		o.waiting = o.waiting.Sub(one)
	}
	o.countErrors(classifyError(err), 1)
}

// countErrors counts packets that were not sent.
func (o *outlet) countErrors(failure sendFailure, n uint64) {
	if n == 0 {
		return
	}
	o.errors[failure].Add(n)
	if failure == linkDown {
		o.checkedAt = time.Time{} // check the interface again
	}
	o.trial.failed = o.trial.failed || failure == noRoute || failure == linkDown
}

// flush sends the accepted packets. Packets that wait for a neighbour are counted once their fate is known.
func (o *outlet) flush() {
	if o.accepted.Packets == 0 || o.sink == nil {
		return
	}
	_ = o.sink.Flush() // recordUnsent counts errors
	o.countSent(o.accepted.Sub(o.waiting))
	o.accepted, o.waiting = neighbour.Amount{}, neighbour.Amount{}
}

// countSent counts packets that were sent.
func (o *outlet) countSent(a neighbour.Amount) {
	o.packets.Add(a.Packets)
	o.bytes.Add(a.Octets)
	o.trial.sent = o.trial.sent || a.Packets > 0
}

// A sendTrial summarizes the packets since it began.
type sendTrial struct {
	began        time.Time
	sent, failed bool // whether a packet was sent, and whether one had no route
}

const (
	trialTime = time.Second
	// unhealthyTime is the time after which an unhealthy sink that sends nothing is tried again.
	unhealthyTime = 10 * time.Second
)

// countNeighbourFates counts packets that waited for a neighbour. A routed sink becomes unhealthy if the kernel
// found no route for any packet of trialTime. It is healthy again when a packet was sent, when routes or
// interfaces change, or after unhealthyTime.
func (o *outlet) countNeighbourFates(now time.Time, log *slog.Logger) {
	if o.watch == nil {
		return
	}
	fate, rerouted, err := o.watch.Poll(now)
	o.countSent(fate.Sent)
	o.countErrors(noNeighbour, fate.Lost.Packets)
	if err != nil {
		log.Warn("neighbours are no longer watched", "error", err)
		o.closeWatch()
	}
	unhealthy := o.unhealthy.Load()
	if o.trial.failed && !o.trial.sent {
		o.failedAt = now
	}
	switch {
	case unhealthy && (rerouted || o.trial.sent || now.Sub(o.failedAt) >= unhealthyTime):
		o.unhealthy.Store(false)
		log.Info("sink is tried again")
	case now.Sub(o.trial.began) < trialTime:
		return
	case !unhealthy && o.trial.failed && !o.trial.sent:
		o.unhealthy.Store(true)
		log.Warn("sink sends nothing: no packet has a route")
	}
	o.trial = sendTrial{began: now}
}

// canSend reports whether packets can be sent, as far as is known.
func (o *outlet) canSend() bool { return o.up.Load() && !o.unhealthy.Load() && o.entry.sink.canWrite() }

// closeWatch closes the watch. Waiting packets count as errors.
func (o *outlet) closeWatch() {
	if o.watch != nil {
		o.countErrors(noNeighbour, o.watch.Close())
		o.watch = nil
	}
}

func (o *outlet) close() {
	o.closeWatch()
	o.unhealthy.Store(false)
	if o.sink != nil {
		o.sink.Close()
		o.sink = nil
	}
	o.up.Store(false)
}

// A retry schedules attempts to open a resource: after 250 ms, then at intervals that double up to 3 s.
type retry struct {
	at    time.Time
	pause time.Duration
}

// isDue reports whether an attempt is due, and schedules the next one.
func (r *retry) isDue(now time.Time) bool {
	if now.Before(r.at) {
		return false
	}
	r.pause = min(max(2*r.pause, 250*time.Millisecond), 3*time.Second)
	r.at = now.Add(r.pause)
	return true
}
