// Package scenario runs scenarios from JSON files: a network, its traffic, the
// variants to compare and the seeds.
package scenario

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rocecn/rocecn/lab"
	"github.com/rocecn/rocecn/lab/rtt"
	"github.com/rocecn/rocecn/lab/sim"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/congested"
	"github.com/rocecn/rocecn/node/reaction"
	"github.com/rocecn/rocecn/ppfc"
)

// A Scenario is the content of a file.
type Scenario struct {
	Name     string        `json:"name"`
	Variants []lab.Variant `json:"variants"`
	Seeds    []uint64      `json:"seeds"`
	Duration Time          `json:"duration"`
	Warmup   Time          `json:"warmup"` // queues and the use of links are measured after it
	Topology Topology      `json:"topology"`
	Switch   Switch        `json:"switch"`
	Host     Host          `json:"host"`
	Reaction Reaction      `json:"reaction"`
	Traffic  []Traffic     `json:"traffic"`

	// KeepMessages makes each Result have its Messages. It is no part of the file.
	KeepMessages bool `json:"-"`
}

// A Topology says how hosts are connected.
//
//	star        hosts around one switch
//	line        hosts, switches in a row, as many hosts
//	circle      switches in a circle, hosts at each
//	leaf-spine  hosts at each leaf, each leaf at each spine
//	fat-tree    K pods of K/2 edge and K/2 aggregation switches, K²/4 core switches, K³/4 hosts
//	wan         hosts, a leaf, PE, P, PE, a leaf, as many hosts
//	two-dc      leaf and spine, PE, P, PE, leaf and spine: each spine at its PE
//	fork        hosts, a leaf, PE, P, P, and from there to two more PEs with a leaf and hosts: a far and a near one
//
// In the last three, packets from one PE to the other are in a tunnel.
type Topology struct {
	Kind     string  `json:"kind"`
	Hosts    int     `json:"hosts"` // of the star; at each end of line and WAN; at each leaf, or switch of the circle
	K        int     `json:"k"`     // of the fat tree: the ports of a switch
	Rate     Rate    `json:"rate"`  // of the links of hosts
	Delay    Time    `json:"delay"` // of each link except those of the WAN
	Switches int     `json:"switches"`
	Between  int     `json:"between"` // hosts at each switch of the line but the first and the last
	Leaves   int     `json:"leaves"`
	Spines   int     `json:"spines"`
	Trunk    Rate    `json:"trunk"` // between switches; 0 is Rate
	WAN      Rate    `json:"wan"`   // between PEs and P; 0 is Trunk
	SlowHop  int     `json:"slow_hop"`
	SlowRate Rate    `json:"slow_rate"`  // of the link after this switch of the line, from 1, or after P
	Proxy    int     `json:"proxy_hops"` // links from the hosts' first switch to their proxy
	Distance Time    `json:"distance"`   // one way between the PEs; of the fork to the far PE
	Position float64 `json:"position"`   // of P, from 0, at the sender's PE, to 1
}

// Switch is the configuration of all switches.
type Switch struct {
	KMin        Size      `json:"kmin"`
	KMax        Size      `json:"kmax"`
	PMax        float64   `json:"pmax"`
	Decide      lab.Point `json:"decide"`
	Buffer      Size      `json:"buffer"` // 0: unlimited
	Alpha       float64   `json:"alpha"`
	PFC         bool      `json:"pfc"`
	Queue       Size      `json:"queue"`
	Trim        bool      `json:"trim"` // trimming of packets without space, with host.selective
	Headroom    Size      `json:"headroom"`
	Pool        Size      `json:"headroom_pool"`
	Reserve     Size      `json:"reserve"`
	XON         Size      `json:"xon"`
	Watchdog    Time      `json:"watchdog"` // a data queue that is paused for this long is emptied
	Pipeline    Time      `json:"pipeline"`
	NotifyDelay Time      `json:"notify_delay"`
	NotifyLimit float64   `json:"notify_limit"`
	NotifyLoss  float64   `json:"notify_loss"`
	ProxyDelay  Time      `json:"proxy_delay"`
	EdgeDelay   Time      `json:"edge_delay"`
	Labels      int       `json:"labels"`
	LabelIdle   Time      `json:"label_idle"`
	Cold        bool      `json:"cold"` // proxies and PEs have to learn queue pairs from passing packets
	PairIdle    Time      `json:"pair_idle"`
	TraceHops   int       `json:"trace_hops"`
	PPFC        PPFC      `json:"ppfc"`
}

