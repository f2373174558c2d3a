package flows

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/internal/traffic"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/rocev2"
)

// A comparison finds the losses, marks, copies and delays that were applied to a generated capture.
func TestCompare(t *testing.T) {
	for seed := range uint64(60) {
		random := rand.New(rand.NewPCG(seed, 7))
		made := traffic.Generate(seed, traffic.Options{Connections: 8, Clean: true})
		offset := time.Duration(random.IntN(4)) * 3 * time.Second // of B's clock
		type truth struct {
			a, b, lost, added, copiedA, copiedB, dscp, ecn uint64
		}
		want := map[rocev2.FlowKey]truth{}
		var a, b []*traffic.Frame
		for _, f := range made.Frames {
			var p rocev2.Packet
			require.NoError(t, p.DecodeEthernet(f.Data))
			key, ok := p.FlowKey()
			require.True(t, ok)
			w := want[key]
			forth := key.Src.As16()[15] == 1
			a = append(a, f)
			w.a++
			delay := time.Duration(20+random.IntN(30)) * time.Microsecond
			if !forth {
				delay = -delay
			}
			other := *f
			other.Time = f.Time.Add(offset + delay)
			other.Data = slices.Clone(f.Data)
			switch random.IntN(12) {
			case 0:
				w.lost++
				want[key] = w
				continue
			case 1:
				wiretest.SetDSCP(t, other.Data[14:], 0)
				w.dscp++
			case 2:
				if p.ECN() != rocev2.CE {
					wiretest.SetECN(t, other.Data[14:], uint8(rocev2.CE))
					w.ecn++
				}
			case 3:
				again := other
				again.Time = again.Time.Add(3 * time.Microsecond)
				b = append(b, &again)
				if isRepeatable(&p) {
					w.copiedB++
				} else { // a retransmitted answer cannot be told from a copy
					w.added++
				}
				w.b++
			case 4:
				again := *f
				again.Time = f.Time.Add(time.Microsecond)
				a = append(a, &again)
				if isRepeatable(&p) {
					w.copiedA++
				} else {
					w.lost++
				}
				w.a++
			}
			b = append(b, &other)
			w.b++
			want[key] = w
		}
		slices.SortStableFunc(a, func(x, y *traffic.Frame) int { return x.Time.Compare(y.Time) })
		slices.SortStableFunc(b, func(x, y *traffic.Frame) int { return x.Time.Compare(y.Time) })

		c := NewComparison(ComparisonConfig{})
		sides := [2][]*traffic.Frame{a, b}
		var d Decoder
		var p Packet
		for len(sides[PointA])+len(sides[PointB]) > 0 {
			at := c.Next()
			if len(sides[at]) == 0 {
				at = 1 - at
			}
			f := sides[at][0]
			sides[at] = sides[at][1:]
			d.Decode(&p, f.Data, rocev2.DecodeOptions{})
			c.Observe(at, &p, f.Time)
		}
		c.Finish()
		for _, f := range c.Flows() {
			got := truth{f.Packets[PointA], f.Packets[PointB], f.Lost, f.Added,
				f.Duplicated[PointA], f.Duplicated[PointB],
				f.DSCP.sumChanges(), f.ECN.sumChanges()}
			if isManagement(f.DestQP) { // all PSNs are 0: copies cannot be assigned
				require.Equal(t, want[f.FlowKey].b, f.Same+f.Duplicated[PointB]+f.Added)
				continue
			}
			require.Equal(t, want[f.FlowKey], got, "seed %d: %v", seed, f.FlowKey)
			if f.Delay.Count() > 0 {
				least := offset + 20*time.Microsecond
				if f.Src.As16()[15] != 1 {
					least = offset - 50*time.Microsecond
				}
				require.InDelta(t, least+15*time.Microsecond, f.Delay.Percentile(0.5),
					float64(15*time.Microsecond)+float64(offset)/16)
			}
		}
		clocks := c.Clocks()
		require.Equal(t, ClocksBothWays, clocks.Basis)
		require.InDelta(t, offset, clocks.Offset, float64(16*time.Microsecond)+float64(offset)/16)
	}
}

// isRepeatable reports whether a second equal packet without an Identification can only be a copy.
func isRepeatable(p *rocev2.Packet) bool {
	r := roles[p.BTH.Opcode]
	return r.kind == requestKind || r.message == MessageRead
}

