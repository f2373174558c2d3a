package ioam

import (
	"github.com/rocecn/rocecn/internal/enumtext"
	"time"
)

// TimeFormat is the meaning of a pair of Seconds and Fraction (RFC 9197
// section 5). The packet does not tell it; it is configured with the namespace.
// Linux writes POSIX.
type TimeFormat uint8

// The formats. None of them counts leap seconds in a way that a single
// timestamp could show.
const (
	// PTP: seconds and nanoseconds since 1970 in TAI (section 5.1). TAI is ahead
	// of UTC by whole seconds, 37 since 2017, and nothing in the packet says how
	// many: the time.Time that comes out shows TAI. Subtract the offset to get
	// UTC.
	TimeFormatPTP TimeFormat = iota
	// NTP: seconds since 1900 in UTC and 2^-32 seconds (section 5.2). The seconds
	// wrap in 2036; values with the top bit clear are taken to be after that, so
	// that times from January 1968 to February 2104 come out right.
	TimeFormatNTP
	// POSIX: seconds and microseconds since 1970 in UTC (section 5.3).
	TimeFormatPOSIX
)

// String returns "PTP", "NTP" or "POSIX".
func (f TimeFormat) String() string { return enumtext.Name(f, timeFormats[:], "TimeFormat") }

var timeFormats = [...]string{"PTP", "NTP", "POSIX"}

// ntpToUnix is the number of seconds from 1900 to 1970.
const ntpToUnix = 2208988800

// Time returns the time that a pair stands for, and false when the fraction is
// out of the format's range: a second of nanoseconds or microseconds, or more.
func (f TimeFormat) Time(seconds, fraction uint32) (time.Time, bool) {
	s, ns := int64(seconds), int64(fraction)
	switch f {
	case TimeFormatPTP:
	case TimeFormatNTP:
		s -= ntpToUnix
		if seconds&0x80000000 == 0 {
			s += 1 << 32
		}
		ns = ns * 1e9 >> 32
	case TimeFormatPOSIX:
		ns *= 1e3
	default:
		return time.Time{}, false
	}
	if ns >= 1e9 {
		return time.Time{}, false
	}
	return time.Unix(s, ns).UTC(), true
}

// Time returns the time of arrival in the format that the namespace uses. It is
// false when the node has no seconds or they are unavailable, and when the
// fraction is out of range. Without a fraction the time is in whole seconds.
//
// All ones also is the value of one second in 136 years, and of one NTP
// fraction; it is taken as unavailable.
func (n *Node) Time(f TimeFormat) (time.Time, bool) {
	return f.timeOf(n.typ&BitSeconds != 0, n.seconds, n.typ&BitFraction != 0, n.fraction)
}

// Time is [Node.Time] for the time at which the packet entered the IOAM domain.
func (e *EdgeToEdge) Time(f TimeFormat) (time.Time, bool) {
	return f.timeOf(e.Type&E2ESeconds != 0, e.Seconds, e.Type&E2EFraction != 0, e.Fraction)
}

func (f TimeFormat) timeOf(hasSeconds bool, seconds uint32, hasFraction bool, fraction uint32) (time.Time, bool) {
	if !hasSeconds || seconds == noValue {
		return time.Time{}, false
	}
	if !hasFraction || fraction == noValue {
		fraction = 0
	}
	return f.Time(seconds, fraction)
}
