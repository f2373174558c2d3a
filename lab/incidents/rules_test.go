package incidents

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/flows"
	"github.com/rocecn/rocecn/flows/triage"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/rocev2"
)

// said returns the causes and parties that are found on a wire, without symptoms.
func foundCauses(t *testing.T, w *wire, end time.Duration) (out []string) {
	t.Helper()
	w.until(end)
	in := incident{frames: w.frames}
	verdicts := explain(&in)
	requireEvidence(t, &in, verdicts)
	for _, v := range verdicts {
		if !v.Cause.IsSymptom() {
			out = append(out, v.Cause.String()+" "+blamed(&v))
		}
	}
	return out
}

// blamed returns the party of a verdict, or else its first suspect.
func blamed(v *triage.Verdict) string {
	if v.Party == "" && len(v.Suspects) > 0 {
		return v.Suspects[0]
	}
	return v.Party
}

// each returns true for one in n.
func each(n int) func() bool {
	i := 0
	return func() bool { i++; return i%n == 0 }
}

// Counter-evidence prevents a verdict: each case has the evidence, once alone and once with a contradiction.
func TestCounterEvidence(t *testing.T) {
	for _, c := range []struct {
		name string
		make func(w *wire, against bool)
		want []string
	}{
		{"a CNP about another flow of the two hosts", func(w *wire, against bool) {
			a := w.conn(w.host(false), w.host(false))
			a.mark, a.cnp = each(20), false
			a.start()
			if against {
				b := w.conn(a.src, a.dst)
				b.mark = each(20)
				b.start()
			}
		}, []string{"no CNP 10.9.0.2"}},
		{"answers were not captured", func(w *wire, against bool) {
			a := w.conn(w.host(false), w.host(false))
			a.mark, a.cnp, a.oneWay = each(20), false, against
			a.start()
		}, []string{"no CNP 10.9.0.2"}},
		{"other senders to the receiver were spared", func(w *wire, against bool) {
			to := w.host(false)
			for i := range 6 {
				c := w.conn(w.host(false), to)
				c.line = 4e9
				if i < 3 || !against {
					c.mark = func() bool {
						return w.now%time.Millisecond < 60*time.Microsecond
					} // all in the same moments
				}
				c.start()
			}
		}, []string{"incast 10.9.0.1"}},
		{"marks in other moments", func(w *wire, against bool) {
			to := w.host(false)
			for i := range 4 {
				c := w.conn(w.host(false), to)
				c.line = 4e9
				c.mark = func() bool {
					at := w.now
					if against {
						at += time.Duration(i) * 240 * time.Microsecond
					}
					return at%time.Millisecond < 30*time.Microsecond
				}
				c.start()
			}
		}, []string{"incast 10.9.0.1"}},
		{"a source port has both", func(w *wire, against bool) {
			from, to := w.host(false), w.host(false)
			for i := range 4 {
				c := w.conn(from, to)
				c.port, c.line = uint16(50_000+i), 4e9
				if i < 2 {
					c.mark = each(50)
				} else if against {
					c.port = 50_000
				}
				c.start()
			}
		}, []string{"one path "}},
		{"the usual DSCP loses, too", func(w *wire, against bool) {
			to := w.host(false)
			for i := range 4 {
				c := w.conn(w.host(false), to)
				c.message, c.window, c.ackEvery = 4096, 6, 2
				lose := each(100)
				if i == 0 {
					c.dscp = 0
				}
				if i == 0 || i == 1 && against {
					c.lostAfter = func(int, uint32, bool) bool { return lose() }
				}
				c.start()
			}
		}, []string{"other DSCP 10.9.0.2"}},
		{"nothing near it is marked", func(w *wire, against bool) {
			to := w.host(false)
			a, b := w.conn(w.host(false), to), w.conn(w.host(false), to)
			a.ect = false
			if !against {
				b.mark = each(20)
			}
			a.start()
			b.start()
		}, []string{"not ECN-capable 10.9.0.2"}},
		{"it slows down", func(w *wire, against bool) {
			a := w.conn(w.host(false), w.host(false))
			a.line, a.mark, a.heeds = 2e9, each(5), against
			a.start()
		}, []string{"CNP unheeded 10.9.0.1"}},
		{"pauses that are short and seldom", func(w *wire, against bool) {
			quanta := uint16(65_535)
			if against {
				quanta = 2000 // 10 µs
			}
			for i := range 20 {
				w.after(time.Duration(i)*300*time.Microsecond, func() { w.pause([6]byte{2, 0, 0, 0, 0, 9}, quanta) })
			}
			w.conn(w.host(false), w.host(false)).start()
		}, []string{"pause storm 02:00:00:00:00:09"}},
		{"the receiver gave up waiting, and packets were lost", func(w *wire, against bool) {
			a := w.conn(w.host(false), w.host(false))
			a.line = 1e9
			slow := each(10)
			a.late = func() time.Duration {
				if slow() {
					return 30 * time.Microsecond
				}
				return 0
			}
			a.sorts = !against
			a.window = 4096
			a.start()
		}, []string{"reordering "}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWire(1)
			c.make(w, false)
			require.Equal(t, c.want, foundCauses(t, w, 12*time.Millisecond))
			w = newWire(1)
			c.make(w, true)
			got := foundCauses(t, w, 12*time.Millisecond)
			for _, one := range c.want {
				require.NotContains(t, got, one)
			}
		})
	}
}

