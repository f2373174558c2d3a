package run

import (
	"container/heap"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/node/reaction"
)

// loop is a model of the load of docs/closed-loop.md: four flows with 480 messages of two packets, eight in flight,
// share a port of 4 Mbit/s with room for 40,000 octets, 20 ms away from the receiver. From 10,000 octets on each flow
// is stopped for 65.5 ms, at most once in 50 ms. fq keeps each packet until its time, as the program in the kernel sets
// it. Now and then the host does not run for a while, as an emulated machine does: no messages begin, and stops take
// effect later.
type loop struct {
	stops bool          // the switch sends PPFCs
	news  time.Duration // longest time until a PPFC takes effect
	rand  *rand.Rand
	queue []event
	halts []halt

	resume  *resumer
	flows   [4]loopFlow
	free    time.Duration // end of the last packet at the port
	message time.Duration // earliest time of the next message
	drops   int
	done    int // packets
	last    time.Duration
}

// A loopFlow is a flow of a loop.
type loopFlow struct {
	id              reaction.FlowID
	begun, inFlight int   // messages
	left            []int // packets of each message
	next, stop      time.Duration
	notifiedAt      time.Duration
	counted         time.Duration
	octets          uint64
}

// An event happens at a time of the model.
type event struct {
	at time.Duration
	do func(now time.Duration)
}

// A halt is a time in which the host does not run.
type halt struct{ begin, end time.Duration }

const (
	loopLine, loopPort      = 2_000_000, 4_000_000 // bits a second
	loopPacket              = 1100                 // octets
	loopMessages, loopPause = 480, 65535 * time.Microsecond
)

func (l *loop) Len() int           { return len(l.queue) }
func (l *loop) Less(i, j int) bool { return l.queue[i].at < l.queue[j].at }
func (l *loop) Swap(i, j int)      { l.queue[i], l.queue[j] = l.queue[j], l.queue[i] }
func (l *loop) Push(e any)         { l.queue = append(l.queue, e.(event)) }
func (l *loop) Pop() any {
	e := l.queue[len(l.queue)-1]
	l.queue = l.queue[:len(l.queue)-1]
	return e
}

// schedule makes an event happen at a time. An event of the host waits while the host does not run.
func (l *loop) schedule(at time.Duration, ofHost bool, do func(now time.Duration)) {
	for _, h := range l.halts {
		if ofHost && h.begin <= at && at < h.end {
			at = h.end
		}
	}
	heap.Push(l, event{at, do})
}

// wall returns a time of the model as the resumer wants it.
func wall(now time.Duration) time.Time { return time.Unix(1e9, 0).Add(now) }

// sendTime returns the time that a packet takes at a rate in bits a second, 0 for no limit.
func sendTime(rate uint64) time.Duration {
	if rate == 0 {
		return 0
	}
	return time.Duration(8 * loopPacket * uint64(time.Second) / rate)
}

// beginMessages gives messages to the port, 466 in a second.
func (l *loop) beginMessages(f *loopFlow, now time.Duration) {
	for ; f.inFlight < 8 && f.begun < loopMessages; f.begun++ {
		f.inFlight++
		f.left = append(f.left, 2)
		at, message := max(now, l.message), f.begun
		l.message = at + time.Second/466
		l.schedule(at, true, func(now time.Duration) {
			l.givePacket(f, message, now)
			l.givePacket(f, message, now)
		})
	}
}

// givePacket gives a packet to fq, with the time that shape.bpf.c computes.
func (l *loop) givePacket(f *loopFlow, message int, now time.Duration) {
	at := now
	if o := l.resume.flows[f.id]; o != nil {
		if f.octets += loopPacket; now-f.counted >= countingInterval {
			l.resume.countOctets(f.id, f.octets, now-f.counted)
			f.octets, f.counted = 0, now
		}
		if o.rate > 0 && !wall(now).Before(o.until) && f.next <= now {
			l.resume.finish(o, wall(now))
		}
		at = max(f.next, now, f.stop)
		f.next = at + sendTime(l.resume.rateAt(o, wall(now)))
	}
	l.schedule(at, false, func(now time.Duration) { l.arrive(f, message, now) })
}