// PPFC says at which depth of a queue senders are asked to hold and to stop; 0 is never. Below Resume all
// continue.
type PPFC struct {
	Alarm    Size   `json:"alarm"`
	Hold     Size   `json:"hold"`
	Stop     Size   `json:"stop"`
	Resume   Size   `json:"resume"`
	Pause    Time   `json:"pause"`
	Ceiling  Time   `json:"ceiling"`
	Interval Time   `json:"interval"`
	To       string `json:"to"` // destination of the PPFCs of a WAN's routers: "sender" or "ingress", the ingress PE
}

// Host is the configuration of all hosts.
type Host struct {
	Payload              int     `json:"payload"`
	CNPDelay             Time    `json:"cnp_delay"`
	CNPLimit             float64 `json:"cnp_limit"` // a second
	ReactionDelay        Time    `json:"reaction_delay"`
	PauseDelay           Time    `json:"pause_delay"`
	Interval             Time    `json:"interval"` // between notifications of a flow by one node
	Join                 Time    `json:"join"`
	Incapable            int     `json:"incapable"` // hosts, from the first, that do not understand Fast CNPs
	Rejects              bool    `json:"rejects"`   // these hosts answer with ICMPv6
	AckEvery             int     `json:"ack_every"`
	AckPriority          uint8   `json:"ack_priority"`
	NotificationPriority uint8   `json:"notification_priority"`
	Timeout              Time    `json:"timeout"`
	Window               Size    `json:"window"`    // octets of a flow on their way; 0: no limit
	Selective            bool    `json:"selective"` // only lost packets are retransmitted
	Spray                bool    `json:"spray"`     // each packet takes one of the shortest paths at random
	Cold                 bool    `json:"cold"`      // hosts have to learn queue pairs from their packets
}

// Reaction is the reaction point: "paper" or "connectx", which are DCQCN and react to notifications; "swift" or
// "timely", which follow the round trip; or "none". Fields that are not 0 replace its parameters.
type Reaction struct {
	Kind     string `json:"kind"`
	Min      Rate   `json:"min"`
	Additive Rate   `json:"additive"`
	Hyper    Rate   `json:"hyper"`
	Timer    Time   `json:"timer"`
	Alpha    Time   `json:"alpha_timer"`
	RTT      Time   `json:"rtt"`    // longest round trip of the idle network: T of HPCC, the gradient's unit of TIMELY
	Target   Time   `json:"target"` // round trip: target of Swift, reference of patched TIMELY
	MaxStage uint32 `json:"max_stage"`
}

// Default returns the defaults of a scenario: it has no topology and no traffic.
func Default() *Scenario {
	const µs = Time(sim.Microsecond)
	return &Scenario{
		Variants: []lab.Variant{lab.CNP, lab.FastCNP, lab.Oracle}, Seeds: []uint64{1},
		Topology: Topology{Rate: 100e9, Delay: µs},
		Switch: Switch{
			KMin: 100_000, KMax: 400_000, PMax: 0.2, Alpha: 1,
			Headroom: 100_000, XON: 2496, Pipeline: 6 * µs / 10, NotifyDelay: µs, ProxyDelay: µs, EdgeDelay: µs,
			TraceHops: 5,
			PPFC: PPFC{
				Hold: 100_000, Stop: 400_000, Resume: 50_000, Pause: 100 * µs, Interval: 5 * µs, To: "sender",
			},
		},
		Host: Host{
			Payload: 1024, CNPDelay: µs, ReactionDelay: µs, PauseDelay: µs / 2, Interval: 50 * µs,
			AckEvery: 16, AckPriority: dataPriority, NotificationPriority: 6, Timeout: 100 * Time(sim.Millisecond),
		},
		Reaction: Reaction{Kind: "paper"},
	}
}

// ConnectXInterval is the default of host.interval with reaction.kind connectx: the gate of its reaction point. α rises
// in each microsecond with a notification, so one in 50 µs has almost no effect on it.
const ConnectXInterval = 4 * Time(sim.Microsecond)