// With too little evidence there is no verdict.
func TestNothingToGoBy(t *testing.T) {
	w := newWire(2)
	c := w.conn(w.host(true), w.host(true))
	c.mark, c.cnp = each(5), false
	c.start()
	w.until(span)
	for _, config := range []flows.Config{{}, {Evidence: true, MaxFlows: 2}} {
		table := flows.New(config)
		var d flows.Decoder
		var p flows.Packet
		for i, f := range w.frames {
			d.Decode(&p, f.octets, rocev2.DecodeOptions{})
			table.Observe(&p, uint64(i+1), epoch.Add(f.at))
			if config.MaxFlows > 0 { // scans push flows out
				scan := newWire(uint64(i))
				scan.conn(scan.host(false), scan.host(false)).start()
				scan.until(40 * time.Microsecond)
				d.Decode(&p, scan.frames[0].octets, rocev2.DecodeOptions{})
				table.Observe(&p, uint64(i+1), epoch.Add(f.at))
			}
		}
		require.Empty(t, triage.Explain(table.Snapshot()))
	}
}

// For any frames in any order: no rule panics, and every frame that a verdict names exists.
func FuzzExplain(f *testing.F) {
	var pool [][]byte
	for n := faultless; n < faultless+wiretest.Rounds(40); n++ {
		in := makeIncident(n, false)
		r := rand.New(rand.NewPCG(uint64(n), 1))
		for range 6 {
			pool = append(pool, in.frames[r.IntN(len(in.frames))].octets)
		}
	}
	f.Add([]byte("some frames of many incidents, in any order"))
	f.Fuzz(func(t *testing.T, choice []byte) {
		table := flows.New(flows.Config{Evidence: true, Seed: 1})
		var d flows.Decoder
		var p flows.Packet
		at := epoch
		for i, c := range choice {
			d.Decode(&p, pool[int(c)%len(pool)], rocev2.DecodeOptions{})
			at = at.Add(time.Duration(int(c)-60) * time.Microsecond)
			table.Observe(&p, uint64(i+1), at)
		}
		for _, v := range triage.Explain(table.Snapshot()) {
			require.NotEmpty(t, v.Frames)
			for _, frame := range v.Frames {
				require.Positive(t, frame.Number)
				require.LessOrEqual(t, frame.Number, uint64(len(choice)))
			}
		}
	})
}

var (
	update = flag.Bool("update", false, "write the table in docs/triage.md again")
	dev    = flag.Int("development", 0, "show what is said of so many incidents that the rules were written with")
)

const (
	incidents = 400 // of the laboratory
	faultless = 80  // of these, without a fault
	doubles   = 133 // two faults at the same time
)

// generators make the incidents that rules are judged by. They share no code. A fifth of the incidents of each has no
// fault, and a third has two.
var generators = []struct {
	name  string
	total int
	make  func(t *testing.T, n, total int, seed uint64) incident
}{
	{"laboratory", incidents, func(_ *testing.T, n, _ int, seed uint64) incident {
		return makeIncident(n, seed == judgedSeed)
	}},
	{"simulator of the tests", 240, simulate},
	{"soft-RoCE", 120, editReal},
}

// judgedSeed is that of the incidents that rules are judged by.
const judgedSeed = 0x5EED_1123

// causes are those of the makers, each once.
var causes = func() (all []triage.Cause) {
	for _, m := range makers {
		if !slices.Contains(all, m.cause) {
			all = append(all, m.cause)
		}
	}
	return all
}()

