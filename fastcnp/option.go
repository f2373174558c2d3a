package fastcnp

import (
	"fmt"
	"net/netip"

	"github.com/rocecn/rocecn/internal/wire"
	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/ioam"
	"github.com/rocecn/rocecn/ipv6opt"
)

// Option1Type and Option2Type are the types of the options unless configured
// otherwise. The draft's, TBD1 and TBD2, are not assigned yet; once they are,
// these constants have their values (D2).
const (
	Option1Type = ExperimentalType
	Option2Type = ExperimentalType
)

// ExperimentalType is the experimental type of RFC 4727 with act 10 and chg 0,
// as the draft demands. It does not change: CodePoints that name it keep it when
// other types are assigned.
const ExperimentalType ipv6opt.Type = 0x9E

// CodePoints are the option types of a deployment (D2). If both are equal, the
// length tells the options apart: option 1 has exactly 16 octets, option 2 has
// 26 or more.
type CodePoints struct {
	Option1 ipv6opt.Type // 0 stands for Option1Type; not PadN
	Option2 ipv6opt.Type // 0 stands for Option2Type; not PadN
}

// checkTypes refuses Pad1 and PadN as option types. Call orDefault before.
func (c CodePoints) checkTypes() error {
	if c.Option1.IsPadding() || c.Option2.IsPadding() {
		return wireerr.OptionType
	}
	return nil
}

// withDefaults does not use cmp.Or, which would take a tenth of the time to decode a Fast CNP.
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
	// option1Size is the only length of option 1.
	option1Size = wire.AddressSize
	// option2Min: Reserved and IOAM-Opt-Type, the header of a trace without
	// nodes, the address.
	option2Min = 2 + 8 + wire.AddressSize
	maxData    = 255
	// maxNodeData is what D4 leaves for nodes and free space.
	maxNodeData = (maxData - option2Min) &^ 3
)

// An Option is the data of a Fast CNP destination option (FAST section 4).
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
	OriginalDst netip.Addr // of the congested packet; a zone is not sent
	Reserved    uint8      // option 2: zero on send, kept
	Trace       ioam.Trace // option 2: the congested packet's; aliases the input
}

// String returns the fields; the trace and the reserved octet are option 2's.
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

// ErrTooLong says that a trace does not fit into option 2.
var (
	errOptionLen = wireerr.New("fastcnp", "option data", 0, "neither 16 octets (option 1) nor 26 or more (option 2)",
		wireerr.Malformed)
	errOption1Len = wireerr.New("fastcnp", "option 1", 0, "not exactly 16 octets of data", wireerr.Malformed)
	errOption2Len = wireerr.New("fastcnp", "option 2", 10,
		"truncated: 10 octets of IOAM headers and 16 of address needed", wireerr.Truncated)
	errAddresses   = wireerr.New("fastcnp", "addresses", 0, "not both IPv6 (FAST section 3)", wireerr.Range)
	errNumber      = wireerr.New("fastcnp", "option number", 0, "neither 1 nor 2", wireerr.Range)
	errDestination = wireerr.New("fastcnp", "original destination", 0, "not an IPv6 address", wireerr.Range)
	// ErrTooLong: AppendFor with Refuse met it; Trim and FallBack send a Fast CNP all the same.
	ErrTooLong = wireerr.New("fastcnp", "IOAM trace", 0,
		"too long for option 2: with its header it may have 236 octets", wireerr.Range)
)

// Decode sets o from the data of an option: 16 octets are option 1, 26 or more
// option 2 (D2). The trace of option 2 aliases b. For a broken trace, or IOAM
// that is not a trace, the error is one of package ioam. On error o is
// unchanged.
func (o *Option) Decode(b []byte) error {
	switch {
	case len(b) == option1Size:
		*o = Option{Number: 1, OriginalDst: netip.AddrFrom16([16]byte(b))}
		return nil
	case len(b) < option2Min:
		return errOptionLen
	}
	at := len(b) - wire.AddressSize
	var data ioam.Option
	if err := data.Decode(b[:at:at]); err != nil {
		return err
	}
	var trace ioam.Trace
	if err := trace.Decode(data); err != nil {
		return err
	}
	*o = Option{Number: 2, OriginalDst: netip.AddrFrom16([16]byte(b[at:])), Reserved: data.Reserved, Trace: trace}
	return nil
}

// decodeTyped is Decode for an option of a header: where the types of the options differ, the type says which one it is.
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

// AppendBinary appends the data of the option, without its type and length.
//
// D4: Opt Data Len of option 2 is that of the IOAM Hop-by-Hop option plus 16,
// and 255 at most, so the trace has 236 octets at most, 8 of them its header.
// A longer one is ErrTooLong; node data is never dropped silently.
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

// checkFields returns why o cannot be encoded, apart from errors of its trace.
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