// DefaultOf returns the defaults of a scenario with a kind of reaction.
func DefaultOf(kind string) *Scenario {
	s := Default()
	switch kind {
	case "connectx":
		s.Reaction.Kind, s.Host.Interval = kind, ConnectXInterval
	case "swift", "timely":
		s.Reaction.Kind, s.Host.AckEvery = kind, 1
		s.Variants = []lab.Variant{lab.None}
	}
	return s
}

const dataPriority = 3

// Limits of a scenario, so that a typing error does not exhaust the memory.
const (
	maxHosts    = 4096
	maxSwitches = 1024
	maxTrunks   = 16_384
	maxRuns     = 1000
	maxTraffics = 64
)

// checkScenario returns the first error of the scenario.
func (s *Scenario) checkScenario() error {
	t, h := &s.Topology, &s.Host
	for _, wrong := range []struct {
		is        bool
		key, text string
	}{
		{len(s.Variants) == 0, "variants", "want at least one"},
		{repeatedIndex(s.Variants) > 0, fmt.Sprintf("variants[%d]", repeatedIndex(s.Variants)), "given twice"},
		{len(s.Seeds) == 0, "seeds", "want at least one"},
		{repeatedIndex(s.Seeds) > 0, fmt.Sprintf("seeds[%d]", repeatedIndex(s.Seeds)), "given twice"},
		{len(s.Variants)*len(s.Seeds) > maxRuns, "seeds", fmt.Sprintf("want at most %d runs, variants times seeds",
			maxRuns)},
		{s.Duration == 0, "duration", "want more than 0"},
		{s.Warmup >= s.Duration, "warmup", "want less than duration"},
		{!t.isKnown(), "topology.kind", "want star, line, circle, leaf-spine, fat-tree, wan, two-dc or fork"},
		{!t.hasWAN() && slices.Contains(s.Variants, lab.FCN),
			fmt.Sprintf("variants[%d]", slices.Index(s.Variants, lab.FCN)),
			"want topology.kind wan, two-dc or fork, with routers of a WAN"},
		{t.Kind == "fat-tree" && (t.K < 2 || t.K > 16 || t.K%2 != 0), "topology.k",
			"want an even number from 2 to 16"},
		{t.Kind != "fat-tree" && t.Hosts < 1 || t.Kind == "star" && t.Hosts < 2, "topology.hosts",
			"want at least 1, or 2 in a star"},
		{t.Between < 0 || t.Between > maxHosts, "topology.between", fmt.Sprintf("want 0 to %d", maxHosts)},
		{t.Hosts > maxHosts || t.hostCount() > maxHosts, "topology.hosts",
			fmt.Sprintf("want at most %d hosts in all", maxHosts)},
		{t.Kind == "line" && (t.Switches < 1 || t.Switches > maxSwitches), "topology.switches",
			fmt.Sprintf("want 1 to %d", maxSwitches)},
		{t.Kind == "circle" && (t.Switches < 3 || t.Switches > maxSwitches), "topology.switches",
			fmt.Sprintf("want 3 to %d", maxSwitches)},
		{t.hasLeaves() && (t.Leaves < 1 || t.Leaves > maxSwitches), "topology.leaves",
			fmt.Sprintf("want 1 to %d", maxSwitches)},
		{t.hasLeaves() && (t.Spines < 1 || t.Spines > maxSwitches), "topology.spines",
			fmt.Sprintf("want 1 to %d", maxSwitches)},
		{t.hasLeaves() && t.Leaves*t.Spines > maxTrunks, "topology.spines",
			fmt.Sprintf("want at most %d links to leaves", maxTrunks)},
		{t.Kind == "line" && (t.SlowHop < 0 || t.SlowHop >= t.Switches), "topology.slow_hop",
			"want the number of a switch from 1, except the last, or 0"},
		{t.Kind == "line" && t.SlowHop > 0 && t.SlowRate == 0, "topology.slow_rate", "want more than 0 with slow_hop"},
		{t.Proxy < 0 || t.Proxy > 8, "topology.proxy_hops", "want 0 to 8"},
		{!(t.Position >= 0 && t.Position <= 1), "topology.position", "want 0 to 1"},
		{s.Switch.KMax < s.Switch.KMin, "switch.kmax", "want at least kmin"},
		{s.Switch.KMax == 0, "switch.kmax", "want more than 0"}, // 0 would be no RED, see [lab.RED]
		{!(s.Switch.Alpha > 0 && s.Switch.Alpha <= 64), "switch.alpha", "want more than 0, at most 64"},
		{s.Switch.PFC && s.Switch.Buffer == 0, "switch.buffer", "want more than 0 with pfc"},
		{!(s.Switch.NotifyLimit >= 0), "switch.notify_limit", "want 0 or more"},
		{s.Switch.TraceHops < 1 || s.Switch.TraceHops > reaction.MaxHops, "switch.trace_hops",
			fmt.Sprintf("want 1 to %d", reaction.MaxHops)},
		{s.Switch.PPFC.To != "sender" && s.Switch.PPFC.To != "ingress", "switch.ppfc.to",
			"want sender or ingress"},
		{s.Switch.PPFC.To == "ingress" && !t.hasWAN(), "switch.ppfc.to",
			"want topology.kind wan, two-dc or fork, with routers of a WAN"},
		{!s.Switch.PPFC.ascends(), "switch.ppfc",
			"want three different levels alarm, hold and stop, and resume below them"},
		{!(h.CNPLimit >= 0), "host.cnp_limit", "want 0 or more"},
		{h.Payload < 64 || h.Payload > 8192 || h.Payload%4 != 0, "host.payload",
			"want a multiple of 4 from 64 to 8192"},
		{h.Incapable < 0 || h.Incapable > t.hostCount(), "host.incapable", "want 0 to the number of hosts"},
		{h.AckEvery < 1 || h.AckEvery > 1<<20, "host.ack_every", "want 1 to 1048576"},
		{!s.Reaction.isKnown(), "reaction.kind", "want paper, connectx, swift, timely or none"},
		{s.Reaction.followsRTT() && s.notified() >= 0, fmt.Sprintf("variants[%d]", s.notified()),
			"want none, or a variant of hpcc, with reaction.kind " + s.Reaction.Kind + ", which ignores notifications"},
		{s.Reaction.Kind == "swift" && s.Reaction.Target == 0, "reaction.target", "want more than 0 with swift"},
		{s.Reaction.Kind == "timely" && s.Reaction.RTT == 0, "reaction.rtt", "want more than 0 with timely"},
		{s.Reaction.Min > t.Rate, "reaction.min", "want at most topology.rate"},
		{slices.ContainsFunc(s.Variants, lab.Variant.HPCC) && s.Reaction.RTT == 0, "reaction.rtt",
			"want more than 0 with the variants of hpcc"},
		{len(s.Traffic) == 0, "traffic", "want at least one"},
		{len(s.Traffic) > maxTraffics, "traffic", fmt.Sprintf("want at most %d", maxTraffics)},
	} {
		if wrong.is {
			return &KeyError{wrong.key, wrong.text}
		}
	}
	for i := range s.Traffic {
		if err := s.Traffic[i].checkTraffic(fmt.Sprintf("traffic[%d].", i), s); err != nil {
			return err
		}
	}
	for _, v := range s.Variants {
		_, err := lab.New(s.config(v, s.Seeds[0]))
		if wrong, ok := err.(*lab.ConfigError); ok {
			return &KeyError{keyOf[wrong.Key], "want " + wrong.Want}
		}
	}
	return nil
}

