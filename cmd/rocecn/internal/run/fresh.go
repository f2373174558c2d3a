package run

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"slices"
	"time"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/roles"
	"github.com/rocecn/rocecn/netio"
)

// newResources is what was opened for a file before it came into force. nil has nothing.
type newResources struct {
	sources map[string]netio.Source   // by their names and keys
	files   map[string]*sharedCapture // of sinks, by their names
	created []*sharedCapture          // those of them that no sink has yet

	listener net.Listener // of agent.http; nil: none, or as before
}

// openNewResources opens the sources and sinks of a file that there are not yet, so that
// what can never be opened is refused before anything changes. What may come later,
// such as an interface, is left to the workers.
func (s *server) openNewResources(f *file) (*newResources, error) {
	all := &newResources{sources: map[string]netio.Source{}, files: map[string]*sharedCapture{}}
	for _, r := range f.roles {
		err := s.openSources(f, r, all)
		if err == nil && !s.dry {
			err = s.openSink(f, r, all)
		}
		if err != nil {
			all.close()
			return nil, err
		}
	}
	return all, nil
}

// openSources opens the sources of a role.
func (s *server) openSources(f *file, r *roles.Instance, all *newResources) error {
	for _, name := range f.agentSources(&r.Agent) {
		entry := f.sources[name]
		for _, in := range entry.source.listInputs() {
			key := name + " " + in.key
			// One of another name is closed before this one is opened: some allow only one.
			known := func(p *part) bool { return p.key == in.key && (p.entry.name == name || entry.source.isLive()) }
			if all.sources[key] != nil || slices.ContainsFunc(s.parts, known) {
				continue
			}
			source, err := in.open()
			switch {
			case err == nil:
				all.sources[key] = source
			case errors.Is(err, fs.ErrPermission) || !entry.source.isLive():
				return fmt.Errorf("source.%s: %s: %w", name, in.label, err)
			}
		}
	}
	return nil
}

// openSink tries the sink of a role, and opens its file if it is one.
func (s *server) openSink(f *file, r *roles.Instance, all *newResources) error {
	entry := f.sinks[r.Agent.Sink]
	if entry == nil {
		return nil
	}
	if c, ok := entry.sink.(*captureSink); ok {
		name := fullName(c.File)
		if c.shared = s.files[name]; c.shared == nil {
			c.shared = all.files[name]
		}
		if c.shared == nil {
			to, err := openCapture(name, func() *slog.Logger { return s.log })
			if err != nil {
				return fmt.Errorf("sink.%s: %w", entry.name, err)
			}
			c.shared, all.created = to, append(all.created, to)
		}
		all.files[name] = c.shared
		return nil
	}
	same := func(a *actor) bool { return a.out != nil && a.out.entry.configKey() == entry.configKey() }
	if slices.ContainsFunc(s.actors, same) {
		return nil
	}
	var now time.Time
	sink, err := entry.sink.open(&now)
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("sink.%s: %w", entry.name, err)
	}
	if err == nil {
		sink.Close() // each role has one of its own
	}
	return nil
}

// takeSource returns the source that was opened for an input, nil if there is none.
func (o *newResources) takeSource(entry *sourceEntry, in input) netio.Source {
	if o == nil {
		return nil
	}
	key := entry.name + " " + in.key
	source := o.sources[key]
	delete(o.sources, key)
	return source
}

// close closes what was opened.
func (o *newResources) close() {
	if o == nil {
		return
	}
	for _, source := range o.sources {
		source.Close()
	}
	for _, file := range o.created {
		file.closeAndRemove()
	}
	if o.listener != nil {
		o.listener.Close()
	}
}
