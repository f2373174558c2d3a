package rocev2

import (
	"iter"

	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/ioam"
	"github.com/rocecn/rocecn/ipv6opt"
)

var errNoTrace = wireerr.New("rocev2", "Hop-by-Hop Options", "no IOAM trace", wireerr.Other)

// OptionsError returns [ipv6opt.ErrOverrun] if an option overruns one of the Hop-by-Hop or Destination Options
// headers that Extensions yields, otherwise nil. Decode does not read options, because the lengths of the headers are
// enough for it, and accepts a packet with this error (D19).
func (f *Frame) OptionsError() error {
	for next, octets := range f.Extensions() {
		if err := optionsError(next, octets); err != nil {
			return err
		}
	}
	return nil
}

func optionsError(next uint8, octets []byte) error {
	var h ipv6opt.Header
	if !isOptions(next) {
		return nil
	}
	if _, err := h.Decode(octets); err != nil {
		return err
	}
	for _, err := range h.All() {
		if err != nil {
			return err
		}
	}
	return nil
}

func isOptions(next uint8) bool {
	return next == ipv6opt.HopByHop || next == ipv6opt.DestinationOptions
}

// An IOAMOption is an IPv6 option of the types that carry IOAM (RFC 9486
// section 3).
type IOAMOption struct {
	Header uint8        // type of the header that contains the option: 0 Hop-by-Hop, 60 Destination Options
	Type   ipv6opt.Type // type of the IPv6 option: 0x31 or 0x11
	Data   []byte       // data of the IPv6 option; aliases the packet
	ioam.Option
}

// IOAM iterates over the IOAM options in the headers that Extensions yields, the outermost first. If an option is
// invalid or overruns its header, IOAM yields it with an error; then Option is zero, and Data ends with the header at
// the latest. The types of package ioam, such as [ioam.Trace], decode the content of Option. An option of type 0x11 may
// be something other than IOAM, because a proprietary format uses the same type.
func (f *Frame) IOAM() iter.Seq2[IOAMOption, error] { return ioamIn(f.Extensions()) }

// IOAM iterates over the IOAM options in d.Ext, the extension headers of the innermost IPv6 header, as [Frame.IOAM]
// does.
func (d *Datagram) IOAM() iter.Seq2[IOAMOption, error] { return ioamIn(d.Extensions()) }

func ioamIn(headers iter.Seq2[uint8, []byte]) iter.Seq2[IOAMOption, error] {
	return func(yield func(IOAMOption, error) bool) {
		for next, octets := range headers {
			if !yieldIOAM(yield, next, octets) {
				return
			}
		}
	}
}

// yieldIOAM yields the IOAM options of one extension header. It reports whether to continue.
func yieldIOAM(yield func(IOAMOption, error) bool, next uint8, octets []byte) bool {
	var h ipv6opt.Header
	if !isOptions(next) {
		return true
	}
	if _, err := h.Decode(octets); err != nil {
		return true
	}
	for option, err := range h.All() {
		if option.Type != ioam.IPv6MayChange && option.Type != ioam.IPv6NoChange {
			continue
		}
		o := IOAMOption{Header: next, Type: option.Type, Data: option.Data}
		if err != nil {
			o.Data = octets[min(int(option.Offset)+2, len(octets)):]
		} else {
			err = o.Option.Decode(o.Data)
		}
		if !yield(o, err) {
			return false
		}
	}
	return true
}

// Trace returns the first valid IOAM trace in the Hop-by-Hop Options header of the innermost IPv6 packet; it aliases
// d.Ext. If no trace is valid, Trace returns the error of the first invalid one. If there is no trace, the error
// matches rocecn.ErrOther (D5).
func (d *Datagram) Trace() (ioam.Trace, error) {
	broken := errNoTrace
	for o, err := range d.IOAM() {
		var t ioam.Trace
		switch {
		case o.Header != ipv6opt.HopByHop:
			continue
		case err == nil && o.Option.Type != ioam.OptTypePreallocated && o.Option.Type != ioam.OptTypeIncremental:
			continue
		case err == nil:
			err = t.Decode(o.Option)
		}
		if err == nil {
			return t, nil
		}
		if broken == errNoTrace {
			broken = err
		}
	}
	return ioam.Trace{}, broken
}
