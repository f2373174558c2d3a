package lab

// ReadAhead implements [sim.Reader]: it reads the port, a packet that arrives, and the next port or the flow of that
// packet.
func (p *Port) ReadAhead(arg uint32, step int) uint64 {
	switch arg {
	case portWire:
		return p.readArrival(step)
	case portWake:
		return p.readDeparture(step)
	}
	return 0
}

// readArrival reads the memory for the arrival of the next packet on the wire.
func (p *Port) readArrival(step int) uint64 {
	if p.wire.n == 0 {
		return 0
	}
	r := p.wire.first().r
	if step == 0 {
		return uint64(r) + uint64(p.peer.index)
	}
	k := p.net.pool.packetAt(r)
	if step == 1 {
		return uint64(k.octets)
	}
	switch to := p.peer.owner.(type) {
	case *Switch:
		if out := to.choosePort(k); out != nil {
			return uint64(out.busy) + out.readQueue()
		}
	case *Host:
		if uint(k.flow) < uint(len(p.net.flows)) {
			return p.net.flows[k.flow].readState()
		}
	}
	return 0
}

// readDeparture reads the memory for sending the next packet.
func (p *Port) readDeparture(step int) uint64 {
	if step == 0 {
		return uint64(p.busy) + uint64(p.index) + p.readQueue()
	}
	switch at := p.owner.(type) {
	case *Host:
		if len(at.due.heap) > 0 {
			return at.due.heap[0].flow.readState()
		}
	case *Switch:
		q := p.dataQueue()
		if q.head == 0 {
			return 0
		}
		k := p.net.pool.packetAt(q.head)
		if step == 1 {
			return uint64(k.octets)
		}
		if k.in >= 0 && int(k.in) < len(at.ports) {
			return uint64(at.ports[k.in].in.shared)
		}
	}
	return 0
}

// readQueue reads the queue of data of a port, its meter, and the place of the next packet on the wire.
func (p *Port) readQueue() (read uint64) {
	q := p.dataQueue()
	read = uint64(q.octets) + uint64(p.most)
	if q.tail != 0 {
		read += uint64(p.net.pool.packetAt(q.tail).next)
	}
	if m := p.meter; m != nil {
		read += m.depth
	}
	if w := &p.wire; len(w.ring) > 0 {
		read += uint64(w.ring[(w.head+w.n)&(len(w.ring)-1)].at)
	}
	return read
}

// readState reads a field of each cache line of a flow that a packet, an acknowledgement or its next packet uses.
func (f *Flow) readState() uint64 {
	return uint64(f.next) + uint64(f.may) + uint64(f.expected) + uint64(f.index) + f.turn + f.octets
}
