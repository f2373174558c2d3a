package qpmap_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/cm"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
)

// observe hands packets to a Map.
func observe(m *qpmap.Map, now time.Time, packets ...rocev2.Packet) {
	for i := range packets {
		m.Observe(&packets[i], 0, now)
	}
}

func requirePair(t testing.TB, m *qpmap.Map, k rocev2.FlowKey, srcQP uint32, from qpmap.Basis) {
	t.Helper()
	got, err := m.SourceQP(qpmap.Key{FlowKey: k}, start)
	require.NoError(t, err, "%v", k)
	require.Equal(t, srcQP, got.SrcQP, "%v", k)
	require.Equal(t, from, got.From, "%v", k)
}

func requireNone(t testing.TB, m *qpmap.Map, k rocev2.FlowKey, want error) {
	t.Helper()
	_, err := m.SourceQP(qpmap.Key{FlowKey: k}, start)
	require.ErrorIs(t, err, want, "%v", k)
}

// live is a connection that the tests attack.
func live() *connection {
	return &connection{
		A: netip.MustParseAddr("2001:db8::a"), B: netip.MustParseAddr("2001:db8::b"), a: 0x21, b: 0x31,
		psnA: 0x123456, psnB: 0xABCDEF, commA: 0xAAAA0001, commB: 0xBBBB0001, mtu: 3,
	}
}

// established is a Map that knows the connection from CM, and has seen some data
// of it, answered or not.
func established(c *connection, acks bool) *qpmap.Map {
	m := newMap(qpmap.Config{})
	observe(m, start, c.req(), c.rep(), c.rtu())
	for n := range uint32(3) {
		observe(m, start, c.request(n))
		if acks {
			observe(m, start, c.ack(n))
		}
	}
	return m
}

func TestForgedCMChangesNoLivePair(t *testing.T) {
	for _, transport := range []uint8{cm.TransportTypeRC, cm.TransportTypeUC} {
		c := live()
		c.transport = transport
		forged := *c
		forged.a, forged.commA, forged.commB, forged.psnA, forged.psnB = 0x66, 6, 66, 0x666666, 0x777777
		other := *c
		other.b, other.commA, other.commB, other.psnA, other.psnB = 0x67, 7, 77, 0x666666, 0x777777
		elsewhere := *c
		elsewhere.A = netip.MustParseAddr("2001:db8::c")
		named := forged // with the right queue pairs, and a DREQ to follow
		named.a = c.a
		for _, row := range []struct {
			name    string
			packets []rocev2.Packet
		}{
			{"a REQ alone", []rocev2.Packet{forged.req()}},
			{"REQs from either side", []rocev2.Packet{forged.req(), forged.turned().req()}},
			{"a REP alone", []rocev2.Packet{forged.rep()}},
			{"a REP of another address", []rocev2.Packet{forged.req(), elsewhere.rep()}},
			{"a REP of the requester", []rocev2.Packet{forged.req(),
				cmPacket(c.A, c.B, cm.AttributeREP, &cm.REP{LocalCommID: 66, RemoteCommID: 6, LocalQPN: 0x66})}},
			{"both, for the receiver", []rocev2.Packet{forged.req(), forged.rep(), forged.rtu()}},
			{"both, for the sender", []rocev2.Packet{other.req(), other.rep(), other.rtu()}},
			{"both, and their DREQ", []rocev2.Packet{forged.req(), forged.rep(), forged.dreq(), forged.drep()}},
			{"both, with the right queue pairs", []rocev2.Packet{named.req(), named.rep(), named.dreq(), named.drep()}},
			{"both, the other way", []rocev2.Packet{forged.turned().req(), forged.turned().rep()}},
			{"DREQ with other ids", []rocev2.Packet{forged.dreq(), forged.turned().dreq()}},
			{"DREQ with other addresses", []rocev2.Packet{elsewhere.dreq(), elsewhere.turned().dreq()}},
			{"DREP and REJ with other ids", []rocev2.Packet{forged.drep(), forged.rej(), forged.turned().rej()}},
			{"DREP and REJ with other addresses", []rocev2.Packet{elsewhere.drep(), elsewhere.rej()}},
			{"a second REP", []rocev2.Packet{c.req(), cmPacket(c.B, c.A, cm.AttributeREP, &cm.REP{
				LocalCommID: 66, RemoteCommID: c.commA, LocalQPN: 0x66, StartingPSN: 1,
			})}},
		} {
			t.Run(bth.Transport(transport).String()+" "+row.name, func(t *testing.T) {
				m := established(c, transport == cm.TransportTypeRC)
				observe(m, start, row.packets...)
				requirePair(t, m, c.forth(), c.a, qpmap.BasisCM)
				requirePair(t, m, c.back(), c.b, qpmap.BasisCM)
				for n := range uint32(200) { // nor do the forged messages take effect later
					observe(m, start.Add(time.Duration(n)*time.Millisecond), c.request(3+n))
					requirePair(t, m, c.forth(), c.a, qpmap.BasisCM)
				}
				observe(m, start, c.dreq()) // and the pair still ends when it should
				requireNone(t, m, c.forth(), qpmap.ErrUnknown)
				requireNone(t, m, c.back(), qpmap.ErrUnknown)
			})
		}
	}
}

// Votes make pairs that CM must not displace either.
func TestForgedCMChangesNoVotedPair(t *testing.T) {
	c := live()
	m := newMap(qpmap.Config{})
	for n := range uint32(5) {
		observe(m, start, c.request(n), c.ack(n))
	}
	requirePair(t, m, c.forth(), c.a, qpmap.BasisVotes)
	forged := *c
	forged.a, forged.psnA = 0x66, 0x666666
	observe(m, start, forged.req(), forged.rep())
	requirePair(t, m, c.forth(), c.a, qpmap.BasisVotes)
	observe(m, start, c.request(5), c.ack(5), forged.dreq(), forged.rej())
	requirePair(t, m, c.forth(), c.a, qpmap.BasisVotes)
	requirePair(t, m, c.back(), c.b, qpmap.BasisVotes)
	requireNone(t, m, forged.back(), qpmap.ErrUnknown)
}

