package run

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/roles"
	"github.com/rocecn/rocecn/netio"
	"github.com/rocecn/rocecn/node"
)

// A server plays the roles of a file.
type server struct {
	name   string // of the file
	dry    bool
	stderr io.Writer    // what is logged
	log    *slog.Logger // changes while no worker runs

	linesMu sync.Mutex
	wake    chan struct{} // a worker has ended
	lines   *bufio.Writer // of decisions, as play prints them; nil: they are logged

	decisions int // logged a second; set while no worker runs
	notify    notifier
	failed    atomic.Bool // something was wrong with a capture
	ready     bool        // once at least: systemd has heard of it

	stopDevices func() // ends what asks RDMA devices

	mu       sync.RWMutex // of what follows, for who asks; it changes while no worker runs
	file     *file
	parts    []*part
	actors   []*actor
	limits   map[string]*sharedLimit // by the key of a sink
	workers  []*worker
	files    map[string]*sharedCapture // of sinks, by their names
	listener net.Listener              // of agent.http; nil: none
	border   installed
	kernels  []*kernelRole
	reloaded struct {
		good bool
		at   time.Time // the last good one
	}
}

// apply makes the parts and actors of a file, out of those that there are and of
// what was opened for it. It is called while no worker runs. With an error nothing
// has changed, and what was opened is closed.
func (s *server) apply(f *file, opened *fresh) (err error) {
	defer func() {
		if err != nil {
			opened.close()
		}
	}()
	// The roles first: they are what may be refused.
	type change struct {
		actor *actor
		role  node.Role
		in    *roles.Instance
	}
	var changes []change
	var actors []*actor
	undo := func() {
		for _, c := range slices.Backward(changes) {
			if c.actor.Role != nil {
				r, err := c.actor.instance.Apply(c.actor.Role)
				if err != nil {
					s.log.Error("the old configuration is refused", "role", c.actor.instance.Name, "error", err)
					continue
				}
				s.mu.Lock()
				c.actor.setRole(r)
				s.mu.Unlock()
			}
		}
	}
	for _, in := range f.roles {
		a := s.actor(in)
		r, err := in.Apply(a.Role)
		if err != nil {
			undo()
			return err
		}
		changes, actors = append(changes, change{a, r, in}), append(actors, a)
	}
	kernels, err := s.openKernels(f, actors)
	if err == nil {
		if err = s.install(f); err != nil {
			s.mu.Lock()
			s.restoreKernels(kernels)
			s.mu.Unlock()
		}
	}
	if err != nil {
		undo()
		return err
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	s.kernels = kernels
	old, oldActors, oldLimits := s.parts, s.actors, s.limits
	was := ""
	if s.file != nil {
		was = s.file.agent.HTTP
	}
	s.file, s.parts, s.actors, s.limits = f, nil, actors, map[string]*sharedLimit{}
	oldFiles := s.files
	if s.files = nil; opened != nil {
		s.files = opened.files
		for _, file := range opened.created {
			file.begin()
		}
	}
	s.decisions = f.agent.decisions()
	if s.stderr != nil {
		s.log = logger(&f.agent, s.stderr)
	}
	for _, c := range changes {
		a := c.actor
		a.instance, a.live = c.in, false
		_, a.inKernel = f.kernels[c.in.Name]
		a.setRole(c.role)
		s.outlet(a, oldLimits)
	}
	for _, a := range oldActors {
		if !slices.Contains(s.actors, a) && a.out != nil {
			a.out.close()
		}
	}
	for _, name := range sorted(f.sources) {
		s.openParts(f.sources[name], old, opened)
	}
	for _, p := range old {
		if !slices.Contains(s.parts, p) {
			p.close()
		}
	}
	for name, file := range oldFiles {
		if s.files[name] == nil {
			file.Close()
		}
	}
	if f.agent.HTTP != was && s.listener != nil {
		s.listener.Close()
		s.listener = nil
	}
	if opened != nil && opened.listener != nil {
		s.listener = opened.listener
		go s.answers().Serve(s.listener)
	}
	return nil
}

// actor returns the one that plays this role already, or a new one.
func (s *server) actor(in *roles.Instance) *actor {
	for _, a := range s.actors {
		if a.instance.Name == in.Name && a.instance.Role == in.Role {
			return a
		}
	}
	return &actor{server: s, instance: in}
}

// outlet gives an actor the sink that its instance names, which stays open if it is
// the same.
func (s *server) outlet(a *actor, old map[string]*sharedLimit) {
	entry := s.file.sinks[a.instance.Agent.Sink]
	if a.out != nil && (entry == nil || a.out.entry.key() != entry.key()) {
		a.out.close()
		a.out = nil
	}
	if entry == nil {
		return
	}
	if a.out == nil {
		a.out = &outlet{}
		if s.dry {
			a.out.sink = nowhere{}
			a.out.up.Store(true)
		}
	}
	a.out.entry = entry
	key := entry.name + " " + entry.key()
	if s.limits[key] == nil {
		if s.limits[key] = old[key]; s.limits[key] == nil {
			s.limits[key] = newSharedLimit(entry.PerSecond)
		}
	}
	a.out.limit = s.limits[key]
}

// openParts makes the parts of a source that a role uses.
func (s *server) openParts(entry *sourceEntry, old []*part, opened *fresh) {
	var to []subscriber
	for _, a := range s.actors {
		agent := &a.instance.Agent
		if s.file.isOfKernel(agent, entry.name) {
			continue
		}
		if slices.Contains(agent.Sources, entry.name) {
			to = append(to, subscriber{a, false})
		} else if slices.Contains(agent.Observe, entry.name) {
			to = append(to, subscriber{a, true})
		}
	}
	if to == nil {
		return
	}
	for _, in := range entry.is.inputs() {
		p := &part{input: in, levels: map[int]measured{}, names: map[int]string{}}
		at := slices.IndexFunc(old, func(o *part) bool { return o.key == in.key && o.entry.name == entry.name })
		if at >= 0 {
			p = old[at]
		}
		p.input, p.entry, p.to, p.thresholds = in, entry, to, entry.thresholds()
		for _, a := range to {
			a.live = a.live || entry.is.live()
		}
		if source := opened.take(entry, in); source != nil {
			p.numbers, p.looked = numbers(p.watch), time.Now()
			p.source = source
			p.isUp(s)
		}
		s.parts = append(s.parts, p)
	}
}

// start starts workers: one for all parts that share roles.
func (s *server) start(ctx context.Context) {
	var workers []*worker
	of := map[*actor]*worker{}
	for _, p := range s.parts {
		w := &worker{server: s, done: make(chan struct{})}
		for _, to := range p.to {
			if other := of[to.actor]; other != nil && other != w { // they become one
				w.parts, w.actors = append(w.parts, other.parts...), append(w.actors, other.actors...)
				workers = slices.DeleteFunc(workers, func(o *worker) bool { return o == other })
			} else if other == nil {
				w.actors = append(w.actors, to.actor)
			}
			for _, a := range w.actors {
				of[a] = w
			}
		}
		w.parts = append(w.parts, p)
		workers = append(workers, w)
	}
	s.mu.Lock()
	s.workers = workers
	s.mu.Unlock()
	s.startDevices(ctx)
	for _, w := range workers {
		w.turned.Store(time.Now().UnixNano())
		go w.run(ctx)
	}
}

// halt ends the workers, and leaves open what is open.
func (s *server) halt() {
	s.stopDevices()
	for _, w := range s.workers {
		w.halt.Store(true)
	}
	for _, w := range s.workers {
		<-w.done
	}
}

// close closes all. A request for metrics may still be under way.
func (s *server) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.parts {
		p.close()
	}
	for _, a := range s.actors {
		if a.out != nil {
			a.out.close()
		}
	}
	for _, file := range s.files {
		file.Close()
	}
	if s.listener != nil {
		s.listener.Close()
	}
	closeKernels(s.kernels, nil)
	s.border.close()
	s.flushLines()
}

