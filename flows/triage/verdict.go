package triage

import (
	"time"

	"github.com/rocecn/rocecn/internal/enumtext"
	"github.com/rocecn/rocecn/rocev2"
)

// A Verdict is what happened, to whom and why.
type Verdict struct {
	Cause Cause
	// Party is who is to look for the cause at himself: the address of a host or a node, or the MAC address of a
	// link's end. It is empty where the capture convicts nobody.
	Party string
	// Flows are those that the verdict is about, by addresses and queue pair. A verdict about a link has none.
	Flows        []rocev2.FlowKey
	Since, Until time.Time // of the evidence
	Text         string    // one or two sentences: what happened, by what it is known
	Next         string    // a sentence: what to look at next
	Frames       []Frame   // that it rests on, in their order: some of them, where there are many
	Filter       string    // of Wireshark's display: it selects Frames, and what is like them
}

// A Frame is a piece of evidence: the frame with this number in its capture, and what it is.
type Frame struct {
	Number uint64
	What   string
}

// Cause says what happened.
type Cause uint8

// The causes; a Verdict about the first ones comes first. Those from Lost on are symptoms: the capture does not tell
// why. A flow has them only where no cause says more about the same.
const (
	CausePauseStorm     Cause = iota // somebody paused a link for long
	CauseIncast                      // several senders to one receiver at once
	CauseOnePath                     // one of several paths has too much: those of some UDP source ports
	CauseCNPMissing                  // marked packets that no CNP answered
	CauseCNPUnheeded                 // a sender that CNPs did not slow down
	CauseNotECNCapable               // packets that cannot be marked, where others were
	CauseOtherDSCP                   // losses only with a DSCP that the others do not have
	CauseTooManyNotices              // a node that notifies more often than a sender can act upon
	CauseNotReady                    // a receiver that had no receive posted
	CauseStorm                       // a large part of what is sent is sent again
	CauseTimedOut                    // a sender waited for what did not come
	CauseReordered                   // packets overtook one another, and none was lost
	CauseLost                        // packets were lost
	CauseRetransmitted               // packets were sent again, and no packet is known to be lost
	CauseCongested                   // packets were marked or notified about
	CauseRefused                     // requests that the receiver refuses
	CauseCorrupt                     // packets with a wrong ICRC
	CauseNotCaptured                 // packets that the receiver has, and the capture does not
	noCause
)

var causeNames = [noCause]string{"pause storm", "incast", "one path", "no CNP", "CNP unheeded", "not ECN-capable",
	"other DSCP", "too many notifications", "receiver not ready", "retransmission storm", "timeout", "reordering",
	"loss", "repeats", "congestion", "refused", "corrupt", "not captured"}

// String returns the name of the cause, as JSON has it.
func (c Cause) String() string { return enumtext.Name(c, causeNames[:], "Cause") }

// IsSymptom says whether c is what was seen, and not why.
func (c Cause) IsSymptom() bool { return c >= CauseLost }
