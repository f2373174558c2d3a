package run

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/config"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/io/shape"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/prometheus"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/roles"
	"github.com/rocecn/rocecn/netio"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/reaction"
)

// A kernelShaper makes the rates of a host's flows real: act = "shape" of the sender.
type kernelShaper struct {
	shape.Config
	install bool // qdisc fq
}

// isShaping reports whether a role makes rates real.
func isShaping(r *roles.Instance) bool {
	c, ok := r.Config.(*roles.SenderConfig)
	return ok && c.Shapes()
}

// buildKernelShaper returns what a sender goes by that makes rates real.
func (f *file) buildKernelShaper(r *roles.Instance) (c kernelConfig, err error) {
	a := &r.Agent
	if err := checkInterfaces(a.Interfaces); err != nil {
		return c, err
	}
	for i, name := range a.Interfaces {
		if name == "any" {
			return c, config.Wrong(config.Index("interfaces", i), "flows are slowed down at interfaces one by one")
		}
		for _, other := range f.roles {
			if other == r {
				break
			}
			if isShaping(other) && slices.Contains(other.Agent.Interfaces, name) {
				return c, config.Wrong(config.Index("interfaces", i), "role.%s has %s already", other.Name, name)
			}
		}
		c.ports = append(c.ports, kernelPort{name: name})
	}
	c.part = &kernelShaper{
		shape.Config{Interfaces: a.Interfaces, MaxFlows: r.Config.(*roles.SenderConfig).MaxFlows()}, a.Install == "fq",
	}
	return c, nil
}

// checkShaping checks the keys of a sender that say where rates are made real.
func checkShaping(r *roles.Instance) error {
	a := &r.Agent
	switch {
	case a.Install != "" && a.Install != "none" && a.Install != "fq":
		return config.Wrong("install", "%q is neither none nor fq", a.Install)
	case isShaping(r):
		return nil
	case a.Install == "fq":
		return config.Wrong("install", `fq is for act = "shape"`)
	case a.Interfaces != nil:
		return config.Wrong("interfaces", `is for act = "shape"`)
	}
	return nil
}

func (c *kernelShaper) tryOpen() error {
	err := shape.Try(c.Config)
	for _, name := range c.Interfaces {
		if c.install && interfaceIndexes([]string{name})[0] != 0 {
			err = errors.Join(err, shape.TryFQ(name))
		}
	}
	return err
}

