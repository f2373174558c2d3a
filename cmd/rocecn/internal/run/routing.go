package run

import (
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/bmp"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/config"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/prometheus"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/roles"
	"github.com/rocecn/rocecn/netio"
	"github.com/rocecn/rocecn/node/acl"
)

// bmpSource is a station to which routers connect, and report the proxies of senders.
type bmpSource struct {
	Listen string         `json:"listen"`
	Accept []netip.Prefix `json:"accept"` // addresses of routers; absent: all

	user  *roles.Instance // a role that uses the source, or nil
	table *bmp.Table      // set by linkTables
	log   func() *slog.Logger
}

func (s *bmpSource) check() error {
	if s.Listen == "" {
		return config.Wrong("listen", "missing")
	}
	at, err := listenAddress(s.Listen)
	if err != nil || at.Port() == 0 {
		return config.Wrong("listen", "%q: want an IP address and a port, as [2001:db8::5]:11019, or a port of all "+
			"addresses, as :11019", s.Listen)
	}
	return checkOwnAddress("listen", at.Addr())
}

func (s *bmpSource) requiredCapabilities() []string {
	at, _ := listenAddress(s.Listen)
	return listenCapabilities(at)
}

func (s *bmpSource) listInputs() []input {
	at, _ := listenAddress(s.Listen)
	key := "bmp " + at.String()
	if s.table != nil { // routers have to report their routes to another table again
		key += fmt.Sprintf(" %d", s.table.Code())
	}
	return []input{{label: s.Listen, key: key, open: func() (netio.Source, error) {
		station, err := bmp.Listen(bmp.Config{Listen: at, Table: s.table, Log: s.log})
		if err != nil {
			return nil, err
		}
		return station, nil
	}}}
}

// bmpSources returns the indexes in a list of source names of those that are of type bmp.
func (f *file) bmpSources(names []string) (at []int) {
	for i, name := range names {
		if _, ok := f.sources[name].source.(*bmpSource); ok {
			at = append(at, i)
		}
	}
	return at
}

// checkRouting checks that a role has one source of routing information if it is a switch with proxies_from =
// "routing", and none otherwise. Roles with the same source must agree about the keys that apply to its table.
func (f *file) checkRouting(r *roles.Instance) error {
	c, _ := r.Config.(*roles.SwitchConfig)
	wants := c != nil && c.FromRouting()
	n := 0
	for _, list := range []struct {
		key   string
		names []string
	}{{"sources", r.Agent.Sources}, {"observe", r.Agent.Observe}} {
		for _, i := range f.bmpSources(list.names) {
			key, name := config.Index(list.key, i), list.names[i]
			source := f.sources[name].source.(*bmpSource)
			if n++; n > 1 {
				return config.Wrong(key, "%s: want one source of type bmp", name)
			}
			if !wants {
				return config.Wrong(key, `type bmp is for a switch with proxies_from = "routing"`)
			}
			if source.user == nil {
				source.user = r
			}
			other := source.user.Config.(*roles.SwitchConfig)
			switch {
			case c.Code() != other.Code():
				return config.Wrong("pnc_code", "%d: want %d, as in role.%s, which has the same source", c.Code(),
					other.Code(), source.user.Name)
			case c.Hold() != other.Hold():
				return config.Wrong("routing_hold", "%v: want %v, as in role.%s, which has the same source", c.Hold(),
					other.Hold(), source.user.Name)
			}
		}
	}
	if wants && n == 0 {
		return config.Wrong("proxies_from", "routing: want also a source of type bmp in observe")
	}
	return nil
}

