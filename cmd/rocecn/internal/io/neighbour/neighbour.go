// Package neighbour tells what becomes of packets that Linux keeps until it knows the
// hardware address of their neighbour, the next hop: no error says that it was not
// found, only rtnetlink does.
package neighbour

import "net/netip"

// A hop is a neighbour that packets are sent by.
type hop struct {
	interfaceIndex int32
	address        netip.Addr
}

// An Amount is how much of something was sent, or was to be.
type Amount struct {
	Packets, Octets uint64
}

// Add returns the sum of two amounts.
func (a Amount) Add(b Amount) Amount { return Amount{a.Packets + b.Packets, a.Octets + b.Octets} }

// Sub returns what is left of an amount without a part of it.
func (a Amount) Sub(b Amount) Amount { return Amount{a.Packets - b.Packets, a.Octets - b.Octets} }

// PacketAmount is the amount of a packet.
func PacketAmount(packet []byte) Amount { return Amount{1, uint64(len(packet))} }

// A neighbour is one that packets were sent by.
type neighbour struct {
	known   bool   // its hardware address: what is sent leaves this host
	waiting Amount // that was sent while it was not
}

// maxDestinations is how many are remembered, and maxAsked of how many at once the
// kernel is asked for the route, which takes it some microseconds.
const (
	maxDestinations = 1 << 14
	maxRequests     = 100
)

// A Watch follows the packets of one sink. It is for one goroutine.
//
// What a packet takes is known from its destination alone: where several next hops
// share the packets for one, it is a guess.
type Watch struct {
	system
	destinations map[netip.Addr]*neighbour // by which destinations are reached
	hops         map[hop]*neighbour
	unresolved   []netip.Addr // destinations whose route is not known yet
}

// RecordSent takes note that the kernel is given a packet, and says whether it may have to
// wait: if not, it leaves this host.
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

// RecordUnsent takes back what the last calls of Sent have said of a packet: the kernel has
// refused it. It says whether that one was to wait.
func (w *Watch) RecordUnsent(to netip.Addr, one Amount) (waited bool) {
	n := w.destinations[to]
	if n == nil || n.known || n.waiting.Packets == 0 {
		return false
	}
	n.waiting = n.waiting.Sub(one)
	return true
}

// Fate is what has become of packets that had to wait.
type Fate struct {
	Sent, Lost Amount
}

// settleNeighbour takes note that the hardware address of a neighbour is known, or that it
// cannot be found.
func (f *Fate) settleNeighbour(n *neighbour, known bool) {
	if known {
		f.Sent = f.Sent.Add(n.waiting)
	} else {
		f.Lost = f.Lost.Add(n.waiting)
	}
	n.known, n.waiting = known, Amount{}
}

// countWaiting returns how many packets wait.
func (w *Watch) countWaiting() (n uint64) {
	for _, to := range w.unresolved {
		n += w.destinations[to].waiting.Packets
	}
	for _, h := range w.hops {
		n += h.waiting.Packets
	}
	return n
}

// forgetRoutes forgets routes, and with them the neighbours that nothing waits for.
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
