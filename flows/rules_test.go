package flows

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/cm"
	"github.com/rocecn/rocecn/internal/qplearn"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
)

// A script gives a table the packets of one or more connections: requests from a to b, and answers.
type observation = qplearn.Observation

type script struct {
	*Table
	t     *testing.T
	a, b  netip.Addr
	qpA   uint32
	qpB   uint32
	now   time.Time
	frame uint64
}

func newScript(t *testing.T) *script {
	return &script{
		Table: New(Config{}), t: t,
		a: netip.MustParseAddr("192.0.2.1"), b: netip.MustParseAddr("192.0.2.2"), qpA: 17, qpB: 18,
		now: time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC),
	}
}

func (s *script) observe(p Packet) {
	s.frame++
	s.Observe(&p, s.frame, s.now)
	s.processWaiting()
	if noFlow != (flow{}) {
		panic("noFlow was changed")
	}
}

func (s *script) setTime(us int) *script {
	s.now = time.Date(2026, 11, 21, 9, 0, 0, us*1000, time.UTC)
	return s
}

func (s *script) keyAB() key { return keyOf(rocev2.FlowKey{Src: s.a, Dst: s.b, DestQP: s.qpB}) }
func (s *script) keyBA() key { return keyOf(rocev2.FlowKey{Src: s.b, Dst: s.a, DestQP: s.qpA}) }

// sendOp sends requests with these PSNs.
func (s *script) sendOp(op bth.Opcode, psns ...uint32) *script {
	for _, psn := range psns {
		s.observe(Packet{kind: requestKind, pkt: observation{Opcode: op, Flow: s.keyAB(), PSN: psn, AckReq: true,
			Payload: 100}})
	}
	return s
}

func (s *script) sendOnly(psns ...uint32) *script { return s.sendOp(bth.RCSendOnly, psns...) }

func (s *script) sendRead(psn, octets uint32) *script {
	s.observe(Packet{kind: requestKind, pkt: observation{Opcode: bth.RCRDMAReadRequest, Flow: s.keyAB(), PSN: psn,
		DMA: octets}})
	return s
}

func (s *script) answerOp(op bth.Opcode, syndrome bth.Syndrome, psns ...uint32) *script {
	for _, psn := range psns {
		s.observe(Packet{kind: answerKind, pkt: observation{Opcode: op, Flow: s.keyBA(), PSN: psn, Syndrome: syndrome,
			Payload: 1024}})
	}
	return s
}

func (s *script) answerACK(psns ...uint32) *script {
	return s.answerOp(bth.RCAcknowledge, 0x1F, psns...)
}
func (s *script) answerNAK(psns ...uint32) *script {
	return s.answerOp(bth.RCAcknowledge, 0x60, psns...)
}
func (s *script) answerRNR(psns ...uint32) *script {
	return s.answerOp(bth.RCAcknowledge, 0x2E, psns...)
}

// exchangeCM sends a REQ and its REP: the requests of a begin with psn.
func (s *script) exchangeCM(id, psn, mtu uint32) *script {
	mad := keyOf(rocev2.FlowKey{Src: s.a, Dst: s.b, DestQP: 1})
	s.observe(Packet{kind: requestKind, pkt: observation{Opcode: bth.UDSendOnly, Flow: mad, SrcQP: 1,
		CM: qplearn.Exchange{Attribute: cm.AttributeREQ, Local: id, Remote: 0, QP: s.qpA, PSN: 5000,
			MTU: uint16(mtu)}}})
	s.answerREP(id, psn)
	return s
}

func (s *script) answerREP(id, psn uint32) *script {
	mad := keyOf(rocev2.FlowKey{Src: s.b, Dst: s.a, DestQP: 1})
	s.observe(Packet{kind: requestKind, pkt: observation{Opcode: bth.UDSendOnly, Flow: mad, SrcQP: 1,
		CM: qplearn.Exchange{Attribute: cm.AttributeREP, Local: id + 1000, Remote: id, QP: s.qpB, PSN: psn,
			MTU: uint16(0)}}})
	return s
}

// onlyFlow returns the flow from a to b.
func (s *script) onlyFlow() Flow {
	s.t.Helper()
	for _, f := range s.Snapshot().Flows {
		if f.FlowKey == (rocev2.FlowKey{Src: s.a, Dst: s.b, DestQP: s.qpB}) {
			return f
		}
	}
	s.t.Fatal("no such flow")
	return Flow{}
}

// newPaired returns a connection with a CM exchange and an MTU of 1024.
func newPaired(t *testing.T, psn uint32) *script { return newScript(t).exchangeCM(7, psn, 1024) }

