package scenario

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/lab"
	"github.com/rocecn/rocecn/lab/sim"
)

var update = flag.Bool("update", false, "write testdata/prints.txt")

// read reads a scenario that is right.
func read(t *testing.T, text string) *Scenario {
	return wiretest.Must(Read([]byte(text)))(t)
}

// The runs of these scenarios are fixed: any change of an arrival at any node changes the print.
func TestPrints(t *testing.T) {
	wiretest.Alone(t)
	const file = "testdata/prints.txt"
	text := wiretest.Must(os.ReadFile("testdata/printed.json"))(t)
	var printed []json.RawMessage
	require.NoError(t, json.Unmarshal(text, &printed))
	require.Len(t, printed, 32)
	var all bytes.Buffer
	for _, p := range printed {
		s := read(t, string(p))
		results, err := s.Run(t.Context(), func(float64) {})
		require.NoError(t, err, s.Name)
		for _, r := range results {
			require.Equal(t, s.Switch.Trim, r.Counts.Trimmed > 0, s.Name)
			fmt.Fprintf(&all, "%s, %v: %016x, %d events, %d packets, %d lost, %d cuts, %d pauses, %d finished\n",
				s.Name, r.Variant, r.Print, r.Events,
				r.Counts.Packets, r.Counts.Lost, r.Counts.Notified, r.Counts.Pauses, r.Finished)
		}
	}
	if *update {
		require.NoError(t, os.WriteFile(file, all.Bytes(), 0o644))
	}
	want := wiretest.Must(os.ReadFile(file))(t)
	require.Equal(t, string(want), all.String(), "if this is meant: go test ./lab/scenario -run TestPrints -update")
}

// Runs on several processors at the same time are the same runs, one after the other, on one.
func TestParallel(t *testing.T) {
	s := read(t, `{"duration": "200us", "warmup": "100us", "topology": {"kind": "star", "hosts": 9}, "seeds": [1, 2, 3],
		"traffic": [{"kind": "incast", "senders": 8, "jitter": "1us"}]}`)
	together, err := s.Run(t.Context(), func(float64) {})
	require.NoError(t, err)
	require.Len(t, together, 9)
	prints := map[uint64]bool{}
	for _, want := range together {
		alone := *s
		alone.Variants, alone.Seeds = []lab.Variant{want.Variant}, []uint64{want.Seed}
		got, err := alone.Run(t.Context(), func(float64) {})
		require.NoError(t, err)
		require.Equal(t, []Result{want}, got)
		prints[want.Print] = true
	}
	require.Len(t, prints, 9)
}

// words are replaced in the scenarios of testdata.
var words = []string{"$star", `"topology": {"kind": "star", "hosts": 9}`,
	"$wan", `"topology": {"kind": "wan", "hosts": 9}`,
	"$incast", `"traffic": [{"kind": "incast", "senders": 8}]`,
	"$poisson", `"traffic": [{"kind": "poisson", "sizes": "WebSearch", "load": 0.5}]`,
	"$seconds", `"duration": "1ms"`, "$most", fmt.Sprint(math.MaxInt), "$half", fmt.Sprint(math.MaxInt/2 + 1)}

// Every error names the key.
func TestWrongKeys(t *testing.T) {
	many := `"duration": "1ms", "topology": {"kind": "star", "hosts": 9}, "traffic": [` +
		strings.Repeat(`{"kind": "permutation"},`, 64) + `{"kind": "permutation"}]`
	cases := append(wiretest.Cases(t, "keys.txt", words...), []string{many, "traffic: a list: want at most 64"})
	for _, c := range cases {
		t.Run(c[1], func(t *testing.T) {
			_, err := Read([]byte("{" + c[0] + "}"))
			if c[1] == "right" {
				require.NoError(t, err, c[0])
				return
			}
			require.ErrorContains(t, err, c[1])
			require.True(t, strings.HasPrefix(err.Error(), c[1]), err)
		})
	}
	_, err := Read([]byte(`{"duration": `))
	require.ErrorContains(t, err, "not JSON")
	_, err = Read([]byte(`{} {}`))
	require.ErrorContains(t, err, "after the scenario")
}

// A key without effect is an error; the same key is right where it has one.
func TestUselessKeys(t *testing.T) {
	for _, c := range wiretest.Cases(t, "useless.txt", words...) {
		t.Run(c[1], func(t *testing.T) {
			_, err := Read([]byte(`{"duration": "1ms",` + c[0] + "}"))
			require.ErrorContains(t, err, "has no effect", c[0])
			require.Equal(t, c[1], err.(*KeyError).Key)
			_, err = Read([]byte(`{"duration": "1ms",` + c[2] + "}"))
			require.NoError(t, err, c[2])
		})
	}
}

// Medians of as many values below as above are between the two in the middle.
func TestMedian(t *testing.T) {
	require.Equal(t, sim.Time(5), medianTime([]sim.Time{9, 1, 6, 4}))
	require.Equal(t, sim.Time(6), medianTime([]sim.Time{9, 1, 6}))
	require.Equal(t, sim.Never, medianTime(nil))
	m := Metric{Of: func(r *Result) float64 { return r.Use }}
	results := func(uses ...float64) (all []Result) {
		for _, use := range uses {
			all = append(all, Result{Steady: Steady{Use: use}})
		}
		return all
	}
	cell, some := m.formatCell(results(1, 8, 2, 3), lab.None)
	require.Equal(t, "2.5 (1…8)", cell)
	require.True(t, some)
	cell, _ = m.formatCell(results(1, math.NaN(), 2), lab.None)
	require.Equal(t, "1.5 (1…2, 2 of 3 seeds)", cell)
	cell, _ = m.formatCell(results(1, math.NaN()), lab.None)
	require.Equal(t, "1 (1 of 2 seeds)", cell)
}

