package flows

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/cli"
	"github.com/rocecn/rocecn/flows"
	"github.com/rocecn/rocecn/flows/triage"
	"github.com/rocecn/rocecn/rocev2"
)

// A question is a frequent question about a capture, with its answer.
type question struct {
	Asked  string
	Answer string
	Detail string
	Level  level
	Flow   *flows.Flow // the one that the answer is about; nil without
}

// A level says how a page shows an answer.
type level string

const (
	bad     level = "bad"     // look into it
	notable level = "notable" // worth knowing
	good    level = "good"
	unknown level = "unknown" // this capture cannot say
)

// decideByFindings replaces the answer to a question by the first finding with one of the causes, if there is one, so
// that the answers and the findings agree.
func (q *question) decideByFindings(s *flows.Snapshot, all []triage.Verdict, causes ...triage.Cause) {
	for i := range all {
		v := &all[i]
		if !slices.Contains(causes, v.Cause) {
			continue
		}
		q.Answer, q.Level = v.Cause.String(), bad
		if blame := formatSuspects(v); blame != "" {
			q.Answer += ": " + blame
		}
		if v.Cause.IsSymptom() {
			q.Level = notable
		}
		q.Detail = joinTexts(v.Text, q.Detail)
		for j := range s.Flows {
			if slices.Contains(v.Flows, s.Flows[j].FlowKey) {
				q.Flow = &s.Flows[j]
				break
			}
		}
		return
	}
}

// The causes that answer each question.
var (
	lossCauses = []triage.Cause{triage.CauseOtherDSCP, triage.CauseStorm, triage.CauseMTU, triage.CausePathDown,
		triage.CauseGaveUp, triage.CauseDiscarded, triage.CauseTrimmed, triage.CauseLost, triage.CauseTimedOut,
		triage.CauseReordered, triage.CauseCorrupt, triage.CauseRetransmitted, triage.CauseNotCaptured}
	congestionCauses = []triage.Cause{triage.CauseIncast, triage.CauseOnePath, triage.CauseTrimmed,
		triage.CauseNotECNCapable, triage.CauseCNPMissing, triage.CauseCNPUnheeded, triage.CauseCongested}
	notificationCauses = []triage.Cause{triage.CauseWrongICRC, triage.CauseCNPMissing, triage.CauseCNPUnheeded,
		triage.CauseTooManyNotices}
	pauseCauses = []triage.Cause{triage.CauseEndlessPause, triage.CausePauseStorm}
)

// answerQuestions are asked of the flows that are chosen, the charts of the first of them,
// and the links.
func answerQuestions(s *flows.Snapshot, findings []triage.Verdict, series func(rocev2.FlowKey) *flows.Series,
	files []string) []question {
	all := []question{
		answerLoss(s), answerCongestion(s), answerNotifications(s, series), answerPauses(s), answerQueues(s),
		answerComparison(files),
	}
	for i, causes := range [][]triage.Cause{lossCauses, congestionCauses, notificationCauses, pauseCauses} {
		all[i].decideByFindings(s, findings, causes...)
	}
	return all
}

// worstFlow returns the flow of which something is the most; nil if there is none of it.
func worstFlow(s *flows.Snapshot, of func(f *flows.Flow) float64) (found *flows.Flow) {
	most := 0.0
	for i := range s.Flows {
		if n := of(&s.Flows[i]); n > most {
			found, most = &s.Flows[i], n
		}
	}
	return found
}

