package qpmap_test

import (
	"cmp"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/cm"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

// start is when all traffic of these tests begins.
var start = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)

// sent is a packet of generated traffic.
type sent struct {
	at     time.Duration
	packet rocev2.Packet
	truth  uint32 // the sender's queue pair
	sure   bool   // the capture has it
}

// newMap returns a map of the configuration, with at most 1,024 pairs unless it has a limit. Most of the time of the
// smaller tests would go into the 43 MB of the default size.
func newMap(c qpmap.Config) *qpmap.Map {
	c.MaxPairs = cmp.Or(c.MaxPairs, 1<<10)
	return qpmap.New(c)
}

// flowOf returns the flow of a data packet or an acknowledgement.
func flowOf(p *rocev2.Packet) rocev2.FlowKey {
	return rocev2.FlowKey{Src: p.Src, Dst: p.FinalDst(), DestQP: p.BTH.DestQP}
}

// packet returns a packet with these addresses, opcode, queue pair and PSN.
func packet(src, dst netip.Addr, op bth.Opcode, destQP, psn uint32) rocev2.Packet {
	p := rocev2.Packet{Datagram: rocev2.Datagram{Src: src, Dst: dst}}
	p.BTH.Header = bth.Header{Opcode: op, PKey: 0xFFFF, DestQP: destQP, AckReq: true, PSN: psn & 0xFFFFFF}
	p.BTH.Present = op.Headers()
	return p
}

// cmPacket returns a packet that carries a CM message.
func cmPacket(src, dst netip.Addr, a cm.Attribute, m interface {
	AppendBinary([]byte) ([]byte, error)
}) rocev2.Packet {
	p := packet(src, dst, bth.UDSendOnly, cm.QP, 0)
	p.BTH.DETH = bth.DETH{QKey: cm.QKey, SrcQP: cm.QP}
	h := cm.NewHeader(a, 1)
	p.Payload, _ = h.AppendBinary(nil)
	payload, err := m.AppendBinary(p.Payload)
	if err != nil {
		panic(err)
	}
	p.Payload = payload
	return p
}

// A connection joins queue pair a at host A with b at host B.
type connection struct {
	A, B         netip.Addr
	a, b         uint32
	psnA, psnB   uint32 // the first that A sends, and B
	commA, commB uint32
	transport    uint8
	mtu          uint8 // code of the REQ
}

func (c *connection) req() rocev2.Packet {
	return cmPacket(c.A, c.B, cm.AttributeREQ, &cm.REQ{
		LocalCommID: c.commA, LocalQPN: c.a, StartingPSN: c.psnB, PKey: 0xFFFF, PathMTU: c.mtu,
		TransportType: c.transport,
		Primary:       cm.Path{LocalGID: c.A, RemoteGID: c.B},
	})
}

func (c *connection) rep() rocev2.Packet {
	return cmPacket(c.B, c.A, cm.AttributeREP,
		&cm.REP{LocalCommID: c.commB, RemoteCommID: c.commA, LocalQPN: c.b, StartingPSN: c.psnA})
}

func (c *connection) rtu() rocev2.Packet {
	return cmPacket(c.A, c.B, cm.AttributeRTU, &cm.RTU{LocalCommID: c.commA, RemoteCommID: c.commB})
}

func (c *connection) dreq() rocev2.Packet {
	return cmPacket(c.A, c.B, cm.AttributeDREQ, &cm.DREQ{LocalCommID: c.commA, RemoteCommID: c.commB, RemoteQPN: c.b})
}

func (c *connection) drep() rocev2.Packet {
	return cmPacket(c.B, c.A, cm.AttributeDREP, &cm.DREP{LocalCommID: c.commB, RemoteCommID: c.commA})
}

func (c *connection) rej() rocev2.Packet {
	return cmPacket(c.B, c.A, cm.AttributeREJ,
		&cm.REJ{LocalCommID: c.commB, RemoteCommID: c.commA, Reason: cm.RejectConsumer})
}

// forth is the key of the packets that A sends, back of those that B sends.
func (c *connection) forth() rocev2.FlowKey { return rocev2.FlowKey{Src: c.A, Dst: c.B, DestQP: c.b} }
func (c *connection) back() rocev2.FlowKey  { return rocev2.FlowKey{Src: c.B, Dst: c.A, DestQP: c.a} }

// request returns a request from A, and the answer to it; n counts both from 0.
func (c *connection) request(n uint32) rocev2.Packet {
	op := bth.RCSendOnly
	if c.transport == cm.TransportTypeUC {
		op = bth.UCSendOnly
	}
	return packet(c.A, c.B, op, c.b, c.psnA+n)
}

func (c *connection) ack(n uint32) rocev2.Packet {
	return packet(c.B, c.A, bth.RCAcknowledge, c.a, c.psnA+n)
}

// turned is the same connection seen from B.
func (c *connection) turned() *connection {
	return &connection{A: c.B, B: c.A, a: c.b, b: c.a, psnA: c.psnB, psnB: c.psnA, commA: c.commB, commB: c.commA,
		transport: c.transport, mtu: c.mtu}
}

