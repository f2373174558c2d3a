// Package neighbour finds out the fate of packets that Linux queues until it knows the hardware address of their
// next hop. If resolution fails, no system call returns an error; only rtnetlink reports it.
package neighbour

import "net/netip"

// A hop is a next hop of packets.
type hop struct {
	interfaceIndex int32
	address        netip.Addr
}

// An Amount is a number of packets with their octets.
type Amount struct {
	Packets, Octets uint64
}

// Add returns the sum of two amounts.
func (a Amount) Add(b Amount) Amount { return Amount{a.Packets + b.Packets, a.Octets + b.Octets} }

// Sub returns the difference of two amounts.
func (a Amount) Sub(b Amount) Amount { return Amount{a.Packets - b.Packets, a.Octets - b.Octets} }

// PacketAmount returns the amount of one packet.
func PacketAmount(packet []byte) Amount { return Amount{1, uint64(len(packet))} }

// A neighbour is the state of a next hop.
type neighbour struct {
	known   bool   // its hardware address is known, so packets leave the host
	waiting Amount // sent while the address was unknown
}

// maxDestinations limits the remembered destinations, and maxRequests the route lookups of one Poll, as each takes
// the kernel some microseconds.
const (
	maxDestinations = 1 << 14
	maxRequests     = 100
)

// A Watch follows the packets of one sink. It is for one goroutine.
//
// It derives the path of a packet from its destination only: with several next hops for one destination, the
// result is a guess.
type Watch struct {
	system
	destinations map[netip.Addr]*neighbour // next hop by destination
	hops         map[hop]*neighbour
	unresolved   []netip.Addr // destinations without a route lookup so far
}

// RecordSent records that a packet is passed to the kernel, and reports whether it may have to wait for its
// neighbour.
func (w *Watch) RecordSent(to netip.Addr, one Amount) (waits bool) {
	n := w.destinations[to]
	if n == nil {
		if len(w.destinations) >= maxDestinations || !to.IsValid() {
			return false
		}
		n = new(neighbour)
		w.destinations[to], w.unresolved = n, append(w.unresolved, to)
	}
	if !n.known {
		n.waiting = n.waiting.Add(one)
	}
	return !n.known
}

// RecordUnsent undoes RecordSent for a packet that the kernel rejected, and reports whether that packet was to
// wait.
func (w *Watch) RecordUnsent(to netip.Addr, one Amount) (waited bool) {
	n := w.destinations[to]
	if n == nil || n.known || n.waiting.Packets == 0 {
		return false
	}
	n.waiting = n.waiting.Sub(one)
	return true
}

// Fate is the fate of packets that had to wait.
type Fate struct {
	Sent, Lost Amount
}

// settleNeighbour moves the waiting packets of a neighbour to Sent or Lost.
func (f *Fate) settleNeighbour(n *neighbour, known bool) {
	if known {
		f.Sent = f.Sent.Add(n.waiting)
	} else {
		f.Lost = f.Lost.Add(n.waiting)
	}
	n.known, n.waiting = known, Amount{}
}

// countWaiting returns the number of waiting packets.
func (w *Watch) countWaiting() (n uint64) {
	for _, to := range w.unresolved {
		n += w.destinations[to].waiting.Packets
	}
	for _, h := range w.hops {
		n += h.waiting.Packets
	}
	return n
}

// forgetRoutes forgets all routes, and the neighbours without waiting packets.
func (w *Watch) forgetRoutes() {
	old := w.destinations
	w.destinations = map[netip.Addr]*neighbour{}
	for _, to := range w.unresolved {
		w.destinations[to] = old[to]
	}
	for h, n := range w.hops {
		if n.waiting.Packets == 0 {
			delete(w.hops, h)
		}
	}
}