// The rules for PSNs in docs/flows.md, one by one.
func TestPSNRules(t *testing.T) {
	for _, c := range []struct {
		name   string
		script *script
		psn    PSN
		causes Retransmissions
	}{
		{"in order", newPaired(t, 10).sendOnly(10, 11, 12).answerACK(12), PSN{First: 10, Last: 12, Connections: 1},
			Retransmissions{}},
		{"wrapping", newPaired(t, 0xFFFFFE).sendOnly(0xFFFFFE, 0xFFFFFF, 0, 1).answerACK(1),
			PSN{First: 0xFFFFFE, Last: 1, Connections: 1}, Retransmissions{}},
		{"gap, covered after", newPaired(t, 10).sendOnly(10, 13).answerACK(13),
			PSN{First: 10, Last: 13, Connections: 1, Gaps: 1, Missing: 2, Unseen: 2}, Retransmissions{}},
		{"gap, covered before", newPaired(t, 10).sendOnly(10).answerACK(12).sendOnly(13),
			PSN{First: 10, Last: 13, Connections: 1, Gaps: 1, Missing: 2, Unseen: 2}, Retransmissions{}},
		{"gap, half covered", newPaired(t, 10).sendOnly(10).answerACK(11).sendOnly(13),
			PSN{First: 10, Last: 13, Connections: 1, Gaps: 1, Missing: 2, Unseen: 1, Unjudged: 1}, Retransmissions{}},
		{"gap, half covered, and an answer after it",
			newPaired(t, 10).sendOnly(10).answerACK(11).sendOnly(13).answerACK(11),
			PSN{First: 10, Last: 13, Connections: 1, Gaps: 1, Missing: 2, Unseen: 1, Lost: 1}, Retransmissions{}},
		{"an answer between two gaps", newPaired(t, 10).sendOnly(10, 12).answerACK(10).sendOnly(14),
			PSN{First: 10, Last: 14, Connections: 1, Gaps: 2, Missing: 2, Lost: 1, Unjudged: 1}, Retransmissions{}},
		{"a gap that is divided after its answer", newPaired(t, 10).sendOnly(10, 14).answerNAK(11).sendOnly(12, 16),
			PSN{First: 10, Last: 16, Connections: 1, Gaps: 2, Missing: 4, Late: 1, Lost: 2, Unjudged: 1},
			Retransmissions{}},
		{"gap, then responses to an earlier READ", newPaired(t, 10).sendRead(10, 3072).sendOnly(14).
			answerOp(bth.RCRDMAReadResponseMiddle, 0x1F, 11),
			PSN{First: 10, Last: 14, Connections: 1, Gaps: 1, Missing: 1, Unjudged: 1}, Retransmissions{}},
		{"gap, then an answer of another connection", newPaired(t, 10).sendOnly(10, 12).answerACK(900_000),
			PSN{First: 10, Last: 12, Connections: 1, Gaps: 1, Missing: 1, Unjudged: 1}, Retransmissions{}},
		{"gap over the wrap", newPaired(t, 0xFFFFFE).sendOnly(0xFFFFFE, 1).answerACK(1),
			PSN{First: 0xFFFFFE, Last: 1, Connections: 1, Gaps: 1, Missing: 2, Unseen: 2}, Retransmissions{}},
		{"gap, no answers", newScript(t).sendOnly(10, 13),
			PSN{First: 10, Last: 13, Connections: 1, Gaps: 1, Missing: 2, Unjudged: 2}, Retransmissions{}},
		{"gap, a NAK covers earlier PSNs", newPaired(t, 10).sendOnly(10, 13).answerNAK(12),
			PSN{First: 10, Last: 13, Connections: 1, Gaps: 1, Missing: 2, Unseen: 1, Lost: 1}, Retransmissions{}},
		{"gap, READ response covers", newPaired(t, 10).sendOnly(10).sendRead(12, 1).
			answerOp(bth.RCRDMAReadResponseOnly, 0x1F, 12),
			PSN{First: 10, Last: 12, Connections: 1, Gaps: 1, Missing: 1, Unseen: 1}, Retransmissions{}},
		{"gap, ATOMIC Acknowledge covers", newPaired(t, 10).sendOnly(10).sendOp(bth.RCFetchAdd,
			12).answerOp(bth.RCAtomicAcknowledge, 0x1F, 12),
			PSN{First: 10, Last: 12, Connections: 1, Gaps: 1, Missing: 1, Unseen: 1}, Retransmissions{}},
		{"the first one announced by CM is missing", newPaired(t, 10).sendOnly(12).answerACK(12),
			PSN{First: 12, Last: 12, Connections: 1, Gaps: 1, Missing: 2, Unseen: 2}, Retransmissions{}},
		{"the last ones, acknowledged", newPaired(t, 10).sendOnly(10).answerACK(12),
			PSN{First: 10, Last: 10, Connections: 1, Gaps: 1, Missing: 2, Unseen: 2}, Retransmissions{}},
		{"late", newPaired(t, 10).sendOnly(10, 12, 11).answerACK(12),
			PSN{First: 10, Last: 12, Connections: 1, Gaps: 1, Missing: 1, Late: 1}, Retransmissions{}},
		{"late in the middle of a gap", newPaired(t, 10).sendOnly(10, 15, 12).answerACK(15),
			PSN{First: 10, Last: 15, Connections: 1, Gaps: 1, Missing: 4, Late: 1, Unseen: 3}, Retransmissions{}},
		{"late twice is a retransmission", newPaired(t, 10).sendOnly(10, 12, 11, 11).answerACK(12),
			PSN{First: 10, Last: 12, Connections: 1, Gaps: 1, Missing: 1, Late: 1, Retransmitted: 1},
			Retransmissions{Timeout: 1}},
		{"65,536 ahead is a gap", newScript(t).sendOnly(10, 11+65536),
			PSN{First: 10, Last: 11 + 65536, Connections: 1, Gaps: 1, Missing: 65536, Unjudged: 65536},
			Retransmissions{}},
		{"65,537 ahead is a new connection", newScript(t).sendOnly(10, 12+65536),
			PSN{First: 10, Last: 12 + 65536, Connections: 2},
			Retransmissions{}},
		{"65,536 before is a retransmission", newScript(t).sendOnly(100_000, 100_001-65536),
			PSN{First: 100_001 - 65536, Last: 100_000, Connections: 1, Retransmitted: 1}, Retransmissions{Timeout: 1}},
		{"65,537 before is a new connection", newScript(t).sendOnly(100_000, 100_000-65536),
			PSN{First: 100_000, Last: 100_000 - 65536, Connections: 2}, Retransmissions{}},
		{"a gap of the previous connection", newPaired(t, 10).sendOnly(10, 12).answerACK(10).
			sendOnly(500_000, 11, 500_001).answerACK(500_001),
			PSN{First: 10, Last: 500_001, Connections: 4, Gaps: 1, Missing: 1, Lost: 1}, Retransmissions{}},

		{"CM announces a new connection", newPaired(t, 10).sendOnly(10, 11).answerACK(11).exchangeCM(8, 900, 1024).
			sendOnly(900, 901).answerACK(901),
			PSN{First: 10, Last: 901, Connections: 2}, Retransmissions{}},
		{"CM announces a new connection, the first request is missing",
			newPaired(t, 10).sendOnly(10, 11).answerACK(11).exchangeCM(8, 900, 1024).sendOnly(902).answerACK(902),
			PSN{First: 10, Last: 902, Connections: 2, Gaps: 1, Missing: 2, Unseen: 2}, Retransmissions{}},
		{"CM announces a new connection with the same PSN",
			newPaired(t, 10).sendOnly(10, 11).answerACK(11).exchangeCM(8, 10, 1024).sendOnly(10, 11).answerACK(11),
			PSN{First: 10, Last: 11, Connections: 2}, Retransmissions{}},
		{"CM retransmits", newPaired(t, 10).exchangeCM(7, 10, 1024).sendOnly(10).exchangeCM(7, 10, 1024).
			sendOnly(11).answerACK(11),
			PSN{First: 10, Last: 11, Connections: 1}, Retransmissions{}},
		{"only a REQ", newPaired(t, 10).sendOnly(10).forgeREP(7).sendOnly(11).answerREP(7, 10).sendOnly(12).
			answerACK(12),
			PSN{First: 10, Last: 12, Connections: 1}, Retransmissions{}},
		{"a forged CM exchange, and then a gap", newPaired(t, 10).sendOnly(10).exchangeCM(9, 12, 1024).
			sendOnly(11, 13).answerACK(13),
			PSN{First: 10, Last: 13, Connections: 1, Gaps: 1, Missing: 1, Unseen: 1}, Retransmissions{}},
		{"a forged CM exchange", newPaired(t, 10).sendOnly(10).exchangeCM(9, 4000, 1024).sendOnly(11, 12).answerACK(12),
			PSN{First: 10, Last: 12, Connections: 1}, Retransmissions{}},

		{"NAK", newPaired(t, 10).sendOnly(10, 11, 12).answerNAK(11).sendOnly(11, 12).answerACK(12),
			PSN{First: 10, Last: 12, Connections: 1, Retransmitted: 2}, Retransmissions{NAK: 2}},
		{"NAK, and a request that crosses it",
			newPaired(t, 10).sendOnly(10, 11).answerNAK(11).sendOnly(12, 11, 12).answerACK(12),
			PSN{First: 10, Last: 12, Connections: 1, Retransmitted: 2}, Retransmissions{NAK: 2}},
		{"NAK, and requests sent after the sender went back",
			newPaired(t, 10).sendOnly(10, 11).answerNAK(11).sendOnly(11, 12, 12).answerACK(12),
			PSN{First: 10, Last: 12, Connections: 1, Retransmitted: 2}, Retransmissions{NAK: 1, Timeout: 1}},
		{"NAK, and an ACK that crosses the retransmission",
			newPaired(t, 10).sendOnly(10, 11, 12).answerNAK(11).answerACK(11, 12).sendOnly(11, 12),
			PSN{First: 10, Last: 12, Connections: 1, Retransmitted: 2}, Retransmissions{NAK: 2}},
		{"a NAK for a PSN not sent yet", newPaired(t, 10).sendOnly(10).answerNAK(11).sendOnly(11, 11),
			PSN{First: 10, Last: 11, Connections: 1, Retransmitted: 1}, Retransmissions{Timeout: 1}},
		{"a NAK for PSNs acknowledged meanwhile", newPaired(t, 10).sendOnly(10, 11).answerNAK(11).answerACK(11).
			sendOnly(12, 12),
			PSN{First: 10, Last: 12, Connections: 1, Retransmitted: 1}, Retransmissions{Timeout: 1}},
		{"a NAK, and an ACK for earlier PSNs", newPaired(t, 10).sendOnly(10, 11, 12, 13).answerNAK(12).
			answerACK(10).sendOnly(11),
			PSN{First: 10, Last: 13, Connections: 1, Retransmitted: 1}, Retransmissions{Timeout: 1}},
		{"three requests reordered before another",
			newPaired(t, 10).sendOnly(10, 11, 12, 13, 14, 15, 16).answerNAK(11).sendOnly(11, 13, 14, 15, 12),
			PSN{First: 10, Last: 16, Connections: 1, Retransmitted: 5}, Retransmissions{NAK: 5}},
		{"four later requests, and the sender goes back",
			newPaired(t, 10).sendOnly(10, 11, 12, 13, 14, 15, 16).answerNAK(11).sendOnly(11, 13, 14, 15, 16, 12),
			PSN{First: 10, Last: 16, Connections: 1, Retransmitted: 6}, Retransmissions{NAK: 5, Timeout: 1}},
		{"NAK, and its PSN is late",
			newPaired(t, 10).sendOnly(10, 12).answerNAK(11).sendOnly(11, 13, 11, 12, 13).answerACK(13),
			PSN{First: 10, Last: 13, Connections: 1, Gaps: 1, Missing: 1, Late: 1, Retransmitted: 3},
			Retransmissions{NAK: 3}},
		{"three requests before the PSN of the NAK",
			newPaired(t, 10).sendOnly(10, 11, 12, 13, 14, 15, 16).answerNAK(11).sendOnly(12, 13, 14, 11),
			PSN{First: 10, Last: 16, Connections: 1, Retransmitted: 4}, Retransmissions{NAK: 4}},
		{"four later requests: it was lost, and the sender went back again",
			newPaired(t, 10).sendOnly(10, 11, 12, 13, 14, 15, 16).answerNAK(11).sendOnly(12, 13, 14, 15, 11),
			PSN{First: 10, Last: 16, Connections: 1, Retransmitted: 5}, Retransmissions{NAK: 4, Timeout: 1}},
		{"packets that an earlier run skipped",
			newPaired(t, 10).sendOnly(10, 11, 12, 13, 14, 15, 16).sendOnly(11, 13, 14, 15, 16).answerNAK(11).
				sendOnly(11, 12, 13, 12),
			PSN{First: 10, Last: 16, Connections: 1, Retransmitted: 9}, Retransmissions{NAK: 3, Timeout: 6}},
		{"NAK, once",
			newPaired(t, 10).sendOnly(10, 11, 12).answerNAK(11).sendOnly(11, 12, 11, 12).answerACK(12),
			PSN{First: 10, Last: 12, Connections: 1, Retransmitted: 4}, Retransmissions{NAK: 2, Timeout: 2}},
		{"NAK, and a timeout before it is acted upon",
			newPaired(t, 10).sendOnly(10, 11, 12, 13).answerNAK(12).sendOnly(11, 12, 13, 12, 13).answerACK(13),
			PSN{First: 10, Last: 13, Connections: 1, Retransmitted: 5}, Retransmissions{NAK: 2, Timeout: 3}},
		{"NAK, selective retransmission",
			newPaired(t, 10).sendOnly(10, 11, 12, 13, 14).answerNAK(11).sendOnly(11, 15, 13, 16).answerACK(16),
			PSN{First: 10, Last: 16, Connections: 1, Retransmitted: 2}, Retransmissions{NAK: 2}},
		{"NAK not covered yet, retransmission from another PSN",
			newPaired(t, 10).sendOnly(10, 11, 12).answerNAK(11).answerACK(12).sendOnly(12),
			PSN{First: 10, Last: 12, Connections: 1, Retransmitted: 1}, Retransmissions{Timeout: 1}},
		{"two NAKs under way",
			newPaired(t, 10).sendOnly(10, 11, 12, 13).answerNAK(11, 13).sendOnly(11, 12, 13, 13).answerACK(13),
			PSN{First: 10, Last: 13, Connections: 1, Retransmitted: 4}, Retransmissions{NAK: 4}},
		{"a run interrupted by a new packet",
			newPaired(t, 10).sendOnly(10, 11, 12, 13).answerNAK(11).sendOnly(11, 12, 14, 13).answerACK(14),
			PSN{First: 10, Last: 14, Connections: 1, Retransmitted: 3}, Retransmissions{NAK: 3}},
		{"the NAKed request was not captured and is late",
			newPaired(t, 10).sendOnly(10, 12, 13).answerNAK(11).sendOnly(11, 12, 13).answerACK(13),
			PSN{First: 10, Last: 13, Connections: 1, Gaps: 1, Missing: 1, Late: 1, Retransmitted: 2},
			Retransmissions{NAK: 2}},
		{"a reordered run",
			newPaired(t, 10).sendOnly(10, 11, 12, 13, 14).answerACK(10).sendOnly(11, 13, 12, 14),
			PSN{First: 10, Last: 14, Connections: 1, Retransmitted: 4}, Retransmissions{Timeout: 4}},
		{"a reordered run after a NAK",
			newPaired(t, 10).sendOnly(10, 11, 12, 13, 14).answerNAK(11).answerACK(14).sendOnly(11, 13, 12, 14),
			PSN{First: 10, Last: 14, Connections: 1, Retransmitted: 4}, Retransmissions{NAK: 4}},
		{"RNR NAK", newPaired(t, 10).sendOnly(10, 11).answerRNR(10).sendOnly(10, 11).answerRNR(10).sendOnly(10, 11).
			answerACK(11),
			PSN{First: 10, Last: 11, Connections: 1, Retransmitted: 4}, Retransmissions{RNR: 4}},
		{"RNR NAK and NAK of the same PSN",
			newPaired(t, 10).sendOnly(10, 11).answerRNR(10).answerNAK(10).sendOnly(10, 11).answerACK(11),
			PSN{First: 10, Last: 11, Connections: 1, Retransmitted: 2}, Retransmissions{RNR: 2}},
		{"NAK and RNR NAK of the same PSN",
			newPaired(t, 10).sendOnly(10, 11).answerNAK(10).answerRNR(10).sendOnly(10, 11).answerACK(11),
			PSN{First: 10, Last: 11, Connections: 1, Retransmitted: 2}, Retransmissions{RNR: 2}},
		{"the sender goes back for both",
			newPaired(t, 10).sendOnly(10, 11).answerRNR(10).answerNAK(10).sendOnly(10, 11, 10, 11).answerACK(11),
			PSN{First: 10, Last: 11, Connections: 1, Retransmitted: 4}, Retransmissions{RNR: 4}},
		{"RNR NAK, and then a NAK for a lost packet",
			newPaired(t, 10).sendOnly(10, 11).answerRNR(10).sendOnly(10, 11).answerNAK(10).sendOnly(10, 11).
				answerACK(11),
			PSN{First: 10, Last: 11, Connections: 1, Retransmitted: 4}, Retransmissions{RNR: 2, NAK: 2}},
		{"the newer NAK",
			newPaired(t, 10).sendOnly(10, 11, 12).answerRNR(10).answerNAK(11).sendOnly(10, 12).answerACK(12),
			PSN{First: 10, Last: 12, Connections: 1, Retransmitted: 2}, Retransmissions{RNR: 2}},
		{"the newer of two possible NAKs",
			newPaired(t, 10).sendOnly(10, 11, 12).answerRNR(10).answerNAK(11).sendOnly(12).answerACK(12),
			PSN{First: 10, Last: 12, Connections: 1, Retransmitted: 1}, Retransmissions{NAK: 1}},
		{"other NAKs cause no retransmission",
			newPaired(t, 10).sendOnly(10).answerOp(bth.RCAcknowledge, 0x62, 10).sendOnly(10),
			PSN{First: 10, Last: 10, Connections: 1, Retransmitted: 1}, Retransmissions{Timeout: 1}},
		{"timeout", newPaired(t, 10).sendOnly(10, 10), PSN{First: 10, Last: 10, Connections: 1, Retransmitted: 1},
			Retransmissions{Timeout: 1}},

		{"READ", newPaired(t, 10).sendRead(10, 3000).sendOnly(13).answerACK(13),
			PSN{First: 10, Last: 13, Connections: 1},
			Retransmissions{}},
		{"READ at the end", newPaired(t, 10).sendRead(10, 3000), PSN{First: 10, Last: 12, Connections: 1},
			Retransmissions{}},
		{"READ of nothing", newPaired(t, 10).sendRead(10, 0).sendOnly(11), PSN{First: 10, Last: 11, Connections: 1},
			Retransmissions{}},
		{"READ missing", newPaired(t, 10).sendOnly(10).sendOnly(14).answerACK(14),
			PSN{First: 10, Last: 14, Connections: 1, Gaps: 1, Missing: 3, Unseen: 3}, Retransmissions{}},
		{"READ late", newPaired(t, 10).sendOnly(10, 14).sendRead(11, 3000).answerACK(14),
			PSN{First: 10, Last: 14, Connections: 1, Gaps: 1, Missing: 3, Late: 1}, Retransmissions{}},
		{"rest of a READ", newPaired(t, 10).sendRead(10, 3000).sendRead(11, 1976).sendRead(12, 952),
			PSN{First: 10, Last: 12, Connections: 1, Retransmitted: 2}, Retransmissions{Read: 2}},
		{"a complete retransmitted READ", newPaired(t, 10).sendRead(10, 3000).sendRead(10, 3000),
			PSN{First: 10, Last: 12, Connections: 1, Retransmitted: 1}, Retransmissions{Timeout: 1}},
		{"no READ inside a READ", newPaired(t, 10).sendRead(10, 3000).sendOnly(11),
			PSN{First: 10, Last: 12, Connections: 1, Retransmitted: 1}, Retransmissions{Timeout: 1}},
		{"a NAK newer than the READ", newPaired(t, 10).sendRead(10, 3000).answerNAK(11).sendRead(11, 1976),
			PSN{First: 10, Last: 12, Connections: 1, Retransmitted: 1}, Retransmissions{NAK: 1}},

		{"MTU unknown: the next PSN shows the length of the READ", newScript(t).sendRead(10, 4096).sendOnly(14),
			PSN{First: 10, Last: 14, Connections: 1}, Retransmissions{}},
		{"MTU unknown: at most the PSNs for 256 octets", newScript(t).sendRead(10, 4096).sendOnly(26),
			PSN{First: 10, Last: 26, Connections: 1}, Retransmissions{}},
		{"MTU unknown: beyond that is a gap", newScript(t).sendRead(10, 4096).sendOnly(27),
			PSN{First: 10, Last: 27, Connections: 1, Gaps: 1, Missing: 1, Unjudged: 1}, Retransmissions{}},
		{"MTU unknown: at least one", newScript(t).sendRead(10, 4096).sendOnly(10),
			PSN{First: 10, Last: 10, Connections: 1, Retransmitted: 1}, Retransmissions{Timeout: 1}},
		{"MTU from a First packet", newScript(t).sendFirst(1024, 10).sendOnly(11).sendRead(12, 4096).sendOnly(17),
			PSN{First: 10, Last: 17, Connections: 1, Gaps: 1, Missing: 1, Unjudged: 1}, Retransmissions{}},
		{"MTU from a First packet after the READ", newScript(t).sendRead(10, 4096).sendFirst(1024, 14),
			PSN{First: 10, Last: 14, Connections: 1}, Retransmissions{}},
		{"MTU from a response", newScript(t).exchangeCM(7, 10, 0).sendRead(10, 4096).
			answerOp(bth.RCRDMAReadResponseFirst, 0x1F,
				10).sendOnly(15),
			PSN{First: 10, Last: 15, Connections: 1, Gaps: 1, Missing: 1, Unjudged: 1}, Retransmissions{}},
		{"the last response shows it", newScript(t).exchangeCM(7, 10, 0).sendRead(10, 4096).
			answerOp(bth.RCRDMAReadResponseLast, 0x1F,
				13).sendOnly(15),
			PSN{First: 10, Last: 15, Connections: 1, Gaps: 1, Missing: 1, Unjudged: 1}, Retransmissions{}},
		{"responses do not reveal missing requests",
			newScript(t).exchangeCM(7, 10, 0).sendRead(10, 4096).answerOp(bth.RCRDMAReadResponseLast, 0x1F, 13),
			PSN{First: 10, Last: 13, Connections: 1}, Retransmissions{}},

		{"MTU unknown: the READ retransmitted", newScript(t).sendRead(10, 4096).sendRead(10, 4096).sendOnly(14),
			PSN{First: 10, Last: 14, Connections: 1, Retransmitted: 1}, Retransmissions{Timeout: 1}},
		{"MTU unknown: one response shows it", newScript(t).exchangeCM(7, 10, 0).sendRead(10, 4096).
			answerOp(bth.RCRDMAReadResponseOnly, 0x1F, 10).sendOnly(12),
			PSN{First: 10, Last: 12, Connections: 1, Gaps: 1, Missing: 1, Unjudged: 1}, Retransmissions{}},
		{"the newer of two NAKs for a PSN",
			newPaired(t, 10).sendOnly(10, 11, 12, 13, 14).answerRNR(12).sendOnly(10).answerNAK(12).sendOnly(15, 12),
			PSN{First: 10, Last: 15, Connections: 1, Retransmitted: 2}, Retransmissions{NAK: 1, Timeout: 1}},
		{"a run with a first packet that was not captured",
			newPaired(t, 10).sendOnly(10, 12, 13, 14).answerRNR(11).answerNAK(13).sendOnly(11, 13, 14),
			PSN{First: 10, Last: 14, Connections: 1, Gaps: 1, Missing: 1, Late: 1, Retransmitted: 2},
			Retransmissions{RNR: 2}},
		{"a connection with a PSN at lifeDistance",
			newPaired(t, 10).sendOnly(10).exchangeCM(8, 900, 1024).sendOnly(900 + 65536),
			PSN{First: 10, Last: 900 + 65536, Connections: 2, Gaps: 1, Missing: 65536, Unjudged: 65536},
			Retransmissions{}},

		{"UC: gap", newScript(t).sendOp(bth.UCSendOnly, 10, 12),
			PSN{First: 10, Last: 12, Connections: 1, Gaps: 1, Missing: 1, Unjudged: 1}, Retransmissions{}},
		{"UC: late, no retransmissions", newScript(t).sendOp(bth.UCSendOnly, 10, 12, 11, 11, 10),
			PSN{First: 10, Last: 12, Connections: 1, Gaps: 1, Missing: 1, Late: 1}, Retransmissions{}},
		{"XRC", newScript(t).sendOp(bth.TransportXRC.Opcode(bth.OpSendOnly), 10, 12, 12),
			PSN{First: 10, Last: 12, Connections: 1, Gaps: 1, Missing: 1, Unjudged: 1, Retransmitted: 1},
			Retransmissions{Timeout: 1}},
		{"RD", newScript(t).sendOp(bth.TransportRD.Opcode(bth.OpSendOnly), 10, 12, 12),
			PSN{First: 10, Last: 12, Connections: 1, Gaps: 1, Missing: 1, Unjudged: 1, Retransmitted: 1},
			Retransmissions{Timeout: 1}},
		{"answers from before the votes decide", newScript(t).sendOnly(10, 12).answerACK(10).sendOnly(13, 14).
			answerACK(13, 14),
			PSN{First: 10, Last: 14, Connections: 1, Gaps: 1, Missing: 1, Unseen: 1}, Retransmissions{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := c.script.onlyFlow()
			require.Equal(t, c.psn, f.PSN)
			require.Equal(t, c.causes, f.Causes)
		})
	}
}