// Data that flows already does not begin where the forger says.
func TestForgedCMNamesNoFlowUnderWay(t *testing.T) {
	c := live()
	c.transport = cm.TransportTypeUC
	m := newMap(qpmap.Config{})
	observe(m, start, c.request(0), c.request(1))
	forged := *c
	forged.a, forged.psnA = 0x66, 0x666666
	observe(m, start, forged.req(), forged.rep())
	requireNone(t, m, c.forth(), qpmap.ErrUnknown)
	observe(m, start, c.request(2))
	requireNone(t, m, c.forth(), qpmap.ErrUnknown)
}

// A pair that CM made and data contradicts is none.
func TestDataContradictsCM(t *testing.T) {
	c := live()
	m := newMap(qpmap.Config{})
	observe(m, start, c.req(), c.rep())
	requirePair(t, m, c.forth(), c.a, qpmap.BasisCM)
	real := *c
	real.a, real.psnA = 0x44, c.psnA+1<<20
	observe(m, start, real.request(0))
	requireNone(t, m, c.forth(), qpmap.ErrUnknown)
	for n := range uint32(4) {
		observe(m, start, real.request(n), real.ack(n))
	}
	requirePair(t, m, c.forth(), real.a, qpmap.BasisVotes)
	requirePair(t, m, real.back(), c.b, qpmap.BasisVotes)
	requireNone(t, m, c.back(), qpmap.ErrUnknown)
}

// Floods of forged messages, a thousand for each entry of the tables, leave the live pairs and stay within the tables.
func TestFloodOfForgedCM(t *testing.T) {
	for _, x := range []struct {
		what     string
		long     int // packets in a long run, else 100,000
		messages func(c *connection) []rocev2.Packet
	}{
		{"REQ", 1_000_000, func(c *connection) []rocev2.Packet { return []rocev2.Packet{c.req()} }},
		{"REP", 100_000, func(c *connection) []rocev2.Packet { return []rocev2.Packet{c.rep()} }},
		{"REQ, REP", 300_000, func(c *connection) []rocev2.Packet { return []rocev2.Packet{c.req(), c.rep()} }},
		{"DREQ, DREP and REJ", 100_000, func(c *connection) []rocev2.Packet {
			return []rocev2.Packet{c.dreq(), c.drep(),
				c.rej()}
		}},
	} {
		t.Run(x.what, func(t *testing.T) {
			m := qpmap.New(qpmap.Config{MaxPairs: 1000, MaxPending: 100, MaxOpen: 100})
			r := rand.New(rand.NewPCG(11, 0))
			var alive []*connection
			for n := range uint32(300) {
				c := live()
				c.a, c.b, c.psnA, c.psnB, c.commA, c.commB = 1000+n, 2000+n, r.Uint32()&0xFFFFFF, r.Uint32()&0xFFFFFF,
					n, n
				observe(m, start, c.req(), c.rep(), c.request(0), c.ack(0))
				alive = append(alive, c)
			}
			for sent := 0; sent < wiretest.RoundsOrLong(100_000, x.long); {
				c := live()
				if r.IntN(2) == 0 { // half of them between other hosts
					c.A, c.B = randomAddr(r), randomAddr(r)
				}
				c.a, c.b, c.psnA, c.commA, c.commB = 1000+r.Uint32N(300), 2000+r.Uint32N(300), r.Uint32()&0xFFFFFF,
					1000+r.Uint32(), r.Uint32()
				packets := x.messages(c)
				observe(m, start.Add(time.Duration(sent)*time.Microsecond), packets...)
				sent += len(packets)
			}
			for _, c := range alive {
				requirePair(t, m, c.forth(), c.a, qpmap.BasisCM)
				requirePair(t, m, c.back(), c.b, qpmap.BasisCM)
			}
			s := m.Stats()
			require.LessOrEqual(t, s.Pairs, 1000)
			require.LessOrEqual(t, s.Pending, 100)
			require.LessOrEqual(t, s.Open, 100)
		})
	}
}

func randomAddr(r *rand.Rand) netip.Addr {
	return netip.AddrFrom4([4]byte{172, byte(r.Uint32()), byte(r.Uint32()), byte(r.Uint32())})
}

// Flows that use the same PSNs tie: no pair, not a wrong one.
func TestTies(t *testing.T) {
	first, second := live(), live()
	second.a, second.b = 0x22, 0x32
	m := newMap(qpmap.Config{})
	for n := range uint32(5) {
		observe(m, start, first.request(n), second.request(n), first.ack(n), second.ack(n))
	}
	for _, c := range []*connection{first, second} {
		requireNone(t, m, c.forth(), qpmap.ErrAmbiguous)
		requireNone(t, m, c.back(), qpmap.ErrAmbiguous)
	}
	for n := range uint32(20) { // until one goes further than the other
		observe(m, start, first.request(5+n), first.ack(5+n))
	}
	requirePair(t, m, first.forth(), first.a, qpmap.BasisVotes)
	requirePair(t, m, first.back(), first.b, qpmap.BasisVotes)
	requireNone(t, m, second.forth(), qpmap.ErrAmbiguous)
}

// So do more flows than a set of remembered requests holds.
func TestManyTies(t *testing.T) {
	var flows []*connection
	for n := range uint32(20) {
		c := live()
		c.a, c.b = 0x100+n, 0x200+n
		flows = append(flows, c)
	}
	m := newMap(qpmap.Config{})
	for n := range uint32(30) {
		for _, c := range flows {
			observe(m, start, c.request(n))
		}
		observe(m, start, flows[0].ack(n)) // one alone is answered where it can be seen
	}
	for _, c := range flows {
		_, err := m.SourceQP(qpmap.Key{FlowKey: c.forth()}, start)
		require.Error(t, err)
	}
}