// The rows of the queue are of the port where it is deepest, which need not be the busiest: here a queue that a
// burst makes, beside a link that is used all the time without one.
func TestDeepest(t *testing.T) {
	wiretest.Alone(t)
	s := read(t, `{"variants": ["none"], "seeds": [3], "duration": "2ms",
		"topology": {"kind": "line", "switches": 2, "hosts": 4, "trunk": "370G"},
		"traffic": [{"kind": "permutation", "rate": "90G"}, {"kind": "incast", "senders": 3, "size": "100KB"}]}`)
	results := wiretest.Must(s.Run(t.Context(), func(float64) {}))(t)
	r := &results[0]
	require.Equal(t, "switch 1 to host 7", r.Port)
	require.Equal(t, r.Peak, int64(r.Queue.Max()), "without a warmup the histogram is of the same port")
	require.Less(t, r.Use, 0.95)
	require.Greater(t, r.Busiest, 0.96)
	var out bytes.Buffer
	require.NoError(t, s.Print(&out, results))
	require.Contains(t, out.String(), "none, seed 3: deepest queue from switch 1 to host 7; ")
}

// The report has the completion times of messages as such, not only relative to the times of lone messages.
func TestCompletion(t *testing.T) {
	s := read(t, `{"variants": ["none"], "duration": "2ms", "topology": {"kind": "star", "hosts": 2},
		"traffic": [{"kind": "incast", "senders": 1, "size": "500KB"}]}`)
	results := wiretest.Must(s.Run(t.Context(), func(float64) {}))(t)
	n := wiretest.Must(s.Topology.buildNetwork(s.config(lab.None, 1)))(t)
	alone := n.Alone(n.Hosts()[0], n.Hosts()[1], 500_000)
	require.EqualValues(t, 1, results[0].Completion[2].Count())
	require.Equal(t, uint64(alone/sim.Nanosecond), results[0].Completion[2].Max())
	var out bytes.Buffer
	require.NoError(t, s.Print(&out, results))
	want := fmt.Sprintf("%.4g", float64(alone/sim.Nanosecond)/1000)
	require.Regexp(t, `(?m)^completion of a message, mean +µs +`+want+`$`, out.String())
	require.Regexp(t, `(?m)^completion, 100 to 1000 KB, 99 % +µs +`+want+`$`, out.String())
}

// A message that is alone takes as long as it does alone, at the rate of its traffic as well.
func TestSlowdownAtRate(t *testing.T) {
	s := read(t, `{"variants": ["none"], "duration": "10ms", "topology": {"kind": "star", "hosts": 3},
		"traffic": [{"kind": "incast", "senders": 1, "size": "100KB", "rate": "1G"}]}`)
	results := wiretest.Must(s.Run(t.Context(), func(float64) {}))(t)
	require.EqualValues(t, 100, results[0].Slowdown[1].Max())
}

// A quantile is not printed if an unfinished message may be the quantile; the number of unfinished messages is printed.
func TestOpen(t *testing.T) {
	s := read(t, `{"variants": ["none"], "duration": "100us", "warmup": "1us", "topology": {"kind": "star", "hosts": 9},
		"traffic": [{"kind": "pairs", "pairs": [[0, 1], [2, 3], [4, 5]], "size": "100KB", "at": "2us"},
			{"kind": "pairs", "pairs": [[6, 7]], "size": "90KB", "rate": "1G", "at": "2us"},
			{"kind": "pairs", "pairs": [[6, 7]], "size": "90KB", "rate": "1G"}]}`)
	results := wiretest.Must(s.Run(t.Context(), func(float64) {}))(t)
	r := &results[0]
	require.Equal(t, 3, r.Finished)
	require.Equal(t, 2, r.Unfinished)
	require.Equal(t, []int{0, 1, 0, 0}, r.Open, "of those that were posted after the warmup")
	of := map[string]float64{}
	for _, m := range Metrics() {
		of[m.Name] = m.Of(r)
	}
	require.EqualValues(t, 25, of["unfinished, of all sizes"])
	require.EqualValues(t, 25, of["unfinished, 10 to 100 KB"])
	require.True(t, math.IsNaN(of["unfinished, 0 to 10 KB"]), "there were none")
	require.Positive(t, of["slowdown, 10 to 100 KB, 50 %"])
	require.Equal(t, math.Inf(1), of["slowdown, 10 to 100 KB, 99 %"])
	require.Equal(t, math.Inf(1), of["completion, 10 to 100 KB, 99 %"])
	require.True(t, math.IsNaN(of["completion, 0 to 10 KB, 99 %"]))
}

// Messages that have not ended count as the slowest in a quantile, and one that is among them leaves no median.
func TestQuantileOfAll(t *testing.T) {
	result := func(open int) Result {
		r := Result{Completion: make([]lab.Histogram, 1), Open: []int{open}}
		for _, x := range []uint64{10, 20, 30, 40} {
			r.Completion[0].Add(x, 1)
		}
		return r
	}
	m := Metric{Of: func(r *Result) float64 { return r.Quantile(r.Completion, 0, 0.5) }}
	for open, want := range []float64{20, 30, 30, 40, 40, math.Inf(1)} {
		r := result(open)
		require.Equal(t, want, m.Of(&r), open)
	}
	text, _ := m.formatCell([]Result{result(0), result(4)}, lab.None)
	require.Equal(t, "30 (20…40)", text)
	text, _ = m.formatCell([]Result{result(0), result(5)}, lab.None)
	require.Equal(t, "–", text)
	none := Result{Completion: make([]lab.Histogram, 1), Open: []int{0}}
	require.True(t, math.IsNaN(m.Of(&none)))
	text, _ = m.formatCell([]Result{result(0), none}, lab.None)
	require.Equal(t, "20 (1 of 2 seeds)", text)
}

// Messages that were posted in the warmup finish, but their times are not counted.
func TestCompletionAfterWarmup(t *testing.T) {
	s := read(t, `{"variants": ["none"], "duration": "2ms", "warmup": "10us", "topology": {"kind": "star", "hosts": 3},
		"traffic": [{"kind": "incast", "senders": 1, "size": "500KB"},
			{"kind": "incast", "senders": 1, "size": "5KB", "at": "10us"}]}`)
	results := wiretest.Must(s.Run(t.Context(), func(float64) {}))(t)
	r := &results[0]
	require.Equal(t, 2, r.Finished)
	var counted []uint64
	for i := range r.Completion {
		require.Equal(t, r.Completion[i].Count(), r.Slowdown[i].Count())
		counted = append(counted, r.Completion[i].Count())
	}
	require.Equal(t, []uint64{1, 0, 0, 0}, counted)
}

