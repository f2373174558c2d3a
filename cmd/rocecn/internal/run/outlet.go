package run

import (
	"cmp"
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rocecn/rocecn/netio"
	"github.com/rocecn/rocecn/node/limit"
)

// An outlet is a sink as one role sends by it.
type outlet struct {
	entry *sinkEntry
	limit *sharedLimit // of all outlets of the entry; nil: none
	sink  netio.Sink   // nil: not open
	now   time.Time    // of the packet that causes what is sent
	retry retry
	said  bool // that it is not open

	number int       // of the interface by which all leaves, when it was opened; 0: none
	looked time.Time // when it was looked at

	taken  uint64 // packets since the last flush
	failed uint64 // of all that the sink has taken

	up             atomic.Bool
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

// take says whether one more may be sent.
func (l *sharedLimit) take(now time.Time) bool {
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

// look opens a sink that is not open, and closes one whose interface is gone, down or
// another by now.
func (o *outlet) look(now time.Time, log *slog.Logger) {
	device := o.entry.is.device()
	if o.sink != nil {
		if device == "" || now.Sub(o.looked) < time.Second {
			return
		}
		o.looked = now
		if number, err := upNumber(device); number != o.number {
			log.Warn("sink lost", "error", cmp.Or(err, errReplaced))
			o.said = true
			o.close()
			o.retry = retry{}
		}
	}
	if o.sink != nil || !o.retry.due(now) {
		return
	}
	var err error
	o.number, o.looked = 0, now
	if device != "" {
		o.number, err = upNumber(device)
	}
	if err == nil {
		err = o.open()
	}
	switch {
	case err == nil:
		o.retry, o.said = retry{}, false
		log.Info("sink is open")
	case !o.said:
		o.said = true
		log.Warn("sink not open", "error", err)
	}
}

var (
	errReplaced = errors.New("another interface has its name")
	errDown     = errors.New("the interface is down")
)

// upNumber returns the number of an interface that is up.
func upNumber(name string) (int, error) {
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
	o.sink, err = o.entry.is.open(&o.now)
	o.failed = 0
	o.up.Store(err == nil)
	return err
}

// send takes a packet. It says whether it may reach the network.
func (o *outlet) send(packet []byte, now time.Time) bool {
	switch {
	case o.sink == nil:
		o.errors[notOpen].Add(1)
		return false
	case !o.limit.take(now):
		o.errors[limited].Add(1)
		return false
	}
	o.taken++
	o.bytes.Add(uint64(len(packet)))
	if err := o.sink.Send(packet); err != nil {
		o.account(err)
	}
	return true
}

// flush sends what was taken.
func (o *outlet) flush() {
	if o.taken == 0 || o.sink == nil {
		return
	}
	if err := o.sink.Flush(); err != nil {
		o.account(err)
	}
	o.packets.Add(o.taken)
	o.taken = 0
}

// account counts what could not be sent, since the sink was last asked.
func (o *outlet) account(err error) {
	n := o.sink.Failed() - o.failed
	o.failed += n
	o.taken -= min(n, o.taken)
	why := failureOf(err)
	o.errors[why].Add(n)
	if why == linkDown {
		o.looked = time.Time{} // to be looked at again
	}
}

func (o *outlet) close() {
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

// due says whether it is time, and sets the next time.
func (r *retry) due(now time.Time) bool {
	if now.Before(r.at) {
		return false
	}
	r.pause = min(max(2*r.pause, 250*time.Millisecond), 3*time.Second)
	r.at = now.Add(r.pause)
	return true
}
