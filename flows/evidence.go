package flows

import (
	"net/netip"
	"slices"
	"time"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/internal/enumtext"
	"github.com/rocecn/rocecn/rocev2"
)

// Evidence is what can be pointed at of what happened to a flow: in which frames, when, and what its rate did; Sign has
// the frames by their kind. See Config.Evidence.
type Evidence struct {
	Notifiers []Notifier // who sent notifications about the flow, those that were seen first
	Control   Control

	// How long the flow was silent before it repeated something after a timeout: the least and the most, 0 where
	// it did not. Covered is how many of these repeats an answer in the capture had covered already.
	MinTimeout, MaxTimeout time.Duration
	AlreadyAcknowledged    uint64

	CNPDSCP uint64 // bit n: a CNP of either kind had DSCP n
	CNPPCP  uint8  // bit n: one had PCP n in its VLAN tag; 0 without tags

	signs [signKinds]Sign
}

// Sign returns what was seen of a kind, by a pointer so that a program can make up a snapshot. For an unknown kind it
// points to a Sign of its own.
func (e *Evidence) Sign(k SignKind) *Sign {
	if int(k) >= len(e.signs) {
		return new(Sign)
	}
	return &e.signs[k]
}

// A Sign is something that was seen several times.
type Sign struct {
	Count        uint64
	First, Last  uint64 // frames; 0 where there was none
	Since, Until time.Time
}

// SignKind says what a [Sign] is of.
type SignKind uint8

// The kinds of signs. All are packets of the flow, or answers that are known to be about it.
const (
	SignRequest       SignKind = iota
	SignNotECT                 // requests without ECT
	SignCE                     // requests with CE
	SignAnswer                 // responses, ACKs and NAKs
	SignAnswerAfterCE          // of these, what came after a request with CE was seen
	SignNAK                    // NAKs of the code PSN sequence
	SignRNR                    // RNR NAKs
	SignCNP                    // CNPs without a Fast CNP option
	SignNotification           // Fast CNPs, PPFCs, FCNs, messages to proxies
	SignGap                    // requests behind PSNs that were passed over
	SignReordered              // requests that filled a gap, and that no NAK asked for
	SignRetransmitted          // requests that filled a gap, and that a NAK had asked for
	SignAfterTimeout           // repeats by their cause, as Repeats has them
	SignAfterNAK
	SignAfterRNR
	SignReadRest
	SignRefused   // NAKs of other codes
	SignWrongICRC // requests with a wrong ICRC
	signKinds
)

var signNames = [signKinds]string{"request", "not ECT", "CE", "answer", "answer after CE", "sequence NAK", "RNR NAK",
	"CNP", "notification", "gap", "out of order", "sent again", "repeat after a timeout", "repeat after a NAK",
	"repeat after an RNR NAK", "rest of a READ", "NAK", "wrong ICRC"}

// String returns what was seen, in a few words.
func (k SignKind) String() string { return enumtext.Name(k, signNames[:], "SignKind") }

// NoticeKind says what kind of notification a node sent.
type NoticeKind uint8

// The kinds of notifications.
const (
	NoticeCNP NoticeKind = iota // without a Fast CNP option: of the receiver, or of a proxy in its name
	NoticeFastCNP
	NoticePPFC
	NoticeFCN
	NoticeProxy
	NoticeProxied // a CNP that comes from elsewhere than the receiver
)

var noticeNames = [...]string{"CNP", "Fast CNP", "PPFC", "FCN", "proxy message", "CNP of a proxy"}

// String returns the usual name, as in "Fast CNP".
func (k NoticeKind) String() string { return enumtext.Name(k, noticeNames[:], "NoticeKind") }

// A Notifier is an address from which notifications of one kind came about a flow.
type Notifier struct {
	From netip.Addr
	Kind NoticeKind
	Sign
	TooClose   uint64        // how many came less than 10 µs after the one before; of NoticeCNP 4 µs
	MinSpacing time.Duration // between two; negative with fewer than two
}

// maxNotifiers is how many are kept of each flow.
const maxNotifiers = 4

// Below these times notifications are close: a fifth of what DCQCN's authors have a receiver wait; and for CNPs of
// receivers the least that adapters have as their default.
const (
	closeNotice = int64(10 * time.Microsecond)
	closeCNP    = int64(4 * time.Microsecond)
)

// An evidence is an [Evidence] that grows.
type evidence struct {
	signs     [signKinds]sign
	notifiers [maxNotifiers]notifier
	pace      pace

	previous               int64 // when the request before came
	timingOut              bool  // it was a repeat after a timeout
	minTimeout, maxTimeout int64
	covered                uint64
	dscp                   uint64
	pcp                    uint8
	notifiersUsed          uint8
}

type sign struct {
	count, first, last uint64
	since, until       int64
}

func (s *sign) addFrame(frame uint64, at int64) {
	if s.count == 0 {
		s.first, s.since = frame, at
	}
	s.count++
	s.last, s.until = frame, at
}

func (s *sign) toSign() (out Sign) {
	if s.count > 0 {
		out = Sign{s.count, s.first, s.last, timeOf(s.since), timeOf(s.until)}
	}
	return out
}

type notifier struct {
	from key // its source
	kind NoticeKind
	sign
	tooClose   uint64
	spaced     bool
	minSpacing int64
}

