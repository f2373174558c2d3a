package triage

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/flows"
)

// minWrong is the number of answers of one kind, all with a wrong ICRC, that are no accident: a link
// that corrupts even one packet in a hundred does so with a probability of one in a million.
const minWrong = 3

// An answerKind is a kind of answers of a source.
type answerKind struct {
	from netip.Addr // invalid for messages of nodes that name their flow: any node on the path may have sent them
	kind string
}

// A wrongCount counts the answers of one kind from a source.
type wrongCount struct {
	wrong, right uint64
	sign         flows.Sign
	flows        []*flows.Flow
}

// findWrongICRC finds hosts and nodes that compute the ICRC of their answers or notifications incorrectly,
// or the UDP checksum of FCNs and messages to proxies.
//
// Evidence: all answers of one kind from one source (ACKs, NAKs, RNR NAKs, CNPs, Fast CNPs, PPFCs, FCNs or
// messages to proxies) are wrong. The capture shows it only in complete packets. Hosts drop such packets, so
// they have no effect; the hosts that drop them are not at fault. A link that corrupts packets does not
// corrupt all of one kind and no other. If only some are wrong, it is [CauseCorrupt].
func findWrongICRC(v *view) {
	counts := map[answerKind]*wrongCount{}
	var order []answerKind
	add := func(from netip.Addr, kind string, wrong, right uint64, sign flows.Sign, f *flows.Flow) {
		if wrong+right == 0 {
			return
		}
		k := answerKind{from, kind}
		c := counts[k]
		if c == nil {
			c = &wrongCount{}
			counts[k] = c
			order = append(order, k)
		}
		c.wrong, c.right = c.wrong+wrong, c.right+right
		if wrong > 0 {
			c.sign = addSigns(c.sign, sign)
			if f != nil {
				c.flows = append(c.flows, f)
			}
		}
	}
	addAll := func(from netip.Addr, a *flows.Answers, sign flows.Sign, f *flows.Flow) {
		var naks uint64
		for _, n := range a.NAKs() {
			naks += n
		}
		add(from, "ACK", a.Wrong.ACKs, a.ACKs, sign, f)
		add(from, "NAK", a.Wrong.NAKs, naks, sign, f)
		add(from, "RNR NAK", a.Wrong.RNRNAKs, a.RNRNAKs, sign, f)
		add(from, "CNP", a.Wrong.CNPs, a.CNPs, sign, f)
	}
	addNotices := func(from netip.Addr, a *flows.Answers, sign flows.Sign, f *flows.Flow) {
		add(from, "Fast CNP", a.Wrong.FastCNPs, a.FastCNPs, sign, f)
		add(from, "PPFC", a.Wrong.PPFC, a.PPFC, sign, f)
		add(from, "FCN", a.Wrong.FCN, a.FCN, sign, f)
		add(from, "proxy message", a.Wrong.Proxy, a.Proxy, sign, f)
	}
	for _, f := range v.flows {
		sign := *f.Evidence.Sign(flows.SignWrongAnswer)
		addAll(f.Dst, &f.Answers, sign, f)
		addNotices(netip.Addr{}, &f.Answers, sign, f)
	}
	for i := range v.Unpaired {
		u := &v.Unpaired[i]
		addAll(u.Src, &u.Answers, u.WrongAnswer, v.flowOf(u))
		addNotices(u.Src, &u.Answers, u.WrongAnswer, v.flowOf(u))
	}
	for _, k := range order {
		c := counts[k]
		switch {
		case c.wrong == 0 || c.sign.Count == 0:
			continue
		case c.wrong < minWrong || c.right > 0:
			v.addCorruptAnswers(k, c)
			continue
		}
		what, covers := "ICRC", "the ICRC covers the packet from the IP header on, with variable fields set to 1"
		if k.kind == "FCN" || k.kind == "proxy message" {
			what, covers = "UDP checksum", "it covers the addresses as well"
		}
		from, party, suspects := k.from.String(), k.from.String(), []string(nil)
		filter := filterFrames(c.sign)
		if k.from.IsValid() {
			filter = joinAnd(filterAddress("src", k.from), filter)
		} else {
			from, party, suspects = "nodes on the path", "", []string{"the node that sends these " + k.kind + "s"}
		}
		effect := ""
		if k.kind == "ACK" {
			for _, f := range c.flows {
				v.withoutAnswers[f.FlowKey] = true
			}
		}
		if n := countRetransmitted(c.flows); k.kind == "ACK" && n > 0 {
			effect = " Their senders get no answer: " + formatCountWas(n, "packet") + " retransmitted."
		}
		v.addVerdict(Verdict{
			Cause: CauseWrongICRC, Party: party, Suspects: suspects, Since: c.sign.Since, Until: c.sign.Until,
			Excluded: []string{"a link that corrupts packets: it would not hit all packets of one kind",
				"the hosts that drop them"},
			Text: fmt.Sprintf("All %s from %v have a wrong %s, from %s on. Hosts drop such packets, so they have no "+
				"effect.%s", formatCount(c.wrong, k.kind), from, what, formatStart(c.sign), effect),
			Next: "Check the program or adapter that writes them: " + covers + ".",
			Frames: limitFrames([]Frame{{c.sign.First, "answer with a wrong ICRC"},
				{c.sign.Last, "answer with a wrong ICRC"}}),
			Filter: filter,
		}, c.flows)
	}
}

