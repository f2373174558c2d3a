package run

import (
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/config"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/io/fastpath"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/roles"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/congested"
)

// A kernelSwitch is a switch whose mode is kernel.
type kernelSwitch struct {
	name    string // of the role
	config  kernelConfig
	numbers []int // of its ports; 0: not there
	looked  time.Time

	answerer *fastpath.Answerer // nil: closed
	before   fastpath.Answered  // by those that were closed
}

// A kernelConfig is what a switch in the kernel goes by: two with the same are the
// same.
type kernelConfig struct {
	fastpath.AnswererConfig
	inputs  []kernelInput // what the file says of the ports
	senders []kernelSender
}

// A kernelInput says which source a port is of.
type kernelInput struct {
	source   string
	required bool
}

type kernelSender struct {
	roles.KernelSender
	policy fastpath.Policy
}

// kernelConfig returns what a role whose mode is kernel goes by.
func (f *file) kernelConfig(r *roles.Instance) (c kernelConfig, err error) {
	switch {
	case r.Agent.Sink != "":
		return c, config.Wrong("sink", "the kernel sends by its own routes: none allowed")
	case r.Agent.Observe != nil:
		return c, config.Wrong("observe", "the kernel learns from nothing: none allowed")
	}
	for i, name := range r.Agent.Sources {
		q, ok := f.sources[name].is.(*qdiscSource)
		if !ok {
			return c, config.Wrong(config.Index("sources", i), "the kernel watches queues alone: type qdisc needed")
		}
		s := f.sources[name]
		for _, port := range q.Interfaces {
			if other := f.answers(port, r, c); other != "" {
				return c, config.Wrong(config.Index("sources", i), "role.%s answers at %s already", other, port)
			}
			c.Ports = append(c.Ports, fastpath.Port{Name: port, Threshold: s.Levels[0]})
			c.inputs = append(c.inputs, kernelInput{name, s.Required == nil || *s.Required})
		}
	}
	k, err := r.Config.(interface {
		Kernel() (roles.KernelSwitch, error)
	}).Kernel()
	if err != nil {
		return c, err
	}
	c.Self, c.PerFlow, c.FastCNP.CodePoints = k.Self, k.PerFlow, k.CodePoints
	for _, s := range k.Senders {
		c.senders = append(c.senders, kernelSender{s, policy(s, k.Marks)})
	}
	for _, none := range c.senders {
		around := func(s kernelSender) bool {
			return s.policy != fastpath.Nothing && s.Prefix.Overlaps(none.Prefix) &&
				s.Prefix.Bits() < none.Prefix.Bits()
		}
		if none.policy == fastpath.Nothing && slices.ContainsFunc(c.senders, around) {
			return c, config.Wrong("methods", "the kernel cannot leave out %v of a prefix around it", none.Prefix)
		}
	}
	return c, nil
}

// checkQueues refuses keys of the sources of a role whose mode is kernel that the kernel
// has no use for.
func (f *file) checkQueues(r *roles.Instance) error {
	for _, name := range r.Agent.Sources {
		s := f.sources[name]
		q, ok := s.is.(*qdiscSource)
		if !ok {
			continue
		}
		if key := agentOnly(s, q); key != "" {
			return s.tree.At(config.Wrong(key, `the kernel cannot do that for role.%s: mode "agent" can`, r.Name))
		}
	}
	return nil
}

// agentOnly returns a key of a source that the kernel has no use for, empty if there is
// none.
func agentOnly(s *sourceEntry, q *qdiscSource) string {
	switch {
	case len(s.Levels) > 1:
		return config.Index("levels", 1)
	case s.Down != nil:
		return "down"
	case s.Level != nil:
		return "level"
	case q.PerFlow != 0:
		return "per_flow"
	case q.Tunnels:
		return "tunnels"
	}
	return ""
}