// answerLoss answers with the lost requests, according to the answers to them.
func answerLoss(s *flows.Snapshot) question {
	q := question{Asked: "Is it loss, or is it the capture?"}
	var p flows.PSN
	var c flows.Retransmissions
	sequenced, resent := 0, uint64(0) // flows; retransmitted responses
	for i := range s.Flows {
		f := &s.Flows[i]
		if f.Sequenced {
			sequenced++
		}
		p.Lost, p.Unseen, p.Unjudged = p.Lost+f.PSN.Lost, p.Unseen+f.PSN.Unseen, p.Unjudged+f.PSN.Unjudged
		p.Late, p.Retransmitted = p.Late+f.PSN.Late, p.Retransmitted+f.PSN.Retransmitted
		r := &f.Responses.PSN
		p.Unjudged, p.Late, resent = p.Unjudged+r.NeverSeen(), p.Late+r.Late, resent+r.Retransmitted
		c.NAK, c.RNR = c.NAK+f.Causes.NAK, c.RNR+f.Causes.RNR
		c.Read, c.Timeout = c.Read+f.Causes.Read, c.Timeout+f.Causes.Timeout
	}
	q.Flow = worstFlow(s, func(f *flows.Flow) float64 {
		return float64(f.PSN.NeverSeen() + f.Responses.PSN.NeverSeen())
	})
	switch {
	case s.Capture.Sampled > 0:
		q.Answer, q.Level = fmt.Sprintf("Not to be said: the capture is a sample of about 1 packet in %d",
			s.Capture.Sampled), unknown
	case p.Lost > 0:
		q.Answer, q.Level = cli.Count(p.Lost, "packet")+" lost", bad
	case p.Unjudged > 0:
		q.Answer, q.Level = cli.Count(p.Unjudged, "packet")+" lost, or not captured", bad
	case p.Unseen > 0:
		q.Answer, q.Level = "The capture: "+cli.Count(p.Unseen, "packet")+" not in it arrived", notable
	case sequenced == 0:
		q.Answer, q.Level = "Not to be said: no flow has PSNs that follow one another", unknown
	default:
		q.Answer, q.Level = "Nothing is missing", good
		q.Flow = worstFlow(s, func(f *flows.Flow) float64 { return float64(f.PSN.Retransmitted) })
	}
	if p.Retransmitted+resent > 0 && q.Level != bad {
		q.Level = notable
	}
	var more []string
	add := func(n uint64, what string) {
		if n > 0 {
			more = append(more, fmt.Sprint(n, what))
		}
	}
	if p.Lost > 0 {
		add(p.Unjudged, " lost or not captured")
	}
	if p.Lost+p.Unjudged > 0 {
		add(p.Unseen, " not captured, as they were acknowledged")
	}
	add(p.Late, " out of order")
	q.Detail, more = strings.Join(more, ", "), nil
	add(c.NAK, " after NAKs")
	add(c.RNR, " after RNR NAKs")
	add(c.Read, " for the rest of a READ")
	add(c.Timeout, " after a timeout")
	add(resent, " responses")
	if len(more) > 0 {
		q.Detail = joinTexts(q.Detail, "retransmitted "+strings.Join(more, ", "))
	}
	return q
}

// answerCongestion answers with the marked flows.
func answerCongestion(s *flows.Snapshot) question {
	q := question{Asked: "Is there congestion?"}
	var ce, capable, marked uint64
	for i := range s.Flows {
		f := &s.Flows[i]
		ce += f.Data.CE
		capable += f.Data.Packets - f.ECN[rocev2.NotECT] - f.Responses.ECN[rocev2.NotECT]
		if f.Data.CE > 0 {
			marked++
		}
	}
	switch {
	case len(s.Flows) == 0:
		q.Answer, q.Level = "No flow", unknown
	case capable == 0:
		q.Answer, q.Level = "Not to be said: no packet can be marked", unknown
		q.Detail = "all of them are sent as not ECN-capable"
	case ce == 0:
		q.Answer, q.Level = "None: no packet is marked", good
	default:
		share := func(f *flows.Flow) float64 { return 100 * float64(f.Data.CE) / float64(max(f.Data.Packets, 1)) }
		f := worstFlow(s, func(f *flows.Flow) float64 { return float64(f.Data.CE) })
		q.Answer, q.Level = "The way to "+f.Dst.String(), bad
		q.Flow, q.Detail = f, fmt.Sprintf("%.1f%% of %s are marked; in all %d CE in %s", share(f), flowName(f), ce,
			cli.Count(marked, "flow"))
	}
	return q
}

// answerNotifications answers by the CNPs of flows with marks, and their rates.
func answerNotifications(s *flows.Snapshot, series func(rocev2.FlowKey) *flows.Series) question {
	q := question{Asked: "Do CNPs arrive, does the sender slow down?"}
	var cnps, marked, notified, stray uint64
	for i := range s.Flows {
		f := &s.Flows[i]
		n := f.CNPs + f.FastCNPs
		cnps += n
		if f.Data.CE > 0 {
			marked++
			if n > 0 {
				notified++
			}
		}
	}
	for i := range s.Unpaired {
		stray += s.Unpaired[i].CNPs + s.Unpaired[i].FastCNPs
	}
	switch {
	case cnps+stray == 0 && len(s.Flows) == 0:
		q.Answer, q.Level = "Not to be said: no flow", unknown
	case cnps+stray == 0 && marked == 0:
		q.Answer, q.Level = "None is needed: there is no CE and no CNP", good
	case cnps+stray == 0:
		q.Answer, q.Level = "No CNP in the capture", bad
		q.Detail = cli.Count(marked, "flow") + " with CE: no CNP was sent, or it was not captured"
	case notified < marked:
		q.Answer, q.Level = fmt.Sprintf("Not for %d of %s with CE", marked-notified, cli.Count(marked, "flow")), notable
		q.Detail = cli.Count(cnps+stray, "CNP") + " in all"
	default:
		q.Answer, q.Level = cli.Count(cnps+stray, "CNP"), notable
	}
	if stray > 0 {
		q.Detail = joinTexts(q.Detail, fmt.Sprintf("%d of flows that are not known", stray))
	}
	q.Flow = worstFlow(s, func(f *flows.Flow) float64 { return float64(f.CNPs + f.FastCNPs) })
	if q.Flow == nil {
		q.Flow = worstFlow(s, func(f *flows.Flow) float64 { return float64(f.Data.CE) })
		return q
	}
	if before, after, ok := ratesAroundCNP(series(q.Flow.FlowKey)); ok {
		q.Detail = joinTexts(q.Detail, fmt.Sprintf("%s went from %sbit/s to %s with its first CNP", flowName(q.Flow),
			formatScaled(before), formatScaled(after)))
	}
	return q
}

