package scenario

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rocecn/rocecn/lab"
	"github.com/rocecn/rocecn/lab/sim"
)

// Traffic is one kind of traffic between hosts.
//
//	incast       the first Senders hosts to the last host
//	across       each host of the first half to its counterpart in the second: through a line or WAN
//	permutation  each host to another one, drawn by the seed
//	all-to-all   each host to each other one
//	ring         all-reduce: each host to the next, 2(n−1) pieces, each when the one before has come
//	tree         all-reduce: to the root of a binary tree and back, n pieces, each when it has come from all children
//	pairs        from one host to another, by their numbers from 0; the same pair again is another flow
//	poisson      messages between random hosts, at random times
//	bursts       from Senders random hosts to another one at the same time, at random times
//	list         Messages, each of a flow of its own
type Traffic struct {
	Kind    string   `json:"kind"`
	Senders int      `json:"senders"`
	Size    Size     `json:"size"`  // of a message; in a ring or tree, of all data of a host; 0: endless
	Order   string   `json:"order"` // of a ring: "scattered", by lot; "rails", a ring for each host of a leaf
	Steps   int      `json:"steps"` // of a ring: the pieces that a host sends; 0: all
	At      Time     `json:"at"`
	Every   Time     `json:"every"`  // a flow posts another message this long after the one before; 0: one alone
	Flows   int      `json:"flows"`  // of across: from each host; 0 is 1
	Jitter  Time     `json:"jitter"` // each flow begins up to this much later
	Sizes   string   `json:"sizes"`  // of poisson: WebSearch, FB_Hadoop or AliStorage2019, or empty with Points
	Load    float64  `json:"load"`   // of poisson and bursts: the data, as a share of the links of hosts
	Pairs   [][2]int `json:"pairs"`
	Rate    Rate     `json:"rate"` // the maximum of a flow; 0: the rate of its host's link

	// Points is a distribution of sizes of poisson: octets and percent, linear between points, from 0 to 100 %.
	Points [][2]float64 `json:"points"`

	// Persistent: a message of poisson or bursts finds the reaction point of its queue pair as the message before it
	// has left it. Otherwise each message starts as a new flow.
	Persistent bool `json:"persistent"`

	Messages []Message `json:"messages"` // of list
}

// A Message is an entry of a list.
type Message struct {
	From int  `json:"from"` // number of the host, from 0
	To   int  `json:"to"`
	Size Size `json:"size"`
	At   Time `json:"at"`
}

const maxPairs = 1 << 18

