package scenario

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/rocecn/rocecn/lab"
	"github.com/rocecn/rocecn/lab/sim"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write testdata/prints.txt anew")

// read reads a scenario that is right.
func read(t *testing.T, text string) *Scenario {
	s, err := Read([]byte(text))
	require.NoError(t, err)
	return s
}

// The runs of these scenarios stay what they are: any change of an arrival at any
// node shows.
func TestPrints(t *testing.T) {
	const file = "testdata/prints.txt"
	text, err := os.ReadFile("testdata/printed.json")
	require.NoError(t, err)
	var printed []json.RawMessage
	require.NoError(t, json.Unmarshal(text, &printed))
	require.Len(t, printed, 27)
	var all bytes.Buffer
	for _, p := range printed {
		s := read(t, string(p))
		results, err := s.Run(t.Context(), func(float64) {})
		require.NoError(t, err, s.Name)
		for _, r := range results {
			fmt.Fprintf(&all, "%s, %v: %016x, %d events, %d packets, %d lost, %d cuts, %d pauses, %d finished\n",
				s.Name, r.Variant, r.Print, r.Events,
				r.Counts.Packets, r.Counts.Lost, r.Counts.Notified, r.Counts.Pauses, r.Finished)
		}
	}
	if *update {
		require.NoError(t, os.WriteFile(file, all.Bytes(), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), all.String(), "if this is meant: go test ./lab/scenario -run TestPrints -update")
}

// Whatever is wrong, the error names the key.
func TestWrongKeys(t *testing.T) {
	const (
		star    = `"topology": {"kind": "star", "hosts": 9}`
		incast  = `"traffic": [{"kind": "incast", "senders": 8}]`
		seconds = `"duration": "1ms"`
	)
	for _, c := range []struct{ json, text string }{
		{seconds + `,` + star + `,` + incast, ``},
		{star + `,` + incast, "duration: above 0 needed"},
		{seconds + `,` + incast, "topology.kind: star, line, leaf-spine, fat-tree, wan or two-dc needed"},
		{seconds + `,` + star, "traffic: one at least is needed"},
		{seconds + `,` + star + `,` + incast + `, "speed": 1`,
			"speed: not known; there are name, variants, seeds, duration"},
		{`"duration": "1 ms"`, `duration: "1 ms" is not a duration`},
		{`"duration": 5`, "duration: a text in quotes belongs here"},
		{`"topology": []`, "topology: an object belongs here"},
		{`"topology": {"rate": "100 G"}`, `topology.rate: "100 " is not a quantity`},
		{`"topology": {"rate": "1K"}`, "topology.rate: 1K: from 1M to 100T needed"},
		{`"topology": {"hosts": "9"}`, "topology.hosts: a string stands where a int belongs"},
		{`"topology": {"hosts": 1e30}`, "topology.hosts: "},
		{seconds + `,"topology": {"kind": "star", "hosts": 100000},` + incast, "topology.hosts: 4096 in all at most"},
		{seconds + `,"topology": {"kind": "line", "hosts": 2},` + incast, "topology.switches: from 1 to 1024 needed"},
		{seconds + `,"topology": {"kind": "line", "hosts": 2, "switches": 3, "slow_hop": 3},` + incast,
			"topology.slow_hop: "},
		{seconds + `,"topology": {"kind": "line", "hosts": 2, "switches": 3, "slow_hop": 1},` + incast,
			"topology.slow_rate: "},
		{`"variants": ["cnp", "cnps"]`, `variants[1]: "cnps" is not one of `},
		{`"variants": []`, "variants: one at least"},
		{`"variants": ["hpcc"],` + seconds + `,` + star + `,` + incast,
			"reaction.rtt: needed with the variants of hpcc"},
		{`"seeds": [-1]`, "seeds[0]: a number -1 stands where a uint64 belongs"},
		{`"switch": {"decide": "later"}`, `switch.decide: "later" is not one of `},
		{seconds + `,` + star + `,` + incast + `,"switch": {"kmin": "1MB"}`, "switch.kmax: kmin at least"},
		{seconds + `,` + star + `,` + incast + `,"switch": {"pfc": true}`, "switch.buffer: needed with pfc"},
		{seconds + `,` + star + `,` + incast + `,"reaction": {"kind": "timely"}`,
			"reaction.kind: paper, connectx or none needed"},
		{seconds + `,` + star + `,` + incast + `,"host": {"payload": 1500}`, ``},
		{seconds + `,` + star + `,` + incast + `,"host": {"payload": 1501}`, "host.payload: a multiple of 4"},
		{seconds + `,` + star + `,"traffic": [{"kind": "incast", "senders": 8}, {"kind": "incast", "senders": 9}]`,
			"traffic[1].senders: from 1 to one less"},
		{seconds + `,` + star + `,"traffic": [{"kind": "poisson", "load": 0.5, "sizes": "Web"}]`,
			"traffic[0].sizes: WebSearch"},
		{seconds + `,` + star + `,"traffic": [{"kind": "poisson", "load": 1, "sizes": "WebSearch"}]`,
			"traffic[0].load: above 0 and below 1"},
		{seconds + `,` + star + `,"traffic": [{"kind": "ring"}]`, "traffic[0].size: above 0 needed"},
		{seconds + `,"topology": {"kind": "fat-tree", "k": 5},` + incast, "topology.k: an even number from 2 to 16"},
		{seconds + `,"topology": {"kind": "leaf-spine", "hosts": 2, "leaves": 200, "spines": 100},` + incast,
			"topology.spines: 16384 links"},
		{seconds + `,"topology": {"kind": "two-dc", "hosts": 2, "leaves": 2},` + incast, "topology.spines: from 1"},
		{seconds + `,"topology": {"kind": "wan", "hosts": 2, "position": 1.5},` + incast, "topology.position: from 0"},
		{seconds + `,` + star + `,` + incast + `,"switch": {"ppfc": {"hold": "10KB"}}`, "switch.ppfc: resume below"},
		{seconds + `,` + star + `,` + incast + `,"switch": {"ppfc": {"hold": "400KB"}}`, "switch.ppfc: resume below"},
		{seconds + `,` + star + `,` + incast + `,"switch": {"ppfc": {"pause": "66ms"}}`, "switch.ppfc.pause: 65535µs"},
		{seconds + `,` + star + `,` + incast + `,"switch": {"ppfc": {"paus": "1ms"}}`, "switch.ppfc.paus: not known"},
		{seconds + `,` + star + `,` + incast + `,"switch": {"trace_hops": 9}`, "switch.trace_hops: from 1 to 8"},
		{seconds + `,` + star + `,` + incast + `,"switch": {"labels": -1}`, "switch.labels: from 0"},
		{seconds + `,` + star + `,` + incast + `,"switch": {"notify_limit": -1}`, "switch.notify_limit: 0 or"},
		{seconds + `,` + star + `,` + incast + `,"host": {"cnp_limit": -1}`, "host.cnp_limit: 0 or"},
		{seconds + `,` + star + `,` + incast + `,"switch": {"notify_loss": 1.1}`, "switch.notify_loss: from 0"},
		{seconds + `,` + star + `,"traffic": [{"kind": "permutation", "rate": "101G"}]`, "traffic[0].rate: no more"},
		{`"warmup": "1ms",` + seconds + `,` + star + `,` + incast, "warmup: shorter than duration needed"},
	} {
		_, err := Read([]byte("{" + c.json + "}"))
		if c.text == "" {
			require.NoError(t, err, c.json)
			continue
		}
		require.ErrorContains(t, err, c.text)
		require.True(t, strings.HasPrefix(err.Error(), c.text), err)
	}
	_, err := Read([]byte(`{"duration": `))
	require.ErrorContains(t, err, "no JSON")
	_, err = Read([]byte(`{} {}`))
	require.ErrorContains(t, err, "behind the scenario")
}

// The largest networks that a scenario may have come up in seconds and in little memory.
func TestLarge(t *testing.T) {
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
	results, err := s.Run(t.Context(), func(float64) {})
	require.NoError(t, err)
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
	for name, mean := range map[string]float64{"WebSearch": 1.71e6, "FB_Hadoop": 120e3, "AliStorage2019": 40.9e3} {
		d := distributions[name]
		require.InEpsilon(t, mean, d.mean(), 0.02, name)
		stream, sum := sim.NewStream(1, "test", 0), 0.
		for range 200_000 {
			sum += float64(d.draw(stream.Float64()))
		}
		require.InEpsilon(t, mean, sum/200_000, 0.03, name)
		require.EqualValues(t, 1, d.draw(0))
		require.EqualValues(t, d[len(d)-1][0], d.draw(1))
	}
}

// Poisson traffic has the load that it was told, and ends all messages once there is no more of it.
func TestLoad(t *testing.T) {
	s := read(t, `{"variants": ["none"], "duration": "10ms", "warmup": "1ms", "topology": {"kind": "star", "hosts": 16},
		"traffic": [{"kind": "poisson", "sizes": "AliStorage2019", "load": 0.3}]}`)
	results, err := s.Run(t.Context(), func(float64) {})
	require.NoError(t, err)
	require.InEpsilon(t, 0.3*16*100, results[0].Goodput, 0.05)
	require.Less(t, results[0].Unfinished, results[0].Finished/50)
	for i := range Bins {
		if h := results[0].Slowdown[i]; h.Count() > 0 {
			require.GreaterOrEqual(t, h.Quantile(0), uint64(99), "nothing is faster than alone")
		}
	}
}

// In a ring each host sends 2(n−1) pieces: alone in the network, one after the other.
func TestRing(t *testing.T) {
	s := read(t, `{"variants": ["none"], "duration": "2ms", "topology": {"kind": "star", "hosts": 4},
		"traffic": [{"kind": "ring", "size": "400KB"}]}`)
	results, err := s.Run(t.Context(), func(float64) {})
	require.NoError(t, err)
	require.Equal(t, 4*6, results[0].Finished)
	require.Zero(t, results[0].Unfinished)
	n := s.Topology.build(s.config(lab.None, 1))
	piece := n.Alone(n.Hosts()[0], n.Hosts()[1], 100_000)
	require.InEpsilon(t, float64(6*piece), float64(results[0].Last), 0.01)
}

// An interrupt ends the runs, and what there is is printed and said to be less.
func TestInterrupt(t *testing.T) {
	s := read(t, `{"name": "long", "duration": "1h", "variants": ["none"], "seeds": [1, 2, 3, 4],
		"topology": {"kind": "star", "hosts": 3}, "traffic": [{"kind": "incast", "senders": 2, "size": "64MB"}]}`)
	ctx, end := context.WithCancel(t.Context())
	results, err := s.Run(ctx, func(float64) { end() })
	require.NoError(t, err)
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
	results, err := s.Run(t.Context(), func(float64) {})
	require.NoError(t, err)
	require.Len(t, results, 9)
	var out bytes.Buffer
	require.NoError(t, s.Print(&out, results))
	require.Regexp(t, `(?m)^an incast$`, out.String())
	require.Contains(t, out.String(), s.ofVariant(lab.FastCNP)+"\n")
	require.Contains(t, out.String(), wrapped(s.common())+"\n")
	require.Regexp(t, `(?m)^peak queue +KB +\d+ \(\d+…\d+\) +\d+ \(\d+…\d+\) +\d+ \(\d+…\d+\)$`, out.String())
	require.NotContains(t, out.String(), "packets lost", "nothing but 0 is no row")
	require.Contains(t, s.Line(lab.CNP), "cnp: reaction paper, no gate at the sender, receiver answers at once")
	s.Reaction.Kind = "connectx"
	require.Contains(t, s.Line(lab.FastCNP), "gate of 4µs at the sender, receiver silent")
	require.Contains(t, s.Line(lab.CNPPolled), "receiver polls")
}
