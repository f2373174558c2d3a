package host

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func timeOf(seconds int) time.Time {
	return time.Unix(1000, 0).UTC().Add(time.Duration(seconds) * time.Second)
}

// observed returns lines of a host, observed at these times.
func observed(name string, seconds ...int) string {
	var b strings.Builder
	for _, s := range seconds {
		fmt.Fprintf(&b, "{\"time\":%q,\"host\":%q}\n", timeOf(s).Format(time.RFC3339), name)
	}
	return b.String()
}

// Of each host the closest observations are kept: outside of the time where there are such, else inside.
func TestWindows(t *testing.T) {
	for _, c := range []struct {
		seconds  []int
		from, to int
		covers   bool
	}{
		{[]int{0, 5, 10, 15, 20, 25}, 10, 20, true},
		{[]int{25, 20, 15, 10, 5, 0}, 10, 20, true},
		{[]int{-100, 9, 8, 21, 100}, 9, 21, true},
		{[]int{14, 12, 13}, 12, 14, false},
		{[]int{12, 30}, 12, 30, false},
		{[]int{0, 19, 12}, 0, 19, false},
		{[]int{5}, 5, 5, false},
		{[]int{30, 40}, 30, 30, false},
	} {
		r := NewReader(timeOf(10), timeOf(20))
		require.NoError(t, r.Read(strings.NewReader(observed("b", 0)+observed("a", c.seconds...))))
		var hosts []string
		require.NoError(t, r.Windows(func(w Window) error {
			if hosts = append(hosts, w.From.Host); w.From.Host == "a" {
				require.Equal(t, timeOf(c.from), w.From.Time, "%v", c.seconds)
				require.Equal(t, timeOf(c.to), w.To.Time, "%v", c.seconds)
				require.Equal(t, c.covers, w.Covers, "%v", c.seconds)
			}
			return nil
		}))
		require.Equal(t, []string{"b", "a"}, hosts)
	}
}

// An observation that was still in progress when the capture began is not from before the capture.
func TestUntil(t *testing.T) {
	r := NewReader(timeOf(10), timeOf(20))
	until := fmt.Sprintf(`,"until":%q,"host"`, timeOf(11).Format(time.RFC3339))
	text := strings.Replace(observed("a", 9), `,"host"`, until, 1)
	require.NoError(t, r.Read(strings.NewReader(text+observed("a", 20))))
	require.NoError(t, r.Windows(func(w Window) error {
		require.False(t, w.Covers)
		return nil
	}))
}

func TestRefused(t *testing.T) {
	var hosts strings.Builder
	for i := range maxHosts + 1 {
		hosts.WriteString(observed(fmt.Sprint(i), 0))
	}
	for _, c := range []struct{ name, want string }{
		{"{}\n", "line 1: no time"},
		{"\n[]\n", "line 2: "},
		{observed("a", 0)[1:], "line 1: "},
		{hosts.String(), "line 257: more than 256 hosts"},
		{strings.Repeat(" ", maxLine+1), "line 1: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.ErrorContains(t, NewReader(timeOf(0), timeOf(1)).Read(strings.NewReader(c.name)), c.want)
		})
	}
	many := `"ports":[` + strings.Repeat("{},", maxAllPorts) + "{}]}\n"
	r := NewReader(timeOf(0), timeOf(1))
	require.NoError(t, r.Read(strings.NewReader(strings.Replace(observed("a", 0), "}\n", ","+many, 1))))
	require.ErrorContains(t, r.Windows(func(Window) error { return nil }), "more than 512 ports")
}
