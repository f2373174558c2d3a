package flows

import (
	"net/netip"
	"slices"
	"time"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/internal/enumtext"
	"github.com/rocecn/rocecn/rocev2"
)

// Evidence records frames, times and rates that show the history of a flow. [Evidence.Sign] returns
// the frames by kind. See Config.Evidence.
type Evidence struct {
	Notifiers []Notifier // the first 4 senders of notifications about the flow, the earliest first
	Control   Control    // reaction of the flow's rate to CNPs

	// MinTimeout and MaxTimeout are the shortest and the longest time without requests before a
	// retransmission after a timeout, or 0 if there was none. AlreadyAcknowledged is the number of
	// retransmissions after timeouts that an answer in the capture had covered before.
	MinTimeout, MaxTimeout time.Duration
	AlreadyAcknowledged    uint64
	// MaxWait is the longest time without an answer before a retransmission after a timeout: from the last
	// answer, from the previous such retransmission, or from the first request. It is the timeout of a sender
	// that still sends new requests when its timer expires. It is 0 unless the sender retransmitted at least
	// two requests in order.
	MaxWait time.Duration

	CNPDSCP uint64 // bit n: a CNP had DSCP n
	CNPPCP  uint8  // bit n: a CNP had PCP n in its VLAN tag; 0 without tags

	Episodes []Episode // the first 24 episodes of congestion
	// Trimmings are the packets of SignTrimmed in at most 24 episodes, in which packets are at most 100 µs apart. If
	// there would be more, those with the shortest time between them are joined.
	Trimmings []Sign
	// PortLoad is the rate of all captured requests and responses to the receiver while some had CE, as a
	// share of the rate of its port: near 1 if the port was busy, 0 if the share is unknown. The rate of
	// the port is the highest one of three consecutive packets, so PortLoad is valid only at a capture
	// point after the queue.
	PortLoad float64
	// LargestAnswered is the length in IP octets of the largest request that an answer covered.
	// LargestOpen is that of the largest request sent since, which no answer covers yet; 0 if there is
	// none.
	LargestAnswered, LargestOpen uint32

	signs [signKinds]Sign
}

// Sign returns a pointer to the sign of a kind, so that a program can also build a snapshot. For an
// unknown kind it points to a Sign that is not part of e.
func (e *Evidence) Sign(k SignKind) *Sign {
	if int(k) >= len(e.signs) {
		return new(Sign)
	}
	return &e.signs[k]
}

// A Sign counts the events of one kind, with the first and the last frame.
type Sign struct {
	Count        uint64    // events
	First, Last  uint64    // frame numbers; 0 if Count is 0
	Since, Until time.Time // times of these frames; zero if Count is 0
}

// SignKind is the kind of a [Sign].
type SignKind uint8

// The kinds of signs. All are packets of the flow, or answers that belong to it for certain.
const (
	SignRequest       SignKind = iota // requests and responses of the flow
	SignNotECT                        // requests and responses that are Not-ECT
	SignCE                            // requests and responses that came with CE
	SignAnswer                        // answers of the receiver, and its READs and ATOMICs
	SignAnswerAfterCE                 // of these, those after the first packet with CE
	SignNAK                           // NAKs with the code PSN sequence error
	SignRNR                           // RNR NAKs
	SignCNP                           // CNPs without a Fast CNP option
	SignNotification                  // Fast CNPs, PPFCs, FCNs, messages to proxies
	SignGap                           // requests after skipped PSNs
	// SignReordered are requests that filled a gap and were sent before the requests after it, by the
	// Identifications of IPv4; without them, those that came before a NAK asked for them.
	SignReordered
	SignRetransmitted // other requests that filled a gap
	SignAfterTimeout  // retransmissions by cause, as in Retransmissions
	SignAfterNAK
	SignAfterRNR
	SignReadRest
	SignRefused     // NAKs with other codes
	SignWrongICRC   // requests and responses with a wrong ICRC
	SignTrimmed     // packets that a switch trimmed
	SignTrimmedNAK  // NAKs for these packets
	SignWrongAnswer // answers and notifications with a wrong ICRC
	signKinds
)

var signNames = [signKinds]string{"request", "not ECT", "CE", "answer", "answer after CE", "sequence NAK", "RNR NAK",
	"CNP", "notification", "gap", "reordered", "retransmission into a gap", "retransmission after a timeout",
	"retransmission after a NAK", "retransmission after an RNR NAK", "rest of a READ", "NAK", "wrong ICRC",
	"trimmed packet", "NAK for a trimmed packet",
	"answer with a wrong ICRC"}

// String returns a short description, as in "sequence NAK".
func (k SignKind) String() string { return enumtext.Name(k, signNames[:], "SignKind") }

// NoticeKind is the kind of a notification.
type NoticeKind uint8

