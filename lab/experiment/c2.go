package experiment

import (
	"fmt"

	"github.com/rocecn/rocecn/lab"
	"github.com/rocecn/rocecn/lab/check"
	"github.com/rocecn/rocecn/lab/scenario"
)

// C2: all senders at one switch, and the congested port is that of the receiver.
var incast = Experiment{
	ID: "C2", Quick: true,
	Title: "incast, the peak of the queue",
	Asks: "Does a Fast CNP help if the congestion is at the last hop? Endless flows of 100 Gbit/s to one " +
		"host, links of 1 µs, nodes without delay, no end to the buffer: peak of the first 5 ms.",
	shown: []Shown{{peak, -1}, {firstCut, -1}, {notified, 0}, {octets, 0}},
	cases: func(s Size) (cases []Case) {
		for _, at := range []lab.Point{lab.AtDeparture, lab.AtArrival} {
			for _, n := range chooseSize(s, []int{8, 32, 64, 256, 1024}, []int{8, 32, 64, 256}) {
				t := scenario.Default()
				instant(t)
				t.Variants = []lab.Variant{lab.CNP, lab.CNPPolled, lab.FastCNP, lab.Oracle}
				t.Topology.Kind, t.Topology.Hosts = "star", n+1
				t.Switch.Decide = at
				t.Duration = 5 * ms
				t.Traffic = []scenario.Traffic{{Kind: "incast", Senders: n, Jitter: µs}}
				cases = append(cases, Case{Scenario: t, At: []Coordinate{
					word("decided at", at.String(), int(at)), number("senders", float64(n), ""),
				}})
			}
		}
		return withReactions(cases, func(c *Case) bool { return c.At[0].Text == "departure" && c.At[1].Value <= 32 })
	},
	rows: func(r *Results) (rows []check.Row) {
		peaks := map[string]*CaseText{}
		for _, c := range r.In("C2") {
			if _, other := c.Coordinate("reaction"); other {
				continue // the model has the paper's
			}
			at, _ := c.Coordinate("decided at")
			n, _ := c.Coordinate("senders")
			peaks[fmt.Sprint(at.Text, n.Value)] = c
		}
		for _, n := range []float64{8, 32, 64} {
			out, in := peaks[fmt.Sprint("departure", n)], peaks[fmt.Sprint("arrival", n)]
			if out == nil || in == nil {
				continue
			}
			a, b := r.figurePairs(out, lab.FastCNP, out, lab.CNP, peak), r.figurePairs(in, lab.FastCNP, out, lab.CNP,
				peak)
			name := fmt.Sprintf("%g senders: Fast CNP beside CNP, decided at departure", n)
			// The model had −5, −4 and −3 %, of one seed.
			rows = change(rows, name, a, map[float64]float64{8: -5, 32: -4, 64: -3}[n], -6, -2)
			// At arrival −11, −14 and −23 %.
			name = fmt.Sprintf("%g senders: Fast CNP decided at arrival, beside CNP at departure", n)
			rows = change(rows, name, b, map[float64]float64{8: -11, 32: -14, 64: -23}[n], -26, -8)
		}
		return rows
	},
}

// change appends the comparison of the change of a figure in percent, seed by seed, with bounds.
func change(rows []check.Row, what string, pairs [][2]float64, want, low, high float64) []check.Row {
	if len(pairs) == 0 {
		return rows
	}
	var changes []float64
	for _, p := range pairs {
		changes = append(changes, (p[0]/p[1]-1)*100)
	}
	return append(rows, check.Between(what, "%", want, low, high, changes...))
}

// C2m: messages of several sizes, with the delays of nodes.
var incastMessages = Experiment{
	ID: "C2m", Quick: true, Long: true,
	Title: "incast, the completion of messages",
	Asks: "Do messages end sooner? A message of each sender to one host, with and without PFC; RED and R_AI in " +
		"proportion to the rate.",
	shown: []Shown{{meanTime, -1}, {lastTime, -1}, {peak, -1}, {pauses, -1}, {lost, -1}, {remaining, 0}},
	cases: func(s Size) (cases []Case) {
		for _, rate := range chooseSize(s, []scenario.Rate{100e9, 400e9}, []scenario.Rate{100e9}) {
			for _, pfc := range []bool{false, true} {
				for _, n := range chooseSize(s, []int{8, 32, 128}, []int{8, 32}) {
					for _, size := range chooseSize(s, []scenario.Size{64e3, 1e6, 10e6}, []scenario.Size{64e3, 1e6}) {
						if int64(size)*int64(n) <= 500e6 {
							cases = append(cases, incastOf(rate, pfc, n, size))
						}
					}
				}
			}
		}
		return withNone(withReactions(cases, func(c *Case) bool {
			return c.At[0].Value == 100 && c.At[1].Text == "unlimited" && c.At[2].Value == 8 && c.At[3].Value == 1000
		}))
	},
}

// incastOf returns a case of C2m: n senders, and a message of each.
func incastOf(rate scenario.Rate, pfc bool, n int, size scenario.Size) Case {
	t := scenario.Default()
	t.Variants = []lab.Variant{lab.None, lab.CNP, lab.FastCNP, lab.Oracle}
	t.Topology.Kind, t.Topology.Hosts, t.Topology.Rate = "star", n+1, rate
	scaled(t)
	guard := word("buffer", "unlimited", 0)
	if pfc {
		guard = word("buffer", "18 MB, PFC", 1)
		sonic(t)
	}
	t.Traffic = []scenario.Traffic{{Kind: "incast", Senders: n, Jitter: µs, Size: size}}
	alone := float64(n) * float64(size) * 8 / float64(rate) // seconds
	t.Duration = 5*ms + scenario.Time(4*alone*1e3)*ms
	return Case{Scenario: t, At: []Coordinate{
		number("rate", float64(rate)/1e9, "Gbit/s"), guard, number("senders", float64(n), ""),
		number("message", float64(size)/1000, "KB"),
	}}
}

// scaled sets RED and R_AI in proportion to the rate of hosts: 100 and 400 KB, and 100 Mbit/s, at 100 Gbit/s.
func scaled(s *scenario.Scenario) {
	of := float64(s.Topology.Rate) / 100e9
	s.Switch.KMin, s.Switch.KMax = scenario.Size(100_000*of), scenario.Size(400_000*of)
	s.Reaction.Additive = scenario.Rate(100e6 * of)
}

// sonic sets the buffer and PFC as the example of SONiC has them (NSDI 2023, appendix A): 24 MB, of which 18 are
// shared and 6 are headroom.
func sonic(s *scenario.Scenario) {
	s.Switch.PFC, s.Switch.Buffer, s.Switch.Alpha = true, 18_000_000, 0.125
	s.Switch.Headroom, s.Switch.Pool, s.Switch.Reserve, s.Switch.XON = 96_928, 6_000_000, 1248, 2496
}
