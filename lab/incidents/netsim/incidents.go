package netsim

import (
	"fmt"
	"time"
)

// An Incident is a capture with its true causes.
type Incident struct {
	Name string
	// Causes are the names of the causes in docs/triage.md, each with the parties that caused it.
	Causes map[string][]string
	// Also has causes that are true as well, with their parties, but need not be found.
	Also     map[string][]string
	Events   map[string]int // see Net
	Frames   []Frame
	Discards []Discard
}

// A maker adds an incident to a network and returns the end of the capture and the parties.
type maker struct {
	cause string
	make  func(n *Net) (end time.Duration, parties []string)
	alone bool // not together with another one
}

// Names returns the names of the causes that the package can make.
func Names() (all []string) {
	for _, m := range makers {
		all = append(all, m.cause)
	}
	return all
}

// Make makes an incident with some causes, among connections on which nothing is wrong. It makes a healthy one without
// causes.
func Make(seed uint64, causes ...string) Incident {
	n := New(seed)
	in := Incident{Name: "healthy", Causes: map[string][]string{}, Also: n.also, Events: n.Events}
	end := n.between(4000, 8000)
	for i, cause := range causes {
		for _, m := range makers {
			if m.cause == cause {
				e, parties := m.make(n)
				end = max(end, e)
				in.Causes[cause] = parties
			}
		}
		if in.Name = cause; i > 0 {
			in.Name = causes[0] + " and " + cause
		}
	}
	n.addHealthy(end)
	n.Run(end)
	n.addEffects()
	in.Frames, in.Discards = n.Frames, n.Discards
	return in
}

// IsAlone reports whether a cause cannot be made together with another one.
func IsAlone(cause string) bool {
	for _, m := range makers {
		if m.cause == cause {
			return m.alone
		}
	}
	return false
}

var makers = []maker{
	{cause: "pause storm", make: pauseStorm}, {cause: "endless pause", make: endlessPause},
	{cause: "incast", make: incast}, {cause: "one path", make: onePath}, {cause: "no CNP", make: noCNP},
	{cause: "CNP unheeded", make: unheeded}, {cause: "not ECN-capable", make: notCapable},
	{cause: "other DSCP", make: otherDSCP}, {cause: "too many notifications", make: tooMany},
	{cause: "receiver not ready", make: notReady}, {cause: "retransmission storm", make: storm},
	{cause: "timeout", make: timeout}, {cause: "reordering", make: reordering}, {cause: "discarded", make: discarded},
	{cause: "wrong ICRC", make: wrongICRC}, {cause: "MTU", make: mtu}, {cause: "path down", make: pathDown},
	{cause: "gave up", make: gaveUp}, {cause: "trimmed", make: trimmed}, {cause: "loss", make: loss},
	{cause: "repeats", make: repeats}, {cause: "congestion", make: congestion}, {cause: "refused", make: refused},
	{cause: "corrupt", make: corrupt}, {cause: "not captured", make: notCaptured, alone: true},
}

// addEffects adds causes that the packets have in addition to those that were made: receivers with a queue at their
// port in which packets of three or more senders were marked, and connections with many retransmissions.
func (n *Net) addEffects() {
	for _, q := range n.qps {
		if q.resent >= 50 && q.resent*10 >= q.sent {
			n.also["retransmission storm"] = nil
		}
	}
	for _, h := range n.hosts {
		if len(h.down.marked) >= 3 {
			n.also["incast"] = append(n.also["incast"], h.Address())
		}
	}
}

// addHealthy adds connections on which nothing is wrong: some are marked now and then and slow down, some are READs.
func (n *Net) addHealthy(time.Duration) {
	for range 2 + n.IntN(4) {
		src, dst := n.anyHost(), n.anyHost()
		dst.tap()
		q := n.connect(src, dst)
		if n.IntN(3) == 0 {
			q.startReads(1 + n.IntN(3))
		} else {
			q.start()
		}
		if n.IntN(3) == 0 { // a queue at the receiver's port that marks, and a sender that obeys
			dst.down.rate, dst.down.least, dst.down.most = q.line*0.9, 8_000, 200_000
		}
	}
	if n.IntN(4) == 0 { // PFC that works: short pauses now and then
		h := n.anyHost()
		h.tap()
		n.connect(n.anyHost(), h).start()
		n.connect(h, n.anyHost()).start()
		var brief func()
		brief = func() {
			h.pause(uint16(1000 + n.IntN(3000)))
			n.after(n.between(200, 2000), brief)
		}
		n.after(n.between(0, 2000), brief)
	}
}

// tapOne captures at one of two hosts.
func (n *Net) tapOne(a, b *Host) {
	pick(n, a, b).tap()
}