// keyOf has the keys for the fields of [lab.Config] that check leaves to [lab.New].
var keyOf = map[string]string{
	"Buffer.Total": "switch.buffer", "Buffer.Queue": "switch.queue", "Interval": "host.interval",
	"RED.Probability": "switch.pmax", "Window": "host.window", "Spray": "host.spray",
	"Buffer.Trim": "switch.trim",
	"NoticeLoss":  "switch.notify_loss", "Labels": "switch.labels",
	"AckPriority": "host.ack_priority", "NotificationPriority": "host.notification_priority",
	"Pausing.For": "switch.ppfc.pause",
}

// KeepVariants reduces the variants of the scenario to a list such as "cnp,fastcnp"; an empty list keeps all. Keys that
// only the other variants use stay in the scenario.
func (s *Scenario) KeepVariants(list string) error {
	if list == "" {
		return nil
	}
	var kept []lab.Variant
	for name := range strings.SplitSeq(list, ",") {
		i := slices.IndexFunc(s.Variants, func(v lab.Variant) bool { return v.String() == name })
		if i < 0 {
			var names []string
			for _, v := range s.Variants {
				names = append(names, v.String())
			}
			return fmt.Errorf("%q: want some of %s", name, strings.Join(names, ","))
		}
		kept = append(kept, s.Variants[i])
	}
	if i := repeatedIndex(kept); i > 0 {
		return fmt.Errorf("%q: given twice", kept[i])
	}
	s.Variants = kept
	return nil
}

