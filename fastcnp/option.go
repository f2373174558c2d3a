package fastcnp

import (
	"fmt"
	"net/netip"

	"github.com/rocecn/rocecn/internal/wire"
	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/ioam"
	"github.com/rocecn/rocecn/ipv6opt"
)

// Option1Type and Option2Type are the default option types. TBD1 and TBD2 of the draft
// are not assigned yet; once they are, these constants have their values (D2).
const (
	Option1Type = ExperimentalType
	Option2Type = ExperimentalType
)

// ExperimentalType is the experimental option type of RFC 4727 with act 10 and chg 0,
// which the draft requires. Unlike Option1Type it does not change when types are
// assigned.
const ExperimentalType ipv6opt.Type = 0x9E

// CodePoints are the option types of a deployment (D2). If both are equal, the length
// determines the option: option 1 has 16 octets, option 2 has 26 or more.
type CodePoints struct {
	Option1 ipv6opt.Type // 0 stands for Option1Type; not PadN
	Option2 ipv6opt.Type // 0 stands for Option2Type; not PadN
}

// checkTypes rejects Pad1 and PadN as option types. Call it after withDefaults.
func (c CodePoints) checkTypes() error {
	if c.Option1.IsPadding() || c.Option2.IsPadding() {
		return wireerr.OptionType
	}
	return nil
}

// withDefaults returns c with the default types in place of 0. It does not use cmp.Or, which would take 10 % of the
// time to decode a Fast CNP.
func (c CodePoints) withDefaults() CodePoints {
	if c.Option1 == 0 {
		c.Option1 = Option1Type
	}
	if c.Option2 == 0 {
		c.Option2 = Option2Type
	}
	return c
}

// Opt Data Len of the options.
const (
	option1Size = wire.AddressSize
	option2Min  = 2 + 8 + wire.AddressSize // Reserved, IOAM-Opt-Type, the header of a trace, the address
	maxData     = 255
	maxNodeData = (maxData - option2Min) &^ 3 // nodes and free space of the trace (D4)
)

// Option is the data of a Fast CNP destination option (FAST section 4).
//
// Option 1, if the congested packet has no IOAM Hop-by-Hop trace:
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	                                +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	                                |  Option Type  |Opt Data Len=16|
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	~              Original destination address (16 octets)         ~
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//
// Option 2, if it has one:
//
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|  Option Type  |  Opt Data Len |   Reserved    | IOAM Opt-Type |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	~                       IOAM trace option data                  ~
//	~              Original destination address (16 octets)         ~
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
type Option struct {
	Number      uint8      // 1 or 2
	OriginalDst netip.Addr // IPv6 destination of the congested packet; a zone is not encoded
	Reserved    uint8      // option 2: zero on send
	Trace       ioam.Trace // option 2: trace of the congested packet; aliases the input after decoding
}

// String returns the fields of option 1 or 2.
func (o Option) String() string {
	s := fmt.Sprintf("option %d about %v", o.Number, o.OriginalDst)
	if o.Number != 2 {
		return s
	}
	if o.Reserved != 0 {
		s += fmt.Sprintf(" Reserved %#x", o.Reserved)
	}
	return s + " " + o.Trace.String()
}

// Errors of options.
var (
	errOptionLen = wireerr.New("fastcnp", "option data", "neither 16 octets (option 1) nor 26 or more (option 2)",
		wireerr.Malformed)
	errOption1Len = wireerr.New("fastcnp", "option 1", "not exactly 16 octets of data", wireerr.Malformed)
	errOption2Len = wireerr.New("fastcnp", "option 2",
		"truncated: shorter than 10 octets of IOAM headers and 16 of address", wireerr.Truncated)
	errAddresses   = wireerr.New("fastcnp", "addresses", "not both IPv6 (FAST section 3)", wireerr.Range)
	errNumber      = wireerr.New("fastcnp", "option number", "neither 1 nor 2", wireerr.Range)
	errDestination = wireerr.New("fastcnp", "original destination", "not an IPv6 address", wireerr.Range)
	// ErrTooLong is the error for a trace that does not fit into option 2. To send a Fast CNP for such a packet, set
	// Config.Long.
	ErrTooLong = wireerr.New("fastcnp", "IOAM trace",
		"over 236 octets with its header: too long for option 2", wireerr.Range)
)

// Decode sets o from the data of an option: option 1 if b has 16 octets, option 2 if
// it has 26 or more (D2). The trace of option 2 aliases b. If the IOAM data is not a
// valid trace, the error is one of package ioam. On error o is unchanged.
func (o *Option) Decode(b []byte) error {
	switch {
	case len(b) == option1Size:
		*o = Option{Number: 1, OriginalDst: netip.AddrFrom16([16]byte(b))}
		return nil
	case len(b) < option2Min:
		return errOptionLen
	}
	end := len(b) - wire.AddressSize // of the IOAM data
	var data ioam.Option
	if err := data.Decode(b[:end:end]); err != nil {
		return err
	}
	var trace ioam.Trace
	if err := trace.Decode(data); err != nil {
		return err
	}
	*o = Option{Number: 2, OriginalDst: netip.AddrFrom16([16]byte(b[end:])), Reserved: data.Reserved, Trace: trace}
	return nil
}

// decodeTyped decodes an option of a header. If the types in c differ, the type determines the option.
func (o *Option) decodeTyped(from *ipv6opt.Option, c CodePoints) error {
	if c.Option1 != c.Option2 {
		switch n := len(from.Data); {
		case from.Type == c.Option1 && n != option1Size:
			return errOption1Len
		case from.Type == c.Option2 && n < option2Min:
			return errOption2Len
		}
	}
	return o.Decode(from.Data)
}

// AppendBinary appends the data of the option to b, without its type and length. On
// error b is returned unchanged.
//
// Opt Data Len of option 2 is that of the IOAM Hop-by-Hop option plus 16, and at most
// 255 (D4). So the trace has at most 236 octets, 8 of them its header; the error for
// a longer trace is ErrTooLong.
func (o *Option) AppendBinary(b []byte) ([]byte, error) {
	if err := o.checkFields(); err != nil {
		return b, err
	}
	out := b
	if o.Number == 2 {
		var err error
		if out, err = o.Trace.AppendBinary(append(out, o.Reserved, uint8(o.Trace.OptType))); err != nil {
			return b, err
		}
	}
	address := o.OriginalDst.As16()
	return append(out, address[:]...), nil
}

// checkFields returns an error if o cannot be encoded. It does not check the trace,
// except its length.
func (o *Option) checkFields() error {
	switch {
	case o.Number != 1 && o.Number != 2:
		return errNumber
	case !o.OriginalDst.Is6():
		return errDestination
	case o.Number == 2 && option2Min+len(o.Trace.Data) > maxData:
		return ErrTooLong
	}
	return nil
}