// The largest networks that a scenario may have come up in seconds and in little memory.
func TestLarge(t *testing.T) {
	wiretest.Alone(t)
	for _, top := range []string{
		`{"kind": "fat-tree", "k": 16}`,
		`{"kind": "leaf-spine", "leaves": 128, "spines": 32, "hosts": 16}`,
		`{"kind": "line", "hosts": 2, "switches": 1024}`,
	} {
		s := read(t, `{"variants": ["fastcnp"], "duration": "20us", "topology": `+top+`,
			"traffic": [{"kind": "permutation", "size": "1KB"}]}`)
		results, err := s.Run(t.Context(), func(float64) {})
		require.NoError(t, err, top)
		require.Positive(t, results[0].Counts.Hops, top)
	}
}

// A flow with a rate of its own sends no faster.
func TestRate(t *testing.T) {
	s := read(t, `{"variants": ["none"], "duration": "2ms", "warmup": "1ms", "topology": {"kind": "star", "hosts": 4},
		"traffic": [{"kind": "permutation", "rate": "10G"}]}`)
	results := wiretest.Must(s.Run(t.Context(), func(float64) {}))(t)
	require.InEpsilon(t, 40*1024./1126, results[0].Goodput, 0.01)
}

// A reaction point that cannot be is an error of the run.
func TestWrongReaction(t *testing.T) {
	s := read(t,
		`{"duration": "1ms", "topology": {"kind": "star", "hosts": 2}, "traffic": [{"kind": "incast", "senders": 1}]}`)
	s.Reaction.Hyper = math.MaxInt64
	_, err := s.Run(t.Context(), func(float64) {})
	require.ErrorContains(t, err, "Hyper")
}

func TestDistributions(t *testing.T) {
	wiretest.Alone(t)
	for _, c := range []struct {
		name string
		mean float64
	}{{"WebSearch", 1.71e6}, {"FB_Hadoop", 120e3}, {"AliStorage2019", 40.9e3}} {
		t.Run(c.name, func(t *testing.T) {
			d := distributions[c.name]
			require.InEpsilon(t, c.mean, d.meanOctets(), 0.02)
			stream, sum := sim.NewStream(1, "test", 0), 0.
			for range 200_000 {
				sum += float64(d.drawOctets(stream.Float64()))
			}
			require.InEpsilon(t, c.mean, sum/200_000, 0.03)
			require.EqualValues(t, 1, d.drawOctets(0))
			require.EqualValues(t, d[len(d)-1][0], d.drawOctets(1))
		})
	}
}

// Poisson traffic has the load that it was told, and ends all messages once there is no more of it.
func TestLoad(t *testing.T) {
	wiretest.Alone(t)
	s := read(t, `{"variants": ["none"], "duration": "10ms", "warmup": "1ms", "topology": {"kind": "star", "hosts": 16},
		"traffic": [{"kind": "poisson", "sizes": "AliStorage2019", "load": 0.3}]}`)
	results := wiretest.Must(s.Run(t.Context(), func(float64) {}))(t)
	require.InEpsilon(t, 0.3*16*100, results[0].Goodput, 0.05)
	require.Less(t, results[0].Unfinished, results[0].Finished/50)
	for i := range Bins {
		if h := results[0].Slowdown[i]; h.Count() > 0 {
			require.GreaterOrEqual(t, h.Quantile(0), uint64(99), "nothing is faster than alone")
		}
	}
}

// Bursts have the load that they were told, each from as many different hosts to another one as there are senders.
func TestBursts(t *testing.T) {
	s := read(t, `{"variants": ["none"], "duration": "20ms", "topology": {"kind": "star", "hosts": 16},
		"traffic": [{"kind": "bursts", "senders": 12, "size": "64KB", "load": 0.05}]}`)
	r := wiretest.Must(s.prepareRun(lab.None, 1))(t)
	posts := map[sim.Time][][2]*lab.Host{} // of each burst, when it was posted
	was := r.net.Done
	r.net.Done = func(f *lab.Flow, octets int64, posted sim.Time) {
		require.EqualValues(t, 64_000, octets)
		posts[posted] = append(posts[posted], [2]*lab.Host{f.Source(), f.Destination()})
		was(f, octets, posted)
	}
	r.runThrough(t.Context(), s, func(float64) {})
	require.NoError(t, r.result.Err)
	require.InEpsilon(t, 0.05*16*100, r.result.Goodput, 0.2)
	whole := 0
	for _, pairs := range posts {
		from, to := map[*lab.Host]bool{}, map[*lab.Host]bool{}
		for _, p := range pairs {
			from[p[0]], to[p[1]] = true, true
			require.NotSame(t, p[0], p[1])
		}
		require.Len(t, to, 1)
		require.Len(t, from, len(pairs))
		if len(pairs) == 12 {
			whole++
		}
	}
	require.GreaterOrEqual(t, whole, len(posts)-2, "except the last two")
	require.Greater(t, whole, 100)
}

// Packets experience congestion at an uplink of a leaf, at a spine or at a last hop.
func TestUplinks(t *testing.T) {
	run := func(top, pairs string) Result {
		s := read(t, `{"variants": ["cnp"], "duration": "300us", `+top+`,
			"traffic": [{"kind": "pairs", "pairs": `+pairs+`}]}`)
		results := wiretest.Must(s.Run(t.Context(), func(float64) {}))(t)
		require.NotZero(t, results[0].Counts.Congested)
		return results[0]
	}
	const top = `"topology": {"kind": "leaf-spine", "leaves": 3, "spines": 1, "hosts": 2}`
	up := run(top, `[[0, 2], [1, 4]]`) // both leave leaf 0
	require.Equal(t, []uint64{up.Counts.Congested, 0, 0}, up.Uplinks)
	require.Zero(t, up.AtHosts)
	down := run(top, `[[0, 4], [2, 5]]`) // both come to leaf 2
	require.Equal(t, []uint64{0, 0, 0}, down.Uplinks)
	require.Zero(t, down.AtHosts)
	last := run(top, `[[0, 1], [2, 1]]`)
	require.Equal(t, []uint64{0, 0, 0}, last.Uplinks)
	require.Equal(t, last.Counts.Congested, last.AtHosts)
	require.Nil(t, run(`"topology": {"kind": "star", "hosts": 3}`, `[[0, 2], [1, 2]]`).Uplinks)
}

