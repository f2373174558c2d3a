// Code generated from rocelayers/export_test.go by rocelayers/genfork; DO NOT EDIT.

package rocelayers

// The errors that tests ask for by name.
var (
	ErrNoBTH       = errNoBTH
	ErrCMAttribute = errCMAttribute
	ErrCMMessage   = errCMMessage
	ErrCMSize      = errCMSize
	ErrNoIP        = errNoIP
	ErrUDPLength   = errUDPLength
	ErrProxyLimit  = errProxyLimit
	ErrCut         = errCut
	ErrNotIOAM     = errNotIOAM
	ErrICRCSize    = errICRCSize
	ErrSerialize   = errSerialize
	ErrNoCarrier   = errNoCarrier
	ErrPaddingSize = errPaddingSize
	ErrICRCOrder   = errICRCOrder
	ErrLengths     = errLengths
	ErrNoCNP       = errNoCNP
	ErrNoPPFC      = errNoPPFC
	ErrHeader      = errHeader
	ErrNoOption    = errNoOption
	ErrRoutingCut  = errRoutingCut
	ErrRoutingData = errRoutingData
)