// checkTraffic returns the first error of the traffic. key begins the names of its keys.
func (t *Traffic) checkTraffic(key string, s *Scenario) error {
	top := &s.Topology
	_, sizes := distributions[t.Sizes]
	message, text := t.wrongMessage(s)
	for _, wrong := range []struct {
		is        bool
		key, text string
	}{
		{!slices.Contains([]string{"incast", "across", "permutation", "all-to-all", "ring", "tree", "pairs",
			"poisson", "bursts", "list"}, t.Kind), "kind",
			"want incast, across, permutation, all-to-all, ring, tree, pairs, poisson, bursts or list"},
		{t.Kind == "list" && (len(t.Messages) == 0 || len(t.Messages) > maxMessages), "messages",
			fmt.Sprintf("want 1 to %d", maxMessages)},
		{text != "", message, text},
		{t.Kind == "pairs" && (len(t.Pairs) == 0 || len(t.Pairs) > maxPairs), "pairs",
			fmt.Sprintf("want 1 to %d", maxPairs)},
		{slices.ContainsFunc(t.Pairs, func(p [2]int) bool {
			return min(p[0], p[1]) < 0 || max(p[0], p[1]) >= top.hostCount() || p[0] == p[1]
		}), "pairs", "want two different hosts, from 0 on"},
		{top.hostCount() < 2, "kind", "want at least two hosts"},
		{(t.Kind == "incast" || t.Kind == "bursts") && (t.Senders < 1 || t.Senders >= top.hostCount()), "senders",
			"want 1 to the number of hosts less one"},
		{uint64(t.Rate) > uint64(top.Rate), "rate", "want at most topology.rate"},
		{t.Rate > 0 && t.Rate < s.Reaction.Min, "rate", "want at least reaction.min"},
		{slices.Contains([]string{"all-to-all", "ring", "tree", "bursts"}, t.Kind) && t.Size == 0, "size",
			"want more than 0"},
		{!slices.Contains([]string{"", "scattered", "rails"}, t.Order), "order", "want scattered or rails"},
		{t.Order == "rails" && (top.Kind != "leaf-spine" || top.Leaves < 2), "order",
			"want topology.kind leaf-spine with at least two leaves"},
		{t.Kind == "ring" && (t.Steps < 0 || t.Steps > t.pieceCount(top)), "steps",
			fmt.Sprintf("want 0 to %d", t.pieceCount(top))},
		{int64(t.Size)/int64(s.Host.Payload) >= 1<<31, "size", "want fewer than 2^31 packets of host.payload"},
		{t.Kind == "across" && top.hostCount()%2 != 0, "kind", "want an even number of hosts"},
		{t.Every > 0 && t.Size == 0, "every", "want messages with an end: set size"},
		{t.Flows < 0 || t.Flows > maxPairs/top.hostCount(), "flows",
			fmt.Sprintf("want 0 or more, at most %d in all", maxPairs)},
		{t.At >= s.Duration, "at", "want less than duration"},
		{t.Jitter > s.Duration-t.At, "jitter", "want at most duration less at"},
		{t.Kind == "all-to-all" && top.hostCount() > 512, "kind", "want at most 512 hosts"},
		{t.Kind == "poisson" && len(t.Points) == 0 && !sizes, "sizes",
			"want WebSearch, FB_Hadoop or AliStorage2019, or points"},
		{t.Kind == "poisson" && len(t.Points) > 0 && t.Sizes != "", "sizes", "want no sizes with points"},
		{t.Kind == "poisson" && len(t.Points) > 0 && !distribution(t.Points).isValid(), "points",
			"want at least two pairs of octets and percent, both rising, at most 1 TB, from 0 to 100 %"},
		{(t.Kind == "poisson" || t.Kind == "bursts") && !(t.Load > 0 && t.Load < 1), "load",
			"want more than 0, less than 1"},
	} {
		if wrong.is {
			return &KeyError{key + wrong.key, wrong.text}
		}
	}
	if t.Kind == "poisson" || t.Kind == "bursts" {
		if mean := t.meanInterval(top); mean < minBetween || mean > maxBetween {
			return &KeyError{key + "load", fmt.Sprintf("%.3g s between two arrivals, want 100 ps to 1h",
				mean)}
		}
	}
	if t.Every > 0 && float64(t.packetCount(s))*(1+float64(s.Duration-t.At)/float64(t.Every)) >= 1<<31 {
		return &KeyError{key + "every", "want fewer than 2^31 packets of a flow until the end of duration"}
	}
	if late := t.lateStart(s); s.Host.Timeout > 0 && late >= s.Host.Timeout.sim().Seconds() &&
		slices.ContainsFunc(s.Variants, func(v lab.Variant) bool { return !v.HPCC() }) {
		return &KeyError{"host.timeout", fmt.Sprintf("want more than %v, or a smaller host.ack_every: %s takes "+
			"that long to send the packets of one acknowledgement", toDuration(late),
			strings.TrimSuffix(key, "."))}
	}
	return nil
}

// maxMessages is the maximum number of messages in a list.
const maxMessages = 1 << 16

// wrongMessage returns the key and the wanted value of the first wrong message of a list.
func (t *Traffic) wrongMessage(s *Scenario) (key, text string) {
	hosts := s.Topology.hostCount()
	for i, m := range t.Messages {
		key := fmt.Sprintf("messages[%d].", i)
		switch {
		case m.From < 0 || m.From >= hosts:
			return key + "from", "want a host, from 0 on"
		case m.To < 0 || m.To >= hosts || m.To == m.From:
			return key + "to", "want another host, from 0 on"
		case m.Size == 0:
			return key + "size", "want more than 0"
		case int64(m.Size)/int64(s.Host.Payload) >= 1<<31:
			return key + "size", "want fewer than 2^31 packets of host.payload"
		case m.At >= s.Duration:
			return key + "at", "want less than duration"
		}
	}
	return "", ""
}