// repeatedIndex returns the index of the first value that is also earlier in the list; 0 if all differ.
func repeatedIndex[T comparable](list []T) int {
	for i, x := range list {
		if slices.Contains(list[:i], x) {
			return i
		}
	}
	return 0
}

func (t *Topology) isKnown() bool {
	switch t.Kind {
	case "star", "line", "circle", "leaf-spine", "fat-tree", "wan", "two-dc", "fork":
		return true
	}
	return false
}

// hasWAN reports whether the topology has a WAN.
func (t *Topology) hasWAN() bool { return t.Kind == "wan" || t.Kind == "two-dc" || t.Kind == "fork" }

func (t *Topology) hasLeaves() bool { return t.Kind == "leaf-spine" || t.Kind == "two-dc" }

// hostCount returns the number of hosts.
func (t *Topology) hostCount() int {
	switch t.Kind {
	case "line":
		return 2*t.Hosts + max(t.Switches-2, 0)*t.Between
	case "wan":
		return 2 * t.Hosts
	case "fork":
		return 3 * t.Hosts
	case "circle":
		return t.Switches * t.Hosts
	case "leaf-spine":
		return t.Leaves * t.Hosts
	case "two-dc":
		return 2 * t.Leaves * t.Hosts
	case "fat-tree":
		return t.K * t.K * t.K / 4
	}
	return t.Hosts
}

// ascends reports whether Resume is below the depths that are set, and the depths are different.
func (p *PPFC) ascends() bool {
	up := p.depths()
	return len(up) > 0 && up[0] > uint64(p.Resume) && len(slices.Compact(slices.Clone(up))) == len(up)
}

// depths returns the depths of the levels, in order.
func (p *PPFC) depths() (up []uint64) {
	for _, d := range []Size{p.Alarm, p.Hold, p.Stop} {
		if d > 0 {
			up = append(up, uint64(d))
		}
	}
	slices.Sort(up)
	return up
}

// pausing returns the configuration of the switches. A level ends at half the depth at which it begins, the
// lowest one at Resume.
func (p *PPFC) pausing() lab.Pausing {
	up := p.depths()
	level := func(d Size) uint8 { return uint8(slices.Index(up, uint64(d)) + 1) }
	out := lab.Pausing{
		Up: up, For: duration(p.Pause), Most: duration(p.Ceiling), Interval: duration(p.Interval),
		Ingress: p.To == "ingress",
		From:    congested.PauseFrom{Alarm: level(p.Alarm), Hold: level(p.Hold), Stop: level(p.Stop)},
	}
	for _, d := range up {
		out.Down = append(out.Down, max(d/2, uint64(p.Resume)))
	}
	if len(out.Down) > 0 {
		out.Down[0] = uint64(p.Resume)
	}
	return out
}

func (p *PPFC) line(edge Time) string {
	var steps []string
	for _, step := range []struct {
		at   Size
		name string
	}{{p.Alarm, "alarm"}, {p.Hold, "hold"}, {p.Stop, "stop"}} {
		if step.at > 0 {
			steps = append(steps, fmt.Sprintf("%s from %d octets", step.name, step.at))
		}
	}
	ceiling := p.Ceiling.sim()
	if ceiling == 0 {
		ceiling = sim.From(ppfc.MaxPause)
	}
	to := ""
	if p.To == "ingress" {
		to = fmt.Sprintf(" from routers of the WAN to the ingress PE, which takes %v", edge.sim())
	}
	return fmt.Sprintf("PPFC%s: %s, resume below %d, for %v, one in %v a flow, ceiling %v", to,
		strings.Join(steps, ", "), p.Resume, p.Pause.sim(), p.Interval.sim(), ceiling)
}

func (r *Reaction) isKnown() bool {
	return slices.Contains([]string{"paper", "connectx", "swift", "timely", "none"}, r.Kind)
}

// followsRTT reports whether the reaction point follows the round trip and ignores notifications.
func (r *Reaction) followsRTT() bool { return r.Kind == "swift" || r.Kind == "timely" }

