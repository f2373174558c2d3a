// Package ipv6opt reads and writes IPv6 Hop-by-Hop Options and Destination
// Options headers: the octets of RFC 8200 section 4.2, whatever the options
// mean.
//
// To read, [Header.Decode] and range over [Header.All]. To write, [Begin] a
// header, add options, finish it.
//
//	+-------------+-------------+------------------------+---------+
//	| Next Header | Hdr Ext Len | Type | Len | data ...  | padding |
//	+-------------+-------------+------------------------+---------+
//
// What the options mean is in [github.com/rocecn/rocecn/ioam] and
// [github.com/rocecn/rocecn/fastcnp].
package ipv6opt

import (
	"iter"
	"slices"
)

// Next Header values that announce an options header.
const (
	HopByHop           = 0  // RFC 8200 section 4.3
	DestinationOptions = 60 // RFC 8200 section 4.6
)

// MaxLen is the length in octets of the longest header that Hdr Ext Len can
// express.
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
// Hdr Ext Len counts units of 8 octets without the first; it is taken from
// the length of Options.
type Header struct {
	NextHeader uint8
	Options    []byte // all octets after the first two, padding included
}

// Decode reads the header at the start of b and returns the octets behind it.
// Options aliases b. Only the header's own length is checked, the options are
// by [Header.All]. On error h is unchanged.
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

// AppendBinary appends the header. The two octets and Options together must
// be a multiple of 8 and at most [MaxLen].
func (h *Header) AppendBinary(b []byte) ([]byte, error) {
	n := 2 + len(h.Options)
	if n%8 != 0 || n > MaxLen {
		return b, errHeaderLen
	}
	b = slices.Grow(b, n)
	b = append(b, h.NextHeader, uint8(n/8-1))
	return append(b, h.Options...), nil
}

// Option is one option as it stands in a header.
type Option struct {
	Type   Type
	Offset uint16 // of the Type octet, from the start of the header, 2 to 2047
	Data   []byte // the octets that Opt Data Len counts; aliases the header
}

// All yields the options in their order, padding included. An option that
// overruns the header is yielded with its Type and Offset and [ErrOverrun],
// and ends the iteration.
func (h *Header) All() iter.Seq2[Option, error] {
	return func(yield func(Option, error) bool) {
		for at := 0; at < len(h.Options); {
			o, end, err := optionAt(h.Options, at)
			if !yield(o, err) || err != nil {
				return
			}
			at = end
		}
	}
}

// Find returns the first option of a type, and whether there is one.
// [ErrOverrun] says that the options broke off before one was found.
func (h *Header) Find(t Type) (o Option, ok bool, err error) {
	for at := 0; at < len(h.Options); {
		o, end, err := optionAt(h.Options, at)
		if err != nil {
			return Option{}, false, err
		}
		if o.Type == t {
			return o, true, nil
		}
		at = end
	}
	return Option{}, false, nil
}

// optionAt reads the option at an index of a header's options, which must not
// be empty there, and returns the index behind it.
func optionAt(options []byte, at int) (o Option, end int, err error) {
	b := options[at:]
	o = Option{Type: Type(b[0]), Offset: uint16(2 + at)}
	if o.Type == Pad1 {
		return o, at + 1, nil
	}
	if len(b) < 2 || len(b) < 2+int(b[1]) {
		return o, at, ErrOverrun
	}
	n := 2 + int(b[1])
	o.Data = b[2:n:n]
	return o, at + n, nil
}
