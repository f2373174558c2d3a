package cli

import "time"

// Time is a time in UTC as text: with microseconds, with nanoseconds where there are any.
type Time time.Time

// IsZero reports whether t is the zero Time.
func (t Time) IsZero() bool { return time.Time(t).IsZero() }

// String returns the text.
func (t Time) String() string { return string(t.appendText(nil)) }

// MarshalText returns the text of String.
func (t Time) MarshalText() ([]byte, error) { return t.appendText(nil), nil }

func (t Time) appendText(b []byte) []byte {
	layout := "2006-01-02T15:04:05.000000Z"
	if time.Time(t).Nanosecond()%1000 != 0 {
		layout = "2006-01-02T15:04:05.000000000Z"
	}
	return time.Time(t).UTC().AppendFormat(b, layout)
}
