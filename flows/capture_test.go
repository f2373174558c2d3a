package flows

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/encap"
	"github.com/rocecn/rocecn/internal/traffic"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/rocev2"
)

// A simulation makes the packets of connections in turns: messages of several packets, with an ACK
// for the last one. The network loses packets; the receiver then asks for them with a NAK, and the
// sender goes back.
type simulation struct {
	*rand.Rand
	connections int
	packets     int     // of requests
	loss        float64 // share of requests that the network loses after the capture point
	before      float64 // share that it loses before it
	oneWay      bool
	sameHosts   bool             // all connections are between the same two hosts
	captured    func(i int) bool // reports whether packet i is captured; nil: all
}

// run returns a table with the packets that were captured, a microsecond apart.
func (s *simulation) run() *Table { return s.runJumped(0, 0) }

// runJumped is run with a clock that is ahead by so much from a frame on; 0 is none.
func (s *simulation) runJumped(from int, by time.Duration) *Table {
	return s.runSteps(ClockStep{Frame: uint64(from), By: by})
}

// runSteps is run with a clock that jumps before these frames; frame 0 is none.
func (s *simulation) runSteps(steps ...ClockStep) *Table {
	table := New(Config{Seed: 1})
	sent, frame := 0, 0
	s.send(func(p *Packet) {
		sent++
		if s.captured != nil && !s.captured(sent-1) {
			return
		}
		now := time.Unix(1e9, int64(sent)*1000)
		frame++
		for _, step := range steps {
			if step.Frame > 0 && uint64(frame) >= step.Frame {
				now = now.Add(step.By)
			}
		}
		table.Observe(p, uint64(frame), now)
	})
	return table
}

// send calls observe with each packet.
func (s *simulation) send(observe func(*Packet)) {
	next := make([]uint32, s.connections)
	for i := range next {
		next[i] = s.Uint32N(1 << 24)
	}
	keys := func(i int) (forth, back key) {
		k := key{Src: mappedPrefix, Dst: mappedPrefix, QP: 0x200000 + uint32(i) | overIPv4}
		k.Src[12], k.Dst[12], k.Src[15], k.Dst[15] = 10, 10, byte(i), 255
		if s.sameHosts {
			k.Src[15] = 1
		}
		return k, k.Reversed(0x100000 + uint32(i))
	}
	const message = 8
	sent := 0
	for sent < s.packets {
		i := s.IntN(s.connections)
		forth, back := keys(i)
		for at := uint32(0); at < message; at++ {
			psn := bth.AddPSN(next[i], at)
			op := bth.RCRDMAWriteMiddle
			switch at {
			case 0:
				op = bth.RCRDMAWriteFirst
			case message - 1:
				op = bth.RCRDMAWriteLast
			}
			sent++
			p := Packet{kind: requestKind, ipOctets: 1084, ident: uint16(sent)}
			p.pkt.Flow, p.pkt.PSN, p.pkt.Opcode, p.pkt.Payload = forth, psn, op, 1024
			p.pkt.AckReq = at == message-1
			lost := s.Float64() < s.before
			if !lost {
				observe(&p)
				lost = s.Float64() < s.loss
			}
			if lost { // the receiver sees the next packet, and asks for this one
				p.pkt.PSN = bth.AddPSN(psn, 1)
				p.pkt.AckReq = false
				observe(&p)
				if !s.oneWay {
					nak := Packet{kind: answerKind}
					nak.pkt.Flow, nak.pkt.PSN, nak.pkt.Opcode, nak.pkt.Syndrome = back, psn, bth.RCAcknowledge, 0x60
					observe(&nak)
				}
				at--
			}
		}
		next[i] = bth.AddPSN(next[i], message)
		if !s.oneWay {
			ack := Packet{kind: answerKind}
			ack.pkt.Flow, ack.pkt.PSN, ack.pkt.Opcode, ack.pkt.Syndrome = back, bth.AddPSN(next[i], bth.MaxPSN),
				bth.RCAcknowledge, 0x1F
			observe(&ack)
		}
	}
}

// The error rates in docs/flows.md: sampled captures are recognized with their rate, others are never
// called sampled.
func TestSamplingErrors(t *testing.T) {
	random := func(r *rand.Rand, share float64) func(int) bool {
		return func(int) bool { return r.Float64() < share }
	}
	for _, c := range []struct {
		name   string
		of     func(s *simulation)
		want   uint64  // 0: not sampled
		errors float64 // share of captures with another result
	}{
		{"1 in 2", func(s *simulation) { s.captured = random(s.Rand, 0.5) }, 2, 0},
		{"1 in 8", func(s *simulation) { s.captured = random(s.Rand, 0.125) }, 8, 0},
		{"1 in 8, with 1 % losses", func(s *simulation) { s.captured, s.loss = random(s.Rand, 0.125), 0.01 }, 8, 0},
		{"every 8th", func(s *simulation) { s.captured = func(i int) bool { return i%8 == 0 } }, 8, 0},
		{"1 in 100", func(s *simulation) { s.captured, s.packets = random(s.Rand, 0.01), 40_000 }, 100, 0.02},
		{"1 in 8, one way", func(s *simulation) { s.captured, s.oneWay = random(s.Rand, 0.125), true }, 8, 0},
		{"all", func(*simulation) {}, 0, 0},
		{"0.1 % losses", func(s *simulation) { s.loss = 0.001 }, 0, 0},
		{"30 % losses", func(s *simulation) { s.loss = 0.3 }, 0, 0},
		{"30 % losses before", func(s *simulation) { s.before = 0.3 }, 0, 0},
		{"60 % losses before, one way", func(s *simulation) { s.before, s.oneWay = 0.6, true }, 0, 0},
		{"the capture drops 30 %", func(s *simulation) { s.captured = random(s.Rand, 0.7) }, 0, 0},
		{"the capture drops half, in bursts", func(s *simulation) {
			s.captured = func(i int) bool { return i/64%2 == 0 }
		}, 0, 0},
		{"the capture drops 90 %, in bursts", func(s *simulation) {
			s.captured = func(i int) bool { return i/200%10 == 0 }
		}, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			rounds, wrong := wiretest.RoundsOrLong(20, 50), 0
			for seed := range uint64(rounds) {
				s := &simulation{Rand: rand.New(rand.NewPCG(seed, 7)), packets: 4000}
				s.connections = 1 + s.IntN(32)
				c.of(s)
				table := s.run()
				got := table.Snapshot()
				if n := got.Capture.Sampled; c.want == 0 && n != 0 || n < c.want-c.want/4 || n > c.want+c.want/4 {
					wrong++
					t.Logf("seed %d: %d, %+v", seed, n, table.capture.sampling)
				}
				if got.Capture.Sampled > 0 {
					for _, f := range got.Flows {
						require.Equal(t, got.Capture.Sampled, f.Sampled)
						require.InDelta(t, f.Mean*float64(f.Sampled), f.Data.Mean, 1)
						require.Equal(t, f.PSN.Retransmitted+f.Answers.Total()-f.ACKs, f.Trouble())
						require.Zero(t, f.PSN.Lost+f.PSN.Unseen)
						require.Equal(t, f.PSN.Missing, f.PSN.Unjudged+f.PSN.Late)
					}
				}
			}
			require.LessOrEqual(t, float64(wrong), c.errors*float64(rounds), "%d of %d", wrong, rounds)
		})
	}
}