// distribution returns the sizes of poisson.
func (t *Traffic) distribution() distribution {
	if len(t.Points) > 0 {
		return t.Points
	}
	return distributions[t.Sizes]
}

// lateStart returns the time in seconds between the first and the last of the packets that one acknowledgement
// confirms.
func (t *Traffic) lateStart(s *Scenario) float64 {
	packets := int64(s.Host.AckEvery)
	if n := t.packetCount(s); n > 0 {
		packets = min(packets, n)
	}
	rate := t.Rate
	if rate == 0 {
		rate = s.Topology.Rate
	}
	const around = 82 + 20 // the octets of a frame besides the data, and those between frames
	return float64((packets-1)*(int64(s.Host.Payload)+around)) * 8 / float64(rate)
}

// toDuration returns seconds as a duration.
func toDuration(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// meanInterval returns the mean time between two arrivals of poisson or bursts, in seconds.
func (t *Traffic) meanInterval(top *Topology) float64 {
	octets := float64(t.Senders) * float64(t.Size)
	if t.Kind == "poisson" {
		octets = t.distribution().meanOctets()
	}
	return octets / (float64(top.Rate) / 8 * t.Load * float64(top.hostCount()))
}

// The mean times between two arrivals that there may be, in seconds: picoseconds are whole, and there are 106 days of
// them.
const (
	minBetween = 100e-12
	maxBetween = 3600
)

// messageOctets returns the octets of a message, of a ring or tree those of a piece; 0 if it has no end, or a size by
// lot.
func (t *Traffic) messageOctets(top *Topology) int64 {
	if t.Kind == "ring" || t.Kind == "tree" {
		return max(int64(t.Size)/int64(t.rankCount(top)), 1)
	}
	return int64(t.Size)
}

// packetCount returns the packets of a message; 0 where message does.
func (t *Traffic) packetCount(s *Scenario) int64 {
	payload := int64(s.Host.Payload)
	return (t.messageOctets(&s.Topology) + payload - 1) / payload
}

// startTraffic starts the traffic of a run. number is the traffic's index in the scenario.
func (t *Traffic) startTraffic(r *run, number int, top *Topology) error {
	n := r.net
	hosts := n.Hosts()
	jitter := n.Stream("starts", number)
	send := func(from, to *lab.Host) error {
		f, err := n.Flow(from, to, sim.Rate(t.Rate))
		if err != nil {
			return err
		}
		at := t.At.sim()
		if t.Jitter > 0 {
			at += sim.Time(jitter.Below(uint64(t.Jitter)))
		}
		switch {
		case t.Every > 0:
			m := &repeated{n, f, int64(t.Size), t.Every.sim(), 0}
			m.id = n.Sim.Add(m)
			n.Sim.Schedule(at, sim.Application, m.id, 0)
		case t.Size == 0:
			r.endless[f] = true
			n.RunAt(at, f.Endless)
		default:
			n.RunAt(at, func() { f.Post(int64(t.Size)) })
		}
		return nil
	}
	switch t.Kind {
	case "incast":
		for _, h := range hosts[:t.Senders] {
			if err := send(h, hosts[len(hosts)-1]); err != nil {
				return err
			}
		}
	case "across":
		half := len(hosts) / 2
		for i, h := range hosts[:half] {
			for range max(t.Flows, 1) {
				if err := send(h, hosts[half+i]); err != nil {
					return err
				}
			}
		}
	case "pairs":
		for _, p := range t.Pairs {
			if err := send(hosts[p[0]], hosts[p[1]]); err != nil {
				return err
			}
		}
	case "permutation":
		draws := n.Stream("permutation", number)
		order := shuffleNumbers(len(hosts), &draws)
		for i, from := range order {
			if err := send(hosts[from], hosts[order[(i+1)%len(order)]]); err != nil {
				return err
			}
		}
	case "all-to-all":
		for i := range hosts {
			for j := 1; j < len(hosts); j++ {
				if err := send(hosts[i], hosts[(i+j)%len(hosts)]); err != nil {
					return err
				}
			}
		}
	case "list":
		for _, m := range t.Messages {
			f, err := n.Flow(hosts[m.From], hosts[m.To], sim.Rate(t.Rate))
			if err != nil {
				return err
			}
			n.RunAt(m.At.sim(), func() { f.Post(int64(m.Size)) })
		}
	case "ring":
		return t.startRing(r, number, top)
	case "tree":
		return t.startTree(r, number, top)
	case "poisson", "bursts":
		p := &poisson{
			r: r, number: number, sizes: t.distribution(), persistent: t.Persistent,
			arrivals: n.Stream("arrivals", number), draws: n.Stream("sizes", number), pairs: n.Stream("pairs", number),
			rate: sim.Rate(t.Rate), idle: map[[2]int][]*lab.Flow{}, mine: map[*lab.Flow][2]int{},
		}
		if t.Kind == "bursts" {
			p.burst, p.size = t.Senders, int64(t.Size)
		}
		p.mean = sim.Time(t.meanInterval(top) * float64(sim.Second))
		p.id = n.Sim.Add(p)
		r.done = append(r.done, p.countFinished)
		n.Sim.Schedule(t.At.sim()+p.arrivals.Exponential(p.mean), sim.Application, p.id, 0)
	}
	return nil
}

// repeated posts messages of a flow, one after the other.
type repeated struct {
	net   *lab.Network
	flow  *lab.Flow
	size  int64
	every sim.Time
	id    sim.ID
}

func (m *repeated) Handle(uint32) {
	m.flow.Post(m.size)
	m.net.Sim.Schedule(m.net.Sim.Now()+m.every, sim.Application, m.id, 0)
}

// shuffleNumbers returns the numbers below n in random order.
func shuffleNumbers(n int, draws *sim.Stream) []int {
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	for i := n - 1; i > 0; i-- {
		j := draws.Below(uint64(i + 1))
		order[i], order[j] = order[j], order[i]
	}
	return order
}

// A distribution is a list of points of size and percent, linear between them.
type distribution [][2]float64

// Points as used by alibaba-edu/High-Precision-Congestion-Control, traffic_gen.
var distributions = map[string]distribution{
	"WebSearch": {
		{0, 0}, {10e3, 15}, {20e3, 20}, {30e3, 30}, {50e3, 40}, {80e3, 53}, {200e3, 60}, {1e6, 70}, {2e6,
			80}, {5e6, 90},
		{10e6, 97}, {30e6, 100},
	},
	"FB_Hadoop": {
		{0, 0}, {100, 1}, {200, 2}, {300, 5}, {350, 15}, {400, 20}, {500, 30}, {600, 40}, {700, 50}, {1000,
			60}, {2000, 67},
		{7000, 70}, {30e3, 72}, {50e3, 82}, {80e3, 87}, {120e3, 90}, {300e3, 95}, {1e6, 97.5}, {2e6, 99}, {10e6, 100},
	},
	"AliStorage2019": {
		{0, 0}, {4000, 22.93}, {8000, 69.21}, {16e3, 80.61}, {32e3, 90.47}, {64e3, 93.53}, {128e3,
			96.77}, {256e3, 97.53},
		{2e6, 100},
	},
}

// isValid reports whether the points rise, and go from 0 to 100 %.
func (d distribution) isValid() bool {
	if len(d) < 2 || d[0][1] != 0 || d[len(d)-1][1] != 100 || !(d[0][0] >= 0 && d[len(d)-1][0] <= 1e12) {
		return false
	}
	for i := range d[1:] {
		if !(d[i+1][0] > d[i][0] && d[i+1][1] > d[i][1]) {
			return false
		}
	}
	return true
}

func (d distribution) meanOctets() (mean float64) {
	for i := range d[1:] {
		mean += (d[i][0] + d[i+1][0]) / 2 * (d[i+1][1] - d[i][1]) / 100
	}
	return mean
}

// drawOctets returns the size at a share of the distribution.
func (d distribution) drawOctets(share float64) int64 {
	percent := share * 100
	for i := range d[1:] {
		if a, b := d[i], d[i+1]; percent <= b[1] {
			return max(int64(a[0]+(b[0]-a[0])*(percent-a[1])/(b[1]-a[1])), 1)
		}
	}
	return int64(d[len(d)-1][0])
}
