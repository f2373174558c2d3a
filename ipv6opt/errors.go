package ipv6opt

import "github.com/rocecn/rocecn/internal/wireerr"

// Errors of decoding.
var (
	ErrTruncatedHeader  = wireerr.Old("ipv6opt: header: 8 octets needed", wireerr.Truncated)
	ErrTruncatedOptions = wireerr.Old("ipv6opt: header: 8 octets and 8 for each unit of Hdr Ext Len needed", wireerr.Truncated)
	ErrOverrun          = wireerr.Old("ipv6opt: option: Opt Data Len goes beyond the end of the header", wireerr.Malformed)
)

// Errors of encoding.
var (
	ErrHeaderLen = wireerr.Old("ipv6opt: header: length is not a multiple of 8 from 8 to 2048 octets", wireerr.Range)
	ErrNoRoom    = wireerr.Old("ipv6opt: option: header would be longer than 2048 octets", wireerr.Range)
	ErrDataLen   = wireerr.Old("ipv6opt: Opt Data Len: 0 to 255 octets allowed", wireerr.Range)
	ErrAlignment = wireerr.Old("ipv6opt: alignment xn+y: x must be 1, 2, 4 or 8 and y from 0 to x-1", wireerr.Range)
	ErrPadding   = wireerr.Old("ipv6opt: option: padding is not added as an option", wireerr.Range)
)

// Errors of [Limits.Check].
var (
	ErrOptionLimit  = wireerr.Old("ipv6opt: header: more options than the limit", wireerr.Range)
	ErrPaddingLimit = wireerr.Old("ipv6opt: header: a run of padding longer than the limit", wireerr.Range)
)