// A packet without counterpart within the window is dropped, together with its memory.
func TestCompareWindow(t *testing.T) {
	c := NewComparison(ComparisonConfig{Window: 100})
	s := newScript(t)
	p := Packet{kind: requestKind, pkt: observation{Flow: s.keyAB()}}
	for psn := range uint32(100_000) {
		p.pkt.PSN = psn
		c.Observe(PointA, &p, s.now.Add(time.Duration(psn)))
		require.LessOrEqual(t, c.sides[PointA].waiting, uint64(100))
	}
	c.Observe(PointB, &p, s.now)
	c.Finish()
	total := c.Total()
	require.EqualValues(t, 99_999, total.Lost)
	require.EqualValues(t, 1, total.Same)
	require.Equal(t, ClocksOneWay, c.Clocks().Basis)
}

// points gives packets of one flow to a comparison, one microsecond apart.
type points struct {
	*Comparison
	flow rocev2.FlowKey
	now  time.Time
}

func newPoints(src, dst string, config ComparisonConfig) *points {
	k := rocev2.FlowKey{Src: netip.MustParseAddr(src), Dst: netip.MustParseAddr(dst), DestQP: 17}
	return &points{NewComparison(config), k, time.Unix(1e9, 0)}
}

func (c *points) observeAt(at Point, op bth.Opcode, psn uint32, id uint16) *points {
	return c.observeAfter(time.Microsecond, at, op, psn, id)
}

func (c *points) observeAfter(d time.Duration, at Point, op bth.Opcode, psn uint32, id uint16) *points {
	c.now = c.now.Add(d)
	c.Observe(at, &Packet{kind: roles[op].kind, pkt: observation{Opcode: op, Flow: keyOf(c.flow), PSN: psn}, ident: id},
		c.now)
	return c
}

func (c *points) requireOneFlow(t *testing.T) *Compared {
	t.Helper()
	c.Finish()
	all := c.Flows()
	require.Len(t, all, 1)
	return all[0]
}

// Over IPv4, the Identification tells which of several equal packets was lost, and which is a copy,
// for ACKs as well.
func TestCompareByIdentification(t *testing.T) {
	const ms = time.Millisecond
	c := newPoints("192.0.2.1", "192.0.2.2", ComparisonConfig{})
	c.observeAt(PointA, bth.RCSendOnly, 1, 100).observeAfter(5*time.Microsecond, PointB, bth.RCSendOnly, 1, 100)
	// lost
	c.observeAt(PointA, bth.RCSendOnly, 2, 101)
	// lost
	c.observeAfter(70*ms, PointA, bth.RCSendOnly, 2, 102)
	// retransmitted
	c.observeAfter(70*ms, PointA, bth.RCSendOnly, 2, 103).observeAfter(7000, PointB, bth.RCSendOnly, 2, 103)
	// a late copy
	c.observeAfter(900*ms, PointB, bth.RCSendOnly, 2, 103)
	// an ACK
	c.observeAt(PointA, bth.RCAcknowledge, 2, 104).observeAfter(9000, PointB, bth.RCAcknowledge, 2, 104)
	// its copy
	c.observeAfter(1, PointB, bth.RCAcknowledge, 2, 104)
	// not at A
	c.observeAfter(1, PointB, bth.RCAcknowledge, 2, 105)
	// twice, and lost
	c.observeAt(PointA, bth.RCSendOnly, 3, 106).observeAt(PointA, bth.RCSendOnly, 3, 106)
	// 2 at A, 1 at B
	c.observeAt(PointA, bth.RCSendOnly, 4, 107).observeAt(PointA, bth.RCSendOnly, 4, 107)
	c.observeAt(PointB, bth.RCSendOnly, 4, 107).observeAt(PointB, bth.RCSendOnly, 5, 108).observeAt(PointB, bth.CNP,
		0, 1) // added
	f := c.requireOneFlow(t)
	require.Equal(t, [2]uint64{9, 9}, f.Packets)
	require.EqualValues(t, 4, f.Same)
	require.EqualValues(t, 3, f.Lost)
	require.EqualValues(t, 3, f.Added)
	require.Equal(t, [2]uint64{2, 2}, f.Duplicated)
	require.EqualValues(t, 4, f.Delay.Count())
	require.Equal(t, 2*time.Microsecond, f.Delay.Min()) // the first of the two with PSN 4
	require.Equal(t, 9*time.Microsecond, f.Delay.Max())
}