// make makes the n-th incident.
func makeIncident(n int, judged bool) incident {
	seed := uint64(1)
	if judged {
		seed = judgedSeed
	}
	s := &setting{rand.New(rand.NewPCG(seed, uint64(n))), judged}
	w := newWire(s.Uint64())
	in := incident{name: "quiet", truth: truth{}, also: truth{}}
	var chosen []maker
	switch {
	case n < faultless:
	case n < faultless+doubles:
		for len(chosen) < 2 {
			m := makers[s.IntN(len(makers))]
			if len(chosen) == 0 || chosen[0].cause != m.cause && (chosen[0].lab == nil || m.lab == nil) {
				chosen = append(chosen, m)
			}
		}
	default:
		// Each cause as often as others, by whichever maker.
		cause := causes[(n-faultless-doubles)%len(causes)]
		var its []maker
		for _, m := range makers {
			if m.cause == cause {
				its = append(its, m)
			}
		}
		chosen = append(chosen, its[s.IntN(len(its))])
	}
	var names []string
	for _, m := range chosen {
		names = append(names, m.cause.String())
		if m.lab != nil {
			in.frames = m.lab(s, in.truth)
		} else {
			m.wire(s, w, in.truth)
		}
	}
	background(s, w)
	end := span
	for _, m := range chosen {
		switch {
		case m.cause == triage.CauseEndlessPause:
			end = max(end, 8*span)
		case m.cause == triage.CauseMTU:
			end = max(end, 3*span)
		case m.cause == triage.CauseTimedOut, m.cause == triage.CausePathDown:
			end = max(end, 2*span)
		case m.cause == triage.CauseCNPUnheeded && m.wire != nil:
			end = max(end, 3*span)
		}
	}
	w.until(end)
	in.frames = merged(in.frames, w.frames)
	if len(names) > 0 {
		in.name = strings.Join(names, " and ")
	}
	return in
}

var epoch = time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)

// explain returns the verdicts of triage for an incident.
func explain(in *incident) []triage.Verdict {
	table := flows.New(flows.Config{Evidence: true, Seed: 1})
	d := flows.Decoder{NoICRC: in.events == nil}
	var p flows.Packet
	for i, f := range in.frames {
		d.Decode(&p, f.octets, rocev2.DecodeOptions{})
		table.Observe(&p, uint64(i+1), epoch.Add(f.at))
	}
	return slices.Concat(triage.Explain(table.Snapshot()), explainDiscards(in))
}

// explainDiscards returns the verdicts about the packets that switches discarded and reported.
func explainDiscards(in *incident) []triage.Verdict {
	samples := flows.NewSamples(0)
	var d flows.Decoder
	var p flows.Packet
	for _, one := range in.discards {
		d.Decode(&p, one.octets, rocev2.DecodeOptions{})
		queue := flows.EgressQueue{Agent: one.agent, Port: one.port, Queue: one.queue, HasQueue: true}
		sample := flows.Sample{Queue: flows.QueueSample{EgressQueue: queue}}
		samples.ObserveDiscard(&p, sample, "no_buffer_space", epoch.Add(one.at))
	}
	return triage.ExplainDiscards(samples.Snapshot())
}

// A judgement is the comparison of the verdicts with an incident.
type judgement struct {
	found truth // causes without symptoms, and the parties that they name
	right bool
	wrong []string // parties that had nothing to do with it
}

func compareVerdicts(in *incident, verdicts []triage.Verdict) (j judgement) {
	j.found = truth{}
	j.right = true
	for _, v := range verdicts {
		if in.happened(v.Cause) {
			continue
		}
		j.found.add(v.Cause)
		j.found.add(v.Cause, v.Suspects...)
		if _, also := in.also[v.Cause]; !also {
			_, known := in.truth[v.Cause]
			j.right = j.right && known
		}
		if v.Party != "" {
			j.found.add(v.Cause, v.Party)
			if !slices.Contains(in.truth[v.Cause], v.Party) && !slices.Contains(in.also[v.Cause], v.Party) {
				j.wrong = append(j.wrong, fmt.Sprintf("%v: %s", v.Cause, v.Party))
			}
		}
	}
	j.right = j.right && len(j.wrong) == 0
	for c, parties := range in.truth {
		found, ok := j.found[c]
		j.right = j.right && ok
		for _, party := range parties {
			j.right = j.right && slices.Contains(found, party)
		}
	}
	return j
}

// happened reports whether a cause is a symptom of an event that happened, although it is not one of the true causes.
func (in *incident) happened(c triage.Cause) bool {
	if _, ok := in.truth[c]; ok || !c.IsSymptom() {
		return false
	}
	if in.events == nil { // not counted: healthy connections have marks at most
		return len(in.truth) > 0 || c == triage.CauseCongested
	}
	return in.events[c.String()] > 0 || c == triage.CauseRetransmitted && in.events["loss"] > 0
}