// sendFirst sends a SEND First with an MTU of payload.
func (s *script) sendFirst(mtu, psn uint32) *script {
	s.observe(Packet{kind: requestKind, pkt: observation{Opcode: bth.RCSendFirst, Flow: s.keyAB(), PSN: psn,
		Payload: mtu}})
	return s
}

// forgeREP sends a REQ of another queue pair with the communication ID of a live connection.
func (s *script) forgeREP(id uint32) *script {
	mad := keyOf(rocev2.FlowKey{Src: s.a, Dst: s.b, DestQP: 1})
	s.observe(Packet{kind: requestKind, pkt: observation{Opcode: bth.UDSendOnly, Flow: mad, SrcQP: 1,
		CM: qplearn.Exchange{Attribute: cm.AttributeREQ, Local: id, Remote: 0, QP: 666, PSN: 6000, MTU: uint16(256)}}})
	return s
}

// The number of missing packets is correct with more gaps than maxGaps.
func TestManyGaps(t *testing.T) {
	for _, first := range []uint32{0, 0x900000} {
		s := newPaired(t, first)
		s.capture.sampling.recovered = 1000 // not a sample of the packets
		for n := uint32(0); n < 600; n += 3 {
			s.sendOnly(first + n)
		}
		s.sendOnly(first + 598).answerACK(first + 597)
		want := PSN{First: first, Last: first + 598, Connections: 1, Gaps: 199, Missing: 398, Unseen: 398}
		require.Equal(t, want, s.onlyFlow().PSN)
		s.sendOnly(first + 596) // in a remembered gap
		want.Late, want.Unseen = 1, 397
		require.Equal(t, want, s.onlyFlow().PSN)
	}
}

