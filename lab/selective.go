package lab

import "slices"

// With Config.Selective the receiver keeps packets that arrive after a missing one, and asks for the missing ones only.
// Data counts as delivered at its first arrival, because RDMA writes it to its place.

// received has the numbers of packets that arrived before an earlier one.
type received struct{ bits []uint64 } // bit n is that of number n, modulo the number of bits, which is a power of two

// has reports whether a number is there. first is the first missing number, which is not after it.
func (s *received) has(number, first uint32) bool {
	return int(number-first) < 64*len(s.bits) && s.bits[number/64%uint32(len(s.bits))]>>(number%64)&1 != 0
}

// set adds a number, which is ahead of the first missing one by a distance.
func (s *received) set(number uint32, first uint32) {
	for int(number-first) >= 64*len(s.bits) {
		larger := received{make([]uint64, max(4, 2*len(s.bits)))}
		for n := first; n != first+uint32(64*len(s.bits)); n++ {
			if s.has(n, first) {
				larger.bits[n/64%uint32(len(larger.bits))] |= 1 << (n % 64)
			}
		}
		*s = larger
	}
	s.bits[number/64%uint32(len(s.bits))] |= 1 << (number % 64)
}

// remove removes a number, and reports whether it was there.
func (s *received) remove(number uint32) bool {
	if !s.has(number, number) {
		return false
	}
	s.bits[number/64%uint32(len(s.bits))] &^= 1 << (number % 64)
	return true
}

// receiveSelective handles a packet at a receiver that keeps packets after a missing one.
func (f *Flow) receiveSelective(r ref, k *packet) {
	n := f.net
	if int32(k.number-f.expected) < 0 || f.early.has(k.number, f.expected) {
		f.sendAck(ack, r, k)
		return
	}
	f.octets += uint64(int(k.octets) - n.head)
	n.count.Delivered++
	if n.Delivered != nil {
		n.Delivered(f, k.sent)
	}
	if k.number == f.expected {
		f.expected++
		for f.early.remove(f.expected) {
			f.expected++
		}
	} else {
		f.early.set(k.number, f.expected)
	}
	if int32(k.number-f.highest) >= 0 {
		if !n.cfg.Spray { // on one path a packet that is passed by is lost
			for missing := f.highest; missing != k.number; missing++ {
				if !f.trimmed.remove(missing) {
					f.asked = missing
					f.sendAck(nak, r, k)
				}
			}
			f.trimmed.remove(k.number)
		}
		f.highest = k.number + 1
	}
	if f.pending++; f.pending >= n.cfg.AckEvery || k.last || k.echo || f.late {
		f.sendAck(ack, r, k)
	}
	f.late = f.expected != f.highest
}

// A repeated is a packet that was retransmitted.
type repeated struct{ number, draw uint32 }

// repeatAgain handles an acknowledgement that a packet with this draw has caused. On one path it arrived after the
// packets sent before it: so if the first packet that is not acknowledged was retransmitted before it, that was lost.
func (f *Flow) repeatAgain(draw uint32) {
	for len(f.repeats) > 0 && int32(f.repeats[0].number-f.unacked) < 0 {
		f.repeats = f.repeats[1:]
	}
	if f.net.cfg.Spray {
		return
	}
	for i, was := range f.repeats {
		if was.number == f.unacked && int32(draw-was.draw) > 0 {
			f.repeats = append(f.repeats[:i], f.repeats[i+1:]...)
			f.repeatPacket(was.number)
			return
		}
	}
}

// repeatPacket adds a packet to those that the sender retransmits.
func (f *Flow) repeatPacket(number uint32) {
	if int32(number-f.unacked) < 0 || int32(number-f.next) >= 0 || slices.Contains(f.again, number) {
		return
	}
	f.repeats = slices.DeleteFunc(f.repeats, func(was repeated) bool { return was.number == number })
	f.again = append(f.again, number)
	f.control.Lost(uint64(f.net.cfg.Payload), f.net.Sim.Now().Clock())
	f.Reconsider()
}

// nextRepeated removes the first packet to be retransmitted that is not yet acknowledged, and returns the index of its
// message.
func (f *Flow) nextRepeated() (number uint32, message int, ok bool) {
	f.dropAcknowledged()
	if len(f.again) == 0 {
		return 0, 0, false
	}
	number, message = f.again[0], f.first
	f.again = f.again[1:]
	for int32(number-f.messages[message].end) >= 0 {
		message++
	}
	return number, message, true
}

// dropAcknowledged removes acknowledged packets from the start of those to be retransmitted.
func (f *Flow) dropAcknowledged() {
	for len(f.again) > 0 && int32(f.again[0]-f.unacked) < 0 {
		f.again = f.again[1:]
	}
}
