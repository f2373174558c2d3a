package ipv6opt

import "github.com/rocecn/rocecn/internal/wireerr"

// Errors of decoding.
var (
	errTruncatedHeader  = wireerr.New("ipv6opt", "header", 8, "8 octets needed", wireerr.Truncated)
	errTruncatedOptions = wireerr.New("ipv6opt", "header", 8, "8 octets and 8 for each unit of Hdr Ext Len needed",
		wireerr.Truncated)
	ErrOverrun = wireerr.New("ipv6opt", "option", 0, "Opt Data Len goes beyond the end of the header",
		wireerr.Malformed)
)

// Errors of encoding.
var (
	errHeaderLen = wireerr.New("ipv6opt", "header", 0, "length is not a multiple of 8 from 8 to 2048 octets",
		wireerr.Range)
	errNoRoom    = wireerr.New("ipv6opt", "option", 0, "header would be longer than 2048 octets", wireerr.Range)
	errDataLen   = wireerr.New("ipv6opt", "Opt Data Len", 0, "0 to 255 octets allowed", wireerr.Range)
	errAlignment = wireerr.New("ipv6opt", "alignment xn+y", 0, "x must be 1, 2, 4 or 8 and y from 0 to x-1",
		wireerr.Range)
	errPadding = wireerr.New("ipv6opt", "option", 0, "padding is not added as an option", wireerr.Range)
)

// Errors of [Limits.Check].
var (
	errOptionLimit  = wireerr.New("ipv6opt", "header", 0, "more options than the limit", wireerr.Range)
	errPaddingLimit = wireerr.New("ipv6opt", "header", 0, "a run of padding longer than the limit", wireerr.Range)
)
