package lab

import (
	"github.com/rocecn/rocecn/lab/sim"
	"github.com/rocecn/rocecn/node/reaction"
)

// kind is a kind of packet.
type kind uint8

const (
	data    kind = iota
	ack          // cumulative: acknowledges all before number
	nak          // the same, and number is missing
	message      // a notification, with its octets
	control      // a PFC frame, with its octets
	trimmed      // the headers of a packet of data, with their octets
)

// Octets that Ethernet adds to an IP packet.
const (
	frameCheck = 4
	gap        = 20 // preamble, start of frame, space between frames: on the wire, not in a queue
)

// A packet is the descriptor of a packet that waits or travels. It has 64 octets, one line of a processor's cache,
// because in a large network each event reads another packet. It has no pointers, so that the garbage collector does
// not scan it.
type packet struct {
	next   ref // the next one in its queue, or in the free list
	flow   int32
	to     int32 // the index of the destination host, or ^ of the index of a switch
	number uint32
	draw   uint32 // number of packets sent by the flow before this one: selects RED's random number
	octets int32  // of its frame
	in     int32  // the port of the switch that it came in by
	hash   uint32 // of its addresses and ports: selects one of several equal paths
	kind   kind
	prio   uint8
	ce     bool
	first  bool // the first packet of its message
	last   bool
	kept   bool     // its octets are in the buffer of the switch
	echo   bool     // of an acknowledgement: a packet before it had the mark CE; of data: it asks for one
	hops   uint8    // ports that have written to its trace
	sent   sim.Time // when the sender began to send it
	text   text     // of messages, PFC frames and trimmed packets

	// Its tunnel from one PE to another: their indexes and the flow label. egress -1: none.
	ingress, egress int32
	label           uint32
}

// size returns the octets of the frame without its tunnel.
func (k *packet) size() int64 {
	if k.egress >= 0 {
		return int64(k.octets) - tunnelOctets
	}
	return int64(k.octets)
}

// A ref names a packet of a pool; 0 names none.
type ref uint32

const pageShift = 12

// A pool holds packets in pages, which never move.
type pool struct {
	pages  [][]packet
	traces []*[1 << pageShift]trace // of the packets of each page
	traced bool
	free   ref
	used   int

	texts [][]byte // octets of messages, PFC frames and trimmed packets
	spare []text   // those that no packet has
}

// A text names octets of a pool; 0 names none.
type text uint32

// octets returns the octets of a packet that is a message, a PFC frame or trimmed; none of others.
func (p *pool) octets(k *packet) []byte {
	if k.text == 0 {
		return nil
	}
	return p.texts[k.text-1]
}

// buffer returns an empty buffer for the octets of a packet, which setOctets sets.
func (p *pool) buffer(k *packet) []byte {
	if n := len(p.spare); n > 0 {
		k.text, p.spare = p.spare[n-1], p.spare[:n-1]
	} else {
		p.texts = append(p.texts, nil)
		k.text = text(len(p.texts))
	}
	return p.texts[k.text-1][:0]
}

// setOctets sets the octets of a packet, which were appended to its buffer.
func (p *pool) setOctets(k *packet, octets []byte) { p.texts[k.text-1] = octets }

func (p *pool) packetAt(r ref) *packet { return &p.pages[r>>pageShift][r&(1<<pageShift-1)] }

// A trace is the record that the ports on the path have written to a packet.
type trace struct {
	hops  [reaction.MaxHops]reaction.Hop
	ports [reaction.MaxHops]int32
}

func (p *pool) trace(r ref) *trace { return &p.traces[r>>pageShift][r&(1<<pageShift-1)] }

// get returns an empty packet.
func (p *pool) get() (ref, *packet) {
	if p.free == 0 {
		p.grow()
	}
	r := p.free
	k := p.packetAt(r)
	p.free = k.next
	*k = packet{in: -1, egress: -1}
	p.used++
	return r, k
}

func (p *pool) grow() {
	base := ref(len(p.pages) << pageShift)
	page := make([]packet, 1<<pageShift)
	p.pages = append(p.pages, page)
	if p.traced {
		p.traces = append(p.traces, new([1 << pageShift]trace))
	}
	for i := len(page) - 1; i >= 0; i-- {
		if r := base + ref(i); r != 0 {
			page[i].next, p.free = p.free, r
		}
	}
}

func (p *pool) release(r ref) {
	k := p.packetAt(r)
	if k.text != 0 {
		p.spare = append(p.spare, k.text)
		k.text = 0
	}
	k.next = p.free
	p.free = r
	p.used--
}

// A queue is a linked list of packets.
type queue struct {
	head, tail ref
	octets     int64
}

func (q *queue) push(p *pool, r ref, k *packet) {
	k.next = 0
	if q.head == 0 {
		q.head = r
	} else {
		p.packetAt(q.tail).next = r
	}
	q.tail = r
	q.octets += int64(k.octets)
}

func (q *queue) pop(p *pool) (ref, *packet) {
	r := q.head
	k := p.packetAt(r)
	q.head = k.next
	q.octets -= int64(k.octets)
	return r, k
}

// A flight is a packet on a wire.
type flight struct {
	at    sim.Time // when it arrives
	order sim.Order
	r     ref
}

// Flights are the packets on a wire, in order. Only the first has an event.
type flights struct {
	ring    []flight // the length is a power of two
	head, n int
}

func (w *flights) first() *flight { return &w.ring[w.head] }

func (w *flights) push(f flight) {
	if w.n == len(w.ring) {
		larger := make([]flight, max(16, 2*len(w.ring)))
		for i := range w.n {
			larger[i] = w.ring[(w.head+i)&(len(w.ring)-1)]
		}
		w.ring, w.head = larger, 0
	}
	w.ring[(w.head+w.n)&(len(w.ring)-1)] = f
	w.n++
}

func (w *flights) pop() ref {
	r := w.ring[w.head].r
	w.head = (w.head + 1) & (len(w.ring) - 1)
	w.n--
	return r
}
