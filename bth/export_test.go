package bth

// What the tests of package bth_test compare errors with.
var (
	ErrEEContextRange        = errEEContextRange
	ErrFETHReservedRange     = errFETHReservedRange
	ErrMSNRange              = errMSNRange
	ErrPSNRange              = errPSNRange
	ErrPadRange              = errPadRange
	ErrPlacement             = errPlacement
	ErrPlacementRange        = errPlacementRange
	ErrReservedDETH          = errReservedDETH
	ErrReservedFETH          = errReservedFETH
	ErrReservedRDETH         = errReservedRDETH
	ErrReservedXRCETH        = errReservedXRCETH
	ErrResv6                 = errResv6
	ErrResv6Range            = errResv6Range
	ErrResv7                 = errResv7
	ErrResv7Range            = errResv7Range
	ErrSRQRange              = errSRQRange
	ErrSelectivity           = errSelectivity
	ErrSelectivityRange      = errSelectivityRange
	ErrSrcQPRange            = errSrcQPRange
	ErrSyndrome              = errSyndrome
	ErrTVer                  = errTVer
	ErrTVerRange             = errTVerRange
	ErrTrailing              = errTrailing
	ErrTruncated             = errTruncated
	ErrTruncatedAETH         = errTruncatedAETH
	ErrTruncatedAtomicAckETH = errTruncatedAtomicAckETH
	ErrTruncatedAtomicETH    = errTruncatedAtomicETH
	ErrTruncatedDETH         = errTruncatedDETH
	ErrTruncatedFETH         = errTruncatedFETH
	ErrTruncatedIETH         = errTruncatedIETH
	ErrTruncatedImmDt        = errTruncatedImmDt
	ErrTruncatedRDETH        = errTruncatedRDETH
	ErrTruncatedRETH         = errTruncatedRETH
	ErrTruncatedXRCETH       = errTruncatedXRCETH
)
