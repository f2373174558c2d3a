package run

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/config"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/roles"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/netio"
	"github.com/rocecn/rocecn/node"
)

// A kernelRole is a role whose mode is kernel, as far as the kernel plays it.
type kernelRole struct {
	name      string // of the role
	config    kernelConfig
	numbers   []int // of its ports; 0: not there
	checkedAt time.Time
	lastError string // why not all of them are watched, as it was said

	program      kernelProgram // nil: closed
	last         kernelProgram // that was closed
	closedCounts *kernelCounts // of the actor: by those that were closed
}

// A kernelConfig is what the kernel goes by: two that are equal are the same.
type kernelConfig struct {
	ports []kernelPort
	part  kernelPart
}

// A kernelPort is an interface, and the source that it is of.
type kernelPort struct {
	name     string
	source   string
	kind     string // of the source
	required bool
}

// A kernelPart is what the kernel does, as it is configured.
type kernelPart interface {
	// open lets the kernel begin. last is the program in whose place it comes, closed by now, nil if there is none.
	open(last kernelProgram) (kernelProgram, error)
	// try says why it cannot be opened, and leaves all as it is.
	tryOpen() error
}

// A kernelProgram is what the kernel does.
type kernelProgram interface {
	// watch makes the interfaces that are there now its ports.
	watchPorts() error
	// counts returns what it has counted.
	readCounts() kernelCounts
	// show is called for what the agent sees of the role's other sources, before the role sees it.
	preparePacket(r node.Role, p *netio.Packet)
	// learned is called for what the role learns of that, and tick now and then.
	applyDecision(d *node.Decision, now time.Time)
	syncRole(r node.Role, now time.Time)
	close()
}

// kernelCounts are what has become of packets in the kernel, by the names that the agent has for it.
type kernelCounts struct {
	outcomes    [node.ActionRefused + 1]uint64
	sent        [message.UnknownOption + 1]uint64     // by kind
	rejected    [node.ReasonAmbiguousLabel + 1]uint64 // by reason
	toSink      uint64
	transmitted uint64 // of those
	errors      [failures]uint64
}

func (n *kernelCounts) add(o *kernelCounts) {
	sum := func(to, from []uint64) {
		for i := range to {
			to[i] += from[i]
		}
	}
	sum(n.outcomes[:], o.outcomes[:])
	sum(n.sent[:], o.sent[:])
	sum(n.rejected[:], o.rejected[:])
	sum(n.errors[:], o.errors[:])
	n.toSink, n.transmitted = n.toSink+o.toSink, n.transmitted+o.transmitted
}

// countRejected counts refusals.
func (n *kernelCounts) countRejected(reason node.Reason, refused uint64) {
	n.rejected[reason] += refused
	n.outcomes[node.ActionRefused] += refused
}

// isKernelSource reports whether a source of a role is the kernel's, and none that the agent reads.
func (f *file) isKernelSource(a *roles.Agent, name string) bool {
	if a.Mode != "kernel" || !slices.Contains(a.Sources, name) {
		return false
	}
	switch f.sources[name].source.(type) {
	case *qdiscSource, *packetSource:
		return true
	}
	return false
}

// agentSources returns the sources that a role has beside those of the kernel.
func (f *file) agentSources(a *roles.Agent) []string {
	return slices.DeleteFunc(slices.Concat(a.Sources, a.Observe),
		func(name string) bool { return f.isKernelSource(a, name) })
}

// roleKey returns the key of the role that asks for it.
func (c *kernelConfig) roleKey() string {
	if _, ok := c.part.(*kernelShaper); ok {
		return "act"
	}
	return "mode"
}

// buildKernelConfig returns what a role whose mode is kernel goes by.
func (f *file) buildKernelConfig(r *roles.Instance) (c kernelConfig, err error) {
	for i, name := range r.Agent.Sources {
		if !f.isKernelSource(&r.Agent, name) {
			continue
		}
		s, key := f.sources[name], config.Index("sources", i)
		for _, port := range s.listInterfaces() {
			if port == "any" {
				return c, config.Wrong(key, "the kernel is given ports one by one: any does not go here")
			}
			if slices.ContainsFunc(c.ports, func(p kernelPort) bool { return p.name == port }) {
				return c, config.Wrong(key, "role.%s has %s already", r.Name, port)
			}
			if other := f.findRival(port, r); other != nil {
				return c, config.Wrong(key, "role.%s has %s already: both would answer", other.Name, port)
			}
			c.ports = append(c.ports, kernelPort{port, name, s.Type, s.isRequired()})
		}
	}
	if r.Role == "switch" {
		c.part, err = f.buildKernelSwitch(r)
	} else {
		c.part, err = f.buildKernelTranslator(r, c.ports)
	}
	return c, err
}