// evidenceOf returns the evidence of a flow, nil if none is kept or there was no request yet.
func (t *Table) evidenceOf(f *flow) *evidence {
	if f.evidence == 0 && (!t.config.Evidence || f.Packets == 0) {
		return nil
	}
	return t.evidences.allocate(&f.evidence)
}

// recordRequest records what all requests have.
func (e *evidence) recordRequest(p *Packet, frame uint64, at int64) {
	e.signs[SignRequest].addFrame(frame, at)
	switch rocev2.ECN(p.trafficClass & 3) {
	case rocev2.CE:
		e.signs[SignCE].addFrame(frame, at)
	case rocev2.NotECT:
		e.signs[SignNotECT].addFrame(frame, at)
	}
	if p.icrcWrong {
		e.signs[SignWrongICRC].addFrame(frame, at)
	}
	e.pace.recordRequest(p.ipOctets, at)
}

// recordSequenced records what the PSN of a request showed; covered says whether an answer had covered it, asked whether a
// NAK had asked for it.
func (e *evidence) recordSequenced(frame uint64, at int64, v verdict, cause RetransmissionCause, covered, asked bool) {
	timeout := v.isRetransmission() && cause == CauseTimeout
	switch {
	case v == beyondGap:
		e.signs[SignGap].addFrame(frame, at)
	case v == late && asked:
		e.signs[SignRetransmitted].addFrame(frame, at)
	case v == late:
		e.signs[SignReordered].addFrame(frame, at)
	case v.isRetransmission():
		e.signs[[...]SignKind{SignAfterTimeout, SignAfterNAK, SignAfterRNR, SignReadRest}[cause]].addFrame(frame, at)
	}
	if timeout && covered {
		e.covered++
	}
	if timeout && !e.timingOut && e.previous != 0 {
		silence := max(at-e.previous, 1)
		if e.minTimeout == 0 || silence < e.minTimeout {
			e.minTimeout = silence
		}
		e.maxTimeout = max(e.maxTimeout, silence)
	}
	e.timingOut, e.previous = timeout, at
}

// recordAnswer records a response, an ACK or a NAK.
func (e *evidence) recordAnswer(r *reply) {
	e.signs[SignAnswer].addFrame(r.frame, r.at)
	if e.signs[SignCE].count > 0 {
		e.signs[SignAnswerAfterCE].addFrame(r.frame, r.at)
	}
	if code, ok := r.syndrome.Code(); ok && !r.noSyndrome && r.syndromeType() == bth.SyndromeNAK && code != bth.NAKPSNSequence {
		e.signs[SignRefused].addFrame(r.frame, r.at)
	}
}

// recordRefusal records an RNR NAK, or a NAK of the code PSN sequence.
func (e *evidence) recordRefusal(rnr bool, r *reply) {
	if rnr {
		e.signs[SignRNR].addFrame(r.frame, r.at)
	} else {
		e.signs[SignNAK].addFrame(r.frame, r.at)
	}
}

// countRecovery counts how long it took until a flow was as fast as before a CNP, if that is so just now.
func (t *Table) countRecovery(e *evidence) {
	if d := e.pace.recovered; d > 0 {
		t.histograms.allocate(&e.pace.recovery).Add(time.Duration(d))
		e.pace.recovered = 0
	}
}

// recordNotice records a notification about the flow: where it came from, and with what traffic class.
func (e *evidence) recordNotice(kind NoticeKind, from *key, class, pcp uint8, frame uint64, at int64) {
	if kind <= NoticeFastCNP {
		e.dscp |= 1 << (class >> 2)
		e.pcp |= pcp
		e.pace.recordCNP(frame, at, e.signs[SignCE].count > 0)
	}
	if kind == NoticeCNP {
		e.signs[SignCNP].addFrame(frame, at)
	} else {
		e.signs[SignNotification].addFrame(frame, at)
	}
	used := e.notifiers[:e.notifiersUsed]
	i := slices.IndexFunc(used, func(n notifier) bool {
		return n.kind == kind && n.from.Src == from.Src && (n.from.QP^from.QP)&overIPv4 == 0
	})
	if i < 0 {
		if i = len(used); i == maxNotifiers {
			return
		}
		e.notifiersUsed++
		e.notifiers[i] = notifier{from: *from, kind: kind}
	}
	n := &e.notifiers[i]
	if d := at - n.until; n.count > 0 && d >= 0 {
		if d < closeNotice && (kind != NoticeCNP || d < closeCNP) {
			n.tooClose++
		}
		if !n.spaced || d < n.minSpacing {
			n.spaced, n.minSpacing = true, d
		}
	}
	n.addFrame(frame, at)
}

// toEvidence returns what is known by now.
func (e *evidence) toEvidence(h *Histogram) *Evidence {
	out := &Evidence{
		MinTimeout: time.Duration(e.minTimeout), MaxTimeout: time.Duration(e.maxTimeout), AlreadyAcknowledged: e.covered,
		CNPDSCP: e.dscp, CNPPCP: e.pcp, Control: e.pace.toControl(h),
	}
	for i := range e.signs {
		out.signs[i] = e.signs[i].toSign()
	}
	for i := range e.notifiers[:e.notifiersUsed] {
		n := &e.notifiers[i]
		one := Notifier{From: n.from.FlowKey().Src, Kind: n.kind, Sign: n.sign.toSign(), TooClose: n.tooClose, MinSpacing: -1}
		if n.spaced {
			one.MinSpacing = time.Duration(n.minSpacing)
		}
		out.Notifiers = append(out.Notifiers, one)
	}
	return out
}