// Responses that someone makes up, with the right PSNs, tie with the real ones;
// while a pair is confirmed they do nothing.
func TestForgedResponses(t *testing.T) {
	c := live()
	forged := *c
	forged.a = 0x66
	m := newMap(qpmap.Config{})
	for n := range uint32(10) {
		observe(m, start, c.request(n), c.ack(n), forged.ack(n))
	}
	if got, err := m.SourceQP(qpmap.Key{FlowKey: c.forth()}, start); err == nil {
		require.Equal(t, c.a, got.SrcQP)
	}
	for _, m := range []*qpmap.Map{established(c, true)} {
		for n := range uint32(100) {
			observe(m, start, c.request(3+n), forged.ack(3+n), forged.ack(3+n), forged.ack(3+n), c.ack(3+n))
			requirePair(t, m, c.forth(), c.a, qpmap.BasisCM)
		}
	}
}

// A forged datagram names no sender for packets of a connection, in SourceQPOf either, and a
// connection names none for datagrams.
func TestForgedDatagram(t *testing.T) {
	c := live()
	m := newMap(qpmap.Config{})
	observe(m, start, c.request(0))
	datagram := packet(c.A, c.B, bth.UDSendOnly, c.b, 7)
	datagram.BTH.DETH = bth.DETH{QKey: 1, SrcQP: 0x66}
	observe(m, start, datagram)
	k := qpmap.Key{FlowKey: c.forth()}
	_, err := m.SourceQPOf(k, &bth.Header{Opcode: bth.RCSendOnly, PSN: c.psnA}, start)
	require.ErrorIs(t, err, qpmap.ErrUnknown)
	got := wiretest.Must(m.SourceQPOf(k, &datagram.BTH.Header, start))(t)
	require.EqualValues(t, 0x66, got.SrcQP)

	_, err = established(c, true).SourceQPOf(k, &bth.Header{Opcode: bth.UDSendOnly, PSN: c.psnA}, start)
	require.ErrorIs(t, err, qpmap.ErrUnknown)
}

// A pair without any captured request, as it was learned from the other direction, is not the
// sender of the requests given to SourceQPOf: captured requests may belong to another pair, and the
// other direction may be forged.
func TestForgedOtherDirection(t *testing.T) {
	for _, op := range []bth.Opcode{bth.RCSendOnly, bth.UCSendOnly} {
		c := live()
		m := newMap(qpmap.Config{})
		request := packet(c.A, c.B, op, c.b, c.psnA)
		observe(m, start, request)
		forged := c.turned()
		forged.b = 0x66 // of A
		for n := range uint32(5) {
			observe(m, start, forged.request(n), forged.ack(n))
		}
		k := qpmap.Key{FlowKey: c.forth()}
		_, err := m.SourceQPOf(k, &request.BTH.Header, start)
		require.ErrorIs(t, err, qpmap.ErrUnknown, op)
	}
}

// A pair that is forged after a flow's last packet, by CM messages alone or by the other direction,
// is not the sender of that packet.
func TestForgedAfterTheLastPacket(t *testing.T) {
	c := live()
	uc := *c
	uc.transport = cm.TransportTypeUC
	datagram := packet(c.A, c.B, bth.UDSendOnly, c.b, 7)
	datagram.BTH.DETH = bth.DETH{QKey: 1, SrcQP: c.a}
	forged := *c
	forged.a, forged.psnA, forged.psnB = 0x66, 0x666666, 0x777777
	back := forged.turned()
	for _, x := range []struct {
		what   string
		last   rocev2.Packet
		forged []rocev2.Packet // before it and, the last three, after it
	}{
		{"a request, CM", c.request(0), []rocev2.Packet{forged.req(), forged.rep(), forged.rtu()}},
		{"a UC request, CM", uc.request(0), []rocev2.Packet{forged.req(), forged.rep(), forged.rtu()}},
		{"a response, CM", c.turned().ack(0), []rocev2.Packet{forged.req(), forged.rep(), forged.rtu()}},
		{"a datagram, CM", datagram, []rocev2.Packet{forged.req(), forged.rep(), forged.rtu()}},
		{"a request, CM and the other direction", c.request(0),
			[]rocev2.Packet{forged.req(), forged.rep(), back.request(0)}},
		{"a response, CM and the other direction", c.turned().ack(0),
			[]rocev2.Packet{forged.req(), forged.rep(), back.request(0)}},
		{"a request, answers", c.request(0), []rocev2.Packet{
			forged.request(0), forged.request(1), forged.request(2), forged.ack(0), forged.ack(1), forged.ack(2)}},
		{"a request that a forged pair took for its own, answers", c.request(1), []rocev2.Packet{
			back.request(0), back.ack(0), back.request(1), back.ack(1), back.request(2), back.ack(2), c.request(0),
			forged.request(0), forged.request(1), forged.request(2), forged.ack(0), forged.ack(1), forged.ack(2)}},
	} {
		t.Run(x.what, func(t *testing.T) {
			m := newMap(qpmap.Config{})
			n := len(x.forged) - 3
			observe(m, start, x.forged[:n]...)
			observe(m, start, x.last)
			observe(m, start, x.forged[n:]...)
			if got, err := m.SourceQP(qpmap.Key{FlowKey: c.forth()}, start); err == nil {
				require.Equal(t, c.a, got.SrcQP)
			}
			for k, pair := range m.All() {
				require.False(t, k.FlowKey == c.forth() && pair.SrcQP != c.a, pair)
			}
			for n := range uint32(4) { // and the truth is learned all the same
				observe(m, start.Add(2*time.Second), c.request(n), c.ack(n))
			}
			got := wiretest.Must(m.SourceQP(qpmap.Key{FlowKey: c.forth()}, start.Add(2*time.Second)))(t)
			require.Equal(t, c.a, got.SrcQP)
		})
	}
}

// A stray packet hides the sender of datagrams until the next one.
func TestStrayAmongDatagrams(t *testing.T) {
	c := live()
	m := newMap(qpmap.Config{})
	datagram := packet(c.A, c.B, bth.UDSendOnly, c.b, 7)
	datagram.BTH.DETH = bth.DETH{QKey: 1, SrcQP: c.a}
	observe(m, start, datagram, c.request(0))
	requireNone(t, m, c.forth(), qpmap.ErrUnknown)
	observe(m, start, datagram)
	requirePair(t, m, c.forth(), c.a, qpmap.BasisUD)
}