// A gap splits in two although the limit is reached.
func TestGapsSplit(t *testing.T) {
	s := newPaired(t, 0)
	s.capture.sampling.recovered = 1000 // not a sample of the packets
	for i := range uint32(maxGaps + 1) {
		s.sendOnly(10 * i)
	}
	s.sendOnly(10*maxGaps + 1)
	require.Equal(t, PSN{Last: 10*maxGaps + 1, Connections: 1, Gaps: maxGaps, Missing: 9 * maxGaps,
		Unjudged: 9 * maxGaps}, s.onlyFlow().PSN)
	s.sendOnly(15).answerACK(10*maxGaps + 1) // in the lowest gap
	require.Equal(t, PSN{Last: 10*maxGaps + 1, Connections: 1, Gaps: maxGaps, Missing: 9 * maxGaps, Late: 1,
		Unseen: 9*maxGaps - 1}, s.onlyFlow().PSN)
	s.sendOnly(4, 16, 25) // the lowest part was dropped: a retransmission
	f := s.onlyFlow()
	require.Equal(t, PSN{Last: 10*maxGaps + 1, Connections: 1, Gaps: maxGaps, Missing: 9 * maxGaps, Late: 3,
		Retransmitted: 1,
		Unseen:        9*maxGaps - 3}, f.PSN)
}

