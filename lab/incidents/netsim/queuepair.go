package netsim

import "time"

// A QP is a connection of two queue pairs that carries data from src to dst: by SEND, by WRITE, or as the responses to
// the READs of dst.
type QP struct {
	net        *Net
	src, dst   *Host
	own, peer  uint32 // queue pairs of src and dst
	port       uint16
	dscp, ecn  uint8
	write      bool
	payload    int
	message    int           // packets
	rest       time.Duration // between two messages
	window     int           // packets
	line       float64       // bits a second
	ackEvery   int
	timeout    time.Duration
	doubles    bool // the timeout doubles each time
	maxRetries int
	lockstep   bool // a message begins when the previous one is acknowledged
	spray      bool
	sorts      bool // the receiver puts packets in order
	heeds      bool // the sender slows down after CNPs
	hidden     bool // answers do not pass the capture

	// Functions that decide about packets.
	loseTail func(message int) bool // the last packet of a message, at its first copy
	notReady func(message int) int  // RNR NAKs to a message
	refuse   func(psn uint32) uint8 // syndrome of a NAK that ends the connection; 0 for none
	dead     func() bool            // the receiver's queue pair is gone

	first, next, una, high uint32
	sent, resent           int // packets, and retransmissions among them
	rate, target, alpha    float64
	stages, retries        int
	idle, ended, busy      bool
	timer                  int
	until                  time.Duration // no packet before that

	expected  uint32
	nakked    bool
	unacked   int
	lastCNP   time.Duration
	waiting   map[uint32]bool
	refusals  map[int]int
	remaining int // responses to be sent
}

const maxPSN = 1<<24 - 1

// distance returns a - b in the serial arithmetic of PSNs.
func distance(a, b uint32) int { return int(int32((a-b)<<8) >> 8) }

// connect adds a connection on which nothing is wrong.
func (n *Net) connect(src, dst *Host) *QP {
	q := &QP{net: n, src: src, dst: dst, own: 0x40 + uint32(n.IntN(1<<20)), peer: 0x40 + uint32(n.IntN(1<<20)),
		port: uint16(0xC000 + n.IntN(0x3FFF)), dscp: 26, ecn: 2, write: n.IntN(2) == 0,
		payload: pick(n, 1024, 1024, 2048, 4096), message: 4 + n.IntN(60), window: 24 + n.IntN(80),
		line: float64(1+n.IntN(4)) * 1e9, ackEvery: pick(n, 1, 4, 8, 16), timeout: n.between(4000, 9000), maxRetries: 7,
		heeds: true, waiting: map[uint32]bool{}, refusals: map[int]int{}, lastCNP: -time.Hour}
	n.qps = append(n.qps, q)
	q.first = uint32(n.IntN(1 << 24))
	q.next, q.una, q.high, q.expected = q.first, q.first, q.first, q.first
	return q
}

// start begins to send within some microseconds.
func (q *QP) start() *QP {
	q.rate, q.target, q.alpha = q.line, q.line, 1
	q.net.after(q.net.between(0, 60), q.pump)
	q.net.after(q.net.between(30, 90), q.recover)
	return q
}

// pump sends the next packet, and calls itself again after the time that the rate allows.
func (q *QP) pump() {
	n := q.net
	q.busy = false
	at := distance(q.next, q.first)
	flying := distance(q.next, q.una)
	switch {
	case q.ended:
		return
	case flying >= q.window || q.lockstep && at%q.message == 0 && flying > 0:
		q.idle = true
		return
	case n.now < q.until:
		q.again(q.until - n.now)
		return
	}
	i := at % q.message
	last := i == q.message-1
	psn := q.next
	isNew := distance(psn, q.high) >= 0
	q.next = (q.next + 1) & maxPSN
	if isNew {
		q.high = q.next
	} else {
		n.Events["loss"]++
		q.resent++
	}
	q.sent++
	if flying == 0 {
		q.restartTimer(q.timeout)
	}
	p := &packet{src: q.src, dst: q.dst, port: q.port, dscp: q.dscp, ecn: q.ecn, qp: q.peer, psn: psn,
		payload: q.payload,
		asks:    last || flying+1 >= q.window, isData: true}
	base := []uint8{sendFirst, sendMiddle, sendLast, sendOnly}
	if q.write {
		base = []uint8{writeFirst, writeMiddle, writeLast, writeOnly}
	}
	switch {
	case q.message == 1:
		p.opcode = base[3]
	case i == 0:
		p.opcode = base[0]
	case last:
		p.opcode = base[2]
	default:
		p.opcode = base[1]
	}
	if p.opcode == writeFirst || p.opcode == writeOnly {
		p.extension = reth(q.message * q.payload)
	}
	p.doomed = isNew && last && q.loseTail != nil && q.loseTail(at/q.message)
	spray := -1
	if q.spray {
		spray = n.IntN(len(n.spines))
	}
	n.send(p, spray, q.receive)
	gap := time.Duration(float64(p.size()+24) * 8e9 / q.rate)
	if last {
		gap += q.rest
	}
	q.again(gap)
}