// UC has no responses: the answers to other flows do not count for it.
func TestUCHasNoVotes(t *testing.T) {
	rc, uc := live(), live()
	uc.b, uc.transport = 0x32, cm.TransportTypeUC
	m := newMap(qpmap.Config{})
	for n := range uint32(10) {
		observe(m, start, uc.request(n), rc.request(n), rc.ack(n))
	}
	requirePair(t, m, rc.forth(), rc.a, qpmap.BasisVotes)
	requireNone(t, m, uc.forth(), qpmap.ErrUnknown)
}

// Only one direction is seen: no votes, no harm.
func TestOneDirection(t *testing.T) {
	c := live()
	m := newMap(qpmap.Config{})
	for n := range uint32(100) {
		observe(m, start, c.request(n))
	}
	requireNone(t, m, c.forth(), qpmap.ErrUnknown)
	m = newMap(qpmap.Config{})
	for n := range uint32(100) {
		observe(m, start, c.ack(n))
	}
	requireNone(t, m, c.forth(), qpmap.ErrUnknown)
	requireNone(t, m, c.back(), qpmap.ErrUnknown)
	require.Equal(t, qpmap.Stats{Open: 1}, m.Stats())
}

// A response later than a second after a request answers another request, unless all packets are
// seconds apart.
func TestVotesAreFresh(t *testing.T) {
	c, other := live(), live()
	other.A = netip.MustParseAddr("2001:db8::c")
	for _, quick := range []bool{true, false} {
		m := newMap(qpmap.Config{})
		for n := range uint32(10) {
			at := start.Add(time.Duration(n) * 3 * time.Second)
			observe(m, at, c.request(n))
			if quick {
				observe(m, at.Add(time.Millisecond), other.request(n))
			}
			observe(m, at.Add(1100*time.Millisecond), c.ack(n))
		}
		if quick {
			requireNone(t, m, c.forth(), qpmap.ErrUnknown)
		} else {
			_, err := m.SourceQP(qpmap.Key{FlowKey: c.forth()}, start.Add(30*time.Second))
			require.NoError(t, err)
		}
	}
}

// The same PSN again and again, as of a packet that is refused, is one vote.
func TestVotesOfOnePSN(t *testing.T) {
	c := live()
	m := newMap(qpmap.Config{})
	for range 10 {
		observe(m, start, c.request(0), c.ack(0))
	}
	requireNone(t, m, c.forth(), qpmap.ErrUnknown)
}

// A forged REQ with the communication id of another one, before the REP: neither
// is believed, and data decides.
func TestTwoREQs(t *testing.T) {
	c := live()
	forged := *c
	forged.a = 0x666
	m := newMap(qpmap.Config{})
	observe(m, start, forged.req(), c.req(), c.rep())
	for n := range uint32(24) {
		observe(m, start, c.request(n))
		if got, err := m.SourceQP(qpmap.Key{FlowKey: c.forth()}, start); err == nil {
			require.Equal(t, c.a, got.SrcQP)
		}
		observe(m, start, c.ack(n))
	}
	requirePair(t, m, c.forth(), c.a, qpmap.BasisVotes)
	requirePair(t, m, c.back(), c.b, qpmap.BasisVotes)
	requireNone(t, m, forged.back(), qpmap.ErrUnknown)
}

// Three forged packets that name a victim change nothing, also if they are repeated between every
// ten real packets: REQ, REP and a request, with and without the answer.
func TestThreeForgedPackets(t *testing.T) {
	for _, answered := range []bool{false, true} {
		c := live()
		m := established(c, true)
		r := rand.New(rand.NewPCG(7, 1))
		at := start
		for n := range uint32(400) {
			at = at.Add(time.Millisecond)
			observe(m, at, c.request(3+n))
			got, err := m.SourceQP(qpmap.Key{FlowKey: c.forth()}, at)
			require.NoError(t, err, "request %d, %v", n, answered)
			require.Equal(t, c.a, got.SrcQP)
			observe(m, at, c.ack(3+n))
			forged := *c
			forged.a, forged.commA, forged.commB, forged.psnA, forged.psnB = 0x66, r.Uint32(), r.Uint32(),
				r.Uint32()&0xFFFFFF, r.Uint32()&0xFFFFFF
			observe(m, at, forged.req(), forged.rep(), forged.request(0))
			if answered {
				observe(m, at, forged.ack(0))
			}
			// the last request was the forger's
			if got, err := m.SourceQP(qpmap.Key{FlowKey: c.forth()}, at); err == nil {
				require.Equal(t, c.a, got.SrcQP)
			}
			of := wiretest.Must(m.SourceQPOf(qpmap.Key{FlowKey: c.forth()},
				&bth.Header{Opcode: bth.RCSendOnly, PSN: c.psnA + 3 + n}, at))(t)
			require.Equal(t, c.a, of.SrcQP)
		}
	}
}

// A pair that is given stands against everything.
func TestGivenPairsStay(t *testing.T) {
	c := live()
	other := *c
	other.a = 0x66
	m := newMap(qpmap.Config{})
	require.NoError(t, m.Add(qpmap.Key{FlowKey: c.forth()}, qpmap.Pair{SrcQP: c.a}))
	observe(m, start, other.req(), other.rep())
	at := start
	for n := range uint32(100) {
		at = at.Add(50 * time.Millisecond)
		observe(m, at, other.request(n), other.ack(n), other.dreq(), other.rej())
		got := wiretest.Must(m.SourceQP(qpmap.Key{FlowKey: c.forth()}, at))(t)
		require.Equal(t, c.a, got.SrcQP)
		require.Equal(t, qpmap.BasisGiven, got.From)
	}
	requireNone(t, m, other.back(), qpmap.ErrUnknown) // nor is the other direction of an excluded pair learned
}