func TestPairs(t *testing.T) {
	type pair struct {
		qp   uint32
		from qpmap.Basis
		acks uint64
	}
	of := func(s *script) pair { f := s.onlyFlow(); return pair{f.SrcQP, f.SrcQPFrom, f.ACKs} }
	strays := func(s *script) (n uint64) {
		for _, u := range s.Snapshot().Unpaired {
			n += u.ACKs
		}
		return n
	}
	s := newScript(t).sendOnly(10, 11, 12, 13).answerACK(10, 11)
	require.Equal(t, pair{}, of(s))
	require.EqualValues(t, 2, strays(s))
	require.Equal(t, pair{17, qpmap.BasisVotes, 3}, of(s.answerACK(12)), "earlier answers belong to it")
	require.Zero(t, strays(s))

	s.qpA = 99 // half as many votes, then more
	require.Equal(t, pair{17, qpmap.BasisVotes, 3}, of(s.answerACK(10)))
	require.EqualValues(t, 1, strays(s))
	require.Equal(t, pair{17, qpmap.BasisVotes, 3}, of(s.answerACK(11)), "facts about a connection stay known")
	require.EqualValues(t, 2, strays(s))

	s = newScript(t).sendOnly(10, 11, 12)
	s.qpB = 19
	s.sendOnly(10, 11, 12).answerACK(10, 11, 12)
	require.Equal(t, pair{}, of(s), "a tie: two flows that used the same PSNs")
	require.EqualValues(t, 3, strays(s))

	s = newPaired(t, 10).sendOnly(10, 11).forgeREP(7).answerACK(11).forgeREP(8)
	require.Equal(t, pair{17, qpmap.BasisCM, 1}, of(s), "a REQ without REP changes nothing")

	s = newPaired(t, 10).sendOnly(10).answerACK(10)
	dreq := keyOf(rocev2.FlowKey{Src: s.a, Dst: s.b, DestQP: 1})
	s.observe(Packet{kind: requestKind, pkt: observation{Opcode: bth.UDSendOnly, Flow: dreq, SrcQP: 1,
		CM: qplearn.Exchange{Attribute: cm.AttributeDREQ, Local: 7, Remote: 1007, QP: 18, PSN: 0, MTU: uint16(0)}}})
	require.Equal(t, pair{17, qpmap.BasisCM, 2}, of(s.answerACK(10)), "packets in flight still belong to it")
	s.qpA = 30
	require.Equal(t, pair{30, qpmap.BasisVotes, 5}, of(s.sendOnly(11, 12, 13).answerACK(11, 12, 13)),
		"another connection without CM")

	// Requests of the other direction give the partner as well.
	s = newScript(t).sendOnly(10, 11).answerACK(10, 11)
	s.a, s.b, s.qpA, s.qpB = s.b, s.a, s.qpB, s.qpA
	require.Equal(t, pair{18, qpmap.BasisVotes, 2}, of(s.sendOnly(70, 71, 72).answerACK(70, 71)))
	require.Equal(t, pair{18, qpmap.BasisVotes, 3}, of(s.answerACK(72)))
	s.a, s.b, s.qpA, s.qpB = s.b, s.a, s.qpB, s.qpA
	require.Equal(t, pair{17, qpmap.BasisVotes, 2}, of(s))

	s = newScript(t).sendOnly(10)
	s.pairWith(rocev2.FlowKey{Src: s.a, Dst: s.b, DestQP: 18}, 17)
	require.Equal(t, pair{17, qpmap.BasisGiven, 1}, of(s.answerACK(10)))
}

