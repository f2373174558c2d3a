package run

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/prometheus"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/roles"
	"github.com/rocecn/rocecn/netio"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/reaction"
	"github.com/rocecn/rocecn/rocev2"
)

// An actor is a role as the agent plays it.
type actor struct {
	roles.Player
	instance *roles.Instance
	server   *server
	out      *outlet                 // nil: it sends nothing
	live     bool                    // a source of it is
	leveller roles.Leveller          // the role, if it is one
	queued   bool                    // its queues were not empty
	device   chan []roles.DevicePair // what the RDMA device says; another one with each start
	rates    *reaction.Table         // of the role; nil: none
	inKernel bool                    // the kernel plays the role, or slows flows down for it
	before   kernelCounts            // by programs of the kernel that are closed

	frames int
	now    time.Time   // of this host
	stamp  time.Time   // of the packet
	stamps []time.Time // of the packets whose answers are not flushed yet
	budget int         // decisions that may be logged in this second
	second time.Time

	counts
}

// counts are what becomes of the packets of a role.
type counts struct {
	outcomes [node.Refused + 1]atomic.Uint64 // by the action
	packets  atomic.Uint64                   // handed to the sink
	unmade   atomic.Uint64                   // marks that the agent cannot make
	silent   atomic.Uint64                   // decisions that were not logged
	sizes    [sizes]atomic.Int64             // of its tables
	latency  prometheus.Histogram
	rated    atomic.Pointer[reaction.TableStats] // nil: no rates
}

// play gives the actor its role.
func (a *actor) play(r roles.Role) {
	a.Role, a.Say = r, a.say
	a.leveller, _ = r.(roles.Leveller)
	a.rates = nil
	if rated, ok := r.(roles.Rated); ok {
		a.rates = rated.Rates()
	}
}

// show shows a packet to the role.
func (a *actor) show(p *netio.Packet, observe bool, level uint8, known bool, now time.Time) {
	a.frames++
	if !p.Supported() {
		a.outcomes[node.Nothing].Add(1)
		return
	}
	switch {
	case a.leveller == nil:
	case known:
		a.leveller.SetLevel(level)
		a.queued = a.queued || level > 0
		observe = observe || level == 0 // nothing is congested
	default:
		a.leveller.OwnLevel()
	}
	a.now, a.stamp = now, p.Time
	a.withKernel(func(k kernelProgram) { k.show(a.Role, p) })
	a.Show(&p.Record, observe)
}

// say does what the role has decided.
func (a *actor) say(v *roles.Verdict, packet []byte) {
	outcome := v.Action
	if outcome == node.Nothing && len(packet) > 0 {
		outcome = node.Forwarded // what is no traffic of the role's
	}
	if !v.Unasked {
		a.outcomes[outcome].Add(1)
	}
	if v.Action == node.Learned {
		a.withKernel(func(k kernelProgram) { k.learned(v, a.now) })
	}
	if v.MarkECN && a.live {
		a.unmade.Add(1)
	}
	if len(packet) > 0 && a.out != nil {
		a.packets.Add(1)
		a.out.now = a.stamp
		if dscp := a.out.entry.DSCP; dscp >= 0 && (v.Action == node.Sent || v.Action == node.Accepted) {
			_, _ = rocev2.SetDSCP(packet, uint8(dscp)) // no ICRC covers it
		}
		if a.out.send(packet, a.now) && a.live && !v.Unasked {
			a.stamps = append(a.stamps, a.stamp)
		}
	}
	switch {
	case v.Action == node.Nothing:
	case a.server.lines != nil:
		a.print(v)
	case a.budget > 0:
		a.budget--
		a.log(v)
	default:
		a.silent.Add(1)
	}
}

// flush sends what is decided, and measures how long it took since the packets came.
func (a *actor) flush() {
	if a.out == nil {
		return
	}
	a.out.flush()
	if len(a.stamps) == 0 {
		return
	}
	now := time.Now()
	for _, stamp := range a.stamps {
		if !stamp.IsZero() {
			a.latency.Observe(now.Sub(stamp))
		}
	}
	a.stamps = a.stamps[:0]
}

