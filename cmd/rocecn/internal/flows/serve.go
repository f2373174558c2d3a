package flows

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"sync"
	"time"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/cli"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/web"
	"github.com/rocecn/rocecn/flows"
	"github.com/rocecn/rocecn/flows/triage"
)

// liveFlows is the default of -max-flows with -listen, for captures that run for days.
const liveFlows = 1 << 14

// fresh is the lifetime of a cached answer of -listen, so that frequent requests do not stop the counting of packets.
const fresh = time.Second

// A site serves the state of the table at the time of a request, for -listen. The table belongs to the goroutine that
// reads the capture, which calls the functions in asks between packets.
type site struct {
	of     *accountant
	reader *reader
	asks   chan func()
	closed chan struct{}
	server *http.Server
}

// An answer is the contents at a path of a site.
type answer struct {
	path, kind string
	octets     func(s *site, ctx context.Context) ([]byte, error)
}

var answers = []answer{
	{"/{$}", "text/html; charset=utf-8", (*site).answerHTML},
	{"/flows.json", "application/json", (*site).answerJSON},
	{"/metrics", "text/plain; version=0.0.4; charset=utf-8", (*site).answerMetrics},
}

// startSite begins to serve, and says where.
func (o *options) startSite(stderr io.Writer) (*site, error) {
	l, err := web.Listen(o.address)
	if err != nil {
		return nil, fmt.Errorf("-listen: %w", err)
	}
	s := &site{asks: make(chan func()), closed: make(chan struct{})}
	mux := http.NewServeMux()
	for _, a := range answers {
		mux.HandleFunc("GET "+a.path, s.handler(a))
	}
	s.server = web.Server(mux, log.New(stderr, "rocecn flows: ", 0))
	go s.server.Serve(l)
	fmt.Fprintf(stderr, "rocecn flows: listening on http://%v/\n", l.Addr())
	return s, nil
}

// handler gives an answer, the same one for a moment.
func (s *site) handler(a answer) http.HandlerFunc {
	var mu sync.Mutex
	var octets []byte
	var made time.Time
	return func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		var err error
		if octets == nil || time.Since(made) >= fresh {
			if octets, err = a.octets(s, r.Context()); err != nil {
				octets = nil // an incomplete answer must not be cached
			}
			made = time.Now()
		}
		b := octets
		mu.Unlock()
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", a.kind)
		w.Header().Set("Cache-Control", "no-store")
		w.Write(b)
	}
}

// close ends serving. Pending requests get no answer.
func (s *site) close() {
	close(s.closed)
	s.server.Close()
}

// waitForEnd answers until ctx ends: the capture has been read.
func (s *site) waitForEnd(ctx context.Context) {
	for {
		select {
		case do := <-s.asks:
			do()
		case <-ctx.Done():
			return
		}
	}
}

// askTable lets the goroutine that has the table do something, and waits until it has.
func (s *site) askTable(ctx context.Context, do func()) error {
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

func (s *site) answerMetrics(ctx context.Context) (b []byte, err error) {
	var all *flows.Snapshot
	var dropped uint64
	if err := s.askTable(ctx, func() { all, dropped = s.of.table.Snapshot(), s.reader.droppedPackets() }); err != nil {
		return nil, err
	}
	b = appendTotals(nil, all, dropped)
	if s.of.options.table.Evidence && all.Evicted.Flows == 0 {
		b = appendFindings(b, triage.Explain(all))
	}
	return b, nil
}

// answerJSON returns an array with the objects of -json, of the chosen flows in their order.
func (s *site) answerJSON(ctx context.Context) ([]byte, error) {
	var all *flows.Snapshot
	var now accountant
	if err := s.askTable(ctx, func() { all, now = s.of.table.Snapshot(), *s.of }); err != nil {
		return nil, err
	}
	now.judgeSnapshot(all)
	b := bytes.NewBufferString("[")
	separator := ""
	appendLine := func(line any) error {
		octets, err := json.Marshal(line)
		octets = cli.EscapeJSON(octets)
		b.WriteString(separator)
		b.Write(octets)
		separator = ",\n"
		return err
	}
	err := now.eachLine(now.firstFlows(all), nil, appendLine)
	if err == nil && now.explains {
		err = now.eachVerdict(appendLine)
	}
	b.WriteString("]\n")
	return b.Bytes(), err
}

// answerHTML returns the page of -html, of the first flows.
func (s *site) answerHTML(ctx context.Context) ([]byte, error) {
	var b bytes.Buffer
	var err error
	asked := s.askTable(ctx, func() { // which has series from the table
		all, now, o := s.of.table.Snapshot(), *s.of, *s.of.options
		if o.top == 0 {
			o.top = liveRows
		}
		now.options = &o
		now.judgeSnapshot(all)
		err = pageTemplate.Execute(&b, now.pageOf(all))
	})
	return b.Bytes(), cmp.Or(asked, err)
}
