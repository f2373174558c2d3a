package run

import (
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/io/fastpath"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/roles"
	"github.com/rocecn/rocecn/node"
)

// agentStatus is the content of /status.
type agentStatus struct {
	Config   string          `json:"config"`
	Loaded   time.Time       `json:"loaded"`
	Good     bool            `json:"last_reload_successful"`
	WaitsFor string          `json:"waits_for,omitempty"`
	Roles    []roleStatus    `json:"roles"`
	Sources  []sourceStatus  `json:"sources"`
	Sinks    []sinkStatus    `json:"sinks"`
	Routing  []routingStatus `json:"routing,omitempty"`
}

// roleStatus is the state of a role.
type roleStatus struct {
	Name    string   `json:"name"`
	Sources []string `json:"sources"`
	Observe []string `json:"observe,omitempty"`
	Sink    string   `json:"sink,omitempty"`
	SinkUp  bool     `json:"sink_up"`
	Pairs   int64    `json:"pairs"`
	// Unlearned is the number of packets that were not used to learn queue pairs.
	Unlearned int64             `json:"unlearned,omitempty"`
	Packets   map[string]uint64 `json:"packets"`           // by outcome
	Sent      map[string]uint64 `json:"sent,omitempty"`    // notifications, by kind
	Refused   map[string]uint64 `json:"refused,omitempty"` // by reason
	Dropped   map[string]uint64 `json:"dropped,omitempty"` // by the rules of nftables, by rule
	// MarksNotMade is the number of packets that should have been marked. The agent only sees copies of them.
	MarksNotMade uint64 `json:"marks_not_made,omitempty"`
	// MarkedCopies is the number of these packets that Packets counts as marked. The others of them were marked.
	MarkedCopies uint64           `json:"marked_copies,omitempty"`
	Tables       []roles.Table    `json:"tables,omitempty"`
	Rejecting    *rejectingStatus `json:"rejecting,omitempty"`
	Senders      *flowList        `json:"senders,omitempty"`
	Flows        *flowList        `json:"flows,omitempty"`
	// FlowsError is the error because of which flows of the kernel are missing in Senders and Flows.
	FlowsError string `json:"flows_error,omitempty"`
}

// rejectingStatus are the hosts that reject Fast CNPs.
type rejectingStatus struct {
	Total int                   `json:"total"`
	Hosts []rejectingHostStatus `json:"hosts"`
}

type rejectingHostStatus struct {
	Host      netip.Addr `json:"host"`
	Since     time.Time  `json:"since"`
	NextProbe *time.Time `json:"next_probe,omitempty"` // absent while the host may still reject a probe
}

// A flowList are the flows or senders that decisions were about, the latest first.
type flowList struct {
	Total     int          `json:"total"`               // in the table
	Forgotten uint64       `json:"forgotten,omitempty"` // evicted from the table
	Listed    []flowStatus `json:"listed"`
}

// A flowStatus has the decisions about a flow, or about a sender if it has no Dst.
type flowStatus struct {
	Src    netip.Addr `json:"src,omitzero"`
	Dst    netip.Addr `json:"dst,omitzero"`
	DestQP uint32     `json:"dest_qp,omitempty"`
	Domain uint32     `json:"domain,omitempty"`
	decisionCounts
	Reason string     `json:"reason,omitempty"` // last reason for which a packet was rejected
	Kind   string     `json:"kind,omitempty"`   // kind of the last notification
	To     netip.Addr `json:"to,omitzero"`      // destination of the last notification
	Level  *uint8     `json:"level,omitempty"`  // congestion level of the last packet
	Depth  *uint64    `json:"depth,omitempty"`  // queue depth at the last packet in octets
	Last   time.Time  `json:"last"`             // time of the last decision
}

type sourceStatus struct {
	Name  string `json:"name"`
	Type  string `json:"type"`
	Input string `json:"input"`
	Up    bool   `json:"up"`
	// Kernel reports whether a program in the kernel reads the source, which does not count its packets.
	Kernel bool   `json:"kernel,omitempty"`
	N      uint64 `json:"packets"`
	Lost   uint64 `json:"lost"`
}

// sinkStatus is the state of a sink as one role uses it.
type sinkStatus struct {
	Name   string            `json:"name"`
	Role   string            `json:"role"`
	Up     bool              `json:"up"`
	N      uint64            `json:"packets"`
	Errors map[string]uint64 `json:"errors,omitempty"`
}