// doubled returns the packets of a capture, each of them twice.
func doubled(made *traffic.Capture, after time.Duration) (frames []*traffic.Frame) {
	for _, f := range made.Frames {
		second := *f
		second.Time = f.Time.Add(after)
		frames = append(frames, f, &second)
	}
	slices.SortStableFunc(frames, func(a, b *traffic.Frame) int { return a.Time.Compare(b.Time) })
	return frames
}

// A capture that has each packet twice gives the counts of one that has it once, and copies.
func TestEachTwice(t *testing.T) {
	for _, c := range []struct {
		name  string
		after time.Duration
		want  bool
	}{
		{"at the same time", 0, true},
		{"300 ns later", 300, true},
		{"900 µs later", 900 * time.Microsecond, true},
		{"2 ms later", 2 * time.Millisecond, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			for seed := range uint64(wiretest.Rounds(20)) {
				made := traffic.Generate(seed, traffic.Options{Clean: true, Connections: 3})
				once := tableOf(made, Config{}).Snapshot()
				require.False(t, once.Capture.EachTwice)
				twice := tableOf(&traffic.Capture{Frames: doubled(made, c.after)}, Config{}).Snapshot()
				require.Equal(t, c.want, twice.Capture.EachTwice)
				if !c.want {
					continue
				}
				require.Equal(t, len(once.Flows), len(twice.Flows))
				for i := range once.Flows {
					one, two := &once.Flows[i], &twice.Flows[i]
					if one.Sequenced {
						require.Equal(t, one.Packets, two.PSN.Copies)
						two.PSN.Copies = 0
					}
					require.Equal(t, one.PSN, two.PSN)
					require.Equal(t, one.Requests.Packets, two.Requests.Packets)
					require.Equal(t, one.Answers.ACKs, two.Answers.ACKs)
					require.Equal(t, one.SrcQP, two.SrcQP)
					require.Equal(t, one.RTT, two.RTT)
				}
				require.Equal(t, 2*once.Stats.Packets, twice.Stats.Packets)
			}
		})
	}
}

// Other traffic before the packets does not hide that each of them comes twice.
func TestTwiceAfterOtherTraffic(t *testing.T) {
	made := traffic.Generate(3, traffic.Options{Clean: true, Connections: 3})
	table := New(Config{})
	for n := range uint64(2 * maxUndecided) {
		table.Observe(&Packet{kind: otherTraffic}, n+1, made.Frames[0].Time)
	}
	var d Decoder
	var p Packet
	for i, f := range doubled(made, 300) {
		d.Decode(&p, f.Data, rocev2.DecodeOptions{})
		table.Observe(&p, uint64(2*maxUndecided+i+1), f.Time)
	}
	got := table.Snapshot()
	require.True(t, got.Capture.EachTwice)
	for _, f := range got.Flows {
		require.Zero(t, f.PSN.Retransmitted)
	}
}

// Retransmissions are no copies: the capture may have each request twice for that reason, but not each
// packet, and not within 1 ms.
func TestNotEachTwice(t *testing.T) {
	s := newScript(t)
	for psn := uint32(10); psn < 200; psn++ {
		s.setTime(int(psn)*20).Table.Observe(&Packet{kind: requestKind, pkt: observation{Opcode: bth.RCSendOnly,
			Flow: s.keyAB(), PSN: psn, AckReq: true}, ident: uint16(psn)}, uint64(2*psn), s.now)
		s.Table.Observe(&Packet{kind: requestKind, pkt: observation{Opcode: bth.RCSendOnly,
			Flow: s.keyAB(), PSN: psn, AckReq: true}, ident: uint16(1000 + psn)}, uint64(2*psn+1), s.now)
	}
	require.False(t, s.Snapshot().Capture.EachTwice)
	require.EqualValues(t, 190, s.onlyFlow().PSN.Retransmitted)
}

// If each packet comes twice, it has CE if either copy has, and a retransmission comes twice as well.
func TestTwinMarks(t *testing.T) {
	s := newScript(t)
	at := 0
	send := func(psn uint32, classes ...uint8) {
		for _, class := range classes {
			s.setTime(at)
			s.frame++
			s.Table.Observe(&Packet{kind: requestKind, pkt: observation{Opcode: bth.RCSendOnly, Flow: s.keyAB(),
				PSN: psn, AckReq: true}, trafficClass: class}, s.frame, s.now)
			at++
		}
	}
	for psn := uint32(10); psn < 20; psn++ {
		send(psn, 2, 2)
	}
	send(20, 2, 3)
	send(21, 3, 2)
	send(22, 3, 3)
	send(15, 2, 2)
	f := s.onlyFlow()
	require.True(t, s.Snapshot().Capture.EachTwice)
	require.Equal(t, [4]uint64{2: 11, 3: 3}, f.ECN)
	require.EqualValues(t, 14, f.Packets)
	require.EqualValues(t, 14, f.PSN.Copies)
	require.EqualValues(t, 1, f.PSN.Retransmitted)
}

