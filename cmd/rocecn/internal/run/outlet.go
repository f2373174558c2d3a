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
	"github.com/rocecn/rocecn/netio"
)

// An outlet is a sink as one role sends by it.
type outlet struct {
	entry           *sinkEntry
	limit           *sharedLimit // of all outlets of the entry; nil: none
	sink            netio.Sink   // nil: not open
	now             time.Time    // of the packet that causes what is sent
	retry           retry
	openErrorLogged bool // that it is not open

	interfaceIndex int       // of the interface by which all leaves, when it was opened; 0: none
	checkedAt      time.Time // when it was looked at

	accepted neighbour.Amount // since the last flush, which the kernel has not refused
	waiting  neighbour.Amount // that of it which waits for a neighbour
	watch    *neighbour.Watch // of what the kernel routes; nil: none
	trial    sendTrial
	failedAt time.Time // of the last trial

	up, unhealthy  atomic.Bool   // whether it is open, and whether nothing gets out all the same
	packets, bytes atomic.Uint64 // that were sent
	errors         [failures]atomic.Uint64
}

// A sharedLimit is the limit of a sink, over all roles.
type sharedLimit struct {
	mu     sync.Mutex
	bucket *limit.Bucket
}

func newSharedLimit(perSecond uint32) *sharedLimit {
	if perSecond == 0 {
		return nil
	}
	// As many at once as come in 10 ms.
	rate := limit.Rate{PerSecond: float64(perSecond), Burst: int(max(1, perSecond/100))}
	return &sharedLimit{bucket: limit.NewBucket(rate)}
}

// takeToken reports whether one more may be sent.
func (l *sharedLimit) takeToken(now time.Time) bool {
	if l == nil {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.bucket.Ready(now) {
		return false
	}
	l.bucket.Take(now)
	return true
}

// maintain opens a sink that is not open, and closes one whose interface is gone, down or
// another by now.
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

// lookUpInterface returns the number of an interface that is up.
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

// open opens the sink. Unless it is open, what is to be sent is lost, and counted.
func (o *outlet) open() (err error) {
	if o.sink, err = o.entry.sink.open(&o.now); err != nil {
		return err
	}
	if _, routed := o.sink.(*netio.RawSink); routed {
		if o.watch, err = neighbour.Open(o.interfaceIndex); err != nil {
			o.close()
			return err
		}
	}
	if s, tells := o.sink.(interface {
		OnUnsent(func(packet []byte, err error))
	}); tells {
		s.OnUnsent(o.recordUnsent)
	}
	o.up.Store(true)
	return nil
}

// sendPacket takes a packet. It reports whether it may reach the network.
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
	_ = o.sink.Send(packet) // unsent has heard of an error
	return true
}

// readDestination returns that of an IP packet.
func readDestination(ip []byte) netip.Addr {
	if len(ip) >= 40 && ip[0]>>4 == 6 {
		return netip.AddrFrom16([16]byte(ip[24:]))
	}
	if len(ip) >= 20 {
		return netip.AddrFrom4([4]byte(ip[16:]))
	}
	return netip.Addr{}
}

// recordUnsent takes note of a packet that could not be sent.
func (o *outlet) recordUnsent(packet []byte, err error) {
	one := neighbour.PacketAmount(packet)
	o.accepted = o.accepted.Sub(one)
	if o.watch != nil && o.watch.RecordUnsent(readDestination(packet), one) {
		o.waiting = o.waiting.Sub(one)
	}
	o.countErrors(classifyError(err), 1)
}

// countErrors counts packets that were lost.
func (o *outlet) countErrors(why sendFailure, n uint64) {
	if n == 0 {
		return
	}
	o.errors[why].Add(n)
	if why == linkDown {
		o.checkedAt = time.Time{} // to be looked at again
	}
	o.trial.failed = o.trial.failed || why == noRoute || why == linkDown
}

// flush sends what was taken. What waits for a neighbour is counted when it is known
// what becomes of it.
func (o *outlet) flush() {
	if o.accepted.Packets == 0 || o.sink == nil {
		return
	}
	_ = o.sink.Flush() // unsent has heard of an error
	o.countSent(o.accepted.Sub(o.waiting))
	o.accepted, o.waiting = neighbour.Amount{}, neighbour.Amount{}
}

// countSent counts packets that were sent.
func (o *outlet) countSent(a neighbour.Amount) {
	o.packets.Add(a.Packets)
	o.bytes.Add(a.Octets)
	o.trial.sent = o.trial.sent || a.Packets > 0
}

// A sendTrial is what came of packets since it began.
type sendTrial struct {
	began        time.Time
	sent, failed bool // some, for lack of a route
}

const (
	trialTime = time.Second
	// deafTime is how long a sink counts as deaf when no more is to be sent.
	unhealthyTime = 10 * time.Second
)

// countNeighbourFates counts what has waited for a neighbour. A sink for which the kernel finds routes
// is deaf if it found none for all that was tried for a while; no longer when it finds
// one, or routes or interfaces are other ones.
func (o *outlet) countNeighbourFates(now time.Time, log *slog.Logger) {
	if o.watch == nil {
		return
	}
	fate, rerouted, err := o.watch.Poll(now)
	o.countSent(fate.Sent)
	o.countErrors(noNeighbour, fate.Lost.Packets)
	if err != nil {
		log.Warn("neighbours are not watched any more", "error", err)
		o.closeWatch()
	}
	deaf := o.unhealthy.Load()
	if o.trial.failed && !o.trial.sent {
		o.failedAt = now
	}
	switch {
	case deaf && (rerouted || o.trial.sent || now.Sub(o.failedAt) >= unhealthyTime):
		o.unhealthy.Store(false)
		log.Info("sink may send again")
	case now.Sub(o.trial.began) < trialTime:
		return
	case !deaf && o.trial.failed && !o.trial.sent:
		o.unhealthy.Store(true)
		log.Warn("sink sends nothing: there is no route for anything that was to be sent")
	}
	o.trial = sendTrial{began: now}
}

// canSend reports whether packets can be sent, as far as is known.
func (o *outlet) canSend() bool { return o.up.Load() && !o.unhealthy.Load() && o.entry.sink.canWrite() }

// closeWatch ends the watch. What waits will never be known to have been sent.
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

// A retry says when what could not be opened is tried again: at first after 250 ms,
// then more and more seldom, after 3 s in the end.
type retry struct {
	at    time.Time
	pause time.Duration
}

// isDue reports whether it is time, and sets the next time.
func (r *retry) isDue(now time.Time) bool {
	if now.Before(r.at) {
		return false
	}
	r.pause = min(max(2*r.pause, 250*time.Millisecond), 3*time.Second)
	r.at = now.Add(r.pause)
	return true
}
