// Package scenario runs what a file of JSON describes: a network, its traffic, the
// variants to compare and the seeds.
package scenario

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rocecn/rocecn/lab"
	"github.com/rocecn/rocecn/lab/sim"
	"github.com/rocecn/rocecn/node/reaction"
)

// A Scenario is what a file says.
type Scenario struct {
	Name     string        `json:"name"`
	Variants []lab.Variant `json:"variants"`
	Seeds    []uint64      `json:"seeds"`
	Duration Time          `json:"duration"`
	Warmup   Time          `json:"warmup"` // what queues and use of links are not measured in
	Topology Topology      `json:"topology"`
	Switch   Switch        `json:"switch"`
	Host     Host          `json:"host"`
	Reaction Reaction      `json:"reaction"`
	Traffic  []Traffic     `json:"traffic"`
}

// A Topology is how hosts are joined.
//
//	star        hosts around one switch
//	line        hosts, switches in a row, as many hosts
//	leaf-spine  hosts at each leaf, each leaf at each spine
//	wan         hosts, a leaf, PE, P, PE, a leaf, as many hosts
type Topology struct {
	Kind     string  `json:"kind"`
	Hosts    int     `json:"hosts"` // of the star, at each end of the line and the WAN, at each leaf
	Rate     Rate    `json:"rate"`  // of the links of hosts
	Delay    Time    `json:"delay"` // of each link, but those of the WAN
	Switches int     `json:"switches"`
	Leaves   int     `json:"leaves"`
	Spines   int     `json:"spines"`
	Trunk    Rate    `json:"trunk"` // between switches; 0 is Rate
	SlowHop  int     `json:"slow_hop"`
	SlowRate Rate    `json:"slow_rate"` // of the link behind this switch of the line, from 1; of the one behind P
	Distance Time    `json:"distance"`  // one way between the PEs
	Position float64 `json:"position"`  // of P, from 0, at the sender's PE, to 1
}

// Switch is what all switches have.
type Switch struct {
	KMin        Size      `json:"kmin"`
	KMax        Size      `json:"kmax"`
	PMax        float64   `json:"pmax"`
	Decide      lab.Point `json:"decide"`
	Buffer      Size      `json:"buffer"` // 0: without end
	Alpha       float64   `json:"alpha"`
	PFC         bool      `json:"pfc"`
	Headroom    Size      `json:"headroom"`
	XON         Size      `json:"xon"`
	Pipeline    Time      `json:"pipeline"`
	NotifyDelay Time      `json:"notify_delay"`
	ProxyDelay  Time      `json:"proxy_delay"`
}

// Host is what all hosts have.
type Host struct {
	Payload              int   `json:"payload"`
	CNPDelay             Time  `json:"cnp_delay"`
	ReactionDelay        Time  `json:"reaction_delay"`
	PauseDelay           Time  `json:"pause_delay"`
	Interval             Time  `json:"interval"` // of notifications of a flow, whoever sends them
	Join                 Time  `json:"join"`
	AckEvery             int   `json:"ack_every"`
	AckPriority          uint8 `json:"ack_priority"`
	NotificationPriority uint8 `json:"notification_priority"`
	Timeout              Time  `json:"timeout"`
}

// Reaction is the reaction point: "paper", "connectx" or "none". What is not 0 takes
// the place of its parameter.
type Reaction struct {
	Kind     string `json:"kind"`
	Additive Rate   `json:"additive"`
	Hyper    Rate   `json:"hyper"`
	Timer    Time   `json:"timer"`
	RTT      Time   `json:"rtt"` // T of the variant hpcc: the longest round trip of the idle network
}

// Default is a scenario without topology and traffic.
func Default() *Scenario {
	const µs = Time(sim.Microsecond)
	return &Scenario{
		Variants: []lab.Variant{lab.CNP, lab.FastCNP, lab.Oracle}, Seeds: []uint64{1},
		Topology: Topology{Rate: 100e9, Delay: µs},
		Switch: Switch{
			KMin: 100_000, KMax: 400_000, PMax: 0.2, Alpha: 1,
			Headroom: 100_000, XON: 2496, Pipeline: 6 * µs / 10, NotifyDelay: µs, ProxyDelay: µs,
		},
		Host: Host{
			Payload: 1024, CNPDelay: µs, ReactionDelay: µs, PauseDelay: µs / 2, Interval: 50 * µs,
			AckEvery: 16, AckPriority: dataPriority, NotificationPriority: 6, Timeout: 100 * Time(sim.Millisecond),
		},
		Reaction: Reaction{Kind: "paper"},
	}
}

const dataPriority = 3

// The most that a scenario may have of these, so that a slip does not eat the memory.
const (
	maxHosts    = 4096
	maxSwitches = 1024
	maxRuns     = 1000
)

