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