// reth writes an RDMA Extended Transport Header: address, key, length.
func reth(length int) []byte {
	return []byte{0, 0, 0x7F, 0, 0, 0, 0, 0, 0, 0, 0x12, 0x34,
		byte(length >> 24), byte(length >> 16), byte(length >> 8), byte(length)}
}

func (q *QP) again(d time.Duration) {
	if !q.busy {
		q.busy, q.idle = true, false
		q.net.after(d, q.pump)
	}
}

func (q *QP) restartTimer(d time.Duration) {
	q.timer++
	mine := q.timer
	q.net.after(d, func() {
		if mine != q.timer || q.una == q.high || q.ended {
			return
		}
		if q.retries++; q.retries > q.maxRetries {
			q.ended = true
			return
		}
		q.next = q.una
		if q.doubles {
			d *= 2
		}
		q.restartTimer(d)
		q.again(0)
	})
}

// receive is the receiver of data.
func (q *QP) receive(p *packet) {
	n := q.net
	if q.dead != nil && q.dead() || p.flipped {
		return
	}
	if p.ecn == 3 && !q.dst.withoutECN && n.now-q.lastCNP >= q.dst.cnpEvery && !p.trimmed {
		q.lastCNP = n.now
		q.answer(cnp, 0, 0, q.slowDown)
	}
	d := distance(p.psn, q.expected)
	switch {
	case p.trimmed || d > 0 && !q.sorts:
		if !q.nakked && d >= 0 {
			q.nakked = true
			at := q.expected
			q.answer(acknowledge, 0x60, at, func(*packet) { q.goBack(at) })
		}
		return
	case d > 0:
		q.waiting[p.psn] = true
		return
	case d < 0:
		if p.asks {
			q.acknowledge()
		}
		return
	}
	at := distance(p.psn, q.first)
	if q.refuse != nil {
		if s := q.refuse(p.psn); s != 0 {
			q.answer(acknowledge, s, p.psn, func(*packet) { q.ended = true })
			q.dead = func() bool { return true }
			return
		}
	}
	if m := at / q.message; q.notReady != nil && at%q.message == 0 {
		if _, asked := q.refusals[m]; !asked {
			q.refusals[m] = q.notReady(m)
		}
		if q.refusals[m] > 0 {
			q.refusals[m]--
			q.nakked = true
			q.answer(acknowledge, 0x20|12, p.psn, func(*packet) { // 0.64 ms
				q.until = n.now + 640*us
				q.goBack(p.psn)
			})
			return
		}
	}
	q.nakked = false
	q.expected = (q.expected + 1) & maxPSN
	for q.waiting[q.expected] {
		delete(q.waiting, q.expected)
		q.expected = (q.expected + 1) & maxPSN
		q.unacked++
	}
	if q.unacked++; q.unacked >= q.ackEvery || p.asks {
		q.acknowledge()
	}
}

func (q *QP) acknowledge() {
	q.unacked = 0
	last := (q.expected + maxPSN) & maxPSN
	q.answer(acknowledge, 0x1F, last, func(*packet) {
		if distance(last, q.una) < 0 {
			return
		}
		q.una, q.retries = (last+1)&maxPSN, 0
		if distance(q.next, q.una) < 0 {
			q.next = q.una
		}
		q.restartTimer(q.timeout)
		if q.idle {
			q.again(0)
		}
	})
}

