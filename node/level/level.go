// Package level converts the depth of a queue to a congestion level, and a level to
// the fields of FCN and proxy messages.
//
//	level  2 ┤            ┌─────────────┐
//	       1 ┤      ┌─────┘             └──────┐
//	       0 ┼──────┘                          └──── time
//	              Up[0] Up[1]         Down[1]  Down[0]
//
// Experimental: this package may change in a minor release.
package level

// Max is the highest level; 0 is the lowest.
const Max = 7

// Thresholds are the depths at which the level changes, in any unit. The level
// rises from i to i+1 at a depth of Up[i] or above, and falls back to i below
// Down[i]. With Down lower than Up (hysteresis), a queue that hovers at a threshold
// does not change the level with each packet.
//
//	depth   0 ─────── Down[0] ─────── Up[0] ──────>
//	level        0       │  as it was   │    1
//
// Both must ascend. Elements of Up from the eighth on are ignored. A Down[i] that is
// missing or higher than Up[i] counts as Up[i]. The zero Thresholds give level 0.
type Thresholds struct {
	Up, Down []uint64
}

// Level returns the level of a queue of this depth. was is the level before.
func (t Thresholds) Level(queue uint64, was uint8) uint8 {
	highest := min(len(t.Up), Max)
	level := min(int(was), highest)
	for level < highest && queue >= t.Up[level] {
		level++
	}
	for level > 0 && queue < t.fallDepth(level-1) {
		level--
	}
	return uint8(level)
}

func (t Thresholds) fallDepth(i int) uint64 {
	if i < len(t.Down) {
		return min(t.Down[i], t.Up[i])
	}
	return t.Up[i]
}

// ToFCN returns the level that an FCN carries: it counts from 1, and 0 means
// that the field is not used (FCN section 4.2).
func ToFCN(level uint8) uint8 { return min(max(level, 1), Max) }

// ToProxy returns the level that a message to a proxy carries: it counts from 0
// (PROXY section 4).
func ToProxy(level uint8) uint8 { return min(level, Max) }
