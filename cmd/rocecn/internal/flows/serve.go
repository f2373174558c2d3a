package flows

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/rocecn/rocecn/flows"
)

// liveFlows is how many flows are kept with -listen, unless -max-flows says
// otherwise: it is for a capture that goes on for days.
const liveFlows = 1 << 14

// fresh is for how long an answer of -listen is given again: however often it is
// asked, counting packets goes on.
const fresh = time.Second

// A site is what -listen serves: what the table has to say now. The table is in the
// hands of the goroutine that reads the capture, which does what is in asks between
// packets.
type site struct {
	of     *accountant
	reader *reader
	asks   chan func()
	closed chan struct{}
	server http.Server

	mu       sync.Mutex
	now      view
	page     []byte
	pageTime time.Time
}

// A view is what the table had to say at a time.
type view struct {
	taken    time.Time
	snapshot *flows.Snapshot // of all flows; nobody changes it
	dropped  uint64
}

// listen begins to serve, and says where.
func (o *options) listen(stderr io.Writer) (*site, error) {
	l, err := net.Listen("tcp", o.address)
	if err != nil {
		return nil, fmt.Errorf("-listen: %w", err)
	}
	s := &site{asks: make(chan func()), closed: make(chan struct{})}
	mux := http.NewServeMux()
	answer := func(path, kind string, octets func(ctx context.Context) ([]byte, error)) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
			b, err := octets(r.Context())
			if err != nil {
				http.Error(w, err.Error(), http.StatusServiceUnavailable)
				return
			}
			w.Header().Set("Content-Type", kind)
			w.Header().Set("Cache-Control", "no-store")
			w.Write(b)
		})
	}
	answer("/{$}", "text/html; charset=utf-8", s.html)
	answer("/flows.json", "application/json", s.json)
	answer("/metrics", "text/plain; version=0.0.4; charset=utf-8", s.metrics)
	s.server = http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, WriteTimeout: time.Minute,
		MaxHeaderBytes: 16 << 10}
	go s.server.Serve(l)
	fmt.Fprintf(stderr, "rocecn flows: listening on http://%v/\n", l.Addr())
	return s, nil
}

// close ends serving. Who waits for an answer gets none.
func (s *site) close() {
	close(s.closed)
	s.server.Close()
}

// wait answers until ctx ends: the capture has been read.
func (s *site) wait(ctx context.Context) {
	for {
		select {
		case do := <-s.asks:
			do()
		case <-ctx.Done():
			return
		}
	}
}

// ask lets the goroutine that has the table do something, and waits until it has.
func (s *site) ask(ctx context.Context, do func()) error {
	done := make(chan struct{})
	select {
	case s.asks <- func() { do(); close(done) }:
		<-done
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-s.closed:
		return http.ErrServerClosed
	}
}

// view returns what the table has to say, or had a moment ago.
func (s *site) view(ctx context.Context) (view, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now.snapshot != nil && time.Since(s.now.taken) < fresh {
		return s.now, nil
	}
	err := s.ask(ctx, func() {
		s.now = view{time.Now(), s.of.table.Snapshot(), s.reader.lost()}
	})
	return s.now, err
}

func (s *site) metrics(ctx context.Context) ([]byte, error) {
	v, err := s.view(ctx)
	if err != nil {
		return nil, err
	}
	return appendTotals(nil, v.snapshot, v.dropped), nil
}

// json returns an array with the objects of -json: the flows that the flags choose,
// in their order.
func (s *site) json(ctx context.Context) ([]byte, error) {
	v, err := s.view(ctx)
	if err != nil {
		return nil, err
	}
	chosen := *v.snapshot
	chosen.Flows, chosen.Unpaired, chosen.Links =
		slices.Clone(chosen.Flows), slices.Clone(chosen.Unpaired), slices.Clone(chosen.Links)
	o := s.of.options
	o.choice.apply(&chosen)
	o.order.sort(chosen.Flows)
	b := bytes.NewBufferString("[")
	separator := ""
	err = eachLine(o.first(&chosen), nil, func(line any) error {
		octets, err := json.Marshal(line)
		b.WriteString(separator)
		b.Write(octets)
		separator = ",\n"
		return err
	})
	b.WriteString("]\n")
	return b.Bytes(), err
}

// html returns the page of -html, of the first flows.
func (s *site) html(ctx context.Context) (b []byte, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.page != nil && time.Since(s.pageTime) < fresh {
		return s.page, nil
	}
	failed := s.ask(ctx, func() { s.page, err = s.of.pageNow() }) // which has series from the table
	s.pageTime = time.Now()
	if failed != nil {
		err = failed
	}
	return s.page, err
}

// pageNow returns the page of what the table has to say now.
func (a *accountant) pageNow() ([]byte, error) {
	s := a.table.Snapshot()
	a.choice.apply(s)
	a.order.sort(s.Flows)
	o := *a.options
	if o.top == 0 {
		o.top = shownRows
	}
	shown := *a
	shown.options = &o
	var b bytes.Buffer
	err := pageTemplate.Execute(&b, shown.pageOf(s))
	return b.Bytes(), err
}