func pauseStorm(n *Net) (time.Duration, []string) {
	h, other := n.anyHost(), n.anyHost()
	h.tap()
	n.connect(other, h).start()
	n.connect(h, other).start()
	quanta, every := pick(n, 20_000, 45_000, 65_535), n.between(120, 500)
	var again func()
	again = func() {
		h.pause(uint16(quanta))
		n.after(every, again)
	}
	n.after(n.between(100, 1500), again)
	return n.between(5000, 9000), []string{h.MAC()}
}

func endlessPause(n *Net) (time.Duration, []string) {
	h, other := n.anyHost(), n.anyHost()
	h.tap()
	n.connect(other, h).start()
	every := n.between(100, 320)
	var again func()
	again = func() {
		h.pause(65_535)
		n.after(every, again)
	}
	n.after(n.between(500, 2500), again)
	return n.between(26_000, 34_000), []string{h.MAC()}
}

func incast(n *Net) (time.Duration, []string) {
	to := n.anyHost()
	to.down.least, to.down.most, to.down.chance = 30_000, 150_000, pick(n, 0.1, 0.3)
	senders := 4 + n.IntN(9)
	reads := n.IntN(3) == 0
	to.tap()
	for range senders {
		q := n.connect(n.anyHost(), to)
		q.line = to.down.rate
		if reads {
			q.startReads(2)
		} else {
			q.start()
		}
	}
	return n.between(3000, 5000), []string{to.Address()}
}

// slowPath makes the paths between two leaves slower than their senders.
func (n *Net) slowPath(from, to int, rate float64, only int) {
	for s, l := range n.leaves[from] {
		if only < 0 || s == only {
			l.rate, l.least, l.most, l.chance = rate, 20_000, 120_000, 0.2
		}
	}
}

func onePath(n *Net) (time.Duration, []string) {
	n.addSpine()
	src, dst := n.host(0), n.host(1)
	src.up.rate, dst.down.rate = 25e9, 100e9
	n.tapOne(dst, src)
	flows := 8 + n.IntN(9)
	slow := 0
	for i := range flows {
		q := n.connect(src, dst)
		q.line = 20e9 / float64(flows)
		q.payload = 1024
		if i < 2 { // at least one on each of two paths
			for int(q.port*31+uint16(src.mac[5])*7+uint16(dst.mac[5]))%len(n.spines) != i {
				q.port++
			}
		}
		if int(q.port*31+uint16(src.mac[5])*7+uint16(dst.mac[5]))%len(n.spines) == 0 {
			slow++
		}
		q.start()
	}
	n.slowPath(0, 1, float64(slow)*20e9/float64(flows)*0.5, 0)
	return n.between(4000, 7000), nil
}

func noCNP(n *Net) (time.Duration, []string) {
	to := n.anyHost()
	to.withoutECN = true
	to.tap()
	to.down.rate, to.down.least, to.down.most, to.down.chance = 5e9, 20_000, 100_000, 0.5
	for range 1 + n.IntN(2) {
		q := n.connect(n.anyHost(), to)
		q.line = pick(n, 6e9, 8e9)
		if n.IntN(3) == 0 {
			q.startReads(3)
		} else {
			q.start()
		}
	}
	return n.between(4000, 7000), []string{to.Address()}
}

func unheeded(n *Net) (time.Duration, []string) {
	to := n.anyHost()
	to.down.rate, to.down.least, to.down.most, to.down.chance = 10e9, 20_000, 150_000, 0.1
	senders := 3 + n.IntN(3)
	var bad *Host
	atSenders := n.IntN(2) == 0 // before the queue
	for i := range senders {
		h := n.anyHost()
		if h.tap(); !atSenders {
			h.up.tapped, h.down.tapped = false, false
		}
		q := n.connect(h, to)
		q.line, q.payload, q.window = 6e9, 1024, 128
		if i == 0 {
			bad, q.heeds = h, false
		}
		q.start()
	}
	if !atSenders {
		to.tap()
	}
	return n.between(15_000, 20_000), []string{bad.Address()}
}

func notCapable(n *Net) (time.Duration, []string) {
	to := n.anyHost()
	to.tap()
	to.down.rate, to.down.least, to.down.most = 10e9, 20_000, 150_000
	for range 2 + n.IntN(2) {
		q := n.connect(n.anyHost(), to)
		q.line = 5e9
		q.start()
	}
	q := n.connect(n.anyHost(), to)
	q.ecn, q.line = 0, 3e9
	q.start()
	return n.between(4000, 7000), []string{q.src.Address()}
}

