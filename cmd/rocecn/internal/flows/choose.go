package flows

import (
	"cmp"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/rocecn/rocecn/flows"
	"github.com/rocecn/rocecn/rocev2"
)

// A choice says which flows are shown. Its zero value shows all.
type choice struct {
	addresses []netip.Prefix // source or destination is in one of them
	qps       []uint32       // the queue pair at either end is one of them
	dscps     uint64         // a packet had one of them: bit n for DSCP n
	trouble   bool           // there is something to look into
}

func (c *choice) choosesFlow(f *flows.Flow) bool {
	srcQP := f.SrcQPFrom != 0 && slices.Contains(c.qps, f.SrcQP)
	return c.choosesAddresses(f.Src, f.Dst) &&
		(len(c.qps) == 0 || srcQP || slices.Contains(c.qps, f.DestQP)) &&
		(c.dscps == 0 || f.DSCP&c.dscps != 0) &&
		(!c.trouble || f.Trouble() > 0)
}

// isPartial reports whether the choice excludes anything.
func (c *choice) isPartial() bool {
	return len(c.addresses) > 0 || len(c.qps) > 0 || c.dscps != 0 || c.trouble
}

// choosesUnpaired reports whether unpaired answers are chosen. Their DSCP is unknown. They are chosen with -trouble if
// they report trouble.
func (c *choice) choosesUnpaired(u *flows.Unpaired) bool {
	return c.choosesAddresses(u.Src, u.Dst) && c.dscps == 0 &&
		(len(c.qps) == 0 || u.WithQP && slices.Contains(c.qps, u.DestQP)) &&
		(!c.trouble || u.Total() > u.ACKs)
}

func (c *choice) choosesSampled(s *flows.Sampled) bool {
	return c.choosesAddresses(s.Src, s.Dst) && (c.dscps == 0 || s.DSCP&c.dscps != 0) &&
		(len(c.qps) == 0 || s.WithQP && slices.Contains(c.qps, s.DestQP)) &&
		(!c.trouble || s.ECN[rocev2.CE]+s.Answers.Total()+countDiscards(s.Discards) > s.ACKs)
}

func (c *choice) choosesLink(l *flows.Link) bool {
	return len(c.addresses) == 0 && len(c.qps) == 0 && c.dscps == 0
}

func (c *choice) choosesAddresses(src, dst netip.Addr) bool {
	return len(c.addresses) == 0 || slices.ContainsFunc(c.addresses, func(p netip.Prefix) bool {
		return p.Contains(src) || p.Contains(dst)
	})
}

// apply reduces a snapshot to the chosen flows.
func (c *choice) apply(s *flows.Snapshot) {
	s.Flows = slices.DeleteFunc(s.Flows, func(f flows.Flow) bool { return !c.choosesFlow(&f) })
	s.Unpaired = slices.DeleteFunc(s.Unpaired, func(u flows.Unpaired) bool { return !c.choosesUnpaired(&u) })
	s.Links = slices.DeleteFunc(s.Links, func(l flows.Link) bool { return !c.choosesLink(&l) })
}

func (c *choice) addAddress(list string) error {
	return parseEach(list, func(word string) error {
		p, err := netip.ParsePrefix(word)
		if a, err2 := netip.ParseAddr(word); err2 == nil {
			p, err = netip.PrefixFrom(a, a.BitLen()), nil
		}
		if err != nil {
			return fmt.Errorf("%q: want an address or a prefix", word)
		}
		c.addresses = append(c.addresses, p.Masked())
		return nil
	})
}

func (c *choice) addQP(list string) error {
	return eachNumber(list, 24, "a queue pair, 0 to 0xffffff", func(n uint64) { c.qps = append(c.qps, uint32(n)) })
}

func (c *choice) addDSCP(list string) error {
	return eachNumber(list, 6, "a DSCP, 0 to 63", func(n uint64) { c.dscps |= 1 << n })
}

func eachNumber(list string, bits int, what string, add func(n uint64)) error {
	return parseEach(list, func(word string) error {
		n, err := strconv.ParseUint(word, 0, bits)
		if err != nil {
			return fmt.Errorf("%q: want %s", word, what)
		}
		add(n)
		return nil
	})
}

func parseEach(list string, add func(word string) error) error {
	for word := range strings.SplitSeq(list, ",") {
		if err := add(strings.TrimSpace(word)); err != nil {
			return err
		}
	}
	return nil
}

// An order puts flows in the order of the lines.
type order func(a, b *flows.Flow) int

// orders are those that have a name of their own.
var orders = map[string]order{
	"trouble": func(a, b *flows.Flow) int {
		return cmp.Or(cmp.Compare(b.Trouble(), a.Trouble()), cmp.Compare(b.Data.Packets, a.Data.Packets))
	},
	"src":   func(a, b *flows.Flow) int { return 0 }, // as the keys have it
	"dst":   func(a, b *flows.Flow) int { return a.Dst.Compare(b.Dst) },
	"first": func(a, b *flows.Flow) int { return a.First.Compare(b.First) },
	"last":  func(a, b *flows.Flow) int { return a.Last.Compare(b.Last) },
}

// orderOf returns the order with a name: one of orders, or a metric in descending order, with flows without the metric
// last.
func orderOf(name string) (order, error) {
	if o := orders[name]; o != nil {
		return o, nil
	}
	m, err := metricOf(name)
	if err != nil {
		return nil, err
	}
	value := func(f *flows.Flow) float64 {
		if n, ok := m.of(f); ok {
			return n
		}
		return math.Inf(-1)
	}
	return func(a, b *flows.Flow) int { return cmp.Compare(value(b), value(a)) }, nil
}

// sort puts flows in order; those that are equal in the order of their keys.
func (o order) sort(all []flows.Flow) {
	rows := make([]int, len(all)) // sorting the flows themselves would copy each many times
	for i := range rows {
		rows[i] = i
	}
	slices.SortFunc(rows, func(i, j int) int {
		a, b := &all[i], &all[j]
		return cmp.Or(o(a, b), a.FlowKey.Compare(b.FlowKey))
	})
	for i := range rows { // along each cycle, every flow moves to its place
		first := all[i]
		for to := i; rows[to] >= 0; {
			from := rows[to]
			rows[to] = -1
			if from == i {
				all[to] = first
				break
			}
			all[to] = all[from]
			to = from
		}
	}
}
