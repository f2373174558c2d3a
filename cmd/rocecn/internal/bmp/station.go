package bmp

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/rocecn/rocecn/netio"
)

// Config is the configuration of a Station.
type Config struct {
	Listen netip.AddrPort
	Table  *Table
	Log    func() *slog.Logger // called for each line

	timeout time.Duration // messageTimeout, except in tests
}

// A Station is a server to which routers connect. It implements netio.Source, without any packets, so that it is
// opened, closed and replaced like the sources of packets.
type Station struct {
	config   Config
	listener *net.TCPListener
	ended    *os.File // readable after Stop
	stop     *os.File // closed by Stop
	log      limitedLog

	mu          sync.Mutex
	closed      bool
	connections map[net.Conn]bool
	running     sync.WaitGroup // open sessions
}

var _ netio.Source = (*Station)(nil)

// keepAlive finds out within 25 s that a router is gone without closing the connection. BMP has no messages for that.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 10 * time.Second, Interval: 5 * time.Second, Count: 3}

// Listen opens a station.
func Listen(c Config) (*Station, error) {
	listener, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(c.Listen))
	if err != nil {
		return nil, err
	}
	ended, stop, err := os.Pipe()
	if err != nil {
		listener.Close()
		return nil, err
	}
	s := &Station{config: c, listener: listener, ended: ended, stop: stop, connections: map[net.Conn]bool{}}
	s.config.timeout = cmp.Or(c.timeout, messageTimeout)
	s.log.log = c.Log
	go s.acceptConnections()
	return s, nil
}

// Local returns the address at which the station listens.
func (s *Station) Local() netip.AddrPort { return s.listener.Addr().(*net.TCPAddr).AddrPort() }

// acceptConnections accepts routers until the station is closed.
func (s *Station) acceptConnections() {
	for {
		c, err := s.listener.AcceptTCP()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil: // such as too many open files
			s.log.writeWarning("BMP connection not accepted", "error", err)
			time.Sleep(100 * time.Millisecond)
			continue
		}
		s.acceptConnection(c)
	}
}

// acceptConnection starts the session of a router, or closes the connection.
func (s *Station) acceptConnection(c *net.TCPConn) {
	router := c.RemoteAddr().(*net.TCPAddr).AddrPort().Addr().Unmap()
	session, err := s.config.Table.Open(router, time.Now())
	if err != nil {
		s.log.writeWarning("BMP connection rejected", "router", router, "error", err)
		c.Close()
		return
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		session.Close(time.Now())
		c.Close()
		return
	}
	s.connections[c] = true
	s.running.Add(1)
	s.mu.Unlock()
	go s.serveConnection(c, session)
	s.log.writeInfo("BMP session begins", "router", router)
}

// serveConnection reads a session to its end. It logs after the session counts as ended, since the log may wait for the
// caller of Close.
func (s *Station) serveConnection(c *net.TCPConn, session *Session) {
	err := readSession(c, session, s.config.timeout)
	session.Close(time.Now())
	c.Close()
	s.mu.Lock()
	delete(s.connections, c)
	closed := s.closed
	s.mu.Unlock()
	s.running.Done()
	if !closed {
		s.log.writeWarning("BMP session lost", "router", session.router, "error", err)
	}
}

// messageTimeout is the longest time between connecting and the end of the first message, and between the first and the
// last octet of every other message.
const messageTimeout = 30 * time.Second

// readSession passes the messages of a connection to its session, and returns the reason of its end.
func readSession(c *net.TCPConn, session *Session, timeout time.Duration) error {
	if err := c.SetKeepAliveConfig(keepAlive); err != nil {
		return err
	}
	r := bufio.NewReaderSize(c, 64<<10)
	var message []byte
	for first := true; ; first = false {
		if err := c.SetReadDeadline(time.Time{}); err != nil {
			return err
		}
		if !first { // wait for the next message without limit
			if _, err := r.Peek(1); err != nil {
				return err
			}
		}
		err := c.SetReadDeadline(time.Now().Add(timeout))
		if err != nil {
			return err
		}
		if message, err = ReadMessage(r, message); err != nil {
			return err
		}
		if err := session.Receive(message, time.Now()); err != nil {
			return err
		}
	}
}

// Read implements netio.Source. There are no packets.
func (s *Station) Read() ([]netio.Packet, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, io.EOF
	}
	return nil, nil
}

// FD implements netio.Source.
func (s *Station) FD() int { return int(s.ended.Fd()) }

// Lost implements netio.Source.
func (s *Station) Lost() uint64 { return 0 }

// Stop implements netio.Source. It ends all sessions.
func (s *Station) Stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	s.listener.Close()
	for c := range s.connections {
		c.Close()
	}
	return s.stop.Close()
}

// Close implements netio.Source. It returns after all sessions have ended.
func (s *Station) Close() error {
	err := s.Stop()
	s.running.Wait()
	return errors.Join(err, s.ended.Close())
}

// maxLinesPerSecond limits the log lines that connections cause.
const maxLinesPerSecond = 10

// A limitedLog writes a limited number of lines.
type limitedLog struct {
	log func() *slog.Logger

	mu      sync.Mutex
	second  time.Time
	lines   int
	dropped int // lines that were not written since the last one
}

func (l *limitedLog) writeInfo(text string, attrs ...any) { l.writeLine(slog.LevelInfo, text, attrs) }
func (l *limitedLog) writeWarning(text string, attrs ...any) {
	l.writeLine(slog.LevelWarn, text, attrs)
}

func (l *limitedLog) writeLine(level slog.Level, text string, attrs []any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now(); now.Sub(l.second) >= time.Second {
		l.second, l.lines = now, 0
	}
	if l.lines++; l.lines > maxLinesPerSecond {
		l.dropped++
		return
	}
	if l.dropped > 0 {
		attrs = append(attrs, "not_logged", l.dropped)
		l.dropped = 0
	}
	l.log().Log(context.Background(), level, text, attrs...)
}
