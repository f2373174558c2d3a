package run

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"syscall"
	"time"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/io/fastpath"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/io/nflog"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/io/rdma"
	"github.com/rocecn/rocecn/netio"
)

// tryAll opens all used resources and closes them again. A resource in use gives a warning, not an error, because
// the running agent usually has it: operators check a file before a reload.
func (f *file) tryAll(ctx context.Context) (warnings []string, err error) {
	f.linkTables(nil, func() *slog.Logger { return slog.New(slog.DiscardHandler) })
	var all []error
	fails := func(where string, err error) {
		err = fmt.Errorf("%s: %w", where, err)
		if inUse(err) {
			warnings = append(warnings, err.Error()+": right if it is by the agent, which runs")
			return
		}
		all = append(all, err)
	}
	f.visitUsed(func(s *sourceEntry) {
		for _, in := range s.source.listInputs() {
			for i, number := range interfaceIndexes(in.watch) {
				if number == 0 {
					fails("source."+s.name+": "+in.watch[i], netio.ErrNoInterface)
				}
			}
			opened, err := in.open()
			switch {
			case err == nil:
				opened.Close()
			case !errors.Is(err, netio.ErrNoInterface) || in.watch == nil:
				fails("source."+s.name+": "+in.label, err)
			}
		}
	}, func(s *sinkEntry) {
		if err := trySink(s.sink); err != nil {
			fails("sink."+s.name, err)
		}
	})
	if f.agent.HTTP != "" {
		if l, err := net.Listen("tcp", f.agent.HTTP); err == nil {
			l.Close()
		} else {
			fails("agent.http", err)
		}
	}
	for _, r := range f.roles {
		if r.Agent.RDMA != "" && r.Agent.RDMA != noDevice {
			if _, err := new(rdma.Reader).Pairs(ctx); err != nil {
				fails("role."+r.Name+".rdma", err)
			}
		}
		if c, ok := f.kernels[r.Name]; ok {
			for i, number := range interfaceIndexes(c.portNames()) {
				of := "source." + c.ports[i].source
				if isShaping(r) {
					of = "role." + r.Name
				}
				if number == 0 {
					fails(of+": "+c.ports[i].name, netio.ErrNoInterface)
				}
			}
			if err := c.part.tryOpen(); err != nil {
				fails("role."+r.Name+"."+c.roleKey(), err)
			}
		}
	}
	all = append(all, f.tryBorders())
	return warnings, errors.Join(all...)
}

// inUse reports whether err means that another program holds the resource exclusively.
func inUse(err error) bool {
	return errors.Is(err, syscall.EADDRINUSE) || errors.Is(err, nflog.ErrTaken) || errors.Is(err, fastpath.ErrTaken)
}

// trySink opens a sink and closes it again.
func trySink(s sink) error {
	if c, ok := s.(*captureSink); ok {
		opened, err := openCapture(fullName(c.File), nil)
		if err == nil {
			opened.closeAndRemove()
		}
		return err
	}
	var now time.Time
	opened, err := s.open(&now)
	if err != nil {
		return err
	}
	return opened.Close()
}