// The kinds of notifications.
const (
	NoticeCNP NoticeKind = iota // CNP without a Fast CNP option, from the receiver's address
	NoticeFastCNP
	NoticePPFC
	NoticeFCN
	NoticeProxy
	NoticeProxied // CNP from another address than the receiver's
)

var noticeNames = [...]string{"CNP", "Fast CNP", "PPFC", "FCN", "proxy message", "CNP of a proxy"}

// String returns the usual name, as in "Fast CNP".
func (k NoticeKind) String() string { return enumtext.Name(k, noticeNames[:], "NoticeKind") }

// A Notifier is an address that sent notifications of one kind about a flow.
type Notifier struct {
	From netip.Addr
	Kind NoticeKind
	Sign
	TooClose   uint64        // notifications less than 10 µs after the previous one; 4 µs for NoticeCNP
	MinSpacing time.Duration // between two notifications; negative with fewer than two
}

// maxNotifiers is the number of notifiers kept for each flow.
const maxNotifiers = 4

// Notifications less than this apart count as too close: one fifth of the interval that the authors
// of DCQCN recommend to receivers, and the smallest default interval of adapters for their CNPs.
const (
	closeNotice = int64(10 * time.Microsecond)
	closeCNP    = int64(4 * time.Microsecond)
)

// evidence is the state of an [Evidence].
type evidence struct {
	signs     [signKinds]sign
	notifiers []notifier // the first maxNotifiers
	pace      pace

	previous               int64 // time of the previous request
	timingOut              bool  // the previous request was a retransmission after a timeout
	minTimeout, maxTimeout int64
	wait, maxWait          int64 // before the present run of retransmissions, and the longest one
	wentBack               int64 // time of the last retransmission after a timeout that began a run
	covered                uint64
	dscp                   uint64
	pcp                    uint8

	episodes        uint32 // id in Table.episodes; 0 for none
	load            uint32 // id in Table.loads
	largestAnswered uint32
	largestOpen     uint32
	largestPSN      uint32 // of the first request with that length
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
	from key // source address
	kind NoticeKind
	sign
	tooClose   uint64
	spaced     bool
	minSpacing int64
}

// evidenceOf returns the evidence of a flow, or nil if none is kept or no data was captured.
func (t *Table) evidenceOf(f *flow) *evidence {
	if !t.config.Evidence { // short enough to be inlined
		return nil
	}
	return t.addEvidence(f)
}

// addEvidence returns the evidence of a flow, adding it if the flow has data.
func (t *Table) addEvidence(f *flow) *evidence {
	if f.evidence == 0 && !f.hasData() {
		return nil
	}
	return t.evidences.allocate(&f.evidence)
}

// recordRequest records a request or response.
func (e *evidence) recordRequest(p *Packet, frame uint64, at int64) {
	e.signs[SignRequest].addFrame(frame, at)
	switch rocev2.ECN(p.effectiveClass() & 3) {
	case rocev2.CE:
		e.signs[SignCE].addFrame(frame, at)
	case rocev2.NotECT:
		e.signs[SignNotECT].addFrame(frame, at)
	}
	if p.icrcWrong {
		e.signs[SignWrongICRC].addFrame(frame, at)
	}
	e.pace.recordRequest(p.ipOctets, at)
	e.pace.recordMark(frame, p.ipOctets, at, p.isMarked())
}

// recordData records a request or response: its congestion, and the load of its receiver.
func (t *Table) recordData(s *stream, e *evidence, p *Packet, frame uint64, at int64) {
	e.recordRequest(p, frame, at)
	t.countRecovery(e)
	if p.isMarked() {
		t.episodes.allocate(&e.episodes).addSign(at)
	}
	if e.load == 0 {
		to := t.keyOfStream(s).Reversed(0).Src
		id := t.loadIDs[to]
		l := t.loads.allocate(&id)
		l.receiver, l.flows = to, l.flows+1
		t.loadIDs[to], e.load = id, id
	}
	t.loads.lookUp(e.load).recordPacket(p.ipOctets, at, p.isMarked())
}

// releaseEvidence releases the evidence of a flow, and the load of its receiver with the last flow to it.
func (t *Table) releaseEvidence(f *flow) {
	e := t.evidences.lookUp(f.evidence)
	if e == nil {
		return
	}
	t.histograms.release(&e.pace.recovery)
	t.episodes.release(&e.episodes)
	if l := t.loads.lookUp(e.load); l != nil {
		if l.flows--; l.flows == 0 {
			delete(t.loadIDs, l.receiver)
			t.loads.release(&e.load)
		}
	}
	t.evidences.release(&f.evidence)
}

// recordSize records the length of a new request.
func (e *evidence) recordSize(psn, octets uint32) {
	if octets > e.largestOpen {
		e.largestOpen, e.largestPSN = octets, psn
	}
}

// coverSizes records that an answer covers all requests up to PSN c.
func (e *evidence) coverSizes(c uint32) {
	if e.largestOpen > 0 && bth.ComparePSN(c, e.largestPSN) >= 0 {
		e.largestAnswered, e.largestOpen = max(e.largestAnswered, e.largestOpen), 0
	}
}