// ratesAroundCNP returns the rates before and after the first CNP, if there is time before and after it.
func ratesAroundCNP(s *flows.Series) (before, after float64, ok bool) {
	if s == nil {
		return 0, 0, false
	}
	i := slices.IndexFunc(s.Marks, func(m flows.Mark) bool {
		return m.Kind == flows.MarkCNP || m.Kind == flows.MarkFastCNP
	})
	if i < 0 {
		return 0, 0, false
	}
	at := s.Marks[i].Time.Sub(s.Start)
	var octets [2]uint64
	var times [2]time.Duration
	for _, b := range s.Bins {
		side := 0
		if b.From >= at {
			side = 1
		}
		octets[side] += b.IPOctets
		times[side] += b.To - b.From
	}
	if octets[0] == 0 || octets[1] == 0 || min(times[0], times[1])*20 < max(times[0], times[1]) {
		return 0, 0, false
	}
	rate := func(i int) float64 { return float64(octets[i]) * 8 / times[i].Seconds() }
	return rate(0), rate(1), true
}

// answerPauses answers by PFC and PAUSE frames, which end at their link.
func answerPauses(s *flows.Snapshot) question {
	q := question{Asked: "Is PFC pausing me?", Answer: "Not seen here", Level: unknown,
		Detail: "no PFC or PAUSE frame in the capture: they stay on their link, capture there"}
	var most time.Duration
	lines := 0
	for i := range s.Links {
		l := &s.Links[i]
		for name, p := range eachPriority(l) {
			lines++
			if p.Paused > most {
				most = p.Paused
				q.Answer, q.Level = fmt.Sprintf("Yes: %s for %s", priorityName(name), formatDuration(p.Paused)), bad
				q.Detail = fmt.Sprintf("by %s, %s", linkName(l), cli.Count(p.XOFF, "XOFF"))
			}
		}
	}
	switch {
	case lines > 0 && most == 0:
		q.Answer, q.Level = "No: such frames, but they pause nothing", good
		q.Detail = ""
	case lines > 1:
		q.Detail += fmt.Sprintf("; %d more below", lines-1)
	}
	return q
}

// answerQueues answers by IOAM traces.
func answerQueues(s *flows.Snapshot) question {
	q := question{Asked: "Which queue?", Answer: "Not known", Level: unknown,
		Detail: "no IOAM trace with a depth in the capture"}
	known := false
	for i := range s.Flows {
		known = known || s.Flows[i].Queue.Known
	}
	if f := worstFlow(s, func(f *flows.Flow) float64 { return float64(f.Queue.Depth) }); f != nil {
		q.Answer, q.Level = fmt.Sprintf("That of node %d", f.Queue.Node), notable
		q.Flow, q.Detail = f, fmt.Sprintf("it was %d deep", f.Queue.Depth)
	} else if known {
		q.Answer, q.Detail, q.Level = "None: all are empty", "", good
	}
	return q
}

// answerComparison says how to answer: a page is of one point.
func answerComparison(files []string) question {
	q := question{Asked: "Changes between two points?", Answer: "This is one point", Level: unknown,
		Detail: "rocecn flows -compare A B"}
	if len(files) == 1 {
		q.Detail = "rocecn flows -compare " + files[0] + " B"
	}
	return q
}

// joinTexts joins two texts, of which a may be a sentence.
func joinTexts(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	if strings.HasSuffix(a, ".") {
		return a + " " + b
	}
	return a + "; " + b
}

// flowName names a flow in a sentence.
func flowName(f *flows.Flow) string { return formatArrow(f) + " QP " + queuePair(f.DestQP) }
