package scenario

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/rocecn/rocecn/lab/sim"
)

// Every scenario is either rejected with an error, or its networks run and their counts add up. Only the size of the
// runs is bounded here: a small network, each variant for some microseconds and events.
func FuzzScenario(f *testing.F) {
	files, err := filepath.Glob("../docs/scenarios/*.json")
	if err != nil || len(files) == 0 {
		f.Fatal("no scenarios: ", err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	text, err := os.ReadFile("testdata/printed.json")
	if err != nil {
		f.Fatal(err)
	}
	var printed []json.RawMessage
	if err := json.Unmarshal(text, &printed); err != nil {
		f.Fatal(err)
	}
	for _, p := range printed {
		f.Add([]byte(p))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := Read(text)
		if err != nil {
			return
		}
		top := &s.Topology
		if top.hosts() > 64 || top.Switches > 16 || top.leaved() && (top.Leaves > 16 || top.Spines > 16) ||
			len(s.Traffic) > 4 {
			return
		}
		s.Duration, s.Warmup = min(s.Duration, Time(50*sim.Microsecond)), min(s.Warmup, Time(sim.Microsecond))
		for _, v := range s.Variants {
			r, err := s.prepare(v, s.Seeds[0])
			if err != nil {
				continue
			}
			ctx, end := context.WithCancel(context.Background())
			r.through(ctx, s, func(float64) { end() }) // 100,000 events before and after the end of the warmup
			end()
			if r.result.Err != nil {
				t.Fatalf("%v: %v", v, r.result.Err)
			}
		}
	})
}