// arrive puts a packet into the queue of the switch.
func (l *loop) arrive(f *loopFlow, message int, now time.Duration) {
	depth := int(max(l.free-now, 0)*loopPort/8/time.Second) + loopPacket
	if depth > 40_000 {
		l.drops++
		l.schedule(now+60*time.Millisecond, true, func(now time.Duration) { l.givePacket(f, message, now) })
		return
	}
	l.free = max(l.free, now) + sendTime(loopPort)
	if l.stops && depth >= 10_000 && now-f.notifiedAt >= 50*time.Millisecond {
		f.notifiedAt = now
		l.schedule(now+time.Duration(l.rand.Int64N(int64(l.news))), true, func(now time.Duration) {
			l.resume.setOrder(reaction.Order{Flow: f.id, Rate: loopLine, Stop: loopPause}, wall(now))
			f.stop = now + loopPause
		})
	}
	l.schedule(l.free+20*time.Millisecond, true, func(now time.Duration) {
		l.done++
		if f.left[message]--; f.left[message] == 0 {
			f.inFlight--
			l.beginMessages(f, now)
		}
	})
}

// runLoop runs the load to its end. The host halts for 250 ms, and then runs for a second divided by halts, both on
// average. With 0 halts it always runs.
func runLoop(seed uint64, halts float64, news time.Duration) *loop {
	l := &loop{stops: news > 0, news: news, rand: rand.New(rand.NewPCG(seed, 1)), resume: newResumer(loopLine)}
	pick := rand.New(rand.NewPCG(seed, 2))
	for at := time.Second / 2; halts > 0 && at < time.Minute; {
		end := at + time.Duration(pick.ExpFloat64()*float64(time.Second)/4)
		l.halts = append(l.halts, halt{at, end})
		at = end + time.Duration(pick.ExpFloat64()*float64(time.Second)/halts)
	}
	for i := range l.flows {
		f := &l.flows[i]
		f.id = reaction.FlowID{Dst: netip.MustParseAddr("2001:db8::2"), DestQP: uint32(17 + i)}
		f.notifiedAt = -time.Second
		l.beginMessages(f, 0)
	}
	for len(l.queue) > 0 {
		e := heap.Pop(l).(event)
		l.last = e.at
		e.do(e.at)
	}
	return l
}

// Stops by PPFC leave at most a tenth of the drops, nothing that waits is lost, and the load does not take much longer:
// flows resume without a burst, and not too late, also if the host does not run for a while now and then.
func TestResumeInLoop(t *testing.T) {
	const packets = 4 * loopMessages * 2
	for _, c := range []struct {
		name  string
		halts float64 // in a second of the time in which the host runs
		news  time.Duration
	}{
		{"a host that always runs", 0, 60 * time.Millisecond},
		{"a host that halts for a third of the time", 2, 60 * time.Millisecond},
		{"a host that halts for 5/9 of the time", 5, 60 * time.Millisecond},
		{"the same and late news", 5, 300 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			for seed := range uint64(6) {
				nothing, stopped := runLoop(seed, c.halts, 0), runLoop(seed, c.halts, c.news)
				require.Equal(t, []int{packets, packets}, []int{nothing.done, stopped.done})
				require.Greater(t, nothing.drops, 500)
				require.LessOrEqual(t, 10*stopped.drops, nothing.drops)
				require.LessOrEqual(t, stopped.last.Seconds(), 1.6*nothing.last.Seconds())
				t.Logf("seed %d: %d and %d drops, %v and %v", seed, nothing.drops, stopped.drops, nothing.last,
					stopped.last)
			}
		})
	}
}