func otherDSCP(n *Net) (time.Duration, []string) {
	to := n.anyHost()
	bad := pick[uint8](n, 0, 8, 18)
	lose := n.chance(pick(n, 0.008, 0.02))
	to.down.loseHere = func(p *packet) bool { return p.dscp == bad && lose(p) }
	for range 2 + n.IntN(4) {
		n.connect(n.anyHost(), to).start()
	}
	q := n.connect(n.anyHost(), to)
	q.dscp, q.window, q.payload, q.line = bad, 10, 1024, 3e9
	q.start()
	to.tap()
	return n.between(5000, 8000), []string{q.src.Address()}
}

func tooMany(n *Net) (time.Duration, []string) {
	to := n.anyHost()
	to.cnpEvery = time.Duration(n.IntN(1500))
	to.down.rate, to.down.least, to.down.most, to.down.chance = 6e9, 5_000, 8_000, 1
	to.tap()
	for range 1 + n.IntN(2) {
		q := n.connect(n.anyHost(), to)
		q.line, q.payload, q.window = 9e9, 1024, 100
		q.start()
	}
	return n.between(3000, 5000), []string{to.Address()}
}

func notReady(n *Net) (time.Duration, []string) {
	src, dst := n.anyHost(), n.anyHost()
	n.tapOne(src, dst)
	q := n.connect(src, dst)
	every, times := 2+n.IntN(6), 1+n.IntN(3)
	q.write, q.message = false, 2+n.IntN(10)
	q.notReady = func(m int) int {
		if m%every == 1 {
			return times
		}
		return 0
	}
	q.start()
	return n.between(6000, 9000), []string{dst.Address()}
}

func storm(n *Net) (time.Duration, []string) {
	src, dst := n.anyHost(), n.anyHost()
	n.tapOne(src, dst)
	q := n.connect(src, dst)
	q.window, q.line, q.payload, q.message, q.timeout = 300, 9e9, 1024, 64, n.between(900, 1400)
	dst.down.delay = n.between(40, 80)
	dst.down.rate, src.up.rate = 25e9, 25e9
	dst.down.loseHere = n.chance(pick(n, 0.025, 0.035))
	q.start()
	return n.between(4000, 6000), nil
}

func timeout(n *Net) (time.Duration, []string) {
	src, dst := n.anyHost(), n.anyHost()
	n.tapOne(src, dst)
	q := n.connect(src, dst)
	q.lockstep, q.timeout, q.message = true, n.between(1050, 2200), 4+n.IntN(16)
	q.line, q.payload = 4e9, 1024
	q.window = q.message + 1
	bad := 3 + n.IntN(6)
	if n.IntN(2) == 0 {
		q.loseTail = func(m int) bool { return m == bad || m == 3*bad }
	} else { // an ACK is lost on its way back
		acks := 0
		q.ackEvery = 1000
		q.src.down.lose = func(p *packet) bool { // after the capture at the sender
			if p.opcode == acknowledge && p.qp == q.own {
				acks++
			}
			return p.opcode == acknowledge && p.qp == q.own && (acks == bad || acks == 3*bad)
		}
	}
	q.start()
	return n.between(8000, 12_000), nil
}

func reordering(n *Net) (time.Duration, []string) {
	n.addSpine()
	src, dst := n.host(0), n.host(1)
	dst.tap()
	for s := range n.spines {
		n.spines[s][1].delay = time.Duration(2+s*pick(n, 1, 2)) * us
	}
	q := n.connect(src, dst)
	q.spray, q.line, q.payload = true, pick(n, 4e9, 8e9), 1024
	q.sorts = n.v6 || n.IntN(2) == 0 // else only the Identification of IPv4 shows that nothing was lost
	q.start()
	return n.between(3000, 6000), nil
}

func discarded(n *Net) (time.Duration, []string) {
	to := n.anyHost()
	to.tap()
	to.down.rate, to.down.least, to.down.most, to.down.limited = 8e9, 200_000, 40_000, true
	to.down.agent = 1 + n.IntN(9)
	for range 2 {
		q := n.connect(n.anyHost(), to)
		q.line, q.ecn, q.window = 6e9, 0, 60
		q.start()
	}
	return n.between(4000, 6000), []string{fmt.Sprintf("172.31.0.%d", to.down.agent)}
}

func wrongICRC(n *Net) (time.Duration, []string) {
	to := n.anyHost()
	to.tap()
	to.down.rate, to.down.least, to.down.most, to.down.chance = 5e9, 15_000, 80_000, 0.5
	q := n.connect(n.anyHost(), to)
	q.line = 6e9
	if to.wrong = cnp; n.IntN(2) == 0 {
		to.wrong, q.line, q.timeout, q.maxRetries = acknowledge, 2e9, n.between(700, 1500), 2
	}
	q.start()
	return n.between(7000, 9000), []string{to.Address()}
}

