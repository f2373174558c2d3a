// Package ipv6opt decodes and encodes IPv6 Hop-by-Hop Options and Destination
// Options headers (RFC 8200 section 4.2). It does not interpret options; packages
// [github.com/rocecn/rocecn/ioam] and [github.com/rocecn/rocecn/fastcnp] do.
//
// To decode, call [Header.Decode] and range over [Header.All]. To encode, [Begin] a
// header, add options and finish it; see the example of Builder.
//
//	+-------------+-------------+------------------------+---------+
//	| Next Header | Hdr Ext Len | Type | Len | data ...  | padding |
//	+-------------+-------------+------------------------+---------+
package ipv6opt

import (
	"iter"
	"slices"
)

// Next Header values of the options headers.
const (
	HopByHop           = 0  // RFC 8200 section 4.3
	DestinationOptions = 60 // RFC 8200 section 4.6
)

// MaxLen is the length in octets of the longest header that Hdr Ext Len can
// represent.
const MaxLen = 8 + 8*255

// Header is a Hop-by-Hop Options or Destination Options header (RFC 8200
// sections 4.3 and 4.6).
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|  Next Header  |  Hdr Ext Len  |           Options             ~
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//
// Hdr Ext Len is the length in units of 8 octets, without the first unit. It is no
// field of Header: it follows from the length of Options.
type Header struct {
	NextHeader uint8
	Options    []byte // all octets after the first two, padding included
}

// Decode reads the header at the start of b and returns the octets after it.
// Options aliases b. It fails only if octets are missing, with an error that
// matches rocecn.ErrTruncated; h is then unchanged. [Header.All] checks the
// options.
func (h *Header) Decode(b []byte) (rest []byte, err error) {
	if len(b) < 8 {
		return nil, errTruncatedHeader
	}
	n := 8 + 8*int(b[1])
	if len(b) < n {
		return nil, errTruncatedOptions
	}
	h.NextHeader = b[0]
	h.Options = b[2:n:n]
	return b[n:], nil
}

// AppendBinary appends the header to b. It returns an error that matches
// rocecn.ErrRange if the length of Options plus 2 is not a multiple of 8 or is
// more than [MaxLen].
func (h *Header) AppendBinary(b []byte) ([]byte, error) {
	n := 2 + len(h.Options)
	if n%8 != 0 || n > MaxLen {
		return b, errHeaderLen
	}
	b = slices.Grow(b, n)
	b = append(b, h.NextHeader, uint8(n/8-1))
	return append(b, h.Options...), nil
}

// Option is one option of a header.
type Option struct {
	Type   Type
	Offset uint16 // offset of the Type octet from the start of the header, 2 to 2047
	Data   []byte // octets after Opt Data Len, 0 to 255; aliases the header
}

// All yields the options in wire order, including padding. The iteration ends with
// [ErrOverrun], and the Type and Offset of the option, if an option is longer than
// the rest of the header.
func (h *Header) All() iter.Seq2[Option, error] {
	return func(yield func(Option, error) bool) {
		for start := 0; start < len(h.Options); {
			o, end, err := decodeOption(h.Options, start)
			if !yield(o, err) || err != nil {
				return
			}
			start = end
		}
	}
}

// Find returns the first option of this type; ok reports whether there is one. It
// returns [ErrOverrun] if an option before it is longer than the rest of the
// header.
func (h *Header) Find(t Type) (o Option, ok bool, err error) {
	for start := 0; start < len(h.Options); {
		o, end, err := decodeOption(h.Options, start)
		if err != nil {
			return Option{}, false, err
		}
		if o.Type == t {
			return o, true, nil
		}
		start = end
	}
	return Option{}, false, nil
}

// decodeOption reads the option that begins at index start of a header's options,
// less than their length, and returns the index of its end.
func decodeOption(options []byte, start int) (o Option, end int, err error) {
	b := options[start:]
	o = Option{Type: Type(b[0]), Offset: uint16(2 + start)}
	if o.Type == Pad1 {
		return o, start + 1, nil
	}
	if len(b) < 2 || len(b) < 2+int(b[1]) {
		return o, start, ErrOverrun
	}
	n := 2 + int(b[1])
	o.Data = b[2:n:n]
	return o, start + n, nil
}
