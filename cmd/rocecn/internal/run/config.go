package run

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/config"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/io/qdisc"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/roles"
)

// A file is the configuration of the agent.
type file struct {
	agent   agentConfig
	sources map[string]*sourceEntry
	sinks   map[string]*sinkEntry
	roles   []*roles.Instance       // enabled roles
	kernels map[string]kernelConfig // by the names of roles that the kernel plays or paces
	octets  []byte
}

// agentConfig is the table [agent].
type agentConfig struct {
	HTTP  string `json:"http"`  // address of /metrics and others, or "" for none
	Pprof bool   `json:"pprof"` // whether to serve /debug/pprof
	Log   struct {
		Level     string `json:"level"`     // debug, info (the default), warn or error
		Format    string `json:"format"`    // text (the default) or json
		Decisions *int   `json:"decisions"` // lines about decisions in 10 s; absent: 5
	} `json:"log"`
}

// decisionLimit returns the number of lines about decisions in digestInterval.
func (c *agentConfig) decisionLimit() int {
	if c.Log.Decisions == nil {
		return 5
	}
	return *c.Log.Decisions
}

func (c *agentConfig) check() error {
	if !slices.Contains([]string{"", "debug", "info", "warn", "error"}, c.Log.Level) {
		return config.Wrong("log.level", "%q: want debug, info, warn or error", c.Log.Level)
	}
	if !slices.Contains([]string{"", "text", "json"}, c.Log.Format) {
		return config.Wrong("log.format", "%q: want text or json", c.Log.Format)
	}
	if _, err := listenAddress(c.HTTP); c.HTTP != "" && err != nil {
		return config.Wrong("http", "%q: want an IP address and a port, as 127.0.0.1:9479, or a "+
			"port of all addresses, as :9479", c.HTTP)
	}
	if c.Pprof && c.HTTP == "" {
		return config.Wrong("pprof", "want also http, the address that serves it")
	}
	return nil
}

// listenAddress parses an IP address and a port, or only a port. It rejects host names, because resolving one may
// take longer than a reload may.
func listenAddress(text string) (netip.AddrPort, error) {
	if strings.HasPrefix(text, ":") {
		text = "[::]" + text
	}
	return netip.ParseAddrPort(text)
}

// requiredCapabilities returns the capabilities that listening needs.
func (c *agentConfig) requiredCapabilities() []string {
	if at, err := listenAddress(c.HTTP); err == nil {
		return listenCapabilities(at)
	}
	return nil
}

// A sourceEntry is a table [source.NAME].
type sourceEntry struct {
	sourceCommon
	name   string
	source source
	tree   *config.Tree
}

// A sinkEntry is a table [sink.NAME].
type sinkEntry struct {
	sinkCommon
	name string
	sink sink
	tree *config.Tree
}

// configKey identifies the configuration of an entry: entries with equal keys are the same.
func (s *sinkEntry) configKey() string { return fmt.Sprintf("%+v %+v", s.sinkCommon, s.sink) }

