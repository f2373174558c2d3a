package flows

// An index finds numbers by hashes: open addressing with linear probing, at
// most three quarters full. Whoever asks compares what a number stands for.
type index struct {
	slots []slot // a power of two of them
	n     int
}

type slot struct {
	hash uint32
	id   uint32 // the number and one; 0 in an empty slot
}

// add puts a number in.
func (x *index) add(hash, id uint32) {
	if 4*(x.n+1) > 3*len(x.slots) {
		old := x.slots
		x.slots = make([]slot, max(64, 2*len(old)))
		for _, s := range old {
			if s.id != 0 {
				x.put(s)
			}
		}
	}
	x.n++
	x.put(slot{hash, id + 1})
}

func (x *index) put(s slot) {
	mask := uint32(len(x.slots) - 1)
	i := s.hash & mask
	for x.slots[i].id != 0 {
		i = (i + 1) & mask
	}
	x.slots[i] = s
}

// remove takes a number out that is there. What was put behind it for want of
// room moves up.
func (x *index) remove(hash, id uint32) {
	mask := uint32(len(x.slots) - 1)
	i := hash & mask
	for x.slots[i].id != id+1 {
		i = (i + 1) & mask
	}
	x.n--
	for j := i; ; {
		j = (j + 1) & mask
		if x.slots[j].id == 0 {
			break
		}
		if home := x.slots[j].hash & mask; (j-home)&mask >= (j-i)&mask {
			x.slots[i] = x.slots[j]
			i = j
		}
	}
	x.slots[i] = slot{}
}
