package triage

import (
	"fmt"
	"math/bits"

	"github.com/rocecn/rocecn/flows"
)

// otherDSCP: packets were lost of flows with another DSCP than most, and none of the others'.
//
// Evidence: most flows have one DSCP, and at least two of these sent a hundred packets or more together while a flow
// with another DSCP lost some; all of the others came. What is lossless goes by the DSCP.
//
// Counter-evidence: any loss among the flows with the usual DSCP; flows with several. What the lossless DSCP of a
// network is, a capture does not say: where there is nothing to compare with, there is no verdict.
func otherDSCP(v *view) {
	var flowsOf, packets [64]uint64
	var lossy [64]bool
	var total uint64
	for _, f := range v.flows {
		if bits.OnesCount64(f.DSCP) != 1 || !f.Sequenced {
			continue
		}
		d := bits.TrailingZeros64(f.DSCP)
		flowsOf[d]++
		packets[d] += f.Packets
		lossy[d] = lossy[d] || loses(f)
		total++
	}
	usual := 0
	for d, n := range flowsOf {
		if n > flowsOf[usual] {
			usual = d
		}
	}
	if flowsOf[usual] < 2 || flowsOf[usual]*2 <= total || packets[usual] < 100 || lossy[usual] {
		return
	}
	for _, g := range v.each(source, func(f *flows.Flow) bool {
		return f.Sequenced && bits.OnesCount64(f.DSCP) == 1 && f.DSCP != 1<<usual && loses(f)
	}) {
		lost := sum(g.flows, losses...)
		var set uint64
		for _, f := range g.flows {
			set |= f.DSCP
		}
		v.say(Verdict{
			Cause: OtherDSCP, Party: g.of.String(), Since: lost.Since, Until: lost.Until,
			Text: fmt.Sprintf("%v sends with DSCP %s, and packets of it are lost from %s on. %s with DSCP %d lost none: "+
				"that one is lossless here, and this one is not.",
				g.of, list(numbers(set), 4), clock(lost), count(flowsOf[usual], "flow"), usual),
			Next:   fmt.Sprintf("Set the traffic class on the sender, so that it sends with DSCP %d.", usual),
			Frames: frames(g.flows, losses...),
			Filter: and(hosts(g.flows), between(lost)),
		}, g.flows)
	}
}

// losses are the signs that packets of a flow were lost.
var losses = []flows.SignKind{flows.SignGap, flows.SignNAK, flows.SignResent, flows.SignRepeatNAK, flows.SignTimeout}

// loses says whether packets of a flow were lost, not by the capture.
func loses(f *flows.Flow) bool {
	return f.PSN.Lost > 0 || f.Causes.NAK > 0 || f.Causes.Timeout > 0 || f.Evidence.Signs[flows.SignResent].Count > 0
}

// numbers returns the numbers of the bits of a set.
func numbers(set uint64) (all []int) {
	for ; set != 0; set &= set - 1 {
		all = append(all, bits.TrailingZeros64(set))
	}
	return all
}
