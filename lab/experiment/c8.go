package experiment

import (
	"github.com/rocecn/rocecn/lab"
	"github.com/rocecn/rocecn/lab/check"
	"github.com/rocecn/rocecn/lab/scenario"
	"github.com/rocecn/rocecn/lab/sim"
)

// C8: PPFC beside PFC.
var pausing = Experiment{
	ID:    "C8",
	Title: "PPFC beside PFC: a victim, and a resume that is lost",
	Asks: "PFC pauses a port with all its flows. Does PPFC, which pauses a flow at its sender, spare a flow that " +
		"only shares a path with an incast? How does the cost of lost PPFCs depend on the length of the pause? " +
		"traffic[0] is the incast, traffic[1] the victim.",
	shown: []Shown{
		{secondGoodput, 1}, {firstGoodput, 1}, {peak, -1}, {pauses, -1}, {"paused, all ports", -1}, {lost, -1},
		{"PPFCs that ask to wait", 0}, {octets, -1},
	},
	cases: func(s Size) (cases []Case) {
		add := func(loss float64, pause scenario.Time) {
			t := victim(4)
			t.Variants = []lab.Variant{lab.None, lab.CNP, lab.FastCNP, lab.PPFC, lab.PPFCAndCNP}
			t.Switch.PPFC = scenario.PPFC{
				Hold: 100_000, Stop: 300_000, Resume: 50_000, Pause: pause, Interval: 5 * µs, To: "sender",
			}
			t.Switch.NotifyLoss = loss
			t.Warmup = 60 * ms
			t.Duration = chooseSize[scenario.Time](s, 4, 2) * t.Warmup
			cases = append(cases, Case{Scenario: t, At: []Coordinate{
				number("lost at each switch", loss*100, "%"), length("pause", pause),
			}})
		}
		for _, pause := range chooseSize(s, []scenario.Time{5 * µs, 20 * µs, 100 * µs, 300 * µs, ms},
			[]scenario.Time{20 * µs, 100 * µs, ms}) {
			add(0, pause)
		}
		for _, loss := range []float64{0.01, 0.1} {
			add(loss, 100*µs)
			add(loss, ms)
		}
		return withReactions(cases, both(hasCoordinate("lost at each switch", "0 %"),
			hasCoordinate("pause", sim.Time(100*µs).String())))
	},
}

// C8d: five switches in a circle, each of which waits for the next.
var circle = Experiment{
	ID:    "C8d",
	Title: "deadlock in a circle",
	Asks: "Five switches in a circle, each of which has a host that sends to one two switches on: so each waits for" +
		" the next one. Where does PFC lock them up for good, and does it help to tell the senders? Small buffers" +
		" pause sooner. The watchdog drops packets that a pause holds for 1 ms (200 ms are usual)." +
		" Goodput is that of the" +
		" second half: 0 is a deadlock.",
	shown: []Shown{
		{goodput, 1}, {jain, 1}, {peak, -1}, {pauses, -1}, {"paused, all ports", -1}, {lost, -1},
		{"queues emptied by the watchdog", -1}, {notified, 0}, {octets, -1},
	},
	cases: func(s Size) (cases []Case) {
		for _, buffer := range []scenario.Size{12_000_000, 1_000_000, 500_000} {
			for _, wait := range []scenario.Time{0, ms} {
				t := around(s, buffer)
				t.Variants = []lab.Variant{lab.None, lab.CNP, lab.FastCNP, lab.PPFC, lab.PPFCAndCNP}
				t.Switch.PPFC = scenario.PPFC{
					Hold: 100_000, Stop: 300_000, Resume: 50_000, Pause: 100 * µs, Interval: 5 * µs, To: "sender",
				}
				t.Switch.Watchdog = wait
				dog := "none"
				if wait > 0 {
					dog = sim.Time(wait).String()
				}
				cases = append(cases, Case{Scenario: t, At: []Coordinate{
					number("buffer", float64(buffer)/1000, "KB"), word("watchdog", dog, int(wait/ms)),
				}})
			}
		}
		cases = withReactions(cases, both(hasCoordinate("buffer", "500 KB"), hasCoordinate("watchdog", "none")))
		for i, change := range circleChanges {
			t := around(s, change.buffer)
			t.Variants = []lab.Variant{lab.CNP, lab.FastCNP}
			change.set(t)
			cases = append(cases, Case{Scenario: t, At: []Coordinate{
				number("buffer", float64(change.buffer)/1000, "KB"), word("watchdog", "none", 0),
				word("change", change.name, i+1),
			}})
		}
		return cases
	},
}

