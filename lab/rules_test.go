package lab

import (
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/lab/sim"
	"github.com/rocecn/rocecn/node"
)

// A higher priority does not wait for queued packets of a lower one: at most for the frame on the wire.
func TestStrictPriority(t *testing.T) {
	wait := func(priority uint8) (took sim.Time) {
		cfg := dcqcn(None)
		cfg.AckPriority = priority
		n, out := star(cfg, 2, 100*sim.Gbps, µs)
		h := n.Hosts()
		must(n.Flow(h[0], h[2], 0)).Endless()
		must(n.Flow(h[1], h[2], 0)).Endless()
		probe := must(n.Flow(h[2], h[0], 0))
		n.Done = func(_ *Flow, _ int64, posted sim.Time) { took = n.Sim.Now() - posted }
		n.RunAt(50*µs, func() { probe.Post(100) }) // its acknowledgement meets the queue
		n.Until(400 * µs)
		require.Greater(t, out.Most(), int64(500_000))
		return took - n.Alone(h[2], h[0], 100)
	}
	frame := (100 * sim.Gbps).Time(1024 + 200)
	require.LessOrEqual(t, wait(6), 3*frame)
	require.Less(t, 300*frame, wait(3), "in the class of the data")
	require.Less(t, wait(1)-1, sim.Time(0), "below it: it never comes")
}

// A queue may have alpha times the free octets: of B octets alpha·B/(1+alpha), and each of two queues
// alpha·B/(1+2·alpha).
func TestDynamicThreshold(t *testing.T) {
	const whole, frame = 600_000, 1106
	for _, c := range []struct {
		alpha     float64
		receivers int
		want      float64
	}{{1, 1, whole / 2}, {0.5, 1, whole / 3}, {2, 1, whole * 2 / 3}, {1, 2, whole / 3}, {0.5, 2, whole / 4}} {
		cfg := dcqcn(None)
		cfg.Buffer = Buffer{Total: whole, Alpha: c.alpha}
		n, _ := star(cfg, 8+c.receivers-1, 100*sim.Gbps, µs)
		for i, h := range n.Hosts()[:8] {
			must(n.Flow(h, n.Hosts()[8+i%c.receivers], 0)).Endless()
		}
		n.Until(200 * µs)
		require.NoError(t, n.Check())
		for i := range c.receivers {
			most := n.Switches()[0].Ports()[8+i].Most()
			require.InDelta(t, c.want, float64(most), 8*frame, "alpha %v, %d queues", c.alpha, c.receivers)
		}
	}
}

// A pause ends when the account of the ingress port is XON below where it began.
func TestXON(t *testing.T) {
	cfg := dcqcn(None)
	cfg.Buffer = Buffer{Total: 10_000_000, Alpha: 1, PFC: true, XOFF: 50_000, XON: 30_000, Headroom: 100_000}
	n := must(New(cfg))
	s, from, to := n.Switch(), n.Host(), n.Host()
	_, in := n.Link(from, s, 100*sim.Gbps, µs)
	n.Link(s, to, 10*sim.Gbps, µs)
	must(n.Flow(from, to, 0)).Endless()
	was, ends := false, 0
	for at := sim.Time(0); at < 500*µs; at += µs / 10 {
		n.Until(at)
		if was && !in.in.off {
			ends++
			require.LessOrEqual(t, in.in.shared, int64(20_000))
			require.Greater(t, in.in.shared, int64(20_000-3*1106))
		}
		was = in.in.off
	}
	require.Greater(t, ends, 5)
	require.Zero(t, n.Counts().Lost)
}

// Switches choose differently: of the flows that one switch has sent to the next, that one uses all of its ways.
func TestSpreadTwice(t *testing.T) {
	n := must(New(Config{Seed: 1, DataPriority: 3, AckPriority: 6, AckEvery: 1}))
	first, last, from, to := n.Switch(), n.Switch(), n.Host(), n.Host()
	n.Link(from, first, 400*sim.Gbps, µs)
	n.Link(to, last, 400*sim.Gbps, µs)
	c := []*Switch{n.Switch(), n.Switch()}
	var links []*Port
	for range 2 {
		b := n.Switch()
		n.Link(first, b, 100*sim.Gbps, µs)
		for i := range c {
			p, _ := n.Link(b, c[i], 100*sim.Gbps, µs)
			links = append(links, p)
		}
	}
	for i := range c {
		n.Link(c[i], last, 100*sim.Gbps, µs)
	}
	for range 400 {
		must(n.Flow(from, to, sim.Gbps)).Post(50_000)
	}
	n.Until(5 * ms)
	for _, p := range links {
		require.InEpsilon(t, 400*50*1106/4, float64(p.Sent()), 0.3)
	}
}