// notified returns the index of the first variant with notifications other than for HPCC, or -1.
func (s *Scenario) notified() int {
	return slices.IndexFunc(s.Variants, func(v lab.Variant) bool { return v != lab.None && !v.HPCC() })
}

// control returns the function for reaction points that follow the round trip, or nil.
func (s *Scenario) control() func(line uint64) lab.Control {
	r := &s.Reaction
	switch r.Kind {
	case "swift":
		const around = 82 + 20 // octets of a frame besides the data, and those between frames
		payload := uint64(s.Host.Payload)
		return func(line uint64) lab.Control {
			return rtt.NewSwift(rtt.DefaultSwift(line, payload, payload+around, duration(r.Target)))
		}
	case "timely":
		return func(line uint64) lab.Control {
			c := rtt.DefaultTimely(line, duration(r.RTT))
			c.Reference = duration(r.Target)
			if r.Min > 0 {
				c.Min = min(uint64(r.Min), line)
			}
			if r.Additive > 0 {
				c.Delta = uint64(r.Additive)
			}
			return rtt.NewTimely(c)
		}
	}
	return nil
}

// point returns the reaction point's parameters for a port.
func (r *Reaction) point(line uint64) reaction.DCQCNConfig {
	c := reaction.DCQCNConfig{}
	switch r.Kind {
	case "paper":
		c = reaction.PaperDCQCN(line)
	case "connectx":
		c = reaction.ConnectX(line)
	}
	if r.Min > 0 {
		c.Min = min(uint64(r.Min), line)
	}
	if r.Additive > 0 {
		c.Additive = uint64(r.Additive)
	}
	if r.Hyper > 0 {
		c.Hyper = uint64(r.Hyper)
	}
	if r.Timer > 0 {
		c.Timer = duration(r.Timer)
	}
	if r.Alpha > 0 {
		c.AlphaTimer = duration(r.Alpha)
	}
	return c
}

// hpcc returns the reaction point's parameters for the variants of HPCC.
func (r *Reaction) hpcc(line uint64) reaction.HPCCConfig {
	c := reaction.PaperHPCC(line, duration(r.RTT))
	c.MaxStage = r.MaxStage
	if r.Additive > 0 {
		c.RAI = uint64(r.Additive)
	}
	return c
}

// config returns the laboratory's configuration of one run.
func (s *Scenario) config(v lab.Variant, seed uint64) lab.Config {
	sw, h := &s.Switch, &s.Host
	control := s.control()
	if v.HPCC() {
		control = nil
	}
	return lab.Config{
		Seed: seed, Variant: v,
		RED: lab.RED{Min: int64(sw.KMin), Max: int64(sw.KMax), Probability: sw.PMax, At: sw.Decide},
		Buffer: lab.Buffer{
			Total: int64(sw.Buffer), Alpha: sw.Alpha, PFC: sw.PFC, XON: int64(sw.XON), Headroom: int64(sw.Headroom),
			Pool: int64(sw.Pool), Reserve: int64(sw.Reserve), Queue: int64(sw.Queue), Watchdog: sw.Watchdog.sim(),
			Trim: sw.Trim,
		},
		Pausing: sw.PPFC.pausing(), TraceHops: sw.TraceHops, Labels: sw.Labels, Idle: duration(sw.LabelIdle),
		Cold: sw.Cold, ColdHosts: h.Cold, Forget: duration(sw.PairIdle),
		Payload: h.Payload, Pipeline: sw.Pipeline.sim(),
		SwitchDelay: sw.NotifyDelay.sim(), ProxyDelay: sw.ProxyDelay.sim(), EdgeDelay: sw.EdgeDelay.sim(),
		PauseDelay:  h.PauseDelay.sim(),
		NoticeLoss:  sw.NotifyLoss,
		SwitchLimit: node.Rate{PerSecond: sw.NotifyLimit}, HostLimit: node.Rate{PerSecond: h.CNPLimit},
		Interval: duration(h.Interval), Join: duration(h.Join), Incapable: h.Incapable, Rejects: h.Rejects,
		ReceiverDelay: h.CNPDelay.sim(), SenderDelay: h.ReactionDelay.sim(),
		Selective: h.Selective, Spray: h.Spray,
		AckEvery: h.AckEvery, Timeout: h.Timeout.sim(), Window: int64(h.Window),
		DataPriority: dataPriority, AckPriority: h.AckPriority, NotificationPriority: h.NotificationPriority,
		Reaction: s.Reaction.point, HPCC: s.Reaction.hpcc, Control: control,
	}
}