// recordSequenced records the verdict about a request's PSN. goesBack reports whether the sender went
// back to it, covered whether an answer had covered the PSN, and again whether a request that fills a gap
// was retransmitted.
func (e *evidence) recordSequenced(frame uint64, at int64, v verdict, cause RetransmissionCause,
	goesBack, covered, again bool) {
	timeout := v.isRetransmission() && cause == CauseTimeout
	switch {
	case v == beyondGap:
		e.signs[SignGap].addFrame(frame, at)
	case v == late && again:
		e.signs[SignRetransmitted].addFrame(frame, at)
	case v == late:
		e.signs[SignReordered].addFrame(frame, at)
	case v.isRetransmission():
		e.signs[[...]SignKind{SignAfterTimeout, SignAfterNAK, SignAfterRNR, SignReadRest}[cause]].addFrame(frame, at)
	}
	if timeout && covered {
		e.covered++
	}
	if timeout && (goesBack || !e.timingOut) && e.previous != 0 {
		pause := max(at-e.previous, 1)
		if e.minTimeout == 0 || pause < e.minTimeout {
			e.minTimeout = pause
		}
		e.maxTimeout = max(e.maxTimeout, pause)
	}
	e.recordWait(timeout, goesBack, at)
	e.timingOut, e.previous = timeout, at
}

// recordWait records the time without an answer before a run of retransmissions after a timeout. A single
// packet may be a copy that a mirror made.
func (e *evidence) recordWait(timeout, goesBack bool, at int64) {
	switch {
	case !timeout:
		e.wait = 0
	case goesBack || !e.timingOut:
		since := max(e.signs[SignRequest].since, e.signs[SignAnswer].until, e.wentBack)
		e.wait, e.wentBack = at-since, at
	default:
		e.maxWait = max(e.maxWait, e.wait)
	}
}

// recordAnswer records a response, an ACK or a NAK.
func (e *evidence) recordAnswer(r *reply) {
	e.recordReceiver(r.frame, r.at)
	if r.isRefusal() {
		e.signs[SignRefused].addFrame(r.frame, r.at)
	}
}

// recordReceiver records a packet of the receiver: an answer, or a request for further responses.
func (e *evidence) recordReceiver(frame uint64, at int64) {
	e.signs[SignAnswer].addFrame(frame, at)
	if e.signs[SignCE].count > 0 {
		e.signs[SignAnswerAfterCE].addFrame(frame, at)
	}
}

// recordNAK records an RNR NAK or a NAK with the code PSN sequence error.
func (e *evidence) recordNAK(rnr bool, r *reply) {
	if rnr {
		e.signs[SignRNR].addFrame(r.frame, r.at)
	} else {
		e.signs[SignNAK].addFrame(r.frame, r.at)
	}
}

// countRecovery records the time in which the rate recovered after a CNP, if this request completed
// the recovery.
func (t *Table) countRecovery(e *evidence) {
	if d := e.pace.recovered; d > 0 {
		t.histograms.allocate(&e.pace.recovery).Add(time.Duration(d))
		e.pace.recovered = 0
	}
}

// recordNotice records a notification about the flow with its source and traffic class.
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
	i := slices.IndexFunc(e.notifiers, func(n notifier) bool {
		return n.kind == kind && n.from.Src == from.Src && (n.from.QP^from.QP)&overIPv4 == 0
	})
	if i < 0 {
		if i = len(e.notifiers); i == maxNotifiers {
			return
		}
		e.notifiers = append(e.notifiers, notifier{from: *from, kind: kind})
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

// toEvidence returns the evidence so far.
func (t *Table) toEvidence(e *evidence) *Evidence {
	out := &Evidence{
		Episodes: t.episodes.lookUp(e.episodes).toEpisodes(), PortLoad: t.loads.lookUp(e.load).share(),
		LargestAnswered: e.largestAnswered, LargestOpen: e.largestOpen,
		MinTimeout: time.Duration(e.minTimeout), MaxTimeout: time.Duration(e.maxTimeout),
		AlreadyAcknowledged: e.covered, MaxWait: time.Duration(e.maxWait),
		CNPDSCP: e.dscp, CNPPCP: e.pcp,
		Control: e.pace.toControl(t.histograms.lookUp(e.pace.recovery).clone()),
	}
	for i := range e.signs {
		out.signs[i] = e.signs[i].toSign()
	}
	for i := range e.notifiers {
		n := &e.notifiers[i]
		one := Notifier{From: n.from.FlowKey().Src, Kind: n.kind, Sign: n.sign.toSign(), TooClose: n.tooClose,
			MinSpacing: -1}
		if n.spaced {
			one.MinSpacing = time.Duration(n.minSpacing)
		}
		out.Notifiers = append(out.Notifiers, one)
	}
	return out
}
