package flows

// A pool hands out values by number. It grows by blocks, so that a value never
// moves, and takes values back.
type pool[T any] struct {
	blocks []*[poolBlock]T
	n      uint32   // numbers handed out so far
	free   []uint32 // of these, those that were given back
}

const poolBlock = 64

func (p *pool[T]) at(i uint32) *T { return &p.blocks[i/poolBlock][i%poolBlock] }

// take returns the number of a zero value.
func (p *pool[T]) take() uint32 {
	if last := len(p.free) - 1; last >= 0 {
		i := p.free[last]
		p.free = p.free[:last]
		return i
	}
	if p.n%poolBlock == 0 {
		p.blocks = append(p.blocks, new([poolBlock]T))
	}
	p.n++
	return p.n - 1
}

// give takes value i back.
func (p *pool[T]) give(i uint32) {
	clear(p.blocks[i/poolBlock][i%poolBlock : i%poolBlock+1])
	p.free = append(p.free, i)
}