// Of two copies in different tunnels, either may have the mark: the packet came with CE once.
func TestTwinOuterMarks(t *testing.T) {
	inTunnel := outerHeader{set: true, trafficClass: 3, ce: true, kinds: 1 << rocev2.VXLAN}
	for _, row := range []struct {
		name          string
		first, second Packet
		want          uint64
	}{
		{"the second has it in the tunnel", Packet{trafficClass: 2}, Packet{trafficClass: 2, outer: inTunnel}, 20},
		{"the first has it in the tunnel", Packet{trafficClass: 2, outer: inTunnel}, Packet{trafficClass: 2}, 20},
		{"in the tunnel, and then inside", Packet{trafficClass: 2, outer: inTunnel}, Packet{trafficClass: 3}, 20},
		{"inside, and then in the tunnel", Packet{trafficClass: 3}, Packet{trafficClass: 2, outer: inTunnel}, 20},
		{"neither", Packet{trafficClass: 2}, Packet{trafficClass: 2}, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := newScript(t)
			s.Table = New(Config{Series: true})
			for psn := range uint32(20) {
				for _, p := range [...]Packet{row.first, row.second} {
					p.kind = requestKind
					p.pkt = observation{Opcode: bth.RCSendOnly, Flow: s.keyAB(), PSN: psn}
					s.frame++
					s.Table.Observe(&p, s.frame, s.now)
				}
			}
			f := s.onlyFlow()
			require.True(t, s.Snapshot().Capture.EachTwice)
			require.Equal(t, Data{Packets: 20, CE: row.want}, f.Data)
			require.Equal(t, row.first.outer.set, f.Outer != nil)
			marked := uint64(0)
			for _, b := range s.Series(f.FlowKey).Bins {
				marked += uint64(b.CE)
			}
			require.Equal(t, row.want, marked)
		})
	}
}

// A clock step changes no rates and no round trips, and it is reported with the frame after it. A
// pause between messages is no step.
func TestClockSteps(t *testing.T) {
	for _, by := range []time.Duration{-5 * time.Second, -time.Hour, 5 * time.Second, 1500 * time.Millisecond} {
		t.Run(by.String(), func(t *testing.T) {
			missed := 0
			rounds := wiretest.RoundsOrLong(20, 50)
			for seed := range uint64(rounds) {
				s := &simulation{Rand: rand.New(rand.NewPCG(seed, 9)), packets: 2000, connections: 4}
				plain := s.run()
				s.Rand = rand.New(rand.NewPCG(seed, 9))
				const at = 1003
				step := s.runJumped(at, by)
				one, two := plain.Snapshot(), step.Snapshot()
				if len(two.Capture.ClockSteps) == 0 && by > 0 {
					missed++ // the step is between two messages
					continue
				}
				require.Len(t, two.Capture.ClockSteps, 1)
				require.EqualValues(t, at, two.Capture.ClockSteps[0].Frame)
				require.InDelta(t, float64(by), float64(two.Capture.ClockSteps[0].By), 2000)
				require.Zero(t, two.Capture.OutOfOrder)
				for i := range one.Flows {
					require.InEpsilon(t, one.Flows[i].Mean, two.Flows[i].Mean, 0.01)
					require.Equal(t, one.Flows[i].PSN, two.Flows[i].PSN)
					require.InDelta(t, float64(one.Flows[i].Last.Add(by).Sub(two.Flows[i].Last)), 0, 2000)
					require.Equal(t, one.Flows[i].First, two.Flows[i].First)
					require.LessOrEqual(t, two.Flows[i].RTT.Percentile(1), one.Flows[i].RTT.Percentile(1))
				}
			}
			require.LessOrEqual(t, missed, rounds/4)
		})
	}
}

// Packets with a wrong ICRC are no evidence for a clock step, as they may be forged.
func TestClockStepsNeedValidPackets(t *testing.T) {
	of := func(wrong bool) []ClockStep {
		s := &simulation{Rand: rand.New(rand.NewPCG(1, 9)), packets: 300, connections: 4}
		table := New(Config{Seed: 1})
		var frame uint64
		s.send(func(p *Packet) {
			now := time.Unix(1e9, int64(frame)*1000)
			if frame >= 203 {
				now, p.icrcWrong = now.Add(time.Hour), wrong
			}
			frame++
			table.Observe(p, frame, now)
		})
		return table.Snapshot().Capture.ClockSteps
	}
	require.Len(t, of(false), 1)
	require.Empty(t, of(true))
}

// In a sample, acknowledgements are matched with flows by the range of their PSNs. No pair is wrong.
func TestSampledPairs(t *testing.T) {
	for _, c := range []struct {
		name      string
		share     float64
		sameHosts bool
	}{
		{"1 in 8", 1. / 8, false}, {"1 in 30", 1. / 30, false}, {"1 in 100", 1. / 100, false},
		{"1 in 30, between two hosts", 1. / 30, true}, {"1 in 100, between two hosts", 1. / 100, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			found, all := 0, 0
			for seed := range uint64(wiretest.Rounds(6)) {
				s := &simulation{Rand: rand.New(rand.NewPCG(seed, 12)), packets: 40_000, connections: 5,
					sameHosts: c.sameHosts}
				keep := rand.New(rand.NewPCG(seed, 13))
				s.captured = func(int) bool { return keep.Float64() < c.share }
				got := s.run().Snapshot()
				require.NotZero(t, got.Capture.Sampled)
				for i := range got.Flows {
					f := &got.Flows[i]
					all++
					require.EqualValues(t, bth.ComparePSN(f.PSN.Last, f.PSN.First)+1, f.Packets+f.PSN.Missing)
					if f.SrcQPFrom != 0 {
						found++
						require.Equal(t, f.DestQP-0x100000, f.SrcQP, "seed %d", seed)
						require.Positive(t, f.ACKs)
					}
				}
			}
			require.Greater(t, found, all*9/10)
		})
	}
}