// buildStatus returns the content of /status.
func (s *server) buildStatus() *agentStatus {
	answer, tables := s.copyStatus()
	for i := range answer.Roles { // without the lock, since a table of the kernel is large
		r := &answer.Roles[i]
		if t := tables[r.Name]; t != nil {
			r.addKernelFlows(t.VisitFlows)
			_ = t.Close()
		}
		r.limitFlows()
	}
	return answer
}

// copyStatus returns the status with all flows of the agent, and the tables of flows in the kernel by role, which the
// caller closes.
func (s *server) copyStatus() (answer *agentStatus, tables map[string]*fastpath.FlowTable) {
	waitsFor := s.findMissing()
	s.mu.RLock()
	defer s.mu.RUnlock()
	answer, tables = &agentStatus{
		Config: hideSeeds(string(s.file.octets)), Loaded: s.reloaded.at, Good: s.reloaded.good, WaitsFor: waitsFor,
		Roles: []roleStatus{}, Sources: []sourceStatus{}, Sinks: []sinkStatus{}, // empty lists instead of null
		Routing: s.file.buildRoutingStatus(),
	}, map[string]*fastpath.FlowTable{}
	s.visitParts(func(name, kind, input string, up bool, p *part) {
		one := sourceStatus{Name: name, Type: kind, Input: input, Up: up}
		if p != nil {
			one.N, one.Lost = p.events.Load(), p.lost.Load()
		}
		answer.Sources = append(answer.Sources, one)
	})
	s.visitKernelPorts(func(p kernelPort, up bool) {
		answer.Sources = append(answer.Sources,
			sourceStatus{Name: p.source, Type: p.kind, Input: p.name, Up: up, Kernel: true})
	})
	for _, a := range s.actors {
		r := s.buildRoleStatus(a)
		if k := s.findKernelRole(r.Name); k != nil {
			if p, ok := k.program.(*switchProgram); ok {
				var err error
				if tables[r.Name], err = p.OpenFlows(); err != nil {
					r.FlowsError = err.Error()
				}
			}
		}
		answer.Roles = append(answer.Roles, r)
		if a.out == nil {
			continue
		}
		one := sinkStatus{
			Name: a.out.entry.name, Role: a.instance.Name, Up: a.out.canSend(), N: a.out.packets.Load(),
			Errors: map[string]uint64{},
		}
		for failure := range a.out.errors {
			addCount(one.Errors, failureNames[failure], a.out.errors[failure].Load())
		}
		answer.Sinks = append(answer.Sinks, one)
	}
	s.visitKernelSinks(func(role string, in *kernelCounts) {
		one := sinkStatus{Name: "kernel", Role: role, Up: true, N: in.transmitted, Errors: map[string]uint64{}}
		for failure, n := range in.errors {
			addCount(one.Errors, failureNames[failure], n)
		}
		answer.Sinks = append(answer.Sinks, one)
	})
	return answer, tables
}

// buildRoleStatus returns the state of a role, without flows of the kernel.
func (s *server) buildRoleStatus(a *actor) roleStatus {
	r := roleStatus{
		Name: a.instance.Name, Sources: append([]string{}, a.instance.Agent.Sources...),
		Observe: a.instance.Agent.Observe, Sink: a.instance.Agent.Sink,
		SinkUp: a.out != nil && a.out.canSend(), Pairs: a.sizes[pairsSize].Load(),
		Unlearned: a.sizes[unlearnedSize].Load(),
		Packets:   map[string]uint64{}, Sent: map[string]uint64{}, Refused: map[string]uint64{},
		Dropped: map[string]uint64{}, MarksNotMade: a.marksNotMade.Load(),
		MarkedCopies: a.markedCopies.Load(), // before Packets, which then has at least as many
		Senders:      new(flowList), Flows: new(flowList),
	}
	for action := range a.outcomes {
		addCount(r.Packets, outcomes[node.Action(action)], s.countOutcome(a, node.Action(action)))
	}
	for _, k := range kinds {
		addCount(r.Sent, k.String(), s.readCounter(a, node.Count{Action: node.ActionSent, Message: k}))
	}
	for _, reason := range reasons {
		addCount(r.Refused, reason.String(), s.readCounter(a, node.Count{Action: node.ActionRefused, Reason: reason}))
	}
	for drops, n := range s.border.dropped {
		if drops.role == r.Name {
			addCount(r.Dropped, drops.rule, n)
		}
	}
	if tables := a.tables.Load(); tables != nil {
		r.Tables = *tables
	}
	if hosts := a.rejecting.Load(); hosts != nil && hosts.total > 0 {
		r.Rejecting = &rejectingStatus{Total: hosts.total}
		for _, h := range hosts.listed {
			one := rejectingHostStatus{Host: h.Host, Since: h.Since}
			if !h.NextProbe.IsZero() {
				one.NextProbe = &h.NextProbe
			}
			r.Rejecting.Hosts = append(r.Rejecting.Hosts, one)
		}
	}
	if listed := a.listed.Load(); listed != nil {
		*r.Senders, *r.Flows = listed.senders, listed.flows
		r.Senders.Listed, r.Flows.Listed = slices.Clone(r.Senders.Listed), slices.Clone(r.Flows.Listed)
	}
	return r
}

