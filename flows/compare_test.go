package flows

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/internal/traffic"
	"github.com/rocecn/rocecn/rocev2"
)

// A capture, and one made from it by known loss, marks, copies and delay: what
// the comparison says is what was done.
func TestCompare(t *testing.T) {
	for seed := range uint64(60) {
		random := rand.New(rand.NewPCG(seed, 7))
		made := traffic.Generate(seed, traffic.Options{Connections: 8, Clean: true})
		offset := time.Duration(random.IntN(4)) * 3 * time.Second // of B's clock
		type truth struct {
			a, b, lost, copiedA, copiedB, dscp, ecn uint64
		}
		want := map[rocev2.FlowKey]truth{}
		var a, b []*traffic.Frame
		for _, f := range made.Frames {
			var p rocev2.Packet
			require.NoError(t, p.DecodeFrame(f.Data))
			key := p.FlowKey()
			w := want[key]
			forth := key.Src.As16()[15] == 1
			a = append(a, f)
			w.a++
			delay := time.Duration(20+random.IntN(30)) * time.Microsecond
			if !forth {
				delay = -delay
			}
			other := *f
			other.Time = f.Time.Add(offset + delay)
			other.Data = slices.Clone(f.Data)
			switch random.IntN(12) {
			case 0:
				w.lost++
				want[key] = w
				continue
			case 1:
				rocev2.SetDSCP(other.Data[14:], 0)
				w.dscp++
			case 2:
				if p.ECN() != rocev2.CE {
					rocev2.SetECN(other.Data[14:], rocev2.CE)
					w.ecn++
				}
			case 3:
				again := other
				again.Time = again.Time.Add(3 * time.Microsecond)
				b = append(b, &again)
				w.copiedB++
				w.b++
			case 4:
				again := *f
				again.Time = f.Time.Add(time.Microsecond)
				a = append(a, &again)
				w.copiedA++
				w.a++
			}
			b = append(b, &other)
			w.b++
			want[key] = w
		}
		slices.SortStableFunc(a, func(x, y *traffic.Frame) int { return x.Time.Compare(y.Time) })
		slices.SortStableFunc(b, func(x, y *traffic.Frame) int { return x.Time.Compare(y.Time) })

		c := NewComparison(0)
		sides := [2][]*traffic.Frame{a, b}
		var d Decoder
		var p Packet
		for len(sides[A])+len(sides[B]) > 0 {
			at := c.Next()
			if len(sides[at]) == 0 {
				at = 1 - at
			}
			f := sides[at][0]
			sides[at] = sides[at][1:]
			d.Decode(&p, f.Data, rocev2.DecodeOptions{})
			c.Observe(at, &p, f.Time)
		}
		c.Finish()
		for f := range c.Flows() {
			got := truth{f.Packets[A], f.Packets[B], f.Lost, f.Duplicated[A], f.Duplicated[B], f.DSCP.total(), f.ECN.total()}
			if management(f.DestQP) { // whose PSNs are all 0 here: which copy is whose is not known
				require.Equal(t, want[f.FlowKey].b, f.Same+f.Duplicated[B]+f.Added)
				continue
			}
			require.Equal(t, want[f.FlowKey], got, "seed %d: %v", seed, f.FlowKey)
			require.Zero(t, f.Added)
			if f.Same > 0 {
				least := offset + 20*time.Microsecond
				if f.Src.As16()[15] != 1 {
					least = offset - 50*time.Microsecond
				}
				require.InDelta(t, least+15*time.Microsecond, f.Delay.Percentile(0.5), float64(15*time.Microsecond)+float64(offset)/16)
			}
		}
		clocks := c.Clocks()
		require.Equal(t, BothWays, clocks.Known)
		require.InDelta(t, offset, clocks.Offset, float64(16*time.Microsecond)+float64(offset)/16)
	}
}

// What has no like within the window is given up, and memory with it.
func TestCompareWindow(t *testing.T) {
	c := NewComparison(100)
	s := newScript(t)
	p := Packet{kind: request, pkt: s.keyAB()}
	for psn := range uint32(100_000) {
		p.psn = psn
		c.Observe(A, &p, s.now.Add(time.Duration(psn)))
		require.LessOrEqual(t, len(c.sides[A].waiting), 100)
	}
	c.Observe(B, &p, s.now)
	c.Finish()
	total := c.Total()
	require.EqualValues(t, 99_999, total.Lost)
	require.EqualValues(t, 1, total.Same)
	require.Equal(t, OneWay, c.Clocks().Known)
}