// Connections that begin with the same PSN and run in lockstep tie, unless the
// UDP source port may tell them apart: requests and responses have the same.
func TestPorts(t *testing.T) {
	var all []*connection
	for n := range uint32(8) {
		c := live()
		c.a, c.b, c.psnA, c.psnB = 0x100+n, 0x200+n, 0, 0
		all = append(all, c)
	}
	for _, ports := range []bool{false, true} {
		for _, same := range []bool{false, true} { // whether all have one port
			m := newMap(qpmap.Config{Ports: ports})
			for n := range uint32(10) {
				for answer := range 2 {
					for i, c := range all {
						p := c.request(n)
						if answer == 1 {
							p = c.ack(n)
						}
						if p.SrcPort = 0xC000; !same {
							p.SrcPort += uint16(i)
						}
						observe(m, start, p)
					}
				}
			}
			for _, c := range all {
				if ports && !same {
					requirePair(t, m, c.forth(), c.a, qpmap.BasisPort)
					requirePair(t, m, c.back(), c.b, qpmap.BasisPort)
				} else {
					_, err := m.SourceQP(qpmap.Key{FlowKey: c.forth()}, start)
					require.Error(t, err)
				}
			}
		}
	}
}

// Two connections between the same hosts use the same PSNs. A forger has made up a third one, from
// the sender of the first to the receiver of the second, with requests and answers elsewhere. If
// the capture has lost the requests of the first, its answers seem to be those to requests of the
// second. They do not continue the forged connection there: CM names the sender of these requests,
// or nearly as many answers are votes for one of the two true connections.
func TestForgedDoesNotGoOn(t *testing.T) {
	for _, speaks := range []string{"CM", "one", "other"} {
		withCM := speaks == "CM"
		one := live() // a, b
		other := *one
		other.a, other.b, other.commA, other.commB = one.a+1, one.b+1, one.commA+10, one.commB+10
		forged := *one
		forged.b, forged.commA, forged.commB = other.b, one.commA+20, one.commB+20
		forged.psnA, forged.psnB = one.psnA+1<<20, one.psnB+1<<20
		m := newMap(qpmap.Config{})
		if withCM {
			observe(m, start, one.req(), one.rep(), other.req(), other.rep())
		} else {
			observe(m, start, other.request(0), one.request(0))
		}
		observe(m, start, forged.req(), forged.rep())
		observe(m, start, forged.request(0), forged.ack(0), forged.request(1), forged.ack(1))
		got := wiretest.Must(m.SourceQP(qpmap.Key{FlowKey: forged.forth()}, start))(t)
		require.Equal(t, forged.a, got.SrcQP) // as good as any connection
		for n := range uint32(9) {
			observe(m, start, other.request(n))
			switch {
			case speaks == "one" && n%2 == 0:
				observe(m, start, one.request(n))
			case speaks == "other" && n < 2:
				observe(m, start, other.ack(n))
			}
		}
		answers := uint32(9)
		if speaks == "other" {
			answers = 4 // of which the first may be to a request of either
		}
		for n := range answers {
			p := packet(one.B, one.A, bth.RCAcknowledge, one.a, one.psnA+n)
			observe(m, start, p)
			if got, err := m.SourceQP(qpmap.Key{FlowKey: one.back()}, start); err == nil {
				require.Equal(t, one.b, got.SrcQP, "%s: answer %d, from %v", speaks, n, got.From)
			}
		}
	}
}

// A forged connection has requests and answers, and at last a READ of 2 GiB. A response of another
// connection with a PSN that the READ spans does not belong to the forged connection.
func TestForgedREADExplainsNothing(t *testing.T) {
	for _, mtu := range []uint8{0, 1, 5} { // not known, 256, 4,096
		forged := live()
		forged.mtu = mtu
		m := newMap(qpmap.Config{})
		observe(m, start, forged.req(), forged.rep())
		observe(m, start, forged.request(0), forged.ack(0), forged.request(1), forged.ack(1), forged.read(2, 1<<31))
		requireSource(t, m, forged.back(), start, forged.b, mtu)
		for _, psn := range []uint32{3000, 100_000, 500_000, 1 << 21, 1 << 22} {
			observe(m, start, forged.ack(psn))
			requireSource(t, m, forged.back(), start, 0, "%d %d", mtu, psn)
		}
	}
}

// Nor is it after several of these READs, which span more than half of all PSNs.
func TestForgedREADsExplainNothing(t *testing.T) {
	forged := live()
	forged.mtu = 0
	m := newMap(qpmap.Config{})
	observe(m, start, forged.req(), forged.rep())
	observe(m, start, forged.request(0), forged.ack(0), forged.request(1), forged.ack(1))
	for n := range uint32(8) {
		observe(m, start, forged.read(2+n<<19, 1<<31))
		for psn := uint32(10_000); psn < 1<<24-10_000; psn += 100_000 {
			p := forged.ack(psn)
			_, err := m.SourceQPOf(qpmap.Key{FlowKey: forged.back()}, &p.BTH.Header, start)
			require.ErrorIs(t, err, qpmap.ErrUnknown, "%d READs, %d", n+1, psn)
		}
	}
}

// A forged connection exists before its queue pairs are in use, with a READ that ends a little
// after the PSNs that they will use. It spans their requests no more without an answer than with
// one.
func TestForgedREADUnanswered(t *testing.T) {
	for _, x := range []struct {
		beyond uint32 // distance from the first real request to the end of the READ
		known  bool   // it is believed to be the forger's, as it may be late
	}{{2048, true}, {2049, false}, {30_000, false}, {60_000, false}} {
		c := live()
		forged := *c
		forged.a, forged.commA, forged.commB = 0x55, 1, 2
		forged.psnA = c.psnA - 1<<19 + x.beyond
		m := newMap(qpmap.Config{})
		observe(m, start, forged.req(), forged.rep(), forged.read(0, 1<<29), c.request(0))
		srcQP := uint32(0)
		if x.known {
			srcQP = forged.a
		}
		requireSource(t, m, c.forth(), start, srcQP, x.beyond)
	}
}