// In a ring each host sends 2(n−1) pieces: alone in the network, one after the other.
func TestRing(t *testing.T) {
	s := read(t, `{"variants": ["none"], "duration": "2ms", "topology": {"kind": "star", "hosts": 4},
		"traffic": [{"kind": "ring", "size": "400KB"}]}`)
	results := wiretest.Must(s.Run(t.Context(), func(float64) {}))(t)
	require.Equal(t, 4*6, results[0].Finished)
	require.Zero(t, results[0].Unfinished)
	n := wiretest.Must(s.Topology.buildNetwork(s.config(lab.None, 1)))(t)
	piece := n.Alone(n.Hosts()[0], n.Hosts()[1], 100_000)
	require.InEpsilon(t, float64(6*piece), float64(results[0].Last), 0.01)
}

// The neighbours in a ring, and the number of pieces: of neighbours, in random order, and one for each host of a leaf.
func TestRingOrders(t *testing.T) {
	for _, c := range []struct {
		keys  string
		steps int // of each of the eight hosts
	}{
		{``, 2 * 7}, {`, "steps": 3`, 3}, {`, "order": "scattered"`, 2 * 7}, {`, "order": "rails"`, 2 * 3},
		{`, "order": "rails", "steps": 5`, 5},
	} {
		t.Run(c.keys, func(t *testing.T) {
			s := read(t, `{"variants": ["none"], "duration": "2ms",
			"topology": {"kind": "leaf-spine", "leaves": 4, "hosts": 2, "spines": 2},
			"traffic": [{"kind": "ring", "size": "80KB"`+c.keys+`}]}`)
			r := wiretest.Must(s.prepareRun(lab.None, 1))(t)
			r.runThrough(t.Context(), s, func(float64) {})
			require.Equal(t, 8*c.steps, r.result.Finished)
			require.Zero(t, r.result.Unfinished)

			to := map[*lab.Host]*lab.Host{}
			for i, f := range r.net.Flows() {
				to[f.Source()] = f.Destination()
				if strings.Contains(c.keys, "rails") { // the same place at the next leaf
					require.Same(t, r.net.Hosts()[(i+2)%8], f.Destination())
				}
			}
			rings := map[*lab.Host]int{} // number of hosts until a host comes again
			for _, h := range r.net.Hosts() {
				n := 1
				for at := to[h]; at != h; at = to[at] {
					n++
				}
				rings[h] = n
			}
			long := 8
			if strings.Contains(c.keys, "rails") {
				long = 4
			}
			for _, n := range rings {
				require.Equal(t, long, n)
			}
		})
	}
	scattered := func(seed uint64) (to []int) {
		t := Traffic{Kind: "ring", Order: "scattered"}
		top := Topology{Kind: "star", Hosts: 32, Rate: 100e9}
		n, _ := top.buildNetwork(lab.Config{Seed: seed})
		return t.ringOrder(n, 0, &top)
	}
	require.Equal(t, scattered(1), scattered(1))
	require.NotEqual(t, scattered(1), scattered(2))
}

// In a circle of five switches, in which each host sends to the host two switches on, PFC alone locks all up: each
// switch waits for the next. A watchdog ends that, for a time, at the price of packets.
func TestCircle(t *testing.T) {
	text := `{"variants": ["none"], "duration": "4ms", "warmup": "2ms",
		"topology": {"kind": "circle", "switches": 5, "hosts": 2, "rate": "40G"},
		"switch": {"buffer": "2MB", "alpha": 0.125, "pfc": true%s},
		"traffic": [{"kind": "pairs", "jitter": "1us", "pairs": [[0, 5], [2, 7], [4, 9], [6, 1], [8, 3]]}]}`
	run := func(more string) *Result {
		s := read(t, fmt.Sprintf(text, more))
		results := wiretest.Must(s.Run(t.Context(), func(float64) {}))(t)
		return &results[0]
	}
	locked := run("")
	require.Zero(t, locked.Goodput)
	require.Zero(t, locked.Counts.Lost)
	require.Less(t, locked.Busiest, 0.001, "pauses alone")
	freed := run(`, "watchdog": "300us"`)
	require.Greater(t, freed.Goodput, 1.)
	require.NotZero(t, freed.Counts.Lost)
	require.NotZero(t, freed.Counts.Storms)
}

// Flows of across may be several, and post again and again.
func TestEvery(t *testing.T) {
	s := read(t, `{"variants": ["none"], "duration": "1ms", "topology": {"kind": "line", "switches": 2, "hosts": 2},
		"traffic": [{"kind": "across", "flows": 3, "size": "1KB", "every": "100us", "at": "50us"}]}`)
	r := wiretest.Must(s.prepareRun(lab.None, 1))(t)
	r.runThrough(t.Context(), s, func(float64) {})
	require.Len(t, r.net.Flows(), 2*3)
	require.Equal(t, 2*3*10, r.result.Finished)
	for _, f := range r.net.Flows() {
		require.EqualValues(t, 10_000, f.Octets())
	}
}

// From the first site of a fork both others are reached over one link between routers, the near one sooner.
func TestFork(t *testing.T) {
	s := read(t, `{"variants": ["fcn"], "duration": "20ms", "warmup": "10ms",
		"topology": {"kind": "fork", "hosts": 2, "rate": "10G", "trunk": "100G", "slow_rate": "10G", "distance": "1ms"},
		"traffic": [{"kind": "pairs", "pairs": [[0, 2], [1, 4]]}]}`)
	r := wiretest.Must(s.prepareRun(lab.FCN, 1))(t)
	h := r.net.Hosts()
	require.Len(t, h, 6)
	far, near := r.net.Alone(h[0], h[2], 1000), r.net.Alone(h[1], h[4], 1000)
	require.InEpsilon(t, float64(2*(sim.Millisecond-sim.Microsecond)), float64(far-near), 0.001)
	r.runThrough(t.Context(), s, func(float64) {})
	require.NoError(t, r.result.Err)
	require.Equal(t, "router 0 to router 1", r.result.Port)
	require.NotZero(t, r.result.Counts.FCNs)
	require.NotZero(t, r.result.Counts.CNPs)
}

