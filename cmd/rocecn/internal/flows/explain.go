package flows

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/cli"
	"github.com/rocecn/rocecn/flows"
	"github.com/rocecn/rocecn/flows/triage"
	"github.com/rocecn/rocecn/rocev2"
)

// A verdictLine is the JSON object of a verdict.
type verdictLine struct {
	Verdict  bool        `json:"verdict"`
	Cause    string      `json:"cause"`
	Party    string      `json:"party,omitempty"`
	Suspects []string    `json:"suspects,omitempty"`
	Excluded []string    `json:"excluded,omitempty"`
	Flows    []keyLine   `json:"flows"`
	More     int         `json:"more_flows"`
	Joined   int         `json:"joined"`
	Since    string      `json:"since"`
	Until    string      `json:"until"`
	Text     string      `json:"text"`
	Next     string      `json:"next"`
	Frames   []frameLine `json:"frames"`
	Filter   string      `json:"filter"`
}

type (
	keyLine struct {
		Src    string `json:"src"`
		Dst    string `json:"dst"`
		DestQP uint32 `json:"dest_qp"`
	}
	frameLine struct {
		Frame uint64 `json:"frame"`
		What  string `json:"what"`
	}
)

// maxKeys is the maximum number of flows that a verdict names.
const maxKeys = 64

func verdictLineOf(v *triage.Verdict) *verdictLine {
	l := &verdictLine{Verdict: true, Cause: v.Cause.String(), Party: v.Party, Suspects: v.Suspects,
		Excluded: v.Excluded, Flows: []keyLine{}, Joined: v.Joined,
		Since: formatTime(v.Since), Until: formatTime(v.Until), Text: v.Text, Next: v.Next, Frames: []frameLine{},
		Filter: v.Filter, More: max(len(v.Flows)-maxKeys, 0)}
	for _, k := range v.Flows[:len(v.Flows)-l.More] {
		l.Flows = append(l.Flows, keyLine{k.Src.String(), k.Dst.String(), k.DestQP})
	}
	for _, f := range v.Frames {
		l.Frames = append(l.Frames, frameLine{f.Number, f.What})
	}
	return l
}

// A controlLine describes the effect of CNPs on a flow, in its JSON object with -explain.
type controlLine struct {
	Judged   uint64     `json:"judged"`
	Slowed   uint64     `json:"cut"`
	Before   float64    `json:"before_bps"`
	After    float64    `json:"after_bps"`
	Recovery *timesLine `json:"recovery_us,omitempty"`
	Unheeded uint64     `json:"unheeded,omitempty"`
	DSCP     []int      `json:"cnp_dscp"`
	PCP      []int      `json:"cnp_pcp,omitempty"`
}

// controlLineOf returns nil for a flow without a CNP.
func controlLineOf(f *flows.Flow) *controlLine {
	if f.Evidence == nil || f.Evidence.CNPDSCP == 0 {
		return nil
	}
	c := &f.Evidence.Control
	l := &controlLine{Judged: c.Judged, Slowed: c.Slowed, Before: float64(int64(c.Before)),
		After:    float64(int64(c.After)),
		Unheeded: c.Unheeded.Count, DSCP: setBits(f.Evidence.CNPDSCP), PCP: setBits(uint64(f.Evidence.CNPPCP))}
	if c.Recovery.Count() > 0 {
		l.Recovery = new(timesOf(c.Recovery))
	}
	return l
}

// formatControl describes the effect of CNPs on a flow, their DSCP, and the retransmission timeout of the sender, as
// far as there is evidence.
func formatControl(f *flows.Flow) (all []string) {
	if f.Evidence == nil {
		return nil
	}
	c := &f.Evidence.Control
	if c.Judged > 0 {
		text := fmt.Sprintf("slowed down after %d of %s", c.Slowed, cli.Count(c.Judged, "CNP"))
		if c.Slowed > 0 {
			text += fmt.Sprintf(" (%sbit/s before, %sbit/s after, on average)", formatScaled(c.Before),
				formatScaled(c.After))
		}
		if c.Recovery.Count() > 0 {
			text += fmt.Sprintf(" and was back after %s", formatDuration(c.Recovery.Percentile(0.5)))
		}
		all = append(all, text)
	}
	if f.Spacing >= 0 {
		all = append(all, "CNPs "+formatDuration(f.Spacing)+" apart at least")
	}
	if set := f.Evidence.CNPDSCP; set != 0 {
		text := "CNPs with DSCP " + joinNumbers(setBits(set))
		if pcp := f.Evidence.CNPPCP; pcp != 0 {
			text += " and PCP " + joinNumbers(setBits(uint64(pcp)))
		}
		all = append(all, text)
	}
	if e := f.Evidence; e.MaxTimeout > 0 && f.Causes.Timeout > 0 {
		text := "silent for " + formatDuration(e.MinTimeout)
		if e.MaxTimeout > e.MinTimeout {
			text += " to " + formatDuration(e.MaxTimeout)
		}
		all = append(all, text+" before a retransmission after a timeout")
	}
	return all
}

// joinNumbers writes a list of numbers.
func joinNumbers(all []int) string {
	words := make([]string, len(all))
	for i, n := range all {
		words[i] = fmt.Sprint(n)
	}
	return strings.Join(words, ", ")
}

// A silenceLine is the time without packets of a sender before it retransmitted after a timeout.
type silenceLine struct {
	Least      float64 `json:"least"`
	Most       float64 `json:"most"`
	Covered    uint64  `json:"covered"`     // retransmissions that an answer in the capture had covered
	AckTimeout int     `json:"ack_timeout"` // the highest Local ACK Timeout that is not longer than the least
}

