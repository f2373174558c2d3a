package run

import (
	"bytes"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/cli"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/prometheus"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/roles"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/web"
	"github.com/rocecn/rocecn/internal/build"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/node"
)

// workerTimeout is the longest round of a worker before the agent counts as unhealthy.
const workerTimeout = 5 * time.Second

// listenHTTP listens at the address of a file. It returns nil if there is none or it has not changed.
func (s *server) listenHTTP(f *file) (net.Listener, error) {
	address := f.agent.HTTP
	if s.dry || address == "" || s.listener != nil && s.file.agent.HTTP == address {
		return nil, nil
	}
	l, err := web.Listen(address)
	if err != nil {
		return nil, fmt.Errorf("agent.http: %w", err)
	}
	return l, nil
}

// newHTTPServer returns the server of /metrics, /healthz, /readyz, /status and /debug/pprof.
func (s *server) newHTTPServer() *http.Server {
	mux := http.NewServeMux()
	plain := func(path string, answer func() (text string, ok bool)) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			text, ok := answer()
			if !ok {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
			fmt.Fprintln(w, text)
		})
	}
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		w.Write(s.formatMetrics())
	})
	plain("/healthz", func() (string, bool) {
		if !s.areWorkersAlive(workerTimeout) {
			return "a worker is stuck", false
		}
		return "ok", true
	})
	plain("/readyz", func() (string, bool) {
		if missing := s.findMissing(); missing != "" {
			return "not ready: " + missing, false
		}
		return "ready", true
	})
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		e := cli.NewJSON(w)
		e.SetIndent("", "  ")
		_ = e.Encode(s.buildStatus())
	})
	debug := func(path string, answer http.HandlerFunc) {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			s.mu.RLock()
			on := s.file.agent.Pprof
			s.mu.RUnlock()
			if !on {
				http.NotFound(w, r)
				return
			}
			answer(w, r)
		})
	}
	debug("/debug/pprof/", pprof.Index)
	debug("/debug/pprof/cmdline", pprof.Cmdline)
	debug("/debug/pprof/profile", pprof.Profile)
	debug("/debug/pprof/symbol", pprof.Symbol)
	debug("/debug/pprof/trace", pprof.Trace)
	return web.Server(mux, log.New((*httpLog)(s), "", 0))
}

// httpLog writes errors of the HTTP server to the current log, which a reload may replace.
type httpLog server

func (l *httpLog) Write(line []byte) (int, error) {
	(*server)(l).currentLog().Warn(string(bytes.TrimSpace(line)))
	return len(line), nil
}

// currentLog returns the log, for goroutines that run while a reload may replace it.
func (s *server) currentLog() *slog.Logger {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.log
}

// outcomes are the names of actions in metrics and status.
var outcomes = map[node.Action]string{
	node.NoAction: "ignored", node.ActionSent: "sent", node.ActionMarked: "marked", node.ActionForwarded: "forwarded",
	node.ActionLearned: "learned", node.ActionAccepted: "accepted", node.ActionDropped: "dropped",
	node.ActionPassed:  "passed",
	node.ActionRefused: "refused",
}

// reasons are all reasons of rejected packets, effects all effects, and kinds the kinds of sent messages.
var (
	reasons = func() (all []node.Reason) {
		for r := node.NoReason + 1; r <= node.ReasonPSNMismatch; r++ {
			all = append(all, r)
		}
		return all
	}()
	effects = func() (all []node.Effect) {
		for e := node.EffectRepeated; e <= node.EffectNotECNCapable; e++ {
			all = append(all, e)
		}
		return all
	}()
	kinds = []message.Kind{message.KindCNP, message.KindFastCNP, message.KindPPFC, message.KindFCN, message.KindProxy}
)