// A receiver reports missing packets immediately: without any timeout a message arrives complete.
func TestNAK(t *testing.T) {
	cfg := dcqcn(None)
	cfg.Timeout, cfg.Buffer = 0, Buffer{Total: 1_000_000, Alpha: 1, Queue: 10_000}
	n, _ := star(cfg, 2, 100*sim.Gbps, µs)
	h := n.Hosts()
	long, short := must(n.Flow(h[0], h[2], 0)), must(n.Flow(h[1], h[2], 0))
	var done []*Flow
	n.Done = func(f *Flow, _ int64, _ sim.Time) { done = append(done, f) }
	long.Post(2_000_000)
	n.RunAt(20*µs, func() { short.Post(100_000) })
	n.Until(ms)
	require.Greater(t, uint64(long.draws), uint64(2_000_000/1024+10), "some were sent again")
	require.Contains(t, done, long)
	require.EqualValues(t, 2_000_000, long.Octets())
}

// A PFC frame takes effect PauseDelay after it has arrived.
func TestPauseTakesTime(t *testing.T) {
	sent := func(delay sim.Time) uint64 {
		cfg := dcqcn(None)
		cfg.PauseDelay = delay
		n, _ := star(cfg, 1, 100*sim.Gbps, µs)
		must(n.Flow(n.Hosts()[0], n.Hosts()[1], 0)).Endless()
		n.Until(10 * µs)
		n.sendPause(n.Switches()[0].Ports()[0], maxQuanta)
		n.Until(100 * µs)
		return n.Hosts()[0].Port().Sent()
	}
	require.InDelta(t, (100 * sim.Gbps).Octets(5*µs), sent(5*µs)-sent(0), 1200)
}

// A watchdog empties the data queue of a port that is paused for as long as it waits, and lets nothing come until
// the pause ends. Without a packet that waits there is nothing to do, nor about a pause that ends in time.
func TestWatchdog(t *testing.T) {
	const wait = 20 * µs
	cfg := dcqcn(None)
	cfg.Buffer = Buffer{Total: 100_000_000, Alpha: 1, PFC: true, XON: 3000, Headroom: 100_000, Watchdog: wait}
	n, out := star(cfg, 1, 100*sim.Gbps, µs)
	f := must(n.Flow(n.Hosts()[0], n.Hosts()[1], 0))
	pause := func(quanta uint16) { n.sendPause(out.peer, quanta) } // from the receiver

	pause(maxQuanta)
	n.Until(3 * wait)
	require.Zero(t, n.Counts().Storms, "nothing waits")
	pause(0)
	n.Until(4 * wait)

	f.Endless()
	n.Until(5 * wait)
	pause(maxQuanta)
	n.Until(5*wait + 2*µs)
	require.EqualValues(t, 1, out.paused>>3&1)
	for _, stop := range []sim.Time{5*wait + 15*µs, 5*wait + 19*µs} {
		n.Until(stop)
		require.Zero(t, n.Counts().Storms)
	}
	pause(0)
	n.Until(6*wait + 15*µs)
	require.Zero(t, n.Counts().Storms, "resumed in time")
	require.Zero(t, n.Counts().Lost)

	began := n.Sim.Now()
	pause(maxQuanta)
	n.Until(began + wait + µs) // the frame takes more than that
	require.Zero(t, n.Counts().Lost)
	queued := out.dataQueue().octets
	require.Greater(t, queued, int64(150_000))
	n.Until(began + wait + 2*µs)
	require.EqualValues(t, 1, n.Counts().Storms)
	require.Zero(t, out.dataQueue().octets)
	lost := n.Counts().LostData
	require.Greater(t, lost, uint64(150))
	n.Until(began + wait + 20*µs)
	require.Greater(t, n.Counts().LostData, lost+100, "what comes is dropped as well")
	require.EqualValues(t, 1, n.Counts().Storms)
	require.NoError(t, n.Check())

	before := f.Octets()
	pause(0)
	n.Until(began + wait + 60*µs)
	require.Greater(t, f.Octets(), before+100_000, "the flow goes on")
	require.EqualValues(t, 1, n.Counts().Storms)
	require.NoError(t, n.Check())
}

// A notification for another flow than the one that experienced congestion is counted.
func TestAstray(t *testing.T) {
	n, _ := incast(dcqcn(CNP), 2, 100*sim.Gbps, µs)
	n.Until(200 * µs)
	require.NotZero(t, n.Counts().Notified)
	require.Zero(t, n.Counts().Astray)
	sender := n.Hosts()[0].role
	out, d := n.Hosts()[2].role.receiver.Receive(nil, n.roles.decodeFrame(n.encodePacket(0, &packet{kind: data,
		ce: true, flow: 0,
		octets: 1106, egress: -1})), node.Event{Now: n.Sim.Now().Clock().Add(time.Second)})
	require.Equal(t, node.ActionSent, d.Action)
	was := n.Counts().Notified
	sender.receiveNotification(out, 0)
	require.Zero(t, n.Counts().Astray)
	sender.receiveNotification(out, 1)
	require.EqualValues(t, 1, n.Counts().Astray)
	require.Equal(t, was+2, n.Counts().Notified)
}