// Without varying Identifications, over IPv4 or IPv6, equal packets are matched in order, and give
// delays only if none is missing.
func TestCompareInOrder(t *testing.T) {
	for _, address := range []struct{ src, dst string }{{"192.0.2.1", "192.0.2.2"}, {"2001:db8::1", "2001:db8::2"}} {
		const ms = time.Millisecond
		c := newPoints(address.src, address.dst, ComparisonConfig{})
		c.observeAt(PointA, bth.RCSendOnly, 1, 0).observeAfter(5000, PointB, bth.RCSendOnly, 1, 0)
		// both arrived
		c.observeAfter(20*ms, PointA, bth.RCSendOnly, 1, 0).observeAfter(6000, PointB, bth.RCSendOnly, 1, 0)
		c.observeAt(PointA, bth.RCSendOnly, 2, 0) // lost
		c.observeAfter(20*ms, PointA, bth.RCSendOnly, 2, 0).observeAfter(7000, PointB, bth.RCSendOnly, 2, 0)
		c.observeAt(PointA, bth.RCSendOnly, 3, 0).observeAfter(8000, PointB, bth.RCSendOnly, 3, 0)
		// a copy: too early for a retransmission
		c.observeAt(PointB, bth.RCSendOnly, 3, 0)
		// none
		c.observeAfter(copyTime2, PointB, bth.RCSendOnly, 3, 0)
		// a copy at A
		c.observeAt(PointA, bth.RCRDMAReadResponseOnly, 4, 0).observeAt(PointA, bth.RCRDMAReadResponseOnly, 4, 0)
		c.observeAt(PointB, bth.RCRDMAReadResponseOnly, 4, 0)
		// retransmitted, the first one lost
		c.observeAt(PointB, bth.RCAcknowledge, 5, 0).observeAt(PointB, bth.RCAcknowledge, 5, 0)
		c.observeAt(PointA, bth.RCAcknowledge, 5, 0)
		c.observeAt(PointA, bth.CNP, 0, 0).observeAt(PointA, bth.CNP, 0, 0) // two CNPs, both lost
		f := c.requireOneFlow(t)
		require.EqualValues(t, 6, f.Same)
		require.EqualValues(t, 3, f.Lost)
		require.EqualValues(t, 2, f.Added)
		require.Equal(t, [2]uint64{1, 1}, f.Duplicated)
		require.EqualValues(t, 2, f.Delay.Count())
		require.Equal(t, 5*time.Microsecond, f.Delay.Min())
		require.Equal(t, 6*time.Microsecond, f.Delay.Max())
	}
}

// copyTime2 is the shortest time after which a packet is not a copy.
const copyTime2 = time.Duration(copyTime) + 1

// With full windows of unmatched packets at both points, Next alternates, and common packets are
// still matched.
func TestCompareAlternates(t *testing.T) {
	const window = 64
	for _, before := range [][2]int{{3 * window, 3 * window}, {window * 7 / 8, 0}, {0, window * 7 / 8}, {1, 1}} {
		c := newPoints("2001:db8::1", "2001:db8::2", ComparisonConfig{Window: window})
		var psns [2][]uint32
		for i, n := range before { // packets without counterpart
			for psn := range uint32(n) {
				psns[i] = append(psns[i], psn+uint32(i+1)<<20)
			}
			for psn := range uint32(5000) {
				if psn%50 != uint32(7*i) { // and occasionally one more
					psns[i] = append(psns[i], psn)
				}
			}
		}
		for len(psns[PointA])+len(psns[PointB]) > 0 {
			at := c.Next()
			if len(psns[at]) == 0 {
				at = 1 - at
			}
			c.observeAt(at, bth.RCSendOnly, psns[at][0], 0)
			psns[at] = psns[at][1:]
		}
		f := c.requireOneFlow(t)
		require.EqualValues(t, 4800, f.Same, before)
		require.EqualValues(t, before[PointA]+100, f.Lost, before)
		require.EqualValues(t, before[PointB]+100, f.Added, before)
	}
	// Other traffic takes a turn as well.
	c := newPoints("2001:db8::1", "2001:db8::2", ComparisonConfig{})
	for _, at := range []Point{PointA, PointB, PointA, PointB} {
		require.Equal(t, at, c.Next())
		c.Observe(at, &Packet{}, c.now)
	}
}

// Equal packets take no more time than others, and memory is that of the window, which is allocated
// on demand.
func TestCompareEqualPackets(t *testing.T) {
	c := newPoints("2001:db8::1", "2001:db8::2", ComparisonConfig{})
	for range DefaultWindow {
		c.observeAt(PointA, bth.CNP, 0, 0)
	}
	for range DefaultWindow {
		c.observeAt(PointB, bth.CNP, 0, 0)
	}
	require.EqualValues(t, 1, c.groups.Len())
	f := c.requireOneFlow(t)
	require.EqualValues(t, DefaultWindow, f.Same)
	require.EqualValues(t, DefaultWindow, f.Delay.Count())
	require.Zero(t, c.groups.Len())

	c = newPoints("2001:db8::1", "2001:db8::2", ComparisonConfig{Window: math.MaxInt})
	for psn := range uint32(18) {
		c.observeAt(PointA, bth.RCSendOnly, psn, 0)
	}
	require.LessOrEqual(t, len(c.sides[PointA].ring), 64)
	require.Empty(t, c.sides[PointB].ring)
	require.EqualValues(t, 18, c.requireOneFlow(t).Lost)
}

