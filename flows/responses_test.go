package flows

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/internal/wire"
	"github.com/rocecn/rocecn/rocev2"
)

// flowBA returns the flow of the responses.
func (s *script) flowBA() Flow {
	s.t.Helper()
	for _, f := range s.Snapshot().Flows {
		if keyOf(f.FlowKey) == s.keyBA() {
			return f
		}
	}
	s.t.Fatal("no flow from b to a")
	return Flow{}
}

// respond sends responses to a READ of n packets from PSN first on: those with these numbers.
func (s *script) respond(first uint32, n int, which ...int) *script {
	for _, i := range which {
		op := bth.RCRDMAReadResponseMiddle
		switch {
		case n == 1:
			op = bth.RCRDMAReadResponseOnly
		case i == 0:
			op = bth.RCRDMAReadResponseFirst
		case i == n-1:
			op = bth.RCRDMAReadResponseLast
		}
		s.answerOp(op, 0, bth.AddPSN(first, uint32(i)))
	}
	return s
}

// The times of responses are their own, also those of a flow that began with requests.
func TestTimesOfResponses(t *testing.T) {
	s := newPaired(t, 10)
	request := func(psn uint32) {
		s.observe(Packet{kind: requestKind, pkt: observation{Opcode: bth.RCSendOnly, Flow: s.keyBA(), PSN: psn}})
	}
	s.setTime(100)
	request(5000)
	s.setTime(230).sendRead(10, 2048)
	s.setTime(300).respond(10, 2, 0).setTime(310).respond(10, 2, 1)
	s.setTime(420)
	request(5001)
	f := s.flowBA()
	at := func(us int) time.Time { return time.Date(2026, 11, 21, 9, 0, 0, us*1000, time.UTC) }
	require.Equal(t, [4]time.Time{at(100), at(420), at(300), at(310)},
		[4]time.Time{f.First, f.Last, f.Responses.First, f.Responses.Last})
	require.EqualValues(t, 2, f.Responses.Packets)
}