// formatKernelSummary says what the kernel does of a role, empty if nothing.
func (f *file) formatKernelSummary(r *roles.Instance) string {
	c, ok := f.kernels[r.Name]
	if !ok {
		return ""
	}
	if c, ok := c.part.(*kernelShaper); ok {
		return fmt.Sprintf("role.%s: the kernel %s\n", r.Name, c.formatSummary())
	}
	what := "answers at "
	if _, ok := c.part.(*kernelTranslator); ok {
		what = "translates Fast CNPs at "
	}
	what += strings.Join(c.portNames(), ", ")
	switch t, ok := c.part.(*kernelTranslator); {
	case ok && t.Drop:
		what += fmt.Sprintf(", and drops those it cannot; PPFC go on to %v", t.Host)
	case ok:
		what += "; others, and PPFC, are the agent's"
	}
	return fmt.Sprintf("role.%s: the kernel %s\n", r.Name, what)
}

// listInterfaces returns those that a source of the kernel names.
func (s *sourceEntry) listInterfaces() []string {
	switch is := s.source.(type) {
	case *qdiscSource:
		return is.Interfaces
	case *packetSource:
		return is.Interfaces
	}
	return nil
}

// findRival returns another role of the same kind that answers what passes a port as well, nil if there is none. Of two in
// the kernel the second one has a rival.
func (f *file) findRival(port string, r *roles.Instance) *roles.Instance {
	before := true
	for _, other := range f.roles {
		if other == r {
			before = false
			continue
		}
		if other.Role != r.Role || other.Agent.Mode == "kernel" && !before {
			continue
		}
		for _, name := range other.Agent.Sources {
			if s := f.sources[name]; s != nil && slices.Contains(s.listInterfaces(), port) {
				return other
			}
		}
	}
	return nil
}

// checkPorts refuses keys of the kernel's sources that it has no use for.
func (f *file) checkPorts(r *roles.Instance) error {
	for _, name := range r.Agent.Sources {
		if !f.isKernelSource(&r.Agent, name) {
			continue
		}
		s := f.sources[name]
		if key := s.agentOnlyKey(); key != "" {
			return s.tree.At(config.Wrong(key, `the kernel cannot do that for role.%s: mode "agent" can`, r.Name))
		}
	}
	return nil
}

// agentOnlyKey returns a key of a source that the kernel has no use for, empty if there is none.
func (s *sourceEntry) agentOnlyKey() string {
	if s.Level != nil {
		return "level"
	}
	switch is := s.source.(type) {
	case *qdiscSource:
		switch {
		case is.PerFlow != 0:
			return "per_flow"
		case is.Tunnels:
			return "tunnels"
		}
	case *packetSource:
		switch {
		case is.Filter != "":
			return "filter"
		case is.Direction == "out":
			return "direction"
		case is.Snap != 0:
			return "snap"
		case is.Blocks:
			return "blocks"
		}
	}
	return ""
}

// portNames returns the names of its interfaces.
func (c *kernelConfig) portNames() (all []string) {
	for _, p := range c.ports {
		all = append(all, p.name)
	}
	return all
}

// open lets the kernel begin.
func (k *kernelRole) open() (err error) {
	k.numbers, k.checkedAt = interfaceIndexes(k.config.portNames()), time.Now()
	k.program, err = k.config.part.open(k.last)
	return err
}

// close lets the kernel end.
func (k *kernelRole) close() {
	if k.program == nil {
		return
	}
	*k.closedCounts = k.readCounts()
	k.program.close()
	k.last, k.program = k.program, nil
}

// readCounts returns what has become of packets, by all its programs together.
func (k *kernelRole) readCounts() (sum kernelCounts) {
	sum = *k.closedCounts
	if k.program != nil {
		now := k.program.readCounts()
		sum.add(&now)
	}
	return sum
}