// Connections between the same hosts that use the same PSNs in a sample are no pairs.
func TestSampledPairsAmbiguous(t *testing.T) {
	s := newScript(t)
	forth := [2]key{s.keyAB(), s.keyAB()}
	forth[1].QP = 28 | overIPv4
	back := [2]key{s.keyBA(), s.keyBA()}
	back[1].QP = 27 | overIPv4
	for i := range uint32(60) {
		for c := range 2 {
			s.now = s.now.Add(time.Millisecond)
			s.observe(Packet{kind: requestKind, pkt: observation{Opcode: bth.RCSendOnly, Flow: forth[c],
				PSN: 100 + 37*i, AckReq: true, Payload: 100}})
			s.observe(Packet{kind: answerKind, pkt: observation{Opcode: bth.RCAcknowledge, Flow: back[c],
				PSN: 110 + 37*i, Syndrome: 0x1F}})
		}
	}
	got := s.Snapshot()
	require.NotZero(t, got.Capture.Sampled)
	for i := range got.Flows {
		require.Zero(t, got.Flows[i].SrcQPFrom)
	}
}

// Flows of a sample are only paired up to a number between two addresses, because each is compared with each
// queue pair that has answers.
func TestSampledPairsLimit(t *testing.T) {
	for _, c := range []struct {
		name  string
		flows uint32
		pairs int
	}{{"as many as are compared", maxSampledFlows, 1}, {"one more", maxSampledFlows + 1, 0}} {
		t.Run(c.name, func(t *testing.T) {
			s := newScript(t)
			send := func(qp, psn uint32) {
				s.now = s.now.Add(time.Millisecond)
				flow := s.keyAB()
				s.observe(Packet{kind: requestKind, pkt: observation{Opcode: bth.RCSendOnly, Flow: flow.WithQP(qp),
					PSN: psn, AckReq: true, Payload: 100}})
			}
			for i := range uint32(60) {
				send(0x100, 100+37*i)
				s.observe(Packet{kind: answerKind, pkt: observation{Opcode: bth.RCAcknowledge, Flow: s.keyBA(),
					PSN: 110 + 37*i, Syndrome: 0x1F}})
			}
			for i := range c.flows - 1 {
				send(0x200+i, 1<<23)
			}
			got := s.Snapshot()
			require.NotZero(t, got.Capture.Sampled)
			pairs := 0
			for i := range got.Flows {
				if got.Flows[i].SrcQPFrom != 0 {
					pairs++
				}
			}
			require.Equal(t, c.pairs, pairs)
		})
	}
}

// A clock that jumps twice within a few frames has two steps, and the rates are those without steps.
func TestTwoClockSteps(t *testing.T) {
	const at = 1003
	for _, c := range []struct {
		name          string
		first, second time.Duration
		between       uint64 // frames between the two jumps
	}{
		{"forward and back after 7 frames", 5 * time.Second, -5 * time.Second, 7},
		{"forward and back after 40 frames", 5 * time.Second, -5 * time.Second, 40},
		{"forward twice", 5 * time.Second, 3 * time.Second, 9},
		{"back and forward after 12 frames", -5 * time.Second, 5 * time.Second, 12},
		{"back twice", -5 * time.Second, -3 * time.Second, 5},
		{"back and half forward", -8 * time.Second, 3 * time.Second, 8},
	} {
		t.Run(c.name, func(t *testing.T) {
			missed := 0
			rounds := wiretest.RoundsOrLong(20, 40)
			for seed := range uint64(rounds) {
				s := &simulation{Rand: rand.New(rand.NewPCG(seed, 9)), packets: 2000, connections: 4}
				plain := s.run().Snapshot()
				s.Rand = rand.New(rand.NewPCG(seed, 9))
				stepped := s.runSteps(ClockStep{at, c.first}, ClockStep{at + c.between, c.second}).Snapshot()
				steps := stepped.Capture.ClockSteps
				if len(steps) < 2 && c.first+c.second != 0 && max(c.first, c.second) > 0 {
					missed++ // a step forward is between two messages
					continue
				}
				require.Len(t, steps, 2, "seed %d", seed)
				require.Equal(t, []uint64{at, at + c.between}, []uint64{steps[0].Frame, steps[1].Frame})
				require.InDelta(t, float64(c.first), float64(steps[0].By), 2000)
				require.InDelta(t, float64(c.second), float64(steps[1].By), 2000)
				require.Zero(t, stepped.Capture.OutOfOrder)
				for i := range plain.Flows {
					require.InEpsilon(t, plain.Flows[i].Mean, stepped.Flows[i].Mean, 0.01)
					require.Equal(t, plain.Flows[i].PSN, stepped.Flows[i].PSN)
				}
			}
			require.LessOrEqual(t, missed, rounds/2)
		})
	}
}

// A frame with a time in the past, as from another queue of an interface, is out of order. It is no step.
func TestLateFrames(t *testing.T) {
	for _, late := range []uint64{1, 3, 7} {
		s := &simulation{Rand: rand.New(rand.NewPCG(1, 9)), packets: 2000, connections: 4}
		got := s.runSteps(ClockStep{1003, -5 * time.Second}, ClockStep{1003 + late, 5 * time.Second},
			ClockStep{1500, -5 * time.Second}).Snapshot()
		require.Len(t, got.Capture.ClockSteps, 1, "%d frames", late)
		require.EqualValues(t, 1500, got.Capture.ClockSteps[0].Frame)
		require.EqualValues(t, 1, got.Capture.OutOfOrder)
	}
}

// timesIn calls found for each time in a value, with its path.
func timesIn(v reflect.Value, path string, found func(path string, t time.Time)) {
	if t, ok := v.Interface().(time.Time); ok {
		found(path, t)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			timesIn(v.Elem(), path, found)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if field := v.Type().Field(i); field.IsExported() {
				timesIn(v.Field(i), path+"."+field.Name, found)
			}
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			timesIn(v.Index(i), path, found)
		}
	}
}