// The PSNs of responses follow the READs and ATOMICs that they answer. The PSNs of other requests in
// between have no responses.
func TestResponsePSNs(t *testing.T) {
	for _, row := range []struct {
		name string
		play func(s *script)
		want ResponsePSN
	}{
		{"in order", func(s *script) {
			s.sendRead(10, 4096).respond(10, 4, 0, 1, 2, 3)
		}, ResponsePSN{}},
		{"other requests between", func(s *script) {
			s.sendRead(10, 2048).respond(10, 2, 0, 1).sendOnly(12, 13).answerACK(13)
			s.sendRead(14, 1024).respond(14, 1, 0)
		}, ResponsePSN{}},
		{"two of four lost", func(s *script) {
			s.sendRead(10, 4096).respond(10, 4, 0, 3)
		}, ResponsePSN{Gaps: 1, Missing: 2}},
		{"reordered", func(s *script) {
			s.sendRead(10, 4096).respond(10, 4, 0, 2, 1, 3)
		}, ResponsePSN{Gaps: 1, Missing: 1, Late: 1}},
		{"sent again from the gap on", func(s *script) {
			s.sendRead(10, 4096).respond(10, 4, 0, 2, 3).sendRead(11, 3072).respond(11, 3, 0, 1, 2)
		}, ResponsePSN{Gaps: 1, Missing: 1, Late: 1, Retransmitted: 2}},
		{"the last one lost, then another READ", func(s *script) {
			s.sendRead(10, 3072).respond(10, 3, 0, 1).sendOnly(13).sendRead(14, 1024).respond(14, 1, 0)
		}, ResponsePSN{Gaps: 1, Missing: 1}},
		{"all of a READ lost", func(s *script) {
			s.sendRead(10, 2048).respond(10, 2, 0, 1).sendRead(12, 3072).sendOnly(15)
			s.sendRead(16, 1024).respond(16, 1, 0)
		}, ResponsePSN{Gaps: 1, Missing: 3}},
		{"an ATOMIC Acknowledge lost", func(s *script) {
			s.sendRead(10, 2048).respond(10, 2, 0, 1).sendOp(bth.RCCmpSwap, 12).sendOp(bth.RCFetchAdd, 13).
				answerOp(bth.RCAtomicAcknowledge, 0, 13)
		}, ResponsePSN{Gaps: 1, Missing: 1}},
		{"PSNs wrap", func(s *script) {
			s.sendRead(0x900000, 1024).respond(0x900000, 1, 0).sendRead(0xFFFFFE, 4096).respond(0xFFFFFE, 4, 0, 1, 3)
		}, ResponsePSN{Gaps: 1, Missing: 1}},
		{"another connection far away", func(s *script) {
			s.sendRead(10, 1024).respond(10, 1, 0).sendRead(0x800000, 2048).respond(0x800000, 2, 0, 1)
		}, ResponsePSN{}},
		{"connections that each begin far before the last one", func(s *script) {
			s.sendRead(0x900000, 4096).respond(0x900000, 4, 0, 2)
			for _, psn := range []uint32{0x3AAAAB, 0xE55556, 0x900003} {
				s.sendRead(psn, 1024).respond(psn, 1, 0)
			}
			s.respond(0x900000, 4, 1) // of the first connection the gap there is forgotten
		}, ResponsePSN{Gaps: 1, Missing: 1, Retransmitted: 1}},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := newScript(t)
			s.sendOnly(1, 2, 3).answerACK(1, 2, 3) // the queue pairs are known
			s.sendRead(4, 2048).respond(4, 2, 0, 1)
			row.play(s)
			require.Equal(t, row.want, s.flowBA().Responses.PSN)
		})
	}
	t.Run("connected again with PSNs close to the old ones", func(t *testing.T) {
		s := newPaired(t, 100)
		s.sendRead(100, 2048).respond(100, 2, 0, 1).sendRead(102, 4096).respond(102, 4, 0, 3)
		s.exchangeCM(8, 50, 1024).sendRead(50, 2048).respond(50, 2, 0, 1).sendRead(52, 2048).respond(52, 2, 0, 1)
		s.exchangeCM(9, 500, 1024).sendRead(500, 2048).respond(500, 2, 0, 1)
		require.Equal(t, ResponsePSN{Gaps: 1, Missing: 2}, s.flowBA().Responses.PSN)
	})
	t.Run("the first response of a connection lost", func(t *testing.T) {
		s := newPaired(t, 100)
		s.sendRead(100, 3072).respond(100, 3, 1, 2)
		require.Equal(t, ResponsePSN{Gaps: 1, Missing: 1}, s.flowBA().Responses.PSN)
		s.exchangeCM(8, 500, 1024).sendRead(500, 2048).sendRead(502, 4096).respond(502, 4, 2, 3)
		require.Equal(t, ResponsePSN{Gaps: 2, Missing: 5}, s.flowBA().Responses.PSN)
		s.respond(502, 4, 0)
		require.Equal(t, ResponsePSN{Gaps: 2, Missing: 5, Late: 1}, s.flowBA().Responses.PSN)
	})
	t.Run("requests not captured", func(t *testing.T) {
		s := newScript(t)
		s.respond(100, 5, 2, 3, 4).respond(300, 4, 0, 2, 3).respond(400, 1, 0)
		require.Equal(t, ResponsePSN{Gaps: 1, Missing: 1}, s.flowBA().Responses.PSN)
	})
	t.Run("copies of the network", func(t *testing.T) {
		s := newScript(t)
		for id, psn := range []uint32{1, 2, 3, 3, 4} {
			if id == 3 {
				id = 2 // the same packet
			}
			s.observe(Packet{kind: answerKind, ident: uint16(100 + id), pkt: observation{Flow: s.keyBA(), PSN: psn,
				Opcode: bth.RCRDMAReadResponseMiddle}})
		}
		require.Equal(t, ResponsePSN{Copies: 1}, s.flowBA().Responses.PSN)
	})
	t.Run("more gaps than are remembered", func(t *testing.T) {
		s := newScript(t)
		for i := range uint32(2 * maxResponseGaps) {
			s.answerOp(bth.RCRDMAReadResponseMiddle, 0, 2*i)
		}
		s.answerOp(bth.RCRDMAReadResponseMiddle, 0, 1, 4*maxResponseGaps-3)
		want := ResponsePSN{Gaps: 2*maxResponseGaps - 1, Missing: 2*maxResponseGaps - 1, Late: 1, Retransmitted: 1}
		require.Equal(t, want, s.flowBA().Responses.PSN)
	})
}

