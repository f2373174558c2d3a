//go:build linux

package igptest

import (
	"bytes"
	"context"
	"encoding/binary"
	"net"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rocecn/rocecn/internal/wiretest"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
)

// ospfSpeaker is a minimal OSPF router of version 2 or 3 on point-to-point links: it
// sends hellos, exchanges databases, floods its LSAs and stores received ones. It
// computes no routes. Its router id must be the higher one on each link.
type ospfSpeaker struct {
	version uint8
	id      [4]byte

	mu       sync.Mutex
	own      map[[4]byte][][]byte // LSAs to flood, by area
	received map[lsaKey][]byte    // latest LSA of each key
}

func newOSPF(version uint8, id [4]byte) *ospfSpeaker {
	return &ospfSpeaker{version: version, id: id, own: map[[4]byte][][]byte{}, received: map[lsaKey][]byte{}}
}

// Types of packets, and flags of database descriptions.
const (
	ospfHello           = 1
	databaseDescription = 2
	linkStateRequest    = 3
	linkStateUpdate     = 4
	linkStateAck        = 5

	flagMaster = 1
	flagMore   = 2
	flagInit   = 4
)

// newLSA returns an LSA with its checksum. typ is an OSPFv2 type preceded by the options,
// or an OSPFv3 type.
func newLSA(typ uint16, id, router [4]byte, sequence uint8, body ...[]byte) []byte {
	b := binary.BigEndian.AppendUint16([]byte{0, 1}, typ)
	b = slices.Concat(b, id[:], router[:], []byte{0x80, 0, 0, sequence, 0, 0, 0, 0}, slices.Concat(body...))
	binary.BigEndian.PutUint16(b[18:], uint16(len(b)))
	fletcher(b[2:], 14) // all but the age
	return b
}

// flood adds an LSA to be flooded in an area.
func (s *ospfSpeaker) flood(area [4]byte, lsa []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.own[area] = slices.DeleteFunc(s.own[area], func(b []byte) bool { return keyOf(area, b) == keyOf(area, lsa) })
	s.own[area] = append(s.own[area], lsa)
}

// lsasOf returns the received LSAs of one router in an area.
func (s *ospfSpeaker) lsasOf(area, router [4]byte) (all [][]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, lsa := range s.received {
		if key.area == area && [4]byte(lsa[8:]) == router {
			all = append(all, lsa)
		}
	}
	return all
}

// link is an adjacency of a speaker.
type link struct {
	*ospfSpeaker
	area [4]byte
	send func(packet []byte)

	neighbour   [4]byte
	state       int
	sequence    uint32 // sequence number of database descriptions
	description []byte // current database description
	described   bool   // the whole database has been sent
	wanted      []byte // LSA headers of the neighbour's database
}

// States of an adjacency.
const (
	downOrInit = iota
	exStart
	exchange
	full
)

