package qpmap_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/cm"
	"github.com/rocecn/rocecn/internal/qplearn"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

// Which answers are votes for the sender of the requests before them.
func TestVoteConditions(t *testing.T) {
	c := live()
	nak := func(n uint32) rocev2.Packet {
		p := c.ack(n)
		p.BTH.AETH.Syndrome = 0x60 // PSN sequence error
		return p
	}
	const moment = time.Duration(1 << 20)
	for _, x := range []struct {
		what    string
		request uint32
		after   time.Duration
		answer  rocev2.Packet
		known   bool
	}{
		{"an ACK", 5, 0, c.ack(5), true},
		{"of another PSN", 5, 0, c.ack(6), false},
		{"a NAK of a lost request, the one before it seen", 5, 0, nak(6), true},
		{"the one after it", 5, 0, nak(4), true},
		{"neither", 5, 0, nak(7), false},
		{"neither, either", 5, 0, nak(3), false},
		{"within a second, in moments", 5, 953 * moment, c.ack(5), true},
		{"later", 5, 954 * moment, c.ack(5), false},
	} {
		t.Run(x.what, func(t *testing.T) {
			m := newMap(qpmap.Config{MinVotes: 1})
			observe(m, start.Add(-1), packet(c.B, c.A, bth.CNP, c.a, 0))
			observe(m, start.Add(-2), packet(c.B, c.A, bth.CNP, c.a, 0))
			observe(m, start, packet(c.B, c.A, bth.CNP, c.a, 0), c.request(x.request))
			observe(m, start.Add(x.after), x.answer)
			known := uint32(0)
			if x.known {
				known = c.a
			}
			requireSource(t, m, c.forth(), start.Add(x.after), known)
		})
	}
}

// Votes count together if their PSNs are at most 16,384 apart.
func TestVotesOfOneStretch(t *testing.T) {
	for _, x := range []struct {
		apart int
		known bool
	}{{16384, true}, {16385, false}, {-16384, true}, {-16385, false}} {
		c := live()
		m := newMap(qpmap.Config{MinVotes: 2})
		for _, n := range []int{0, 1, 1 + x.apart, 2 + x.apart} {
			observe(m, start, c.request(uint32(n)))
		}
		observe(m, start, c.ack(1), c.ack(uint32(1+x.apart)))
		known := uint32(0)
		if x.known {
			known = c.a
		}
		requireSource(t, m, c.forth(), start, known, x)
	}
}

// Requests follow one another where the capture lost some of them, too.
func TestVotesWithGaps(t *testing.T) {
	c := live()
	m := newMap(qpmap.Config{MinVotes: 2})
	observe(m, start, c.request(0), c.request(2), c.request(4), c.ack(0))
	requireSource(t, m, c.forth(), start, 0)
	observe(m, start, c.ack(2))
	requireSource(t, m, c.forth(), start, c.a)
}

// A request that was sent twice has one sender still.
func TestRequestSentTwice(t *testing.T) {
	c := live()
	m := newMap(qpmap.Config{})
	observe(m, start, c.request(0), c.request(0), c.request(1), c.ack(0))
	require.Equal(t, []uint32{c.b}, slices.Collect(m.QPs().Asked()))
	observe(m, start, c.request(2))
	require.Empty(t, slices.Collect(m.QPs().Asked()), "the last packet is no answer")
}

// In a flood a single answer does not displace a connection that was answered and is
// silent, three do. One that was never answered it does.
func TestAnswersInAFlood(t *testing.T) {
	for _, x := range []struct {
		answered bool
		needed   uint32
	}{{true, 3}, {false, 1}} {
		c := live()
		m := established(c, false)
		if x.answered {
			observe(m, start, c.turned().request(0), c.turned().ack(0))
		}
		flooded(c, m, 15, start)
		next := c.next()
		later := start.Add(2 * time.Second)
		observe(m, later, next.req(), next.rep())
		observe(m, later, next.request(0))
		for n := range uint32(3) {
			observe(m, later, next.ack(n), next.request(n+1))
			known := uint32(0)
			if n+1 >= x.needed {
				known = next.a
			}
			requireSource(t, m, next.forth(), later, known, "%v, answer %d", x, n)
		}
	}
}

