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
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/config"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/roles"
	"github.com/rocecn/rocecn/netio"
	"github.com/rocecn/rocecn/node"
)

// A server plays the roles of a configuration file.
type server struct {
	name   string // name of the configuration file
	dry    bool
	stderr io.Writer    // destination of the log
	log    *slog.Logger // replaced only while no worker runs

	linesMu sync.Mutex
	wake    chan struct{} // wakes run when a worker has ended
	lines   *bufio.Writer // decisions as play prints them, or nil to log them

	budget lineBudget // of the lines about decisions
	debug  bool       // each decision is logged; set while no worker runs
	notify notifier
	failed atomic.Bool // a capture could not be read to its end
	ready  bool        // READY=1 has been sent to systemd

	stopDevices func() // ends the polling of RDMA devices

	mu       sync.RWMutex // guards the fields below; they change only while no worker runs
	file     *file
	parts    []*part
	actors   []*actor
	limits   map[string]*sharedLimit // by the key of a sink
	workers  []*worker
	files    map[string]*sharedCapture // capture files of sinks, by full name
	listener net.Listener              // listener of agent.http, or nil
	border   borderState
	kernels  []*kernelRole
	reloaded struct {
		good bool
		at   time.Time // time of the last successful load
	}
}

// applyFile makes f the file in force. It keeps the existing parts and actors that f still uses and takes new ones
// from opened. It is called while no worker runs. On error nothing changes, and opened is closed.
func (s *server) applyFile(f *file, opened *newResources) (err error) {
	defer func() {
		if err != nil {
			opened.close()
		}
	}()
	// Roles come first because they can reject their configuration.
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
					s.log.Error("the previous configuration is rejected", "role", c.actor.instance.Name, "error", err)
					continue
				}
				s.mu.Lock()
				c.actor.setRole(r)
				s.mu.Unlock()
			}
		}
	}
	for _, in := range f.roles {
		a := s.findActor(in)
		r, err := in.Apply(a.Role)
		if err != nil {
			undo()
			return err
		}
		changes, actors = append(changes, change{a, r, in}), append(actors, a)
	}
	kernels, err := s.openKernels(f, actors)
	if err == nil {
		if err = s.installBorder(f); err != nil {
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
			file.startFile()
		}
	}
	s.budget.setLimit(f.agent.decisionLimit())
	f.configureTables()
	if s.stderr != nil {
		s.log = newLogger(&f.agent, s.stderr)
	}
	s.debug = s.log.Enabled(context.Background(), slog.LevelDebug)
	for _, c := range changes {
		a := c.actor
		a.instance, a.live = c.in, false
		_, a.inKernel = f.kernels[c.in.Name]
		a.setRole(c.role)
		s.assignOutlet(a, oldLimits)
	}
	for _, a := range oldActors {
		if !slices.Contains(s.actors, a) {
			a.close()
		}
	}
	for _, name := range sortedKeys(f.sources) {
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
		go s.newHTTPServer().Serve(s.listener)
	}
	return nil
}

// findActor returns the actor that already plays this role, or a new one.
func (s *server) findActor(in *roles.Instance) *actor {
	for _, a := range s.actors {
		if a.instance.Name == in.Name && a.instance.Role == in.Role {
			return a
		}
	}
	return &actor{server: s, instance: in}
}

// assignOutlet gives an actor the sink that its instance names. A sink that stays the same stays open.
func (s *server) assignOutlet(a *actor, old map[string]*sharedLimit) {
	entry := s.file.sinks[a.instance.Agent.Sink]
	if a.out != nil && (entry == nil || a.out.entry.configKey() != entry.configKey()) {
		a.out.close()
		a.out = nil
	}
	if entry == nil {
		return
	}
	if a.out == nil {
		a.out = &outlet{}
		if s.dry {
			a.out.sink = discardSink{}
			a.out.up.Store(true)
		}
	}
	a.out.entry = entry
	key := entry.name + " " + entry.configKey()
	if s.limits[key] == nil {
		if s.limits[key] = old[key]; s.limits[key] == nil {
			s.limits[key] = newSharedLimit(entry.PerSecond)
		}
	}
	a.out.limit = s.limits[key]
}

