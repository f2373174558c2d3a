package triage

import (
	"time"

	"github.com/rocecn/rocecn/internal/enumtext"
	"github.com/rocecn/rocecn/rocev2"
)

// A Verdict is a finding: an event, the affected flows, and its cause.
type Verdict struct {
	Cause Cause
	// Party is the host or port that caused it: the address of a host or node, or the MAC address of a
	// port. It is empty unless the evidence excludes every other explanation that the capture point
	// allows.
	Party string
	// Suspects are the possible causes if there is no Party, the most likely first: addresses as in
	// Party, and descriptions such as "a hop before the capture point". Next tells them apart. A
	// symptom may have none.
	Suspects []string
	Excluded []string // explanations that the evidence rules out
	// Flows are the affected flows by addresses and queue pair. A verdict about a link has only those with
	// packets that congested a path after the pause; one about unmatched answers has none.
	Flows        []rocev2.FlowKey
	Joined       int       // number of findings that this verdict joins, at least 1
	Octets       uint64    // IP octets of the data of Flows
	Since, Until time.Time // times of the first and the last evidence
	Text         string    // sentences: the event, its evidence, and the conclusion
	Next         string    // the next step, in one or two sentences
	Frames       []Frame   // evidence in capture order; a selection if there are many
	Filter       string    // Wireshark display filter for Frames and similar frames
}

// A Frame is a piece of evidence: a frame number and a description.
type Frame struct {
	Number uint64 // as given to flows.Table.Observe
	What   string // description such as "CE"
}

// Cause is the kind of a verdict.
type Cause uint8

// The causes. Those from CauseLost on are symptoms: the evidence shows the event, but not its cause.
// CauseLost, CauseRetransmitted and CauseCongested are not reported for flows of which another verdict
// explains the event.
const (
	CausePauseStorm     Cause = iota // a link was paused for a long time
	CauseIncast                      // several senders sent to one receiver at the same time
	CauseOnePath                     // one of several paths is congested: that of some UDP source ports
	CauseCNPMissing                  // no CNP after marked packets
	CauseCNPUnheeded                 // a sender did not slow down after CNPs
	CauseNotECNCapable               // packets that cannot be marked, while others were marked
	CauseOtherDSCP                   // losses only with a DSCP that other flows do not have
	CauseTooManyNotices              // a node notifies more often than a sender can react
	CauseNotReady                    // a receiver had no receive posted
	CauseStorm                       // a large share of the packets are retransmissions
	CauseTimedOut                    // a sender's retransmission timer expired
	CauseReordered                   // packets were reordered and none was lost
	CauseDiscarded                   // a switch reported that it discarded packets
	CauseEndlessPause                // a pause of at least 20 ms did not end within the capture
	CauseWrongICRC                   // all answers or notifications of one kind from a host have a wrong ICRC
	CauseMTU                         // packets above a size do not get through
	CausePathDown                    // all flows between two hosts became silent together
	CauseGaveUp                      // a sender gave up after retransmissions without an answer
	CauseTrimmed                     // a switch trimmed packets instead of dropping them
	CauseLost                        // packets were lost
	CauseRetransmitted               // packets were retransmitted, and no packet is known to be lost
	CauseCongested                   // packets were marked, or notifications were sent
	CauseRefused                     // a receiver rejected requests
	CauseCorrupt                     // requests had a wrong ICRC
	CauseNotCaptured                 // packets reached the receiver and were not captured
	noCause
)

// Causes returns all causes, including the symptoms.
func Causes() (all []Cause) {
	for c := range noCause {
		all = append(all, c)
	}
	return all
}

var causeNames = [noCause]string{"pause storm", "incast", "one path", "no CNP", "CNP unheeded", "not ECN-capable",
	"other DSCP", "too many notifications", "receiver not ready", "retransmission storm", "timeout", "reordering",
	"discarded", "endless pause", "wrong ICRC", "MTU", "path down", "gave up", "trimmed", "loss", "repeats",
	"congestion",
	"refused", "corrupt", "not captured"}

// String returns the name of the cause, such as "no CNP", which is also its JSON value.
func (c Cause) String() string { return enumtext.Name(c, causeNames[:], "Cause") }

// IsSymptom reports whether c is an event of which the cause is unknown.
func (c Cause) IsSymptom() bool { return c >= CauseLost }

// isAboutLink reports whether verdicts with c are about a link and all its flows.
func (c Cause) isAboutLink() bool { return c == CausePauseStorm || c == CauseEndlessPause }
