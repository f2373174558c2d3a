package experiment

import (
	"context"
	"encoding/json"
	"math"

	"github.com/rocecn/rocecn/lab"
	"github.com/rocecn/rocecn/lab/scenario"
	"github.com/rocecn/rocecn/lab/sim"
)

// A Series is a run over time, in intervals.
type Series struct {
	Name     string          `json:"name"`
	Variant  lab.Variant     `json:"variant"`
	Seed     uint64          `json:"seed"`
	Line     string          `json:"line"`
	Scenario json.RawMessage `json:"scenario"`
	Port     string          `json:"port"`   // the port with this queue
	Every    float64         `json:"every"`  // µs
	Queue    []float64       `json:"queue"`  // KB, the most in the interval
	Use      []float64       `json:"use"`    // percent of the port's link
	Rate     []float64       `json:"rate"`   // Gbit/s that the reaction points of all flows allow
	Notices  []uint64        `json:"notice"` // that reached reaction points
}

// a moving is a scenario that is shown over time.
type moving struct {
	scenario *scenario.Scenario
	every    sim.Time
}

// movingCases returns the scenarios shown over time.
func movingCases() []moving {
	star := scenario.Default()
	star.Name = "an incast of 32 senders, 100 Gbit/s, links of 1 µs"
	star.Topology.Kind, star.Topology.Hosts = "star", 33
	star.Traffic = []scenario.Traffic{{Kind: "incast", Senders: 32, Jitter: µs}}
	star.Duration = 4 * ms

	wan := scenario.Default()
	wan.Name = "ten flows of 40 Gbit/s over a WAN of 1 ms one way, congested a tenth of the way from the senders"
	paper40(wan)
	wan.Topology.Kind, wan.Topology.Hosts = "wan", 10
	wan.Topology.Trunk, wan.Topology.SlowRate = 1600e9, 40e9
	wan.Topology.Distance, wan.Topology.Position = ms, 0.1
	wan.Traffic = []scenario.Traffic{{Kind: "across", Jitter: 100 * µs}}
	wan.Duration = 100 * ms

	far := *wan
	far.Name = "the same WAN, congested at its far end"
	far.Topology.Position = 1
	return []moving{
		{star, 20 * sim.Microsecond}, {wan, 400 * sim.Microsecond}, {&far, 400 * sim.Microsecond},
	}
}

// AddSeries runs an incast and a WAN, and adds how they went over time to the results.
func (r *Results) AddSeries(ctx context.Context) error {
	for _, m := range movingCases() {
		s := m.scenario
		s.Seeds = []uint64{1}
		short, err := Short(s)
		if err != nil {
			return err
		}
		for _, v := range []lab.Variant{lab.CNP, lab.FastCNP, lab.Oracle} {
			run, err := s.Series(ctx, v, 1, m.every)
			if err != nil {
				return err
			}
			out := Series{
				Name: s.Name, Variant: v, Seed: 1, Line: s.Line(v), Scenario: short, Port: run.Port,
				Every: µsOf(m.every), Notices: run.Notice,
			}
			for i := range run.Queue {
				out.Queue = append(out.Queue, roundFigure(float64(run.Queue[i])/1000))
				out.Use = append(out.Use, roundFigure(run.Use[i]*100))
				out.Rate = append(out.Rate, roundFigure(run.Rate[i]/1e9))
			}
			r.Series = append(r.Series, out)
		}
	}
	return nil
}

// roundFigure returns a number with two digits after the point.
func roundFigure(x float64) float64 { return math.Round(x*100) / 100 }
