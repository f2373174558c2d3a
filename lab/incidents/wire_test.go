package incidents

import (
	"cmp"
	"container/heap"
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/pfc"
	"github.com/rocecn/rocecn/rocev2"
)

// A wire is a small simulation of connections that pass a capture point, for faults that the laboratory cannot
// configure. It knows nothing of verdicts.
type wire struct {
	*rand.Rand
	now    time.Duration
	events events
	order  uint64
	frames []frame
	hosts  int
	sent   uint16 // packets so far
}

// A frame is a captured packet.
type frame struct {
	at     time.Duration // since the beginning
	octets []byte
}

type event struct {
	at    time.Duration
	order uint64
	do    func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].order < e[j].order
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

func newWire(seed uint64) *wire { return &wire{Rand: rand.New(rand.NewPCG(seed, 0x7A6))} }

func (w *wire) after(d time.Duration, do func()) {
	w.order++
	heap.Push(&w.events, event{w.now + d, w.order, do})
}

// until runs to a time.
func (w *wire) until(end time.Duration) {
	for len(w.events) > 0 && w.events[0].at <= end {
		e := heap.Pop(&w.events).(event)
		w.now = e.at
		e.do()
	}
	w.now = end
}

// host returns an unused address.
func (w *wire) host(v6 bool) netip.Addr {
	w.hosts++
	if v6 {
		return netip.AddrFrom16([16]byte{0x20, 0x01, 0x0d, 0xb8, 4: 0xaa, 14: byte(w.hosts >> 8), 15: byte(w.hosts)})
	}
	return netip.AddrFrom4([4]byte{10, 9, byte(w.hosts >> 8), byte(w.hosts)})
}

// between returns a number from a to b.
func (w *wire) between(a, b int) int { return a + w.IntN(b-a+1) }

// A conn is a connection of two queue pairs, of which one sends.
type conn struct {
	w        *wire
	src, dst netip.Addr
	qp, peer uint32 // of the sender, of the receiver
	port     uint16
	dscp     uint8
	ect      bool
	line     float64 // bits a second
	payload  int
	message  int           // packets
	idle     time.Duration // between messages
	window   uint32
	near     time.Duration // from the sender to the capture
	far      time.Duration // from there to the receiver
	ackEvery int
	timeout  time.Duration
	tailOnly bool // a message begins when the one before is acknowledged

	// Functions that decide about packets: n is the number of packets sent before, including retransmissions.
	lostBefore, lostAfter func(n int, psn uint32, again bool) bool // before and after the capture
	ackLost               func() bool                              // after the capture, on the way to the sender
	mark                  func() bool
	late                  func() time.Duration
	spray                 bool // by the UDP source port
	oneWay                bool // answers do not pass the capture
	sorts                 bool // the receiver puts packets in order
	unready               func(message int) int
	rnrWait               time.Duration

	cnp    bool // the receiver answers marks
	cnpGap time.Duration
	heeds  bool // the sender slows down

	// The sender.
	next, una, first, high uint32
	sent                   int
	rate, alpha, target    float64
	stages                 int
	blocked, waiting       bool
	timer                  uint64
	stopped                time.Duration // no packet before that

	// The receiver.
	expected uint32
	nakked   bool
	pending  int
	lastCNP  time.Duration
	anyCNP   bool
	ahead    map[uint32]bool
	refusals map[int]int
}

// conn adds a connection that nothing happens to.
func (w *wire) conn(src, dst netip.Addr) *conn {
	c := &conn{w: w, src: src, dst: dst,
		qp: uint32(w.between(0x100, 0xFFFFFF)), peer: uint32(w.between(0x100, 0xFFFFFF)),
		port: uint16(w.between(0xC000, 0xFFFF)), dscp: 26, ect: true, line: 1e9 * float64(w.between(2, 8)),
		payload: 1024, message: w.between(8, 64), window: 64, near: 2 * time.Microsecond, far: 3 * time.Microsecond,
		ackEvery: w.between(4, 16), cnp: true, cnpGap: 50 * time.Microsecond, heeds: true,
		ahead: map[uint32]bool{}, refusals: map[int]int{}}
	c.first = uint32(w.IntN(1 << 24))
	c.next, c.una, c.high, c.expected = c.first, c.first, c.first, c.first
	return c
}