// In a tree the data goes to the root and back in pieces. With three hosts the link of the root carries each piece
// of both children, one after the other, and the way back is as long; it begins when the first piece of both is
// there.
func TestTree(t *testing.T) {
	for _, c := range []struct {
		hosts int
		last  float64
	}{{2, 2 + 1}, {3, 2*3 + 2}, {4, 0}} {
		t.Run(fmt.Sprint(c.hosts), func(t *testing.T) {
			s := read(t, fmt.Sprintf(`{"variants": ["none"], "duration": "4ms",
			"topology": {"kind": "star", "hosts": %d},
			"traffic": [{"kind": "tree", "size": "%dMB"}]}`, c.hosts, c.hosts))
			results := wiretest.Must(s.Run(t.Context(), func(float64) {}))(t)
			require.Equal(t, 2*(c.hosts-1)*c.hosts, results[0].Finished, "pieces to the root and back")
			require.Zero(t, results[0].Unfinished)
			require.EqualValues(t, 2*(c.hosts-1)*c.hosts*977, results[0].Counts.Delivered, "of 977 packets each")
			if c.last > 0 {
				piece := (100 * sim.Gbps).Time(977*(82+20) + 1_000_000)
				require.InEpsilon(t, c.last*float64(piece), float64(results[0].Last), 0.05)
				require.Greater(t, float64(results[0].Last), c.last*float64(piece))
			}
		})
	}
}

// An interrupt ends the runs. The results so far are printed, with a note that they are incomplete.
func TestInterrupt(t *testing.T) {
	s := read(t, `{"name": "long", "duration": "1h", "variants": ["none"], "seeds": [1, 2, 3, 4],
		"topology": {"kind": "star", "hosts": 3}, "traffic": [{"kind": "incast", "senders": 2, "size": "64MB"}]}`)
	ctx, end := context.WithCancel(t.Context())
	results := wiretest.Must(s.Run(ctx, func(float64) { end() }))(t)
	require.NotEmpty(t, results)
	require.Less(t, len(results), 4)
	var out bytes.Buffer
	require.NoError(t, s.Print(&out, results))
	require.Regexp(t, `(?m)^interrupted: none, seed 1, ended after .+µs of 3.6e\+09µs$`, out.String())
	require.Contains(t, out.String(), "runs did not begin\n")
	require.Contains(t, out.String(), "messages unfinished")
}

func TestPrint(t *testing.T) {
	s := read(t, `{"name": "an incast", "duration": "1ms", "seeds": [1, 2, 3],
		"topology": {"kind": "star", "hosts": 9}, "traffic": [{"kind": "incast", "senders": 8, "jitter": "1us"}]}`)
	results := wiretest.Must(s.Run(t.Context(), func(float64) {}))(t)
	require.Len(t, results, 9)
	var out bytes.Buffer
	require.NoError(t, s.Print(&out, results))
	require.Regexp(t, `(?m)^an incast$`, out.String())
	require.Contains(t, out.String(), s.ofVariant(lab.FastCNP)+"\n")
	require.Contains(t, out.String(), Wrapped(s.common())+"\n")
	require.Regexp(t, `(?m)^peak of the deepest queue +KB( +\d+ \(\d+…\d+\)){3}$`, out.String())
	require.NotContains(t, out.String(), "packets lost", "nothing but 0 is no row")
	require.Contains(t, s.Line(lab.CNP), "cnp: reaction paper, no gate at the sender, receiver answers at once")
	s.Reaction.Kind = "connectx"
	require.Contains(t, s.Line(lab.FastCNP), "gate of 4µs at the sender, receiver silent")
	require.Contains(t, s.Line(lab.CNPPolled), "receiver polls")
}

// A message of over 4 GiB is one that has not finished; an endless one is not.
func TestUnfinished(t *testing.T) {
	s := read(t, `{"variants": ["none"], "duration": "100us", "topology": {"kind": "star", "hosts": 4},
		"traffic": [{"kind": "incast", "senders": 2, "size": "5GB"}, {"kind": "incast", "senders": 3}]}`)
	results := wiretest.Must(s.Run(t.Context(), func(float64) {}))(t)
	require.Equal(t, 2, results[0].Unfinished)

	s.Traffic[0].Every = Time(sim.Microsecond) // 101 messages of each, of more octets than an endless one has
	s.Traffic[0].Size = 1e12
	results = wiretest.Must(s.Run(t.Context(), func(float64) {}))(t)
	require.Equal(t, 2*101, results[0].Unfinished)
}

// The first cut of queue pairs that carry message after message does not depend on the length of the run, and each is
// counted from a decision about its own packet.
func TestFirstCut(t *testing.T) {
	wiretest.Alone(t)
	for _, v := range []string{"oracle", "fastcnp"} {
		var first []sim.Time
		for _, d := range []string{"300us", "2ms"} {
			s := read(t, `{"variants": ["`+v+`"], "duration": "`+d+`",
				"topology": {"kind": "leaf-spine", "hosts": 4, "leaves": 4, "spines": 2},
				"traffic": [{"kind": "poisson", "sizes": "AliStorage2019", "load": 0.7}]}`)
			results := wiretest.Must(s.Run(t.Context(), func(float64) {}))(t)
			r := &results[0]
			first = append(first, r.FirstCut)
			require.NotEmpty(t, r.Cuts)
			if v == "oracle" {
				require.Zero(t, r.FirstCut)
				require.Zero(t, medianTime(r.Cuts))
				continue
			}
			require.GreaterOrEqual(t, r.FirstCut, 2*sim.Microsecond, "of switch and sender")
			require.Less(t, medianTime(r.Cuts), 20*sim.Microsecond)
		}
		require.Equal(t, first[0], first[1])
	}
}

