package reaction

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/stretchr/testify/require"
)

// Four flows at a port of 40 Gbit/s. Its queue begins to mark at 5 KB, and marks 1 % at 200 KB. The receiver sends at
// most one notification per 50 µs, and there is no delay: the fluid model of DCQCN's authors has a queue of 41.8 KB,
// α of 0.122 and 2,228 notifications a second and flow there (CoNEXT 2016). This loop does not use the laboratory.
func TestFixedPoint(t *testing.T) {
	const (
		flows  = 4
		packet = 1000
		line   = 40e9
		slot   = 200 * time.Nanosecond // a packet of the port
		end    = 400 * time.Millisecond
		from   = 100 * time.Millisecond
	)
	d := wiretest.Must(NewDCQCN(PaperDCQCN(line)))(t)
	random := rand.New(rand.NewPCG(1, 2))
	var all [flows]struct {
		DCQCNFlow
		credit float64
		marked bool
		look   time.Duration
	}
	for i := range all {
		all[i].DCQCNFlow = d.Start()
		all[i].look = time.Duration(random.IntN(50_000))
	}
	var queue []int // senders of the queued packets
	depth, alpha, told, slots := 0., 0., 0., 0.
	for now := time.Duration(0); now < end; now += slot {
		at := start.Add(now)
		for i := range all {
			f := &all[i]
			if f.credit += float64(f.Rate()) / line; f.credit >= 1 {
				f.credit--
				f.Sent(packet, at)
				queue = append(queue, i)
			}
			if f.look <= now {
				f.look += 50 * µs
				if f.marked {
					f.marked = false
					f.Notified(at)
					if now >= from {
						told++
					}
				}
			}
		}
		if len(queue) > 0 {
			i := queue[0]
			queue = queue[1:]
			p := (float64(len(queue)*packet) - 5000) / 195_000 * 0.01
			all[i].marked = all[i].marked || random.Float64() < p || p > 0.01
		}
		if now >= from {
			depth += float64(len(queue) * packet)
			slots++
			if int(slots)%100 == 0 {
				alpha += all[0].Alpha(at)
			}
		}
	}
	require.InEpsilon(t, 41.8e3, depth/slots, 0.1)
	require.InEpsilon(t, 2228, told/flows/(end-from).Seconds(), 0.1)
	require.InEpsilon(t, 0.122, alpha/(slots/100), 0.1)
}