// circleChanges are changes of the circle with 500 KB, one at a time: the deadlock depends on each of them.
var circleChanges = []struct {
	name   string
	buffer scenario.Size
	set    func(t *scenario.Scenario)
}{
	{"none", 600_000, func(*scenario.Scenario) {}},
	{"none", 400_000, func(*scenario.Scenario) {}},
	{"none", 300_000, func(*scenario.Scenario) {}},
	{"RED 10 to 40 KB", 500_000, func(t *scenario.Scenario) { t.Switch.KMin, t.Switch.KMax = 10_000, 40_000 }},
	{"alpha 0.25", 500_000, func(t *scenario.Scenario) { t.Switch.Alpha = 0.25 }},
	{"starts within 1 ms", 500_000, func(t *scenario.Scenario) { t.Traffic[0].Jitter = ms }},
	{"4096 octets", 500_000, func(t *scenario.Scenario) { t.Host.Payload = 4096 }},
	{"seven switches", 500_000, func(t *scenario.Scenario) { setCircle(t, 7) }},
}

// around returns a circle of five switches, in which each host sends to the one two switches further.
func around(s Size, buffer scenario.Size) *scenario.Scenario {
	t := scenario.Default()
	paper40(t)
	t.Topology.Kind, t.Topology.Hosts = "circle", 2
	t.Switch.KMin, t.Switch.KMax, t.Switch.PMax = 40_000, 160_000, 0.2
	t.Switch.PFC, t.Switch.Buffer, t.Switch.Alpha, t.Switch.Headroom = true, buffer, 0.125, 60_000
	setCircle(t, 5)
	t.Duration = chooseSize(s, 100*ms, 20*ms)
	t.Warmup = t.Duration / 2
	return t
}

// setCircle sets the number of switches of a circle, and a flow from each to the one two switches further.
func setCircle(t *scenario.Scenario, switches int) {
	t.Topology.Switches = switches
	pairs := scenario.Traffic{Kind: "pairs", Jitter: 10 * µs}
	for i := range switches {
		pairs.Pairs = append(pairs.Pairs, [2]int{2 * i, (2*i + 5) % (2 * switches)})
	}
	t.Traffic = []scenario.Traffic{pairs}
}

// victim returns the network of the paper of DCQCN (SIGCOMM 2015) in which a flow suffers from an incast that it does
// not meet: four leaves, two spines. Four hosts of leaf 0 and some of leaf 2 send to one of leaf 3; the victim goes
// from leaf 0 to leaf 1.
func victim(others int) *scenario.Scenario {
	const hosts = 6 // at each leaf
	t := scenario.Default()
	t.Topology.Kind, t.Topology.Leaves, t.Topology.Spines, t.Topology.Hosts = "leaf-spine", 4, 2, hosts
	t.Topology.Rate = 40e9
	paper40(t)
	t.Switch.KMin, t.Switch.KMax, t.Switch.PMax = 40_000, 160_000, 0.2
	t.Switch.PFC, t.Switch.Buffer, t.Switch.Alpha, t.Switch.Headroom = true, 12_000_000, 0.125, 60_000
	incast := scenario.Traffic{Kind: "pairs", Jitter: 10 * µs}
	for i := range 4 {
		incast.Pairs = append(incast.Pairs, [2]int{i, 3 * hosts})
	}
	for i := range others {
		incast.Pairs = append(incast.Pairs, [2]int{2*hosts + i, 3 * hosts})
	}
	t.Traffic = []scenario.Traffic{incast, {Kind: "pairs", Jitter: 10 * µs, Pairs: [][2]int{{4, hosts}}}}
	return t
}

// B3: the faults of PFC that its users know.
var sins = Experiment{
	ID:    "B3",
	Title: "the faults of PFC: a victim, and unfairness by port",
	Asks: "With PFC alone a flow suffers from an incast that it does not meet, the more senders, the more; and " +
		"senders with a port of their own get more than those that share one. DCQCN heals both.",
	shown: []Shown{{secondGoodput, 1}, {firstGoodput, 1}, {jain, 1}, {pauses, -1}, {peak, -1}},
	cases: func(s Size) (cases []Case) {
		for _, others := range []int{0, 2, 4} {
			t := victim(others)
			t.Variants = []lab.Variant{lab.None, lab.CNP, lab.FastCNP}
			t.Warmup = 100 * ms
			t.Duration = chooseSize[scenario.Time](s, 4, 2) * t.Warmup
			at := number("senders at the third leaf", float64(others), "")
			cases = append(cases, Case{Scenario: t, At: []Coordinate{at}})
		}
		return withReactions(cases, always)
	},
	rows: func(r *Results) (rows []check.Row) {
		for _, c := range r.In("B3") {
			n, _ := c.Coordinate("senders at the third leaf")
			if n.Value == 0 {
				continue
			}
			// The sign alone is known: DCQCN gives the victim more.
			rows = change(rows, c.Name+": gain of the victim by DCQCN",
				r.figurePairs(c, lab.CNP, c, lab.None, secondGoodput), 100, 10, 10_000)
		}
		return rows
	},
}