// Errors of the file as a whole.
func TestWrongFiles(t *testing.T) {
	const right = `{"duration": "1ms", "topology": {"kind": "star", "hosts": 9},
		"traffic": [{"kind": "incast", "senders": 8, "size": "1.001KB"}]}`
	s := read(t, right+"\n")
	require.EqualValues(t, 1001, s.Traffic[0].Size)
	for _, c := range []struct{ name, want string }{
		{"", "not JSON: EOF"}, {"null", "the scenario: null: want a value"},
		{"[]", "the scenario: a list: want an object"},
		{right + "]garbage", "there is more after the scenario"}, {right + "}", "there is more after the scenario"},
		{right + " x", "there is more after the scenario, in line 2"},
		{"{\n\"duration\": \"1ms\",\n\"seeds\": [1,,2]}", "not JSON: invalid character ',' looking for beginning of " +
			"value, in line 3"},
		{"{\n\"duration\": \"1ms\",\n\n", "not JSON: unexpected EOF, in line 2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Read([]byte(c.name))
			require.ErrorContains(t, err, c.want)
		})
	}
}

// A scenario can run with some of its variants, although the others have keys of their own.
func TestKeepVariants(t *testing.T) {
	const ring = `{"duration": "1ms", "topology": {"kind": "star", "hosts": 9}, "variants": ["cnp", "fastcnp", "ppfc"],
		"switch": {"ppfc": {"hold": "150KB"}}, "traffic": [{"kind": "incast", "senders": 8}]}`
	s := read(t, ring)
	require.NoError(t, s.KeepVariants(""))
	require.Len(t, s.Variants, 3)
	require.NoError(t, s.KeepVariants("fastcnp,cnp"))
	require.Equal(t, []lab.Variant{lab.FastCNP, lab.CNP}, s.Variants)
	require.EqualError(t, s.KeepVariants("ppfc"), `"ppfc": want some of fastcnp,cnp`)
	require.EqualError(t, s.KeepVariants("cnp,cnp"), `"cnp": given twice`)
	require.Len(t, s.Variants, 2)
}

// The results of a run do not keep its network in memory.
func TestMemory(t *testing.T) {
	wiretest.Alone(t)
	s := read(t, `{"variants": ["none"], "seeds": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18],
		"duration": "1us", "topology": {"kind": "star", "hosts": 64},
		"traffic": [{"kind": "all-to-all", "size": "1KB"}]}`)
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // one run at a time
	before, network, after := heap(), uint64(0), uint64(0)
	_, err := s.Run(t.Context(), func(share float64) {
		if network == 0 {
			network = heap() - before // of as many networks as run at a time
		}
		after = heap() - before
	})
	require.NoError(t, err)
	require.Less(t, after, network*3, "%d octets at first, %d at the end", network, after)
}

// The line has the settings that differ from the defaults, and nothing that has no effect.
func TestLine(t *testing.T) {
	const network = `"duration": "1ms", "topology": {"kind": "star", "hosts": 9},
		"traffic": [{"kind": "incast", "senders": 8}]`
	s := read(t, `{"variants": ["cnp", "none"], "reaction": {"min": "50K", "additive": "10M", "hyper": "1500M",
			"timer": "300us", "alpha_timer": "2us"},
		"switch": {"buffer": "1MB", "alpha": 0.5, "pfc": true}, 
		"host": {"join": "2us", "window": "20KB", "cold": true},`+network+`}`)
	line := s.Line(lab.CNP)
	for _, part := range []string{
		"reaction paper, R_AI 10M, no less than 50K, R_HAI 1500M, timer 300µs, α each 2µs, no gate",
		"buffer 1000000 octets, alpha 0.5, headroom 100000",
		"reports within 2µs are one", "RED from", "; a window of 20000 octets", "; hosts learn queue pairs",
	} {
		require.Contains(t, line, part)
	}
	const wan = `"duration": "1ms", "topology": {"kind": "wan", "hosts": 9}, "traffic": [{"kind": "across"}]`
	s = read(t, `{"variants": ["fcn"], "switch": {"labels": 2, "label_idle": "5ms", "edge_delay": "2us"},`+wan+`}`)
	require.Contains(t, s.Line(lab.FCN),
		"ingress PE takes 2µs, has labels for 2 flows, takes one back after 5000µs without a packet, other switches")
	s = read(t, `{"variants": ["ppfc"], "switch": {"edge_delay": "50us", "ppfc": {"to": "ingress"}},`+wan+`}`)
	require.Contains(t, s.Line(lab.PPFC), "to the ingress PE, which takes 50µs: hold from")
	s = read(t, `{"variants": ["none"],`+network+`}`)
	for _, part := range []string{"RED", "gate", "50µs", "paper"} {
		require.NotContains(t, s.Line(lab.None), part)
	}
}

// Topology and traffic are printed as they are read.
func TestTexts(t *testing.T) {
	for _, r := range []Rate{1e3, 1e6, 1_500_000, 25e8, 1e11, 1_000_001} {
		var got Rate
		text := wiretest.Must(r.MarshalText())(t)
		require.NoError(t, got.UnmarshalText(text))
		require.Equal(t, r, got)
	}
	for _, d := range []Time{0, 600_000, 1_500_000, Time(sim.Second)} {
		var got Time
		text := wiretest.Must(d.MarshalText())(t)
		require.NoError(t, got.UnmarshalText(text))
		require.Equal(t, d, got)
	}
}

// Two flows from the first switch of a row, and one from the second: each flow goes to its destination, and its octets
// are counted by traffic. Congestion is at the link after the second switch, or, if that is not slow, at the common
// receiver.
func TestPairs(t *testing.T) {
	const text = `{"variants": ["fastcnp"], "duration": "2ms", "warmup": "1ms",
		"topology": {"kind": "line", "hosts": 2, "switches": 3, "between": 1, "trunk": "400G"%s},
		"traffic": [{"kind": "pairs", "pairs": [[0, 3], [1, 3]], "rate": "20G"},
			{"kind": "pairs", "pairs": [[2, 3]], "rate": "30G", "at": "1us"}]}`
	run := func(more string) (*Scenario, Result) {
		s := read(t, fmt.Sprintf(text, more))
		results := wiretest.Must(s.Run(t.Context(), func(float64) {}))(t)
		require.Len(t, results, 1)
		return s, results[0]
	}
	_, r := run("")
	const share = 1024. / 1126 // of the line that is data
	require.Len(t, r.Goodputs, 2)
	require.InDelta(t, 40*share, r.Goodputs[0], 0.1)
	require.InDelta(t, 30*share, r.Goodputs[1], 0.1)
	require.InDelta(t, r.Goodput, r.Goodputs[0]+r.Goodputs[1], 1e-9)
	require.Zero(t, r.AtHosts)

	s, r := run(`, "slow_hop": 2, "slow_rate": "40G"`)
	require.Equal(t, "switch 1 to switch 2", r.Port)
	require.NotZero(t, r.Counts.Congested)
	require.Zero(t, r.AtHosts)
	var out strings.Builder
	require.NoError(t, s.Print(&out, []Result{r}))
	require.Regexp(t, `(?m)^goodput, traffic\[1\] +Gbit/s +\d`, out.String())
	require.NotContains(t, out.String(), "traffic[2]")

	s = read(t, `{"variants": ["cnp"], "duration": "1ms", "topology": {"kind": "star", "hosts": 4},
		"traffic": [{"kind": "incast", "senders": 3, "jitter": "1us"}]}`)
	results := wiretest.Must(s.Run(t.Context(), func(float64) {}))(t)
	require.NotZero(t, results[0].Counts.Congested)
	require.Equal(t, results[0].Counts.Congested, results[0].AtHosts)
}

