//go:build linux

package igptest

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/stretchr/testify/require"
)

// ospfAPI is a client of ospfd's API (ospfd --apiserver), with which a program originates
// opaque LSAs and reads the link state database. FRRouting's own client library is not
// in Debian.
//
// A message has version 1, type, length (16 bits), sequence number (32 bits) and data.
// The client sends requests on one connection; ospfd sends notifications on a second
// one, which it opens to the client's next port.
type ospfAPI struct {
	host  *wiretest.Host
	asks  net.Conn
	seq   uint32
	mu    sync.Mutex
	lsas  map[lsaKey][]byte // link state database
	ready map[uint8]bool    // LSA types with a neighbour
}

// Types of messages.
const (
	registerOpaqueType = 1
	registerEvent      = 3
	syncLSDB           = 4
	originateRequest   = 5
	deleteRequest      = 6
	reply              = 10
	readyNotify        = 11
	lsaUpdateNotify    = 12
	lsaDeleteNotify    = 13
)

const (
	opaqueArea = 10 // LSA types of opaque LSAs (RFC 5250)
	opaqueAS   = 11
)

// lsaKey identifies an LSA: area, and the header's type, link state id and advertising
// router.
type lsaKey struct {
	area [4]byte
	lsa  [9]byte
}

func keyOf(area [4]byte, lsa []byte) lsaKey { return lsaKey{area, [9]byte(lsa[3:12])} }

// dialOSPF connects to the ospfd of a host and reads its database.
func dialOSPF(t *testing.T, h *wiretest.Host) *ospfAPI {
	t.Helper()
	const server, client = 2607, 4000
	c := &ospfAPI{host: h, lsas: map[lsaKey][]byte{}, ready: map[uint8]bool{}}
	var news net.Conn
	h.Do(t, func() error {
		l, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", client+1))
		if err != nil {
			return err
		}
		defer l.Close()
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: client}, Timeout: wiretest.Timeout}
		if c.asks, err = d.Dial("tcp4", fmt.Sprintf("127.0.0.1:%d", server)); err != nil {
			return err
		}
		if err := l.(*net.TCPListener).SetDeadline(time.Now().Add(wiretest.Timeout)); err != nil {
			return err
		}
		news, err = l.Accept()
		return err
	})
	t.Cleanup(func() { c.asks.Close(); news.Close() })
	go c.listen(news)
	everything := []byte{0xFF, 0xFF, 2, 0} // all types of LSA, of any origin, in all areas
	c.ask(t, registerEvent, everything)
	c.ask(t, syncLSDB, everything)
	return c
}

// message encodes a message.
func (c *ospfAPI) message(typ uint8, data []byte) []byte {
	c.seq++
	b := binary.BigEndian.AppendUint16([]byte{1, typ}, uint16(len(data)))
	return append(binary.BigEndian.AppendUint32(b, c.seq), data...)
}

// readMessage reads a message.
func readMessage(r io.Reader) (typ uint8, data []byte, err error) {
	var h [8]byte
	if _, err := io.ReadFull(r, h[:]); err != nil {
		return 0, nil, err
	}
	data = make([]byte, binary.BigEndian.Uint16(h[2:]))
	_, err = io.ReadFull(r, data)
	return h[1], data, err
}

// try sends a request and returns the error code of the answer, 0 on success.
func (c *ospfAPI) try(t *testing.T, typ uint8, data []byte) int8 {
	t.Helper()
	require.NoError(t, c.asks.SetDeadline(time.Now().Add(wiretest.Timeout)))
	_, err := c.asks.Write(c.message(typ, data))
	require.NoError(t, err, c.host.Name)
	answer, data, err := readMessage(c.asks)
	require.NoError(t, err, c.host.Name)
	require.EqualValues(t, reply, answer)
	return int8(data[0])
}

func (c *ospfAPI) ask(t *testing.T, typ uint8, data []byte) {
	t.Helper()
	require.Zero(t, c.try(t, typ, data), "%s: message %d refused", c.host.Name, typ)
}

// listen stores the notifications until the connection ends.
func (c *ospfAPI) listen(news net.Conn) {
	for {
		typ, data, err := readMessage(news)
		if err != nil {
			return
		}
		c.mu.Lock()
		switch {
		case typ == readyNotify && len(data) >= 8:
			c.ready[data[0]] = true
		case typ == lsaUpdateNotify && len(data) >= 32: // interface, area, self-originated, LSA
			c.lsas[keyOf([4]byte(data[4:]), data[12:])] = data[12:]
		case typ == lsaDeleteNotify && len(data) >= 32:
			delete(c.lsas, keyOf([4]byte(data[4:]), data[12:]))
		}
		c.mu.Unlock()
	}
}

// register announces that this client originates LSAs of AS scope with this opaque
// type, and waits for a neighbour that supports them. (ospfd does not allow clients to
// originate Extended Prefix LSAs of area scope.)
func (c *ospfAPI) register(t *testing.T, opaqueType uint8) {
	t.Helper()
	c.ask(t, registerOpaqueType, []byte{opaqueAS, opaqueType, 0, 0})
	wiretest.Await(t, c.host.Name+" takes opaque LSAs", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.ready[opaqueAS]
	})
}

// originate floods an opaque LSA of AS scope.
func (c *ospfAPI) originate(t *testing.T, opaqueType, id uint8, body []byte) {
	t.Helper()
	lsa := []byte{0, 0, 0, opaqueAS, opaqueType, 0, 0, id, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
	lsa = binary.BigEndian.AppendUint16(lsa, uint16(20+len(body)))
	request := slices.Concat(make([]byte, 8), lsa, body)
	wiretest.Await(t, c.host.Name+" originates", func() bool { return c.try(t, originateRequest, request) == 0 })
}

// withdraw withdraws an LSA.
func (c *ospfAPI) withdraw(t *testing.T, opaqueType, id uint8) {
	t.Helper()
	c.ask(t, deleteRequest, []byte{0, 0, 0, 0, opaqueAS, opaqueType, 0, 0, 0, 0, 0, id})
}

// lsasOf returns the LSAs of one router.
func (c *ospfAPI) lsasOf(router [4]byte) (all [][]byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, lsa := range c.lsas {
		if [4]byte(lsa[8:]) == router {
			all = append(all, lsa)
		}
	}
	return all
}
