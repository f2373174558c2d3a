package bth

// Errors for the tests of package bth_test.
var (
	ErrEEContextRange    = errEEContextRange
	ErrFETHReservedRange = errFETHReservedRange
	ErrMSNRange          = errMSNRange
	ErrPSNRange          = errPSNRange
	ErrPadRange          = errPadRange
	ErrPlacement         = errPlacement
	ErrPlacementRange    = errPlacementRange
	ErrReservedDETH      = errReservedDETH
	ErrReservedFETH      = errReservedFETH
	ErrReservedRDETH     = errReservedRDETH
	ErrReservedXRCETH    = errReservedXRCETH
	ErrResv6             = errResv6
	ErrResv6Range        = errResv6Range
	ErrResv7             = errResv7
	ErrResv7Range        = errResv7Range
	ErrSRQRange          = errSRQRange
	ErrSelectivity       = errSelectivity
	ErrSelectivityRange  = errSelectivityRange
	ErrSrcQPRange        = errSrcQPRange
	ErrSyndrome          = errSyndrome
	ErrTVer              = errTVer
	ErrTVerRange         = errTVerRange
	ErrTruncated         = errTruncated
)

// ErrTruncatedOf returns the error for an incomplete extended header.
func ErrTruncatedOf(x HeaderSet) error { return extended[x.lowestBit()].truncated }

// DecodeOne decodes one extended header without the BTH.
func (h *Headers) DecodeOne(x HeaderSet, b []byte) (rest []byte, err error) {
	n := int(extended[x.lowestBit()].size)
	if len(b) < n {
		return nil, x.truncatedError(len(b))
	}
	h.readExtended(x, b[:n])
	return b[n:], nil
}

// AppendOne appends one extended header without the BTH.
func (h *Headers) AppendOne(x HeaderSet, b []byte) ([]byte, error) {
	if err := h.extendedRangeError(x); err != nil {
		return b, err
	}
	b, more := growBuffer(b, int(extended[x.lowestBit()].size))
	h.writeExtended(x, more)
	return b, nil
}