// The capture has one direction of a connection in use. Forged packets in the other direction do
// not end it: a datagram, or the first request of a connection that was announced.
func TestForgedInTheOtherDirection(t *testing.T) {
	for _, transport := range []uint8{cm.TransportTypeRC, cm.TransportTypeUC} {
		for _, what := range []string{"datagram", "connection"} {
			c := live()
			c.transport = transport
			m := newMap(qpmap.Config{})
			at := start
			observe(m, at, c.req(), c.rep())
			for n := range uint32(30) {
				at = at.Add(100 * time.Millisecond)
				observe(m, at, c.request(n))
			}
			if what == "datagram" {
				d := packet(c.B, c.A, bth.UDSendOnly, c.a, 5)
				d.BTH.DETH = bth.DETH{QKey: 1, SrcQP: 0x55}
				observe(m, at, d)
			} else {
				forged := c.turned()
				forged.a, forged.psnA, forged.psnB, forged.commA, forged.commB = 0x55, 0x400000, 0x500000, 1, 2
				observe(m, at, forged.req(), forged.rep(), forged.request(0))
			}
			observe(m, at, c.request(30))
			requireSource(t, m, c.forth(), at, c.a, "%d %s", transport, what)
		}
	}
}

// A flood of exchanges without answers, with requests in a row, does not end it either. With and
// without answers to the requests, a direction without packets for a second is in use as long as
// the other one is.
func TestFloodInTheOtherDirection(t *testing.T) {
	for _, answered := range []bool{true, false} {
		c := live()
		m := newMap(qpmap.Config{})
		observe(m, start, c.req(), c.rep(), c.request(0))
		if answered {
			observe(m, start, c.ack(0))
		}
		at := start
		for n := range uint32(30) {
			at = at.Add(100 * time.Millisecond)
			observe(m, at, c.turned().request(n))
		}
		flooded(c, m, 16, at)
		forged := *c
		forged.a, forged.psnA, forged.psnB, forged.commA, forged.commB = 0x55, 0x400000, 0x500000, 1, 2
		observe(m, at, forged.req(), forged.rep())
		for n := range uint32(9) {
			observe(m, at, forged.request(n))
		}
		requireSource(t, m, c.forth(), at, 0, answered)
		observe(m, at, c.turned().request(30))
		requireSource(t, m, c.back(), at, c.b, answered)
	}
}

// Nor does he with fewer answers than the connection has had, or with any if it is of UC and has none.
func TestVotesInTheOtherDirection(t *testing.T) {
	for _, transport := range []uint8{cm.TransportTypeRC, cm.TransportTypeUC} {
		c := live()
		c.transport = transport
		m := newMap(qpmap.Config{})
		observe(m, start, c.req(), c.rep())
		for n := range uint32(9) {
			observe(m, start, c.request(n))
			if transport == cm.TransportTypeRC {
				observe(m, start, c.ack(n))
			}
		}
		at := start
		for n := range uint32(30) {
			at = at.Add(100 * time.Millisecond)
			observe(m, at, c.turned().request(n))
		}
		forged := *c
		forged.transport, forged.a, forged.psnA = cm.TransportTypeRC, 0x55, 0x400000
		for n := range uint32(5) {
			observe(m, at, forged.request(n), forged.ack(n))
		}
		requireSource(t, m, c.forth(), at, 0, transport)
		observe(m, at, c.turned().request(30))
		requireSource(t, m, c.back(), at, c.b, transport)
	}
}

// A forger announces a connection, ends it and announces it again. The flow's last packet is not
// attributed to it, and the votes for other pairs stay.
func TestForgedAndEnded(t *testing.T) {
	c, forged := live(), live()
	forged.a, forged.psnA, forged.psnB, forged.commA, forged.commB = 0x77, 0x400000, 0x500000, 77, 78
	for _, end := range []func() rocev2.Packet{forged.rej, forged.drep, forged.dreq} {
		m := newMap(qpmap.Config{})
		observe(m, start, c.request(0), forged.req(), forged.rep(), end(), forged.req(), forged.rep())
		requireNone(t, m, c.forth(), qpmap.ErrUnknown)

		m = newMap(qpmap.Config{})
		for n := range uint32(3) {
			observe(m, start, forged.req(), forged.rep(), end(), c.request(n), c.ack(n))
		}
		requirePair(t, m, c.forth(), c.a, qpmap.BasisVotes)
	}
}

// A forger is not on the path: it knows addresses and queue pairs, but neither the PSNs that two
// hosts use nor their communication ids. The script gives the packets to send, six octets a packet.
type forger struct {
	script []byte
	used   map[rocev2.FlowKey][]uint32 // PSNs between two hosts
}

// between is the key of all that two hosts send each other.
func between(p *rocev2.Packet) rocev2.FlowKey {
	if p.Src.Less(p.Dst) {
		return rocev2.FlowKey{Src: p.Src, Dst: p.Dst}
	}
	return rocev2.FlowKey{Src: p.Dst, Dst: p.Src}
}

// far is the distance of a wrong PSN from those that the hosts use.
const far = 100_000

// guess returns a PSN that is wrong: far from those that the hosts of a packet use.
func (f *forger) guess(about *rocev2.Packet, psn uint32) uint32 {
	for {
		used, near := f.findUsedPSN(about, psn, far)
		if !near {
			return psn & 0xFFFFFF
		}
		psn = used + far
	}
}

// findUsedPSN returns a PSN that the hosts of a packet use, and that is less than this far from psn, and whether
// there is one.
func (f *forger) findUsedPSN(about *rocev2.Packet, psn uint32, far int32) (used uint32, near bool) {
	for _, used := range f.used[between(about)] {
		if d := int32((psn-used)<<8) >> 8; d > -far && d < far {
			return used, true
		}
	}
	return 0, false
}

// length returns a length for a READ from this PSN on, at most length: none that ends, at any path
// MTU, near a PSN that the hosts use, as its end would be a correct guess.
func (f *forger) length(about *rocev2.Packet, psn, length uint32) uint32 {
	near := func(mtu uint32) bool {
		_, near := f.findUsedPSN(about, psn+length/mtu, far/2)
		return near
	}
	for slices.ContainsFunc([]uint32{256, 512, 1024, 2048, 4096}, near) {
		length /= 2
	}
	return length
}