// check returns the first thing that is wrong.
func (s *Scenario) check() error {
	t, h := &s.Topology, &s.Host
	for _, wrong := range []struct {
		is        bool
		key, text string
	}{
		{len(s.Variants) == 0, "variants", "one at least is needed"},
		{len(s.Seeds) == 0, "seeds", "one at least is needed"},
		{len(s.Variants)*len(s.Seeds) > maxRuns, "seeds", fmt.Sprintf("%d runs at most, variants times seeds",
			maxRuns)},
		{s.Duration == 0, "duration", "above 0 needed"},
		{s.Warmup >= s.Duration, "warmup", "shorter than duration needed"},
		{!t.known(), "topology.kind", "star, line, leaf-spine or wan needed"},
		{t.Hosts < 1 || t.Kind == "star" && t.Hosts < 2, "topology.hosts", "1 at least, 2 in a star"},
		{t.hosts() > maxHosts, "topology.hosts", fmt.Sprintf("%d in all at most", maxHosts)},
		{t.Kind == "line" && (t.Switches < 1 || t.Switches > maxSwitches), "topology.switches",
			fmt.Sprintf("from 1 to %d needed", maxSwitches)},
		{t.Kind == "leaf-spine" && (t.Leaves < 1 || t.Leaves > maxSwitches), "topology.leaves",
			fmt.Sprintf("from 1 to %d needed", maxSwitches)},
		{t.Kind == "leaf-spine" && (t.Spines < 1 || t.Spines > maxSwitches), "topology.spines",
			fmt.Sprintf("from 1 to %d needed", maxSwitches)},
		{t.Kind == "line" && (t.SlowHop < 0 || t.SlowHop >= t.Switches), "topology.slow_hop",
			"from 1, the first switch, to the last but one needed, or 0"},
		{t.Kind == "line" && t.SlowHop > 0 && t.SlowRate == 0, "topology.slow_rate", "needed with slow_hop"},
		{!(t.Position >= 0 && t.Position <= 1), "topology.position", "from 0 to 1 needed"},
		{s.Switch.KMax < s.Switch.KMin, "switch.kmax", "kmin at least"},
		{!(s.Switch.PMax >= 0 && s.Switch.PMax <= 1), "switch.pmax", "from 0 to 1 needed"},
		{!(s.Switch.Alpha > 0 && s.Switch.Alpha <= 64), "switch.alpha", "above 0 to 64 needed"},
		{s.Switch.PFC && s.Switch.Buffer == 0, "switch.buffer", "needed with pfc"},
		{h.Payload < 64 || h.Payload > 8192 || h.Payload%4 != 0, "host.payload",
			"a multiple of 4 from 64 to 8192 needed"},
		{h.AckEvery < 1 || h.AckEvery > 1<<20, "host.ack_every", "from 1 to 1048576 needed"},
		{h.AckPriority > 7, "host.ack_priority", "from 0 to 7 needed"},
		{h.NotificationPriority > 7, "host.notification_priority", "from 0 to 7 needed"},
		{!s.Reaction.known(), "reaction.kind", "paper, connectx or none needed"},
		{slices.Contains(s.Variants, lab.HPCC) && s.Reaction.RTT == 0, "reaction.rtt", "needed with the variant hpcc"},
		{len(s.Traffic) == 0, "traffic", "one at least is needed"},
	} {
		if wrong.is {
			return &KeyError{wrong.key, wrong.text}
		}
	}
	for i := range s.Traffic {
		if err := s.Traffic[i].check(fmt.Sprintf("traffic[%d].", i), t); err != nil {
			return err
		}
	}
	return nil
}

func (t *Topology) known() bool {
	switch t.Kind {
	case "star", "line", "leaf-spine", "wan":
		return true
	}
	return false
}

// hosts returns how many hosts there are.
func (t *Topology) hosts() int {
	switch t.Kind {
	case "line", "wan":
		return 2 * t.Hosts
	case "leaf-spine":
		return t.Leaves * t.Hosts
	}
	return t.Hosts
}

func (r *Reaction) known() bool { return r.Kind == "paper" || r.Kind == "connectx" || r.Kind == "none" }

// point returns the reaction point of a port.
func (r *Reaction) point(line uint64) reaction.Config {
	c := reaction.Config{}
	switch r.Kind {
	case "paper":
		c = reaction.Paper(line)
	case "connectx":
		c = reaction.ConnectX(line)
	}
	if r.Additive > 0 {
		c.Additive = uint64(r.Additive)
	}
	if r.Hyper > 0 {
		c.Hyper = uint64(r.Hyper)
	}
	if r.Timer > 0 {
		c.Timer = time.Duration(r.Timer.sim() / sim.Nanosecond)
	}
	return c
}

// hpcc returns the reaction point of the variant hpcc.
func (r *Reaction) hpcc(line uint64) reaction.HPCCConfig {
	c := reaction.PaperHPCC(line, duration(r.RTT))
	if r.Additive > 0 {
		c.Additive = uint64(r.Additive)
	}
	return c
}