// Flows over the limit are evicted once none of their packets is remembered, and Total includes
// them.
func TestCompareEviction(t *testing.T) {
	const window, flows, n = 50, 100, 20_000
	c := newPoints("2001:db8::1", "2001:db8::2", ComparisonConfig{Window: window, MaxFlows: flows})
	for qp := range uint32(n) {
		c.flow.DestQP = qp
		c.observeAt(PointA, bth.RCSendOnly, 1, 0).observeAt(PointA, bth.RCSendOnly, 2, 0).observeAt(PointB,
			bth.RCSendOnly, 2, 0)
		require.LessOrEqual(t, c.Comparison.flows.Len(), flows+2*window)
		require.LessOrEqual(t, c.groups.Len(), 2*window)
	}
	c.Finish()
	total := c.Total()
	require.Equal(t, [2]uint64{2 * n, n}, total.Packets)
	require.EqualValues(t, n, total.Same)
	require.EqualValues(t, n, total.Lost)
	require.EqualValues(t, n, c.Evicted()+uint64(c.Comparison.flows.Len()))
	require.Greater(t, c.Evicted(), uint64(n-flows-2*window))
}

// Packets without a queue pair and other traffic are not matched.
func TestCompareKinds(t *testing.T) {
	c := newPoints("192.0.2.1", "192.0.2.2", ComparisonConfig{})
	require.EqualValues(t, DefaultWindow, c.window)
	require.Equal(t, defaultMaxFlows, c.maxFlows)
	for k := otherTraffic; k <= pfcKind; k++ {
		c.Observe(PointA, &Packet{kind: k, pkt: observation{Flow: keyOf(c.flow), PSN: uint32(k)}}, c.now)
		c.Observe(PointB, &Packet{kind: k, pkt: observation{Flow: keyOf(c.flow), PSN: uint32(k)}}, c.now)
	}
	total := c.Total()
	require.Equal(t, [2]uint64{5, 5}, total.Packets) // requests, answers, CNPs, Fast CNPs and PPFC
	require.EqualValues(t, 5, total.Same)
	require.Equal(t, [2]uint64{}, [2]uint64{c.sides[PointA].waiting, c.sides[PointB].waiting})
	c.observeAt(PointB, bth.RCSendOnly, 1, 2).observeAt(PointB, bth.RCSendOnly, 2, 3)
	require.EqualValues(t, 2, c.sides[PointB].waiting)
	require.Equal(t, PointA, c.Next())
	c.observeAt(PointA, bth.RCSendOnly, 2, 3)
	require.EqualValues(t, 1, c.sides[PointB].waiting)
	c.Finish()
	require.Zero(t, c.sides[PointB].waiting)
}

// Outside counts losses from before B's first packet and after its last, allowing for the typical
// delay.
func TestCompareOutside(t *testing.T) {
	for _, offset := range []time.Duration{0, time.Hour, -time.Hour} {
		c := newPoints("192.0.2.1", "192.0.2.2", ComparisonConfig{})
		begin := c.now
		at := func(point Point, after time.Duration, psn uint32) {
			c.now = begin.Add(after)
			if point == PointB {
				c.now = c.now.Add(offset + 10)
			}
			c.observeAfter(0, point, bth.RCSendOnly, psn, uint16(psn))
		}
		for psn := range uint32(40) {
			when := time.Duration(psn) * time.Millisecond
			at(PointA, when, psn)
			if psn >= 10 && psn < 30 && psn != 20 {
				at(PointB, when, psn)
			}
		}
		f := c.requireOneFlow(t)
		require.EqualValues(t, 21, f.Lost)
		require.EqualValues(t, 20, f.Outside, offset)
	}
	c := newPoints("192.0.2.1", "192.0.2.2", ComparisonConfig{})
	require.EqualValues(t, 1, c.observeAt(PointA, bth.RCSendOnly, 1, 1).requireOneFlow(t).Outside,
		"B has no packets")
}

