package qpmap_test

import (
	"fmt"
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

// The distance of a request from the last one: each line is shown to a Map of its own, and gives
// whether the sender of the last request is known.
func TestHowFarRequestsGo(t *testing.T) {
	c := live()
	unknownMTU := live()
	unknownMTU.mtu = 0
	type packets = []rocev2.Packet
	seq := func(from, to uint32) (all packets) {
		for n := from; n <= to; n++ {
			all = append(all, c.request(n))
		}
		return all
	}
	nak := func(n uint32) rocev2.Packet {
		p := c.ack(n)
		p.BTH.AETH.Syndrome = 0x60 // PSN sequence error
		return p
	}
	for _, x := range []struct {
		what  string
		of    *connection
		shown packets
		last  uint32 // the largest number of a request that is known then, or the least
		step  int    // from it to the next one, which is not
	}{
		{"not answered", c, packets{c.request(0)}, 1 + 64, 1},
		{"answered", c, packets{c.request(0), c.ack(0)}, 1 + 2048, 1},
		{"further and further", c, packets{c.request(0), c.request(1 + 64), c.request(66 + 64)}, 131 + 64, 1},
		{"READ of 0", c, packets{c.read(0, 0)}, 1 + 64, 1},
		{"READ of 1", c, packets{c.read(0, 1)}, 1 + 64, 1},
		{"READ of 1,024", c, packets{c.read(0, 1024)}, 1 + 64, 1},
		{"READ of 1,025", c, packets{c.read(0, 1025)}, 2 + 64, 1},
		{"READ of 2,047", c, packets{c.read(0, 2047)}, 2 + 64, 1},
		{"READ of 2,048", c, packets{c.read(0, 2048)}, 2 + 64, 1},
		{"READ of 2,049", c, packets{c.read(0, 2049)}, 3 + 64, 1},
		// 4 MiB are 1,024 packets of 4,096 octets or 16,384 of 256
		{"READ, MTU not known", unknownMTU, packets{c.read(0, 4<<20)}, 16384 + 64, 1},
		{"READ, MTU not known, answered before", unknownMTU,
			packets{c.request(0), c.ack(0), c.read(1, 4<<20)}, 1 + 16384 + 2048, 1},
		{"READ, MTU not known, and as far as it goes", unknownMTU,
			packets{c.read(0, 4<<20), c.request(16384 + 64)}, 16385 + 64 + 64, 1},
		{"READ, MTU not known, and its second half again", unknownMTU,
			packets{c.read(0, 8192), c.read(1, 4096)}, 32 + 64, 1},
		{"again", c, seq(0, 9), 0, -1},
		{"again, 256 before the last that was acknowledged", c, append(seq(0, 299), c.ack(299)), 299 - 256, -1},
		{"again, acknowledged in no order", c, append(seq(0, 299), c.ack(299), c.ack(10)), 299 - 256, -1},
		{"again, a NAK acknowledges those before", c, append(seq(0, 299), nak(299)), 298 - 256, -1},
	} {
		t.Run(x.what, func(t *testing.T) {
			for _, known := range []bool{true, false} {
				m := newMap(qpmap.Config{})
				observe(m, start, x.of.req(), x.of.rep())
				observe(m, start, x.shown...)
				n, srcQP := x.last, c.a
				if !known {
					n, srcQP = n+uint32(x.step), 0
				}
				observe(m, start, c.request(n))
				requireSource(t, m, c.forth(), start, srcQP, "%s: request %d", x.what, int32(n))
			}
		})
	}
}

// After the longest READs the next request is expected, for any path MTU.
func TestLongREAD(t *testing.T) {
	for _, octets := range []uint32{1 << 30, 5 << 28, 1 << 31} {
		for _, mtu := range []uint32{4096, 2048, 1024, 512, 256} {
			c := live()
			c.mtu = 0
			m := newMap(qpmap.Config{})
			observe(m, start, c.req(), c.rep(), c.request(0), c.ack(0), c.read(1, octets), c.request(1+octets/mtu))
			requireSource(t, m, c.forth(), start, c.a, "%d at %d", octets, mtu)
		}
	}
}

// A READ is tried again from its first response that is missing.
func TestREADAgain(t *testing.T) {
	for _, missing := range []uint32{3000, 7000, 12000} {
		c := live()
		c.mtu = 0
		m := newMap(qpmap.Config{})
		observe(m, start, c.req(), c.rep(), c.request(0), c.ack(0), c.read(1, 16<<20))
		for n := range missing {
			p := packet(c.B, c.A, bth.RCRDMAReadResponseMiddle, c.a, c.psnA+1+n)
			p.Payload = make([]byte, 1024)
			observe(m, start, p)
		}
		observe(m, start, c.read(1+missing, 16<<20-missing*1024))
		requireSource(t, m, c.forth(), start, c.a, missing)
		observe(m, start, c.request(1+16384))
		requireSource(t, m, c.forth(), start, c.a, missing)
	}
}

// The first response of a READ has the READ's PSN. Its sender is known even if the capture has lost
// all responses of an earlier READ, and so is that of the responses after it.
func TestLostResponses(t *testing.T) {
	c := live()
	m := established(c, true)
	const responses = 16384 // at 1,024 octets
	observe(m, start, c.read(3, responses*1024), c.read(3+responses, responses*1024))
	for _, x := range []struct {
		op    bth.Opcode
		n     uint32
		known bool
	}{
		{bth.RCRDMAReadResponseMiddle, 3 + responses + 1, false},
		{bth.RCRDMAReadResponseFirst, 3 + responses, true},
		{bth.RCRDMAReadResponseMiddle, 3 + responses + 1, true},
		{bth.RCRDMAReadResponseMiddle, 3 + responses + 2049, true},
	} {
		observe(m, start, packet(c.B, c.A, x.op, c.a, c.psnA+x.n))
		srcQP := uint32(0)
		if x.known {
			srcQP = c.b
		}
		requireSource(t, m, c.back(), start, srcQP, "%v %d", x.op, x.n)
	}
}

// In a long network many requests are in flight. All of them may be retransmitted, and an answer
// may be about any, also if the capture has lost the requests for it.
func TestManyAgain(t *testing.T) {
	c := live()
	c.psnA = 0xFFF000
	m := newMap(qpmap.Config{})
	observe(m, start, c.req(), c.rep(), c.request(0), c.ack(0))
	const last = 12_000
	for range 2 {
		for n := uint32(1); n <= last; n++ {
			observe(m, start, c.unasking(bth.RCSendMiddle, n))
			requireSource(t, m, c.forth(), start, c.a, n)
		}
	}
	nak := c.ack(last / 2)
	nak.BTH.AETH.Syndrome = 0x60 // PSN sequence error
	for _, p := range []rocev2.Packet{nak, c.ack(last)} {
		observe(m, start, p)
		requireSource(t, m, c.back(), start, c.b)
	}
	observe(m, start, c.unasking(bth.RCSendMiddle, last-257))
	requireSource(t, m, c.forth(), start, 0, "acknowledged long before")
}

// UC has no answers. A gap of up to 2,048 packets that the capture lost does not end its lifetime: the second request
// after it continues the lifetime there. A single request in that distance, which may be a guess, does not.
func TestGapOfUC(t *testing.T) {
	for _, row := range []struct {
		name  string
		gap   uint32
		known bool
	}{{"64", 64, true}, {"66", 66, true}, {"2,048", 2048, true}, {"2,049", 2049, false}} {
		t.Run(row.name, func(t *testing.T) {
			for _, guesses := range []uint32{0, 1} {
				c := live()
				c.transport = cm.TransportTypeUC
				m := newMap(qpmap.Config{})
				observe(m, start, c.req(), c.rep())
				for n := range uint32(10) {
					observe(m, start, c.request(n))
				}
				for range guesses {
					observe(m, start, c.request(1500), c.request(10))
					requireSource(t, m, c.forth(), start, c.a)
				}
				for n := range uint32(10) {
					observe(m, start, c.request(10+guesses+row.gap+n))
					known := c.a
					if !row.known {
						known = 0
					}
					requireSource(t, m, c.forth(), start, known, n)
				}
			}
		})
	}
}

// Nine READs of 2^20 PSNs each, none of them answered, are more than half of all PSNs.
func TestManyREADs(t *testing.T) {
	c := live()
	m := newMap(qpmap.Config{})
	observe(m, start, c.req(), c.rep())
	for n := range uint32(9) {
		observe(m, start, c.read(n<<20, 1<<30))
		requireSource(t, m, c.forth(), start, c.a)
	}
	for _, n := range []uint32{9 << 20, 9 << 20, 9<<20 - 2000} { // the last ones again
		observe(m, start, c.request(n))
		requireSource(t, m, c.forth(), start, c.a, n)
	}
}

// A sender knows of an acknowledgement within eight seconds, and then retransmits nothing that was
// acknowledged before.
func TestHorizon(t *testing.T) {
	for _, x := range []struct {
		acked, again uint32
		known        bool
	}{{0, 0, false}, {2, 2, false}, {2, 3, true}, {0, 1, true}} {
		c := live()
		m := newMap(qpmap.Config{})
		observe(m, start, c.req(), c.rep())
		for n := range x.acked + 1 {
			observe(m, start, c.request(n), c.ack(n))
		}
		at := start.Add(9 * time.Second)
		observe(m, at, c.request(x.acked+1), c.ack(x.acked+1))
		observe(m, at, c.request(x.acked))
		requireSource(t, m, c.forth(), at, c.a)
		at = at.Add(9 * time.Second)
		observe(m, at, c.request(x.acked+2))
		observe(m, at, c.request(x.again))
		known := uint32(0)
		if x.known {
			known = c.a
		}
		requireSource(t, m, c.forth(), at, known, x)
	}
}

// The table has answers that do and do not match requests of a connection. The test asks for the
// sender of the answers.
func TestWhichAnswersCount(t *testing.T) {
	for _, x := range []struct {
		what  string
		m     func(c *connection) *qpmap.Map
		n     int32 // of the answer
		known bool
	}{
		{"the last", nil, 2, true},
		{"one not sent", nil, 3, false},
		{"the one before the first", nil, -1, true},
		{"the one before that", nil, -2, false},
		{"as far as the capture may have lost", func(c *connection) *qpmap.Map {
			m := established(c, true)
			observe(m, start, c.request(3+2048))
			return m
		}, 3 + 2048, true},
		{"further", func(c *connection) *qpmap.Map {
			m := established(c, true)
			observe(m, start, c.request(3+2049))
			return m
		}, 3 + 2049, false},
		{"to a stray of a connection without requests", func(c *connection) *qpmap.Map {
			m := newMap(qpmap.Config{})
			observe(m, start, c.req(), c.rep(), c.request(100))
			return m
		}, 100, false},
	} {
		t.Run(x.what, func(t *testing.T) {
			c := live()
			m := established(c, true)
			if x.m != nil {
				m = x.m(c)
			}
			observe(m, start, c.ack(uint32(x.n)))
			known := uint32(0)
			if x.known {
				known = c.b
			}
			requireSource(t, m, c.back(), start, known)
		})
	}
}

// A request that asks for an answer is remembered for it, also one that may be a stray.
func TestRequestsForAnswers(t *testing.T) {
	for _, row := range []struct {
		op   bth.Opcode
		asks bool
	}{
		{bth.RCRDMAReadRequest, true}, {bth.RCCmpSwap, true}, {bth.RCFetchAdd, true},
		{bth.RCSendOnly, false}, {bth.RCRDMAWriteOnly, false},
	} {
		t.Run(fmt.Sprint(row.op), func(t *testing.T) {
			for _, ackReq := range []bool{false, true} {
				c := live()
				m := established(c, true)
				p := c.unasking(row.op, 1000)
				p.BTH.AckReq = ackReq
				observe(m, start, p, c.ack(1000))
				known := uint32(0)
				if row.asks || ackReq {
					known = c.b
				}
				requireSource(t, m, c.back(), start, known, "%v %v", row.op, ackReq)
			}
		})
	}
}

// After a gap a connection goes on where three of its requests were answered, and from
// there as any other.
func TestGoesOn(t *testing.T) {
	for _, x := range []struct {
		n     uint32 // of the request after the answers
		known bool
	}{{4 + 2048, true}, {4 + 2049, false}} {
		c := live()
		m := established(c, true)
		later := start.Add(1100 * time.Millisecond)
		c.psnA += 1 << 20
		for n := range uint32(4) {
			observe(m, later, c.request(n))
		}
		for n := range uint32(4) {
			observe(m, later, c.ack(n))
			known := uint32(0)
			if n >= 2 {
				known = c.b
			}
			requireSource(t, m, c.back(), later, known, n)
		}
		observe(m, later, c.request(x.n))
		known := c.a
		if !x.known {
			known = 0
		}
		requireSource(t, m, c.forth(), later, known, x.n)
	}
}

// The connection continues after three answers, even if only its requests were silent, with any
// requests in the other direction.
func TestGoesOnInOneDirection(t *testing.T) {
	c := live()
	m := newMap(qpmap.Config{})
	observe(m, start, c.req(), c.rep())
	for n := range uint32(9) {
		observe(m, start, c.request(n), c.ack(n))
	}
	at := start
	for n := range uint32(30) {
		at = at.Add(100 * time.Millisecond)
		observe(m, at, c.turned().request(n))
	}
	c.psnA += 1 << 20
	for n := range uint32(3) {
		observe(m, at, c.request(n))
		requireSource(t, m, c.forth(), at, 0, n)
		observe(m, at, c.ack(n))
	}
	requireSource(t, m, c.back(), at, c.b)
	observe(m, at, c.request(3))
	requireSource(t, m, c.forth(), at, c.a)
}

// A lifetime that three answers show begins after the last of them, and 2,048 further on at most.
func TestVotedLifetime(t *testing.T) {
	for _, known := range []bool{true, false} {
		c := live()
		m := newMap(qpmap.Config{})
		for n := range uint32(3) {
			observe(m, start, c.request(n), c.ack(n))
		}
		n, srcQP := uint32(3+2048), c.a
		if !known {
			n, srcQP = n+1, 0
		}
		observe(m, start, c.request(n))
		requireSource(t, m, c.forth(), start, srcQP)
	}
}

// A connection in the place of one that was answered is believed with its third answer,
// and is then one that was answered.
func TestAnnouncedAndAnswered(t *testing.T) {
	c := live()
	m := established(c, true)
	next := *c
	next.a, next.psnA, next.psnB, next.commA, next.commB = 0x52, 0x600000, 0x700000, 1, 2
	at := start.Add(2 * time.Second)
	observe(m, at, next.req(), next.rep())
	for n := range uint32(3) {
		observe(m, at, next.request(n))
		requireSource(t, m, next.forth(), at, 0)
		observe(m, at, next.ack(n))
	}
	requireSource(t, m, next.forth(), at, next.a)
	observe(m, at, next.request(1000))
	requireSource(t, m, next.forth(), at, next.a)
}

// The payload of a First or a Middle packet, of requests and of responses, is the path MTU.
func TestSourcesOfTheMTU(t *testing.T) {
	for _, x := range []struct {
		op    bth.Opcode
		shows bool
	}{
		{bth.RCSendFirst, true}, {bth.RCSendMiddle, true}, {bth.RCSendLast, false}, {bth.RCSendOnly, false},
		{bth.RCRDMAWriteFirst, true}, {bth.RCRDMAWriteMiddle, true}, {bth.RCRDMAWriteLast, false},
		{bth.RCRDMAReadResponseFirst, true}, {bth.RCRDMAReadResponseMiddle, true},
		{bth.RCRDMAReadResponseLast, false}, {bth.RCRDMAReadResponseOnly, false},
	} {
		for _, row := range []struct {
			octets uint32
			mtu    uint16
		}{
			{0, 0}, {255, 0}, {256, 256}, {512, 512}, {1000, 0}, {1024, 1024}, {1025, 0}, {2048, 2048}, {4096, 4096},
			{4100, 0},
		} {
			t.Run(fmt.Sprint(row.octets), func(t *testing.T) {
				c := live()
				c.mtu = 0
				m := newMap(qpmap.Config{})
				observe(m, start, c.req(), c.rep(), c.request(0))
				p := c.request(1)
				response := x.op >= bth.RCRDMAReadResponseFirst && x.op <= bth.RCRDMAReadResponseOnly
				if response {
					p = c.ack(0)
				}
				var o qplearn.Observation
				o.Set(&p, 0)
				o.Opcode, o.Payload = x.op, row.octets
				m.QPs().Learn(&o, start)
				got := wiretest.Must(m.SourceQP(qpmap.Key{FlowKey: c.forth()}, start))(t)
				if !x.shows {
					row.mtu = 0
				}
				require.Equal(t, row.mtu, got.MTU, "%v, %d octets", x.op, row.octets)
			})
		}
	}
}

// The other direction of a connection known by votes begins with READs; several of them are in
// flight at the same time.
func TestBeginsWithREADs(t *testing.T) {
	const responses, underWay, octets = 200, 16, 200 * 1024
	c := live()
	m := newMap(qpmap.Config{})
	for n := range uint32(3) {
		observe(m, start, c.request(n), c.ack(n))
	}
	d := c.turned()
	for n := range uint32(underWay) {
		observe(m, start, d.read(n*responses, octets))
	}
	for n := range uint32(20) {
		for i := range uint32(responses) {
			op := bth.RCRDMAReadResponseMiddle
			switch i {
			case 0:
				op = bth.RCRDMAReadResponseFirst
			case responses - 1:
				op = bth.RCRDMAReadResponseLast
			}
			p := packet(d.B, d.A, op, d.a, d.psnA+n*responses+i)
			p.Payload = make([]byte, 1024)
			observe(m, start, p)
			requireSource(t, m, d.back(), start, d.b, "response %d of %d", i, n)
		}
		observe(m, start, d.read((n+underWay)*responses, octets))
		requireSource(t, m, d.forth(), start, d.a, "READ %d", n+underWay)
	}
}

// An attacker may have forged the READ that the requests of a direction seem to begin with. The first answer to a
// request that was seen shows the sender of the flow's last request, too.
func TestAnswerAfterForgedREAD(t *testing.T) {
	c := live()
	m := newMap(qpmap.Config{})
	for n := range uint32(3) {
		observe(m, start, c.request(n), c.ack(n))
	}
	d := c.turned()
	observe(m, start, d.read(0, 0x1000*4096)) // its responses may have all PSNs up to 0xFFFF, and not less than 0xFFF
	for n := uint32(0x1100); n < 0x1110; n += 2 {
		observe(m, start, d.request(n)) // the capture has lost every other one
	}
	requireSource(t, m, d.forth(), start, 0)
	observe(m, start, d.ack(0x1108))
	requireSource(t, m, d.forth(), start, d.a)
}