func mtu(n *Net) (time.Duration, []string) {
	src, dst := n.anyHost(), n.anyHost()
	src.tap()
	limit := pick(n, 1500, 2500)
	lose := func(p *packet) bool { return p.size() > limit }
	dst.down.loseHere = lose
	if src.leaf == dst.leaf && n.IntN(2) == 0 {
		dst.down.loseHere, src.up.lose = nil, lose
	}
	long, short := n.connect(src, dst), n.connect(src, dst)
	long.payload, long.timeout, long.window = 4096, n.between(600, 1500), 8
	short.payload = pick(n, 256, 1024)
	long.start()
	short.start()
	return n.between(9000, 12_000), nil
}

func pathDown(n *Net) (time.Duration, []string) {
	src, dst := n.anyHost(), n.anyHost()
	src.tap()
	from := n.between(1500, 3000)
	dst.down.loseHere = func(p *packet) bool { return n.now > from && p.src == src }
	timeout := n.between(700, 1500)
	for range 2 + n.IntN(3) {
		q := n.connect(src, dst)
		q.timeout = timeout
		q.start()
	}
	return n.between(9000, 12_000), nil
}

func gaveUp(n *Net) (time.Duration, []string) {
	src, dst := n.anyHost(), n.anyHost()
	src.tap()
	from := n.between(1500, 3000)
	q := n.connect(src, dst)
	q.dead = func() bool { return n.now > from }
	q.timeout, q.maxRetries = n.between(600, 1100), 3+n.IntN(5)
	q.start()
	other := n.connect(n.anyHost(), dst)
	other.start()
	other.src.tap()
	return from + q.timeout*time.Duration(q.maxRetries+4), nil
}

func trimmed(n *Net) (time.Duration, []string) {
	to := n.anyHost()
	to.tap()
	to.down.rate, to.down.least, to.down.most, to.down.limited, to.down.trims = 8e9, 200_000, 40_000, true, true
	for range 2 {
		q := n.connect(n.anyHost(), to)
		q.line, q.ecn, q.window = 6e9, 0, 60
		q.start()
	}
	return n.between(3000, 5000), nil
}

func loss(n *Net) (time.Duration, []string) {
	src, dst := n.anyHost(), n.anyHost()
	n.tapOne(src, dst)
	q := n.connect(src, dst)
	q.window, q.payload, q.line, q.ackEvery = 8, 1024, 4e9, 2
	left, seen := 2+n.IntN(5), 0
	at := 150 + n.IntN(150)
	lose := func(p *packet) bool {
		if p.isData && p.qp == q.peer {
			seen++
		}
		if p.isData && p.qp == q.peer && seen%at == 0 && left > 0 {
			left--
			return true
		}
		return false
	}
	dst.down.loseHere = lose
	q.start()
	return n.between(6000, 9000), nil
}

func repeats(n *Net) (time.Duration, []string) {
	src, dst := n.anyHost(), n.anyHost()
	src.tap()
	q := n.connect(src, dst)
	q.hidden, q.window, q.payload, q.line, q.ecn = true, 12, 1024, 3e9, 2
	dst.down.loseHere = n.chance(0.005)
	q.start()
	return n.between(5000, 8000), nil
}

func congestion(n *Net) (time.Duration, []string) {
	from, to := 0, 1
	n.slowPath(from, to, 6e9, -1)
	for range 2 {
		src, dst := n.host(from), n.host(to)
		dst.tap()
		q := n.connect(src, dst)
		q.line, q.payload = 8e9, 1024
		q.start()
	}
	return n.between(4000, 7000), nil
}

func refused(n *Net) (time.Duration, []string) {
	src, dst := n.anyHost(), n.anyHost()
	n.tapOne(src, dst)
	for range 1 + n.IntN(3) {
		q := n.connect(src, dst)
		syndrome := pick[uint8](n, 0x61, 0x62, 0x63)
		at := n.IntN(2) * n.IntN(400)
		q.refuse = func(psn uint32) uint8 {
			if distance(psn, q.first) >= at {
				return syndrome
			}
			return 0
		}
		q.start()
	}
	return n.between(4000, 6000), []string{dst.Address()}
}

func corrupt(n *Net) (time.Duration, []string) {
	src, dst := n.anyHost(), n.anyHost()
	dst.tap()
	q := n.connect(src, dst)
	q.window, q.payload = 16, 1024
	src.up.flip = n.chance(pick(n, 0.003, 0.01))
	q.start()
	return n.between(5000, 8000), nil
}

func notCaptured(n *Net) (time.Duration, []string) {
	src, dst := n.anyHost(), n.anyHost()
	n.tapOne(src, dst)
	n.missed = pick(n, 0.005, 0.02)
	n.connect(src, dst).start()
	return n.between(4000, 7000), nil
}
