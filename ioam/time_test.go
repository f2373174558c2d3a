package ioam

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTimeFormats(t *testing.T) {
	for _, c := range []struct {
		format            TimeFormat
		seconds, fraction uint32
		want              string // empty: not a time
	}{
		{TimeFormatPOSIX, 0, 0, "1970-01-01T00:00:00Z"},
		{TimeFormatPOSIX, 1795253094, 704880, "2026-11-21T09:24:54.70488Z"},
		{TimeFormatPOSIX, 0xFFFFFFFF, 999999, "2106-02-07T06:28:15.999999Z"},
		{TimeFormatPOSIX, 1795253094, 1000000, ""},
		{TimeFormatPOSIX, 1795253094, 0xFFFFFFFF, ""},

		{TimeFormatPTP, 0, 0, "1970-01-01T00:00:00Z"}, // in TAI
		{TimeFormatPTP, 1795253131, 704880123, "2026-11-21T09:25:31.704880123Z"},
		{TimeFormatPTP, 0xFFFFFFFF, 999999999, "2106-02-07T06:28:15.999999999Z"},
		{TimeFormatPTP, 1795253131, 1000000000, ""},

		{TimeFormatNTP, 0x80000000, 0, "1968-01-20T03:14:08Z"},
		{TimeFormatNTP, 2208988800, 0, "1970-01-01T00:00:00Z"},
		{TimeFormatNTP, 0xFFFFFFFF, 0x80000000, "2036-02-07T06:28:15.5Z"},
		{TimeFormatNTP, 0, 0, "2036-02-07T06:28:16Z"},
		{TimeFormatNTP, 0x7FFFFFFF, 0xFFFFFFFF, "2104-02-26T09:42:23.999999999Z"},

		{TimeFormat(3), 0, 0, ""},
	} {
		got, ok := c.format.toTime(c.seconds, c.fraction)
		require.Equal(t, c.want != "", ok)
		if ok {
			require.Equal(t, c.want, got.Format(time.RFC3339Nano))
		}
	}
	require.Equal(t, []string{"PTP", "NTP", "POSIX", "TimeFormat(9)"},
		[]string{TimeFormatPTP.String(), TimeFormatNTP.String(), TimeFormatPOSIX.String(), TimeFormat(9).String()})
}

func TestTimeOfANode(t *testing.T) {
	both := BitSeconds | BitFraction
	for _, c := range []struct {
		name              string
		typ               TraceType
		seconds, fraction uint32
		want              string // empty: none
	}{
		{"seconds and fraction", both, 100, 5, "1970-01-01T00:01:40.000005Z"},
		{"only seconds", BitSeconds, 100, 5, "1970-01-01T00:01:40Z"},
		{"fraction unavailable", both, 100, noValue, "1970-01-01T00:01:40Z"},
		{"seconds unavailable", both, noValue, 5, ""},
		{"no seconds", BitFraction, 100, 5, ""},
		{"fraction out of range", both, 100, 1e6, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := Node{typ: c.typ, seconds: c.seconds, fraction: c.fraction}
			got, ok := n.Time(TimeFormatPOSIX)
			require.Equal(t, c.want != "", ok)
			if ok {
				require.Equal(t, c.want, got.Format(time.RFC3339Nano))
			}
		})
	}
}
