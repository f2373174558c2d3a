package flows

import (
	"encoding/json"
	"errors"
	"io"
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/rocev2"
)

// observedReal returns a table with the packets of a capture in testdata/real, and the number of
// times that senders went back.
func observedReal(t *testing.T, name string) (table *Table, retries uint64) {
	t.Helper()
	f := wiretest.Must(os.Open(wiretest.Path(t, "real/"+name+".pcap.gz")))(t)
	defer f.Close()
	r := wiretest.Must(capture.Open(f))(t)
	table = New(Config{Series: true})
	var d Decoder
	var p Packet
	for frame := uint64(1); ; frame++ {
		var record capture.Record
		err := r.Next(&record)
		if errors.Is(err, io.EOF) {
			return table, retries
		}
		require.NoError(t, err)
		d.Decode(&p, record.Data, record.Options())
		table.Observe(&p, frame, record.Time)
		if s := table.streamOf(&p.pkt.Flow); p.kind == requestKind && s.flow.history != 0 {
			if naks := table.histories.lookUp(s.flow.history).naks; naks != nil && naks.began == table.stats.Packets {
				retries++
			}
		}
	}
}

// Counts of captures of two soft-RoCE hosts agree with their counters, the client, the queue
// between them, or the Identifications before and after the queue.
func TestRealCounts(t *testing.T) {
	for _, c := range []struct {
		name   string
		psn    PSN             // sum over all flows, without first and last PSNs and connections
		causes Retransmissions // if known
		naks   uint64          // rxe's out_of_seq_request
		rnrs   uint64          // rxe's send_rnr_err
		messages,
		complete uint64
	}{
		{"atomic4.eth0", PSN{}, Retransmissions{}, 0, 0, 50, 50},
		{"atomic4.eth1", PSN{}, Retransmissions{}, 0, 0, 50, 50},
		{"nvme4.eth0", PSN{}, Retransmissions{}, 0, 0, 187, 187},
		{"nvme4.eth1", PSN{}, Retransmissions{}, 0, 0, 187, 187},
		{"rping6.eth0", PSN{}, Retransmissions{}, 0, 0, 60, 60},
		{"rping6.eth1", PSN{}, Retransmissions{}, 0, 0, 60, 60},
		{"sR4-redect-q4.eth0", PSN{}, Retransmissions{}, 0, 0, 150, 150},
		{"sR4-redect-q4.eth1", PSN{}, Retransmissions{}, 0, 0, 150, 150},
		// READs of 6 PSNs each; four were lost.
		{"r6-loss2.eth0", PSN{Retransmitted: 14}, Retransmissions{NAK: 14}, 4, 0, 300, 300},
		{"r6-loss2.eth1", PSN{Retransmitted: 10, Gaps: 4, Missing: 24, Late: 4}, Retransmissions{NAK: 10}, 4, 0,
			300, 300},
		// Nothing was lost: the receiver was not ready each time.
		{"s4-rnr.eth0", PSN{Retransmitted: 1528}, Retransmissions{RNR: 1528}, 28, 28, 60, 60},
		{"s4-rnr.eth1", PSN{Retransmitted: 1528}, Retransmissions{RNR: 1528}, 28, 28, 60, 60},
		// Nothing was lost, but NAKs were sent, and the sender went back.
		{"send4-reorder.eth0", PSN{Retransmitted: 604}, Retransmissions{NAK: 475, Timeout: 129}, 6, 0, 100, 100},
		{"send4-reorder.eth1",
			PSN{Retransmitted: 604, Gaps: 3, Missing: 63, Late: 63}, Retransmissions{NAK: 475, Timeout: 129}, 6, 0,
			100, 100},
		{"write4-loss1.eth0", PSN{Retransmitted: 2038}, Retransmissions{NAK: 877, Timeout: 1161}, 12, 0, 200, 200},
		{"write4-loss1.eth1",
			PSN{Retransmitted: 2002, Gaps: 14, Missing: 14, Late: 14}, Retransmissions{NAK: 857, Timeout: 1145}, 12,
			0, 200, 200},
		{"write4-red-ect.eth0", PSN{Retransmitted: 1939}, Retransmissions{NAK: 488, Timeout: 1451}, 4, 0, 100, 100},
		{"write4-red-ect.eth1",
			PSN{Retransmitted: 890, Gaps: 17, Missing: 174, Late: 174}, Retransmissions{NAK: 171, Timeout: 719}, 4,
			0, 100, 100},
		{"write6-q8-loss1.eth0", PSN{Retransmitted: 8862}, Retransmissions{NAK: 1008, Timeout: 7854}, 14, 0, 320, 320},
		{"write6-q8-loss1.eth1", PSN{Retransmitted: 8750, Gaps: 10, Missing: 10, Late: 10},
			Retransmissions{NAK: 996, Timeout: 7754}, 14, 0, 320, 320},
		{"w6-ackloss3.eth0", PSN{Retransmitted: 6}, Retransmissions{Timeout: 6}, 0, 0, 300, 300},
		{"w6-ackloss3.eth1", PSN{Retransmitted: 6}, Retransmissions{Timeout: 6}, 0, 0, 300, 300},
		// A third of the retransmissions was lost again: 8 of 414 have another cause than by the
		// Identifications.
		{"w4-reddrop-q4.eth0", PSN{Retransmitted: 748}, Retransmissions{NAK: 471, Timeout: 277}, 41, 0, 118, 118},
		{"w4-reddrop-q4.eth1",
			PSN{Retransmitted: 414, Gaps: 64, Missing: 75, Late: 75}, Retransmissions{NAK: 305, Timeout: 109}, 41,
			0, 118, 118},
		// UC: two messages lost their first packet, two another packet.
		{"w4-uc-loss2.eth0", PSN{}, Retransmissions{}, 0, 0, 150, 150},
		{"w4-uc-loss2.eth1", PSN{Gaps: 4, Missing: 4, Unjudged: 4}, Retransmissions{}, 0, 0, 148, 146},
		// The network made copies; nothing was retransmitted.
		{"write4-dup.eth0", PSN{}, Retransmissions{}, 0, 0, 100, 100},
		{"write4-dup.eth1", PSN{Copies: 11}, Retransmissions{}, 0, 0, 100, 100},
	} {
		t.Run(c.name, func(t *testing.T) {
			var psn PSN
			var causes Retransmissions
			var naks, rnrs, begun, complete uint64
			table, _ := observedReal(t, c.name)
			for _, f := range table.Snapshot().Flows {
				for kind, m := range f.Messages() {
					require.LessOrEqual(t, m.Complete, m.Begun, "%v %v", f.FlowKey, kind)
					if f.Sequenced {
						begun += m.Begun
						complete += m.Complete
					}
				}
				if f.Peak != 0 || f.Packets >= 3 {
					require.GreaterOrEqual(t, f.Peak, f.Mean)
				}
				p := &f.PSN
				psn.Gaps += p.Gaps
				psn.Missing += p.Missing
				psn.Late += p.Late
				psn.Retransmitted += p.Retransmitted
				psn.Copies += p.Copies
				psn.Unseen += p.Unseen
				psn.Lost += p.Lost
				psn.Unjudged += p.Unjudged
				causes.NAK += f.Causes.NAK
				causes.RNR += f.Causes.RNR
				causes.Read += f.Causes.Read
				causes.Timeout += f.Causes.Timeout
				naks += *f.NAK(bth.NAKPSNSequence)
				rnrs += f.RNRNAKs
			}
			require.Equal(t, c.psn, psn)
			require.Equal(t, c.causes, causes)
			require.Equal(t, [2]uint64{c.naks, c.rnrs}, [2]uint64{naks, rnrs})
			require.Equal(t, [2]uint64{c.messages, c.complete}, [2]uint64{begun, complete})
		})
	}
}