// ackTimeoutOf returns the highest Local ACK Timeout, 4.096 µs times a power of two, that is not longer than d: 0 where
// none is.
func ackTimeoutOf(d time.Duration) (exponent int) {
	for exponent < 31 && 4096<<(exponent+1) <= d.Nanoseconds() {
		exponent++
	}
	return exponent
}

// chooseVerdicts leaves out the verdicts that are about other flows than those chosen.
func (a *accountant) chooseVerdicts(chosen *flows.Snapshot) {
	shown := map[rocev2.FlowKey]bool{}
	for i := range chosen.Flows {
		shown[chosen.Flows[i].FlowKey] = true
	}
	a.verdicts = slices.DeleteFunc(a.verdicts, func(v triage.Verdict) bool {
		return len(v.Flows) > 0 && !slices.ContainsFunc(v.Flows, func(k rocev2.FlowKey) bool { return shown[k] })
	})
	a.causes = map[rocev2.FlowKey][]string{}
	for i := range a.verdicts {
		v := &a.verdicts[i]
		for _, k := range v.Flows {
			if c := v.Cause.String(); !slices.Contains(a.causes[k], c) {
				a.causes[k] = append(a.causes[k], c)
			}
		}
	}
}

// printVerdicts prints the verdicts: before the table as text, after the flows as JSON.
func (a *accountant) printVerdicts() error {
	if !a.explains {
		return nil
	}
	if a.form == "json" {
		out := cli.NewJSON(a.out)
		out.SetEscapeHTML(false) // filters have &&
		return cli.Output(cmp.Or(a.eachVerdict(out.Encode), a.out.Flush()))
	}
	switch {
	case a.crowded:
		a.out.WriteString("no explanations, because the table was full and evicted flows (-max-flows)\n")
	case len(a.verdicts) == 0 && a.onlyAnswers:
		a.out.WriteString("nothing can be explained: the capture has no request of any flow\n")
	case len(a.verdicts) == 0:
		a.out.WriteString("nothing to explain\n")
	}
	shown := a.verdicts
	if len(shown) > shownFindings && !a.all {
		shown = shown[:shownFindings]
	}
	for i := range shown {
		a.out.Write(a.human.appendVerdict(&shown[i]))
	}
	if n := len(a.verdicts) - len(shown); n > 0 {
		fmt.Fprintf(a.out, "%s: -all\n", cli.Count(uint64(n), "more finding"))
	}
	a.out.WriteString("\n")
	return cli.Output(a.out.Flush())
}

// eachVerdict calls put with the object of each verdict, until it returns an error.
func (a *accountant) eachVerdict(print func(line any) error) error {
	for i := range a.verdicts {
		if err := print(verdictLineOf(&a.verdicts[i])); err != nil {
			return err
		}
	}
	return nil
}

// shownFindings is the maximum number of findings that are printed without -all.
const shownFindings = 10

// formatSuspects returns the party or the suspects of a verdict, or nothing.
func formatSuspects(v *triage.Verdict) string {
	if v.Party != "" || len(v.Suspects) == 0 {
		return v.Party
	}
	shown := v.Suspects
	if n := len(shown); n > 4 {
		shown = append(slices.Clone(shown[:2]), fmt.Sprintf("%d more", n-3), shown[n-1])
	}
	if len(shown) == 1 {
		return "perhaps " + shown[0]
	}
	return "either " + strings.Join(shown[:len(shown)-1], ", ") + " or " + shown[len(shown)-1]
}

// appendVerdict writes one for people.
func (h *human) appendVerdict(v *triage.Verdict) []byte {
	colour := red
	if v.Cause.IsSymptom() {
		colour = yellow
	}
	b := h.colourText(nil, v.Cause.String(), colour)
	if text := formatSuspects(v); text != "" {
		b = fmt.Appendf(b, ": %s", text)
	}
	b = append(b, '\n')
	texts := []string{v.Text}
	if len(v.Excluded) > 0 {
		texts = append(texts, "Excluded: "+strings.Join(v.Excluded, "; ")+".")
	}
	for _, text := range append(texts, "Next: "+v.Next) {
		for _, line := range wrapText(text, h.width()-2) {
			b = fmt.Appendf(b, "  %s\n", line)
		}
	}
	var words []string
	for _, f := range v.Frames {
		words = append(words, fmt.Sprintf("%d %s", f.Number, f.What))
	}
	if len(words) > 0 {
		words[0] = "frames " + words[0]
	}
	for _, line := range wrapParts(words, h.width()-2) {
		b = fmt.Appendf(b, "  %s\n", line)
	}
	return fmt.Appendf(b, "  %s\n", v.Filter)
}

// wrapText breaks a text into lines of this width.
func wrapText(text string, width int) (lines []string) {
	line := ""
	for word := range strings.FieldsSeq(strings.ReplaceAll(text, " %", "\x00%")) { // no line begins with %
		word = strings.ReplaceAll(word, "\x00", " ")
		switch {
		case line == "":
			line = word
		case len(line)+1+len(word) <= width:
			line += " " + word
		default:
			lines = append(lines, line)
			line = word
		}
	}
	return append(lines, line)
}

// addExplanation adds the results of -explain to the line of a flow.
func (a *accountant) addExplanation(l *flowLine, f *flows.Flow) *flowLine {
	if f.Evidence == nil || !a.explains {
		return l
	}
	l.Verdicts, l.Control = a.causes[f.FlowKey], controlLineOf(f)
	if e := f.Evidence; e.MaxTimeout > 0 {
		l.Silence = &silenceLine{toMicroseconds(e.MinTimeout), toMicroseconds(e.MaxTimeout), e.AlreadyAcknowledged,
			ackTimeoutOf(e.MinTimeout)}
	}
	return l
}