// formatMetrics returns the metrics. No label contains an address of a packet or a queue pair.
func (s *server) formatMetrics() []byte {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var t prometheus.Text
	value := func(name, help string, v float64, labels ...string) {
		t.Family(name, help)
		t.Sample(v, labels...)
	}
	program := build.Read()
	value("rocecn_build_info", "Version of the running program.", 1,
		"version", program.Version, "goversion", runtime.Version(), "revision", program.Revision)
	value("rocecn_config_last_reload_successful", "Whether the file was right when it was read last.",
		boolToFloat(s.reloaded.good))
	value("rocecn_config_last_reload_success_timestamp_seconds", "When the file in force was read.",
		float64(s.reloaded.at.UnixNano())/1e9)
	value("rocecn_border_rules_installed",
		"Whether the rules of all borders are installed, and the interfaces there that they name.",
		boolToFloat(s.border.isComplete()))
	t.Family("rocecn_border_dropped_packets_total", "Packets dropped by the rules of borders in nftables.")
	for _, drops := range s.border.sortedDrops() {
		t.Sample(float64(s.border.dropped[drops]), "role", drops.role, "rule", drops.rule)
	}

	ofRoles := func(name, help string, each func(a *actor, labels ...string)) {
		t.Family(name, help)
		for _, a := range s.actors {
			each(a, "role", a.instance.Name)
		}
	}
	ofRoles("rocecn_role_enabled", "Roles that are on.", func(_ *actor, l ...string) { t.Sample(1, l...) })
	ofRoles("rocecn_role_packets_total", "Packets that the role received, by outcome.",
		func(a *actor, l ...string) {
			for action := range a.outcomes {
				n := s.countOutcome(a, node.Action(action))
				t.Sample(float64(n), append(l, "outcome", outcomes[node.Action(action)])...)
			}
		})
	ofRoles("rocecn_role_sent_total", "Notifications by kind, those included that no packet asked for.",
		func(a *actor, l ...string) {
			for _, k := range kinds {
				n := s.readCounter(a, node.Count{Action: node.ActionSent, Message: k})
				t.Sample(float64(n), append(l, "kind", k.String())...)
			}
		})
	ofRoles("rocecn_role_refused_total", "Rejected packets by reason.", func(a *actor, l ...string) {
		for _, r := range reasons {
			n := s.readCounter(a, node.Count{Action: node.ActionRefused, Reason: r})
			t.Sample(float64(n), append(l, "reason", r.String())...)
		}
	})
	ofRoles("rocecn_role_to_sink_total", "Packets that the role has handed to its sink.",
		func(a *actor, l ...string) {
			t.Sample(float64(a.packets.Load()+s.readKernelCounts(a).toSink), l...)
		})
	ofRoles("rocecn_role_marks_not_made_total", "Packets that should have been marked CE; the agent only sees copies.",
		func(a *actor, l ...string) { t.Sample(float64(a.marksNotMade.Load()), l...) })
	ofRoles("rocecn_role_effects_total", "Effects that the role counts, such as pauses and labels.",
		func(a *actor, l ...string) {
			for _, e := range effects {
				t.Sample(float64(s.readCounter(a, node.Count{Effect: e})), append(l, "effect", e.String())...)
			}
		})
	ofSize := func(name, help, role string, of size) {
		ofRoles(name, help, func(a *actor, l ...string) {
			if role == "" || a.instance.Role == role {
				t.Sample(float64(a.sizes[of].Load()), l...)
			}
		})
	}
	ofSize("rocecn_role_pairs", "Queue pairs that the role knows.", "", pairsSize)
	ofSize("rocecn_role_unlearned_total",
		"Packets that were not used to learn queue pairs because the tables were full.", "", unlearnedSize)
	ofSize("rocecn_ingress_flows", "Flows that have a label.", "ingress", flowsSize)
	ofSize("rocecn_ingress_labels_free", "Flows more that could have a label now.", "ingress", freeSize)
	ofSize("rocecn_pause_stopped", "Flows and ports that do not run: stopped, held or alarmed.", "pause", stoppedSize)
	ofTables := func(name, help string, of func(table *roles.Table) int) {
		ofRoles(name, help, func(a *actor, l ...string) {
			if tables := a.tables.Load(); tables != nil {
				for i := range *tables {
					t.Sample(float64(of(&(*tables)[i])), append(l, "table", (*tables)[i].Name)...)
				}
			}
		})
	}
	ofTables("rocecn_role_table_entries", "Entries of a table of the role.",
		func(table *roles.Table) int { return table.Entries })
	ofTables("rocecn_role_table_max", "Maximum number of entries of a table of the role.",
		func(table *roles.Table) int { return table.Max })
	s.rateMetrics(&t)
	t.Histograms("rocecn_latency_seconds", "From the time stamp of a packet until its answer was sent.")
	for _, a := range s.actors {
		t.Histogram(&a.latency, "role", a.instance.Name)
	}

	ofParts := func(name, help string, of func(p *part) float64) {
		t.Family(name, help)
		for _, p := range s.parts {
			t.Sample(of(p), "source", p.entry.name, "input", p.label)
		}
	}
	count := func(n *atomic.Uint64) float64 { return float64(n.Load()) }
	t.Family("rocecn_source_up", "Whether packets can come.")
	s.visitInputs(func(source, _, input string, up bool, _ *part) {
		t.Sample(boolToFloat(up), "source", source, "input", input)
	})
	ofParts("rocecn_source_packets_total", "Packets that came.", func(p *part) float64 { return count(&p.events) })
	ofParts("rocecn_source_lost_total", "Packets that came too fast.", func(p *part) float64 { return count(&p.lost) })
	ofParts("rocecn_source_reopened_total", "Times that the source came back after it was away.",
		func(p *part) float64 { return count(&p.reopened) })

	ofQueues := func(name, help string, of func(q *queue) float64) {
		t.Family(name, help)
		for _, p := range s.parts {
			for _, q := range p.listQueues() {
				t.Sample(of(&q), "source", p.entry.name, "interface", q.name)
			}
		}
	}
	ofQueues("rocecn_queue_depth_bytes", "Octets in a queue as the last packet met it; 0 a second after it.",
		func(q *queue) float64 { return float64(q.depth) })
	ofQueues("rocecn_queue_level", "Level of congestion of a queue, 0 to 7.",
		func(q *queue) float64 { return float64(q.level) })

	ofSinks := func(name, help string, each func(o *outlet, labels ...string)) {
		t.Family(name, help)
		for _, a := range s.actors {
			if a.out != nil {
				each(a.out, "sink", a.out.entry.name, "role", a.instance.Name)
			}
		}
	}
	ofSinks("rocecn_sink_up", "Whether packets can be sent.",
		func(o *outlet, l ...string) { t.Sample(boolToFloat(o.canSend()), l...) })
	ofSinks("rocecn_sink_packets_total", "Packets that were sent.",
		func(o *outlet, l ...string) { t.Sample(count(&o.packets), l...) })
	s.visitKernelSinks(func(role string, n *kernelCounts) {
		t.Sample(float64(n.transmitted), "sink", "kernel", "role", role)
	})
	ofSinks("rocecn_sink_bytes_total", "Octets of the packets that were sent.",
		func(o *outlet, l ...string) { t.Sample(count(&o.bytes), l...) })
	ofSinks("rocecn_sink_errors_total", "Packets that could not be sent.", func(o *outlet, l ...string) {
		for failure := range o.errors {
			t.Sample(count(&o.errors[failure]), append(l, "error", failureNames[failure])...)
		}
	})
	s.visitKernelSinks(func(role string, in *kernelCounts) {
		for failure, n := range in.errors {
			t.Sample(float64(n), "sink", "kernel", "role", role, "error", failureNames[failure])
		}
	})
	s.file.routingMetrics(&t)
	return t.Octets
}