// config returns the laboratory's configuration of one run.
func (s *Scenario) config(v lab.Variant, seed uint64) lab.Config {
	sw, h := &s.Switch, &s.Host
	return lab.Config{
		Seed: seed, Variant: v,
		RED: lab.RED{Min: int64(sw.KMin), Max: int64(sw.KMax), Probability: sw.PMax, At: sw.Decide},
		Buffer: lab.Buffer{
			Total: int64(sw.Buffer), Alpha: sw.Alpha, PFC: sw.PFC, XON: int64(sw.XON), Headroom: int64(sw.Headroom),
		},
		Payload: h.Payload, Pipeline: sw.Pipeline.sim(),
		SwitchDelay: sw.NotifyDelay.sim(), ProxyDelay: sw.ProxyDelay.sim(), PauseDelay: h.PauseDelay.sim(),
		Interval: duration(h.Interval), Join: duration(h.Join),
		ReceiverDelay: h.CNPDelay.sim(), SenderDelay: h.ReactionDelay.sim(),
		AckEvery: h.AckEvery, Timeout: h.Timeout.sim(),
		DataPriority: dataPriority, AckPriority: h.AckPriority, NotificationPriority: h.NotificationPriority,
		Reaction: s.Reaction.point, HPCC: s.Reaction.hpcc,
	}
}

func duration(t Time) time.Duration { return time.Duration(t.sim() / sim.Nanosecond) }

// build makes the network.
func (t *Topology) build(cfg lab.Config) *lab.Network {
	n := lab.New(cfg)
	rate, trunk, delay := sim.Rate(t.Rate), sim.Rate(t.Trunk), t.Delay.sim()
	if trunk == 0 {
		trunk = rate
	}
	join := func(s *lab.Switch) {
		for range t.Hosts {
			n.Link(n.Host(), s, rate, delay)
		}
	}
	row := func(switches int, link func(i int) (sim.Rate, sim.Time)) {
		first := n.Switch()
		join(first)
		at := first
		for i := 1; i < switches; i++ {
			next := n.Switch()
			r, d := link(i)
			n.Link(at, next, r, d)
			at = next
		}
		join(at)
	}
	switch t.Kind {
	case "star":
		join(n.Switch())
	case "line":
		row(t.Switches, func(i int) (sim.Rate, sim.Time) {
			if i == t.SlowHop {
				return sim.Rate(t.SlowRate), delay
			}
			return trunk, delay
		})
	case "wan": // leaf, PE, P, PE, leaf
		d := t.Distance.sim()
		before := sim.Time(t.Position * float64(d))
		row(5, func(i int) (sim.Rate, sim.Time) {
			switch {
			case i == 2:
				return trunk, before
			case i == 3 && t.SlowRate > 0:
				return sim.Rate(t.SlowRate), d - before
			case i == 3:
				return trunk, d - before
			}
			return trunk, delay
		})
	case "leaf-spine":
		var leaves []*lab.Switch
		for range t.Leaves {
			leaf := n.Switch()
			join(leaf)
			leaves = append(leaves, leaf)
		}
		for range t.Spines {
			spine := n.Switch()
			for _, leaf := range leaves {
				n.Link(leaf, spine, trunk, delay)
			}
		}
	}
	return n
}

// Line returns what must stand beside each figure of a variant.
func (s *Scenario) Line(v lab.Variant) string { return s.ofVariant(v) + "; " + s.common() }

// ofVariant returns how senders are notified, and what they do.
func (s *Scenario) ofVariant(v lab.Variant) string {
	receiver := "receiver answers at once"
	switch v {
	case lab.CNPPolled:
		receiver = "receiver polls"
	case lab.HPCC:
		return fmt.Sprintf("hpcc: η 0.95, T %v, each acknowledgement tells what every port said, without octets of its own",
			s.Reaction.RTT.sim())
	case lab.Proxy:
		receiver = fmt.Sprintf("receiver silent, proxy at the first switch takes %v", s.Switch.ProxyDelay.sim())
	case lab.FastCNP, lab.Oracle, lab.None:
		receiver = "receiver silent"
	}
	gate := "no gate"
	if g := s.Reaction.point(uint64(s.Topology.Rate)).Gate; g > 0 {
		gate = fmt.Sprintf("gate of %v", g)
	}
	return fmt.Sprintf("%v: reaction %s, %s at the sender, %s, one in %v a flow", v, s.Reaction.Kind, gate,
		receiver, s.Host.Interval.sim())
}

// common returns what holds for all variants.
func (s *Scenario) common() string {
	sw, h := &s.Switch, &s.Host
	return fmt.Sprintf("RED from %d to %d octets, %v, decided at %v; "+
		"delays: switch %v, receiver %v, sender %v, pipeline %v;\n"+
		"priority of notifications %d, of ACKs %d, of data %d; PFC %v; %d octets a packet; seeds %s",
		sw.KMin, sw.KMax, sw.PMax, sw.Decide,
		sw.NotifyDelay.sim(), h.CNPDelay.sim(), h.ReactionDelay.sim(), sw.Pipeline.sim(),
		h.NotificationPriority, h.AckPriority, dataPriority, sw.PFC, h.Payload, strings.Trim(fmt.Sprint(s.Seeds), "[]"))
}