// link runs the speaker on a device in an area until the test ends.
func (s *ospfSpeaker) link(t *testing.T, h *wiretest.Host, device string, area [4]byte) {
	t.Helper()
	var conn net.PacketConn
	l := &link{ospfSpeaker: s, area: area, sequence: 1000}
	h.Do(t, func() error {
		d, err := net.InterfaceByName(device)
		if err != nil {
			return err
		}
		config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) (err error) {
			if e := c.Control(func(fd uintptr) { err = syscall.BindToDevice(int(fd), device) }); e != nil {
				return e
			}
			return err
		}}
		network, any, group := "ip4:89", "0.0.0.0", &net.IPAddr{IP: net.IPv4(224, 0, 0, 5)}
		if s.version == 3 {
			network, any, group = "ip6:89", "::", &net.IPAddr{IP: net.ParseIP("ff02::5"), Zone: device}
		}
		if conn, err = config.ListenPacket(context.Background(), network, any); err != nil {
			return err
		}
		l.send = func(b []byte) { _, _ = conn.WriteTo(b, group) }
		if s.version == 2 {
			p := ipv4.NewPacketConn(conn)
			_ = p.SetMulticastLoopback(false)
			if err := p.SetMulticastInterface(d); err != nil {
				return err
			}
			return p.JoinGroup(d, group)
		}
		p := ipv6.NewPacketConn(conn)
		_ = p.SetMulticastLoopback(false)
		if err := p.SetChecksum(true, 12); err != nil {
			return err
		}
		if err := p.SetMulticastInterface(d); err != nil {
			return err
		}
		return p.JoinGroup(d, group)
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		b := make([]byte, 1<<16)
		for next := time.Now(); ; {
			if now := time.Now(); !now.Before(next) {
				next = now.Add(time.Second)
				l.everySecond()
			}
			if conn.SetReadDeadline(next) != nil {
				return
			}
			if n, _, err := conn.ReadFrom(b); err == nil {
				l.receive(b[:n])
			} else if e, ok := err.(net.Error); !ok || !e.Timeout() {
				return
			}
		}
	}()
	t.Cleanup(func() { conn.Close(); <-done })
}

// packet sends a packet of this type.
func (l *link) packet(typ uint8, body []byte) {
	b := slices.Concat([]byte{l.version, typ, 0, 0}, l.id[:], l.area[:], []byte{0, 0, 0, 0})
	if l.version == 2 {
		b = append(b, make([]byte, 8)...) // no authentication
	}
	b = append(b, body...)
	binary.BigEndian.PutUint16(b[2:], uint16(len(b)))
	if l.version == 2 { // in version 3 the kernel computes the checksum
		binary.BigEndian.PutUint16(b[12:], internetChecksum(b[:16], b[24:]))
	}
	l.send(b)
}

func internetChecksum(parts ...[]byte) uint16 {
	sum := uint32(0)
	for _, p := range parts {
		for i := 0; i+1 < len(p); i += 2 {
			sum += uint32(binary.BigEndian.Uint16(p[i:]))
		}
	}
	for sum > 0xFFFF {
		sum = sum>>16 + sum&0xFFFF
	}
	return ^uint16(sum)
}

// everySecond sends a hello and retransmits packets that may have been lost.
func (l *link) everySecond() {
	var hello []byte
	if l.version == 2 { // mask, interval 1, options E and O, priority, dead interval 4
		hello = []byte{255, 255, 255, 0, 0, 1, 0x42, 1, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0}
	} else { // interface id, priority, options V6, E and R
		hello = []byte{0, 0, 0, 1, 1, 0, 0, 0x13, 0, 1, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0}
	}
	if l.neighbour != [4]byte{} {
		hello = append(hello, l.neighbour[:]...)
	}
	l.packet(ospfHello, hello)
	switch l.state {
	case exStart, exchange:
		l.packet(databaseDescription, l.description)
	case full:
		if len(l.wanted) > 0 {
			l.request()
		}
		if own := l.lsas(); len(own) > 0 {
			l.packet(linkStateUpdate, slices.Concat(binary.BigEndian.AppendUint32(nil, uint32(len(own))),
				slices.Concat(own...)))
		}
	}
}

func (l *link) lsas() [][]byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.own[l.area])
}

// describe sends the next database description.
func (l *link) describe(flags uint8, headers ...[]byte) {
	b := []byte{5, 0xDC, 0x42, flags} // MTU 1500
	if l.version == 3 {
		b = []byte{0, 0, 0, 0x13, 5, 0xDC, 0, flags}
	}
	l.description = slices.Concat(binary.BigEndian.AppendUint32(b, l.sequence), slices.Concat(headers...))
	l.packet(databaseDescription, l.description)
}

// request sends a request for the LSAs in the neighbour's database description.
func (l *link) request() {
	var b []byte
	for h := range slices.Chunk(l.wanted, 20) {
		typ := []byte{0, 0, h[2], h[3]}
		if l.version == 2 {
			typ[2] = 0 // the options
		}
		b = slices.Concat(b, typ, h[4:12])
	}
	l.packet(linkStateRequest, b)
}

