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

// A kernelShaper paces the flows of a host: act = "shape" of the sender.
type kernelShaper struct {
	shape.Config
	install bool // install qdisc fq
}

// isShaping reports whether a role paces flows in the kernel.
func isShaping(r *roles.Instance) bool {
	c, ok := r.Config.(*roles.SenderConfig)
	return ok && c.Shapes()
}

// buildKernelShaper returns the kernel configuration of a sender with act = "shape".
func (f *file) buildKernelShaper(r *roles.Instance) (c kernelConfig, err error) {
	a := &r.Agent
	if err := checkInterfaces(a.Interfaces); err != nil {
		return c, err
	}
	for i, name := range a.Interfaces {
		if name == "any" {
			return c, config.Wrong(config.Index("interfaces", i),
				"any: want names of interfaces, where flows are paced")
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

// checkShaping checks the keys of a sender that only act = "shape" uses.
func checkShaping(r *roles.Instance) error {
	a := &r.Agent
	switch {
	case a.Install != "" && a.Install != "none" && a.Install != "fq":
		return config.Wrong("install", "%q: want none or fq", a.Install)
	case isShaping(r):
		return nil
	case a.Install == "fq":
		return config.Wrong("install", `fq: want act = "shape" with it`)
	case a.Interfaces != nil:
		return config.Wrong("interfaces", `want act = "shape" with it`)
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

// formatSummary returns a description of the shaper for the summary.
func (c *kernelShaper) formatSummary() string {
	summary := "slows flows down that leave by " + strings.Join(c.Interfaces, ", ")
	if c.install {
		summary += ", where fq is installed unless another qdisc was configured"
	}
	return summary
}

// listWarnings returns a warning for each interface with a qdisc that does not pace packets. If fq is to be installed,
// an obstacle is an error instead.
func (c *kernelShaper) listWarnings(role string) (all []string) {
	if c.install {
		return nil
	}
	for _, name := range c.Interfaces {
		root, waits, err := shape.CheckFQ(name)
		if err == nil && !waits {
			all = append(all, fmt.Sprintf("role.%s: %s: its qdisc is %s, and only fq keeps packets until their time: "+
				`install = "fq" installs it, unless another one was configured`, role, name, root))
		}
	}
	return all
}

// shaperProgram is the running shaper of a role.
type shaperProgram struct {
	*shape.Shaper
	config *kernelShaper
	fq     map[int]func() error // removes fq again, by interface index
	rates  *reaction.Table      // source of the orders in the kernel
	resume *resumer

	countedAt, leasedAt time.Time
}

const (
	// pacingInterval is the longest delay of a rate increase.
	pacingInterval = time.Millisecond
	// countingInterval is the time between two reads of the octets sent by flows, and leaseInterval the time
	// between two renewals of the orders.
	countingInterval = 10 * time.Millisecond
	leaseInterval    = shape.Lease / 6
)

// watchPorts paces flows at the existing interfaces, and installs fq there if configured.
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
			delete(p.fq, number) // gone with its interface
		}
	}
	return errors.Join(wrong, p.Watch(p.config.Interfaces))
}

func (p *shaperProgram) readCounts() kernelCounts { return kernelCounts{} }

func (p *shaperProgram) preparePacket(node.Role, *netio.Packet) {}

func (p *shaperProgram) applyDecision(node.Role, *node.Decision, time.Time) {}

// syncRole passes the orders of the role to the kernel, and the octets sent by flows to the role.
func (p *shaperProgram) syncRole(r node.Role, now time.Time) {
	sender, ok := r.(*roles.Sender)
	if !ok || sender.Rates() == nil {
		return
	}
	rates := sender.Rates()
	if p.rates != rates {
		sender.SetCountedByOthers(true)
		p.Drain(0)
		p.rates, p.resume = rates, newResumer(rates.Line())
		for order := range rates.All() {
			p.setOrder(order, now)
		}
	}
	since := now.Sub(p.countedAt)
	counts := since >= countingInterval
	if counts {
		p.countedAt = now
		p.Sent(func(flow shape.Flow, octets uint64) {
			rates.Sent(reaction.FlowID(flow), octets, now)
			p.resume.countOctets(reaction.FlowID(flow), octets, since)
		})
	}
	rates.Advance(now)
	for order := range rates.Changes(now) {
		p.setOrder(order, now)
	}
	if counts && p.resume.ramps > 0 {
		p.raiseLimits(now)
	}
	if now.Sub(p.leasedAt) >= leaseInterval && p.Tick() == nil {
		p.leasedAt = now
	}
}

// setOrder passes the order of a flow to the kernel. The map has room for all flows of the role.
func (p *shaperProgram) setOrder(o reaction.Order, now time.Time) {
	f := p.resume.setOrder(o, now)
	if f == nil {
		p.Forget(shape.Flow(o.Flow))
		return
	}
	_ = p.Set(shape.Flow(o.Flow), shape.Order{Rate: p.resume.rateAt(f, now), Stop: o.Stop})
}

// raiseLimits raises the limits of flows after a stop, and removes those that have reached the line rate when no packet
// waits.
func (p *shaperProgram) raiseLimits(now time.Time) {
	for id, f := range p.resume.flows {
		if f.rate == 0 || now.Before(f.until) {
			continue
		}
		if !p.Waits(shape.Flow(id)) {
			p.resume.finish(f, now)
		}
		_ = p.Set(shape.Flow(id), shape.Order{Rate: p.resume.rateAt(f, now)})
	}
}

// close removes the shaper after its waiting packets have left.
func (p *shaperProgram) close() {
	p.Drain(time.Second / 10)
	p.Close()
	for _, remove := range p.fq {
		_ = remove() // a replaced fq stays
	}
}

// paceFlows synchronizes the orders of flows with the kernel.
func (a *actor) paceFlows(now time.Time) {
	if a.rates != nil && a.inKernel {
		a.withKernel(func(k kernelProgram) { k.syncRole(a.Role, now) })
	}
}

// pollTimeout returns the longest time that a worker may wait for packets.
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
		a.withKernel(func(k kernelProgram) {
			if p, ok := k.(*shaperProgram); ok && p.resume != nil && p.resume.ramps > 0 {
				wait = min(wait, countingInterval)
			}
		})
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
	rates("rocecn_rate_cuts_total", "Rate decreases.",
		func(n *reaction.TableStats) float64 { return float64(n.Cuts) })
	rates("rocecn_rate_stops_total", "Stops of flows.",
		func(n *reaction.TableStats) float64 { return float64(n.Stops) })
	rates("rocecn_rate_evicted_total", "Flows that were let go to make room for others.",
		func(n *reaction.TableStats) float64 { return float64(n.Evicted) })
	t.Family("rocecn_shaped_packets_total", "Packets of flows that have a rate, by the reason for their delay.")
	for _, k := range s.kernels {
		p, ok := k.program.(*shaperProgram)
		if !ok {
			continue
		}
		for _, d := range listDelays(p.Counters()) {
			t.Sample(float64(d.packets), "role", k.name, "wait", d.reason)
		}
	}
}

// A delay is the number of packets that were delayed for a reason.
type delay struct {
	reason  string
	packets uint64
}

func listDelays(n shape.Shaped) []delay {
	return []delay{{"nothing", n.Passed}, {"rate", n.Delayed}, {"stop", n.Stopped}, {"horizon", n.Capped}}
}
