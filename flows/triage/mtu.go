package triage

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/rocecn/rocecn/flows"
)

// minAnsweredPackets is the number of packets of other flows that show that shorter ones get through.
const minAnsweredPackets = 20

// minSilence is the minimum time without requests before a retransmission of a long packet. Timers are
// longer, but a sender fills its window first. Copies made by mirrors come earlier.
const minSilence = 100 * time.Microsecond

// findMTU finds paths that only short packets pass.
//
// Evidence: flows between two hosts that retransmit after timeouts, with a longest request that was
// never answered; and between the same hosts shorter requests that are answered, and none of that
// length or longer.
//
// A queue pair of the receiver that is gone gives the same picture if it is the only one with long
// packets, so there are two suspects.
func findMTU(v *view) {
	for _, to := range v.to {
		for _, g := range groupBy(to.flows, sourceOf) {
			var stuck []*flows.Flow
			var shortest, longest uint32 // of the stuck flows, and of answered requests
			var answered uint64
			for _, f := range g.flows {
				e := f.Evidence
				if f.Causes.Timeout >= 2 && longestWait(f) >= minSilence && e.LargestOpen > e.LargestAnswered {
					stuck = append(stuck, f)
					if shortest == 0 || e.LargestOpen < shortest {
						shortest = e.LargestOpen
					}
				}
				if e.LargestAnswered > 0 {
					longest = max(longest, e.LargestAnswered)
					answered += e.Sign(flows.SignRequest).Count
				}
			}
			if len(stuck) == 0 || longest == 0 || shortest <= longest || answered < minAnsweredPackets {
				continue
			}
			again := sumSigns(stuck, flows.SignAfterTimeout)
			v.addVerdict(Verdict{
				Cause: CauseMTU, Joined: len(stuck), Since: again.Since, Until: again.Until,
				Suspects: []string{"the MTU of a link between " + g.address.String() + " and " + to.address.String(),
					"the queue pair at " + to.address.String()},
				Excluded: []string{"a path or receiver that is down: shorter packets between the same hosts are " +
					"answered"},
				Text: fmt.Sprintf("Long packets from %v to %v do not get through: no request of %d octets (IP) was "+
					"ever answered, although it was retransmitted, from %s on. Between the same hosts requests of "+
					"at most %d octets are answered.", g.address, to.address, shortest, formatStart(again), longest),
				Next: fmt.Sprintf("Compare the MTU of every link on the path with the path MTU of the connection; "+
					"ping -M do -s %d %v shows whether such packets pass.",
					pingSize(to.address, shortest), to.address),
				Frames: evidenceFrames(stuck, flows.SignAfterTimeout),
				Filter: joinAnd(filterRequests(stuck), filterFrames(again)),
			}, stuck)
		}
	}
}

// pingSize returns the length of the data in an ICMP echo request of this many IP octets.
func pingSize(to netip.Addr, octets uint32) uint32 {
	const icmpSize = 8
	if to.Is4() {
		return octets - 20 - icmpSize
	}
	return octets - 40 - icmpSize
}

// findPathDown finds pairs of hosts between which all flows became silent together.
//
// Evidence: at least two flows between two hosts, all of which had answers, retransmit after timeouts that
// began at the same time, and get no answer after that, while flows of other hosts are answered.
//
// The capture point, the receiver and either direction of the path give the same picture, so there is
// no party. If the receiver answers others meanwhile, it is not down.
func findPathDown(v *view) {
	var last latest[pair] // answers by the two hosts
	for _, f := range v.flows {
		last.add(pair{f.Src, f.Dst}, f.Evidence.Sign(flows.SignAnswer).Until)
	}
	for _, to := range v.to {
		var ofReceiver latest[netip.Addr] // answers of the receiver by source
		for _, f := range to.flows {
			ofReceiver.add(f.Src, f.Evidence.Sign(flows.SignAnswer).Until)
		}
		for _, g := range groupBy(to.flows, sourceOf) {
			again := sumSigns(g.flows, flows.SignAfterTimeout)
			down := len(g.flows) >= 2
			for _, f := range g.flows {
				e := f.Evidence
				s := e.Sign(flows.SignAfterTimeout)
				down = down && f.Sequenced && s.Count > 0 && longestWait(f) >= minTimeout &&
					s.Since.Sub(again.Since) <= longestWait(f) && e.Sign(flows.SignAnswer).Count > 0 &&
					!e.Sign(flows.SignAnswer).Until.After(again.Since) && !v.hasCause(f, CauseMTU)
			}
			if !down {
				continue
			}
			if !last.findLatestExcept(pair{g.address, to.address}).After(again.Since) {
				continue
			}
			receiverAnswers := ofReceiver.findLatestExcept(g.address).After(again.Since)
			verdict := Verdict{
				Cause: CausePathDown, Joined: len(g.flows), Since: again.Since, Until: again.Until,
				Suspects: []string{"the path between " + g.address.String() + " and " + to.address.String()},
				Excluded: []string{"the capture: it has answers of other flows at that time"},
				Text: fmt.Sprintf("All %d flows from %v to %v became silent together, from %s on: the sender "+
					"retransmits, and nothing is answered any more, while other flows are.",
					len(g.flows), g.address, to.address, formatStart(again)),
				Next: "Look for a link that went down or a route that changed at that time on the path between the " +
					"two hosts, in both directions.",
				Frames: evidenceFrames(g.flows, flows.SignAfterTimeout),
				Filter: joinAnd(filterHosts(g.flows), filterFrames(again)),
			}
			if receiverAnswers {
				verdict.Excluded = append(verdict.Excluded, "a receiver that is down: it answers other hosts")
			} else {
				verdict.Suspects = append(verdict.Suspects, to.address.String())
			}
			v.addVerdict(verdict, g.flows)
		}
	}
}

// latest has the latest time of events by key, and that of another key.
type latest[K comparable] struct {
	key    K
	at     time.Time
	others time.Time // latest time of all other keys
}

// add adds an event. The zero time is no event.
func (l *latest[K]) add(k K, at time.Time) {
	switch {
	case k == l.key && at.After(l.at):
		l.at = at
	case k == l.key:
	case at.After(l.at):
		l.others, l.key, l.at = l.at, k, at
	case at.After(l.others):
		l.others = at
	}
}

// findLatestExcept returns the latest time of all keys except one, or the zero time.
func (l *latest[K]) findLatestExcept(k K) time.Time {
	if k == l.key {
		return l.others
	}
	return l.at
}