func (q *QP) goBack(psn uint32) {
	if distance(psn, q.una) >= 0 {
		q.una, q.next, q.retries = psn, psn, 0
		q.restartTimer(q.timeout)
		q.again(0)
	}
}

// answer sends an answer to the sender of the data.
func (q *QP) answer(opcode, syndrome uint8, psn uint32, then func(*packet)) {
	p := &packet{src: q.dst, dst: q.src, port: q.port, dscp: q.dscp, opcode: opcode, qp: q.own, psn: psn,
		hidden: q.hidden}
	if opcode == cnp {
		p.dscp, p.payload = 48, 16
	} else {
		p.extension = []byte{syndrome, 0, 0, 1}
	}
	q.net.after(time.Duration(300+q.net.IntN(700)), func() {
		q.net.send(p, -1, func(p *packet) {
			if !p.wrongICRC {
				then(p)
			}
		})
	})
}

// slowDown reduces the rate as DCQCN does.
func (q *QP) slowDown(*packet) {
	if q.heeds {
		q.target = q.rate
		q.rate = max(q.rate*(1-q.alpha/2), q.line/200)
		q.alpha, q.stages = q.alpha*15/16+1.0/16, 0
	}
}

// recover raises the rate: five times halfway to the rate before, later further. An adapter that has reached its line
// rate releases the rate limiter, and begins with α = 1 at the next CNP.
func (q *QP) recover() {
	if q.alpha *= 15.0 / 16; q.rate > 0.99*q.line {
		q.alpha = 1
	}
	if q.stages++; q.stages > 5 {
		q.target = min(q.target+q.line/200, q.line)
	}
	q.rate = (q.rate + q.target) / 2
	if !q.ended {
		q.net.after(55*us, q.recover)
	}
}

// startReads lets the receiver of the data read it, with some READs outstanding.
func (q *QP) startReads(outstanding int) *QP {
	q.rate, q.target, q.alpha = q.line, q.line, 1
	for range outstanding {
		q.net.after(q.net.between(0, 60), q.read)
	}
	q.net.after(q.net.between(30, 90), q.recover)
	return q
}

// read sends a READ request; the responses take its PSNs.
func (q *QP) read() {
	psn := q.expected
	q.expected = (q.expected + uint32(q.message)) & maxPSN
	p := &packet{src: q.dst, dst: q.src, port: q.port, dscp: q.dscp, ecn: q.ecn, opcode: readRequest, qp: q.own,
		psn:  psn,
		asks: true, extension: reth(q.message * q.payload)}
	q.net.send(p, -1, func(*packet) {
		q.remaining += q.message
		if !q.busy {
			q.busy = true
			q.respond()
		}
	})
}

// respond sends the next response, and calls itself again after the time that the rate allows.
func (q *QP) respond() {
	if q.busy = q.remaining > 0; !q.busy {
		return
	}
	q.remaining--
	i := distance(q.next, q.first) % q.message
	p := &packet{src: q.src, dst: q.dst, port: q.port ^ 0x155, dscp: q.dscp, ecn: q.ecn, qp: q.peer, psn: q.next,
		payload: q.payload, isData: true, opcode: readMiddle}
	switch {
	case q.message == 1:
		p.opcode = readOnly
	case i == 0:
		p.opcode = readFirst
	case i == q.message-1:
		p.opcode = readLast
	}
	if p.opcode != readMiddle {
		p.extension = []byte{0x1F, 0, 0, 1}
	}
	q.next = (q.next + 1) & maxPSN
	last := i == q.message-1
	q.net.send(p, -1, func(p *packet) {
		if p.ecn == 3 && !q.dst.withoutECN && q.net.now-q.lastCNP >= q.dst.cnpEvery {
			q.lastCNP = q.net.now
			q.answer(cnp, 0, 0, q.slowDown)
		}
		if last {
			q.read()
		}
	})
	q.net.after(time.Duration(float64(p.size()+24)*8e9/q.rate), q.respond)
}