func (c *kernelShaper) open(kernelProgram) (kernelProgram, error) {
	p := &shaperProgram{config: c, fq: map[int]func() error{}}
	var err error
	if p.Shaper, err = shape.Open(shape.Config{MaxFlows: c.MaxFlows}); err != nil {
		return nil, err
	}
	if err := p.watchPorts(); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// formatSummary says what the kernel does.
func (c *kernelShaper) formatSummary() string {
	what := "slows flows down that leave by " + strings.Join(c.Interfaces, ", ")
	if c.install {
		what += ", where fq is installed if nobody has chosen a qdisc"
	}
	return what
}

// listWarnings says where nothing waits for its time. What stands in the way of fq where it is to be installed is an error.
func (c *kernelShaper) listWarnings(role string) (all []string) {
	if c.install {
		return nil
	}
	for _, name := range c.Interfaces {
		root, waits, err := shape.CheckFQ(name)
		if err == nil && !waits {
			all = append(all, fmt.Sprintf("role.%s: %s: its qdisc is %s, and only fq keeps packets until their time: "+
				`install = "fq" puts it there, if nobody has chosen another one`, role, name, root))
		}
	}
	return all
}

// shaperProgram is the kernel as it slows flows down.
type shaperProgram struct {
	*shape.Shaper
	config *kernelShaper
	fq     map[int]func() error // takes fq away again, by the number of the interface
	rates  *reaction.Table      // whose orders the kernel has

	countedAt, leasedAt time.Time
}

const (
	// step is how much later than it is due a rate may rise.
	pacingInterval = time.Millisecond
	// counting is how often the kernel is asked what flows have sent, and leasing how often orders are renewed.
	countingInterval = 10 * time.Millisecond
	leaseInterval    = shape.Lease / 6
)

// watchPorts slows flows down at the interfaces that are there, and puts fq there if that is asked for.
func (p *shaperProgram) watchPorts() (wrong error) {
	there := interfaceIndexes(p.config.Interfaces)
	for i, number := range there {
		if !p.config.install || number == 0 || p.fq[number] != nil {
			continue
		}
		remove, err := shape.InstallFQ(p.config.Interfaces[i])
		if err != nil {
			wrong = errors.Join(wrong, err)
			continue
		}
		p.fq[number] = remove
	}
	for number := range p.fq {
		if !slices.Contains(there, number) {
			delete(p.fq, number) // it is gone with its interface
		}
	}
	return errors.Join(wrong, p.Watch(p.config.Interfaces))
}

func (p *shaperProgram) readCounts() kernelCounts { return kernelCounts{} }

func (p *shaperProgram) preparePacket(node.Role, *netio.Packet) {}

func (p *shaperProgram) applyDecision(*node.Decision, time.Time) {}

// syncRole tells the kernel what flows may do, and the role what they have sent.
func (p *shaperProgram) syncRole(r node.Role, now time.Time) {
	sender, ok := r.(*roles.Sender)
	if !ok || sender.Rates() == nil {
		return
	}
	rates := sender.Rates()
	if p.rates != rates {
		sender.SetCountedByOthers(true)
		p.Drain(0)
		p.rates = rates
		for order := range rates.All() {
			p.setOrder(order)
		}
	}
	if now.Sub(p.countedAt) >= countingInterval {
		p.countedAt = now
		p.Sent(func(flow shape.Flow, octets uint64) { rates.Sent(reaction.FlowID(flow), octets, now) })
	}
	rates.Advance(now)
	for order := range rates.Changes(now) {
		p.setOrder(order)
	}
	if now.Sub(p.leasedAt) >= leaseInterval && p.Tick() == nil {
		p.leasedAt = now
	}
}

// setOrder tells the kernel what a flow may do. There is room for all of them.
func (p *shaperProgram) setOrder(o reaction.Order) {
	flow := shape.Flow(o.Flow)
	if o.Gone {
		p.Forget(flow)
		return
	}
	rate := o.Rate
	if rate == p.rates.Line() {
		rate = 0
	}
	_ = p.Set(flow, shape.Order{Rate: rate, Stop: o.Stop})
}

// close lets flows go as if nothing had been, once what waits has left.
func (p *shaperProgram) close() {
	p.Drain(time.Second / 10)
	p.Close()
	for _, remove := range p.fq {
		_ = remove() // who has put another one there wants that
	}
}

// paceFlows does what rates that are made real ask for now.
func (a *actor) paceFlows(now time.Time) {
	if a.rates != nil && a.inKernel {
		a.withKernel(func(k kernelProgram) { k.syncRole(a.Role, now) })
	}
}

// pollTimeout returns how long a worker may wait for packets.
func (w *worker) pollTimeout() time.Duration {
	wait := housekeepingInterval
	for _, a := range w.actors {
		if a.rates == nil || !a.inKernel {
			continue
		}
		now := time.Now()
		if at, ok := a.rates.Next(now); ok {
			wait = min(wait, max(at.Sub(now), pacingInterval))
		}
	}
	return wait
}

// rateMetrics writes the metrics of rates.
func (s *server) rateMetrics(t *prometheus.Text) {
	rates := func(name, help string, of func(n *reaction.TableStats) float64) {
		t.Family(name, help)
		for _, a := range s.actors {
			if n := a.rateStats.Load(); n != nil {
				t.Sample(of(n), "role", a.instance.Name)
			}
		}
	}
	rates("rocecn_rate_flows", "Flows that have been notified, and are not idle.",
		func(n *reaction.TableStats) float64 { return float64(n.Flows) })
	rates("rocecn_rate_slowed", "Flows that are stopped, or slower than the port.",
		func(n *reaction.TableStats) float64 { return float64(n.Slowed) })
	rates("rocecn_rate_least_bps", "The lowest rate of these, bits a second; the port's where there are none.",
		func(n *reaction.TableStats) float64 { return float64(n.Least) })
	rates("rocecn_rate_cuts_total", "How often a rate fell.",
		func(n *reaction.TableStats) float64 { return float64(n.Cuts) })
	rates("rocecn_rate_stops_total", "How often a flow was stopped.",
		func(n *reaction.TableStats) float64 { return float64(n.Stops) })
	rates("rocecn_rate_evicted_total", "Flows that were let go to make room for others.",
		func(n *reaction.TableStats) float64 { return float64(n.Evicted) })
	t.Family("rocecn_shaped_packets_total", "Packets of flows that have a rate, by what they waited for.")
	for _, k := range s.kernels {
		p, ok := k.program.(*shaperProgram)
		if !ok {
			continue
		}
		n := p.Counters()
		for _, how := range []struct {
			name string
			n    uint64
		}{{"nothing", n.Passed}, {"rate", n.Delayed}, {"stop", n.Stopped}, {"horizon", n.Capped}} {
			t.Sample(float64(how.n), "role", k.name, "wait", how.name)
		}
	}
}
