package web

import (
	"bufio"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/stretchr/testify/require"
)

var (
	fine = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "fine") })
	none = log.New(io.Discard, "", 0)
)

// ask asks by a connection that then stays.
func ask(t *testing.T, c net.Conn) {
	t.Helper()
	_, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: here\r\n\r\n")
	require.NoError(t, err)
}

// fineFrom requires an answer.
func fineFrom(t *testing.T, c net.Conn) {
	t.Helper()
	answer := wiretest.Must(http.ReadResponse(bufio.NewReader(c), nil))(t)
	text := wiretest.Must(io.ReadAll(answer.Body))(t)
	require.Equal(t, "fine", string(text))
}

// A client is answered even if others hold all connections: the oldest one is closed.
func TestConnections(t *testing.T) {
	l := wiretest.Must(Listen("127.0.0.1:0"))(t)
	s := Server(fine, none)
	s.IdleTimeout = 0 // this test may take long
	go s.Serve(l)
	defer s.Close()
	var all []net.Conn
	for range connections { // half of them are slow: they send no request
		c := wiretest.Must(net.Dial("tcp", l.Addr().String()))(t)
		defer c.Close()
		if all = append(all, c); len(all)%2 == 0 {
			ask(t, c)
			fineFrom(t, c)
		}
	}
	for i := range 10 {
		c := wiretest.Must(net.Dial("tcp", l.Addr().String()))(t)
		defer c.Close()
		ask(t, c)
		fineFrom(t, c)
		closed, err := io.ReadAll(all[i])
		require.True(t, len(closed) == 0 && err == nil, "the oldest one is closed: %v", err)
	}
	ask(t, all[connections-1])
	fineFrom(t, all[connections-1])
	c, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	defer c.Close()
	ask(t, c)
	fineFrom(t, c)
	s.Close()
	text, _ := io.ReadAll(c)
	require.Empty(t, text)
	_, err = Listen("127.0.0.1:none")
	require.Error(t, err)
}

// piped is a listener with one connection.
type piped struct {
	once sync.Once
	c    net.Conn
	end  chan struct{}
}

func (p *piped) Accept() (c net.Conn, err error) {
	p.once.Do(func() { c = p.c })
	if c == nil {
		<-p.end
		err = net.ErrClosed
	}
	return c, err
}

func (p *piped) Close() error {
	close(p.end)
	return nil
}

func (p *piped) Addr() net.Addr { return p.c.LocalAddr() }

// Idle connections and incomplete requests are closed.
func TestSilence(t *testing.T) {
	for _, begin := range []func(t *testing.T, c net.Conn){
		func(t *testing.T, c net.Conn) { ask(t, c); fineFrom(t, c) },
		func(t *testing.T, c net.Conn) { io.WriteString(c, "GET / ") },
		func(*testing.T, net.Conn) {},
		func(t *testing.T, c net.Conn) { // a body that does not come
			io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n")
			go io.Copy(io.Discard, c)
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			near, far := net.Pipe()
			s := Server(fine, none)
			go s.Serve(&piped{c: far, end: make(chan struct{})})
			begin(t, near)
			time.Sleep(time.Minute) // of the bubble
			synctest.Wait()
			_, err := io.WriteString(near, "x")
			require.ErrorIs(t, err, io.ErrClosedPipe)
			s.Close()
		})
	}
}

// A header is no way to fill the memory.
func TestLongHeader(t *testing.T) {
	l := wiretest.Must(Listen("127.0.0.1:0"))(t)
	s := Server(fine, none)
	go s.Serve(l)
	defer s.Close()
	r := wiretest.Must(http.NewRequest("GET", "http://"+l.Addr().String(), nil))(t)
	r.Header.Set("X", strings.Repeat("x", 64<<10))
	answer := wiretest.Must(http.DefaultClient.Do(r))(t)
	answer.Body.Close()
	require.Equal(t, http.StatusRequestHeaderFieldsTooLarge, answer.StatusCode)
}