// readFile reads and checks a file without opening the resources that it names. The file may be a pipe; readFile
// stops waiting for it when ctx ends.
func readFile(ctx context.Context, name string) (f *file, err error) {
	var octets []byte
	read := make(chan error, 1)
	go func() {
		var err error
		octets, err = config.ReadFile(name)
		read <- err
	}()
	select {
	case err = <-read:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	if f, err = parseFile(octets); err != nil {
		return nil, err
	}
	return f, f.checkFiles(name)
}

func parseFile(octets []byte) (*file, error) {
	tree, err := config.Read(octets)
	if err != nil {
		return nil, err
	}
	f := &file{sources: map[string]*sourceEntry{}, sinks: map[string]*sinkEntry{},
		kernels: map[string]kernelConfig{}, octets: bytes.Clone(octets)}
	names, parts, err := tree.Members()
	if err != nil {
		return nil, err
	}
	var all []*roles.Instance
	for i, part := range parts {
		switch names[i] {
		case "agent":
			if err = part.Decode(&f.agent); err == nil {
				err = part.LocateError(f.agent.check())
			}
		case "source":
			err = f.readSources(part)
		case "sink":
			err = f.readSinks(part)
		case "role":
			all, err = roles.Instances(part)
		default:
			err = roles.UnknownTable(part)
		}
		if err != nil {
			return nil, err
		}
	}
	for _, r := range all {
		if r.Config.On() {
			f.roles = append(f.roles, r)
		}
	}
	return f, f.check()
}

func (f *file) readSources(table *config.Tree) error {
	names, parts, err := table.Members()
	for i, part := range parts {
		s := &sourceEntry{name: names[i], tree: part}
		if err := decodeTyped(part, sources, &s.sourceCommon, &s.Type, &s.source); err != nil {
			return err
		}
		if err := s.check(); err != nil {
			return part.LocateError(err)
		}
		f.sources[s.name] = s
	}
	return err
}

func (f *file) readSinks(table *config.Tree) error {
	names, parts, err := table.Members()
	for i, part := range parts {
		s := &sinkEntry{name: names[i], tree: part}
		s.DSCP = -1
		if err := decodeTyped(part, sinks, &s.sinkCommon, &s.Type, &s.sink); err != nil {
			return err
		}
		if err := s.check(); err != nil {
			return part.LocateError(err)
		}
		f.sinks[s.name] = s
	}
	return err
}

// decodeTyped decodes a table. Its key type determines the other keys.
func decodeTyped[T any](table *config.Tree, types map[string]func() T, common any, kind *string, is *T) error {
	names, parts, err := table.Members()
	if err != nil {
		return err
	}
	at := slices.Index(names, "type")
	if at < 0 {
		return table.LocateError(config.Wrong("type", "missing"))
	}
	if err := parts[at].Set(kind); err != nil {
		return err
	}
	if types[*kind] == nil {
		known := strings.Join(sortedKeys(types), ", ")
		return parts[at].LocateError(config.Wrong("", "%q: want one of %s", *kind, known))
	}
	*is = types[*kind]()
	return table.Decode(common, *is)
}

// check checks that the sources and sinks exist that roles name, and that each role has the keys that it needs.
func (f *file) check() error {
	for _, r := range f.roles {
		for _, list := range []struct {
			key   string
			names []string
		}{{"sources", r.Agent.Sources}, {"observe", r.Agent.Observe}} {
			for i, name := range list.names {
				key := config.Index(list.key, i)
				switch {
				case f.sources[name] == nil:
					return r.LocateError(config.Wrong(key, "%q: want the name of a table [source.NAME]", name))
				case slices.Contains(list.names[:i], name):
					return r.LocateError(config.Wrong(key, "%s is named twice", name))
				case list.key == "observe" && slices.Contains(r.Agent.Sources, name):
					return r.LocateError(config.Wrong(key, "%s is one of sources", name))
				}
			}
		}
		if name := r.Agent.Sink; name != "" && f.sinks[name] == nil {
			return r.LocateError(config.Wrong("sink", "%q: want the name of a table [sink.NAME]", name))
		}
		if err := r.LocateError(cmp.Or(f.checkRouting(r), f.checkRole(r))); err != nil {
			return err
		}
		if r.Agent.Mode == "kernel" {
			if err := f.checkPorts(r); err != nil {
				return err
			}
		}
		if _, err := r.Apply(nil); err != nil {
			return err
		}
	}
	return f.checkTaken()
}

// checkTaken rejects two sources that need the same exclusive resource of the kernel.
func (f *file) checkTaken() (err error) {
	of := map[string]string{} // name of the source that has it, by input key
	f.visitUsed(func(s *sourceEntry) {
		for i, in := range s.source.listInputs() {
			key := ""
			switch s.Type {
			case "udp":
				key = config.Index("listen", i)
			case "nflog":
				key = "group"
			case "bmp":
				key = "listen"
			default:
				continue
			}
			if other := of[in.key]; other != "" && err == nil {
				err = s.tree.LocateError(config.Wrong(key, "source.%s has %s already", other, in.label))
			}
			of[in.key] = s.name
		}
	}, func(*sinkEntry) {})
	return err
}

// checkRole checks the keys that a role cannot work without.
func (f *file) checkRole(r *roles.Instance) error {
	a := &r.Agent
	if r.Role == "border" {
		if err := checkBorder(r); err != nil || a.Install == "nft" {
			return err
		}
	}
	switch {
	case a.Limits != "" && a.Limits != "none":
		return config.Wrong("limits", "%q: want none; limits have keys of their own", a.Limits)
	case a.Mode != "" && a.Mode != "agent" && a.Mode != "kernel":
		return config.Wrong("mode", "%q: want agent or kernel", a.Mode)
	case len(a.Sources) == 0:
		return config.Wrong("sources", "missing: want at least one source for an enabled role")
	case r.Role == "sender" && checkShaping(r) != nil:
		return checkShaping(r)
	case a.Mode == "kernel":
		if err := checkMissingKeys(r); err != nil {
			return err
		}
		c, err := f.buildKernelConfig(r)
		f.kernels[r.Name] = c
		return err
	case isShaping(r):
		c, err := f.buildKernelShaper(r)
		if err != nil {
			return err
		}
		f.kernels[r.Name] = c
	}
	if r.Role == "switch" {
		if len(f.bmpSources(a.Sources)) == len(a.Sources) {
			return config.Wrong("sources", "only of type bmp, which gives no packets: want also one of data packets")
		}
		for i, name := range a.Sources {
			switch f.sources[name].source.(type) {
			case *udpSource, *icmpSource:
				return config.Wrong(config.Index("sources", i),
					"a switch answers data packets, and type %s gives none", f.sources[name].Type)
			}
		}
	}
	if err := checkMissingKeys(r); err != nil {
		return err
	}
	if c, ok := r.Config.(*roles.SwitchConfig); ok && c.FCN == "any" {
		if !f.canDeliverAllTunnels(a) {
			return config.Wrong("fcn", "any: no source delivers every tunnel packet, such as ESP: want one of type "+
				"qdisc, or of type packet without filter")
		}
		f.requestAllTunnels(a)
	}
	if c, ok := r.Config.(*roles.IngressConfig); ok && c.Learns() && !f.showsTunnels(a) {
		return config.Wrong("observe", "no source of packets that leave in tunnels: want one of type packet without "+
			"filter and with direction both or out, or one of type qdisc with tunnels, to learn labels from")
	}
	live := slices.ContainsFunc(a.Sources, func(name string) bool { return f.sources[name].isLive() })
	translates, ok := r.Config.(*roles.SenderConfig)
	switch {
	case ok && translates.Translates() && a.Sink == "":
		return config.Wrong("sink", `missing: want the sink for CNPs that as = "cnp" builds`)
	case a.Sink == "" && (r.Role == "switch" || r.Role == "receiver" || r.Role == "proxy" || r.Role == "ingress"):
		return config.Wrong("sink", "missing: want the sink that sends the packets of the role")
	case r.Role == "border" && a.Sink != "" && live:
		return config.Wrong("sink", "the kernel forwards packets across the border, not the agent: want no sink")
	}
	return nil
}

// checkMissingKeys returns an error if a key is missing without which the role could never act.
func checkMissingKeys(r *roles.Instance) error {
	if _, ok := r.Config.(*roles.ReceiverConfig); ok && r.Agent.RDMA != "" && r.Agent.RDMA != noDevice {
		return nil // the device has the queue pairs
	}
	if c, ok := r.Config.(roles.Lacking); ok {
		return c.Lacks()
	}
	return nil
}

// showsTunnels reports whether a role sees packets that leave in tunnels. No filter matches inner packets.
func (f *file) showsTunnels(a *roles.Agent) bool {
	return slices.ContainsFunc(slices.Concat(a.Sources, a.Observe), func(name string) bool {
		switch s := f.sources[name].source.(type) {
		case *packetSource:
			return s.Filter == "" && s.Direction != "in"
		case *qdiscSource:
			return s.Tunnels
		case *udpSource, *icmpSource:
			return false
		}
		return true
	})
}

// canDeliverAllTunnels reports whether a source of a role can deliver tunnel packets of every kind.
func (f *file) canDeliverAllTunnels(a *roles.Agent) bool {
	return slices.ContainsFunc(a.Sources, func(name string) bool {
		switch s := f.sources[name].source.(type) {
		case *packetSource:
			return s.Filter == ""
		case *udpSource, *icmpSource, *bmpSource:
			return false
		}
		return true // a queue; or rules or samples choose them
	})
}

// requestAllTunnels makes the sources of type qdisc of a role deliver tunnel packets of every kind, to all roles that
// use these sources.
func (f *file) requestAllTunnels(a *roles.Agent) {
	for _, name := range a.Sources {
		if s, ok := f.sources[name].source.(*qdiscSource); ok {
			s.all = true
		}
	}
}

// limitKeys are the keys that limit the packets of a role.
var limitKeys = map[string]string{
	"switch": "per_flow or rate", "receiver": "interval or rate", "sender": "per_source, rate or window",
	"proxy": "per_flow or rate_out", "ingress": "per_flow or rate",
}

// listWarnings returns the limits of the configuration.
func (f *file) listWarnings() (all []string) {
	all = f.listRoutingWarnings()
	for _, r := range f.roles {
		live := slices.ContainsFunc(r.Agent.Sources, func(name string) bool { return f.sources[name].isLive() })
		marks, ok := r.Config.(*roles.SwitchConfig)
		if ok && live && marks.Marks() && r.Agent.Mode != "kernel" {
			all = append(all, fmt.Sprintf("role.%s: marking: the agent only sees copies of packets and cannot mark "+
				`them. Set marking = "elsewhere", and make sure that no queue marks packets of senders with `+
				`capable = "yes"`, r.Name))
		}
		if ok && marks.AllNamespaces() {
			all = append(all, fmt.Sprintf("role.%s: own_record: it is added to traces of all namespaces; RFC 9197 "+
				"section 4.3 wants only those of this node: set ioam_namespaces", r.Name))
		}
		if live && !f.isLimited(r) {
			all = append(all, fmt.Sprintf("role.%s: no limit: the drafts want a limit on sent packets: set %s, "+
				`or per_second of its sink, or limits = "none" to have none`, r.Name, limitKeys[r.Role]))
		}
	}
	return all
}

// isLimited reports whether a limit applies to the packets of a role, or limits = "none" waives it. FAST section 5
// and section 6 of the proxy and WAN drafts want a limit, and give no figure.
func (f *file) isLimited(r *roles.Instance) bool {
	c, sends := r.Config.(roles.Sending)
	sink := f.sinks[r.Agent.Sink]
	return !sends || c.Limited() || r.Agent.Limits == "none" || sink != nil && sink.PerSecond > 0
}

// listQueueWarnings returns a warning for each queue without a known depth at present.
func (f *file) listQueueWarnings() (all []string) {
	listed := map[string]bool{}
	for _, r := range f.roles {
		if c, ok := f.kernels[r.Name].part.(*kernelShaper); ok {
			all = append(all, c.listWarnings(r.Name)...)
		}
		for _, name := range r.Agent.Sources {
			q, ok := f.sources[name].source.(*qdiscSource)
			if !ok {
				continue
			}
			for _, port := range q.Interfaces {
				kind, err := qdisc.Kind(port)
				problem := ""
				switch {
				case err != nil: // missing interfaces are reported elsewhere
				case kind == "noqueue":
					problem = "nothing waits there (noqueue): give it a qdisc"
				case kind == "pfifo_fast":
					problem = "the length of its pfifo_fast is not known: give it another qdisc"
				case kind == "mq" && r.Agent.Mode == "kernel":
					problem = "of its several queues (mq) the kernel knows only the one that moved last"
				}
				if warning := fmt.Sprintf("source.%s: %s: %s", name, port, problem); problem != "" && !listed[warning] {
					listed[warning] = true
					all = append(all, warning)
				}
			}
		}
	}
	return all
}