// answers returns which role, of those in front of r and r itself, has this port in the
// kernel, empty if none has.
func (f *file) answers(port string, r *roles.Instance, of kernelConfig) string {
	if slices.ContainsFunc(of.Ports, func(p fastpath.Port) bool { return p.Name == port }) {
		return r.Name
	}
	for _, other := range f.roles {
		if other == r {
			break
		}
		if other.Agent.Mode != "kernel" {
			continue
		}
		for _, name := range other.Agent.Sources {
			if q, ok := f.sources[name].is.(*qdiscSource); ok && slices.Contains(q.Interfaces, port) {
				return other.Name
			}
		}
	}
	return ""
}

// policy returns what the kernel does for senders, by the rules of package congested.
func policy(s roles.KernelSender, marks bool) fastpath.Policy {
	switch {
	case s.Method == congested.FastCNP && s.Capable == congested.Yes:
		return fastpath.Notify
	case s.Method == congested.FastCNP && s.Capable == congested.Unknown && marks:
		return fastpath.NotifyAndMark
	case s.Method == congested.FastCNP && s.Capable == congested.Unknown:
		return fastpath.Notify
	case s.Method != congested.Nothing && marks:
		return fastpath.Mark
	}
	return fastpath.Nothing
}

// names returns the names of its interfaces.
func (k *kernelSwitch) names() (all []string) {
	for _, p := range k.config.Ports {
		all = append(all, p.Name)
	}
	return all
}

// open lets the kernel begin.
func (k *kernelSwitch) open() error {
	k.numbers, k.looked = numbers(k.names()), time.Now()
	a, err := fastpath.OpenAnswerer(k.config.AnswererConfig)
	if err != nil {
		return err
	}
	for _, s := range k.config.senders {
		if err := a.SetSender(s.Prefix, s.policy); err != nil {
			a.Close()
			return err
		}
	}
	k.answerer = a
	return nil
}

// close lets the kernel end.
func (k *kernelSwitch) close() {
	if k.answerer == nil {
		return
	}
	k.before = k.answered()
	k.answerer.Close()
	k.answerer = nil
}

// answered returns what has become of packets, of all answerers together.
func (k *kernelSwitch) answered() (sum fastpath.Answered) {
	sum = k.before
	if k.answerer == nil {
		return sum
	}
	now := k.answerer.Counters()
	to, from := reflect.ValueOf(&sum).Elem(), reflect.ValueOf(now)
	for i := range to.NumField() {
		to.Field(i).SetUint(to.Field(i).Uint() + from.Field(i).Uint())
	}
	return sum
}