// After a clock step all times in a snapshot are those of captured frames.
func TestTimesAfterClockStep(t *testing.T) {
	seen := map[string]bool{}
	for seed := range uint64(20) {
		made := traffic.Generate(seed, traffic.Options{Connections: 3})
		captured := map[time.Time]bool{{}: true}
		for i, f := range made.Frames {
			if i >= len(made.Frames)/2 {
				f.Time = f.Time.Add(-time.Hour)
			}
			captured[f.Time] = true
		}
		s := tableOf(made, Config{Evidence: true}).Snapshot()
		require.Len(t, s.Capture.ClockSteps, 1)
		check := func(path string, at time.Time) {
			seen[path] = seen[path] || !at.IsZero()
			require.True(t, captured[at], "seed %d: %s is %v", seed, path, at)
		}
		timesIn(reflect.ValueOf(s), "", check)
		for i := range s.Flows {
			for k := range signKinds {
				timesIn(reflect.ValueOf(s.Flows[i].Evidence.Sign(k)), ".Sign", check)
			}
		}
	}
	for _, path := range []string{".Flows.First", ".Flows.Responses.Last", ".Flows.Evidence.Episodes.Until",
		".Sign.Until"} {
		require.True(t, seen[path], "%s in none of %v", path, slices.Sorted(maps.Keys(seen)))
	}

	sign := Sign{Since: timeOf(200), Until: timeOf(200)}
	control := Control{Unheeded: sign, Unanswered: sign}
	s := &Snapshot{
		Flows:    []Flow{{Evidence: &Evidence{Control: control, Trimmings: []Sign{sign}}}},
		Unpaired: []Unpaired{{CNP: sign, Refused: sign, RNR: sign, WrongAnswer: sign}},
	}
	(&captureClock{segments: []segment{{begins: 100, shift: 7}}}).restoreTimes(s)
	timesIn(reflect.ValueOf(s), "", func(path string, at time.Time) {
		require.True(t, at.IsZero() || at.Equal(timeOf(193)), "%s: %v", path, at)
	})
}

// Frames that are out of order are counted, and single frames with a wrong time are no clock steps.
func TestOutOfOrder(t *testing.T) {
	for _, c := range []struct {
		name  string
		times []int // in milliseconds
		want  uint64
		steps int
	}{
		{"in order", []int{0, 1, 1, 2}, 0, 0},
		{"one is late", []int{0, 2, 1, 3}, 1, 0},
		{"two are late", []int{0, 5, 3, 1, 6}, 2, 0},
		{"one is an hour late", []int{4_000_000, 0, 4_000_001, 4_000_002, 4_000_003}, 1, 0},
		{"the clock goes back", []int{4_000_000, 4_000_001, 0, 1, 2, 3}, 0, 1},
		{"a pause", []int{0, 1, 5000, 5001}, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScript(t)
			for i, ms := range c.times {
				s.setTime(ms * 1000)
				s.Table.Observe(&Packet{kind: otherTraffic}, uint64(i+1), s.now)
			}
			got := s.Snapshot().Capture
			require.Equal(t, c.want, got.OutOfOrder)
			require.Len(t, got.ClockSteps, c.steps)
		})
	}
}

// A capture has one direction if requests need answers, and none came back.
func TestOneWay(t *testing.T) {
	for _, c := range []struct {
		name   string
		script *script
		want   bool
	}{
		{"nothing", newScript(t), false},
		{"requests", newScript(t).sendOnly(10, 11), true},
		{"requests without AckReq", newScript(t).sendFirst(1024, 10), false},
		{"UC", newScript(t).sendOp(bth.UCSendOnly, 10, 11), false},
		{"an answer that matches", newPaired(t, 10).sendOnly(10, 11).answerACK(11), false},
		{"an answer that does not match", newScript(t).sendOnly(10, 11).answerACK(900_000), false},
		{"a CNP", newScript(t).sendOnly(10, 11).sendCNP(0), false},
		{"a notification about the other direction", func() *script {
			s := newScript(t).sendOnly(10, 11)
			s.observe(Packet{kind: ppfcKind, pkt: observation{Opcode: bth.CNP, Flow: s.keyAB()}, about: s.keyBA()})
			return s
		}(), true},
		{"answers in the direction of requests", func() *script {
			s := newScript(t).sendOnly(10, 11)
			s.observe(Packet{kind: answerKind, pkt: observation{Opcode: bth.RCAcknowledge, Flow: s.keyAB(), PSN: 7,
				Syndrome: 0x1F}})
			return s
		}(), true},
	} {
		t.Run(c.name, func(t *testing.T) { require.Equal(t, c.want, c.script.Snapshot().Capture.OneWay) })
	}
}