// TestDevelopment prints the verdicts for incidents that are not judged, of each generator: -development 60 -v.
func TestDevelopment(t *testing.T) {
	for _, g := range generators {
		right, all := 0, max(*dev, wiretest.Rounds(20))
		for n := range min(all, g.total) {
			in := g.make(t, n, min(all, g.total), 1)
			verdicts := explain(&in)
			j := compareVerdicts(&in, verdicts)
			requireEvidence(t, &in, verdicts)
			if j.right {
				right++
			} else if *dev > 0 {
				t.Logf("%d %s: %v %v, %d frames", n, in.name, in.truth, in.events, len(in.frames))
				for _, v := range verdicts {
					t.Logf("    %v party=%s suspects=%v: %s", v.Cause, v.Party, v.Suspects, v.Text)
				}
			}
			require.Empty(t, j.wrong)
		}
		t.Logf("%s: %d of %d", g.name, right, min(all, g.total))
	}
}

// A score counts the incidents of a generator.
type score struct{ total, right, wrong, healthy, alarms, doubles int }

func (s *score) add(o score) {
	s.total, s.right, s.wrong = s.total+o.total, s.right+o.right, s.wrong+o.wrong
	s.healthy, s.alarms, s.doubles = s.healthy+o.healthy, s.alarms+o.alarms, s.doubles+o.doubles
}

// count adds an incident to a score.
func (s *score) count(in *incident, j *judgement) {
	s.total++
	s.wrong += len(j.wrong)
	if j.right {
		s.right++
	}
	switch len(in.truth) {
	case 0:
		s.healthy++
		if !j.right {
			s.alarms++
		}
	case 2:
		s.doubles++
	}
}

// TestConfusion judges the rules by incidents that they were not written with.
func TestConfusion(t *testing.T) {
	wiretest.Alone(t)
	counts := map[[2]string]int{}
	var sum score
	rows := ""
	for _, g := range generators {
		var s score
		step := 1
		if testing.Short() {
			step = 10
		}
		for n := 0; n < g.total; n += step {
			in := g.make(t, n, g.total, judgedSeed)
			verdicts := explain(&in)
			requireEvidence(t, &in, verdicts)
			j := compareVerdicts(&in, verdicts)
			if !j.right {
				t.Logf("%s %d %s: %v, but %v", g.name, n, in.name, in.truth, j.found)
			}
			s.count(&in, &j)
			require.Empty(t, j.wrong, "%s %d %s blames an innocent host", g.name, n, in.name)
			confuse(counts, &in, &j)
		}
		rows += fmt.Sprintf("| %s | %d | %d | %d | %d | %d | %d |\n", g.name, s.total, s.right, s.wrong, s.doubles,
			s.healthy, s.alarms)
		t.Logf("%s: %+v", g.name, s)
		require.Zero(t, s.alarms, "%s: alarms for healthy incidents", g.name)
		sum.add(s)
	}
	require.GreaterOrEqual(t, sum.right*100, 97*sum.total, "%d of %d right", sum.right, sum.total)
	if testing.Short() {
		return
	}
	rows += fmt.Sprintf("| all | %d | %d | %d | %d | %d | %d |\n", sum.total, sum.right, sum.wrong, sum.doubles,
		sum.healthy, sum.alarms)
	requireDocumented(t, "confusion", "| generator | incidents | correct | innocent party named | with two causes | "+
		"healthy | "+
		"false alarms |\n|---|--:|--:|--:|--:|--:|--:|\n"+rows+"\n"+confusion(counts))
}

const none = "nothing"

// confuse counts the causes found for each true cause. Additional causes count for the first true cause that was not
// found.
func confuse(counts map[[2]string]int, in *incident, j *judgement) {
	var extra []string
	for c := range j.found {
		_, also := in.also[c]
		if _, ok := in.truth[c]; !ok && !also {
			extra = append(extra, c.String())
		}
	}
	for _, c := range slices.Sorted(maps.Keys(in.truth)) {
		_, ok := j.found[c]
		switch {
		case ok:
			counts[[2]string{c.String(), c.String()}]++
		case len(extra) == 0:
			counts[[2]string{c.String(), none}]++
		default:
			for _, b := range extra {
				counts[[2]string{c.String(), b}]++
			}
			extra = nil
		}
	}
	for _, b := range extra {
		counts[[2]string{none, b}]++
	}
	if len(in.truth) == 0 && len(extra) == 0 {
		counts[[2]string{none, none}]++
	}
}

