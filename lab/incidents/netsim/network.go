// Package netsim simulates hosts, switches and queue pairs of RoCEv2, and captures packets of some links. Tests use
// it for captures with a known cause, from code that shares nothing with the code under test: it imports only the
// standard library and writes every octet of the packets itself.
package netsim

import (
	"cmp"
	"container/heap"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"
)

const us = time.Microsecond

// A Net is a network of two layers: hosts at leaf switches, and spine switches between the leaves.
type Net struct {
	*rand.Rand
	Frames []Frame
	// Events counts marks ("congestion"), lost packets and retransmissions ("loss"), changed packets ("corrupt") and
	// packets that the capture misses ("not captured"), by the names of causes in docs/triage.md.
	Events   map[string]int
	Discards []Discard

	now    time.Duration
	queue  eventQueue
	order  uint64
	hosts  []*Host
	qps    []*QP
	leaves [][]*link // from a leaf to each spine
	spines [][]*link // from a spine to each leaf
	v6     bool
	missed float64 // share of the data that the capture misses
	also   map[string][]string
}

// A Discard is a packet that a switch discarded and reported.
type Discard struct {
	Frame
	Agent       netip.Addr
	Port, Queue uint32
}

// A Host has one port.
type Host struct {
	address  []byte
	mac      [6]byte
	v6       bool
	leaf     int
	up, down *link
	nextID   uint16

	withoutECN bool          // sends no CNPs
	cnpEvery   time.Duration // least time between two CNPs about a queue pair
	wrong      uint8         // opcode of the packets that it sends with a wrong ICRC; 0xFF for none
}

// Address returns the IP address as text.
func (h *Host) Address() string { a, _ := netip.AddrFromSlice(h.address); return a.String() }

// MAC returns the Ethernet address as text.
func (h *Host) MAC() string {
	m := h.mac
	return fmt.Sprintf("%02x:%02x:%02x:%02x:%02x:%02x", m[0], m[1], m[2], m[3], m[4], m[5])
}

// A link is one direction of a link, with the queue before it.
type link struct {
	net      *Net
	rate     float64 // bits a second
	delay    time.Duration
	least    int     // octets in the queue from which packets are marked
	most     int     // octets from which all are marked, or the queue is full if that is limited
	chance   float64 // of a mark just below most
	limited  bool
	trims    bool
	free     time.Duration // when the last packet in the queue has left
	tapped   bool
	from, to [6]byte
	lose     func(*packet) bool // drops a packet that has passed the link, after the capture
	loseHere func(*packet) bool // drops a packet before the capture
	flip     func(*packet) bool
	marked   map[*Host]bool // senders of marked packets
	agent    int            // number of the switch that reports discarded packets; 0 if it does not
}

type event struct {
	at    time.Duration
	order uint64
	do    func()
}

type eventQueue []event

func (q eventQueue) Len() int { return len(q) }
func (q eventQueue) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].order < q[j].order
}
func (q eventQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *eventQueue) Push(x any)   { *q = append(*q, x.(event)) }
func (q *eventQueue) Pop() any {
	n := len(*q) - 1
	last := (*q)[n]
	*q = (*q)[:n]
	return last
}

func (n *Net) after(d time.Duration, do func()) {
	n.order++
	heap.Push(&n.queue, event{n.now + d, n.order, do})
}

// Run simulates until a time.
func (n *Net) Run(end time.Duration) {
	for len(n.queue) > 0 && n.queue[0].at <= end {
		e := heap.Pop(&n.queue).(event)
		n.now = e.at
		e.do()
	}
	slices.SortStableFunc(n.Frames, func(a, b Frame) int { return cmp.Compare(a.At, b.At) })
}

// pick returns one of the values.
func pick[T any](n *Net, values ...T) T { return values[n.IntN(len(values))] }

// between returns a duration from a to b microseconds.
func (n *Net) between(a, b int) time.Duration { return time.Duration(a+n.IntN(b-a+1)) * us }

// chance returns a function that is true with a probability.
func (n *Net) chance(p float64) func(*packet) bool {
	return func(p2 *packet) bool { return p2.isData && n.Float64() < p }
}

// New returns a network without hosts.
func New(seed uint64) *Net {
	n := &Net{Rand: rand.New(rand.NewPCG(seed, 0x5151)), Events: map[string]int{}, also: map[string][]string{}}
	n.v6 = n.IntN(3) == 0
	n.leaves = make([][]*link, 2+n.IntN(3))
	for range 1 + n.IntN(4) {
		n.addSpine()
	}
	return n
}

// addSpine adds a spine switch with links to all leaves.
func (n *Net) addSpine() {
	s := byte(len(n.spines))
	var down []*link
	for l := range n.leaves {
		a, b := [6]byte{2, 0xAA, 0, 0, 1, byte(l)}, [6]byte{2, 0xAA, 0, 0, 2, s}
		n.leaves[l] = append(n.leaves[l], n.newLink(100e9, a, b))
		down = append(down, n.newLink(100e9, b, a))
	}
	n.spines = append(n.spines, down)
}

