package run

import (
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
	numbers []int // of its interfaces
	looked  time.Time

	answerer *fastpath.Answerer // nil: not open
	before   fastpath.Answered  // by those that were closed
}

// A kernelConfig is what a switch in the kernel goes by: two with the same are the
// same.
type kernelConfig struct {
	fastpath.AnswererConfig
	senders []kernelSender
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
		for _, port := range q.Interfaces {
			c.Ports = append(c.Ports, fastpath.Port{Name: port, Threshold: f.sources[name].Levels[0]})
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

// openKernels returns the switches in the kernel that a file asks for: those that
// there are already, or new ones.
func (s *server) openKernels(f *file) (all []*kernelSwitch, err error) {
	for _, r := range f.roles {
		if r.Agent.Mode != "kernel" || s.dry {
			continue
		}
		c, err := f.kernelConfig(r)
		if err != nil {
			return nil, r.At(err)
		}
		at := slices.IndexFunc(s.kernels, func(k *kernelSwitch) bool {
			return k.name == r.Name && reflect.DeepEqual(k.config, c)
		})
		if at >= 0 {
			all = append(all, s.kernels[at])
			continue
		}
		k := &kernelSwitch{name: r.Name, config: c}
		if err := k.open(); err != nil {
			s.closeKernels(all, s.kernels)
			return nil, r.At(config.Wrong("mode", "%v", err))
		}
		all = append(all, k)
	}
	return all, nil
}

// closeKernels closes those of all that are not to be kept.
func (s *server) closeKernels(all, keep []*kernelSwitch) {
	for _, k := range all {
		if !slices.Contains(keep, k) {
			k.close()
		}
	}
}

// lookAfterKernels opens switches anew whose interfaces are others by now.
func (s *server) lookAfterKernels(now time.Time) {
	for _, k := range s.kernels {
		if now.Sub(k.looked) < time.Second {
			continue
		}
		k.looked = now
		if k.answerer != nil && slices.Equal(k.numbers, numbers(k.names())) {
			continue
		}
		s.mu.Lock()
		was := k.answerer != nil
		k.close()
		err := k.open()
		s.mu.Unlock()
		if err == nil {
			s.log.Info("the kernel answers again", "role", k.name)
		} else if was {
			s.log.Warn("the kernel does not answer", "role", k.name, "error", err)
		}
	}
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
	case c == node.Count{Action: node.Sent, Kind: message.FastCNP}:
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
