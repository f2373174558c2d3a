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

// A kernelRole is a role that the kernel plays, or a sender with flows that the kernel paces.
type kernelRole struct {
	name      string // name of the role
	config    kernelConfig
	numbers   []int // interface indexes of its ports; 0: missing
	checkedAt time.Time
	lastError string // last logged reason why a port is not watched

	program      kernelProgram // nil if closed
	last         kernelProgram // the program that was closed last
	closedCounts *kernelCounts // counts of closed programs; shared with the actor
}

// A kernelConfig is the configuration of a kernelRole. Equal ones are interchangeable.
type kernelConfig struct {
	ports []kernelPort
	part  kernelPart
}

// A kernelPort is an interface of a source, or one where flows leave.
type kernelPort struct {
	name     string
	source   string
	kind     string // type of the source
	required bool
}

// A kernelPart is the configuration of one kernel program.
type kernelPart interface {
	// open opens the program. last is the closed program that it replaces, or nil.
	open(last kernelProgram) (kernelProgram, error)
	// tryOpen returns the error that open would return, and changes nothing.
	tryOpen() error
}

// A kernelProgram is a running program in the kernel.
type kernelProgram interface {
	// watchPorts attaches the program to the existing interfaces.
	watchPorts() error
	// readCounts returns the counters of the program.
	readCounts() kernelCounts
	// preparePacket is called for each packet from other sources of the role, before the role receives it.
	preparePacket(r node.Role, p *netio.Packet)
	// applyDecision is called when the role has learned from such a packet. syncRole is called regularly.
	applyDecision(r node.Role, d *node.Decision, now time.Time)
	syncRole(r node.Role, now time.Time)
	close()
}