// flushLines prints what has been decided, for who looks on. After an error it returns that one for ever.
func (s *server) flushLines() error {
	if s.lines == nil {
		return nil
	}
	s.linesMu.Lock()
	defer s.linesMu.Unlock()
	return s.lines.Flush()
}

// turn makes run look at its workers.
func (s *server) turn() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// ended reports whether all workers have ended, or one with an error.
func (s *server) ended() (all bool, err error) {
	all = true
	for _, w := range s.workers {
		select {
		case <-w.done:
			err = errors.Join(err, w.err)
		default:
			all = false
		}
	}
	return all, err
}

// waitsFor says what the agent still waits for: nothing, if it is ready.
func (s *server) waitsFor() string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, p := range s.parts {
		if !p.entry.required() {
			continue
		}
		if !p.up.Load() {
			return fmt.Sprintf("source.%s: %s", p.entry.name, p.label)
		}
		if i := slices.Index(numbers(p.watch), 0); i >= 0 {
			return fmt.Sprintf("source.%s: %s", p.entry.name, p.watch[i])
		}
	}
	for _, a := range s.actors {
		if a.out != nil && !a.out.up.Load() {
			return "sink." + a.out.entry.name
		}
	}
	for _, k := range s.kernels {
		if _, ok := k.config.is.(*kernelShaper); !ok {
			continue
		}
		if i := slices.Index(k.numbers, 0); i >= 0 || k.program == nil {
			return fmt.Sprintf("role.%s: %s", k.name, k.config.names()[max(i, 0)])
		}
	}
	what := ""
	if s.border.lacks != "" {
		return s.border.lacks
	}
	s.kernelPorts(func(p kernelPort, up bool) {
		if what == "" && p.required && !up {
			what = fmt.Sprintf("source.%s: %s", p.source, p.name)
		}
	})
	return what
}