// logStatus logs the state of sources, roles and sinks.
func (s *server) logStatus() {
	s.mu.RLock()
	defer s.mu.RUnlock()
	s.visitInputs(func(source, kind, input string, up bool, p *part) {
		attrs := []any{"source", source, "type", kind, "input", input, "up", up}
		if p != nil {
			attrs = append(attrs, "packets", p.events.Load(), "lost", p.lost.Load(), "reopened", p.reopened.Load())
		}
		s.log.Info("status", attrs...)
	})
	s.file.logRoutingStatus(s.log)
	for _, a := range s.actors {
		attrs := []any{"role", a.instance.Name, "pairs", a.sizes[pairsSize].Load()}
		if n := a.sizes[unlearnedSize].Load(); n > 0 {
			attrs = append(attrs, "unlearned", n)
		}
		for action := range a.outcomes {
			attrs = append(attrs, outcomes[node.Action(action)], s.countOutcome(a, node.Action(action)))
		}
		s.log.Info("status", attrs...)
		if a.out == nil || s.dry {
			continue
		}
		attrs = []any{
			"sink", a.out.entry.name, "role", a.instance.Name, "up", a.out.canSend(), "packets", a.out.packets.Load(),
		}
		for failure := range a.out.errors {
			attrs = append(attrs, failureNames[failure], a.out.errors[failure].Load())
		}
		s.log.Info("status", attrs...)
	}
}

// visitInputs calls f for each input of each source, with one call per interface. p is nil for ports that the kernel
// reads, and except for the first interface of a part.
func (s *server) visitInputs(f func(source, kind, input string, up bool, p *part)) {
	s.visitParts(f)
	s.visitKernelPorts(func(p kernelPort, up bool) { f(p.source, p.kind, p.name, up, nil) })
}

// visitParts calls f for each input of each source that the agent reads, with one call per interface. Counters are per
// part: p is nil except for the first interface of a part.
func (s *server) visitParts(f func(source, kind, input string, up bool, p *part)) {
	for _, p := range s.parts {
		if len(p.watch) == 0 {
			f(p.entry.name, p.entry.Type, p.label, p.up.Load(), p)
		}
		for i, there := range interfaceIndexes(p.watch) {
			of := p
			if i > 0 {
				of = nil
			}
			f(p.entry.name, p.entry.Type, p.watch[i], p.up.Load() && there != 0, of)
		}
	}
}

func boolToFloat(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