// Frames that could be RoCE are named by the header at which decoding stopped.
func TestUnread(t *testing.T) {
	roce := newFrame(bth.RCSendOnly, 18, rocev2.Port, 8+12+10+4, 12+10+4)
	ip := roce[14:]
	ether := func(tag ...byte) []byte { return append(make([]byte, 12), tag...) }
	// outer IPv4 header with this protocol, and the octets after it
	carry := func(proto byte, b ...byte) []byte {
		h := append(ether(8, 0), 0x45, 0, 0, byte(20+len(b)), 0, 0, 0, 0, 64, proto, 0, 0, 192, 0, 2, 3, 192, 0, 2, 4)
		return append(h, b...)
	}
	udp := func(port uint16, b []byte) []byte {
		return append([]byte{0xC0, 0, byte(port >> 8), byte(port), 0, byte(8 + len(b)), 0, 0}, b...)
	}
	v6 := func(next byte, b ...byte) []byte {
		h := append(ether(0x86, 0xDD), 0x60, 0, 0, 0, 0, byte(len(b)), next, 64)
		return append(append(h, make([]byte, 32)...), b...)
	}
	for _, c := range []struct {
		name string
		b    []byte
		want string // "" if the frame is no RoCE
	}{
		{"GRE", carry(47, append([]byte{0, 0, 0x12, 0x34, 1, 2, 3, 4}, ip...)...), "gre 0x1234"},
		{"ESP", carry(50, make([]byte, 40)...), "ip protocol 50"},
		{"L2TPv3", carry(115, make([]byte, 40)...), "ip protocol 115"},
		{"L2TPv3 after options of IPv6", v6(60, append([]byte{115, 0, 1, 4, 0, 0, 0, 0}, make([]byte, 40)...)...),
			"ip protocol 115"},
		{"TCP", carry(6, make([]byte, 40)...), ""},
		{"another UDP port", carry(17, udp(9999, append(make([]byte, 8), ip...))...), "udp port 9999"},
		{"another UDP port, with nothing of RoCE", carry(17, udp(9999, make([]byte, 60))...), ""},
		{"MACsec", append(ether(0x88, 0xE5), make([]byte, 60)...), "ethertype 0x88e5"},
		{"ARP", append(ether(8, 6), make([]byte, 46)...), ""},
		{"LLC", append(ether(0, 38), make([]byte, 46)...), ""},
		{"RoCEv1", append(ether(0x89, 0x15), make([]byte, 60)...), "ethertype 0x8915"},
		{"RoCE", roce, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var d Decoder
			var p Packet
			d.Decode(&p, c.b, rocev2.DecodeOptions{})
			if c.want == "" {
				require.Zero(t, p.unread)
				return
			}
			require.NotZero(t, p.unread)
			require.Equal(t, c.want, p.unread.String())
			table := New(Config{})
			table.Observe(&p, 1, time.Unix(1, 0))
			got := table.Snapshot().Capture
			if p.unread == roceV1Header {
				require.EqualValues(t, 1, got.RoCEv1)
			} else {
				require.Equal(t, map[string]uint64{c.want: 1}, got.Unread)
			}
			d.Outer = true
			d.Decode(&p, c.b, rocev2.DecodeOptions{})
			require.Zero(t, p.unread, "tunnels are not read by choice")
		})
	}
	table := New(Config{})
	for port := range uint64(maxUnread + 10) {
		table.Observe(&Packet{unread: unreadUDPPort | unreadHeader(port)}, 1, time.Unix(1, 0))
	}
	got := table.Snapshot().Capture.Unread
	require.Len(t, got, maxUnread+1)
	require.EqualValues(t, 10, got["other"])
}

// A trimmed packet is no request: its PSN is missing until it is retransmitted.
func TestTrimmed(t *testing.T) {
	// An RDMA WRITE Only with PSN 11 and a payload of 1024 octets, trimmed to 64 octets of IP: the UDP
	// length is 8 + 12 + 16 + 1024 + 4.
	frame := wiretest.Hex(t, "020000000002 020000000001 0800 456a0040 00010000 40110000 c0000201 c0000202"+
		"c35012b7 04280000 0a40ffff 00000012 8000000b 00007f00000fa000 00001234 00000400 e8e8e8e8e8e8e8e8")
	var d Decoder
	var trimmed Packet
	require.True(t, d.Decode(&trimmed, frame, rocev2.DecodeOptions{}))
	require.Equal(t, trimmedKind, trimmed.kind)
	s := newScript(t)
	s.Table = New(Config{Evidence: true})
	s.exchangeCM(7, 10, 1024).sendOnly(10)
	s.observe(trimmed)
	s.sendOnly(12).answerNAK(11).sendOnly(11, 12).answerACK(12)
	f := s.onlyFlow()
	require.EqualValues(t, 1, f.Trimmed)
	require.EqualValues(t, 4, f.Packets)
	require.Equal(t, PSN{First: 10, Last: 12, Connections: 1, Gaps: 1, Missing: 1, Late: 1, Retransmitted: 1}, f.PSN)
	require.EqualValues(t, 1, f.Evidence.Sign(SignTrimmed).Count)
	got := s.Snapshot().Capture
	require.EqualValues(t, 1, got.Trimmed)
	require.Zero(t, got.TruncatedTo)
	require.Zero(t, s.Stats().Broken)
}

// trim observes requests with these PSNs that a switch trimmed.
func (s *script) trim(psns ...uint32) *script {
	for _, psn := range psns {
		s.observe(Packet{kind: trimmedKind, pkt: observation{Opcode: bth.RCSendOnly, Flow: s.keyAB(), PSN: psn}})
	}
	return s
}

// Trimmed packets less than 100 µs apart are one episode. Of more than 24 episodes, the closest are joined.
func TestTrimmings(t *testing.T) {
	s := newScript(t)
	s.Table = New(Config{Evidence: true})
	begun := s.now
	at := func(d time.Duration) {
		s.now = begun.Add(d)
		s.trim(5)
	}
	at(0)
	at(60 * time.Microsecond)
	at(time.Second)
	first, second := s.onlyFlow().Evidence.Trimmings[0], s.onlyFlow().Evidence.Trimmings[1]
	require.Len(t, s.onlyFlow().Evidence.Trimmings, 2)
	require.EqualValues(t, 2, first.Count)
	require.Equal(t, begun.Add(60*time.Microsecond).Unix(), first.Until.Unix())
	require.Less(t, first.Until.Sub(first.Since), time.Millisecond)
	require.EqualValues(t, 1, second.Count)
	for i := range 22 {
		at(time.Duration(2+i) * time.Minute)
	}
	require.Len(t, s.onlyFlow().Evidence.Trimmings, 24)
	at(time.Hour)
	at(time.Hour + time.Second/2)
	all := s.onlyFlow().Evidence.Trimmings
	require.Len(t, all, 24)
	require.EqualValues(t, 3, all[0].Count, "joined with the second one")
	require.Equal(t, []uint64{first.First, second.Last}, []uint64{all[0].First, all[0].Last})
	require.Equal(t, second.Until, all[0].Until)
	require.EqualValues(t, 2, all[23].Count, "joined with the last one")
	require.Equal(t, []uint64{27, 27}, []uint64{s.onlyFlow().Trimmed, s.onlyFlow().Evidence.Sign(SignTrimmed).Count})
}