// turns reports whether all workers were at work within so long.
func (s *server) turns(within time.Duration) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return !slices.ContainsFunc(s.workers, func(w *worker) bool {
		select {
		case <-w.done:
			return false
		default:
			return time.Since(time.Unix(0, w.turned.Load())) > within
		}
	})
}

// nowhere is a sink of a rehearsal.
type nowhere struct{ io.Closer }

func (nowhere) Send([]byte) error { return nil }
func (nowhere) Flush() error      { return nil }
func (nowhere) Failed() uint64    { return 0 }
func (nowhere) Close() error      { return nil }

var _ netio.Sink = nowhere{}

// reload reads the file again. What is wrong changes nothing.
func (s *server) reload(ctx context.Context) {
	if s.ready { // else systemd waits for the first time, and hears of it then
		s.notify.reloading()
		defer s.notify.say("READY=1")
	}
	changed, err := s.replace(ctx)
	s.mu.Lock()
	s.reloaded.good = err == nil
	if err == nil {
		s.reloaded.at = time.Now()
	}
	s.mu.Unlock()
	switch {
	case err != nil:
		s.log.Error("reload refused, all goes on as before", "error", err)
	case !changed:
		s.log.Info("reload: nothing has changed")
	default:
		s.log.Info("reloaded", "roles", len(s.actors), "sources", s.inputs())
		s.warn()
	}
}

// replace puts the file into force as it is now, and reports whether it is another one.
func (s *server) replace(ctx context.Context) (changed bool, err error) {
	if info, err := os.Stat(s.name); err == nil && !info.Mode().IsRegular() {
		return false, errors.New("the configuration is no regular file: it cannot be read again")
	}
	f, err := readFile(ctx, s.name)
	if err != nil {
		return false, err
	}
	if string(f.octets) == string(s.file.octets) {
		return false, s.install(s.file)
	}
	opened, err := s.openFresh(f)
	if err != nil {
		return false, err
	}
	if opened.listener, err = s.listen(f); err != nil {
		opened.close()
		return false, err
	}
	s.halt()
	defer s.start(ctx)
	return true, s.apply(f, opened)
}

// warn logs what the agent cannot do.
func (s *server) warn() {
	for _, warning := range slices.Concat(s.file.warnings(), s.file.queueWarnings()) {
		s.log.Warn(warning)
	}
	if len(s.file.roles) == 0 {
		s.log.Warn("no role is on")
	}
}