func duration(t Time) time.Duration { return time.Duration(t.sim() / sim.Nanosecond) }

// Line describes the conditions of a variant; print it with each of its figures.
func (s *Scenario) Line(v lab.Variant) string { return s.ofVariant(v) + "; " + s.common() }

// ofVariant describes how senders are notified, and how they react.
func (s *Scenario) ofVariant(v lab.Variant) string {
	receiver := "receiver answers at once"
	switch v {
	case lab.None:
		if r := &s.Reaction; r.followsRTT() {
			text := fmt.Sprintf("none: no notifications, reaction %s%s", r.Kind, r.additive())
			if r.RTT > 0 {
				text += fmt.Sprintf(", idle round trip %v", r.RTT.sim())
			}
			if r.Target > 0 {
				text += fmt.Sprintf(", target %v", r.Target.sim())
			}
			return text
		}
		return "none: nobody tells the sender, which never slows down"
	case lab.CNPPolled:
		receiver = "receiver polls"
	case lab.HPCC, lab.HPCCFastCNP, lab.HPCCFastCNPOwn, lab.HPCCBoth:
		how := map[lab.Variant]string{
			lab.HPCC:           "each acknowledgement brings the trace",
			lab.HPCCFastCNP:    "Fast CNPs bring the trace that arrived",
			lab.HPCCFastCNPOwn: "Fast CNPs bring the trace and the switch's own record",
			lab.HPCCBoth:       "acknowledgements bring the trace, Fast CNPs that and the switch's own record",
		}[v]
		line := fmt.Sprintf("%v: HPCC, η 0.95, T %v, at most %d additive steps%s, %s, room for %d ports in it",
			v, s.Reaction.RTT.sim(), s.Reaction.MaxStage, s.Reaction.additive(), how, s.Switch.TraceHops)
		if v != lab.HPCC {
			line += fmt.Sprintf("; one Fast CNP in %v a flow", s.Host.Interval.sim())
		}
		return line
	case lab.Proxy:
		where := "at the first switch"
		if n := s.Topology.Proxy; n > 0 {
			where = fmt.Sprintf("%d links beside the first switch", n)
		}
		receiver = fmt.Sprintf("receiver silent, proxy %s takes %v%s", where, s.Switch.ProxyDelay.sim(), s.learning())
	case lab.FCN:
		receiver = fmt.Sprintf("routers of the WAN send FCNs, ingress PE takes %v%s%s, other switches mark, "+
			"receiver answers at once", s.Switch.EdgeDelay.sim(), s.labels(), s.learning())
	case lab.PPFC, lab.PPFCAndCNP:
		receiver = s.Switch.PPFC.line(s.Switch.EdgeDelay)
		if v == lab.PPFC {
			return fmt.Sprintf("%v: the rate is not cut, %s", v, receiver)
		}
		receiver += ", receiver answers marks at once"
	case lab.FastCNP, lab.Oracle:
		receiver = "receiver silent"
	}
	gate := "no gate"
	if g := s.Reaction.point(uint64(s.Topology.Rate)).Gate; g > 0 {
		gate = fmt.Sprintf("gate of %v", g)
	}
	changed := s.Reaction.additive()
	if r := s.Reaction.Min; r > 0 {
		changed += fmt.Sprintf(", no less than %s", r)
	}
	if r := s.Reaction.Hyper; r > 0 {
		changed += fmt.Sprintf(", R_HAI %s", r)
	}
	if t := s.Reaction.Timer.sim(); t > 0 {
		changed += fmt.Sprintf(", timer %v", t)
	}
	if t := s.Reaction.Alpha.sim(); t > 0 {
		changed += fmt.Sprintf(", α each %v", t)
	}
	return fmt.Sprintf("%v: reaction %s%s, %s at the sender, %s, one in %v a flow", v, s.Reaction.Kind, changed, gate,
		receiver, s.Host.Interval.sim())
}

// additive returns the text for an R_AI in place of the reaction point's own.
func (r *Reaction) additive() string {
	if r.Additive == 0 {
		return ""
	}
	return fmt.Sprintf(", R_AI %s", r.Additive)
}