// kernelCounts are the counters of a kernel program in the terms of the agent.
type kernelCounts struct {
	outcomes    [node.ActionRefused + 1]uint64
	sent        [message.KindUnknownOption + 1]uint64 // by kind
	rejected    [node.ReasonPSNMismatch + 1]uint64    // by reason
	toSink      uint64
	transmitted uint64 // packets of toSink that left
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

// countRejected counts rejected packets.
func (n *kernelCounts) countRejected(reason node.Reason, refused uint64) {
	n.rejected[reason] += refused
	n.outcomes[node.ActionRefused] += refused
}

// isKernelSource reports whether the kernel reads a source of a role, and not the agent.
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

// agentSources returns the sources of a role that the agent reads.
func (f *file) agentSources(a *roles.Agent) []string {
	return slices.DeleteFunc(slices.Concat(a.Sources, a.Observe),
		func(name string) bool { return f.isKernelSource(a, name) })
}

// roleKey returns the key of the role that enables the program.
func (c *kernelConfig) roleKey() string {
	if _, ok := c.part.(*kernelShaper); ok {
		return "act"
	}
	return "mode"
}

// buildKernelConfig returns the kernel configuration of a role with mode kernel.
func (f *file) buildKernelConfig(r *roles.Instance) (c kernelConfig, err error) {
	for i, name := range r.Agent.Sources {
		if !f.isKernelSource(&r.Agent, name) {
			continue
		}
		s, key := f.sources[name], config.Index("sources", i)
		for _, port := range s.listInterfaces() {
			if port == "any" {
				return c, config.Wrong(key, "any: want names of interfaces, which the kernel needs")
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

// formatKernelSummary describes the kernel program of a role, or returns "".
func (f *file) formatKernelSummary(r *roles.Instance) string {
	c, ok := f.kernels[r.Name]
	if !ok {
		return ""
	}
	if c, ok := c.part.(*kernelShaper); ok {
		return fmt.Sprintf("role.%s: the kernel %s\n", r.Name, c.formatSummary())
	}
	summary := "answers at "
	if _, ok := c.part.(*kernelTranslator); ok {
		summary = "translates Fast CNPs at "
	}
	summary += strings.Join(c.portNames(), ", ")
	switch t, ok := c.part.(*kernelTranslator); {
	case ok && t.Drop:
		summary += fmt.Sprintf(", and drops those it cannot; PPFC go on to %v", t.Host)
	case ok:
		summary += "; others, and PPFC, are the agent's"
	}
	return fmt.Sprintf("role.%s: the kernel %s\n", r.Name, summary)
}

// listInterfaces returns the interfaces of a source that the kernel can read.
func (s *sourceEntry) listInterfaces() []string {
	switch is := s.source.(type) {
	case *qdiscSource:
		return is.Interfaces
	case *packetSource:
		return is.Interfaces
	}
	return nil
}

// findRival returns another role of the same kind that answers packets of the same port, or nil. Of two such roles
// in the kernel, the second has a rival.
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

// checkPorts rejects keys that the kernel does not support in its sources.
func (f *file) checkPorts(r *roles.Instance) error {
	for _, name := range r.Agent.Sources {
		if !f.isKernelSource(&r.Agent, name) {
			continue
		}
		s := f.sources[name]
		if key := s.agentOnlyKey(); key != "" {
			return s.tree.LocateError(config.Wrong(key,
				`not supported by the kernel for role.%s: want mode = "agent"`, r.Name))
		}
	}
	return nil
}

// agentOnlyKey returns a key of a source that the kernel does not support, or "".
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

// portNames returns the names of the ports.
func (c *kernelConfig) portNames() (all []string) {
	for _, p := range c.ports {
		all = append(all, p.name)
	}
	return all
}

// open opens the program.
func (k *kernelRole) open() (err error) {
	k.numbers, k.checkedAt = interfaceIndexes(k.config.portNames()), time.Now()
	k.program, err = k.config.part.open(k.last)
	return err
}

// close closes the program, and keeps its counts.
func (k *kernelRole) close() {
	if k.program == nil {
		return
	}
	*k.closedCounts = k.readCounts()
	k.program.close()
	k.last, k.program = k.program, nil
}

// readCounts returns the counts of all programs of the role.
func (k *kernelRole) readCounts() (sum kernelCounts) {
	sum = *k.closedCounts
	if k.program != nil {
		now := k.program.readCounts()
		sum.add(&now)
	}
	return sum
}

// openKernels opens the kernel programs of a file, for these actors. Unchanged programs keep running. Others are
// closed before new ones open, so that no packet is answered twice. On error the previous programs run again.
func (s *server) openKernels(f *file, actors []*actor) (all []*kernelRole, err error) {
	for i, r := range f.roles {
		switch {
		case r.Agent.Mode != "kernel" && !isShaping(r):
			continue
		case s.dry && isShaping(r):
			s.log.Warn(`act "shape" only prints the rates in a dry run`, "role", r.Name)
			continue
		case s.dry:
			s.log.Warn(`mode "kernel" decides nothing in a dry run: use mode "agent"`, "role", r.Name)
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

// restoreKernels closes the new programs among all, and opens the previous ones again.
func (s *server) restoreKernels(all []*kernelRole) {
	closeKernels(all, s.kernels)
	for _, k := range s.kernels {
		if k.program != nil {
			continue
		}
		if err := k.open(); err != nil {
			s.log.Warn("the kernel program is not open", "role", k.name, "error", err)
		}
	}
}

// closeKernels closes the programs of all that are not in keep.
func closeKernels(all, keep []*kernelRole) {
	for _, k := range all {
		if !slices.Contains(keep, k) {
			k.close()
		}
	}
}

// maintainKernels opens closed programs, and attaches open ones to replaced interfaces.
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
				s.log.Info("the kernel program is open again", "role", k.name)
			}
		} else if err := k.program.watchPorts(); err != nil {
			if k.lastError != err.Error() { // watchPorts is retried every second
				k.lastError = err.Error()
				s.log.Warn("the kernel program is not attached to all ports", "role", k.name, "error", err)
			}
		} else {
			k.lastError = ""
			for i, p := range k.config.ports {
				switch {
				case there[i] == k.numbers[i]:
				case there[i] == 0:
					s.log.Warn("port lost", "role", k.name, "port", p.name)
				default:
					s.log.Info("the kernel program is attached to a port", "role", k.name, "port", p.name)
				}
			}
			k.numbers = there
		}
		s.mu.Unlock()
	}
}

// syncKernelRole synchronizes a program with its role if no worker plays the role.
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

// withKernel calls f with the kernel program of the actor's role, if it is open.
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

// warnMissingPorts warns of ports that do not exist.
func (s *server) warnMissingPorts(k *kernelRole) {
	for i, p := range k.config.ports {
		if k.numbers[i] == 0 {
			s.log.Warn("port missing, waiting for it", "role", k.name, "port", p.name)
		}
	}
}

// visitKernelPorts calls f for the ports of sources that the kernel reads.
func (s *server) visitKernelPorts(f func(p kernelPort, up bool)) {
	for _, k := range s.kernels {
		for i, p := range k.config.ports {
			if p.source == "" { // a port where flows leave
				continue
			}
			f(p, k.program != nil && k.numbers[i] != 0)
		}
	}
}

// countInputs returns the number of inputs, including ports in the kernel.
func (s *server) countInputs() int {
	n := len(s.parts)
	s.visitKernelPorts(func(kernelPort, bool) { n++ })
	return n
}

// findKernelRole returns the kernel part of a role, or nil.
func (s *server) findKernelRole(name string) *kernelRole {
	at := slices.IndexFunc(s.kernels, func(k *kernelRole) bool { return k.name == name })
	if at < 0 {
		return nil
	}
	return s.kernels[at]
}

// readKernelCounts returns the counts of the kernel for this role, also from before a reload moved the role to the
// agent.
func (s *server) readKernelCounts(a *actor) kernelCounts {
	if k := s.findKernelRole(a.instance.Name); k != nil {
		return k.readCounts()
	}
	return a.closedCounts
}

// countOutcome returns the number of packets of a role with this outcome, in the agent and in the kernel.
func (s *server) countOutcome(a *actor, action node.Action) uint64 {
	n := s.readKernelCounts(a)
	return a.outcomes[action].Load() + n.outcomes[action]
}

// readCounter returns a counter of a role, in the agent and in the kernel.
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

// visitKernelSinks calls f with the counts of packets that the kernel sent for a role.
func (s *server) visitKernelSinks(f func(role string, n *kernelCounts)) {
	for _, a := range s.actors {
		k, n := s.findKernelRole(a.instance.Name), s.readKernelCounts(a)
		if k != nil && !isShaping(a.instance) || n.toSink > 0 {
			f(a.instance.Name, &n)
		}
	}
}