// Responses alone are a flow with the counts of its packets. Its source queue pair is known from the
// requests. CNPs about them belong to it, with the time since a response was marked.
func TestResponsesAreData(t *testing.T) {
	s := newScript(t)
	response := func(us int, psn uint32, ecn rocev2.ECN, wrong bool) {
		s.setTime(us).observe(Packet{kind: answerKind, trafficClass: 26<<2 | uint8(ecn), ipOctets: 1068,
			icrcWrong: wrong, truncated: psn == 3,
			pkt: observation{Flow: s.keyBA(), PSN: psn, Opcode: bth.RCRDMAReadResponseOnly, Payload: 1024}})
	}
	for psn := range uint32(3) {
		s.sendRead(psn, 1024)
		response(10*int(psn), psn, rocev2.ECT0, false)
	}
	s.sendRead(3, 1024).sendRead(4, 1024)
	response(40, 3, rocev2.CE, false)
	response(50, 4, rocev2.ECT0, true)
	s.setTime(65).observe(Packet{kind: cnpKind, pkt: observation{Flow: s.keyAB(), Opcode: bth.CNP}})

	f := s.flowBA()
	require.EqualValues(t, s.qpB, f.SrcQP)
	require.Zero(t, f.Requests.Packets)
	require.Equal(t, Responses{
		ECN: [4]uint64{rocev2.ECT0: 4, rocev2.CE: 1}, DSCP: 1 << 26, Packets: 5, IPOctets: 5340, PayloadOctets: 5120,
		ICRCWrong: 1, Truncated: 1, First: f.First, Last: timeOf(s.now.Add(-15 * time.Microsecond).UnixNano()),
	}, f.Responses)
	require.InDelta(t, 5340*8/50e-6, f.Data.Mean, 1)
	require.Equal(t, Data{5, 5340, 5120, 1, f.Data.Mean, f.Data.Mean}, f.Data)
	require.EqualValues(t, 1, f.CNPs)
	require.EqualValues(t, 1, f.AfterCE.Count())
	require.Equal(t, 25*time.Microsecond, f.AfterCE.Percentile(0.5).Round(time.Microsecond))

	// The response with a wrong ICRC covers nothing: its READ is not complete.
	for _, g := range s.Snapshot().Flows {
		if keyOf(g.FlowKey) == s.keyAB() {
			require.Equal(t, Messages{5, 4}, *g.Message(MessageRead))
			require.Zero(t, g.CNPs)
		}
	}
	require.Empty(t, s.Snapshot().Unpaired)

	// Requests of the same queue pair belong to the same flow.
	s.setTime(100).observe(Packet{kind: requestKind, ipOctets: 100, trafficClass: 3,
		pkt: observation{Flow: s.keyBA(), PSN: 9, Opcode: bth.RCSendOnly, Payload: 60}})
	f = s.flowBA()
	require.EqualValues(t, 1, f.Requests.Packets)
	require.Equal(t, Data{6, 5440, 5180, 2, f.Data.Mean, f.Data.Peak}, f.Data)
	require.InDelta(t, 5440*8/100e-6, f.Data.Mean, 1)
}

// The responses in captures of soft-RoCE are counted to the packet: by the opcode at its place in the
// octets, for each destination queue pair.
func TestRealResponses(t *testing.T) {
	seen := 0
	realCases(t, func(t *testing.T, truth *realTruth) {
		for _, name := range [...]string{truth.Before, truth.Behind} {
			table, want := New(Config{}), map[uint32]uint64{}
			frame := uint64(0)
			realRecords(t, name, func(b []byte, p *Packet, at time.Time) {
				frame++
				table.Observe(p, frame, at)
				udp := b[14+20:]
				if wire.Version(b[14:]) == wire.IPv6 {
					udp = b[14+40:]
				}
				if op := udp[8] & 31; p.kind != otherTraffic && op >= 13 && op <= 18 && op != 17 {
					want[uint32(udp[13])<<16|uint32(udp[14])<<8|uint32(udp[15])]++
				}
			})
			got := map[uint32]uint64{}
			for _, f := range table.Snapshot().Flows {
				if f.Responses.Packets > 0 {
					got[f.DestQP] += f.Responses.Packets
					require.Equal(t, f.Data.Packets, f.Requests.Packets+f.Responses.Packets)
					require.Zero(t, f.Responses.ICRCWrong)
					seen++
				}
			}
			require.Equal(t, want, got, name)
		}
	})
	require.NotZero(t, seen)
}