// buffer describes the buffer of switches, PFC and other settings that differ from the defaults.
func (s *Scenario) buffer() string {
	sw, h := &s.Switch, &s.Host
	text := fmt.Sprintf("PFC %v", sw.PFC)
	if sw.Buffer > 0 {
		text += fmt.Sprintf(", buffer %d octets, alpha %v", sw.Buffer, sw.Alpha)
	}
	if sw.Queue > 0 {
		text += fmt.Sprintf(", a queue %d octets at most", sw.Queue)
	}
	if sw.Trim {
		text += ", packets without space are trimmed"
	}
	if sw.PFC {
		text += fmt.Sprintf(", headroom %d, reserve %d, XON %d", sw.Headroom, sw.Reserve, sw.XON)
		if sw.Pool > 0 {
			text += fmt.Sprintf(", %d headroom of all ports", sw.Pool)
		}
		text += fmt.Sprintf(", pause takes %v", h.PauseDelay.sim())
		if sw.Watchdog > 0 {
			text += fmt.Sprintf(", watchdog after %v", sw.Watchdog.sim())
		}
	}
	if h.Join > 0 {
		text += fmt.Sprintf("; reports within %v are one", h.Join.sim())
	}
	if h.Incapable > 0 {
		text += fmt.Sprintf("; the first %d hosts do not understand Fast CNPs, and receivers answer marks", h.Incapable)
		if h.Rejects {
			text += "; they reject Fast CNPs by ICMPv6"
		}
	}
	other := Default()
	if h.AckEvery != other.Host.AckEvery {
		text += fmt.Sprintf("; an ACK every %d packets", h.AckEvery)
	}
	if h.Timeout != other.Host.Timeout {
		text += fmt.Sprintf("; timeout %v", h.Timeout.sim())
	}
	if h.Cold {
		text += "; hosts learn queue pairs from their packets"
	}
	if h.Selective {
		text += "; only lost packets are retransmitted"
	}
	if h.Spray {
		text += "; each packet takes a path at random"
	}
	if h.Window > 0 {
		text += fmt.Sprintf("; a window of %d octets", h.Window)
	}
	return text
}

// labels returns the text for the labels of an ingress PE.
func (s *Scenario) labels() (text string) {
	if n := s.Switch.Labels; n > 0 {
		text = fmt.Sprintf(", has labels for %d flows", n)
	}
	if idle := s.Switch.LabelIdle.sim(); idle > 0 {
		text += fmt.Sprintf(", takes one back after %v without a packet", idle)
	}
	return text
}

// learning returns the text for proxies and PEs that know no queue pairs at first.
func (s *Scenario) learning() string {
	if s.Switch.Cold {
		text := " and learns queue pairs from what passes"
		if idle := s.Switch.PairIdle.sim(); idle > 0 {
			text += fmt.Sprintf(", and forgets them after %v", idle)
		}
		return text
	}
	return ""
}

// common describes the conditions of all variants.
func (s *Scenario) common() string {
	sw, h := &s.Switch, &s.Host
	limits := ""
	if sw.NotifyLimit > 0 {
		limits += fmt.Sprintf("%v notifications a second and switch; ", sw.NotifyLimit)
	}
	if sw.NotifyLoss > 0 {
		limits += fmt.Sprintf("%v of the notifications lost at each switch; ", sw.NotifyLoss)
	}
	if h.CNPLimit > 0 {
		limits += fmt.Sprintf("%v CNPs a second and host; ", h.CNPLimit)
	}
	red := ""
	if slices.ContainsFunc(s.Variants, lab.Variant.Decides) {
		red = fmt.Sprintf("RED from %d to %d octets, %v, decided at %v; ", sw.KMin, sw.KMax, sw.PMax, sw.Decide)
	}
	return fmt.Sprintf("%sdelays: switch %v, receiver %v, sender %v, pipeline %v; "+
		"%spriority of notifications %d, of ACKs %d, of data %d; %s; %d octets a packet; seeds %s",
		red, sw.NotifyDelay.sim(), h.CNPDelay.sim(), h.ReactionDelay.sim(), sw.Pipeline.sim(),
		limits, h.NotificationPriority, h.AckPriority, dataPriority, s.buffer(), h.Payload,
		strings.Trim(fmt.Sprint(s.Seeds), "[]"))
}