// A NAK from a queue pair with tied votes still explains a retransmission.
func TestTiedNAK(t *testing.T) {
	s := newScript(t).sendOnly(10)
	s.qpB = 19
	s.sendOnly(10).answerRNR(10).sendOnly(10)
	f := s.onlyFlow()
	require.Equal(t, Retransmissions{RNR: 1}, f.Causes)
	require.Zero(t, f.RNRNAKs)
	for _, u := range s.Snapshot().Unpaired {
		require.EqualValues(t, 1, u.RNRNAKs)
		require.Equal(t, rocev2.FlowKey{Src: s.b, Dst: s.a, DestQP: 17}, u.FlowKey)
	}
	// So does a NAK for a packet that was not seen.
	s = newScript(t).sendOnly(10, 12, 13).answerNAK(11).sendOnly(11, 12, 13)
	require.Equal(t, Retransmissions{NAK: 2}, s.onlyFlow().Causes)
}

func TestTimes(t *testing.T) {
	s := newPaired(t, 10)
	s.setTime(100).sendOnly(10, 11)
	s.setTime(110).sendOnly(12)
	s.setTime(130).answerACK(11)
	s.setTime(150).answerACK(12)
	s.setTime(200).sendRead(13, 3000)
	s.setTime(260).answerOp(bth.RCRDMAReadResponseFirst, 0x1F, 13)
	s.setTime(300).answerOp(bth.RCRDMAReadResponseLast, 0x1F, 15)
	f := s.onlyFlow()
	require.EqualValues(t, 4, f.RTT.Count()) // 30, 30, 40, 60
	require.Equal(t, 30*time.Microsecond, f.RTT.Min())
	require.InEpsilon(t, 30*time.Microsecond, f.RTT.Percentile(0.5), 0.05)
	require.InEpsilon(t, 60*time.Microsecond, f.RTT.Percentile(0.99), 0.05)
	require.Equal(t, s.now, f.Last)

	s.setTime(400).sendOnly(16)
	s.setTime(500).sendOnly(16)
	s.setTime(600).answerACK(16) // of the first or the second transmission?
	require.EqualValues(t, 4, s.onlyFlow().RTT.Count())

	s.setTime(700).answerACK(17) // reordered with its request
	s.setTime(701).sendOnly(17)
	s.setTime(800).sendOnly(18).answerACK(18)
	require.EqualValues(t, 5, s.onlyFlow().RTT.Count())

	// Before the pair is known.
	s = newScript(t)
	s.setTime(0).sendOnly(10, 11, 12)
	s.setTime(25).answerACK(10, 11, 12)
	require.EqualValues(t, 3, s.onlyFlow().RTT.Count())

	// Time steps back.
	s.setTime(50).sendOnly(13)
	s.setTime(10).answerACK(13)
	require.EqualValues(t, 4, s.onlyFlow().RTT.Count())
	require.Zero(t, s.onlyFlow().RTT.Min())
}