// The report has the goodput of each traffic, also of the fifth and of random ones. Their sum is that of all flows.
func TestGoodputs(t *testing.T) {
	s := read(t, `{"variants": ["none"], "duration": "2ms", "warmup": "1ms", "topology": {"kind": "star", "hosts": 9},
		"traffic": [{"kind": "poisson", "sizes": "AliStorage2019", "load": 0.2},
			{"kind": "pairs", "pairs": [[0, 1], [2, 3]], "rate": "10G"},
			{"kind": "bursts", "senders": 2, "size": "64KB", "load": 0.1},
			{"kind": "pairs", "pairs": [[4, 5]], "rate": "10G"}, {"kind": "pairs", "pairs": [[6, 7]], "rate": "30G"}]}`)
	results := wiretest.Must(s.Run(t.Context(), func(float64) {}))(t)
	r := &results[0]
	require.Len(t, r.Goodputs, 5)
	sum := 0.
	for _, goodput := range r.Goodputs {
		sum += goodput
	}
	require.InEpsilon(t, r.Goodput, sum, 1e-9)
	require.InEpsilon(t, 0.2*900, r.Goodputs[0], 0.2)
	require.InEpsilon(t, 0.1*900, r.Goodputs[2], 0.3)
	require.InEpsilon(t, 30*1024./1126, r.Goodputs[4], 0.05)
	var out strings.Builder
	require.NoError(t, s.Print(&out, results))
	for i := range s.Traffic {
		require.Contains(t, out.String(), fmt.Sprintf("goodput, traffic[%d]", i))
	}
}

// A run in intervals is the same run: its deepest queue, its use and its notifications are those of the whole.
func TestSeries(t *testing.T) {
	s := read(t, `{"variants": ["cnp"], "duration": "1ms", "topology": {"kind": "star", "hosts": 9},
		"traffic": [{"kind": "incast", "senders": 8, "jitter": "1us"}]}`)
	results := wiretest.Must(s.Run(t.Context(), func(float64) {}))(t)
	whole := &results[0]
	series, err := s.Series(t.Context(), lab.CNP, 1, 50*sim.Microsecond)
	require.NoError(t, err)
	require.Len(t, series.Queue, 20)
	require.Len(t, series.Rate, 20)
	require.Equal(t, whole.Port, series.Port)
	require.Equal(t, whole.Peak, slices.Max(series.Queue))
	use, notified := 0., uint64(0)
	for i := range series.Use {
		use += series.Use[i] / 20
		notified += series.Notice[i]
	}
	require.InDelta(t, whole.Use, use, 1e-3)
	require.Equal(t, whole.Counts.Notified, notified)
	require.Less(t, series.Rate[19], series.Rate[0], "flows are cut")

	ctx, end := context.WithCancel(t.Context())
	end()
	_, err = s.Series(ctx, lab.CNP, 1, sim.Microsecond)
	require.ErrorIs(t, err, context.Canceled)
}

// Three of eight senders do not understand Fast CNPs: only their packets are marked, and receivers answer. A switch
// that does not know the capabilities marks all packets, and the three ignore Fast CNPs.
func TestIncapable(t *testing.T) {
	const text = `{"variants": ["fastcnp", "fastcnp-marks"], "duration": "1ms", "host": {"incapable": %d},
		"topology": {"kind": "star", "hosts": 9}, "traffic": [{"kind": "incast", "senders": 8, "jitter": "1us"}]}`
	run := func(old int) (known, unknown lab.Counts) {
		results := wiretest.Must(read(t, fmt.Sprintf(text, old)).Run(t.Context(), func(float64) {}))(t)
		return results[0].Counts, results[1].Counts
	}
	known, unknown := run(3)
	require.NotZero(t, known.FastCNPs)
	require.NotZero(t, known.CNPs)
	require.NotZero(t, known.Marked)
	require.Less(t, known.Marked, known.Congested)
	require.InDelta(t, known.FastCNPs+known.CNPs, known.Notified, 12, "all but those that are under way")
	require.Equal(t, unknown.Congested, unknown.Marked)
	require.Less(t, unknown.Notified, unknown.FastCNPs+unknown.CNPs-3, "some are not understood")

	// Notifications that a host does not understand are not joined with those that it understands.
	s := read(t, fmt.Sprintf(strings.Replace(text, `"incapable"`, `"join": "40us", "incapable"`, 1), 8))
	results := wiretest.Must(s.Run(t.Context(), func(float64) {}))(t)
	require.NotZero(t, results[1].Counts.FastCNPs)
	require.Zero(t, results[1].Counts.Again)
	require.Equal(t, results[0].Counts.Notified, results[1].Counts.Notified)

	known, _ = run(8)
	require.Zero(t, known.FastCNPs)
	require.Equal(t, known.Congested, known.Marked)
	known, _ = run(0)
	require.Zero(t, known.Marked+known.CNPs)

	rejecting := read(t, strings.Replace(fmt.Sprintf(text, 3), `"incapable": 3`, `"incapable": 3, "rejects": true`, 1))
	results = wiretest.Must(rejecting.Run(t.Context(), func(float64) {}))(t)
	require.EqualValues(t, 2*3, results[1].Counts.Rejected, "the switch has learned from two rejections of each host")
	require.Greater(t, unknown.Ignored, uint64(2*3))
	require.Contains(t, rejecting.Line(lab.FastCNPMarks), "; they reject Fast CNPs by ICMPv6")
}

