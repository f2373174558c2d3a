// Package web serves HTTP for the commands, to a small number of clients. Clients that send many requests, or keep
// connections open, cannot use up the files and the memory that the command needs.
package web

import (
	"log"
	"net"
	"net/http"
	"time"

	"golang.org/x/net/netutil"
)

// connections is the maximum number of open connections. Further clients wait until one is closed.
const connections = 64

// readTimeout is the maximum time for reading a request.
const readTimeout = 5 * time.Second

// Listen listens at a TCP address.
func Listen(address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	return netutil.LimitListener(l, connections), nil
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
