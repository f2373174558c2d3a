package fastcnp

import (
	"net/netip"

	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/ioam"
	"github.com/rocecn/rocecn/ipv6opt"
)

// DefaultType is the type of both options where nothing else is configured.
//
// D2: TBD1 and TBD2 of the draft are not assigned. 0x9E is the experimental
// type of RFC 4727 with act 10 and chg 0, which the draft demands.
const DefaultType ipv6opt.Type = 0x9E

// CodePoints are the option types of a deployment (D2). The zero value stands
// for DefaultType twice. Where both are the same, the length tells the options
// apart: option 1 has exactly 16 octets, option 2 has 26 or more.
type CodePoints struct {
	Option1, Option2 ipv6opt.Type // 0 stands for DefaultType
}

func (c CodePoints) orDefault() CodePoints {
	if c.Option1 == 0 {
		c.Option1 = DefaultType
	}
	if c.Option2 == 0 {
		c.Option2 = DefaultType
	}
	return c
}

// Opt Data Len of the options.
const (
	addressSize = 16
	// option1Size is the only length of option 1.
	option1Size = addressSize
	// option2Min: Reserved and IOAM-Opt-Type, the header of a trace without
	// nodes, the address.
	option2Min = 2 + 8 + addressSize
	maxData    = 255
	// maxNodeData is what D4 leaves for nodes and free space.
	maxNodeData = (maxData - option2Min) &^ 3
)

// An Option is the data of a Fast CNP destination option (FAST section 4).
//
// Option 1, where the congested packet carried no IOAM Hop-by-Hop trace:
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	                                +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	                                |  Option Type  |Opt Data Len=16|
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	~              Original destination address (16 octets)         ~
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//
// Option 2, where it carried one:
//
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|  Option Type  |  Opt Data Len |   Reserved    | IOAM Opt-Type |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	~                       IOAM trace option data                  ~
//	~              Original destination address (16 octets)         ~
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
type Option struct {
	Number              uint8      // 1 or 2
	OriginalDestination netip.Addr // of the congested packet; a zone is not sent
	Reserved            uint8      // option 2: zero on send, kept
	Trace               ioam.Trace // option 2: the congested packet's; aliases the input
}

var (
	ErrOptionLen   = wireerr.Old("fastcnp: option data is neither 16 octets (option 1) nor 26 or more (option 2)", wireerr.Malformed)
	ErrOption1Len  = wireerr.Old("fastcnp: option 1 has not exactly 16 octets of data", wireerr.Malformed)
	ErrOption2Len  = wireerr.Old("fastcnp: option 2 truncated: 10 octets of IOAM headers and 16 of address needed", wireerr.Truncated)
	ErrNumber      = wireerr.Old("fastcnp: option number is neither 1 nor 2", wireerr.Range)
	ErrDestination = wireerr.Old("fastcnp: original destination is no IPv6 address", wireerr.Range)
	ErrTooLong     = wireerr.Old("fastcnp: IOAM trace too long for option 2: 236 octets with its header are the most beside 18 other ones in 255", wireerr.Range)
)

// Decode sets o from the data of an option, which it takes for option 1 if it
// has exactly 16 octets and for option 2 if it has 26 or more (D2). The trace
// of option 2 aliases b; a broken one, or IOAM that is no trace, is an error
// of package ioam. On error o is unchanged.
func (o *Option) Decode(b []byte) error {
	switch {
	case len(b) == option1Size:
		*o = Option{Number: 1, OriginalDestination: netip.AddrFrom16([16]byte(b))}
		return nil
	case len(b) < option2Min:
		return ErrOptionLen
	}
	at := len(b) - addressSize
	var data ioam.Option
	if err := data.Decode(b[:at:at]); err != nil {
		return err
	}
	var trace ioam.Trace
	if err := trace.Decode(data); err != nil {
		return err
	}
	*o = Option{Number: 2, OriginalDestination: netip.AddrFrom16([16]byte(b[at:])), Reserved: data.Reserved, Trace: trace}
	return nil
}

// decodeAs is Decode for a type that stands for only one of the options.
func (o *Option) decodeAs(number uint8, b []byte) error {
	switch {
	case number == 1 && len(b) != option1Size:
		return ErrOption1Len
	case number == 2 && len(b) < option2Min:
		return ErrOption2Len
	}
	return o.Decode(b)
}

// Len returns how many octets AppendBinary appends: Opt Data Len.
func (o *Option) Len() int {
	if o.Number == 2 {
		return option2Min + len(o.Trace.Data)
	}
	return option1Size
}

// AppendBinary appends the data of the option, without its type and length.
//
// D4: Opt Data Len of option 2 is that of the IOAM Hop-by-Hop option plus 16,
// and 255 at most, so the trace has 236 octets at most, 8 of them its header.
// A longer one is ErrTooLong; node data is never dropped silently.
func (o *Option) AppendBinary(b []byte) ([]byte, error) {
	if err := o.check(); err != nil {
		return b, err
	}
	out := b
	if o.Number == 2 {
		var err error
		if out, err = o.Trace.AppendBinary(append(out, o.Reserved, uint8(o.Trace.Kind))); err != nil {
			return b, err
		}
	}
	address := o.OriginalDestination.As16()
	return append(out, address[:]...), nil
}

// check says what keeps o from being encoded, but for its trace's own errors.
func (o *Option) check() error {
	switch {
	case o.Number != 1 && o.Number != 2:
		return ErrNumber
	case !o.OriginalDestination.Is6():
		return ErrDestination
	case o.Len() > maxData:
		return ErrTooLong
	}
	return nil
}