// linkTables gives each source of type bmp a table, and each switch the table of its source. A source takes over the
// table that the source with its name, or else with its address, has in the old file, which may be nil.
func (f *file) linkTables(old *file, log func() *slog.Logger) {
	tables := map[*bmpSource]*bmp.Table{}
	for _, r := range f.roles {
		c, ok := r.Config.(*roles.SwitchConfig)
		if !ok || !c.FromRouting() {
			continue
		}
		for _, name := range append(append([]string{}, r.Agent.Sources...), r.Agent.Observe...) {
			source, ok := f.sources[name].source.(*bmpSource)
			if !ok {
				continue
			}
			if tables[source] == nil {
				table := old.findTable(name, source.Listen, c.Code())
				if !slices.Contains(slices.Collect(maps.Values(tables)), table) { // each source has its own
					tables[source] = table
				}
				if tables[source] == nil {
					tables[source] = bmp.NewTable(c.Code(), source.settings())
				}
				source.table, source.log = tables[source], log
			}
			c.UseRouting(source.table)
		}
	}
}

// findBMPSource returns the source of type bmp that a role uses, or nil.
func (f *file) findBMPSource(a *roles.Agent) *bmpSource {
	for _, name := range slices.Concat(a.Sources, a.Observe) {
		if s, ok := f.sources[name].source.(*bmpSource); ok {
			return s
		}
	}
	return nil
}

// findTable returns the table of the source of type bmp with this name, or else with this address, or nil.
func (f *file) findTable(name, listen string, code uint16) *bmp.Table {
	if f == nil {
		return nil
	}
	if entry := f.sources[name]; entry != nil {
		if s, ok := entry.source.(*bmpSource); ok && s.table != nil && s.table.Code() == code {
			return s.table
		}
	}
	for _, name := range sortedKeys(f.sources) {
		s, ok := f.sources[name].source.(*bmpSource)
		if ok && s.table != nil && s.Listen == listen && s.table.Code() == code {
			return s.table
		}
	}
	return nil
}

// visitTables calls f for the table of each source of type bmp that a role uses.
func (f *file) visitTables(visit func(source string, s *bmpSource)) {
	for _, name := range sortedKeys(f.sources) {
		if s, ok := f.sources[name].source.(*bmpSource); ok && s.table != nil {
			visit(name, s)
		}
	}
}

// settings returns the settings of the source's table.
func (s *bmpSource) settings() (c bmp.Settings) {
	c.Hold = s.user.Config.(*roles.SwitchConfig).Hold()
	if len(s.Accept) > 0 {
		c.Accept = acl.New(s.Accept...)
	}
	return c
}

// configureTables applies the settings of a file to its tables.
func (f *file) configureTables() {
	f.visitTables(func(_ string, s *bmpSource) { s.table.Configure(s.settings()) })
}

// expireProxies removes proxies of sessions that were lost too long ago.
func (p *part) expireProxies(now time.Time) {
	if s, ok := p.entry.source.(*bmpSource); ok {
		s.table.Advance(now)
	}
}

// routingMetrics adds the metrics of sources of type bmp.
func (f *file) routingMetrics(t *prometheus.Text) {
	var names []string
	var states []bmp.Status
	f.visitTables(func(source string, s *bmpSource) {
		names, states = append(names, source), append(states, s.table.Status())
	})
	each := func(name, help string, of func(s *bmp.Status) float64) {
		t.Family(name, help)
		for i := range states {
			t.Sample(of(&states[i]), "source", names[i])
		}
	}
	each("rocecn_routing_routers", "Routers that are connected.",
		func(s *bmp.Status) float64 { return float64(len(s.Routers)) })
	each("rocecn_routing_peers", "BGP peers of the connected routers.",
		func(s *bmp.Status) float64 { return float64(s.Peers) })
	each("rocecn_routing_proxies", "Advertisements of proxies, including those of lost sessions.",
		func(s *bmp.Status) float64 { return float64(s.Proxies) })
	each("rocecn_routing_held", "Advertisements of proxies from lost sessions.",
		func(s *bmp.Status) float64 { return float64(s.Held) })
	each("rocecn_routing_messages_total", "BMP messages.",
		func(s *bmp.Status) float64 { return float64(s.Messages) })
	t.Family("rocecn_routing_refused_total",
		"Connections, messages and advertisements that were rejected, by reason.")
	for i := range states {
		s := &states[i]
		for _, c := range listRejections(s) {
			t.Sample(float64(c.n), "source", names[i], "reason", c.reason)
		}
	}
}