// rxe counts each time it went back: once for each accepted NAK, and once for each timeout.
// Complete captures give the same number.
func TestRealRetries(t *testing.T) {
	for _, name := range []string{
		"r6-loss2", "send4-reorder", "write4-loss1", "write4-red-ect", "w4-reddrop-q4", "write6-q8-loss1",
		"w6-ackloss3",
	} {
		octets := wiretest.Must(os.ReadFile(wiretest.Path(t, "real/"+name+".truth.json")))(t)
		var truth struct {
			Counters struct{ Sender, Receiver map[string]uint64 }
		}
		require.NoError(t, json.Unmarshal(octets, &truth))
		_, retries := observedReal(t, name+".eth0")
		require.Equal(t, truth.Counters.Sender["completer_retry_err"], retries, name)
	}
}

// sendID sends requests with this Identification.
func (s *script) sendID(id uint16, op bth.Opcode, psns ...uint32) *script {
	for _, psn := range psns {
		s.observe(Packet{kind: requestKind, pkt: observation{Opcode: op, Flow: s.keyAB(), PSN: psn, AckReq: true,
			Payload: 100}, ident: id})
		id++
	}
	return s
}

func TestCopies(t *testing.T) {
	const op = bth.RCSendOnly
	v6 := func(s *script) *script {
		s.a, s.b = netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("2001:db8::2")
		return s
	}
	for _, c := range []struct {
		name   string
		script *script
		psn    PSN
		causes Retransmissions
	}{
		{"a copy",
			newPaired(t, 10).sendID(7, op, 10, 11, 12).sendID(9, op, 12).sendID(10, op, 13),
			PSN{First: 10, Last: 13, Connections: 1, Copies: 1}, Retransmissions{}},
		{"a copy that comes later, twice",
			newPaired(t, 10).sendID(7, op, 10, 11, 12, 13, 14).sendID(8, op, 11).sendID(8, op, 11),
			PSN{First: 10, Last: 14, Connections: 1, Copies: 2}, Retransmissions{}},
		{"a retransmission",
			newPaired(t, 10).sendID(7, op, 10, 11, 12).sendID(10, op, 12),
			PSN{First: 10, Last: 12, Connections: 1, Retransmitted: 1}, Retransmissions{Timeout: 1}},
		{"a retransmission, a copy of it and one of the original",
			newPaired(t, 10).sendID(7, op, 10, 11, 12).sendID(10, op, 12).sendID(10, op, 12).sendID(9, op, 12),
			PSN{First: 10, Last: 12, Connections: 1, Retransmitted: 1, Copies: 2}, Retransmissions{Timeout: 1}},
		{"a copy among retransmissions after a NAK",
			newPaired(t, 10).sendID(7, op, 10, 11, 12).answerNAK(11).sendID(10, op, 11).sendID(8, op, 11).sendID(11,
				op, 12),
			PSN{First: 10, Last: 12, Connections: 1, Retransmitted: 2, Copies: 1}, Retransmissions{NAK: 2}},
		{"a copy of a late request",
			newPaired(t, 10).sendID(7, op, 10, 11).sendID(10, op, 13).sendID(9, op, 12).sendID(9, op, 12).answerACK(13),
			PSN{First: 10, Last: 13, Connections: 1, Gaps: 1, Missing: 1, Late: 1, Copies: 1}, Retransmissions{}},
		{"UC",
			newScript(t).sendID(7, bth.UCSendOnly, 10, 11, 12).sendID(9, bth.UCSendOnly, 12),
			PSN{First: 10, Last: 12, Connections: 1, Copies: 1}, Retransmissions{}},
		{"all Identifications are 0",
			newPaired(t, 10).sendOnly(10, 11, 12, 12),
			PSN{First: 10, Last: 12, Connections: 1, Retransmitted: 1}, Retransmissions{Timeout: 1}},
		{"all Identifications except one are 0",
			newPaired(t, 10).sendOnly(10, 11).sendID(9, op, 12).sendOnly(13, 14, 14),
			PSN{First: 10, Last: 14, Connections: 1, Retransmitted: 1}, Retransmissions{Timeout: 1}},
		{"another PSN",
			newPaired(t, 10).sendID(7, op, 10, 11, 12).sendID(8, op, 10),
			PSN{First: 10, Last: 12, Connections: 1, Retransmitted: 1}, Retransmissions{Timeout: 1}},
		{"a PSN of the previous connection",
			newPaired(t, 10).sendID(7, op, 10, 11, 12).sendID(10, op, 900_000, 900_001).sendID(9, op, 12, 13),
			PSN{First: 10, Last: 13, Connections: 3}, Retransmissions{}},
		{"IPv6 has no Identification",
			v6(newScript(t)).sendID(7, op, 10, 11, 12).sendID(9, op, 12),
			PSN{First: 10, Last: 12, Connections: 1, Retransmitted: 1}, Retransmissions{Timeout: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := c.script.onlyFlow()
			require.Equal(t, c.psn, f.PSN)
			require.Equal(t, c.causes, f.Causes)
		})
	}
	// A copy begins no message and is no trouble, and the answer to the original is timed.
	s := newPaired(t, 10)
	s.setTime(0).sendID(7, op, 10, 11, 12)
	s.setTime(10).sendID(9, op, 12)
	s.setTime(30).answerACK(12)
	f := s.onlyFlow()
	require.Equal(t, Messages{3, 3}, *f.Message(MessageSend))
	require.Zero(t, f.FirstTrouble)
	require.Zero(t, f.Trouble())
	require.EqualValues(t, 4, f.Packets)
	require.EqualValues(t, 3, f.RTT.Count())
	require.Equal(t, 30*time.Microsecond, f.RTT.Min())
}

