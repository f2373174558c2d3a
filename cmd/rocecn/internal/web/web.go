// Package web serves HTTP for the commands, to a small number of clients. Clients that send many requests, or keep
// connections open, cannot use up the files and the memory that the command needs.
package web

import (
	"log"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// connections is the maximum number of open connections. A further one closes that which has been open the longest, so
// slow clients do not keep others from an answer.
const connections = 64

// readTimeout is the maximum time for reading a request.
const readTimeout = 5 * time.Second

// Listen listens at a TCP address.
func Listen(address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	return &listener{Listener: l}, nil
}

// A listener closes the oldest connection where there are too many.
type listener struct {
	net.Listener
	mu   sync.Mutex
	open []*conn // the oldest first
}

// A conn is a connection of a listener.
type conn struct {
	net.Conn
	from *listener
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	accepted, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &conn{accepted, l}
	l.mu.Lock()
	var oldest *conn
	if len(l.open) >= connections {
		oldest = l.open[0]
	}
	l.open = append(l.open, c)
	l.mu.Unlock()
	if oldest != nil {
		_ = oldest.Close() // the client may have closed it
	}
	return c, nil
}

// Close implements net.Conn.
func (c *conn) Close() error {
	l := c.from
	l.mu.Lock()
	if i := slices.Index(l.open, c); i >= 0 {
		l.open = slices.Delete(l.open, i, i+1)
	}
	l.mu.Unlock()
	return c.Conn.Close()
}

// Server returns a server with these handlers, which logs its errors.
func Server(answers http.Handler, log *log.Logger) *http.Server {
	return &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Body != http.NoBody { // no handler needs a body: do not wait for it
				_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(readTimeout))
			}
			answers.ServeHTTP(w, r)
		}),
		ErrorLog: log, MaxHeaderBytes: 16 << 10,
		ReadHeaderTimeout: readTimeout, WriteTimeout: time.Minute, IdleTimeout: 30 * time.Second,
	}
}
