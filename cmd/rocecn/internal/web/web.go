// Package web is how the commands serve HTTP: to a few who ask now and then. Whoever asks for more, or stays without
// asking, does not take the files and the memory that the command needs for what it is there for.
package web

import (
	"log"
	"net"
	"net/http"
	"time"

	"golang.org/x/net/netutil"
)

// connections is how many there are at once. Others wait until one of these ends.
const connections = 64

// patience is how long what a client has begun to send may take.
const patience = 5 * time.Second

// Listen listens at a TCP address.
func Listen(address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	return netutil.LimitListener(l, connections), nil
}

// Server returns a server with these answers, which logs what goes wrong.
func Server(answers http.Handler, log *log.Logger) *http.Server {
	return &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Body != http.NoBody { // nobody needs one, and who does not send it is not waited for
				_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(patience))
			}
			answers.ServeHTTP(w, r)
		}),
		ErrorLog: log, MaxHeaderBytes: 16 << 10,
		ReadHeaderTimeout: patience, WriteTimeout: time.Minute, IdleTimeout: 30 * time.Second,
	}
}
