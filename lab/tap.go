package lab

// Tap calls see with each frame that arrives at p, in the order of their arrival, as a capture there would have it:
// from the Ethernet header on, without the frame check sequence. Sim.Now is the time then. A frame is valid until see
// returns. The frames of a port have its own address as source, 02:00:00:00:00:00 and its number. The other direction
// of a link is tapped at its other end. Nil ends it.
//
// It changes nothing in the run: Print stays the same.
func (p *Port) Tap(see func(frame []byte)) { p.tap = see }

// passToTap passes a packet to the tap of the port at which it arrives.
func (p *Port) passToTap(r ref, k *packet) {
	if k.kind == control {
		p.tap(p.net.pool.octets(k))
		return
	}
	b := append(p.seen[:0], 2, 0, 0, 0, byte(p.number>>8), byte(p.number),
		2, 0, 0, 0, byte(p.peer.number>>8), byte(p.peer.number), 0x86, 0xDD)
	if k.kind == message {
		b = append(b, p.net.pool.octets(k)...)
	} else {
		b = append(b, p.net.encodeWire(r, k)...)
	}
	p.seen = b
	p.tap(b)
}