// A trimmed packet is matched with the NAK that it causes and with its retransmission. It is lost.
func TestTrimmedRecovered(t *testing.T) {
	for _, c := range []struct {
		name                          string
		play                          func(s *script)
		trimmed, recovered, naks      uint64
		lost, unjudged, retransmitted uint64
	}{
		{"NAK and retransmission", func(s *script) {
			s.trim(11).sendOnly(12).answerNAK(11).sendOnly(11, 12).answerACK(12)
		}, 1, 1, 1, 0, 0, 1},
		{"two in one NAK", func(s *script) {
			s.trim(11, 12).sendOnly(13).answerNAK(11).sendOnly(11, 12, 13).answerACK(13)
		}, 2, 2, 1, 0, 0, 1},
		{"NAK for another packet", func(s *script) { s.sendOnly(12).answerNAK(11).trim(13) }, 1, 0, 0, 1, 0, 0},
		{"timeout", func(s *script) { s.trim(11).setTime(60_000).sendOnly(11).answerACK(11) }, 1, 1, 0, 0, 0, 0},
		{"nothing comes after it", func(s *script) { s.trim(11) }, 1, 0, 0, 0, 0, 0},
		{"no answer comes after it", func(s *script) { s.trim(11).sendOnly(12) }, 1, 0, 0, 1, 0, 0},
		{"only one of the skipped PSNs", func(s *script) { s.trim(11).sendOnly(13) }, 1, 0, 0, 1, 1, 0},
		{"of another connection", func(s *script) { s.trim(11).sendOnly(900_000, 900_001).answerNAK(11) }, 1, 0, 0, 0,
			0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScript(t)
			s.Table = New(Config{Evidence: true})
			s.exchangeCM(7, 10, 1024).sendOnly(10)
			c.play(s)
			f := s.onlyFlow()
			require.Equal(t, []uint64{c.trimmed, c.recovered, c.naks}, []uint64{f.Trimmed, f.TrimmedRecovered,
				f.Evidence.Sign(SignTrimmedNAK).Count})
			require.Equal(t, []uint64{c.lost, c.unjudged, c.retransmitted}, []uint64{f.PSN.Lost, f.PSN.Unjudged,
				f.PSN.Retransmitted})
		})
	}
}

// A trimmed READ response is matched with its retransmission.
func TestTrimmedResponse(t *testing.T) {
	s := newPaired(t, 100)
	s.sendRead(100, 3072).respond(100, 3, 0)
	s.observe(Packet{kind: trimmedKind, pkt: observation{Opcode: bth.RCRDMAReadResponseMiddle, Flow: s.keyBA(),
		PSN: 101}})
	s.respond(100, 3, 2).sendRead(101, 2048).respond(101, 2, 0, 1)
	f := s.flowBA()
	require.Equal(t, []uint64{1, 1}, []uint64{f.Trimmed, f.TrimmedRecovered})
	require.Equal(t, ResponsePSN{Gaps: 1, Missing: 1, Late: 1, Retransmitted: 1}, f.Responses.PSN)
}

// A flow of trimmed packets alone is reported, with the time of the first one.
func TestOnlyTrimmed(t *testing.T) {
	s := newScript(t).setTime(5).trim(1, 2, 3)
	f := s.onlyFlow()
	require.EqualValues(t, 3, f.Trimmed)
	require.Zero(t, f.Packets)
	require.Equal(t, bth.TransportRC, f.Transport)
	require.Equal(t, s.now, f.First)
	require.EqualValues(t, 3, f.Trouble())
	require.Zero(t, f.PSN.Missing)
}

// Trimmed requests have PSNs of their own, and trimmed responses those of the other direction.
func TestTrimmedKinds(t *testing.T) {
	response := Packet{kind: trimmedKind, pkt: observation{Opcode: bth.RCRDMAReadResponseMiddle, PSN: 11}}
	t.Run("response and request", func(t *testing.T) {
		s := newPaired(t, 10).sendOnly(10)
		response.pkt.Flow = s.keyAB()
		s.observe(response)
		s.sendOnly(12).answerNAK(11)
		f := s.onlyFlow()
		require.Equal(t, []uint64{1, 0}, []uint64{f.Trimmed, f.TrimmedRecovered})
	})
	t.Run("the first request", func(t *testing.T) {
		f := newScript(t).trim(10).sendOnly(10).onlyFlow()
		require.Equal(t, []uint64{1, 1}, []uint64{f.Trimmed, f.TrimmedRecovered})
	})
	t.Run("request and response", func(t *testing.T) {
		s := newPaired(t, 100)
		s.observe(Packet{kind: trimmedKind, pkt: observation{Opcode: bth.RCSendOnly, Flow: s.keyBA(), PSN: 101}})
		s.sendRead(100, 3072).respond(100, 3, 0, 1, 2)
		f := s.flowBA()
		require.Equal(t, []uint64{1, 0}, []uint64{f.Trimmed, f.TrimmedRecovered})
	})
	t.Run("response, before the first request", func(t *testing.T) {
		s := newPaired(t, 100)
		s.sendRead(100, 3072).respond(100, 3, 0)
		response.pkt.Flow, response.pkt.PSN = s.keyBA(), 101
		s.observe(response)
		s.respond(100, 3, 2)
		s.observe(Packet{kind: requestKind, pkt: observation{Opcode: bth.RCSendOnly, Flow: s.keyBA(), PSN: 7}})
		s.sendRead(101, 2048).respond(101, 2, 0, 1)
		f := s.flowBA()
		require.Equal(t, []uint64{1, 1}, []uint64{f.Trimmed, f.TrimmedRecovered})
	})
}