// next returns the next packets that are forged about the flow of a real one, if any are due.
func (f *forger) next(about *rocev2.Packet) []rocev2.Packet {
	if len(f.script) < 6 || about.BTH.DestQP == cm.QP {
		return nil
	}
	s := f.script
	f.script = s[6:]
	what, srcQP, psn, long, ids := s[0], 2+uint32(s[1]%8), uint32(s[2])<<16|uint32(s[3])<<8, s[4], uint32(s[5])
	psn = f.guess(about, psn)
	c := &connection{A: about.Src, B: about.Dst, a: srcQP, b: about.BTH.DestQP, psnA: psn,
		psnB: f.guess(about, psn+1<<22), commA: 0xF0000000 | ids, commB: 0xE0000000 | ids, mtu: 1 + long%5}
	if what&0x20 != 0 {
		c.transport = cm.TransportTypeUC
	}
	if what&0x40 != 0 {
		c = c.turned()
	}
	n := uint32(what >> 4 & 1) // the forger goes on from where it was
	read := c.request(n)
	read.BTH.Opcode, read.BTH.Present = bth.RCRDMAReadRequest, bth.RCRDMAReadRequest.Headers()
	read.BTH.RETH.DMALength = f.length(about, psn+n, 1<<(long%32))
	datagram := packet(c.A, c.B, bth.UDSendOnly, c.b, psn)
	datagram.BTH.DETH = bth.DETH{QKey: 1, SrcQP: c.a}
	switch what & 0x0F {
	case 0:
		return []rocev2.Packet{c.req()}
	case 1:
		return []rocev2.Packet{c.rep()}
	case 2:
		return []rocev2.Packet{c.req(), c.rep(), c.rtu()}
	case 3:
		return []rocev2.Packet{c.dreq(), c.drep()}
	case 4:
		return []rocev2.Packet{c.rej()}
	case 5:
		return []rocev2.Packet{c.request(n)}
	case 6:
		return []rocev2.Packet{c.ack(n)}
	case 7:
		return []rocev2.Packet{read}
	case 8:
		return []rocev2.Packet{datagram}
	case 9: // three requests and their answers: enough for a pair by votes
		return []rocev2.Packet{c.request(0), c.ack(0), c.request(1), c.ack(1), c.request(2), c.ack(2)}
	case 10: // and announced
		return []rocev2.Packet{c.req(), c.rep(), c.request(0), c.ack(0), c.request(1), c.ack(1)}
	}
	return nil
}

// Requests of connections to the queue pair of multicast, which no connection has, teach nothing and change no answer.
func TestRequestsToMulticast(t *testing.T) {
	for _, gap := range []int{20, 130, 150, 260, 900} { // milliseconds
		t.Run(fmt.Sprint(gap, " ms"), func(t *testing.T) {
			m := newMap(qpmap.Config{})
			c := live()
			for i := range 20 * gap {
				now := start.Add(time.Duration(i) * time.Millisecond)
				p := c.request(uint32(i))
				m.Observe(&p, 0, now)
				p = c.ack(uint32(i))
				m.Observe(&p, 0, now)
				if i%gap == 0 {
					p = packet(c.A, c.B, bth.RCSendOnly, 0xFFFFFF, 7)
					m.Observe(&p, 0, now)
				}
			}
			require.Equal(t, 2, m.Stats().Pairs)
			pair, err := m.SourceQP(qpmap.Key{FlowKey: c.forth()}, start)
			require.NoError(t, err)
			require.Equal(t, c.a, pair.SrcQP)
		})
	}
}

// Real connections, with packets that the capture has lost, swapped and duplicated, are mixed with
// those of a forger, and tables may be too small. For each real packet a Map names the true sender,
// or none. No two of the connections use the same PSNs: if they did and the capture had lost the
// requests of one, its answers would look like those of the other, and forged packets could make
// that the better explanation. TestNeverAWrongPair has the same PSNs.
func FuzzForged(f *testing.F) {
	for what := range byte(11) {
		for _, turn := range []byte{0, 0x20, 0x40} {
			var script []byte
			for i := range byte(40) {
				script = append(script, what|turn, i/8, i, 0, i, i/3)
			}
			f.Add(uint64(what), false, script)
		}
	}
	f.Fuzz(func(t *testing.T, seed uint64, small bool, script []byte) {
		requireRight(t, seed, small, false, script)
	})
}

// The same with random scripts, which finds more in this order of packets than a search guided by
// coverage.
func TestForgedAtRandom(t *testing.T) {
	r := rand.New(rand.NewPCG(77, 99))
	for n := range wiretest.Rounds(1000) {
		seed := r.Uint64()
		var script []byte
		if n%3 > 0 {
			script = make([]byte, 6*(1+r.IntN(60)))
		}
		for i := range script {
			script[i] = byte(r.Uint32())
		}
		for s := script; n%3 == 2 && len(s) > 0; s = s[6:] { // all actions of the forger, about few queue pairs
			s[0], s[1], s[4], s[5] = s[0]&0x70|byte(r.IntN(11)), s[1]%8, s[4]%32, s[5]%4
		}
		t.Run(fmt.Sprint(n), func(t *testing.T) { requireRight(t, seed, n%2 == 0, false, script) })
	}
}

// In a small table this script once removed a pair twice, which damaged the table.
func TestForgedRemovesOnce(t *testing.T) {
	requireRight(t, 5794121225843213801, true, false, wiretest.Hex(t,
		"66039c9606002a01624515015a04998f01016805859e0f0255064298170335075bfa190147033b541d032607f0c8"+
			"06016801e0d21d034905b8d912027805a7af1b035400e96f0b0045007b5b17015502a10005005a0733cf1102"))
}

// Without a forger connections may use the same PSNs. Each seed has once shown a wrong answer: by votes from before a
// connection, by an exchange of which another one had contradicted one direction.
func TestSamePSNs(t *testing.T) {
	for _, seed := range []uint64{
		979111124761028371, 312163364737147636, 2450272238629500181, 14997044135594835743, 11618431343692148956,
		6767955360312359260, 536061444347229545, 17650431633654378244,
	} {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { requireRight(t, seed, false, true, nil) })
	}
}