// A rejection is a counter of rejected information.
type rejection struct {
	reason string
	n      uint64
}

func listRejections(s *bmp.Status) []rejection {
	return []rejection{
		{"connection", s.Rejected}, {"malformed", s.Malformed}, {"invalid", s.Invalid}, {"full", s.Full},
	}
}

// routingStatus is the state of a source of type bmp in /status.
type routingStatus struct {
	Source   string            `json:"source"`
	Proxies  int               `json:"proxies"`
	Held     int               `json:"held"`
	Prefixes int               `json:"prefixes"`
	Max      int               `json:"max_proxies"`
	Messages uint64            `json:"messages"`
	Refused  map[string]uint64 `json:"refused,omitempty"` // by reason
	Routers  []routerStatus    `json:"routers"`
}

type routerStatus struct {
	Address netip.Addr `json:"address"`
	Name    string     `json:"name,omitempty"`
	Since   time.Time  `json:"since"`
	Peers   int        `json:"peers"`
	Proxies int        `json:"proxies"`
}

// buildRoutingStatus returns the state of all sources of type bmp.
func (f *file) buildRoutingStatus() (all []routingStatus) {
	f.visitTables(func(source string, s *bmpSource) {
		state := s.table.Status()
		one := routingStatus{
			Source: source, Proxies: state.Proxies, Held: state.Held, Prefixes: state.Prefixes, Max: bmp.MaxProxies,
			Messages: state.Messages, Refused: map[string]uint64{}, Routers: []routerStatus{},
		}
		for _, c := range listRejections(&state) {
			addCount(one.Refused, c.reason, c.n)
		}
		for _, r := range state.Routers {
			one.Routers = append(one.Routers, routerStatus(r))
		}
		all = append(all, one)
	})
	return all
}

// writeRouting writes the state of a source of type bmp.
func (p *statusPrinter) writeRouting(s *routingStatus) {
	p.wrap("\n", fmt.Sprintf("proxies from %s: %s of %s, of lost sessions %s, messages %s", s.Source,
		formatCount(uint64(s.Proxies)), formatCount(uint64(s.Max)), formatCount(uint64(s.Held)),
		formatCount(s.Messages)))
	p.writeCounts("rejected", s.Refused)
	for _, r := range s.Routers[:min(len(s.Routers), maxPrinted)] {
		p.wrap("  ", fmt.Sprintf("router %v %s: connected %s, peers %s, proxies %s", r.Address, r.Name,
			p.formatAgo(r.Since), formatCount(uint64(r.Peers)), formatCount(uint64(r.Proxies))))
	}
}

// logRoutingStatus logs the state of all sources of type bmp.
func (f *file) logRoutingStatus(log *slog.Logger) {
	for _, s := range f.buildRoutingStatus() {
		log.Info("status", "routing", s.Source, "routers", len(s.Routers), "proxies", s.Proxies, "held", s.Held,
			"messages", s.Messages)
	}
}

// listRoutingWarnings returns a warning for each source of type bmp that accepts sessions of every host.
func (f *file) listRoutingWarnings() (all []string) {
	for _, name := range sortedKeys(f.sources) {
		s, ok := f.sources[name].source.(*bmpSource)
		if !ok || s.user == nil || len(s.Accept) > 0 {
			continue
		}
		if at, _ := listenAddress(s.Listen); !at.Addr().IsLoopback() {
			all = append(all, fmt.Sprintf("source.%s: every host that reaches %s can redirect notifications, because "+
				"BMP has no authentication: set accept to the addresses of the routers", name, s.Listen))
		}
	}
	return all
}
