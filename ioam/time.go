package ioam

import (
	"time"

	"github.com/rocecn/rocecn/internal/enumtext"
)

// TimeFormat is the format of a pair of Seconds and Fraction (RFC 9197 section 5).
// It is not in the packet: it is configured for the namespace. Linux writes POSIX.
type TimeFormat uint8

// The formats. A timestamp in any of them does not show leap seconds.
const (
	// TimeFormatPTP has seconds and nanoseconds since 1970 in TAI (section 5.1). TAI
	// is ahead of UTC by a number of seconds that is not in the packet, 37 since 2017.
	// The resulting time.Time is in TAI: subtract the offset to get UTC.
	TimeFormatPTP TimeFormat = iota
	// TimeFormatNTP has seconds since 1900 in UTC and units of 2^-32 seconds (section
	// 5.2). The seconds wrap in 2036: values with the top bit clear are taken to be
	// after that. The result is right from January 1968 to February 2104.
	TimeFormatNTP
	// TimeFormatPOSIX has seconds and microseconds since 1970 in UTC (section 5.3).
	TimeFormatPOSIX
)

// String returns "PTP", "NTP" or "POSIX".
func (f TimeFormat) String() string { return enumtext.Name(f, timeFormats[:], "TimeFormat") }

var timeFormats = [...]string{"PTP", "NTP", "POSIX"}

// ntpToUnix is the number of seconds from 1900 to 1970.
const ntpToUnix = 2208988800

// toTime returns the time of a pair. ok is false if the fraction is a second or more,
// or if f is not one of the formats.
func (f TimeFormat) toTime(seconds, fraction uint32) (t time.Time, ok bool) {
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

// Time returns the time of arrival, given the format of the namespace. ok is false if
// the seconds are unavailable or the fraction is out of range. Without a fraction
// the time is in whole seconds.
//
// A value of all ones is unavailable, although it is also one second in 136 years
// and one NTP fraction.
func (n *Node) Time(f TimeFormat) (t time.Time, ok bool) {
	return f.timeOf(n.typ&BitSeconds != 0, n.seconds, n.typ&BitFraction != 0, n.fraction)
}

func (f TimeFormat) timeOf(hasSeconds bool, seconds uint32, hasFraction bool, fraction uint32) (time.Time, bool) {
	if !hasSeconds || seconds == noValue {
		return time.Time{}, false
	}
	if !hasFraction || fraction == noValue {
		fraction = 0
	}
	return f.toTime(seconds, fraction)
}