func TestCNPTimes(t *testing.T) {
	s := newPaired(t, 10)
	mark := func() {
		s.observe(Packet{kind: requestKind, pkt: observation{Opcode: bth.RCSendOnly, Flow: s.keyAB(),
			PSN: s.onlyFlow().PSN.Last + 1}, trafficClass: 3})
	}
	cnp := func() { s.observe(Packet{kind: cnpKind, pkt: observation{Opcode: bth.CNP, Flow: s.keyBA()}}) }
	fast := func() {
		s.observe(Packet{kind: fastKind, pkt: observation{Opcode: bth.CNP, Flow: s.keyBA()}, about: s.keyAB(), nHops: 1,
			queue: QueueDepth{5, 77, true}})
	}
	s.setTime(0).sendOnly(10)
	s.setTime(10)
	mark()
	s.setTime(20)
	mark()
	s.setTime(60)
	cnp() // 50 after the first mark
	s.setTime(100)
	cnp() // no mark before it
	s.setTime(200)
	mark()
	s.setTime(230)
	fast() // 30
	f := s.onlyFlow()
	require.Equal(t, [4]uint64{1, 0, 0, 3}, f.ECN)
	require.Equal(t, [2]uint64{2, 1}, [2]uint64{f.CNPs, f.FastCNPs})
	require.Equal(t, 40*time.Microsecond, f.Spacing)
	require.EqualValues(t, 2, f.AfterCE.Count())
	require.InEpsilon(t, 30*time.Microsecond, f.AfterCE.Percentile(0.5), 0.05)
	require.InEpsilon(t, 50*time.Microsecond, f.AfterCE.Percentile(0.99), 0.05)
	require.Equal(t, QueueDepth{5, 77, true}, f.Queue)
}

func TestMessages(t *testing.T) {
	s := newPaired(t, 10).
		sendOp(bth.RCSendFirst, 10).sendOp(bth.RCSendMiddle, 11).sendOp(bth.RCSendLast, 12, 12).
		sendOp(bth.RCRDMAWriteFirst, 13).sendOp(bth.RCRDMAWriteLast, 15).
		sendOp(bth.RCRDMAWriteOnly, 16).sendOp(bth.RCFlush, 17).sendOp(bth.RCAtomicWrite, 18).
		sendOp(bth.RCCmpSwap, 19, 20).answerOp(bth.RCAtomicAcknowledge, 0, 19, 19).
		sendRead(21, 2000).answerOp(bth.RCRDMAReadResponseFirst, 0, 21).answerOp(bth.RCRDMAReadResponseLast, 0, 22, 22).
		sendRead(23, 2000).answerOp(bth.RCRDMAReadResponseFirst, 0, 23)
	require.Equal(t, [messageKinds]Messages{
		MessageSend: {1, 1}, MessageWrite: {2, 2}, MessageFlush: {1, 1}, MessageAtomicWrite: {1, 1},
		MessageAtomic: {2, 1}, MessageRead: {2, 1},
	}, s.onlyFlow().messages)
}