// Where a connection in use goes on elsewhere without a word, it needs more answers there
// than it had before, or 65.
func TestGoesOnInUse(t *testing.T) {
	for _, row := range []struct{ had, needed uint32 }{{3, 4}, {10, 11}, {64, 65}, {100, 65}} {
		t.Run(fmt.Sprint(row.had), func(t *testing.T) {
			c := live()
			m := newMap(qpmap.Config{})
			observe(m, start, c.req(), c.rep())
			for n := range row.had {
				observe(m, start, c.request(n), c.ack(n))
			}
			c.psnA += 1 << 20
			for n := range row.needed {
				requireSource(t, m, c.forth(), start, map[bool]uint32{true: c.a}[n == 0], "%d, %d", row.had, n)
				observe(m, start, c.request(n), c.ack(n))
			}
			requireSource(t, m, c.forth(), start, c.a, row.had)
		})
	}
}

// Another connection needs as many, counting the answers of either direction, or a
// second of silence.
func TestMoreAnswersThanBefore(t *testing.T) {
	for _, x := range []struct {
		forth, back, needed uint32
	}{{3, 0, 4}, {3, 6, 7}, {6, 3, 7}, {0, 6, 7}, {0, 0, 3}} {
		c := live()
		m := newMap(qpmap.Config{})
		observe(m, start, c.req(), c.rep(), c.request(0))
		for n := range x.forth {
			observe(m, start, c.request(n), c.ack(n))
		}
		for n := range x.back {
			observe(m, start, c.turned().request(n), c.turned().ack(n))
		}
		other := *c
		other.a, other.psnA = 0x52, c.psnA+1<<20
		for n := range x.needed {
			observe(m, start, other.request(n))
			requireSource(t, m, c.forth(), start, 0, "%v, %d", x, n)
			observe(m, start, other.ack(n))
		}
		requireSource(t, m, c.forth(), start, other.a, x)
	}
}

// UC has no answers: only silence makes room for another connection.
func TestUCInUse(t *testing.T) {
	c := live()
	c.transport = cm.TransportTypeUC
	m := newMap(qpmap.Config{})
	observe(m, start, c.req(), c.rep(), c.request(0))
	other := *c
	other.a, other.psnA, other.transport = 0x52, c.psnA+1<<20, cm.TransportTypeRC
	for n := range uint32(9) {
		observe(m, start, other.request(n), other.ack(n))
	}
	requireSource(t, m, c.forth(), start, 0)
	later := start.Add(1100 * time.Millisecond)
	observe(m, later, other.request(9), other.ack(9))
	requireSource(t, m, c.forth(), later, other.a)
}

// An answer to another queue pair about requests of a connection may be a guess. Two that follow
// one another, or one that a CM exchange agrees with, make the requests ambiguous.
func TestContested(t *testing.T) {
	for _, named := range []bool{false, true} {
		c := live()
		m := newMap(qpmap.Config{})
		observe(m, start, c.req(), c.rep())
		for n := range uint32(100) {
			observe(m, start, c.request(n), c.ack(n))
		}
		rival := *c
		rival.a, rival.commA, rival.commB, rival.psnB = 0x66, 6, 66, 0x700000
		if named {
			observe(m, start, rival.req(), rival.rep())
		}
		observe(m, start, c.request(100))
		requireSource(t, m, c.forth(), start, c.a)
		observe(m, start, rival.ack(100))
		if !named {
			requireSource(t, m, c.forth(), start, c.a)
			observe(m, start, c.request(101), rival.ack(101))
		}
		requireNone(t, m, c.forth(), qpmap.ErrAmbiguous)
	}
}

// Answers find the other direction of a given pair.
func TestVotesBesideGiven(t *testing.T) {
	c := live()
	m := newMap(qpmap.Config{})
	require.NoError(t, m.Add(qpmap.Key{FlowKey: c.forth()}, qpmap.Pair{SrcQP: c.a}))
	for n := range uint32(3) {
		observe(m, start, c.request(n), c.ack(n))
	}
	requirePair(t, m, c.back(), c.b, qpmap.BasisVotes)
	requirePair(t, m, c.forth(), c.a, qpmap.BasisGiven)
}

