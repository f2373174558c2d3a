package qpmap_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/cm"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

// A scenario is the traffic of one or more connections, as a simulation of the hosts makes it: the truth about each
// packet does not come from the map.
type scenario struct {
	name      string
	transport uint8
	withCM    bool
	reads     bool // the requests are READs
	both      bool // both ends send requests
	oneWay    bool // the capture has only the packets of A
	lockstep  bool // a second connection between the hosts uses the same PSNs at the same time
	reused    bool // after the pause the receiver's queue pair has another connection, without a DREQ
}

// scenarios are the connections that forged packets are searched against.
var scenarios = []scenario{
	{name: "RC, CM", withCM: true},
	{name: "RC, CM, READ", withCM: true, reads: true},
	{name: "RC, CM, both ways", withCM: true, both: true},
	{name: "RC, CM, one direction captured", withCM: true, oneWay: true},
	{name: "RC, CM, lockstep", withCM: true, lockstep: true},
	{name: "RC"},
	{name: "RC, READ", reads: true},
	{name: "RC, both ways", both: true},
	{name: "UC, CM", withCM: true, transport: cm.TransportTypeUC},
	{name: "UC, CM, both ways", withCM: true, transport: cm.TransportTypeUC, both: true},
	{name: "RC, CM, reused", withCM: true, reused: true},
	{name: "RC, reused", reused: true},
	{name: "UC, CM, reused", withCM: true, transport: cm.TransportTypeUC, reused: true},
}

// moments are the points of a scenario at which packets are forged.
var moments = []string{"before", "connected", "first", "young", "busy", "pause"}

// A simulation makes the packets of a scenario.
type simulation struct {
	*scenario
	connections []*connection
	now         time.Duration
	all         []sent
	at          map[string]int // index of the packet before which each moment is
}

// simulate returns the packets of a scenario.
func (p *scenario) simulate() *simulation {
	first := live()
	first.transport = p.transport
	s := &simulation{scenario: p, connections: []*connection{first}, at: map[string]int{}}
	if p.lockstep {
		other := *first
		other.a, other.b, other.commA, other.commB = first.a+1, first.b+1, first.commA+1, first.commB+1
		s.connections = append(s.connections, &other)
	}
	s.at["before"] = 0
	s.connect()
	for n := range uint32(100) {
		switch n {
		case 1:
			s.at["first"] = len(s.all)
		case 5:
			s.at["young"] = len(s.all)
		case 40:
			s.at["busy"] = len(s.all)
		case 70:
			s.now += 2500 * time.Millisecond
			s.at["pause"] = len(s.all)
			if p.reused {
				next := *first
				next.a, next.psnA, next.psnB = first.a+7, first.psnA+0x300000, first.psnB+0x300000
				next.commA, next.commB = first.commA+7, first.commB+7
				s.connections[0] = &next
				s.connect()
			}
		}
		s.exchange(n)
	}
	return s
}

// connect adds the CM messages of the connections.
func (s *simulation) connect() {
	for _, c := range s.connections {
		if s.withCM {
			s.add(c.req(), cm.QP)
			s.add(c.rep(), cm.QP)
			s.add(c.rtu(), cm.QP)
		}
	}
	s.now += time.Millisecond
	if _, ok := s.at["connected"]; !ok {
		s.at["connected"] = len(s.all)
	}
}

// add adds a packet, if the capture has it, and the queue pair that sent it.
func (s *simulation) add(packet rocev2.Packet, srcQP uint32) {
	if s.oneWay && packet.Src == live().B && srcQP != cm.QP {
		return
	}
	s.all = append(s.all, sent{at: s.now, packet: packet, truth: srcQP})
	s.now += 10 * time.Microsecond
}

// exchange adds the n-th request of each connection, and the answer to it.
func (s *simulation) exchange(n uint32) {
	each := func(add func(c *connection)) {
		for _, c := range s.connections {
			add(c)
			if s.both {
				add(c.turned())
			}
		}
	}
	each(func(c *connection) {
		if s.reads {
			s.add(c.read(2*n, 2048), c.a)
		} else {
			s.add(c.request(n), c.a)
		}
	})
	s.now += 100 * time.Microsecond
	each(func(c *connection) {
		switch {
		case s.reads:
			s.add(packet(c.B, c.A, bth.RCRDMAReadResponseFirst, c.a, c.psnA+2*n), c.b)
			s.add(packet(c.B, c.A, bth.RCRDMAReadResponseLast, c.a, c.psnA+2*n+1), c.b)
		case s.transport != cm.TransportTypeUC:
			s.add(c.ack(n), c.b)
		}
	})
	s.now += time.Millisecond
}

// A forgery is a kind of forged packets: one, or the two of a CM exchange. r guesses PSNs and communication ids.
type forgery struct {
	name    string
	packets func(r *rand.Rand, transport uint8) []rocev2.Packet
}