// openKernels makes the kernel play the roles that a file asks for, each for one of these actors: those that there are
// already go on, and the others are closed before new ones open, so that nothing is answered twice. With an error all
// is as before.
func (s *server) openKernels(f *file, actors []*actor) (all []*kernelRole, err error) {
	for i, r := range f.roles {
		switch {
		case r.Agent.Mode != "kernel" && !isShaping(r):
			continue
		case s.dry && isShaping(r):
			s.log.Warn(`act "shape" only says the rates in a rehearsal`, "role", r.Name)
			continue
		case s.dry:
			s.log.Warn(`mode "kernel" decides nothing in a rehearsal: mode "agent" does`, "role", r.Name)
			continue
		}
		k, c := s.findKernelRole(r.Name), f.kernels[r.Name]
		if k == nil || !reflect.DeepEqual(k.config, c) {
			k = &kernelRole{name: r.Name, config: c, closedCounts: &actors[i].closedCounts}
		}
		all = append(all, k)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	closeKernels(s.kernels, all)
	for _, k := range all {
		if slices.Contains(s.kernels, k) {
			continue
		}
		if old := s.findKernelRole(k.name); old != nil {
			k.last = old.last
		}
		if err := k.open(); err != nil {
			s.restoreKernels(all)
			return nil, fmt.Errorf("role.%s.%s: %w", k.name, k.config.roleKey(), err)
		}
		s.warnMissingPorts(k)
	}
	return all, nil
}

// restoreKernels closes those of all that are new, and opens those again that were there before.
func (s *server) restoreKernels(all []*kernelRole) {
	closeKernels(all, s.kernels)
	for _, k := range s.kernels {
		if k.program != nil {
			continue
		}
		if err := k.open(); err != nil {
			s.log.Warn("the kernel does not answer", "role", k.name, "error", err)
		}
	}
}

// closeKernels closes those of all that are not to be kept.
func closeKernels(all, keep []*kernelRole) {
	for _, k := range all {
		if !slices.Contains(keep, k) {
			k.close()
		}
	}
}

// maintainKernels opens programs that are not open, and has them watch interfaces that are others by now.
func (s *server) maintainKernels(now time.Time) {
	for _, k := range s.kernels {
		s.syncKernelRole(k, now)
		if now.Sub(k.checkedAt) < time.Second {
			continue
		}
		k.checkedAt = now
		there := interfaceIndexes(k.config.portNames())
		if k.program != nil && slices.Equal(k.numbers, there) {
			continue
		}
		s.mu.Lock()
		if k.program == nil {
			if err := k.open(); err == nil {
				s.log.Info("the kernel answers again", "role", k.name)
			}
		} else if err := k.program.watchPorts(); err != nil {
			if k.lastError != err.Error() { // it is tried each second
				k.lastError = err.Error()
				s.log.Warn("the kernel does not answer at all ports", "role", k.name, "error", err)
			}
		} else {
			k.lastError = ""
			for i, p := range k.config.ports {
				switch {
				case there[i] == k.numbers[i]:
				case there[i] == 0:
					s.log.Warn("port lost", "role", k.name, "port", p.name)
				default:
					s.log.Info("the kernel answers at a port", "role", k.name, "port", p.name)
				}
			}
			k.numbers = there
		}
		s.mu.Unlock()
	}
}

// syncKernelRole has a program look after what it does if no worker plays the role, which would.
func (s *server) syncKernelRole(k *kernelRole, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := slices.IndexFunc(s.actors, func(a *actor) bool { return a.instance.Name == k.name })
	if k.program == nil || at < 0 || len(s.file.agentSources(&s.actors[at].instance.Agent)) > 0 {
		return
	}
	s.actors[at].receiveDevicePairs()
	k.program.syncRole(s.actors[at].Role, now)
	s.actors[at].updateSizes(now)
}

// withKernel calls f with the program that the kernel plays the actor's role by, if it is open.
func (a *actor) withKernel(f func(kernelProgram)) {
	if !a.inKernel {
		return
	}
	a.server.mu.RLock()
	defer a.server.mu.RUnlock()
	if k := a.server.findKernelRole(a.instance.Name); k != nil && k.program != nil {
		f(k.program)
	}
}

// warnMissingPorts warns of ports that are not there.
func (s *server) warnMissingPorts(k *kernelRole) {
	for i, p := range k.config.ports {
		if k.numbers[i] == 0 {
			s.log.Warn("port missing, and waited for", "role", k.name, "port", p.name)
		}
	}
}

// visitKernelPorts calls f with the ports of roles in the kernel.
func (s *server) visitKernelPorts(f func(p kernelPort, up bool)) {
	for _, k := range s.kernels {
		for i, p := range k.config.ports {
			if p.source == "" { // flows only leave there
				continue
			}
			f(p, k.program != nil && k.numbers[i] != 0)
		}
	}
}

// countInputs returns how many inputs there are, ports in the kernel included.
func (s *server) countInputs() int {
	n := len(s.parts)
	s.visitKernelPorts(func(kernelPort, bool) { n++ })
	return n
}

// findKernelRole returns what the kernel does as a role, nil if nothing.
func (s *server) findKernelRole(name string) *kernelRole {
	at := slices.IndexFunc(s.kernels, func(k *kernelRole) bool { return k.name == name })
	if at < 0 {
		return nil
	}
	return s.kernels[at]
}

// readKernelCounts returns what the kernel has counted as this role, also before a reload gave the role to the agent.
func (s *server) readKernelCounts(a *actor) kernelCounts {
	if k := s.findKernelRole(a.instance.Name); k != nil {
		return k.readCounts()
	}
	return a.closedCounts
}

// countOutcome returns how many packets of a role have this outcome, in the agent and in the kernel.
func (s *server) countOutcome(a *actor, action node.Action) uint64 {
	n := s.readKernelCounts(a)
	return a.outcomes[action].Load() + n.outcomes[action]
}

// readCounter returns a counter of a role.
func (s *server) readCounter(a *actor, c node.Count) uint64 {
	n, in := a.Role.Counters().Load(c), s.readKernelCounts(a)
	switch c.Action {
	case node.ActionRefused:
		n += in.rejected[c.Reason]
	case node.ActionSent:
		n += in.sent[c.Message]
	}
	return n
}

// visitKernelSinks calls f with what became of the packets that the kernel sent.
func (s *server) visitKernelSinks(f func(role string, n *kernelCounts)) {
	for _, a := range s.actors {
		k, n := s.findKernelRole(a.instance.Name), s.readKernelCounts(a)
		if k != nil && !isShaping(a.instance) || n.toSink > 0 {
			f(a.instance.Name, &n)
		}
	}
}
