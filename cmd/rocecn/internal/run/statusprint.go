package run

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/cli"
)

const statusUsage = `usage: rocecn status [ADDR]
Prints the state of a running agent: its roles, sources and sinks, the notified senders and flows, and the hosts that
reject Fast CNPs. ADDR is the agent's key http, 127.0.0.1:9479 by default.
`

const (
	// defaultHTTP is the address of the agent if none is given.
	defaultHTTP = "127.0.0.1:9479"
	// statusTimeout is the longest time that the agent may take to answer, and maxStatus its longest answer in bytes.
	statusTimeout = 10 * time.Second
	maxStatus     = 64 << 20
	// statusWidth is the longest line that Status prints.
	statusWidth = 80
	// maxPrinted is the number of hosts, senders or flows that Status prints for a role.
	maxPrinted = 20
)

// Status runs the command status and returns its exit status.
func Status(ctx context.Context, args []string, _ io.Reader, stdout, stderr io.Writer) int {
	flags := cli.Flags("status", statusUsage, stderr)
	others, err := cli.Parse(flags, args)
	switch {
	case err != nil:
		return cli.Unparsed(err)
	case len(others) > 1:
		flags.Usage()
		return cli.Misused
	}
	address := defaultHTTP
	if len(others) == 1 {
		if address = others[0]; strings.HasPrefix(address, ":") {
			address = "localhost" + address
		}
	}
	s, err := fetchStatus(ctx, address)
	if err != nil {
		cli.PrintError(stderr, "status", address, err)
		return cli.Failed
	}
	_, err = io.WriteString(stdout, formatStatus(s, address, time.Now()))
	return cli.End(stderr, "status", err)
}

// fetchStatus returns the answer of the agent at an address.
func fetchStatus(ctx context.Context, address string) (*agentStatus, error) {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/status", nil)
	if err != nil {
		return nil, fmt.Errorf("%q: want an address and a port, as 127.0.0.1:9479", address)
	}
	answer, err := (&http.Transport{}).RoundTrip(request) // a proxy of the environment does not reach the agent
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the answer is %s: want the key http of an agent", answer.Status)
	}
	var s agentStatus
	if err := json.NewDecoder(io.LimitReader(answer.Body, maxStatus)).Decode(&s); err != nil {
		return nil, fmt.Errorf("the answer is not the status of an agent: %w", err)
	}
	return &s, nil
}

// A statusPrinter formats a status in lines of at most statusWidth columns. Text from the agent is escaped, because it
// may be another program that answers.
type statusPrinter struct {
	strings.Builder
	now time.Time
}

// formatStatus returns a status as text.
func formatStatus(s *agentStatus, address string, now time.Time) string {
	p := &statusPrinter{now: now}
	state := "ready"
	if s.WaitsFor != "" {
		state = "waits for " + s.WaitsFor
	}
	p.wrap("", "agent at "+address+": "+state)
	loaded := "configuration loaded " + p.formatAgo(s.Loaded)
	if !s.Good {
		loaded += "; the last reload failed"
	}
	p.wrap("", loaded)
	for i := range s.Roles {
		p.writeRole(&s.Roles[i], s.Sinks)
	}
	p.WriteString("\nsources\n")
	for _, one := range s.Sources {
		counts := fmt.Sprintf("packets %s, lost %s", formatCount(one.N), formatCount(one.Lost))
		if one.Kernel {
			counts = "read by the kernel"
		}
		p.wrap("  ", fmt.Sprintf("%s (%s, %s): %s, %s", one.Name, one.Type, one.Input, formatUp(one.Up), counts))
	}
	if len(s.Sources) == 0 {
		p.WriteString("  none\n")
	}
	for i := range s.Routing {
		p.writeRouting(&s.Routing[i])
	}
	return p.String()
}

func (p *statusPrinter) writeRole(r *roleStatus, sinks []sinkStatus) {
	from := strings.Join(slices.Concat(r.Sources, r.Observe), ", ")
	if from != "" {
		from = ", from " + from
	}
	p.wrap("\n", "role "+r.Name+from)
	marked, packets := "marked", maps.Clone(r.Packets)
	if copies := min(r.MarkedCopies, packets["marked"]); copies > 0 {
		marked, packets["not marked"] = "not marked", copies // the lists only have the agent's own decisions
		if packets["marked"] -= copies; packets["marked"] == 0 {
			delete(packets, "marked")
		}
	}
	p.writeCounts("packets", packets)
	if r.MarksNotMade > 0 {
		p.wrap("  ", "marks not made: "+formatCount(r.MarksNotMade)+"; the agent only sees copies of packets")
	}
	if r.Unlearned > 0 {
		p.wrap("  ", "queue pairs may be unknown: the tables were full for "+
			formatCount(uint64(r.Unlearned))+" packets")
	}
	p.writeCounts("sent", r.Sent)
	p.writeCounts("rejected", r.Refused)
	p.writeCounts("dropped by nftables", r.Dropped)
	for _, s := range sinks {
		if s.Role != r.Name {
			continue
		}
		p.wrap("  ", fmt.Sprintf("sink %s: %s, sent %s", s.Name, formatUp(s.Up), formatCount(s.N)))
		p.writeCounts("not sent", s.Errors)
	}
	var fills []string
	for _, t := range r.Tables {
		entries, most := formatCount(uint64(t.Entries)), formatCount(uint64(t.Max))
		fills = append(fills, fmt.Sprintf("%s %s of %s", t.Name, entries, most))
	}
	if len(fills) > 0 {
		p.wrap("  ", "tables: "+strings.Join(fills, ", "))
	}
	p.writeEntries("senders", r.Senders, marked)
	p.writeEntries("flows", r.Flows, marked)
	if r.FlowsError != "" {
		p.wrap("  ", "flows of the kernel are missing: "+r.FlowsError)
	}
	if r.Rejecting == nil {
		return
	}
	p.wrap("  ", "hosts that reject Fast CNPs: "+formatCount(uint64(r.Rejecting.Total)))
	for _, h := range r.Rejecting.Hosts[:min(len(r.Rejecting.Hosts), maxPrinted)] {
		probe := "a probe may still be rejected"
		switch {
		case h.NextProbe == nil:
		case h.NextProbe.After(p.now):
			probe = "next probe " + p.formatAgo(*h.NextProbe)
		default:
			probe = "its next congested packet is answered by a probe"
		}
		p.wrap("    ", fmt.Sprintf("%v: since %s, %s", h.Host, formatTime(h.Since), probe))
	}
	p.writeMore(len(r.Rejecting.Hosts), r.Rejecting.Total)
}