// generate returns the traffic of many connections between a few hosts that reuse their queue
// pairs. With someCM some connections have CM; with samePSN these may begin with the same PSN as
// others.
func generate(r *rand.Rand, connections int, someCM, samePSN bool) []sent {
	hosts := []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2"),
		netip.MustParseAddr("10.0.0.3")}
	type queuePair struct {
		host, qp int
	}
	free := map[queuePair]time.Duration{} // from when on
	begun := map[[2]int][]uint32{}        // the first PSNs from a host to another
	pick := func(host int) (queuePair, time.Duration) {
		best := queuePair{host, 2 + r.IntN(6)}
		return best, free[best]
	}
	var all []*sent // to be sorted: packets are large
	for range connections {
		A := r.IntN(len(hosts))
		B := (A + 1 + r.IntN(len(hosts)-1)) % len(hosts)
		qa, fa := pick(A)
		qb, fb := pick(B)
		at := max(fa, fb) + time.Duration(1+r.IntN(2000))*time.Millisecond
		if r.IntN(3) == 0 {
			at = max(fa, fb) + time.Duration(1+r.IntN(30))*time.Millisecond
		}
		c := &connection{
			A: hosts[A], B: hosts[B], a: uint32(qa.qp), b: uint32(qb.qp), psnA: r.Uint32() & 0xFFFFFF,
			psnB:  r.Uint32() & 0xFFFFFF,
			commA: r.Uint32(), commB: r.Uint32(), mtu: uint8(1 + r.IntN(5)),
		}
		withCM := someCM && r.IntN(2) == 0
		if withCM && r.IntN(4) == 0 {
			c.transport = cm.TransportTypeUC
		}
		// Lifetimes that CM shows may begin anywhere, including the same PSN for many. A lifetime without
		// CM can be recognized only if it begins at other PSNs than those that the same hosts have
		// sent each other.
		same := withCM && r.IntN(2) == 0 && samePSN
		if same {
			c.psnA, c.psnB = 1000, 1000
		} else {
			c.psnA = apart(r, c.psnA, begun[[2]int{A, B}])
			c.psnB = apart(r, c.psnB, begun[[2]int{B, A}])
		}
		put := func(d time.Duration, p rocev2.Packet, truth uint32) {
			all = append(all, &sent{at: at + d, packet: p, truth: truth, sure: same && truth == cm.QP})
		}
		rtt := time.Duration(10+r.IntN(20000)) * time.Microsecond
		if withCM {
			put(0, c.req(), cm.QP)
			if r.IntN(3) == 0 {
				put(rtt/3, c.req(), cm.QP)
			}
			put(rtt, c.rep(), cm.QP)
			if r.IntN(3) == 0 {
				put(rtt+rtt/3, c.rep(), cm.QP)
			}
			put(2*rtt, c.rtu(), cm.QP)
		}
		at += 3 * rtt
		var end time.Duration
		for side := range 2 {
			s := c
			if side == 1 {
				s = c.turned()
			}
			end = max(end, exchangeRequests(r, s, rtt, put))
		}
		begun[[2]int{A, B}] = append(begun[[2]int{A, B}], c.psnA)
		begun[[2]int{B, A}] = append(begun[[2]int{B, A}], c.psnB)
		at += end
		if withCM && r.IntN(3) > 0 {
			put(rtt, c.dreq(), cm.QP)
			put(2*rtt, c.drep(), cm.QP)
		}
		free[qa], free[qb] = at+3*rtt, at+3*rtt
	}
	slices.SortStableFunc(all, func(a, b *sent) int { return cmp.Compare(a.at, b.at) })
	sorted := make([]sent, len(all))
	for i, s := range all {
		sorted[i] = *s
	}
	return sorted
}

// apart returns the PSN or, where a connection has begun near it, another one.
func apart(r *rand.Rand, psn uint32, begun []uint32) uint32 {
	const near = 3000 // farther than a lifetime goes
	for slices.ContainsFunc(begun, func(b uint32) bool { return (psn-b+near)&0xFFFFFF <= 2*near }) {
		psn = r.Uint32() & 0xFFFFFF
	}
	return psn
}