// Percentiles of delays of both signs are correct for few and many values.
func TestDelays(t *testing.T) {
	var d Delays
	require.Zero(t, d.Percentile(0.5))
	for _, one := range []time.Duration{30, -20, 10, -math.MaxInt64 - 1} {
		d.addDelay(one)
	}
	require.EqualValues(t, -20, d.Percentile(0.5))
	require.EqualValues(t, int64(math.MinInt64), d.Percentile(0.01))
	require.EqualValues(t, 30, d.Percentile(1))
	d = Delays{}
	for i := range time.Duration(1000) { // -300 to 699
		d.addDelay((i*7)%1000 - 300)
	}
	require.EqualValues(t, 1000, d.Count())
	require.Equal(t, [2]time.Duration{-300, 699}, [2]time.Duration{d.Min(), d.Max()})
	for _, c := range []struct{ p, want float64 }{{0.001, -300}, {0.1, -201}, {0.29, -11}, {0.31, 9}, {0.5, 199},
		{0.99, 689}, {1, 699}} {
		t.Run(fmt.Sprint(c.p), func(t *testing.T) {
			require.InDelta(t, c.want, float64(d.Percentile(c.p)), math.Abs(c.want)/16+0.5, c.p)
		})
	}
}

// An equal packet within 10 µs is a copy, a later one is not.
func TestCompareCopyTime(t *testing.T) {
	for _, c := range []struct {
		after time.Duration
		copy  uint64
	}{{0, 1}, {10 * time.Microsecond, 1}, {10*time.Microsecond + 1, 0}, {-10 * time.Microsecond, 1},
		{-10*time.Microsecond - 1, 0}} {
		p := newPoints("2001:db8::1", "2001:db8::2", ComparisonConfig{})
		p.observeAt(PointA, bth.RCSendOnly, 1, 0).observeAfter(c.after, PointA, bth.RCSendOnly, 1, 0).
			observeAt(PointB, bth.RCSendOnly, 1, 0)
		f := p.requireOneFlow(t)
		require.Equal(t, c.copy, f.Duplicated[PointA], c.after)
		require.Equal(t, 1-c.copy, f.Lost, c.after)
	}
}

// The losses of a flow without delays are judged by the delays of all flows; one delay of its own
// is enough.
func TestCompareOutsideWithoutDelays(t *testing.T) {
	c := newPoints("192.0.2.1", "192.0.2.2", ComparisonConfig{})
	begin := c.now
	for ms := range uint32(40) {
		for _, f := range []struct {
			qp   uint32
			lost bool
		}{{17, false}, {18, ms != 20}, {19, true}} {
			c.flow.DestQP, c.now = f.qp, begin.Add(time.Duration(ms)*time.Millisecond)
			c.observeAfter(time.Duration(f.qp), PointA, bth.RCSendOnly, ms, uint16(ms))
			if !f.lost {
				c.observeAfter(time.Hour, PointB, bth.RCSendOnly, ms, uint16(ms))
			}
		}
	}
	c.Finish()
	total := c.Total()
	require.EqualValues(t, 79, total.Lost)
	require.EqualValues(t, 2, total.Outside, "the last two, after B's last packet")
}

// Identifications distinguish packets if most differ from the previous one, copies aside.
func TestIdentifications(t *testing.T) {
	type packet struct {
		psn uint32
		op  bth.Opcode
		id  uint16
	}
	var counted, twice, zero, few, acks, halves []packet
	for i := range uint32(20) {
		p := packet{i, bth.RCSendOnly, uint16(65530 + i)}
		counted = append(counted, p)
		twice = append(twice, p, p)
		zero = append(zero, packet{i, bth.RCSendOnly, 0})
		few = append(few, packet{i, bth.RCSendOnly, uint16(i / 7)})
		acks = append(acks, packet{5, bth.RCAcknowledge, uint16(i)})
		halves = append(halves, packet{i, bth.RCSendOnly, uint16(i / 2)}) // 9 of 19
	}
	for _, c := range []struct {
		name    string
		packets []packet
		want    bool
	}{
		{"counted", counted, true}, {"each one twice", twice, true}, {"none", zero, false}, {"few", few, false},
		{"retransmitted acknowledgements", acks, true}, {"nearly half", halves, false}, {"one", counted[:1], false},
		{"two opcodes", []packet{{1, bth.RCSendOnly, 3}, {1, bth.RCAcknowledge, 3}, {1, bth.RCSendOnly, 4}}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, v6 := range []bool{false, true} {
				var f comparedFlow
				for _, p := range c.packets {
					packet := Packet{pkt: observation{Opcode: p.op, PSN: p.psn}, ident: p.id}
					if packet.pkt.Flow.QP = overIPv4; v6 {
						packet.pkt.Flow.QP = 0
					}
					f.ids[PointB].observePacket(&packet)
				}
				require.Equal(t, c.want && !v6, f.hasIdentifications())
			}
		})
	}
}
