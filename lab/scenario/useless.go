package scenario

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rocecn/rocecn/lab"
)

// checkUseless returns an error for the first given key that has no effect in the scenario: the author probably means
// another scenario.
func (s *Scenario) checkUseless(given []string) error {
	rules := map[string][]rule{} // by key
	for _, r := range s.uselessRules() {
		for key := range strings.FieldsSeq(r.keys) {
			rules[key] = append(rules[key], r)
		}
	}
	for _, key := range given {
		name, traffic := key, -1
		if _, err := fmt.Sscanf(key, "traffic[%d].", &traffic); err == nil {
			name = "traffic" + key[strings.IndexByte(key, '.'):]
		}
		for _, r := range rules[name] {
			used := r.used
			if r.kinds != nil && traffic >= 0 {
				used = slices.Contains(r.kinds, s.Traffic[traffic].Kind)
			}
			if !used {
				return &KeyError{key, "has no effect " + r.without}
			}
		}
	}
	return nil
}

// A rule is a condition under which keys have an effect.
type rule struct {
	keys    string
	used    bool
	kinds   []string // instead of `heard`: the kinds of traffic for which the keys have an effect
	without string
}

func (s *Scenario) uselessRules() []rule {
	const usual = "with 0s, which stands for the default"
	t := &s.Topology
	isLine, leaved, wan := t.Kind == "line", t.hasLeaves(), t.hasWAN()
	some := func(is func(lab.Variant) bool) bool { return slices.ContainsFunc(s.Variants, is) }
	one := func(v lab.Variant) bool { return slices.Contains(s.Variants, v) }
	dcqcn := some(func(v lab.Variant) bool { return !v.HPCC() })
	in := "with topology.kind " + t.Kind
	red, answers := some(lab.Variant.Decides), some(lab.Variant.Answers)
	asks := some(func(v lab.Variant) bool { return switchSends(v) || v == lab.Oracle })
	sends := some(switchSends)
	trip := s.Reaction.followsRTT()
	cuts := some(func(v lab.Variant) bool { return v != lab.None && v != lab.PPFC && !v.HPCC() })
	return []rule{
		{keys: "switch.kmin switch.kmax switch.pmax switch.decide host.interval", used: red,
			without: "without a variant that decides by RED"},
		{keys: "switch.notify_delay", used: sends, without: "without a variant in which switches notify, with delay"},
		{keys: "switch.notify_limit", used: asks, without: "without a variant in which switches notify"},
		{keys: "switch.notify_loss host.notification_priority host.reaction_delay", used: sends || answers,
			without: "without a variant that has notifications, with delay"},
		{keys: "host.join host.cold", used: asks || answers, without: "without a variant that has notifications"},
		{keys: "host.cnp_delay host.cnp_limit", used: answers, without: "without a variant in which receivers answer"},
		{keys: "host.incapable", used: some(usesFastCNP), without: "without a variant with Fast CNPs and DCQCN"},
		{keys: "host.rejects", used: one(lab.FastCNPMarks) && s.Host.Incapable > 0,
			without: "without host.incapable and the variant fastcnp-marks"},
		{keys: "host.window", used: dcqcn && s.Reaction.Kind != "swift",
			without: "with swift and variants of hpcc, which have a window of their own"},
		{keys: "host.ack_every", used: dcqcn, without: "with variants of hpcc, which acknowledge each packet"},
		{keys: "reaction.kind reaction.min reaction.hyper reaction.timer reaction.alpha_timer", used: cuts || trip,
			without: "without a variant that cuts by DCQCN"},
		{keys: "reaction.additive", used: cuts || some(lab.Variant.HPCC) || s.Reaction.Kind == "timely",
			without: "without a variant that cuts the rate"},
		{keys: "topology.hosts", used: t.Kind != "fat-tree", without: in},
		{keys: "topology.k", used: t.Kind == "fat-tree", without: in},
		{keys: "topology.switches", used: isLine || t.Kind == "circle", without: in},
		{keys: "topology.slow_hop topology.between", used: isLine, without: in},
		{keys: "topology.leaves topology.spines", used: leaved, without: in},
		{keys: "topology.between", used: !isLine || t.Switches > 2,
			without: "without switches between the first and the last"},
		{keys: "topology.trunk", used: t.Kind != "star" && !(isLine && t.Switches == 1) || t.Proxy > 0,
			without: "with one switch, and no proxy beside it"},
		{keys: "topology.wan topology.distance", used: wan, without: in},
		{keys: "topology.position", used: wan && t.Kind != "fork", without: in},
		{keys: "topology.slow_rate", used: wan || isLine && t.SlowHop > 0,
			without: "without slow_hop in a line, or a WAN"},
		{keys: "switch.alpha", used: s.Switch.Buffer > 0, without: "without buffer"},
		{keys: "switch.trim", used: s.Switch.Buffer > 0 || s.Switch.Queue > 0, without: "without buffer or queue"},
		{keys: "switch.headroom switch.headroom_pool switch.reserve switch.xon switch.watchdog host.pause_delay",
			used: s.Switch.PFC, without: "without pfc"},
		{keys: "switch.proxy_delay topology.proxy_hops", used: one(lab.Proxy), without: "without the variant proxy"},
		{keys: "switch.labels switch.label_idle", used: one(lab.FCN), without: "without the variant fcn"},
		{keys: "switch.cold", used: one(lab.FCN) || one(lab.Proxy), without: "without the variants fcn and proxy"},
		{keys: "switch.pair_idle", used: s.Switch.Cold, without: "without cold"},
		{keys: "switch.edge_delay", used: one(lab.FCN) || s.Switch.PPFC.To == "ingress",
			without: "without the variant fcn, and switch.ppfc.to ingress"},
		{keys: "switch.ppfc", used: one(lab.PPFC) || one(lab.PPFCAndCNP), without: "without a variant of ppfc"},
		{keys: "switch.trace_hops reaction.max_stage", used: some(lab.Variant.HPCC),
			without: "without a variant of hpcc"},
		{keys: "reaction.rtt", used: some(lab.Variant.HPCC) || s.Reaction.Kind == "timely",
			without: "without a variant of hpcc, and reaction.kind timely"},
		{keys: "reaction.target", used: trip, without: "without reaction.kind swift or timely"},
		{keys: "reaction.hyper reaction.timer reaction.alpha_timer", used: s.Reaction.Kind != "none" && !trip,
			without: "without DCQCN"},
		{keys: "reaction.min", used: s.Reaction.Kind != "none" && s.Reaction.Kind != "swift",
			without: "without DCQCN and reaction.kind timely"},
		{keys: "reaction.additive", used: some(lab.Variant.HPCC) || s.Reaction.Kind != "none",
			without: "without a reaction"},
		{keys: "reaction.timer", used: s.Reaction.Timer > 0, without: usual},
		{keys: "reaction.alpha_timer", used: s.Reaction.Alpha > 0, without: usual},
		{keys: "switch.label_idle", used: s.Switch.LabelIdle > 0, without: usual},
		{keys: "switch.pair_idle", used: s.Switch.PairIdle > 0, without: usual},
		{keys: "switch.ppfc.ceiling", used: s.Switch.PPFC.Ceiling > 0, without: usual},
		{keys: "traffic.senders", kinds: []string{"incast", "bursts"},
			without: "with other kinds than incast and bursts"},
		{keys: "traffic.sizes traffic.points", kinds: []string{"poisson"}, without: "with other kinds than poisson"},
		{keys: "traffic.persistent", kinds: []string{"poisson", "bursts"},
			without: "with other kinds than poisson and bursts"},
		{keys: "traffic.messages", kinds: []string{"list"}, without: "with other kinds than list"},
		{keys: "traffic.at",
			kinds: []string{"incast", "across", "permutation", "all-to-all", "ring", "tree", "pairs", "poisson",
				"bursts"},
			without: "with list"},
		{keys: "traffic.load", kinds: []string{"poisson", "bursts"},
			without: "with other kinds than poisson and bursts"},
		{keys: "traffic.pairs", kinds: []string{"pairs"}, without: "with other kinds than pairs"},
		{keys: "traffic.flows", kinds: []string{"across"}, without: "with other kinds than across"},
		{keys: "traffic.every", kinds: []string{"incast", "across", "permutation", "all-to-all", "pairs"},
			without: "with messages that are posted otherwise"},
		{keys: "traffic.order traffic.steps", kinds: []string{"ring"}, without: "with other kinds than ring"},
		{keys: "traffic.size",
			kinds:   []string{"incast", "across", "permutation", "all-to-all", "ring", "tree", "pairs", "bursts"},
			without: "with poisson and list"},
		{keys: "traffic.jitter",
			kinds:   []string{"incast", "across", "permutation", "all-to-all", "ring", "tree", "pairs"},
			without: "with poisson, bursts and list"},
	}
}

// usesFastCNP reports whether switches send Fast CNPs without a trace.
func usesFastCNP(v lab.Variant) bool { return v == lab.FastCNP || v == lab.FastCNPMarks }

// switchSends reports whether switches send notifications that take time.
func switchSends(v lab.Variant) bool {
	return slices.Contains([]lab.Variant{lab.FastCNP, lab.FastCNPMarks, lab.Proxy, lab.FCN, lab.PPFC, lab.PPFCAndCNP,
		lab.HPCCFastCNP, lab.HPCCFastCNPOwn, lab.HPCCBoth}, v)
}