// Complete counts messages that were seen to begin, and of which no packet is missing.
func TestWholeMessages(t *testing.T) {
	const first, middle, last, only = bth.RCSendFirst, bth.RCSendMiddle, bth.RCSendLast, bth.RCSendOnly
	uc := func(op bth.Opcode) bth.Opcode { return op | 0x20 }
	for _, c := range []struct {
		name   string
		script *script
		of     Messages
	}{
		{"complete", newPaired(t, 10).sendOp(first, 10).sendOp(middle, 11).sendOp(last, 12), Messages{1, 1}},
		{"the first one comes late, and again", newPaired(t, 10).sendOp(only, 12, 10, 10), Messages{2, 2}},
		{"reordered", newPaired(t, 10).sendOp(first, 10).sendOp(last, 12).sendOp(middle, 11).sendOp(only, 13),
			Messages{2, 2}},
		{"the first comes last",
			newPaired(t, 10).sendOp(only, 10).sendOp(middle, 12).sendOp(last, 13).sendOp(first, 11),
			Messages{2, 2}},
		{"the last comes last",
			newPaired(t, 10).sendOp(first, 10).sendOp(middle, 11).sendOp(first, 13).sendOp(last, 14).sendOp(last, 12),
			Messages{2, 2}},
		{"the middle is missing, UC",
			newScript(t).sendOp(uc(first), 10).sendOp(uc(last), 12).sendOp(uc(only), 13),
			Messages{2, 1}},
		{"the middle is missing, received", newPaired(t, 10).sendOp(first, 10).sendOp(last, 12).answerACK(12),
			Messages{1, 1}},
		{"the middle is missing, lost", newPaired(t, 10).sendOp(first, 10).sendOp(last, 12).answerACK(10),
			Messages{1, 0}},
		{"the first is missing, received",
			newPaired(t, 10).sendOp(only, 10).sendOp(middle, 12).sendOp(last, 13).answerACK(13),
			Messages{1, 1}},
		{"the last is missing", newPaired(t, 10).sendOp(first, 10).sendOp(middle, 11).sendOp(only, 13).
			answerACK(13), Messages{2, 1}},
		{"two are missing, of one message",
			newScript(t).sendOp(uc(first), 10).sendOp(uc(middle), 12).sendOp(uc(last), 14),
			Messages{1, 0}},
		{"two are missing, one is late",
			newScript(t).sendOp(uc(first), 10).sendOp(uc(middle), 12).sendOp(uc(last), 14).sendOp(uc(middle), 13),
			Messages{1, 0}},
		{"two are missing, both are late",
			newScript(t).sendOp(uc(first), 10).sendOp(uc(middle), 12).sendOp(uc(last), 14).sendOp(uc(middle), 13, 11),
			Messages{1, 1}},
		{"a gap from the end of a message to the beginning of the next",
			newScript(t).sendOp(uc(first), 10).sendOp(uc(last), 14).sendOp(uc(only), 15),
			Messages{2, 1}},
		{"… of which the beginning comes",
			newScript(t).sendOp(uc(first), 10).sendOp(uc(last), 14).sendOp(uc(first), 13),
			Messages{2, 1}},
		{"… and then the end",
			newScript(t).sendOp(uc(first), 10).sendOp(uc(last), 14).sendOp(uc(first), 13).sendOp(uc(last), 11).
				sendOp(uc(only),
					12),
			Messages{3, 3}},
		{"the capture begins in a message",
			newScript(t).sendOp(middle, 11).sendOp(last, 12).sendOp(only, 13),
			Messages{1, 1}},
		{"… and the first one is repeated",
			newScript(t).sendOp(middle, 11).sendOp(last, 12).sendOp(only, 13).sendOp(first, 10),
			Messages{2, 2}},
		{"… and it is repeated before the last one",
			newScript(t).sendOp(middle, 11).sendOp(first, 10).sendOp(last, 12),
			Messages{1, 1}},
		{"… and nothing ends it", newScript(t).sendOp(middle, 11).sendOp(first, 10).sendOp(middle, 12), Messages{1, 0}},
		{"another connection",
			newScript(t).sendOp(uc(first), 10).sendOp(uc(last), 12).sendOp(uc(first), 900_000).sendOp(uc(last),
				900_001),
			Messages{2, 1}},
		{"a new connection within a message",
			newScript(t).sendOp(uc(only), 10).sendOp(uc(last), 900_001).sendOp(uc(only), 900_002),
			Messages{2, 2}},
		{"retransmissions begin no messages",
			newPaired(t, 10).sendOp(first, 10).sendOp(last, 11).sendOp(first, 10).sendOp(last, 11),
			Messages{1, 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.of, c.script.onlyFlow().messages[MessageSend])
		})
	}
	// More gaps than maxGaps, each in a message of its own.
	s := newScript(t)
	for i := range uint32(3 * maxGaps) {
		s.sendOp(uc(first), 3*i).sendOp(uc(last), 3*i+2)
	}
	require.Equal(t, Messages{3 * maxGaps, 0}, s.onlyFlow().messages[MessageSend])
}