// requireRight plays to a Map, small or not, twelve connections in an order and with losses that
// seed chooses, and a forger that acts by a script.
func requireRight(t *testing.T, seed uint64, small, samePSN bool, script []byte) {
	r := rand.New(rand.NewPCG(seed, 17))
	all := impair(r, generate(r, 12, seed%3 > 0, samePSN))
	forger := forger{script: script, used: map[rocev2.FlowKey][]uint32{}}
	for i := range all {
		p := &all[i].packet
		forger.used[between(p)] = append(forger.used[between(p)], p.BTH.PSN)
	}
	config := qpmap.Config{MaxPairs: 512, MaxPending: 256, MaxOpen: 1024}
	if small {
		config = qpmap.Config{MaxPairs: 8, MaxPending: 4, MaxOpen: 4, Idle: 2 * time.Second}
	}
	m := qpmap.New(config)
	for i := range all {
		s, now := &all[i], start.Add(all[i].at)
		for range 1 + r.IntN(8)/7 { // some twice
			m.Observe(&s.packet, 0, now)
		}
		if s.packet.BTH.DestQP == cm.QP {
			continue
		}
		k := qpmap.Key{FlowKey: flowOf(&s.packet)}
		if got, err := m.SourceQP(k, now); err == nil && got.SrcQP != s.truth {
			t.Fatalf("%v %v: %d, not %d, from %v", k, s.packet.BTH.Header, got.SrcQP, s.truth, got.From)
		}
		last := true // of its flow
		for _, p := range forger.next(&s.packet) {
			m.Observe(&p, 0, now)
			last = last && flowOf(&p) != k.FlowKey
		}
		if got, err := m.SourceQP(k, now); err == nil && last && !small && got.SrcQP != s.truth {
			t.Fatalf("forged in the other direction: %v %v: %d, not %d, from %v", k, s.packet.BTH.Header, got.SrcQP,
				s.truth, got.From)
		}
		if got, err := m.SourceQPOf(k, &s.packet.BTH.Header, now); err == nil && got.SrcQP != s.truth {
			t.Fatalf("after the forged packets: %v %v: %d, not %d, from %v", k, s.packet.BTH.Header, got.SrcQP,
				s.truth, got.From)
		}
	}
}

// A forged exchange, of which the requests are mixed with those of a connection that is not known, names no sender of
// that one's packets.
func TestForgedAmidUnknown(t *testing.T) {
	for _, transport := range []uint8{cm.TransportTypeRC, cm.TransportTypeUC} {
		t.Run(bth.Transport(transport).String(), func(t *testing.T) {
			c := live()
			c.transport = transport
			forged := *c
			forged.a, forged.commA, forged.commB, forged.psnA, forged.psnB = 0x66, 6, 66, 0x666666, 0x777777
			m := newMap(qpmap.Config{})
			observe(m, start, forged.req(), forged.rep())
			for n := range uint32(100) {
				now := start.Add(time.Duration(n) * time.Millisecond)
				observe(m, now, forged.request(n), c.request(n))
				pair, err := m.SourceQPAmid(qpmap.Key{FlowKey: c.forth()}, now)
				require.ErrorIs(t, err, qpmap.ErrUnknown, "%d %+v", n, pair)
			}
		})
	}
}

// Nor does it with answers, which the same forger can send as well, nor with other guesses in between.
func TestForgedAmidAnswered(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 49))
	c := live()
	forged := *c
	forged.a, forged.commA, forged.commB, forged.psnA, forged.psnB = 0x66, 6, 66, 0x666666, 0x777777
	m := newMap(qpmap.Config{Seed: 1})
	observe(m, start, forged.req(), forged.rep())
	for n := range uint32(300) {
		now := start.Add(time.Duration(n) * time.Millisecond)
		observe(m, now, forged.request(n), forged.ack(n), c.request(n))
		for range 2 {
			observe(m, now, packet(c.A, c.B, bth.RCSendOnly, c.b, r.Uint32N(1<<24)))
		}
		if pair, err := m.SourceQPAmid(qpmap.Key{FlowKey: c.forth()}, now); n > 1 {
			require.Error(t, err, "%d %+v", n, pair)
		}
	}
}

// A forged exchange and its first request replace no silent connection of UC if only the guess of one direction's first
// PSN is near the PSNs of the connection.
func TestForgedNearOneDirection(t *testing.T) {
	for _, row := range []struct {
		name         string
		psnA, psnB   int32 // from those of the connection
		otherRequest bool  // the first request is that of the other direction
	}{
		{"that of the requests", 4000, 1 << 21, false},
		{"that of the other direction", 1 << 21, 4000, false},
		{"that of the requests, which come later", 4000, 1 << 21, true},
		{"both", 4000, -4000, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := live()
			c.transport = cm.TransportTypeUC
			m := newMap(qpmap.Config{Seed: 1})
			observe(m, start, c.req(), c.rep())
			for n := range uint32(100) {
				observe(m, start.Add(time.Duration(n)*time.Millisecond), c.request(n), c.turned().request(n))
			}
			now := start.Add(3 * time.Second)
			forged := *c
			forged.commA, forged.commB = 6, 66
			forged.psnA = (c.psnA + 100 + uint32(row.psnA)) & 0xFFFFFF
			forged.psnB = (c.psnB + 100 + uint32(row.psnB)) & 0xFFFFFF
			first := forged.request(0)
			if row.otherRequest {
				first = forged.turned().request(0)
			}
			observe(m, now, forged.req(), forged.rep(), first)
			for n := uint32(100); n < 200; n++ {
				now = now.Add(time.Millisecond)
				observe(m, now, c.request(n), c.turned().request(n))
				if n >= 103 {
					requireSource(t, m, c.forth(), now, c.a, n)
					requireSource(t, m, c.back(), now, c.b, n)
				}
			}
		})
	}
}