// 128 hosts of 100 Gbit/s at half load for 10 ms, of leaf and spine: an op is a run.
func BenchmarkLeafSpine(b *testing.B) {
	text, err := os.ReadFile("../docs/scenarios/leaf-spine.json")
	if err != nil {
		b.Fatal(err)
	}
	s, err := Read(text)
	if err != nil {
		b.Fatal(err)
	}
	events, hops := uint64(0), uint64(0)
	b.ReportAllocs()
	began := wiretest.CPUTime()
	for b.Loop() {
		r, err := s.prepareRun(lab.FastCNP, 1)
		if err != nil {
			b.Fatal(err)
		}
		r.runThrough(b.Context(), s, func(float64) {})
		if r.result.Err != nil {
			b.Fatal(r.result.Err)
		}
		events += r.result.Events
		hops += r.result.Counts.Hops
	}
	took := (wiretest.CPUTime() - began).Seconds()
	b.ReportMetric(float64(events)/took/1e6, "Mevents/s")
	b.ReportMetric(float64(hops)/took/1e6, "Mhops/s")
	b.ReportMetric(took/float64(b.N), "s/op")
}

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
		if top.hostCount() > 64 || top.Switches > 16 || top.hasLeaves() && (top.Leaves > 16 || top.Spines > 16) ||
			len(s.Traffic) > 4 {
			return
		}
		s.Duration, s.Warmup = min(s.Duration, Time(50*sim.Microsecond)), min(s.Warmup, Time(sim.Microsecond))
		for _, v := range s.Variants {
			r, err := s.prepareRun(v, s.Seeds[0])
			if err != nil {
				continue
			}
			ctx, end := context.WithCancel(context.Background())
			r.runThrough(ctx, s, func(float64) { end() }) // 100,000 events before and after the end of the warmup
			end()
			if r.result.Err != nil {
				t.Fatalf("%v: %v", v, r.result.Err)
			}
		}
	})
}

// Swift by name keeps the round trip of an incast at its target: 25 µs, of which 4.197 are the idle round trip. The
// rest waits at the port, in frames of 1,106 octets that take 90.08 ns each.
func TestSwiftByName(t *testing.T) {
	s, err := Read([]byte(`{"duration": "20ms", "warmup": "10ms",
		"topology": {"kind": "star", "hosts": 5, "delay": "1us"}, "switch": {"pipeline": "0s"},
		"reaction": {"kind": "swift", "target": "25us"},
		"traffic": [{"kind": "incast", "senders": 4, "jitter": "1us"}]}`))
	require.NoError(t, err)
	require.Equal(t, []lab.Variant{lab.None}, s.Variants, "the default")
	require.Equal(t, 1, s.Host.AckEvery)
	results := wiretest.Must(s.Run(t.Context(), func(float64) {}))(t)
	require.Len(t, results, 1)
	require.InEpsilon(t, (25-4.197)/0.09008*1106, results[0].Queue.Mean(), 0.02)
	require.Contains(t, s.Line(lab.None), "none: no notifications, reaction swift, target 25µs;")
}

// A list has the flows of an import: each message alone takes its idle time, and is in the results.
func TestList(t *testing.T) {
	s := read(t, `{"duration": "1ms", "topology": {"kind": "star", "hosts": 4}, "variants": ["none"], "traffic": [
		{"kind": "list", "messages": [
			{"from": 0, "to": 3, "size": "64KB"}, {"from": 2, "to": 1, "size": "1", "at": "500us"}
		]}
	]}`)
	s.KeepMessages = true
	results := wiretest.Must(s.Run(t.Context(), func(float64) {}))(t)
	want := []MessageResult{
		{From: 0, To: 3, Octets: 64_000}, {From: 2, To: 1, Octets: 1, Posted: 500 * sim.Microsecond},
	}
	require.Len(t, results[0].Messages, 2)
	for i, m := range results[0].Messages {
		require.Equal(t, m.Alone, m.Took)
		m.Alone, m.Took = 0, 0
		require.Equal(t, want[i], m)
	}
	require.Equal(t, 2, results[0].Finished)
}

// Points replace a published distribution; here half of the messages have 1,000 to 2,000 octets, and the others up to
// 10,000: 3,750 on average.
func TestPoints(t *testing.T) {
	d := distribution{{1000, 0}, {2000, 50}, {10_000, 100}}
	require.True(t, d.isValid())
	require.EqualValues(t, 3750, d.meanOctets())
	require.EqualValues(t, 1500, d.drawOctets(0.25))
	s := read(t, `{"duration": "2ms", "topology": {"kind": "star", "hosts": 9}, "variants": ["none"],
		"traffic": [{"kind": "poisson", "load": 0.2, "points": [[1000, 0], [2000, 50], [10000, 100]]}]}`)
	s.KeepMessages = true
	results := wiretest.Must(s.Run(t.Context(), func(float64) {}))(t)
	sum, n := 0., 0.
	for _, m := range results[0].Messages {
		require.GreaterOrEqual(t, m.Octets, int64(1000))
		require.LessOrEqual(t, m.Octets, int64(10_000))
		sum, n = sum+float64(m.Octets), n+1
	}
	require.InEpsilon(t, 3750, sum/n, 0.05)
	require.InEpsilon(t, 0.2*9*100e9/8*2e-3/3750, n, 0.05)
}

// A persistent queue pair begins a message at the rate of the message before it, and a new one at that of its port: an
// incast that is repeated before the rates have risen again then needs fewer notifications.
func TestPersistent(t *testing.T) {
	notified := func(persistent string) uint64 {
		s := read(t, `{"duration": "8ms", "topology": {"kind": "star", "hosts": 9}, "variants": ["cnp"], "traffic": [
			{"kind": "bursts", "senders": 8, "size": "500KB", "load": 0.08, "persistent": `+persistent+`}]}`)
		results := wiretest.Must(s.Run(t.Context(), func(float64) {}))(t)
		require.Greater(t, results[0].Finished, 40)
		return results[0].Counts.Congested
	}
	require.Less(t, float64(notified("true")), 0.8*float64(notified("false")))
}
