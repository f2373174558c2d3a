package flows

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/rocecn/rocecn/flows"
	"github.com/rocecn/rocecn/flows/triage"
)

// A rule limits a metric, of each flow or of all together, or the number of findings:
//
//	repeats=0   ce<1%   total.cnps>0   verdicts=0   cause.no-cnp=0
//
// A percentage is that of the packets of data: requests and responses.
type rule struct {
	text    string
	metric  metric
	total   bool
	finding string // causePrefix and a cause, or "verdicts"; empty if the rule limits a metric
	compare func(n, value float64) bool
	value   float64
	percent bool
}

var comparisons = map[string]func(n, value float64) bool{
	"<":  func(n, value float64) bool { return n < value },
	"<=": func(n, value float64) bool { return n <= value },
	"=":  func(n, value float64) bool { return n == value },
	"==": func(n, value float64) bool { return n == value },
	"!=": func(n, value float64) bool { return n != value },
	">=": func(n, value float64) bool { return n >= value },
	">":  func(n, value float64) bool { return n > value },
}

// ruleSyntax has the parts of a rule: total, the metric, a comparison, the value
// and percent.
var ruleSyntax = regexp.MustCompile(`^(total\.)?([^<>=!]*)([<>=!]=|[<>=])(.*?)(%?)$`)

// parseRules reads a list with commas between.
func parseRules(list string) (all []rule, err error) {
	for text := range strings.SplitSeq(list, ",") {
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		r, err := ruleOf(text)
		if err != nil {
			return nil, fmt.Errorf("rule %q: %w", text, err)
		}
		all = append(all, r)
	}
	return all, nil
}

func ruleOf(text string) (r rule, err error) {
	parts := ruleSyntax.FindStringSubmatch(text)
	if parts == nil {
		return r, errors.New("want a name, one of < <= = != >= > and a number")
	}
	r = rule{text: text, total: parts[1] != "", compare: comparisons[parts[3]], percent: parts[5] != ""}
	name := strings.TrimSpace(parts[2])
	switch cause, ok := strings.CutPrefix(name, causePrefix); {
	case name == "verdicts", ok && slices.ContainsFunc(triage.Causes(), func(c triage.Cause) bool {
		return causeName(c) == cause
	}):
		r.finding, r.metric = name, metric{name: name}
	case ok:
		return r, fmt.Errorf("cause %q: want one of %s", cause, strings.Join(ruleCauses(), ", "))
	default:
		if r.metric, err = metricOf(name); err != nil {
			return r, err
		}
	}
	if (r.total || r.percent) && r.metric.count == nil {
		return r, fmt.Errorf("%s: want a count: other numbers have no total and no percentage", r.metric.name)
	}
	if r.value, err = strconv.ParseFloat(strings.TrimSpace(parts[4]), 64); err != nil || math.IsNaN(r.value) {
		return r, fmt.Errorf("%q: want a number", strings.TrimSpace(parts[4]))
	}
	return r, nil
}

// causePrefix begins a rule about the findings with one cause.
const causePrefix = "cause."

// causeName returns the name of a cause in a rule: in lower case and with hyphens.
func causeName(c triage.Cause) string {
	return strings.ToLower(strings.ReplaceAll(c.String(), " ", "-"))
}

func ruleCauses() (all []string) {
	for _, c := range triage.Causes() {
		all = append(all, causeName(c))
	}
	return all
}

// countFindings returns the number of findings that a rule limits.
func (r *rule) countFindings(all []triage.Verdict) (n float64) {
	for i := range all {
		if r.finding == "verdicts" || r.finding == causePrefix+causeName(all[i].Cause) {
			n++
		}
	}
	return n
}

// needFindings reports whether a rule limits findings.
func needFindings(rules []rule) bool {
	return slices.ContainsFunc(rules, func(r rule) bool { return r.finding != "" })
}

// holds reports whether a number of so many packets conforms to the rule.
func (r *rule) holds(n float64, packets uint64) bool {
	if r.percent {
		if packets == 0 {
			return true
		}
		n = 100 * n / float64(packets)
	}
	return r.compare(n, r.value)
}

// A verdict is a rule that was broken.
type verdict struct {
	rule  *rule
	where string
	value float64
}

func (v verdict) String() string {
	return fmt.Sprintf("rule %s is broken: %s has %s %v", v.rule.text, v.where, v.rule.metric.name, v.value)
}

// isRejection reports whether a metric counts NAKs, RNR NAKs or answers with a wrong ICRC: such answers are rejected
// requests also if they match no flow.
func (m *metric) isRejection() bool {
	return m.name == "naks" || strings.HasPrefix(m.name, "naks.") || m.name == "rnr_naks" ||
		m.name == "answers_icrc_wrong"
}

// checkRules returns the flows that break rules. Rules do not apply to the queue pairs of management, nor to metrics
// that were not measured. Totals include unpaired answers, and rules about NAKs and wrong answers apply to each
// unpaired line.
func checkRules(rules []rule, all []flows.Flow, unpaired []flows.Unpaired,
	findings []triage.Verdict) (broken []verdict) {
	for i := range rules {
		r := &rules[i]
		if r.finding != "" {
			if n := r.countFindings(findings); !r.holds(n, 0) {
				broken = append(broken, verdict{r, "the capture", n})
			}
			continue
		}
		var total float64
		var packets uint64
		for j := range all {
			f := &all[j]
			packets += f.Data.Packets
			n, ok := r.metric.of(f)
			if !ok {
				continue
			}
			total += n
			if !r.total && f.DestQP > 1 && !r.holds(n, f.Data.Packets) {
				broken = append(broken, verdict{r, f.FlowKey.String(), n})
			}
		}
		for j := range unpaired {
			u := &unpaired[j]
			n, ok := r.metric.of(&flows.Flow{Answers: u.Answers})
			if ok && !r.total && r.metric.isRejection() && !r.holds(n, 0) {
				broken = append(broken, verdict{r, "unpaired " + u.FlowKey.String(), n})
			}
		}
		if !r.total {
			continue
		}
		for j := range unpaired {
			f := flows.Flow{Answers: unpaired[j].Answers}
			if n, ok := r.metric.of(&f); ok {
				total += n
			}
		}
		if !r.holds(total, packets) {
			broken = append(broken, verdict{r, "the total", total})
		}
	}
	return broken
}
