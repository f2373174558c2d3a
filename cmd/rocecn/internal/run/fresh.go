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

// newResources are sources, capture files and a listener that were opened for a file before it comes into force. A
// nil pointer has none.
type newResources struct {
	sources map[string]netio.Source   // by name and key
	files   map[string]*sharedCapture // files of sinks, by full name
	created []*sharedCapture          // files that were opened for this configuration

	listener net.Listener // of agent.http; nil if none, or unchanged
}

// openNewResources opens the sources and sinks that a file adds, so that a permanent error is found before
// anything changes. The workers open resources that may appear later, such as an interface.
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

// openSources opens the new sources of a role.
func (s *server) openSources(f *file, r *roles.Instance, all *newResources) error {
	for _, name := range f.agentSources(&r.Agent) {
		entry := f.sources[name]
		for _, in := range entry.source.listInputs() {
			key := name + " " + in.key
			// A source of another name is closed first, as some inputs can be opened only once.
			known := func(p *part) bool { return p.key == in.key && (p.entry.name == name || entry.isLive()) }
			if all.sources[key] != nil || slices.ContainsFunc(s.parts, known) {
				continue
			}
			source, err := in.open()
			switch {
			case err == nil:
				all.sources[key] = source
			case errors.Is(err, fs.ErrPermission) || !entry.isLive():
				return fmt.Errorf("source.%s: %s: %w", name, in.label, err)
			}
		}
	}
	return nil
}

// openSink tries the sink of a role, and opens its file if it is a capture.
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
		sink.Close() // each role opens its own
	}
	return nil
}

// takeSource removes and returns the source that was opened for an input, or returns nil.
func (o *newResources) takeSource(entry *sourceEntry, in input) netio.Source {
	if o == nil {
		return nil
	}
	key := entry.name + " " + in.key
	source := o.sources[key]
	delete(o.sources, key)
	return source
}

// close closes the resources that are left.
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
