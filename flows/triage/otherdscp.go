package triage

import (
	"fmt"
	"math/bits"

	"github.com/rocecn/rocecn/flows"
)

// minSpared is the minimum number of packets of flows without losses.
const minSpared = 100

// findOtherDSCP finds flows that lose packets, while flows to the same receiver with another DSCP
// lose none. The DSCP selects the lossless class.
//
// Evidence: at least two flows to a receiver with at least 100 packets in all, one DSCP and no
// losses, at the share of losses of the others three of their packets would have been lost.
//
// A hop that changes the DSCP before the capture point gives the same picture, so there are two
// suspects. Excluded by any loss with the spared DSCP, and by flows with several DSCPs. A capture
// does not contain the lossless DSCP of a network: without flows to compare with, there is no
// verdict.
func findOtherDSCP(v *view) {
	for _, g := range v.to {
		spared, sent, ok := sparedDSCP(g.flows)
		if !ok {
			continue
		}
		var lossy []*flows.Flow
		var set, lost, packets uint64
		for _, f := range g.flows {
			if f.Sequenced && bits.OnesCount64(dscpOf(f)) == 1 && dscpOf(f) != 1<<spared && hasLosses(f) {
				lossy = append(lossy, f)
				set |= dscpOf(f)
				lost += countLosses(f)
				packets += f.Data.Packets
			}
		}
		if len(lossy) == 0 || lost*sent < minMarks*packets {
			continue
		}
		sign := sumSigns(lossy, lossSigns...)
		senders := addressesOf(lossy, sourceOf)
		setting := "senders set"
		if len(senders) == 1 {
			setting = "sender sets"
		}
		v.addVerdict(Verdict{
			Cause: CauseOtherDSCP, Suspects: append(senders, hopBefore), Joined: len(senders),
			Excluded: []string{"the receiver and its port: flows with another DSCP lose nothing"},
			Since:    sign.Since, Until: sign.Until,
			Text: fmt.Sprintf("Packets with DSCP %s to %v are lost, from %s on; they come from %s. The %s to it "+
				"with DSCP %d lose nothing: that DSCP is lossless here. Either the %s this DSCP, or a hop before "+
				"this capture point changes it.",
				formatList(bitNumbers(set), 4), g.address, formatStart(sign), formatList(senders, 4),
				formatCount(sent, "packet"), spared, setting),
			Next: fmt.Sprintf("Capture at %s: if its packets leave with DSCP %d, compare captures along the path "+
				"(-compare) to find the hop that changes it; if not, set its traffic class to that DSCP.",
				senders[0], spared),
			Frames: evidenceFrames(lossy, lossSigns...),
			Filter: joinAnd(filterHosts(lossy), filterFrames(sign)),
		}, lossy)
	}
}

// sparedDSCP returns the DSCP with the most packets among those without losses, and the number of
// these packets. ok reports whether there are enough of them.
func sparedDSCP(all []*flows.Flow) (dscp, sent uint64, ok bool) {
	var number, packets [64]uint64
	var lossy [64]bool
	for _, f := range all {
		if bits.OnesCount64(dscpOf(f)) != 1 || !f.Sequenced {
			continue
		}
		d := bits.TrailingZeros64(dscpOf(f))
		number[d]++
		packets[d] += f.Data.Packets
		lossy[d] = lossy[d] || hasLosses(f)
	}
	for d, n := range packets {
		if n > sent && !lossy[d] && number[d] >= 2 {
			dscp, sent = uint64(d), n
		}
	}
	return dscp, sent, sent >= minSpared
}

// lossSigns are the signs of lost packets.
var lossSigns = []flows.SignKind{flows.SignGap, flows.SignNAK, flows.SignRetransmitted, flows.SignAfterNAK,
	flows.SignAfterTimeout}

// hasLosses reports whether the network lost packets of a flow.
func hasLosses(f *flows.Flow) bool {
	return f.PSN.Lost > 0 || f.Causes.NAK > 0 || f.Causes.Timeout > 0 ||
		f.Evidence.Sign(flows.SignRetransmitted).Count > 0
}

// countLosses returns the minimum number of losses of a flow.
func countLosses(f *flows.Flow) uint64 {
	e := f.Evidence
	return max(f.PSN.Lost, e.Sign(flows.SignNAK).Count, e.Sign(flows.SignRetransmitted).Count, min(f.Causes.Timeout, 1))
}

// bitNumbers returns the numbers of the bits in a set.
func bitNumbers(set uint64) (all []int) {
	for ; set != 0; set &= set - 1 {
		all = append(all, bits.TrailingZeros64(set))
	}
	return all
}
