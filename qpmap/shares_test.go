package qpmap_test

import (
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/cm"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

// A flood is forged packets about ever new connections.
type flood struct {
	kind    floodKind
	domain  uint32
	address func(n uint32) netip.Addr // requester of connection n
	n       uint32
	packets int
	random  *rand.Rand
}

type floodKind uint8

const (
	floodExchanges  floodKind = iota // REQ and REP
	floodBegun                       // REQ, REP and the first request
	floodAnswered                    // requests and answers, enough for a pair
	floodUnfinished                  // requests and answers, not enough for a pair
	floodRequests                    // one request each
	floodREQs                        // one REQ each
	floodDatagrams                   // one datagram each
)

var floodNames = [...]string{"exchanges", "begun", "answered", "unfinished", "requests", "REQs", "datagrams"}

// toTwo returns the only address of a flood from one host.
func toTwo(uint32) netip.Addr { return netip.MustParseAddr("2001:db8:bad::1") }

// send gives a map at least n packets of the flood.
func (f *flood) send(m *qpmap.Map, n int, now time.Time) {
	for sent := 0; sent < n; {
		f.n++
		c := connection{
			A: f.address(f.n), B: netip.MustParseAddr("2001:db8:bad:2::2"), a: 1<<20 + f.n, b: 1<<21 + f.n, mtu: 3,
			psnA: f.random.Uint32N(1 << 24), psnB: f.random.Uint32N(1 << 24), commA: f.n, commB: ^f.n,
		}
		packets := f.packetsOf(&c)
		for i := range packets {
			m.Observe(&packets[i], f.domain, now)
		}
		sent += len(packets)
		f.packets += len(packets)
	}
}

// packetsOf returns the packets of the flood about one connection.
func (f *flood) packetsOf(c *connection) []rocev2.Packet {
	answered := func(n uint32) (packets []rocev2.Packet) {
		for i := range n {
			packets = append(packets, c.request(i), c.ack(i))
		}
		return packets
	}
	switch f.kind {
	case floodExchanges:
		return []rocev2.Packet{c.req(), c.rep()}
	case floodBegun:
		return []rocev2.Packet{c.req(), c.rep(), c.request(0)}
	case floodAnswered:
		return answered(4)
	case floodUnfinished:
		return answered(2)
	case floodRequests:
		return []rocev2.Packet{c.request(0)}
	case floodREQs:
		return []rocev2.Packet{c.req()}
	}
	datagram := packet(c.A, c.B, bth.UDSendOnly, c.b, 1)
	datagram.BTH.DETH = bth.DETH{QKey: 1, SrcQP: c.a}
	return []rocev2.Packet{datagram}
}

// honest returns connection number n of a domain without forged packets.
func honest(n uint32, transport uint8) *connection {
	c := live()
	c.transport, c.a, c.b, c.commA, c.commB = transport, c.a+n, c.b+n, c.commA+n, c.commB+n
	c.psnA, c.psnB = (c.psnA+n<<16)&0xFFFFFF, (c.psnB+n<<16)&0xFFFFFF
	return c
}

// A flood of one domain, or in the same domain from one host, that is three times as large as the tables and goes on
// at half of their size each second, costs the others no connection: known ones stay known, and new ones are learned.
func TestFloodedTables(t *testing.T) {
	const size, perStep = 1 << 13, 1 << 13 / 2 / 100 // a hundred steps of 10 ms
	for _, from := range []struct {
		name   string
		domain uint32
	}{{"another domain", 2}, {"one host of the domain", 1}} {
		for kind, name := range floodNames {
			t.Run(from.name+", "+name, func(t *testing.T) {
				m := qpmap.New(qpmap.Config{MaxPairs: size, MaxPending: size / 8, MaxOpen: size, Seed: 1})
				f := flood{kind: floodKind(kind), domain: from.domain, address: toTwo,
					random: rand.New(rand.NewPCG(1, 2))}
				now := start
				observe := func(packets ...rocev2.Packet) {
					for i := range packets {
						m.Observe(&packets[i], 1, now)
					}
				}
				step := func() {
					now = now.Add(10 * time.Millisecond)
					f.send(m, perStep, now)
				}
				announced := honest(100, cm.TransportTypeUC) // has no data until the end
				before := honest(101, cm.TransportTypeRC)
				observe(announced.req(), announced.rep(), before.req(), before.rep(), before.request(0), before.ack(0))
				f.send(m, 3*size, now)
				for n := range uint32(wiretest.Rounds(30)) {
					c, withCM := honest(n, cm.TransportTypeRC), n%3 != 0
					if n%3 == 1 {
						c.transport = cm.TransportTypeUC
					}
					if withCM {
						observe(c.req())
						step()
						observe(c.rep())
					}
					for i := range uint32(4) {
						step()
						observe(c.request(i))
						step()
						if n%3 != 1 {
							observe(c.ack(i))
						}
					}
					observe(c.request(4))
					requireDomain(t, m, c, now)
				}
				observe(announced.request(0), before.request(1))
				requireDomain(t, m, announced, now)
				requireDomain(t, m, before, now)
				t.Log(f.packets, m.Stats())
			})
		}
	}
}

// requireDomain requires that the sender of the last request of a connection in domain 1 is known.
func requireDomain(t *testing.T, m *qpmap.Map, c *connection, now time.Time) {
	t.Helper()
	got, err := m.SourceQP(qpmap.Key{FlowKey: c.forth(), Domain: 1}, now)
	require.NoError(t, err, "%+v", m.Stats())
	require.Equal(t, c.a, got.SrcQP)
}

// 33,000 exchanges in the name of any hosts, also those of the connections, evict none of the pairs announced before,
// though these have had no data, and a pair that is announced in the meantime stays for the next 16,000.
func TestForgedExchangesKeepAnnounced(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, row := range []struct {
		name    string
		address func(n uint32) netip.Addr
	}{
		{"the hosts of the connections", func(uint32) netip.Addr { return live().A }},
		{"many hosts", func(uint32) netip.Addr { return randomAddr(r) }},
	} {
		t.Run(row.name, func(t *testing.T) {
			m := qpmap.New(qpmap.Config{Seed: 1})
			f := flood{kind: floodExchanges, domain: 1, random: r, address: row.address}
			now := start
			announce := func(n uint32) *connection {
				c := honest(n, cm.TransportTypeUC)
				req, rep := c.req(), c.rep()
				m.Observe(&req, 1, now)
				m.Observe(&rep, 1, now)
				return c
			}
			requireBegins := func(c *connection) {
				t.Helper()
				p := c.request(0)
				m.Observe(&p, 1, now)
				requireDomain(t, m, c, now)
			}
			var before []*connection
			for n := range uint32(100) {
				before = append(before, announce(n))
			}
			f.send(m, 2*33_000, now)
			during := announce(200)
			f.send(m, 2*16_000, now)
			requireBegins(during)
			for _, c := range before {
				requireBegins(c)
			}
			require.NotZero(t, m.Stats().Evicted)
		})
	}
}

// Datagrams to ever new queue pairs, from a host with more than its share, evict no announced pair of a server with
// many clients.
func TestFloodOfDatagramsKeepsServer(t *testing.T) {
	const clients, size = 400, 1024 // a part of the pairs came when the table was more than half full
	m := qpmap.New(qpmap.Config{MaxPairs: size, MaxPending: size, MaxOpen: size, Seed: 1})
	client := func(n uint32) *connection {
		c := honest(n, cm.TransportTypeUC)
		at := c.A.As16()
		at[6], at[7] = byte(n>>8), byte(n)
		c.A = netip.AddrFrom16(at)
		return c
	}
	f := flood{kind: floodDatagrams, domain: 1, address: toTwo, random: rand.New(rand.NewPCG(1, 2))}
	f.send(m, size, start)
	for n := range uint32(clients) {
		req, rep := client(n).req(), client(n).rep()
		m.Observe(&req, 1, start)
		m.Observe(&rep, 1, start)
	}
	f.send(m, 20*size, start)
	for n := range uint32(clients) {
		c := client(n)
		p := c.request(0)
		m.Observe(&p, 1, start)
		requireDomain(t, m, c, start)
	}
}