// The partition is that of the REQ, or of the last request.
func TestPartition(t *testing.T) {
	for _, row := range []struct {
		from qpmap.Basis
		want uint16
	}{
		{qpmap.BasisCM, 0xFFFF}, {qpmap.BasisVotes, 0x8001}, {qpmap.BasisPort, 0x8001},
	} {
		t.Run(fmt.Sprint(row.from), func(t *testing.T) {
			c := live()
			twin := *c
			twin.a, twin.b = 0x52, 0x53
			m := newMap(qpmap.Config{Ports: true})
			if row.from == qpmap.BasisCM {
				observe(m, start, c.req(), c.rep())
			}
			for n := range uint32(4) {
				packets := []rocev2.Packet{c.request(n), twin.request(n), c.ack(n), twin.ack(n)}
				for i := range packets {
					packets[i].SrcPort = 0xC000 + uint16(i%2)
				}
				if row.from == qpmap.BasisPort {
					observe(m, start, packets...)
				} else {
					observe(m, start, packets[0], packets[2])
				}
			}
			p := c.request(4)
			p.BTH.PKey = 0x8001
			observe(m, start, p)
			got := wiretest.Must(m.SourceQP(qpmap.Key{FlowKey: c.forth()}, start))(t)
			require.Equal(t, row.from, got.From)
			require.Equal(t, row.want, got.PKey)
			if row.from == qpmap.BasisPort {
				require.EqualValues(t, 4, m.Stats().Ports)
			}
		})
	}
}

// READ responses show the path MTU of a pair that is not known yet, and acknowledgements show none.
func TestMTUOfVotes(t *testing.T) {
	c := live()
	m := newMap(qpmap.Config{})
	for n := range uint32(3) {
		p := c.ack(n)
		var o qplearn.Observation
		o.Set(&p, 0)
		if n == 0 {
			o.Opcode, o.Payload = bth.RCRDMAReadResponseFirst, 2048
		}
		observe(m, start, c.request(n))
		m.QPs().Learn(&o, start)
	}
	got := wiretest.Must(m.SourceQP(qpmap.Key{FlowKey: c.forth()}, start))(t)
	require.EqualValues(t, 2048, got.MTU)
}

// An exchange without an answer leaves the votes, and a pair that is idle is counted as
// expired when its flow is seen again.
func TestVotesStay(t *testing.T) {
	c := live()
	m := newMap(qpmap.Config{})
	for n := range uint32(2) {
		observe(m, start, c.request(n), c.ack(n))
	}
	observe(m, start, c.req(), c.rep())
	require.Equal(t, qpmap.Stats{Pairs: 2, Pending: 1, Open: 2, CM: 2}, m.Stats())
	observe(m, start.Add(10*time.Minute+1), c.request(2))
	require.EqualValues(t, 2, m.Stats().Expired)
}

// Requests that follow one another: one just after it was seen, or it is up to 2,048
// before the next one that is expected.
func TestNeighbours(t *testing.T) {
	for _, x := range []struct {
		requests []uint32
		answers  []uint32
		known    bool
	}{
		{[]uint32{5, 1 << 20, 6, 2 << 20, 20}, []uint32{5, 20}, true}, // 6
		{[]uint32{5, 1 << 20, 7, 2 << 20, 20}, []uint32{5, 20}, false},
		{[]uint32{0, 1024, 2047, 5000}, []uint32{0, 5000}, true},
		{[]uint32{0, 1024, 2048, 5000}, []uint32{0, 5000}, false},
	} {
		c := live()
		m := newMap(qpmap.Config{MinVotes: 2})
		for _, n := range x.requests {
			observe(m, start, c.request(n))
		}
		for _, n := range x.answers {
			observe(m, start, c.ack(n))
		}
		known := uint32(0)
		if x.known {
			known = c.a
		}
		requireSource(t, m, c.forth(), start, known, x)
	}
}

// Requests that began with an announced PSN are the announced connection's for 16,384.
func TestAnsweredLater(t *testing.T) {
	for _, row := range []struct {
		last uint32
		from qpmap.Basis
	}{
		{2, qpmap.BasisCM}, {100, qpmap.BasisCM}, {16384, qpmap.BasisCM}, {16385, qpmap.BasisVotes},
	} {
		t.Run(fmt.Sprint(row.last), func(t *testing.T) {
			c := live()
			m := established(c, true)
			next := *c
			next.a, next.psnA, next.psnB, next.commA, next.commB = 0x52, 0x600000, 0x700000, 1, 2
			at := start.Add(2 * time.Second)
			observe(m, at, next.req(), next.rep(), next.request(0))
			for n := row.last - 2; n <= row.last; n++ {
				observe(m, at, next.request(n), next.ack(n))
			}
			got, err := m.SourceQP(qpmap.Key{FlowKey: c.forth()}, at)
			require.NoError(t, err, row.last)
			require.Equal(t, next.a, got.SrcQP)
			require.Equal(t, row.from, got.From, row.last)
		})
	}
}
