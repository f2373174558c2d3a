package triage

import (
	"fmt"
	"math/bits"
	"net/netip"

	"github.com/rocecn/rocecn/flows"
)

// findOtherDSCP finds flows with losses and another DSCP than the usual one, which has no losses.
//
// Evidence: most flows to a receiver, at least two with at least 100 packets in all, have one DSCP
// and no losses, while a flow with another DSCP has losses. The DSCP selects the lossless class.
//
// Counter-evidence: any loss with the usual DSCP; flows with several DSCPs; so few losses that the
// usual flows would have had fewer than three at the same share. A capture does not contain the
// lossless DSCP of a network: without flows to compare with, there is no verdict.
func findOtherDSCP(v *view) {
	found := map[netip.Addr]uint64{} // usual DSCP by source with a verdict
	var lossy []*flows.Flow
	for _, g := range v.to {
		usual, spared, ok := usualDSCP(g.flows)
		for _, f := range g.flows {
			if ok && f.Sequenced && bits.OnesCount64(f.DSCP) == 1 && f.DSCP != 1<<usual && hasLosses(f) &&
				countLosses(f)*spared >= minMarks*f.Packets {
				lossy = append(lossy, f)
				found[f.Src] = usual
			}
		}
	}
	for _, g := range groupBy(lossy, sourceOf) {
		lost, usual := sumSigns(g.flows, lossSigns...), found[g.address]
		var set uint64
		for _, f := range g.flows {
			set |= f.DSCP
		}
		v.addVerdict(Verdict{
			Cause: CauseOtherDSCP, Party: g.address.String(), Since: lost.Since, Until: lost.Until,
			Text: fmt.Sprintf("%v sends with DSCP %s, and its packets are lost, from %s on. The flows to the same "+
				"receiver with DSCP %d have no losses: that DSCP is lossless here, and this one is not.",
				g.address, formatList(bitNumbers(set), 4), formatStart(lost), usual),
			Next:   fmt.Sprintf("Set the traffic class on the sender so that it sends with DSCP %d.", usual),
			Frames: evidenceFrames(g.flows, lossSigns...),
			Filter: joinAnd(filterHosts(g.flows), filterFrames(lost)),
		}, g.flows)
	}
}

// usualDSCP returns the DSCP of most flows and the number of packets with it. ok reports whether
// there are enough of them, without losses.
func usualDSCP(all []*flows.Flow) (usual, sent uint64, ok bool) {
	var number, packets [64]uint64
	var lossy [64]bool
	var total uint64
	for _, f := range all {
		if bits.OnesCount64(f.DSCP) != 1 || !f.Sequenced {
			continue
		}
		d := bits.TrailingZeros64(f.DSCP)
		number[d]++
		packets[d] += f.Packets
		lossy[d] = lossy[d] || hasLosses(f)
		total++
	}
	for d, n := range number {
		if n > number[usual] {
			usual = uint64(d)
		}
	}
	sent = packets[usual]
	return usual, sent, number[usual] >= 2 && number[usual]*2 > total && sent >= 100 && !lossy[usual]
}

// lossSigns are the signs of lost packets.
var lossSigns = []flows.SignKind{flows.SignGap, flows.SignNAK, flows.SignRetransmitted, flows.SignAfterNAK,
	flows.SignAfterTimeout}

// hasLosses reports whether the network lost packets of a flow.
func hasLosses(f *flows.Flow) bool {
	return f.PSN.Lost > 0 || f.Causes.NAK > 0 || f.Causes.Timeout > 0 || f.Evidence.Sign(flows.SignRetransmitted).
		Count > 0
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
