package flows

// A pool holds values by id, from 1 on; id 0 names none. It grows by blocks, so that
// a value never moves, and reuses what was given back.
type pool[T any] struct {
	blocks []*[poolBlock]T
	n      uint32   // ids given out so far
	free   []uint32 // of these, those whose value was given back
}

const poolBlock = 64

// lookUp returns the value with an id, nil for id 0.
func (p *pool[T]) lookUp(id uint32) *T {
	if id == 0 {
		return nil
	}
	return &p.blocks[(id-1)/poolBlock][(id-1)%poolBlock]
}

// allocate returns the value with an id. If the id is 0 it sets it to that of a new, zero
// value.
func (p *pool[T]) allocate(id *uint32) *T {
	if last := len(p.free) - 1; *id == 0 && last >= 0 {
		*id, p.free = p.free[last], p.free[:last]
	} else if *id == 0 {
		if p.n%poolBlock == 0 {
			p.blocks = append(p.blocks, new([poolBlock]T))
		}
		p.n++
		*id = p.n
	}
	return p.lookUp(*id)
}

// release takes back the value with an id, if there is one, and sets the id to 0.
func (p *pool[T]) release(id *uint32) {
	if *id != 0 {
		var zero T
		*p.lookUp(*id) = zero
		p.free, *id = append(p.free, *id), 0
	}
}

// countUsed returns how many values are given out.
func (p *pool[T]) countUsed() uint32 { return p.n - uint32(len(p.free)) }