func (l *link) receive(b []byte) {
	header := 16
	if l.version == 2 {
		header = 24
	}
	if len(b) < header || b[0] != l.version || [4]byte(b[4:]) == l.id || [4]byte(b[8:]) != l.area {
		return
	}
	typ, body := b[1], b[header:min(len(b), int(binary.BigEndian.Uint16(b[2:])))]
	switch {
	case typ == ospfHello && len(body) >= 20:
		l.neighbour = [4]byte(b[4:])
		seen := slices.ContainsFunc(slices.Collect(slices.Chunk(body[20:], 4)),
			func(id []byte) bool { return bytes.Equal(id, l.id[:]) })
		switch {
		case seen && l.state == downOrInit:
			l.exStart()
		case !seen:
			l.state = downOrInit
		}
	case typ == databaseDescription && l.version == 2 && len(body) >= 8:
		l.takeDescription(body[3], binary.BigEndian.Uint32(body[4:]), body[8:])
	case typ == databaseDescription && l.version == 3 && len(body) >= 12:
		l.takeDescription(body[7], binary.BigEndian.Uint32(body[8:]), body[12:])
	case typ == linkStateRequest:
		l.answer(body)
	case typ == linkStateUpdate && len(body) >= 4:
		l.update(body[4:])
	}
}

// exStart begins the exchange of databases as master.
func (l *link) exStart() {
	l.state, l.described, l.wanted = exStart, false, nil
	l.sequence++
	l.describe(flagInit | flagMore | flagMaster)
}

// takeDescription handles a database description of the neighbour.
func (l *link) takeDescription(flags uint8, sequence uint32, headers []byte) {
	switch {
	case flags&flagInit != 0 && l.state == full:
		l.exStart() // the neighbour has restarted the exchange
		return
	case flags&flagMaster != 0 || sequence != l.sequence || l.state != exStart && l.state != exchange:
		return // the neighbour considers itself master, or answers an old description
	}
	l.state = exchange
	l.wanted = append(l.wanted, headers[:len(headers)/20*20]...)
	if l.described && flags&flagMore == 0 {
		l.state = full
		l.everySecond()
		return
	}
	l.sequence++
	var own [][]byte
	if !l.described {
		for _, lsa := range l.lsas() {
			own = append(own, lsa[:20])
		}
		l.described = true
	}
	l.describe(flagMaster, own...)
}

// answer sends the LSAs that the neighbour requests.
func (l *link) answer(requests []byte) {
	for r := range slices.Chunk(requests, 12) {
		for _, lsa := range l.lsas() {
			if len(r) == 12 && bytes.Equal(lsa[3:12], r[3:]) {
				l.packet(linkStateUpdate, slices.Concat([]byte{0, 0, 0, 1}, lsa))
			}
		}
	}
}

// update stores LSAs and acknowledges them.
func (l *link) update(b []byte) {
	var headers []byte
	l.mu.Lock()
	for len(b) >= 20 {
		n := int(binary.BigEndian.Uint16(b[18:]))
		if n < 20 || n > len(b) {
			break
		}
		lsa := bytes.Clone(b[:n])
		key := keyOf(l.area, lsa)
		if old := l.received[key]; old == nil ||
			int32(binary.BigEndian.Uint32(lsa[12:])) >= int32(binary.BigEndian.Uint32(old[12:])) {
			l.received[key] = lsa
		}
		headers = append(headers, lsa[:20]...)
		for at := 0; at < len(l.wanted); at += 20 {
			if bytes.Equal(l.wanted[at+3:at+12], lsa[3:12]) {
				l.wanted = slices.Delete(l.wanted, at, at+20)
				break
			}
		}
		b = b[n:]
	}
	l.mu.Unlock()
	l.packet(linkStateAck, headers)
}