func (n *Net) newLink(rate float64, from, to [6]byte) *link {
	return &link{net: n, rate: rate, delay: n.between(1, 2), least: 60_000, most: 300_000, chance: 0.1, from: from,
		to:     to,
		marked: map[*Host]bool{}}
}

// host adds a host at a leaf.
func (n *Net) host(leaf int) *Host {
	i := len(n.hosts) + 1
	h := &Host{leaf: leaf, v6: n.v6, mac: [6]byte{0x0C, 0x42, 0xA1, 0, byte(leaf), byte(i)}, wrong: 0xFF,
		address: []byte{172, 16, byte(leaf), byte(i)}, cnpEvery: 50 * us, nextID: uint16(n.IntN(1 << 16))}
	if n.v6 {
		h.address = []byte{0xFD, 0, 0x51, 0x51, 0, 0, 0, byte(leaf), 0, 0, 0, 0, 0, 0, 1, byte(i)}
	}
	port := [6]byte{2, 0xAA, 0, 0, 1, byte(leaf)}
	rate := pick(n, 10e9, 25e9)
	h.up, h.down = n.newLink(rate, h.mac, port), n.newLink(rate, port, h.mac)
	n.hosts = append(n.hosts, h)
	return h
}

// anyHost adds a host at a random leaf.
func (n *Net) anyHost() *Host { return n.host(n.IntN(len(n.leaves))) }

// tap captures both directions of a host's link.
func (h *Host) tap() { h.up.tapped, h.down.tapped = true, true }

// send sends a packet on its way to its destination, and calls then when it arrives. spray is the number of a path, or
// -1 if the addresses and the port choose it.
func (n *Net) send(p *packet, spray int, then func(*packet)) {
	p.ttl = 64
	p.id = p.src.nextID
	p.src.nextID++
	p.wrongICRC = p.opcode == p.src.wrong
	path := []*link{p.src.up}
	if p.src.leaf != p.dst.leaf {
		s := spray
		if s < 0 {
			s = int(p.port*31+uint16(p.src.mac[5])*7+uint16(p.dst.mac[5])) % len(n.spines)
		}
		path = append(path, n.leaves[p.src.leaf][s], n.spines[s][p.dst.leaf])
	}
	n.pass(p, append(path, p.dst.down), then)
}

// pass sends a packet over the first of some links, and then over the others.
func (n *Net) pass(p *packet, path []*link, then func(*packet)) {
	if len(path) == 0 {
		then(p)
		return
	}
	l := path[0]
	if l.loseHere != nil && l.loseHere(p) || p.doomed && len(path) == 1 || p.isData && !l.admit(p) {
		n.drop(l, p)
		return
	}
	if l.flip != nil && l.flip(p) {
		p.flipped = true
		n.Events["corrupt"]++
	}
	l.free = max(l.free, n.now) + time.Duration(float64(p.size()+24)*8e9/l.rate)
	n.after(l.free-n.now+l.delay, func() {
		switch {
		case !l.tapped || p.hidden:
		case p.isData && n.Float64() < n.missed:
			n.Events["not captured"]++
		default:
			n.Frames = append(n.Frames, Frame{n.now, p.encode(l.from, l.to)})
		}
		if l.lose != nil && l.lose(p) {
			n.drop(l, p)
			return
		}
		p.ttl--
		n.pass(p, path[1:], then)
	})
}

// drop counts a lost packet, and reports it if the switch does that.
func (n *Net) drop(l *link, p *packet) {
	n.Events["loss"]++
	if l.agent > 0 {
		n.Discards = append(n.Discards, Discard{Frame{n.now, p.encode(l.from, l.to)},
			netip.AddrFrom4([4]byte{172, 31, 0, byte(l.agent)}), uint32(l.agent + 100), 3})
	}
}

// admit marks or trims a packet according to the queue, and reports whether there is space for it.
func (l *link) admit(p *packet) bool {
	n := l.net
	queued := int(float64(max(l.free-n.now, 0)) * l.rate / 8e9)
	if l.limited && queued+p.size() > l.most {
		if !l.trims || p.trimmed {
			return false
		}
		p.trimmed, p.dscp = true, 10
		n.Events["loss"]++
		return true
	}
	if p.ecn != 0 && queued > l.least &&
		(queued >= l.most || n.Float64() < l.chance*float64(queued-l.least)/float64(l.most-l.least)) {
		p.ecn = 3
		l.marked[p.src] = true
		n.Events["congestion"]++
	}
	return true
}

// pause lets a host pause the link to it for a time, with a PFC frame.
func (h *Host) pause(quanta uint16) {
	n := h.up.net
	h.down.free = max(h.down.free, n.now+time.Duration(float64(quanta)*512*10)/1000) // at 100 Gbit/s
	if h.up.tapped {
		n.Frames = append(n.Frames, Frame{n.now, pauseFrame(h.mac, quanta)})
	}
}
