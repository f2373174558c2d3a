package rocelayers

// The errors that tests ask for by name.
var (
	ErrNoBTH            = errNoBTH
	ErrCMAttribute      = errCMAttribute
	ErrCMMessage        = errCMMessage
	ErrCMSize           = errCMSize
	ErrNoIP             = errNoIP
	ErrUDPLength        = errUDPLength
	ErrProxyLimit       = errProxyLimit
	ErrUDPTruncated     = errUDPTruncated
	ErrNotIOAM          = errNotIOAM
	ErrICRCSize         = errICRCSize
	ErrSerialize        = errSerialize
	ErrNoCarrier        = errNoCarrier
	ErrPaddingSize      = errPaddingSize
	ErrICRCOrder        = errICRCOrder
	ErrLengths          = errLengths
	ErrNoCNP            = errNoCNP
	ErrNoPPFC           = errNoPPFC
	ErrHeader           = errHeader
	ErrNoOption         = errNoOption
	ErrRoutingTruncated = errRoutingTruncated
	ErrRoutingData      = errRoutingData
	ErrRawIP            = errRawIP
)
