package ipv6opt

// Limits are limits that a host may set on the options of a header. The defaults are
// those of RFC 8504 section 5.3, which Linux enforces. Decode does not enforce them.
type Limits struct {
	MaxOptions int // number of options without padding; 0 stands for 8
	MaxPadding int // octets of padding in a row, all octets of Pad1 and PadN; 0 stands for 7
}

// Check returns an error that matches rocecn.ErrRange if h has too many options or
// too much padding in a row, and [ErrOverrun] if an option before that is longer
// than the rest of the header.
func (l Limits) Check(h *Header) error {
	if l.MaxOptions == 0 {
		l.MaxOptions = 8
	}
	if l.MaxPadding == 0 {
		l.MaxPadding = 7
	}
	options, padding := 0, 0
	for start := 0; start < len(h.Options); {
		o, end, err := decodeOption(h.Options, start)
		if err != nil {
			return err
		}
		if o.Type.IsPadding() {
			padding += end - start
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
		start = end
	}
	return nil
}
