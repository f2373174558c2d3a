package flows

// A pool holds values by id, from 1; id 0 means none. It grows in blocks, so that values never
// move, and reuses released values.
type pool[T any] struct {
	blocks []*[poolBlock]T
	n      uint32   // number of ids allocated so far
	free   []uint32 // released ids
}

const poolBlock = 64

// lookUp returns the value with an id, or nil for id 0.
func (p *pool[T]) lookUp(id uint32) *T {
	if id == 0 {
		return nil
	}
	return &p.blocks[(id-1)/poolBlock][(id-1)%poolBlock]
}

// allocate returns the value with an id. If the id is 0, it is set to the id of a new zero value.
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

// release frees the value with an id, if any, and sets the id to 0.
func (p *pool[T]) release(id *uint32) {
	if *id != 0 {
		var zero T
		*p.lookUp(*id) = zero
		p.free, *id = append(p.free, *id), 0
	}
}

// countUsed returns the number of values in use.
func (p *pool[T]) countUsed() uint32 { return p.n - uint32(len(p.free)) }
