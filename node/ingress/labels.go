package ingress

import (
	"encoding/binary"
	"math/rand/v2"

	"github.com/rocecn/rocecn/fcn"
)

// maxLabel is the highest flow label; 0 labels no flow (RFC 6437).
const maxLabel = fcn.MaxFlowLabel

// labels are the flow labels of one instance: those that leave its number as the remainder of a division by the
// number of instances. A label belongs to a flow, is in quarantine, or is free. The ring has the latter two, the free
// ones first:
//
//	─── free ───┬─── in quarantine, the longest first ───┬─── room for labels of flows ───
//	            └─ moves when a quarantine ends
//
// To take a label at random, and to release one, takes constant time.
type labels struct {
	instance, instances uint32
	quarantine          int64

	ring          []uint32 // of indices: label = index·instances + instance
	first         int      // where the free ones begin
	free, waiting int      // number of labels that are free, and in quarantine

	// state has by index the slot of the flow that has the label, or the time at which the label was released.
	state  []int64
	random *rand.ChaCha8
}

func newLabels(instance, instances int, seed uint64) labels {
	var key [32]byte
	binary.BigEndian.PutUint64(key[:], seed)
	n := labelsPerInstance(instance, instances)
	l := labels{
		instance: uint32(instance), instances: uint32(instances),
		ring: make([]uint32, n), free: n, state: make([]int64, n), random: rand.NewChaCha8(key),
	}
	for i := range l.ring {
		l.ring[i] = uint32(i)
	}
	if instance == 0 { // label 0
		l.first, l.free = 1%n, n-1
	}
	return l
}

// labelsPerInstance returns the number of labels of an instance, label 0 included.
func labelsPerInstance(instance, instances int) int {
	return (maxLabel + instances - instance) / instances
}

// countFree ends the quarantines that are over, and returns the number of free labels.
func (l *labels) countFree(now int64) int {
	for l.waiting > 0 && now-l.state[l.ring[l.slotIndex(l.free)]] >= l.quarantine {
		l.free++
		l.waiting--
	}
	return l.free
}

// takeFree gives a free label to the flow in a slot; false when none is free.
func (l *labels) allocateFree(slot uint32, now int64) (label uint32, ok bool) {
	if l.countFree(now) == 0 {
		return 0, false
	}
	i, j := l.slotIndex(0), l.slotIndex(int(l.drawLabel(uint32(l.free))))
	l.ring[i], l.ring[j] = l.ring[j], l.ring[i]
	index := l.ring[i]
	l.first = l.slotIndex(1)
	l.free--
	l.state[index] = int64(slot)
	return index*l.instances + l.instance, true
}

// release puts the label of a flow into quarantine, which began at a time that is not before that of the label released
// before.
func (l *labels) release(label uint32, at int64) {
	index := label / l.instances
	l.state[index] = at
	l.ring[l.slotIndex(l.free+l.waiting)] = index
	l.waiting++
}

// slotOf returns the slot of the flow that has a label; if none has, a number that is not the slot of a flow with it.
func (l *labels) slotOf(label uint32) int64 {
	if label > maxLabel || label%l.instances != l.instance {
		return -1
	}
	return l.state[label/l.instances]
}

// slotIndex returns the place in the ring that is i after the first.
func (l *labels) slotIndex(i int) int {
	i += l.first
	if i >= len(l.ring) {
		i -= len(l.ring)
	}
	return i
}

// drawLabel returns a random number below n: the high half of a product, drawn again
// where some numbers would come more often.
func (l *labels) drawLabel(n uint32) uint32 {
	for {
		product := uint64(uint32(l.random.Uint64())) * uint64(n)
		if uint32(product) >= -n%n {
			return uint32(product >> 32)
		}
	}
}
