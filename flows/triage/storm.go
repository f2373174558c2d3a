package triage

import (
	"fmt"

	"github.com/rocecn/rocecn/flows"
)

const (
	stormRetransmissions = 50 // minimum number of retransmissions of a flow
	stormPart            = 5  // inverse of their minimum share of its packets
)

// isStorm reports whether a flow mainly consists of retransmissions: go-back-N retransmits everything
// outstanding for each lost packet.
//
// Evidence: at least fifty retransmissions and a fifth of the packets, after NAKs, for the rest of
// READs, or after timeouts of a flow that continues, with NAKs or READs that ask for some of them.
//
// Counter-evidence: retransmissions after RNR NAKs and timeouts without traffic have rules of their
// own. Without any request for retransmission and without a timeout, the capture may contain each
// packet twice, for example at a mirror of two ports. No party is named.
func isStorm(f *flows.Flow) bool {
	n := f.Causes.NAK + f.Causes.Read
	if longestWait(f) < minTimeout { // timeouts of single packets while the flow continued
		n += f.Causes.Timeout
	}
	asked := f.Evidence.Sign(flows.SignNAK).Count + f.Causes.NAK + f.Causes.Read
	return asked > 0 && n >= stormRetransmissions && n*stormPart >= f.Packets
}

// describeStorm returns the verdict about flows that mainly consist of retransmissions.
func describeStorm(all []*flows.Flow) Verdict {
	retransmitted := sumSigns(all, flows.SignAfterNAK, flows.SignReadRest, flows.SignAfterTimeout)
	total, naks := sumSigns(all, flows.SignRequest), sumSigns(all, flows.SignNAK)
	where, next := locateLosses(all)
	if where != "" {
		where = " " + where
	} else {
		next = "Find out why packets are missing: drops in queues on the path, or reordering. Compare two points " +
			"with -compare."
	}
	return Verdict{
		Cause: CauseStorm, Since: retransmitted.Since, Until: retransmitted.Until,
		Text: fmt.Sprintf("%d of %s to %v are retransmissions (%s), from %s on, after %s: for each packet that the "+
			"receiver misses, the sender retransmits everything outstanding (go-back-N).%s", retransmitted.Count,
			formatCount(total.Count, "packet"), all[0].Dst,
			formatShare(retransmitted.Count, total.Count), formatStart(retransmitted),
			formatCount(naks.Count, "NAK"), where),
		Next:   next,
		Frames: evidenceFrames(all, flows.SignNAK, flows.SignAfterNAK, flows.SignReadRest),
		Filter: joinAnd(filterHosts(all), filterFrames(addSigns(naks, retransmitted))),
	}
}
