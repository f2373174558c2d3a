package rocev2

import (
	"iter"

	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/ioam"
	"github.com/rocecn/rocecn/ipv6opt"
)

var errNoTrace = wireerr.New("rocev2", "Hop-by-Hop Options", 0, "no IOAM trace", wireerr.Other)

// OptionsError returns [ipv6opt.ErrOverrun] if an option overruns one of the Hop-by-Hop or Destination Options
// headers that Extensions yields, otherwise nil. Decode does not look at options, because it needs only the
// headers' own lengths: a packet with such an error decodes all the same (D19).
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
	Header uint8        // the header that contains it: 0 Hop-by-Hop, 60 Destination Options
	Type   ipv6opt.Type // of the IPv6 option: 0x31 or 0x11
	Data   []byte       // of the IPv6 option; aliases the packet
	ioam.Option
}

// IOAM iterates over the IOAM options in the headers that Extensions yields, those of outer IP headers first.
// An option that does not parse, or overruns its header, is yielded with its error: then Option is zero, and
// Data is as much as is there. The content of Option is for its Decode functions. An option of type 0x11 may be
// something else, because a proprietary format uses the same type.
func (f *Frame) IOAM() iter.Seq2[IOAMOption, error] { return ioamIn(f.Extensions()) }

// IOAM is [Frame.IOAM] for the options of the innermost IPv6 header, those in d.Ext.
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

// yieldIOAM yields the IOAM options of one extension header. It says whether to
// continue.
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

// Trace returns the first IOAM trace in the Hop-by-Hop header of the innermost
// IPv6 packet that parses; it aliases d.Ext. If none does, it returns the error
// of the first that does not parse, or one of rocecn.ErrOther if there is none
// (D5).
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