// As many READs and ATOMICs as an adapter may have outstanding.
func TestManyOutstanding(t *testing.T) {
	s := newPaired(t, 0)
	for i := range uint32(maxAsked) {
		s.sendOp(bth.RCFetchAdd, i)
	}
	for i := range uint32(maxAsked) {
		s.answerOp(bth.RCAtomicAcknowledge, 0, i, i)
	}
	require.Equal(t, Messages{maxAsked, maxAsked}, s.onlyFlow().messages[MessageAtomic])
	s = newPaired(t, 0)
	for i := range uint32(maxAsked) {
		s.sendRead(2*i, 2000)
	}
	for i := range uint32(maxAsked) {
		i = maxAsked - 1 - i // in reverse
		s.answerOp(bth.RCRDMAReadResponseLast, 0, 2*i+1, 2*i+1)
	}
	require.Equal(t, Messages{maxAsked, maxAsked}, s.onlyFlow().messages[MessageRead])
	// Requests outstanding in another connection are forgotten.
	s.exchangeCM(8, 5, 1024).sendRead(5, 2000).answerOp(bth.RCRDMAReadResponseLast, 0, 3, 6)
	require.Equal(t, Messages{maxAsked + 1, maxAsked + 1}, s.onlyFlow().messages[MessageRead])
}