// limitFlows truncates the lists of senders and flows to the latest ones, and removes both if they are empty.
func (r *roleStatus) limitFlows() {
	if len(r.Senders.Listed)+len(r.Flows.Listed) == 0 {
		r.Senders, r.Flows = nil, nil
		return
	}
	r.Senders.keepLatest(maxSeenSenders)
	r.Flows.keepLatest(maxListedFlows)
}

// A flowName identifies a flow, or a sender if it has no dst.
type flowName struct {
	src, dst netip.Addr
	destQP   uint32
	domain   uint32
}

func (f *flowStatus) name() flowName { return flowName{f.Src, f.Dst, f.DestQP, f.Domain} }

// merge adds the counts of the kernel for the same flow or sender.
func (e *flowStatus) merge(f *flowStatus) {
	e.Sent, e.Limited = e.Sent+f.Sent, e.Limited+f.Limited
	e.Kind, e.To = f.Kind, f.To
	if !f.Last.Before(e.Last) {
		e.Level, e.Depth, e.Last = f.Level, f.Depth, f.Last
		if f.Reason != "" {
			e.Reason = f.Reason
		}
	}
}

// keepLatest sorts the list, the latest first, and truncates it to at most most entries.
func (l *flowList) keepLatest(most int) {
	slices.SortStableFunc(l.Listed, func(a, b flowStatus) int { return b.Last.Compare(a.Last) })
	l.Listed = l.Listed[:min(len(l.Listed), most)]
}

// addCount adds a counter that is not 0.
func addCount(counts map[string]uint64, name string, n uint64) {
	if n > 0 {
		counts[name] = n
	}
}

// sortedDrops returns the drops of borders in the order of roles and rules.
func (b *borderState) sortedDrops() (all []borderDrops) {
	for drops := range b.dropped {
		all = append(all, drops)
	}
	slices.SortFunc(all, func(x, y borderDrops) int {
		return strings.Compare(x.role+" "+x.rule, y.role+" "+y.rule)
	})
	return all
}

// configString matches a string in JSON or TOML. configToken matches it, a comment, a word or a single character.
// configValue matches the space before a value, and a value of any notation.
const configString = `"""(?:[^\\]|\\.)*?"{3,5}|'''.*?'{3,5}|"(?:[^"\\\n]|\\.)*"|'[^'\n]*'`

var (
	configToken = regexp.MustCompile(`(?s)^(?:` + configString + `|#[^\n]*|[\w-]+|\s+|.)`)
	configValue = regexp.MustCompile(`(?s)^(\s*)(?:` + configString + `|[^\s,}\]#]+)`)
)

// hideSeeds returns the text of a configuration without the values of its seeds, which are secret: they determine the
// flow labels of Fast CNPs, and the hashes of tables.
func hideSeeds(config string) string {
	var b strings.Builder
	var last string // token, except space
	for config != "" {
		token := configToken.FindString(config)
		config = config[len(token):]
		b.WriteString(token)
		if strings.TrimSpace(token) == "" {
			continue
		}
		if (token == "=" || token == ":") && isSeedKey(last) {
			if value := configValue.FindStringSubmatch(config); value != nil {
				config = config[len(value[0]):]
				b.WriteString(value[1] + `"(hidden)"`)
			}
		}
		last = token
	}
	return b.String()
}

// isSeedKey reports whether a token is the key seed, which may be quoted. In double quotes its letters may be escaped.
func isSeedKey(token string) bool {
	if strings.HasPrefix(token, `"`) {
		name, err := strconv.Unquote(token)
		return err == nil && name == "seed"
	}
	return token == "seed" || token == "'seed'"
}
