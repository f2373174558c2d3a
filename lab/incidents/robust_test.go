package incidents

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/rocecn/rocecn/flows"
	"github.com/rocecn/rocecn/flows/triage"
	"github.com/rocecn/rocecn/rocev2"
)

// A transformation makes another capture of the same traffic.
type transformation struct {
	name  string
	apply func(r *rand.Rand, all []frame) []frame
	snap  int // octets of each frame that are kept; 0 for all
}

// keepShare keeps each frame with a probability.
func keepShare(p float64) func(r *rand.Rand, all []frame) []frame {
	return func(r *rand.Rand, all []frame) (out []frame) {
		for _, f := range all {
			if r.Float64() < p {
				out = append(out, f)
			}
		}
		return out
	}
}

// keepRequests keeps the frames in one direction: PFC and requests.
func keepRequests(_ *rand.Rand, all []frame) []frame {
	return slices.DeleteFunc(slices.Clone(all), func(f frame) bool {
		return be.Uint16(f.octets[12:]) != 0x8808 && opcodeOf(f.octets) > 0x0C
	})
}

// opcodeOf returns the opcode of the BTH.
func opcodeOf(b []byte) byte {
	at := 14 + 20 + 8
	if be.Uint16(b[12:]) == 0x86DD {
		at = 14 + 40 + 8
		if b[20] == 60 || b[20] == 0 { // an extension header
			at += 8 + 8*int(b[14+40+1])
		}
	}
	return b[at]
}

// copyEach returns each frame twice, as two mirrors do.
func copyEach(_ *rand.Rand, all []frame) []frame {
	later := slices.Clone(all)
	for i := range later {
		later[i].at += 2 * time.Microsecond
	}
	return merged(all, later)
}

// stepBack sets the clock back in the middle of the capture.
func stepBack(_ *rand.Rand, all []frame) []frame {
	out := slices.Clone(all)
	for i := len(out) / 2; i < len(out); i++ {
		out[i].at -= 5 * time.Second
	}
	return out
}

var transformations = []transformation{
	{name: "sampled 1:10", apply: keepShare(0.1)},
	{name: "sampled 1:100", apply: keepShare(0.01)},
	{name: "truncated to 96 octets", snap: 96},
	{name: "one direction", apply: keepRequests},
	{name: "each packet twice", apply: copyEach},
	{name: "1 % not captured", apply: keepShare(0.99)},
	{name: "clock set back", apply: stepBack},
}

// explainAs returns the verdicts for a transformed capture of an incident.
func explainAs(in *incident, x *transformation, seed uint64) []triage.Verdict {
	all := in.frames
	if x.apply != nil {
		all = x.apply(rand.New(rand.NewPCG(seed, 9)), all)
	}
	table := flows.New(flows.Config{Evidence: true})
	d := flows.Decoder{NoICRC: true}
	var p flows.Packet
	for i, f := range all {
		data, o := f.octets, rocev2.DecodeOptions{}
		if x.snap > 0 && x.snap < len(data) {
			o.AllowTruncated, data = true, data[:x.snap]
		}
		d.Decode(&p, data, o)
		table.Observe(&p, uint64(i+1), epoch.Add(f.at))
	}
	return triage.Explain(table.Snapshot())
}

// TestRobustness judges other captures of the same incidents: none of them names an innocent party.
func TestRobustness(t *testing.T) {
	step := 8
	if testing.Short() {
		step = 20
	}
	right, named, total := map[string]int{}, map[string]int{}, 0
	for n := 0; n < incidents; n += step {
		in := makeIncident(n, true)
		total++
		for i := range transformations {
			x := &transformations[i]
			j := compareVerdicts(&in, explainAs(&in, x, uint64(n)))
			if len(j.wrong) > 0 {
				t.Errorf("%d %s, %s: %v", n, in.name, x.name, j.wrong)
			}
			if j.right {
				right[x.name]++
			}
			if len(j.found) > 0 {
				named[x.name]++
			}
		}
	}
	for _, x := range transformations {
		t.Logf("%s: %d of %d right, %d with a cause", x.name, right[x.name], total, named[x.name])
	}
}