// guess returns a PSN that a forger guesses, and wrongly: a guess in the window of PSNs, which is right once in 7,944
// times, is as good as knowing them.
func guess(r *rand.Rand, used uint32) uint32 {
	for {
		psn := r.Uint32() & 0xFFFFFF
		wrong := true
		for _, first := range []uint32{used, used + 0x300000} { // of the first connection, and the next one
			wrong = wrong && (psn-first+2*2048)&0xFFFFFF > 4*2048
		}
		if wrong {
			return psn
		}
	}
}

// forgeries are all kinds of packets that a forger can send about a connection of which it knows addresses and queue
// pairs.
func forgeries() (all []forgery) {
	add := func(name string, make func(c *connection, r *rand.Rand) []rocev2.Packet) {
		for _, turned := range []bool{false, true} {
			all = append(all, forgery{fmt.Sprintf("%s, turned %v", name, turned),
				func(r *rand.Rand, transport uint8) []rocev2.Packet {
					c := live()
					c.transport = transport
					c.psnA, c.psnB = guess(r, c.psnA), guess(r, c.psnB)
					c.commA, c.commB = r.Uint32(), r.Uint32()
					if turned {
						c = c.turned()
					}
					return make(c, r)
				}})
		}
	}
	one := func(f func(c *connection) rocev2.Packet) func(*connection, *rand.Rand) []rocev2.Packet {
		return func(c *connection, _ *rand.Rand) []rocev2.Packet { return []rocev2.Packet{f(c)} }
	}
	add("request", one(func(c *connection) rocev2.Packet { return c.request(0) }))
	add("READ", one(func(c *connection) rocev2.Packet { return c.read(0, 1<<31) }))
	add("answer", one(func(c *connection) rocev2.Packet { return c.ack(0) }))
	add("NAK", one(func(c *connection) rocev2.Packet {
		p := c.ack(0)
		p.BTH.AETH.Syndrome = 0x60
		return p
	}))
	add("READ response", one(func(c *connection) rocev2.Packet {
		return packet(c.B, c.A, bth.RCRDMAReadResponseMiddle, c.a, c.psnA)
	}))
	add("UC request", one(func(c *connection) rocev2.Packet {
		return packet(c.A, c.B, bth.UCSendOnly, c.b, c.psnA)
	}))
	add("datagram", one(func(c *connection) rocev2.Packet {
		p := packet(c.A, c.B, bth.UDSendOnly, c.b, c.psnA)
		p.BTH.DETH = bth.DETH{QKey: 1, SrcQP: 0x66}
		return p
	}))
	add("REQ", one(func(c *connection) rocev2.Packet { return c.req() }))
	add("REP", one(func(c *connection) rocev2.Packet { return c.rep() }))
	add("DREQ", one(func(c *connection) rocev2.Packet { return c.dreq() }))
	add("REJ", one(func(c *connection) rocev2.Packet { return c.rej() }))
	add("REQ and REP", func(c *connection, _ *rand.Rand) []rocev2.Packet {
		return []rocev2.Packet{c.req(), c.rep()}
	})
	add("REQ and REP of another sender", func(c *connection, _ *rand.Rand) []rocev2.Packet {
		c.a = 0x66
		return []rocev2.Packet{c.req(), c.rep()}
	})
	add("REQ, REP and request", func(c *connection, _ *rand.Rand) []rocev2.Packet {
		return []rocev2.Packet{c.req(), c.rep(), c.request(0)}
	})
	add("REQ, REP and request of another sender", func(c *connection, _ *rand.Rand) []rocev2.Packet {
		c.a = 0x66
		return []rocev2.Packet{c.req(), c.rep(), c.request(0)}
	})
	return all
}

// A step is packets that are forged just before a packet of a scenario.
type step struct {
	before  int
	packets []rocev2.Packet
}

// forgedPackets returns the number of packets of some steps.
func forgedPackets(steps []step) (n int) {
	for _, f := range steps {
		n += len(f.packets)
	}
	return n
}

// The questions that a map is asked about each packet of a scenario.
const (
	ofFlow     = iota // by a receiver or ingress PE: the sender of the packet's flow
	ofPacket          // by a proxy: the sender of the packet
	ofReceiver        // by a sender: whether the packet's receiver is connected with it
	questions
)

// An outcome has which questions were answered, for each packet, and the number of wrong answers.
type outcome struct {
	known [][questions]bool
	wrong int
}