func TestRates(t *testing.T) {
	send := func(s *script, us int, octets uint32) *script {
		s.setTime(us).observe(Packet{kind: requestKind, pkt: observation{Opcode: bth.RCSendOnly, Flow: s.keyAB(),
			PSN: uint32(us)},
			ipOctets: octets})
		return s
	}
	rates := func(s *script) [2]float64 { f := s.onlyFlow(); return [2]float64{f.Mean, f.Peak} }
	s := send(send(newScript(t), 0, 1000), 1, 1000)
	require.Equal(t, [2]float64{}, rates(s), "two are not enough")
	require.Equal(t, [2]float64{3000 * 8 / 4e-6, 3000 * 8 / 4e-6}, rates(send(s, 4, 1000)), "shorter than a window")
	s = send(send(send(newScript(t), 0, 1000), 0, 1000), 0, 1000)
	require.Equal(t, [2]float64{}, rates(s), "no time between")
	s = send(send(send(newScript(t), 0, 1000), 99_999, 9000), 100_000, 10_000)
	require.Equal(t, [2]float64{20_000 * 8 / 0.1, 20_000 * 8 / 0.1}, rates(s), "two windows, only just longer than one")
	s = send(send(send(newScript(t), 0, 1000), 250_000, 9000), 400_000, 2000)
	require.Equal(t, [2]float64{12_000 * 8 / 0.4, 9000 * 8 / 0.1}, rates(s))
}

// A table of very few flows evicts one for each new one.
func TestFewFlows(t *testing.T) {
	for flows := 1; flows <= 4; flows++ {
		table := New(Config{MaxFlows: flows})
		var d Decoder
		var p Packet
		for _, name := range []string{"rxe-verbs6.pcap", "rxe-ucmatose4.pcap", "messages.pcap"} {
			for _, r := range wiretest.Capture(t, name) {
				d.Decode(&p, r.Data, rocev2.DecodeOptions{})
				table.Observe(&p, uint64(r.Number), r.Time)
			}
		}
		require.LessOrEqual(t, len(table.Snapshot().Flows), max(flows, minFlows))
		require.NotZero(t, table.Evicted().Flows)
	}
}

// A Snapshot does not change later.
func TestSnapshotStays(t *testing.T) {
	s := newPaired(t, 10).sendOnly(10).answerACK(10)
	s.qpB = 30
	s.sendOnly(10)
	all := s.Snapshot().Flows
	keys := map[rocev2.FlowKey]bool{}
	for _, f := range all {
		keys[f.FlowKey] = true
		if f.RTT != nil {
			s.qpB = 18
			s.setTime(100).sendOnly(11).setTime(200).answerACK(11)
			require.EqualValues(t, 1, f.RTT.Count())
			require.EqualValues(t, 1, f.Packets)
			require.EqualValues(t, 2, s.onlyFlow().RTT.Count())
		}
	}
	require.Len(t, keys, len(all))
	require.True(t, slices.ContainsFunc(all, func(f Flow) bool { return f.RTT != nil }))
}
