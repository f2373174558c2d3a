package bmp

import (
	"bytes"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/node/acl"
)

// station opens a station on the loopback address. Its log goes to the returned buffer.
func station(t *testing.T, s Settings) (*Station, *Table, *lines) { return stationWithTimeout(t, s, 0) }

func stationWithTimeout(t *testing.T, s Settings, timeout time.Duration) (*Station, *Table, *lines) {
	log := new(lines)
	logger := slog.New(slog.NewTextHandler(log, nil))
	table := NewTable(code, s)
	st := wiretest.Must(Listen(Config{Listen: netip.MustParseAddrPort("127.0.0.1:0"), Table: table,
		Log: func() *slog.Logger { return logger }, timeout: timeout}))(t)
	t.Cleanup(func() { st.Close() })
	return st, table, log
}

// lines are the lines of a log.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func connect(t *testing.T, s *Station) net.Conn {
	c := wiretest.Must(net.Dial("tcp", s.Local().String()))(t)
	t.Cleanup(func() { c.Close() })
	return c
}

// requireClosed requires that the station closes a connection.
func requireClosed(t *testing.T, c net.Conn) {
	t.Helper()
	require.NoError(t, c.SetReadDeadline(time.Now().Add(10*time.Second)))
	_, err := c.Read(make([]byte, 1))
	require.Error(t, err)
	require.NotErrorIs(t, err, &net.OpError{})
	if timeout, ok := err.(net.Error); ok {
		require.False(t, timeout.Timeout(), "the connection is open")
	}
}

// A router connects, reports a route, and disconnects; its route is held.
func TestStation(t *testing.T) {
	s, table, log := station(t, Settings{Hold: time.Hour})
	c := connect(t, s)
	stream := append(peer1.sendUp(open), peer1.update(origin, asPath, nhc(1), reach(net64))...)
	for _, part := range [][]byte{stream[:3], stream[3:50], stream[50:]} { // messages do not follow the segments of TCP
		wiretest.Must(c.Write(part))(t)
		time.Sleep(5 * time.Millisecond)
	}
	wiretest.Await(t, "the proxy is known", func() bool { _, ok := table.Lookup(sender); return ok })
	require.Len(t, table.Status().Routers, 1)
	c.Close()
	wiretest.Await(t, "the session is lost", func() bool { return table.Status().Held == 1 })
	requireProxy(t, table, 1)
	wiretest.Await(t, "the loss is logged", func() bool { return strings.Contains(log.String(), "BMP session lost") })
	require.Contains(t, log.String(), "BMP session begins")
}

// The station closes connections that send something else than messages, and keeps serving others.
func TestStationRejects(t *testing.T) {
	for _, c := range []struct {
		name   string
		octets string
		log    string
	}{
		{"another version", "04 00000006 04", "BMP version 4: want 3"},
		{"a message that is too long", "03 00040001 00", "BMP message of 262145 octets: want 6 to 262144"},
		{"a message that is too short", "03 00000005 04", "BMP message of 5 octets: want 6 to 262144"},
		{"an end inside a message", "03 00000030 00 00", "unexpected EOF"},
		{"termination", "03 00000006 05", "the router has terminated the session"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, table, log := station(t, Settings{})
			bad := connect(t, s)
			wiretest.Must(bad.Write(unhex(c.octets)))(t)
			require.NoError(t, bad.(*net.TCPConn).CloseWrite())
			requireClosed(t, bad)
			wiretest.Await(t, c.log, func() bool { return strings.Contains(log.String(), c.log) })
			good := connect(t, s)
			wiretest.Must(good.Write(peer1.update(origin, asPath, nhc(1), reach(net64))))(t)
			wiretest.Await(t, "the proxy is known", func() bool { _, ok := table.Lookup(sender); return ok })
		})
	}
}

func TestStationAccepts(t *testing.T) {
	s, table, _ := station(t, Settings{Accept: acl.New(netip.MustParsePrefix("192.0.2.0/24"))})
	requireClosed(t, connect(t, s))
	require.EqualValues(t, 1, table.Status().Rejected)
	table.Configure(Settings{Accept: acl.New(netip.MustParsePrefix("127.0.0.0/8"))})
	c := connect(t, s)
	wiretest.Must(c.Write(peer1.sendUp(open)))(t)
	wiretest.Await(t, "the session is open", func() bool { return len(table.Status().Routers) == 1 })
}

// A connection without a message, or with a part of one, is closed; one between two messages stays open.
func TestStationTimeout(t *testing.T) {
	whole := bmpMessage(4)
	for _, c := range []struct {
		name   string
		octets []byte
		closed bool
	}{{"nothing", nil, true}, {"a part", whole[:3], true}, {"one and a part", append(whole, whole[:3]...), true},
		{"whole messages", append(whole, whole...), false}} {
		t.Run(c.name, func(t *testing.T) {
			const timeout = 100 * time.Millisecond
			s, table, _ := stationWithTimeout(t, Settings{}, timeout)
			router := connect(t, s)
			wiretest.Must(router.Write(c.octets))(t)
			if c.closed {
				requireClosed(t, router)
				return
			}
			time.Sleep(3 * timeout)
			require.Len(t, table.Status().Routers, 1)
		})
	}
}

// Each connection writes up to two lines; a flood of them writes few.
func TestStationLogIsLimited(t *testing.T) {
	s, table, log := station(t, Settings{Accept: acl.New()})
	const connections = 500
	for range connections {
		c := connect(t, s)
		requireClosed(t, c)
		c.Close()
	}
	require.EqualValues(t, connections, table.Status().Rejected)
	require.Less(t, strings.Count(log.String(), "\n"), connections/2)
	require.Contains(t, log.String(), "BMP connection rejected")
}

// Of many lines in a second ten are written. The first line after them has the number of the others, once.
func TestLinesNotLogged(t *testing.T) {
	var output bytes.Buffer
	l := &limitedLog{log: func() *slog.Logger { return slog.New(slog.NewTextHandler(&output, nil)) }}
	l.second = time.Now().Add(time.Hour) // the second does not end
	for _, lines := range []int{17, 12, 10} {
		l.lines = 0
		for range lines {
			l.writeInfo("line")
		}
	}
	require.Equal(t, 30, strings.Count(output.String(), "\n"))
	require.Equal(t, 2, strings.Count(output.String(), "not_logged"))
	require.Equal(t, 1, strings.Count(output.String(), "not_logged=7\n"))
	require.Equal(t, 1, strings.Count(output.String(), "not_logged=2\n"))
}

// After Stop the source of packets has ended, and the sessions too.
func TestStationEnds(t *testing.T) {
	s, table, _ := station(t, Settings{Hold: time.Hour})
	c := connect(t, s)
	wiretest.Must(c.Write(peer1.update(origin, asPath, nhc(1), reach(net64))))(t)
	wiretest.Await(t, "the proxy is known", func() bool { _, ok := table.Lookup(sender); return ok })
	packets, err := s.Read()
	require.NoError(t, err)
	require.Empty(t, packets)
	require.NoError(t, s.Stop())
	require.NoError(t, s.Stop())
	_, err = s.Read()
	require.ErrorIs(t, err, io.EOF)
	requireClosed(t, c)
	require.NoError(t, s.Close())
	require.Empty(t, table.Status().Routers)
	requireProxy(t, table, 1)
}
