package ipv6opt

// Limits bounds what a header may hold. The defaults are those that hosts may
// set (RFC 8504 section 5.3) and Linux does set. Decoding has no limits but the header's length; a receiver that
// wants them asks [Limits.Check].
type Limits struct {
	MaxOptions int // options, padding not counted; 0 stands for 8
	MaxPadding int // octets of padding in a row, all of Pad1 and PadN counted; 0 stands for 7
}

// Check returns the first thing in the header that is beyond the limits, too many
// options or too long a padding, as rocecn.ErrRange, or [ErrOverrun] when an
// option overruns the header.
func (l Limits) Check(h *Header) error {
	if l.MaxOptions == 0 {
		l.MaxOptions = 8
	}
	if l.MaxPadding == 0 {
		l.MaxPadding = 7
	}
	options, padding := 0, 0
	for at := 0; at < len(h.Options); {
		o, end, err := optionAt(h.Options, at)
		if err != nil {
			return err
		}
		if o.Type.IsPadding() {
			padding += end - at
		} else {
			padding = 0
			options++
		}
		switch {
		case options > l.MaxOptions:
			return errOptionLimit
		case padding > l.MaxPadding:
			return errPaddingLimit
		}
		at = end
	}
	return nil
}