// play shows the packets and the forged ones to a map, and asks the questions. The truth is that of the simulation.
func (s *simulation) play(steps ...step) (o outcome) {
	m := qpmap.New(qpmap.Config{MaxPairs: 64, MaxPending: 64, MaxOpen: 64, Seed: 1})
	for i := range s.all {
		p, now := &s.all[i], start.Add(s.all[i].at)
		for _, f := range steps {
			if f.before == i {
				observe(m, now.Add(-time.Microsecond), f.packets...)
			}
		}
		m.Observe(&p.packet, 0, now)
		k := qpmap.Key{FlowKey: flowOf(&p.packet)}
		if k.DestQP == cm.QP {
			continue
		}
		flow, errFlow := m.SourceQP(k, now)
		of, errOf := m.SourceQPOf(k, &p.packet.BTH.Header, now)
		if errFlow == nil && flow.SrcQP != p.truth || errOf == nil && of.SrcQP != p.truth {
			o.wrong++
		}
		back := qpmap.Key{FlowKey: rocev2.FlowKey{Src: k.Dst, Dst: k.Src, DestQP: p.truth}}
		o.known = append(o.known, [questions]bool{errFlow == nil, errOf == nil, m.Connects(back, now) == nil})
	}
	return o
}

// lost returns the largest number of answers to one of the questions that forged packets cost.
func (o *outcome) lost(without *outcome) (most int) {
	for q := range questions {
		n := 0
		for i := range o.known {
			if without.known[i][q] && !o.known[i][q] {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

// All kinds of forged packets, and all pairs of kinds, at all moments of all scenarios: each forged packet costs at
// most three answers of the map, and no answer is wrong. Only a long run tries each pair at each moment of each
// scenario; another one tries it at a fifth of them, or a tenth in a short run.
func TestForgedOneOrTwo(t *testing.T) {
	wiretest.Alone(t)
	all := forgeries()
	every := 5
	switch {
	case wiretest.Long():
		every = 1
	case testing.Short():
		every = 10
	}
	for nth, p := range scenarios {
		t.Run(p.name, func(t *testing.T) {
			s := p.simulate()
			without := s.play()
			require.Zero(t, without.wrong)
			for m, moment := range moments {
				for i, first := range all {
					for j := -1; j < len(all); j++ {
						r := rand.New(rand.NewPCG(uint64(i), uint64(j+1)))
						packets, name := first.packets(r, p.transport), first.name
						if j >= 0 {
							if (nth+m+i+j)%every != 0 {
								continue
							}
							packets = append(packets, all[j].packets(r, p.transport)...)
							name += ", then " + all[j].name
						}
						s.requireFew(t, &without, moment+": "+name, step{s.at[moment], packets})
					}
				}
			}
		})
	}
}

// requireFew requires that the forged packets of some steps cost few answers, and no answer is wrong.
func (s *simulation) requireFew(t *testing.T, without *outcome, name string, steps ...step) {
	t.Helper()
	with := s.play(steps...)
	if with.wrong > 0 {
		t.Errorf("%s: %d wrong", name, with.wrong)
	}
	if lost, most := with.lost(without), 3*forgedPackets(steps); lost > most {
		t.Errorf("%s: %d lost, %d allowed", name, lost, most)
	}
}

// Two to six steps of any kinds at any packets of the scenarios.
func TestForgedAtRandomPackets(t *testing.T) {
	all := forgeries()
	r := rand.New(rand.NewPCG(49, 3))
	for _, p := range scenarios {
		t.Run(p.name, func(t *testing.T) {
			s := p.simulate()
			without := s.play()
			for range max(wiretest.Rounds(300), 60) {
				var steps []step
				name := ""
				for range 2 + r.IntN(5) {
					f := all[r.IntN(len(all))]
					at := r.IntN(len(s.all))
					if r.IntN(2) == 0 {
						at = s.at[moments[r.IntN(len(moments))]]
					}
					steps = append(steps, step{at, f.packets(r, p.transport)})
					name += fmt.Sprintf("%d %s; ", at, f.name)
				}
				s.requireFew(t, &without, name, steps...)
			}
		})
	}
}

// Neither the pairs that come beside others nor those that take their places cost memory, and they stay within the
// table.
func TestForgedInSmallTables(t *testing.T) {
	wiretest.Alone(t)
	all := forgeries()
	for _, size := range []int{2, 3, 4, 6, 64} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			r := rand.New(rand.NewPCG(49, uint64(size)))
			var packets []rocev2.Packet
			for _, p := range scenarios {
				s := p.simulate()
				for i := range s.all {
					packets = append(packets, s.all[i].packet)
					if i%5 == 0 {
						packets = append(packets, all[r.IntN(len(all))].packets(r, p.transport)...)
					}
				}
			}
			m, now := qpmap.New(qpmap.Config{MaxPairs: size, MaxPending: 64, MaxOpen: 64}), start
			wiretest.NoAllocs(t, "Observe", func() {
				for i := range packets {
					now = now.Add(time.Duration(i%50) * time.Millisecond)
					m.Observe(&packets[i], 0, now)
					if n := m.Stats().Pairs; n > size {
						panic(n)
					}
				}
			})
			m.Expire(now.Add(time.Hour))
			require.Zero(t, m.Stats().Pairs)
		})
	}
}