// confusion writes the table: a row for each true cause, a column for each verdict.
func confusion(counts map[[2]string]int) string {
	var names []string
	for _, c := range triage.Causes() {
		names = append(names, c.String())
	}
	names = append(names, none)
	b := "| actual cause, and diagnosis: |"
	for i := range names {
		b += fmt.Sprintf(" %d |", i+1)
	}
	b += "\n|---|" + strings.Repeat("--:|", len(names)) + "\n"
	for i, row := range names {
		b += fmt.Sprintf("| %d %s |", i+1, row)
		for _, column := range names {
			if n := counts[[2]string{row, column}]; n > 0 {
				b += fmt.Sprintf(" %d |", n)
			} else {
				b += " |"
			}
		}
		b += "\n"
	}
	return b
}

// requireDocumented compares docs/triage.md with the table of this name, or writes it.
func requireDocumented(t *testing.T, name, text string) {
	t.Helper()
	begin, end := "<!-- table: "+name+" -->\n", "<!-- end of "+name+" -->\n"
	path := filepath.Join(wiretest.Root(t), "docs", "triage.md")
	doc := wiretest.Must(os.ReadFile(path))(t)
	before, rest, ok := strings.Cut(string(doc), begin)
	require.True(t, ok)
	is, after, ok := strings.Cut(rest, end)
	require.True(t, ok)
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(before+begin+text+end+after), 0o644))
		return
	}
	require.Equal(t, text, is, "go test -run %s ./incidents -update, in lab", t.Name())
}

// requireEvidence checks that each verdict names frames of the capture, and that they are the claimed evidence.
func requireEvidence(t *testing.T, in *incident, verdicts []triage.Verdict) {
	t.Helper()
	for _, v := range verdicts {
		require.NotEmpty(t, v.Text)
		require.NotEmpty(t, v.Next)
		require.NotEmpty(t, v.Filter)
		require.False(t, v.Since.IsZero() || v.Until.Before(v.Since), "%v", v)
		require.Equal(t, v.Cause == triage.CauseDiscarded, len(v.Frames) == 0, "%v", v)
		require.True(t, slices.IsSortedFunc(v.Frames, func(a, b triage.Frame) int {
			return int(a.Number) - int(b.Number)
		}))
		for _, f := range v.Frames {
			require.Positive(t, f.Number)
			require.LessOrEqual(t, f.Number, uint64(len(in.frames)))
			requireIs(t, in.frames[f.Number-1].octets, f.What, &v)
		}
	}
}

// requireIs reads a frame by hand.
func requireIs(t *testing.T, b []byte, what string, v *triage.Verdict) {
	t.Helper()
	if be.Uint16(b[12:]) == 0x8808 {
		require.Equal(t, "XOFF", what)
		require.Equal(t, blamed(v), mac6([6]byte(b[6:])))
		return
	}
	class, bthAt := b[15], 14+20+8
	if be.Uint16(b[12:]) == 0x86DD {
		class, bthAt = b[14]<<4|b[15]>>4, 14+40+8
		if b[20] == 60 || b[20] == 0 { // an extension header
			bthAt += 8 + 8*int(b[14+40+1])
		}
	}
	opcode := b[bthAt]
	switch what {
	case "CE":
		require.EqualValues(t, 3, class&3)
	case "not ECT":
		require.Zero(t, class&3)
	case "CNP", "Fast CNP":
		require.EqualValues(t, 0x81, opcode)
	case "RNR NAK":
		require.EqualValues(t, 0x11, opcode)
		require.EqualValues(t, 1, b[bthAt+12]>>5)
	case "sequence NAK":
		require.EqualValues(t, 0x11, opcode)
		require.EqualValues(t, 0x60, b[bthAt+12])
	case "NAK for a trimmed packet":
		require.EqualValues(t, 0x11, opcode)
		require.GreaterOrEqual(t, b[bthAt+12], byte(0x60))
	case "NAK":
		require.EqualValues(t, 0x11, opcode)
		require.Greater(t, b[bthAt+12], byte(0x60))
	case "answer with a wrong ICRC":
		require.GreaterOrEqual(t, opcode, byte(0x11))
	case "proxy message", "notification", "after the first gap", "after the last gap":
	default: // requests and responses of RC or UC
		require.True(t, opcode < 0x11 || opcode>>5 == 1, what)
	}
}