// openKernels makes the kernel play the switches that a file asks for: those that there
// are already go on, and the others are closed before new ones open, so that nothing is
// answered twice. With an error all is as before.
func (s *server) openKernels(f *file) (all []*kernelSwitch, err error) {
	for _, r := range f.roles {
		switch {
		case r.Agent.Mode != "kernel":
			continue
		case s.dry:
			s.log.Warn(`mode "kernel" decides nothing in a rehearsal: mode "agent" does`, "role", r.Name)
			continue
		}
		c, err := f.kernelConfig(r)
		if err != nil {
			return nil, r.At(err)
		}
		k := &kernelSwitch{name: r.Name, config: c}
		at := slices.IndexFunc(s.kernels, func(k *kernelSwitch) bool {
			return k.name == r.Name && reflect.DeepEqual(k.config, c)
		})
		if at >= 0 {
			k = s.kernels[at]
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
		for _, old := range s.kernels {
			if old.name == k.name {
				k.before = old.answered()
			}
		}
		if err := k.open(); err != nil {
			s.restoreKernels(all)
			return nil, fmt.Errorf("role.%s.mode: %w", k.name, err)
		}
		s.warnOf(k)
	}
	return all, nil
}

// restoreKernels closes those of all that are new, and opens those again that were there
// before.
func (s *server) restoreKernels(all []*kernelSwitch) {
	closeKernels(all, s.kernels)
	for _, k := range s.kernels {
		if k.answerer != nil {
			continue
		}
		if err := k.open(); err != nil {
			s.log.Warn("the kernel does not answer", "role", k.name, "error", err)
		}
	}
}

// closeKernels closes those of all that are not to be kept.
func closeKernels(all, keep []*kernelSwitch) {
	for _, k := range all {
		if !slices.Contains(keep, k) {
			k.close()
		}
	}
}

// lookAfterKernels opens switches that are not open, and has them watch interfaces that
// are others by now.
func (s *server) lookAfterKernels(now time.Time) {
	for _, k := range s.kernels {
		if now.Sub(k.looked) < time.Second {
			continue
		}
		k.looked = now
		there := numbers(k.names())
		if k.answerer != nil && slices.Equal(k.numbers, there) {
			continue
		}
		s.mu.Lock()
		if k.answerer == nil {
			if err := k.open(); err == nil {
				s.log.Info("the kernel answers again", "role", k.name)
			}
		} else if err := k.answerer.Watch(k.config.Ports); err != nil {
			s.log.Warn("the kernel does not answer at all ports", "role", k.name, "error", err)
		} else {
			for i, p := range k.config.Ports {
				switch {
				case there[i] == k.numbers[i]:
				case there[i] == 0:
					s.log.Warn("port lost", "role", k.name, "port", p.Name)
				default:
					s.log.Info("the kernel answers at a port", "role", k.name, "port", p.Name)
				}
			}
			k.numbers = there
		}
		s.mu.Unlock()
	}
}

// warnOf warns of ports that are not there.
func (s *server) warnOf(k *kernelSwitch) {
	for i, p := range k.config.Ports {
		if k.numbers[i] == 0 {
			s.log.Warn("port missing, and waited for", "role", k.name, "port", p.Name)
		}
	}
}

// kernelPorts calls f with the ports of switches in the kernel.
func (s *server) kernelPorts(f func(in kernelInput, port string, up bool)) {
	for _, k := range s.kernels {
		for i, p := range k.config.Ports {
			f(k.config.inputs[i], p.Name, k.answerer != nil && k.numbers[i] != 0)
		}
	}
}

// inputs returns how many inputs there are, ports in the kernel included.
func (s *server) inputs() int {
	n := len(s.parts)
	s.kernelPorts(func(kernelInput, string, bool) { n++ })
	return n
}

// kernel returns what the kernel has done as this role, if its mode is that.
func (s *server) kernel(a *actor) (n fastpath.Answered, ok bool) {
	at := slices.IndexFunc(s.kernels, func(k *kernelSwitch) bool { return k.name == a.instance.Name })
	if at < 0 {
		return n, false
	}
	return s.kernels[at].answered(), true
}

// outcome returns how many packets of a role have this outcome.
func (s *server) outcome(a *actor, action node.Action) uint64 {
	n, ok := s.kernel(a)
	if !ok {
		return a.outcomes[action].Load()
	}
	switch action {
	case node.Sent:
		return n.Copied + n.NotCopied
	case node.Marked:
		return n.MarkedOnly
	case node.Refused:
		return n.Broken + n.Acknowledgement + n.Notification + n.NoMethod + n.OwnAddress + n.Address + n.Routed +
			n.NotCapable + n.Limited
	}
	return 0
}

// counted returns a counter of a role.
func (s *server) counted(a *actor, c node.Count) uint64 {
	n, ok := s.kernel(a)
	switch {
	case !ok:
		return a.Role.Counters().Of(c)
	case c == node.Count{Action: node.Sent, Message: message.FastCNP}:
		return n.Copied + n.NotCopied
	case c.Action != node.Refused:
		return 0
	}
	return map[node.Reason]uint64{
		node.Broken: n.Broken, node.Acknowledgement: n.Acknowledgement, node.Notification: n.Notification,
		node.NoMethod: n.NoMethod, node.OwnAddress: n.OwnAddress, node.Address: n.Address + n.Routed,
		node.NotCapable: n.NotCapable, node.Limited: n.Limited,
	}[c.Reason]
}

// kernelSinks calls f with what became of the packets that switches in the kernel
// sent.
func (s *server) kernelSinks(f func(role string, sent uint64, errors [failures]uint64)) {
	for _, k := range s.kernels {
		n := k.answered()
		f(k.name, n.Sent, [failures]uint64{
			noRoute: n.NoRoute, noBuffer: n.NotCopied, otherFailure: n.Checksum + n.Failed,
		})
	}
}
