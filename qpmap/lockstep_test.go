package qpmap_test

import (
	"cmp"
	"container/heap"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

// A lockstep is the traffic of queue pairs between two hosts that all begin with PSN 0, as those of NCCL do, seen where
// nothing is lost yet: each sends messages, repeats all from a NAK or a timeout on, and is answered by ACKs that may
// stand for several, by READ responses and by NAKs.
type lockstep struct {
	r        *rand.Rand
	queue    events
	packets  []sent
	truth    map[rocev2.FlowKey]uint32
	loss     float64       // of requests, after the capture point
	coalesce float64       // share of requests without an ACK of their own
	kinds    []bth.Opcode  // of requests
	pause    time.Duration // between requests of a queue pair, on average
	rtt      time.Duration
}

// An event is something that happens to a queue pair.
type event struct {
	at time.Duration
	do func()
}

type events []event

func (e events) Len() int           { return len(e) }
func (e events) Less(i, j int) bool { return e[i].at < e[j].at }
func (e events) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)        { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

func (l *lockstep) schedule(at time.Duration, do func()) { heap.Push(&l.queue, event{at, do}) }

func (l *lockstep) sendPacket(at time.Duration, p rocev2.Packet, truth uint32) {
	l.packets = append(l.packets, sent{at: at, packet: p, truth: truth})
}

// newLockstep returns the traffic of 7 to 60 connections over either family, in one direction or both.
func newLockstep(seed uint64) *lockstep {
	r := rand.New(rand.NewPCG(seed, 31))
	l := &lockstep{
		r: r, truth: map[rocev2.FlowKey]uint32{}, loss: []float64{0, 0.02, 0.05, 0.1, 0.2}[r.IntN(5)],
		coalesce: []float64{0, 0.4, 0.8}[r.IntN(3)], rtt: []time.Duration{20, 200, 5000}[r.IntN(3)] * time.Microsecond,
		kinds: []bth.Opcode{bth.RCSendOnly},
	}
	if r.IntN(3) > 0 {
		l.kinds = append(l.kinds, bth.RCSendOnly, bth.RCRDMAWriteOnly, bth.RCRDMAReadRequest, bth.RCFetchAdd)
	}
	connections := 7 + r.IntN(54)
	l.pause = time.Duration(connections) * 2 * time.Microsecond
	A, B := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	if r.IntN(2) == 0 {
		A, B = netip.MustParseAddr("2001:db8::a"), netip.MustParseAddr("2001:db8::b")
	}
	port := func() uint16 { return 50000 }
	switch r.IntN(3) {
	case 0: // one for each connection
		var n uint16
		port = func() uint16 { n++; return 50000 + n }
	case 1: // few
		port = func() uint16 { return 50000 + uint16(r.IntN(3)) }
	}
	both := r.IntN(2) == 0
	for n := range uint32(connections) {
		c := &connection{A: A, B: B, a: 1100 + n, b: 100 + n}
		l.truth[c.forth()], l.truth[c.back()] = c.a, c.b
		p, messages := port(), 20+r.IntN(100)
		l.connect(c, p, messages)
		if both {
			l.connect(c.turned(), p, messages)
		}
	}
	for len(l.queue) > 0 {
		heap.Pop(&l.queue).(event).do()
	}
	slices.SortStableFunc(l.packets, func(a, b sent) int { return cmp.Compare(a.at, b.at) })
	return l
}

// connect lets one side of a connection send messages, all of one packet.
func (l *lockstep) connect(c *connection, port uint16, messages int) {
	const underWay = 16 // packets, at most
	var next, acked, expected, progress = 0, 0, 0, time.Duration(0)
	refused := false
	kinds := make([]bth.Opcode, messages)
	for i := range kinds {
		kinds[i] = l.kinds[l.r.IntN(len(l.kinds))]
	}
	answer := func(now time.Duration, psn int, op bth.Opcode, syndrome bth.Syndrome) {
		p := packet(c.B, c.A, op, c.a, uint32(psn))
		p.SrcPort, p.BTH.AETH.Syndrome = port, syndrome
		l.sendPacket(now, p, c.b)
		covers := psn + 1
		if syndrome != 0 {
			covers = psn
			next = min(next, psn)
		}
		if covers > acked {
			acked, progress = covers, now
		}
		next = max(next, acked)
	}
	answers := func(at time.Duration, psn int, op bth.Opcode, syndrome bth.Syndrome) {
		at += l.rtt/2 + time.Duration(l.r.IntN(3000))
		l.schedule(at, func() { answer(at, psn, op, syndrome) })
	}
	arrive := func(now time.Duration, psn int) {
		op, own := bth.RCAcknowledge, false
		switch kinds[psn] {
		case bth.RCRDMAReadRequest:
			op, own = bth.RCRDMAReadResponseOnly, true
		case bth.RCFetchAdd:
			op, own = bth.RCAtomicAcknowledge, true
		}
		switch {
		case psn == expected:
			expected, refused = expected+1, false
			if own || psn == messages-1 || l.r.Float64() >= l.coalesce {
				answers(now, psn, op, 0)
			}
		case psn > expected:
			if !refused {
				refused = true
				answers(now, expected, bth.RCAcknowledge, 0x60)
			}
		case own:
			answers(now, psn, op, 0)
		default:
			answers(now, expected-1, bth.RCAcknowledge, 0)
		}
	}
	var send func(now time.Duration)
	send = func(now time.Duration) {
		again := now + time.Duration(1+l.r.Int64N(int64(2*l.pause)))
		switch {
		case acked == messages:
			return
		case next == messages || next-acked > underWay:
			if now-progress > 3*time.Millisecond+2*l.rtt {
				next, progress = acked, now
			}
		default:
			psn := next
			next++
			p := packet(c.A, c.B, kinds[psn], c.b, uint32(psn))
			p.SrcPort = port
			l.sendPacket(now, p, c.a)
			if l.r.Float64() >= l.loss {
				at := now + l.rtt/2 + time.Duration(l.r.IntN(3000))
				l.schedule(at, func() { arrive(at, psn) })
			}
		}
		l.schedule(again, func() { send(again) })
	}
	at := time.Duration(l.r.Int64N(int64(l.pause)))
	l.schedule(at, func() { send(at) })
}

// learn shows the traffic to a Map and returns the named sender of each packet, or 0 for none. A
// named sender must be right.
func (l *lockstep) learn(t testing.TB, m *qpmap.Map) (named []uint32) {
	t.Helper()
	for i := range l.packets {
		s := &l.packets[i]
		now, k := start.Add(s.at), qpmap.Key{FlowKey: flowOf(&s.packet)}
		m.Observe(&s.packet, 0, now)
		for k, pair := range m.Learned() {
			require.Equal(t, l.truth[k.FlowKey], pair.SrcQP, "packet %d: %v, from %v", i, k, pair.From)
		}
		got, err := m.SourceQP(k, now)
		if err == nil {
			require.Equal(t, s.truth, got.SrcQP, "packet %d: %v, from %v", i, k, got.From)
		}
		named = append(named, got.SrcQP)
	}
	return named
}

// Among queue pairs that all use the same PSNs no wrong sender is named, even if the tables are too
// small for all requests in flight. The same seed gives the same result.
func TestLockstep(t *testing.T) {
	var packets, known [3]int
	for seed := range uint64(max(wiretest.Rounds(20), 4)) {
		l := newLockstep(seed)
		for i, config := range []qpmap.Config{{}, {Ports: true}, {Ports: true, MaxOpen: 256}} {
			config.Seed = seed + 1
			named := l.learn(t, qpmap.New(config))
			if i == 2 {
				require.Equal(t, named, l.learn(t, qpmap.New(config)), "seed %d", seed)
				config.Seed++
				l.learn(t, qpmap.New(config))
			}
			for _, qp := range named {
				packets[i]++
				if qp != 0 {
					known[i]++
				}
			}
		}
	}
	t.Logf("%v of %v packets known", known, packets)
	require.NotZero(t, known[1])
}

// A UDP source port breaks no tie with a flow that has the same one, also if that one has a pair already.
func TestOnePort(t *testing.T) {
	for _, others := range []uint32{0, 1} { // connections with another port
		m := qpmap.New(qpmap.Config{Ports: true})
		var all []*connection
		for n := range 2 + others {
			c := live()
			c.a, c.b = c.a+n, c.b+n
			all = append(all, c)
		}
		observe(m, start, all[0].req(), all[0].rep())
		show := func(n uint32, p rocev2.Packet) {
			p.SrcPort = 0xC000 + uint16(n/2)
			observe(m, start, p)
		}
		for psn := range uint32(20) {
			for n, c := range all {
				show(uint32(n), c.request(psn))
			}
			for n, c := range all {
				show(uint32(n), c.ack(psn))
			}
		}
		requirePair(t, m, all[0].forth(), all[0].a, qpmap.BasisCM)
		requireNone(t, m, all[1].forth(), qpmap.ErrAmbiguous)
		if others > 0 {
			requirePair(t, m, all[2].forth(), all[2].a, qpmap.BasisPort)
		}
	}
}
