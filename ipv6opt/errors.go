package ipv6opt

import "github.com/rocecn/rocecn/internal/wireerr"

// Errors of decoding.
var (
	errTruncatedHeader  = wireerr.New("ipv6opt", "header", "truncated: shorter than 8 octets", wireerr.Truncated)
	errTruncatedOptions = wireerr.New("ipv6opt", "header", "truncated: shorter than Hdr Ext Len",
		wireerr.Truncated)

	// ErrOverrun is the error for an option that is longer than the rest of its header.
	ErrOverrun = wireerr.New("ipv6opt", "option", "Opt Data Len exceeds the header", wireerr.Malformed)
)

// Errors of encoding.
var (
	errHeaderLen = wireerr.New("ipv6opt", "header", "length is not a multiple of 8 from 8 to 2048 octets",
		wireerr.Range)
	errTooLong   = wireerr.New("ipv6opt", "header", "over 2048 octets with this option", wireerr.Range)
	errDataLen   = wireerr.New("ipv6opt", "option data", "over 255 octets", wireerr.Range)
	errAlignment = wireerr.New("ipv6opt", "alignment xn+y", "x must be 1, 2, 4 or 8 and y from 0 to x-1",
		wireerr.Range)
	errPadding = wireerr.New("ipv6opt", "option type", "Pad1 or PadN: padding is added automatically", wireerr.Range)
)

// Errors of [Limits.Check].
var (
	errOptionLimit  = wireerr.New("ipv6opt", "header", "more options than MaxOptions", wireerr.Range)
	errPaddingLimit = wireerr.New("ipv6opt", "header", "more octets of padding in a row than MaxPadding",
		wireerr.Range)
)