// A PPFC names the flow by address and queue pair, in all interpretations (D15).
func TestPPFC(t *testing.T) {
	s := newPaired(t, 10).sendOnly(10)
	node := netip.MustParseAddr("198.51.100.1")
	addNotice := func(from, congested netip.Addr, qp uint32) uint64 {
		p := Packet{kind: ppfcKind, pkt: observation{Opcode: bth.CNP, Flow: keyOf(rocev2.FlowKey{Src: from, Dst: s.a,
			DestQP: qp})}, about: keyOf(rocev2.FlowKey{Src: s.a, Dst: congested, DestQP: qp})}
		s.observe(p)
		return s.onlyFlow().PPFC
	}
	require.EqualValues(t, 1, addNotice(node, s.b, 18), "destination and its queue pair")
	require.EqualValues(t, 2, addNotice(node, s.b, 17), "destination and the sender's queue pair")
	require.EqualValues(t, 3, addNotice(node, node, 18), "own address, and the only flow to that queue pair")
	require.EqualValues(t, 3, addNotice(node, node, 55))
	s.b = netip.MustParseAddr("192.0.2.3")
	s.sendOnly(10)
	require.EqualValues(t, 0, addNotice(node, node, 18), "own address, and two flows to that queue pair")
	n := uint64(0)
	for _, u := range s.Snapshot().Unpaired {
		require.Equal(t, node, u.Src)
		n += u.PPFC
	}
	require.EqualValues(t, 2, n)
}

// An FCN belongs to the flow last seen with its label, if it is sent to the ingress that chose the
// label.
func TestFCN(t *testing.T) {
	s := newScript(t)
	pe, other := netip.MustParseAddr("2001:db8::1").As16(), netip.MustParseAddr("2001:db8::2").As16()
	send := func(ingress [16]byte, label uint32) {
		s.observe(Packet{kind: requestKind, pkt: observation{Opcode: bth.RCSendOnly, Flow: s.keyAB()}, tunnelled: true,
			ingress: ingress, label: label})
	}
	fcn := func(ingress [16]byte, label uint32) {
		p := Packet{kind: fcnKind, ingress: ingress, label: label, pkt: observation{Flow: key{Dst: ingress,
			QP: withoutQP}}}
		s.observe(p)
	}
	send(pe, 5)
	fcn(pe, 5)
	require.EqualValues(t, 1, s.onlyFlow().FCN)
	fcn(other, 5)
	fcn(pe, 6)
	require.EqualValues(t, 1, s.onlyFlow().FCN)
	s.qpB = 20
	send(pe, 5)
	fcn(pe, 5)
	require.EqualValues(t, 1, s.onlyFlow().FCN)
	n := uint64(0)
	for _, u := range s.Snapshot().Unpaired {
		require.False(t, u.WithQP)
		n += u.FCN
	}
	require.EqualValues(t, 2, n)
}

// A notification before the first request counts for its flow; without a request it is unmatched.
func TestNotifiedBefore(t *testing.T) {
	s := newScript(t)
	node := keyOf(rocev2.FlowKey{Src: netip.MustParseAddr("198.51.100.1"), Dst: s.a, DestQP: 18})
	s.observe(Packet{kind: fastKind, pkt: observation{Flow: node}, about: s.keyAB()})
	for _, f := range s.Snapshot().Flows {
		t.Fatal(f)
	}
	for _, u := range s.Snapshot().Unpaired {
		require.Equal(t, node.FlowKey(), u.FlowKey)
		require.EqualValues(t, 1, u.FastCNPs)
	}
	require.EqualValues(t, 1, s.sendOnly(10).onlyFlow().FastCNPs)
	for _, u := range s.Snapshot().Unpaired {
		t.Fatal(u)
	}
}

func TestNoAllocs(t *testing.T) {
	s := newPaired(t, 10).sendOnly(10).answerACK(10)
	forth, back := Packet{kind: requestKind, pkt: observation{Opcode: bth.RCSendOnly, Flow: s.keyAB(), AckReq: true}},
		Packet{kind: answerKind, pkt: observation{Opcode: bth.RCAcknowledge, Flow: s.keyBA()}}
	psn := uint32(11)
	wiretest.NoAllocs(t, "a request and its answer", func() {
		forth.pkt.PSN, back.pkt.PSN = psn, psn
		s.Observe(&forth, 1, s.now)
		s.Observe(&back, 2, s.now)
		psn++
	})
	for _, c := range []struct {
		name string
		step uint32
	}{{"gaps", 3}, {"repeats", 0}, {"lives", 70_000}} {
		t.Run(c.name, func(t *testing.T) {
			wiretest.NoAllocs(t, c.name, func() {
				forth.pkt.PSN = psn
				s.Observe(&forth, 1, s.now)
				psn = bth.AddPSN(psn, c.step)
			})
		})
	}
	capture := wiretest.Capture(t, "rxe-verbs6.pcap")
	table := New(Config{})
	var d Decoder
	var p Packet
	all := func() {
		for _, r := range capture {
			d.Decode(&p, r.Data, rocev2.DecodeOptions{AllowTruncated: len(r.Data) < r.OrigLen})
			table.Observe(&p, uint64(r.Number), r.Time)
		}
	}
	all()
	wiretest.NoAllocs(t, "a capture seen again", all)
}

// A queue pair is used again with another one: each flow keeps its own source.
func TestReusedQueuePair(t *testing.T) {
	s := newScript(t)
	s.sendOnly(10, 11, 12).answerACK(10, 11, 12) // 17 sends to 18
	require.EqualValues(t, 17, s.onlyFlow().SrcQP)
	first := *s
	s.qpB = 19 // and then 17 to 19
	s.setTime(1_050_000)
	s.sendOnly(0x100000, 0x100001, 0x100002).answerACK(0x100000, 0x100001, 0x100002)
	require.EqualValues(t, 17, s.onlyFlow().SrcQP)
	require.EqualValues(t, 3, s.onlyFlow().ACKs)
	f := first.onlyFlow()
	require.EqualValues(t, 17, f.SrcQP)
	require.EqualValues(t, qpmap.BasisVotes, f.SrcQPFrom)
	require.EqualValues(t, 3, f.ACKs)

	s.qpA, s.qpB = 30, 18 // a later partner of 18, without requests
	s.setTime(2_100_000)
	s.exchangeCM(9, 0x200000, 1024)
	require.EqualValues(t, 17, first.onlyFlow().SrcQP)
}
