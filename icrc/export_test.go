package icrc

// What the tests of package icrc_test compare errors with.
var (
	ErrCoverage    = errCoverage
	ErrExtension   = errExtension
	ErrFragment    = errFragment
	ErrHeader      = errHeader
	ErrIPLength    = errIPLength
	ErrIHL         = errIHL
	ErrNotUDP      = errNotUDP
	ErrRoom        = errRoom
	ErrSegmentList = errSegmentList
	ErrUDPBeyondIP = errUDPBeyondIP
	ErrUDPCut      = errUDPCut
	ErrUDPHeader   = errUDPHeader
	ErrVersion     = errVersion
)

// Ways are the names of the ways to compute that this CPU has.
func Ways() []string {
	return []string{"tables", "folding", "wide folding"}[:best+1]
}

// Force makes every sum be computed in the way of this index, until the
// function that it returns is called.
func Force(i int) (back func()) {
	was := use
	use = way(i)
	return func() { use = was }
}

var best = use