// exchangeRequests puts the requests that A sends, and the responses to them, and returns the time
// that this takes.
func exchangeRequests(r *rand.Rand, c *connection, rtt time.Duration,
	put func(time.Duration, rocev2.Packet, uint32)) time.Duration {
	mtu := uint32(128) << c.mtu
	var at time.Duration
	psn := uint32(0)
	for range r.IntN(25) {
		at += time.Duration(r.IntN(2000)) * time.Microsecond
		switch {
		case c.transport == cm.TransportTypeUC:
			put(at, c.request(psn), c.a)
			psn++
		case r.IntN(6) == 0: // READ
			n := uint32(1 + r.IntN(5))
			p := packet(c.A, c.B, bth.RCRDMAReadRequest, c.b, c.psnA+psn)
			p.BTH.RETH.DMALength = n*mtu - uint32(r.IntN(int(mtu)))
			put(at, p, c.a)
			for i := range n {
				op := bth.RCRDMAReadResponseMiddle
				switch {
				case n == 1:
					op = bth.RCRDMAReadResponseOnly
				case i == 0:
					op = bth.RCRDMAReadResponseFirst
				case i == n-1:
					op = bth.RCRDMAReadResponseLast
				}
				put(at+rtt+time.Duration(i), packet(c.B, c.A, op, c.a, c.psnA+psn+i), c.b)
			}
			psn += n
		default: // a message of some packets, acknowledged at its end
			n := uint32(1 + r.IntN(4))
			for i := range n {
				p := c.request(psn + i)
				p.BTH.AckReq = i == n-1 && r.IntN(2) == 0
				put(at+time.Duration(i), p, c.a)
			}
			psn += n
			if r.IntN(4) > 0 {
				put(at+rtt+time.Duration(n), c.ack(psn-1), c.b)
			}
			if r.IntN(20) == 0 { // the last one again
				put(at+2*rtt, c.request(psn-1), c.a)
				put(at+3*rtt, c.ack(psn-1), c.b)
			}
		}
	}
	return at + 3*rtt
}

// impair returns the packets of the traffic that an imperfect capture contains.
func impair(r *rand.Rand, all []sent) []sent {
	lossForth, lossBack := r.Float64()*0.5, r.Float64()*0.5
	if r.IntN(3) == 0 {
		lossForth, lossBack = 0, 0
	}
	if r.IntN(8) == 0 {
		lossBack = 1 // one direction only
	}
	exchange := r.Float64() * 0.1
	seen := make([]sent, 0, len(all))
	for _, s := range all {
		loss := lossForth
		if s.packet.Src.Compare(s.packet.Dst) > 0 {
			loss = lossBack
		}
		if !s.sure && r.Float64() < loss {
			continue
		}
		seen = append(seen, s)
		if n := len(seen); n > 1 && !seen[n-1].sure && !seen[n-2].sure && r.Float64() < exchange {
			seen[n-1], seen[n-2] = seen[n-2], seen[n-1]
		}
	}
	return seen
}

// In generated traffic, of which the truth is known, no answer is ever wrong.
func TestNeverAWrongPair(t *testing.T) {
	var answers, questions int
	for seed := range uint64(wiretest.Rounds(200)) {
		r := rand.New(rand.NewPCG(seed, 11))
		all := impair(r, generate(r, 60, seed%3 > 0, true))
		m := qpmap.New(qpmap.Config{MaxPairs: 512, MaxPending: 256, MaxOpen: 1024})
		for i, s := range all {
			now := start.Add(s.at)
			if s.packet.BTH.DestQP == cm.QP && r.IntN(4) == 0 {
				forge(r, m, all[r.IntN(len(all))].packet, now)
			}
			m.Observe(&s.packet, 0, now)
			if s.packet.BTH.DestQP == cm.QP {
				continue
			}
			questions++
			got, err := m.SourceQP(qpmap.Key{FlowKey: flowOf(&s.packet)}, now)
			if err == nil {
				answers++
				require.Equal(t, s.truth, got.SrcQP, "seed %d, packet %d: %v %v, from %v", seed, i, flowOf(&s.packet),
					s.packet.BTH.Header, got.From)
			}
		}
	}
	t.Logf("%d answers to %d questions", answers, questions)
	require.Greater(t, answers, questions/4)
}

// forge sends CM messages that someone else makes up about the flow of a packet.
func forge(r *rand.Rand, m *qpmap.Map, about rocev2.Packet, now time.Time) {
	c := &connection{
		A: about.Src, B: about.Dst, a: 2 + r.Uint32N(6), b: about.BTH.DestQP, psnA: r.Uint32() & 0xFFFFFF,
		psnB:  r.Uint32() & 0xFFFFFF,
		commA: r.Uint32(), commB: r.Uint32(), mtu: 3,
	}
	for _, p := range []rocev2.Packet{c.req(), c.rej(), c.dreq(), c.drep(), c.turned().req()}[:1+r.IntN(5)] {
		m.Observe(&p, 0, now)
	}
}

// Where nothing is lost, every flow that has been answered three times is known.
func TestEverythingIsLearned(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 12))
		m := newMap(qpmap.Config{})
		var c *connection
		for n := range 50 {
			c = &connection{
				A: netip.AddrFrom4([4]byte{10, 0, 0, byte(n)}), B: netip.AddrFrom4([4]byte{10, 0, 1, byte(n)}),
				a: 2 + r.Uint32N(1<<24-2), b: 2 + r.Uint32N(1<<24-2), psnA: r.Uint32(), psnB: r.Uint32(), mtu: 3,
			}
			for _, s := range []*connection{c, c.turned()} {
				for i := range uint32(4) {
					observe(m, start, s.request(i), s.ack(i))
				}
			}
			requirePair(t, m, c.forth(), c.a, qpmap.BasisVotes)
			requirePair(t, m, c.back(), c.b, qpmap.BasisVotes)
		}
		require.Equal(t, qpmap.Stats{Pairs: 100, Votes: 100}, m.Stats())
	}
}