// start begins to send, a little later.
func (c *conn) start() *conn {
	c.rate, c.target = c.line, c.line
	c.w.after(time.Duration(c.w.IntN(20_000)), c.send)
	if c.heeds {
		c.w.after(55*time.Microsecond, c.recover)
	}
	return c
}

func diff(a, b uint32) int { return bth.ComparePSN(a, b) }

// send sends the next packet, and comes again for the one after it.
func (c *conn) send() {
	c.waiting = false
	at := diff(c.next, c.first)
	outstanding := uint32(diff(c.next, c.una))
	if c.tailOnly && at%c.message == 0 && outstanding > 0 || outstanding >= c.window {
		c.blocked = true
		return
	}
	if c.w.now < c.stopped {
		c.again(c.stopped - c.w.now)
		return
	}
	again := diff(c.next, c.high) < 0
	if !again {
		c.high = bth.AddPSN(c.next, 1)
	}
	i := at % c.message
	op := bth.RCSendMiddle
	switch {
	case c.message == 1:
		op = bth.RCSendOnly
	case i == 0:
		op = bth.RCSendFirst
	case i == c.message-1:
		op = bth.RCSendLast
	}
	psn, n := c.next, c.sent
	c.sent++
	c.w.sent++
	id := c.w.sent // a host numbers its packets when it sends them
	c.next = bth.AddPSN(c.next, 1)
	port := c.port
	if c.spray {
		port = 0xC000 | uint16(n*7919&0x1FF)
	}
	if c.una == psn || c.timer == 0 {
		c.setTimer()
	}
	ecn := uint8(0)
	if c.ect {
		ecn = 2
	}
	delay := c.near
	if c.late != nil {
		delay += c.late()
	}
	lastOne := i == c.message-1
	c.w.after(delay, func() {
		if c.lostBefore != nil && c.lostBefore(n, psn, again) {
			return
		}
		if c.ect && c.mark != nil && c.mark() {
			ecn = 3
		}
		h := bth.Header{Opcode: op, DestQP: c.peer, PSN: psn, AckReq: lastOne}
		c.w.packet(c.src, c.dst, port, id, c.dscp<<2|ecn, h, 0, c.payload)
		if c.lostAfter != nil && c.lostAfter(n, psn, again) {
			return
		}
		c.w.after(c.far, func() { c.receive(psn, lastOne, ecn == 3) })
	})
	space := time.Duration(float64(c.payload+82) * 8e9 / c.rate * (0.95 + 0.1*c.w.Float64()))
	if lastOne && c.idle > 0 {
		space += c.idle
	}
	c.again(space)
}

func (c *conn) again(d time.Duration) {
	if !c.waiting {
		c.waiting = true
		c.w.after(d, c.send)
	}
}

// setTimer restarts the timer.
func (c *conn) setTimer() {
	if c.timeout == 0 {
		return
	}
	c.timer++
	mine := c.timer
	c.w.after(c.timeout, func() {
		if mine == c.timer && c.una != c.high {
			c.next = c.una
			c.setTimer()
			c.sendNext()
		}
	})
}

func (c *conn) sendNext() {
	if c.blocked {
		c.blocked = false
		c.again(0)
	}
}

// receive is the receiver.
func (c *conn) receive(psn uint32, last, ce bool) {
	if gap := c.w.now - c.lastCNP; ce && c.cnp && (!c.anyCNP || gap >= c.cnpGap) {
		c.lastCNP, c.anyCNP = c.w.now, true
		c.answer(bth.CNP, 0, 0, func() { c.notified() })
	}
	d := diff(psn, c.expected)
	switch {
	case d > 0 && c.sorts:
		c.ahead[psn] = true
		return
	case d > 0:
		if !c.nakked {
			c.nakked = true
			p := c.expected
			c.answer(bth.RCAcknowledge, 0x60, p, func() { c.goBack(p) })
		}
		return
	case d < 0:
		if last {
			c.acknowledge()
		}
		return
	}
	m := diff(psn, c.first) / c.message
	if c.unready != nil && diff(psn, c.first)%c.message == 0 {
		if n, ok := c.refusals[m]; !ok {
			c.refusals[m] = c.unready(m)
		} else {
			c.refusals[m] = n - 1
		}
		if c.refusals[m] > 0 {
			c.nakked = true
			c.answer(bth.RCAcknowledge, 0x2E, psn, func() {
				c.stopped = c.w.now + c.rnrWait
				c.goBack(psn)
			})
			return
		}
	}
	c.nakked = false
	c.expected = bth.AddPSN(c.expected, 1)
	for c.ahead[c.expected] {
		delete(c.ahead, c.expected)
		c.expected = bth.AddPSN(c.expected, 1)
	}
	if c.pending++; c.pending >= c.ackEvery || last {
		c.acknowledge()
	}
}