// openParts creates the parts of a source if a role uses it.
func (s *server) openParts(entry *sourceEntry, old []*part, opened *newResources) {
	var to []subscriber
	for _, a := range s.actors {
		agent := &a.instance.Agent
		if s.file.isKernelSource(agent, entry.name) {
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
	for _, in := range entry.source.listInputs() {
		p := &part{input: in, levels: map[int]measured{}, names: map[int]string{}}
		at := slices.IndexFunc(old, func(o *part) bool { return o.key == in.key && o.entry.name == entry.name })
		if at >= 0 {
			p = old[at]
		}
		p.input, p.entry, p.subscribers, p.thresholds = in, entry, to, entry.levelThresholds()
		for _, a := range to {
			a.live = a.live || entry.isLive() && entry.Type != "bmp"
		}
		if source := opened.takeSource(entry, in); source != nil {
			p.numbers, p.checkedAt = interfaceIndexes(p.watch), time.Now()
			p.source = source
			p.markUp(s)
		}
		s.parts = append(s.parts, p)
	}
}

// startWorkers starts one worker for each set of parts that share roles.
func (s *server) startWorkers(ctx context.Context) {
	var workers []*worker
	of := map[*actor]*worker{}
	for _, p := range s.parts {
		w := &worker{server: s, done: make(chan struct{})}
		for _, to := range p.subscribers {
			if other := of[to.actor]; other != nil && other != w { // merge both workers
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
		w.aliveAt.Store(time.Now().UnixNano())
		go w.run(ctx)
	}
}

// haltWorkers ends the workers and leaves sources and sinks open.
func (s *server) haltWorkers() {
	s.stopDevices()
	for _, w := range s.workers {
		w.halt.Store(true)
	}
	for _, w := range s.workers {
		<-w.done
	}
}

// close closes everything. A request for metrics may still be running.
func (s *server) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.parts {
		p.close()
	}
	for _, a := range s.actors {
		a.close()
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

// flushLines writes the printed decisions to the output. After an error it always returns that error.
func (s *server) flushLines() error {
	if s.lines == nil {
		return nil
	}
	s.linesMu.Lock()
	defer s.linesMu.Unlock()
	return s.lines.Flush()
}

// wakeMain makes run check its workers.
func (s *server) wakeMain() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// haveWorkersEnded reports whether all workers have ended. It also returns the errors of those that have.
func (s *server) haveWorkersEnded() (all bool, err error) {
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

// findMissing returns the source, sink or interface that the agent waits for, or "" if it is ready.
func (s *server) findMissing() string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, p := range s.parts {
		if !p.entry.isRequired() {
			continue
		}
		if !p.up.Load() {
			return fmt.Sprintf("source.%s: %s", p.entry.name, p.label)
		}
		if i := slices.Index(interfaceIndexes(p.watch), 0); i >= 0 {
			return fmt.Sprintf("source.%s: %s", p.entry.name, p.watch[i])
		}
	}
	for _, a := range s.actors {
		if a.out != nil && !a.out.up.Load() {
			return "sink." + a.out.entry.name
		}
	}
	for _, k := range s.kernels {
		if _, ok := k.config.part.(*kernelShaper); !ok {
			continue
		}
		if i := slices.Index(k.numbers, 0); i >= 0 || k.program == nil {
			return fmt.Sprintf("role.%s: %s", k.name, k.config.portNames()[max(i, 0)])
		}
	}
	missing := ""
	if s.border.problem != "" {
		return s.border.problem
	}
	s.visitKernelPorts(func(p kernelPort, up bool) {
		if missing == "" && p.required && !up {
			missing = fmt.Sprintf("source.%s: %s", p.source, p.name)
		}
	})
	return missing
}

// areWorkersAlive reports whether every running worker has completed a round within the given time.
func (s *server) areWorkersAlive(within time.Duration) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return !slices.ContainsFunc(s.workers, func(w *worker) bool {
		select {
		case <-w.done:
			return false
		default:
			return time.Since(time.Unix(0, w.aliveAt.Load())) > within
		}
	})
}

// discardSink is the sink of a dry run: it drops all packets.
type discardSink struct{ io.Closer }

func (discardSink) Send([]byte) error { return nil }
func (discardSink) Flush() error      { return nil }
func (discardSink) Failed() uint64    { return 0 }
func (discardSink) Close() error      { return nil }

var _ netio.Sink = discardSink{}

// reloadFile reads the file again. On error nothing changes.
func (s *server) reloadFile(ctx context.Context) {
	if s.ready { // before, systemd waits for the first READY=1
		s.notify.sendReloading()
		defer s.notify.sendState("READY=1")
	}
	changed, err := s.replaceFile(ctx)
	s.mu.Lock()
	s.reloaded.good = err == nil
	if err == nil {
		s.reloaded.at = time.Now()
	}
	s.mu.Unlock()
	switch {
	case err != nil:
		s.log.Error("reload failed, the previous configuration stays in force", "error", err)
	case !changed:
		s.log.Info("reload: nothing has changed")
	default:
		s.log.Info("reloaded", "roles", len(s.actors), "sources", s.countInputs())
		s.logWarnings()
	}
}

// replaceFile puts the current content of the file into force, and reports whether it has changed.
func (s *server) replaceFile(ctx context.Context) (changed bool, err error) {
	if info, err := os.Stat(s.name); err == nil && !info.Mode().IsRegular() {
		return false, errors.New("the configuration is not a regular file, so it cannot be read again")
	}
	f, err := readFile(ctx, s.name)
	if err != nil {
		return false, err
	}
	if string(f.octets) == string(s.file.octets) {
		return false, s.installBorder(s.file)
	}
	if err := f.checkReplaced(s.file); err != nil {
		return false, err
	}
	f.linkTables(s.file, s.currentLog)
	opened, err := s.openNewResources(f)
	if err != nil {
		return false, err
	}
	if opened.listener, err = s.listenHTTP(f); err != nil {
		opened.close()
		return false, err
	}
	s.haltWorkers()
	defer s.startWorkers(ctx)
	return true, s.applyFile(f, opened)
}

// checkReplaced returns an error if missing interfaces take the place of all existing interfaces of a required source:
// most likely a name is wrong, and the source would deliver nothing.
func (f *file) checkReplaced(old *file) error {
	for _, name := range sortedKeys(f.sources) {
		entry, before := f.sources[name], old.sources[name]
		if before == nil || !entry.isRequired() {
			continue
		}
		there, were := interfaceIndexes(entry.listInterfaces()), interfaceIndexes(before.listInterfaces())
		isThere := func(number int) bool { return number != 0 }
		if len(there) == 0 || slices.ContainsFunc(there, isThere) || !slices.ContainsFunc(were, isThere) {
			continue
		}
		return entry.tree.LocateError(config.Wrong("interfaces", "%s: no such interface; want one that exists in "+
			"place of %s, or required = false", strings.Join(entry.listInterfaces(), ", "),
			strings.Join(before.listInterfaces(), ", ")))
	}
	return nil
}

// logWarnings logs the limits of the configuration.
func (s *server) logWarnings() {
	for _, warning := range slices.Concat(s.file.listWarnings(), s.file.listQueueWarnings()) {
		s.log.Warn(warning)
	}
	if len(s.file.roles) == 0 {
		s.log.Warn("no role is on")
	}
}