// A flow that begins with a lost packet has a series, and remains the same flow when others follow.
func TestBeginsLost(t *testing.T) {
	trim := func(s *script) { s.trim(1) }
	discard := func(s *script) {
		s.ObserveDiscard(&Packet{kind: requestKind, pkt: observation{Opcode: bth.RCSendOnly, Flow: s.keyAB(), PSN: 1}},
			EgressQueue{}, "acl", s.now)
	}
	send := func(s *script) { s.sendOnly(1) }
	respond := func(s *script) {
		s.observe(Packet{kind: answerKind, pkt: observation{Opcode: bth.RCRDMAReadResponseOnly, Flow: s.keyAB(),
			PSN: 50}})
	}
	for _, c := range []struct {
		name         string
		lose, follow func(s *script)
	}{
		{"trimmed, and a request", trim, send}, {"trimmed, and a response", trim, respond},
		{"discarded, and a request", discard, send}, {"discarded, and a response", discard, respond},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScript(t)
			s.Table = New(Config{Series: true, Evidence: true})
			s.setTime(5)
			c.lose(s)
			begun := s.now
			flow := s.keyAB()
			s.observe(Packet{kind: ppfcKind, pkt: observation{Opcode: bth.CNP, Flow: s.keyBA()}, about: flow})
			require.NotNil(t, s.Series(flow.FlowKey()))
			before := s.Changes().Flows
			require.Len(t, before, 1)
			require.Equal(t, begun, before[0].First)
			s.setTime(50)
			c.follow(s)
			after := s.Changes().Flows
			require.Len(t, after, 1)
			require.Equal(t, begun, after[0].First)
			require.Zero(t, after[0].Trimmed)
			require.Empty(t, after[0].Discards)
			require.EqualValues(t, 1, after[0].Data.Packets)
		})
	}
}

// The length of truncated frames is that of the longest, in a mirror that of the mirrored frame.
func TestTruncatedTo(t *testing.T) {
	frame := newFrame(bth.RCSendOnly, 18, rocev2.Port, 8+12+1000+4, 12+1000+4)
	mirror, err := (&encap.IPInIPv6{Src: pe1, Dst: pe2}).Append(nil, frame[14:], 1)
	require.NoError(t, err)
	for _, c := range []struct {
		name string
		b    []byte
		o    rocev2.DecodeOptions
		want int
	}{
		{"complete", frame, rocev2.DecodeOptions{}, 0},
		{"by the snapshot length", frame[:100], rocev2.DecodeOptions{AllowTruncated: true}, 100},
		{"by a device", frame[:100], rocev2.DecodeOptions{}, 100},
		{"by a device, in a tunnel", mirror[:120], rocev2.DecodeOptions{Link: rocev2.LinkIP}, 120},
	} {
		t.Run(c.name, func(t *testing.T) {
			table := New(Config{})
			var d Decoder
			var p Packet
			d.Decode(&p, c.b, c.o)
			table.Observe(&p, 1, time.Unix(1, 0))
			require.Equal(t, c.want, table.Snapshot().Capture.TruncatedTo, fmt.Sprint(p.kind))
		})
	}
}

// Second copies of responses count for the responses, which have CE if either copy has.
func TestTwinResponses(t *testing.T) {
	s := newScript(t)
	for psn := uint32(10); psn < 20; psn++ {
		for copies := range uint8(2) {
			s.frame++
			s.Table.Observe(&Packet{kind: answerKind, pkt: observation{Opcode: bth.RCRDMAReadResponseMiddle,
				Flow: s.keyBA(), PSN: psn, Payload: 1024}, trafficClass: 2 + copies}, s.frame, s.now)
		}
	}
	all := s.Snapshot()
	require.True(t, all.Capture.EachTwice)
	require.Len(t, all.Flows, 1)
	r := &all.Flows[0].Responses
	require.EqualValues(t, 10, r.Packets)
	require.Equal(t, ResponsePSN{Copies: 10}, r.PSN)
	require.Equal(t, [4]uint64{3: 10}, r.ECN)
}

// Gaps between responses show a sample as those between requests do.
func TestSampledResponses(t *testing.T) {
	s := newScript(t)
	r := rand.New(rand.NewPCG(1, 1))
	for psn := range uint32(8000) {
		if r.Float64() < 0.1 {
			s.frame++
			s.Table.Observe(&Packet{kind: answerKind, pkt: observation{Opcode: bth.RCRDMAReadResponseMiddle,
				Flow: s.keyBA(), PSN: psn, Payload: 1024}}, s.frame, s.now)
		}
	}
	require.InDelta(t, 10, s.Snapshot().Capture.Sampled, 1)
}

// In a sample, the PSNs missing at the end of a connection lie after its last captured request: they are not among
// those between captured ones, also if another connection follows.
func TestSampledTails(t *testing.T) {
	s := newScript(t)
	r := rand.New(rand.NewPCG(1, 1))
	send := func(first, n uint32) (taken, missing, gaps uint64) {
		last := first
		for psn := first; psn < first+n; psn++ {
			if r.Float64() >= 0.1 && psn != first {
				continue
			}
			if psn > last+1 {
				missing, gaps = missing+uint64(psn-last-1), gaps+1
			}
			last = psn
			s.sendOnly(psn)
			taken++
		}
		s.answerACK(first + n + 20) // acknowledges requests that were not captured
		return taken, missing, gaps
	}
	s.pairFlow()
	var want, got [3]uint64
	for i := range uint32(3) {
		taken, missing, gaps := send(1_000_000*(i+1), 3000)
		want = [3]uint64{want[0] + taken, want[1] + missing, want[2] + gaps}
	}
	f := s.onlyFlow()
	require.InDelta(t, 10, f.Sampled, 2)
	got = [3]uint64{f.Packets, f.PSN.Missing, f.PSN.Gaps}
	require.Equal(t, want, got)
	require.Equal(t, f.PSN.Missing, f.PSN.Unjudged)
}

// The properties of a capture are decided after a limited number of packets, also if they come fast.
func TestDecidedSoon(t *testing.T) {
	s := newScript(t)
	for psn := range uint32(maxUndecided) {
		s.now = s.now.Add(60)
		s.frame++
		s.Table.Observe(&Packet{kind: requestKind, pkt: observation{Opcode: bth.RCSendOnly, Flow: s.keyAB(),
			PSN: psn}}, s.frame, s.now)
	}
	require.True(t, s.capture.fast)
}
