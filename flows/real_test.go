package flows

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/rocev2"
)

// realTruth is the known truth about a case of testdata/real.
type realTruth struct {
	Name, Before, Behind, Sender string
	Lost, Added                  uint64
	Ambiguous                    bool `json:"copies_ambiguous"`
	Packets                      struct{ Before, Behind uint64 }
	Delay                        struct {
		Forward struct {
			N                  uint64
			Min, P50, P99, Max float64
		}
	} `json:"delay_us"`
	Red *struct{ Marked, Pdrop uint64 }
}

// realCases calls with for each case of testdata/real.
func realCases(t *testing.T, with func(t *testing.T, truth *realTruth)) {
	names := wiretest.Must(filepath.Glob(wiretest.Path(t, "real/*.truth.json")))(t)
	require.Len(t, names, 14)
	for _, name := range names {
		octets := wiretest.Must(os.ReadFile(name))(t)
		var truth realTruth
		require.NoError(t, json.Unmarshal(octets, &truth))
		t.Run(truth.Name, func(t *testing.T) { with(t, &truth) })
	}
}

// realFrames decodes the packets of a capture with one Decoder.
func realFrames(t *testing.T, name string, with func(p *Packet, at time.Time)) {
	t.Helper()
	realRecords(t, name, func(_ []byte, p *Packet, at time.Time) { with(p, at) })
}

// realRecords is realFrames with the octets of each frame.
func realRecords(t *testing.T, name string, with func(b []byte, p *Packet, at time.Time)) {
	t.Helper()
	f := wiretest.Must(os.Open(wiretest.Path(t, "real/"+name)))(t)
	defer f.Close()
	r := wiretest.Must(capture.Open(f))(t)
	var d Decoder
	for {
		var record capture.Record
		err := r.Next(&record)
		if errors.Is(err, io.EOF) {
			return
		}
		require.NoError(t, err)
		p := new(Packet)
		d.Decode(p, record.Data, record.Options())
		with(record.Data, p, record.Time)
	}
}

// For captures of one host before and after the place of losses, marks, copies and reordering, the
// comparison finds the known numbers.
func TestRealPoints(t *testing.T) {
	realCases(t, func(t *testing.T, truth *realTruth) {
		type seen struct {
			p  *Packet
			at time.Time
		}
		var points [2][]seen
		for i, name := range [...]string{truth.Before, truth.Behind} {
			realFrames(t, name, func(p *Packet, at time.Time) { points[i] = append(points[i], seen{p, at}) })
		}
		c := NewComparison(ComparisonConfig{})
		for len(points[PointA])+len(points[PointB]) > 0 {
			at := c.Next()
			if len(points[at]) == 0 {
				at = 1 - at
			}
			c.Observe(at, points[at][0].p, points[at][0].at)
			points[at] = points[at][1:]
		}
		c.Finish()
		total := c.Total()
		require.Equal(t, [2]uint64{truth.Packets.Before, truth.Packets.Behind}, total.Packets)
		require.Equal(t, truth.Lost, total.Lost)
		if truth.Name == "write4-dup" { // copies, as the Identifications show
			require.Equal(t, [2]uint64{PointB: truth.Added}, total.Duplicated)
			require.Zero(t, total.Added)
		} else {
			require.Equal(t, truth.Added, total.Added)
			require.Zero(t, total.Duplicated)
		}
		require.Zero(t, total.DSCP.sumChanges())
		if truth.Red != nil { // without packets that were marked and dropped
			require.Equal(t, truth.Red.Marked-truth.Red.Pdrop,
				total.ECN[[2]uint8{uint8(rocev2.ECT0), uint8(rocev2.CE)}])
			require.Equal(t, truth.Red.Marked-truth.Red.Pdrop, total.ECN.sumChanges())
		}
		var forward Delays
		for _, f := range c.Flows() {
			if !strings.Contains(truth.Sender, f.Src.String()) {
				require.LessOrEqual(t, f.Delay.Max(), time.Duration(0), f.FlowKey)
				continue
			}
			require.GreaterOrEqual(t, f.Delay.Min(), time.Duration(0), f.FlowKey)
			forward.mergeDelays(&f.Delay)
		}
		want := &truth.Delay.Forward
		if !truth.Ambiguous {
			require.Equal(t, want.N, forward.Count())
			require.InEpsilon(t, want.P50, toMicros(forward.Percentile(0.5)), 0.1)
			require.InEpsilon(t, want.P99, toMicros(forward.Percentile(0.99)), 0.1)
			require.Equal(t, [2]float64{want.Min, want.Max},
				[2]float64{toMicros(forward.Min()), toMicros(forward.Max())})
		} else { // retransmissions that arrived count here as well
			require.GreaterOrEqual(t, forward.Count(), want.N)
		}
		switch clocks := c.Clocks(); truth.Name {
		case "w4-uc-loss2": // nothing comes back
			require.Equal(t, ClocksOneWay, clocks.Basis)
		default:
			require.Equal(t, ClocksBothWays, clocks.Basis)
			require.Less(t, clocks.Offset.Abs(), time.Millisecond)
		}
	})
}

func toMicros(d time.Duration) float64 { return float64(d) / 1000 }

// mergeDelays adds the delays of another flow.
func (d *Delays) mergeDelays(o *Delays) {
	for _, one := range o.few[:min(o.n, uint64(len(o.few)))] {
		if o.after == nil && o.before == nil {
			d.addDelay(one)
		}
	}
	if o.after == nil && o.before == nil {
		return
	}
	if d.after == nil && d.before == nil {
		for _, one := range d.few[:d.n] {
			d.addToHistogram(one)
		}
	}
	if d.n == 0 {
		d.min, d.max = o.min, o.max
	}
	d.min, d.max = min(d.min, o.min), max(d.max, o.max)
	d.n += o.n
	for _, h := range [...]struct {
		to   **Histogram
		from *Histogram
	}{{&d.after, o.after}, {&d.before, o.before}} {
		if h.from == nil {
			continue
		}
		if *h.to == nil {
			*h.to = new(Histogram)
		}
		to := *h.to
		if to.n == 0 || h.from.min < to.min {
			to.min = h.from.min
		}
		to.max = max(to.max, h.from.max)
		to.n += h.from.n
		for i, n := range h.from.counts {
			bucket := h.from.first + i
			if uint(bucket-to.first) >= uint(len(to.counts)) {
				to.extendTo(bucket)
			}
			to.counts[bucket-to.first] += n
		}
	}
}