// RED: nothing below Min, everything from Max on, and half of Probability in the middle.
func TestRamp(t *testing.T) {
	red := RED{Min: 100, Max: 200, Probability: 0.5}
	draws := sim.NewStream(1, "marks", 0)
	for _, c := range []struct {
		queue int64
		want  float64
	}{{0, 0}, {99, 0}, {150, 0.25}, {199, 0.495}, {200, 1}, {399, 1}} {
		t.Run(fmt.Sprint(c.queue), func(t *testing.T) {
			got := 0.
			for i := range uint32(10_000) {
				if red.isCongested(&draws, c.queue, &packet{draw: i}) {
					got++
				}
			}
			require.InDelta(t, c.want, got/10_000, 0.02, c.queue)
		})
	}
}

// half is an incast of eight hosts, of which the first four do not understand Fast CNPs.
func half(cfg Config, rejects bool) (*Network, *Port) {
	cfg.Incapable, cfg.Rejects = 4, rejects
	return incast(cfg, 8, 100*sim.Gbps, µs)
}

// Switches that know their senders send Fast CNPs to those that understand them, and mark the packets of the others,
// which receivers answer: every sender slows down, and none because of both.
func TestKnownSenders(t *testing.T) {
	n, out := half(dcqcn(FastCNP), true)
	n.Until(ms)
	require.NoError(t, n.Check())
	c := n.Counts()
	require.Positive(t, c.FastCNPs)
	require.Positive(t, c.Marked)
	require.Positive(t, c.CNPs)
	require.Zero(t, c.Ignored+c.Rejected)
	for i, f := range n.Flows() {
		require.NotEqual(t, sim.Never, f.FirstCut(), i)
		require.Equal(t, i >= 4, n.Hosts()[i].Capable())
		if i >= 4 { // a Fast CNP arrives before a CNP
			other := n.Flows()[i-4]
			require.Less(t, f.FirstCut()-f.Onset(), other.FirstCut()-other.Onset(), i)
		}
	}
	require.Less(t, out.Most(), int64(6_000_000))
}

// No sender can be told earlier than by the oracle, so it tells those as well that do not understand Fast CNPs.
func TestOracleTellsAll(t *testing.T) {
	n, _ := half(dcqcn(Oracle), false)
	n.Until(ms)
	require.NoError(t, n.Check())
	require.Zero(t, n.Counts().Marked+n.Counts().CNPs)
	for i, f := range n.Flows() {
		require.NotEqual(t, sim.Never, f.FirstCut(), i)
		require.Equal(t, f.Onset(), f.FirstCut(), i)
	}
}

// Switches that do not know their senders send Fast CNPs to all of them, and mark. A host that does not understand a
// Fast CNP may reject it: then a switch sends no second one after the rejection has arrived.
func TestUnknownSenders(t *testing.T) {
	n, _ := half(dcqcn(FastCNPMarks), false)
	n.Until(2 * ms)
	require.NoError(t, n.Check())
	counts := n.Counts()
	require.Greater(t, counts.Ignored, uint64(4))
	require.Zero(t, counts.Rejected)

	n, _ = half(dcqcn(FastCNPMarks), true)
	n.Until(2 * ms)
	require.NoError(t, n.Check())
	c := n.Counts()
	require.EqualValues(t, 4, c.Ignored, "one for each of them")
	require.EqualValues(t, 4, c.Rejected)
	require.Less(t, c.FastCNPs, counts.FastCNPs)
	for i, f := range n.Flows() {
		require.NotEqual(t, sim.Never, f.FirstCut(), i)
	}
}

// The message of a host that does not understand a Fast CNP has a right checksum, and quotes it whole.
func TestProblem(t *testing.T) {
	n, _ := half(dcqcn(FastCNPMarks), true)
	n.ensureRoutes()
	from, to := n.Hosts()[0].role.addr, n.Switches()[0].role.addr
	for _, length := range []int{40, 41, 104, 1231, 1232, 2000} {
		quoted := make([]byte, length)
		for i := range quoted {
			quoted[i] = byte(i * 7)
		}
		b := n.buildProblem(from, to, quoted, 40)
		require.LessOrEqual(t, len(b), 1280)
		require.Equal(t, quoted[:min(length, 1232)], b[48:])
		require.EqualValues(t, len(b)-40, binary.BigEndian.Uint16(b[4:]))
		require.Equal(t, []byte{4, 2}, b[40:42])
		require.Equal(t, []byte{0, 0, 0, 40}, b[44:48])
		// RFC 1071: the sum of all 16-bit words, pseudo-header and checksum included, is all ones.
		sum := uint64(len(b)-40) + 58
		padded := append(append([]byte{}, b[8:]...), make([]byte, len(b)%2)...)
		for i := 0; i < len(padded); i += 2 {
			sum += uint64(binary.BigEndian.Uint16(padded[i:]))
		}
		for sum > 0xFFFF {
			sum = sum>>16 + sum&0xFFFF
		}
		require.EqualValues(t, 0xFFFF, sum, length)
	}
}
