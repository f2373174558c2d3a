package flowtable

// A Pool hands out values by number. It grows by blocks, so that a value never moves, and takes values back.
type Pool[T any] struct {
	blocks []*[poolBlock]T
	n      uint32   // numbers handed out so far
	free   []uint32 // of these, those that were given back
}

const poolBlock = 64

// At returns value i, which stays where it is.
func (p *Pool[T]) At(i uint32) *T { return &p.blocks[i/poolBlock][i%poolBlock] }

// Len returns how many values are in use.
func (p *Pool[T]) Len() int { return int(p.n) - len(p.free) }

// Take returns the number of a zero value.
func (p *Pool[T]) Take() uint32 {
	if last := len(p.free) - 1; last >= 0 {
		i := p.free[last]
		p.free = p.free[:last]
		return i
	}
	if p.n%poolBlock == 0 && int(p.n/poolBlock) == len(p.blocks) {
		p.blocks = append(p.blocks, new([poolBlock]T))
	}
	p.n++
	return p.n - 1
}

// Give takes value i back.
func (p *Pool[T]) Give(i uint32) {
	clear(p.blocks[i/poolBlock][i%poolBlock : i%poolBlock+1])
	p.free = append(p.free, i)
}

// reserve makes room for n values, all in one piece.
func (p *Pool[T]) reserve(n int) {
	blocks := (n + poolBlock - 1) / poolBlock
	all := make([]T, blocks*poolBlock)
	p.blocks = make([]*[poolBlock]T, blocks)
	for i := range p.blocks {
		p.blocks[i] = (*[poolBlock]T)(all[i*poolBlock:])
	}
}
