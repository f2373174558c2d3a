package prometheus

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestText(t *testing.T) {
	var text Text
	text.Family("a_total", "All.")
	text.Sample(1)
	text.Sample(2.5, "x", "plain", "y", "a\"b\\c\nd\u00e9")
	text.Family("b", "Half.")
	text.Sample(1e9, "x", "")
	require.Equal(t, `# HELP a_total All.
# TYPE a_total counter
a_total 1
a_total{x="plain",y="a\"b\\c\ndé"} 2.5
# HELP b Half.
# TYPE b gauge
b{x=""} 1e+09
`, string(text.Octets))
}

func TestHistogram(t *testing.T) {
	var h Histogram
	for _, d := range []time.Duration{-1, 5 * time.Microsecond, 5*time.Microsecond + 1, time.Millisecond, time.Hour} {
		h.Observe(d)
	}
	var text Text
	text.Histograms("c_seconds", "Times.")
	text.Histogram(&h, "role", "r")
	got := string(text.Octets)
	for _, line := range []string{
		"# TYPE c_seconds histogram\n", `c_seconds_bucket{role="r",le="5e-06"} 2` + "\n",
		`c_seconds_bucket{role="r",le="1e-05"} 3` + "\n", `c_seconds_bucket{role="r",le="0.0005"} 3` + "\n",
		`c_seconds_bucket{role="r",le="0.001"} 4` + "\n", `c_seconds_bucket{role="r",le="1"} 4` + "\n",
		`c_seconds_bucket{role="r",le="+Inf"} 5` + "\n", `c_seconds_count{role="r"} 5` + "\n",
		`c_seconds_sum{role="r"} 3600.00101` + "\n",
	} {
		require.Contains(t, got, line)
	}
	require.Zero(t, testing.AllocsPerRun(10, func() { h.Observe(time.Second) }))
}