// countRetransmitted returns the number of retransmissions of flows.
func countRetransmitted(all []*flows.Flow) uint64 {
	return sumOf(all, func(f *flows.Flow) uint64 { return f.PSN.Retransmitted })
}

// addCorruptAnswers adds a verdict about a source from which some answers of one kind have a wrong ICRC or UDP
// checksum.
func (v *view) addCorruptAnswers(k answerKind, c *wrongCount) {
	from, filter := "nodes on the path", filterFrames(c.sign)
	if k.from.IsValid() {
		from, filter = k.from.String(), joinAnd(filterAddress("src", k.from), filter)
	}
	v.addVerdict(Verdict{
		Cause: CauseCorrupt, Since: c.sign.Since, Until: c.sign.Until,
		Suspects: []string{"a link or node before the capture point", from},
		Text: fmt.Sprintf("%d of %s from %s had a wrong ICRC or checksum (%s), from %s on. Hosts drop such packets.",
			c.wrong, formatCount(c.wrong+c.right, k.kind), from, formatShare(c.wrong, c.wrong+c.right),
			formatStart(c.sign)),
		Next: "Look for CRC and symbol errors on the ports between this sender and the capture point, the sender's " +
			"cable first.",
		Frames: limitFrames([]Frame{{c.sign.First, flows.SignWrongAnswer.String()},
			{c.sign.Last, flows.SignWrongAnswer.String()}}),
		Filter: filter,
	}, c.flows)
}

// flowOf returns the only flow that unmatched answers can be about, or nil.
func (v *view) flowOf(u *flows.Unpaired) *flows.Flow {
	forth := pair{u.Dst, u.Src}
	unknown, known := v.bySourceQP[sender{pair: forth}], v.bySourceQP[sender{forth, u.DestQP, true}]
	switch {
	case unknown.n+known.n != 1:
		return nil
	case known.n == 1:
		return known.one
	}
	return unknown.one
}

// A rejection is a host that rejected requests, matched to a flow or not.
type rejection struct {
	sign   flows.Sign
	counts map[bth.NAKCode]uint64
	flows  []*flows.Flow
	asked  []netip.Addr        // hosts with rejected requests
	askers map[netip.Addr]bool // the same as a set
	lines  int
}

// collectRefusals returns the hosts that sent signs of a kind, or unmatched answers with a sign, in
// the order of addresses.
func (v *view) collectRefusals(kind flows.SignKind, of func(*flows.Unpaired) flows.Sign) (hosts []netip.Addr,
	all map[netip.Addr]*rejection) {
	all = map[netip.Addr]*rejection{}
	add := func(host, asker netip.Addr, a *flows.Answers, sign flows.Sign, f *flows.Flow) {
		if sign.Count == 0 {
			return
		}
		r := all[host]
		if r == nil {
			r = &rejection{counts: map[bth.NAKCode]uint64{}, askers: map[netip.Addr]bool{}}
			all[host] = r
			hosts = append(hosts, host)
		}
		r.sign = addSigns(r.sign, sign)
		r.lines++
		for code, n := range a.NAKs() {
			r.counts[code] += n
		}
		if !r.askers[asker] {
			r.askers[asker] = true
			r.asked = append(r.asked, asker)
		}
		if f != nil {
			r.flows = append(r.flows, f)
		}
	}
	for _, f := range v.flows {
		add(f.Dst, f.Src, &f.Answers, *f.Evidence.Sign(kind), f)
	}
	for i := range v.Unpaired {
		u := &v.Unpaired[i]
		add(u.Src, u.Dst, &u.Answers, of(u), v.flowOf(u))
	}
	slices.SortFunc(hosts, netip.Addr.Compare)
	return hosts, all
}