// tick is called now and then.
func (a *actor) tick(now time.Time, s *server) {
	if a.live {
		a.now = now
		a.Relieve(now)
		a.flush()
	}
	a.hearDevice()
	a.withKernel(func(k kernelProgram) { k.tick(a.Role, now) })
	if now.Sub(a.second) >= time.Second {
		a.second, a.budget = now, s.decisions
	}
	a.measure(now)
	if a.out != nil && !s.dry {
		log := s.log.With("sink", a.out.entry.name, "role", a.instance.Name)
		a.out.settle(now, log)
		a.out.look(now, log)
	}
}

// A size is that of a table of a role.
type size uint8

const (
	pairsSize   size = iota // queue pairs that are known
	flowsSize               // flows that have a label
	freeSize                // flows more that could have one
	stoppedSize             // flows and ports that do not run
	sizes
)

// measure takes note of how large the role's tables are.
func (a *actor) measure(now time.Time) {
	if a.rates != nil {
		if a.live {
			a.rates.Look(now)
		}
		stats := a.rates.Stats()
		a.rated.Store(&stats)
	} else {
		a.rated.Store(nil)
	}
	if e, ok := a.Role.(roles.Expirer); ok && a.live {
		e.Expire(now)
	}
	if r, ok := a.Role.(roles.Paired); ok {
		a.sizes[pairsSize].Store(int64(r.Pairs()))
	}
	if r, ok := a.Role.(roles.Labelled); ok {
		flows, free := r.Labels()
		a.sizes[flowsSize].Store(int64(flows))
		a.sizes[freeSize].Store(int64(free))
	}
	if r, ok := a.Role.(roles.Stopper); ok {
		a.sizes[stoppedSize].Store(int64(r.Stopped()))
	}
}

// relax lets flows run that were stopped, once all queues have fallen to level 0.
func (a *actor) relax(highest uint8) {
	if a.leveller == nil || !a.queued || highest > 0 {
		return
	}
	a.queued = false
	a.leveller.Relax()
	a.Relieve(a.now)
}

// print prints the line of play.
func (a *actor) print(v *roles.Verdict) {
	l := v.Line(a.instance.Name, a.frames, a.stamp)
	octets, err := json.Marshal(&l)
	if err != nil {
		panic(err) // a line is made of numbers and text
	}
	a.server.linesMu.Lock()
	defer a.server.linesMu.Unlock()
	a.server.lines.Write(append(octets, '\n'))
}

// log logs a decision, with what its line says.
func (a *actor) log(v *roles.Verdict) {
	attrs := make([]slog.Attr, 0, 8)
	attrs = append(attrs, slog.String("role", a.instance.Name), slog.String("action", v.Action.String()))
	if v.Reason != node.NoReason {
		attrs = append(attrs, slog.String("reason", v.Reason.String()))
	}
	l := v.Line(a.instance.Name, a.frames, a.stamp)
	if l.Kind != "" {
		attrs = append(attrs, slog.String("kind", l.Kind))
	}
	if l.To.IsValid() {
		attrs = append(attrs, slog.String("to", l.To.String()))
	}
	if l.QP != nil {
		attrs = append(attrs, slog.Uint64("qp", uint64(*l.QP)))
	}
	if l.RateBPS != nil {
		attrs = append(attrs, slog.Uint64("rate_bps", *l.RateBPS))
	}
	if l.Label != nil {
		attrs = append(attrs, slog.Uint64("label", uint64(*l.Label)))
	}
	if n := a.silent.Swap(0); n > 0 {
		attrs = append(attrs, slog.Uint64("not_logged", n))
	}
	a.server.log.LogAttrs(context.Background(), slog.LevelInfo, "decision", attrs...)
}