func (c *conn) acknowledge() {
	c.pending = 0
	p := bth.AddPSN(c.expected, bth.MaxPSN)
	c.answer(bth.RCAcknowledge, 0x1F, p, func() {
		if d := diff(p, c.una); d >= 0 {
			c.una = bth.AddPSN(p, 1)
			if diff(c.next, c.una) < 0 {
				c.next = c.una
			}
			c.setTimer()
			c.sendNext()
		}
	})
}

func (c *conn) goBack(p uint32) {
	if diff(p, c.una) >= 0 {
		c.una, c.next = p, p
		c.setTimer()
		c.sendNext()
	}
}

// answer sends an answer.
func (c *conn) answer(op bth.Opcode, syndrome uint8, psn uint32, then func()) {
	c.w.after(c.far+time.Duration(c.w.IntN(500)), func() {
		class, payload := c.dscp<<2, 0
		if op == bth.CNP {
			class, payload = 48<<2, 16
		}
		if !c.oneWay {
			c.w.sent++
			c.w.packet(c.dst, c.src, c.port, c.w.sent, class, bth.Header{Opcode: op, DestQP: c.qp, PSN: psn},
				syndrome, payload)
		}
		if c.ackLost != nil && op != bth.CNP && c.ackLost() {
			return
		}
		c.w.after(c.near, then)
	})
}

// notified slows the sender down, as DCQCN does.
func (c *conn) notified() {
	if !c.heeds {
		return
	}
	c.alpha = max(c.alpha, 0.5)*0.9 + 0.1
	c.target = c.rate
	c.rate = max(c.rate*(1-c.alpha/2), 5e7)
	c.stages = 0
}

// recover goes halfway to the target, later further.
func (c *conn) recover() {
	c.alpha *= 0.95
	if c.stages++; c.stages > 5 {
		c.target = min(c.target+c.line/50, c.line)
	}
	c.rate = (c.rate + c.target) / 2
	c.w.after(55*time.Microsecond, c.recover)
}

// packet captures a packet.
func (w *wire) packet(src, dst netip.Addr, port, id uint16, class uint8, h bth.Header, syndrome uint8, payload int) {
	h.PKey = 0xFFFF
	p := rocev2.Packet{Datagram: rocev2.Datagram{Src: src, Dst: dst, SrcPort: port, DstPort: rocev2.Port, HopLimit: 64,
		TrafficClass: class}, Payload: make([]byte, payload)}
	p.ID = id
	p.BTH.Header = h
	p.BTH.AETH.Syndrome = bth.Syndrome(syndrome)
	b := []byte{2, 0, 0, 9, 0, 2, 2, 0, 0, 9, 0, 1, 0x08, 0x00}
	if src.Is6() {
		b[12], b[13] = 0x86, 0xDD
	}
	out, err := p.AppendBinary(b)
	if err != nil {
		panic(err)
	}
	w.capture(out)
}

func (w *wire) capture(octets []byte) { w.frames = append(w.frames, frame{w.now, octets}) }

// pause sends a PFC frame for priority 3.
func (w *wire) pause(mac [6]byte, quanta uint16) {
	f := pfc.PFC{Enabled: 1 << 3}
	f.Quanta[3] = quanta
	w.capture(f.AppendFrame(nil, mac))
}

// merged puts the frames of several captures in the order of their times.
func merged(all ...[]frame) (out []frame) {
	for _, one := range all {
		out = append(out, one...)
	}
	slices.SortStableFunc(out, func(a, b frame) int { return cmp.Compare(a.at, b.at) })
	return out
}

var be = binary.BigEndian