// writeEntries writes flows or senders with their decisions, two lines each. marked is the word for packets that were
// only to be marked.
func (p *statusPrinter) writeEntries(title string, l *flowList, marked string) {
	if l == nil || len(l.Listed) == 0 {
		return
	}
	title += ", the latest first: " + formatCount(uint64(l.Total))
	if l.Forgotten > 0 {
		title += ", and " + formatCount(l.Forgotten) + " forgotten"
	}
	p.wrap("  ", title)
	for i := range l.Listed[:min(len(l.Listed), maxPrinted)] {
		f := &l.Listed[i]
		p.wrap("    ", formatFlow(f))
		p.wrap("      ", strings.Join(append(listFacts(f, marked), p.formatAgo(f.Last)), ", "))
	}
	p.writeMore(len(l.Listed), l.Total)
}

// formatFlow returns a flow or a sender, as far as it is known.
func formatFlow(f *flowStatus) string {
	name := "unknown"
	if f.Src.IsValid() {
		name = f.Src.String()
	}
	if f.Dst.IsValid() {
		name += " > " + f.Dst.String()
	}
	if f.DestQP != 0 {
		name += fmt.Sprintf(" qp %d", f.DestQP)
	}
	if f.Domain != 0 {
		name += fmt.Sprintf(" domain %d", f.Domain)
	}
	return name
}

// listFacts returns the counts of a flow or a sender, and the fields of its last decisions.
func listFacts(f *flowStatus, marked string) (facts []string) {
	for _, count := range []struct {
		name string
		n    uint64
	}{
		{"notified", f.Sent}, {"limited", f.Limited}, {"rejected", f.Refused}, {marked, f.Marked},
		{"accepted", f.Accepted}, {"dropped", f.Dropped},
	} {
		if count.n > 0 {
			facts = append(facts, count.name+" "+formatCount(count.n))
		}
	}
	if f.Kind != "" {
		facts = append(facts, "by "+f.Kind+" to "+f.To.String())
	}
	if f.Reason != "" {
		facts = append(facts, "last reason "+f.Reason)
	}
	if f.Level != nil {
		facts = append(facts, "level "+strconv.Itoa(int(*f.Level)))
	}
	if f.Depth != nil {
		facts = append(facts, "depth "+formatCount(*f.Depth))
	}
	return facts
}

// writeMore writes the number of entries of a list that were not printed.
func (p *statusPrinter) writeMore(listed, total int) {
	if more := total - min(listed, maxPrinted); more > 0 {
		p.wrap("    ", formatCount(uint64(more))+" more; /status lists "+formatCount(uint64(listed)))
	}
}

// writeCounts writes counters with their names, if there are any.
func (p *statusPrinter) writeCounts(title string, counts map[string]uint64) {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		all = append(all, name+" "+formatCount(counts[name]))
	}
	if len(all) > 0 {
		p.wrap("  ", title+": "+strings.Join(all, ", "))
	}
}

// wrap writes text after an indentation. It breaks lines at spaces, and indents further lines by two more columns.
func (p *statusPrinter) wrap(indent, text string) {
	line := indent
	width := len(strings.TrimLeft(indent, "\n"))
	first := true
	for word := range strings.FieldsSeq(text) {
		word = cli.Printable(word)
		if n := len([]rune(word)); !first && width+1+n > statusWidth {
			p.WriteString(line + "\n")
			line = strings.TrimLeft(indent, "\n") + "  "
			width, first = len(line), true
		}
		if !first {
			line += " "
			width++
		}
		line += word
		width += len([]rune(word))
		first = false
	}
	p.WriteString(line + "\n")
}

// formatUp returns the state of a source or sink.
func formatUp(up bool) string {
	if up {
		return "up"
	}
	return "down"
}

// formatTime returns a time of this host, without its date.
func formatTime(t time.Time) string { return t.Local().Format(time.TimeOnly) }

// formatAgo returns the distance of a time from now, in whole seconds.
func (p *statusPrinter) formatAgo(t time.Time) string {
	d := p.now.Sub(t).Round(time.Second)
	if d < 0 {
		return "in " + (-d).String()
	}
	return d.String() + " ago"
}

// formatCount returns a number with commas between groups of three digits.
func formatCount(n uint64) string {
	text := strconv.FormatUint(n, 10)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
