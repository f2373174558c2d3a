package flows

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/rocev2"
)

// For arbitrary packets between a few queue pairs, no event is lost from the counts or counted
// twice.
func FuzzTable(f *testing.F) {
	f.Add([]byte{0x00, 0x10, 0x00, 0x12, 0x60, 0x11, 0x00, 0x11, 0x40, 0x12})
	f.Add([]byte("a script of two octets a packet, its kind and its PSN"))
	f.Fuzz(func(t *testing.T, octets []byte) {
		s := newScript(t)
		c := &s.Table.config
		c.MaxFlows, c.Evidence, c.Series = 16, true, true
		var requests, acks, exchanges uint64
		for ; len(octets) >= 2; octets = octets[2:] {
			what, psn := octets[0], 0xFFFF80+uint32(octets[1])
			s.qpA, s.qpB = uint32(what>>4&1)+2, uint32(what>>3&1)+6
			s.now = s.now.Add(time.Duration(octets[1]&0xF) * time.Microsecond)
			if what&4 != 0 {
				psn += 70_000
			}
			psn &= bth.MaxPSN
			switch what >> 5 {
			case 0, 1:
				s.sendOnly(psn)
				requests++
			case 2:
				s.answerACK(psn)
				acks++
			case 3:
				s.answerNAK(psn)
			case 4:
				s.answerRNR(psn)
			case 5:
				s.exchangeCM(uint32(what&3), psn, 0)
				requests += 2
				exchanges++
			case 6:
				s.sendOp(bth.UCSendOnly, psn)
				requests++
			default:
				s.sendOp(bth.UDSendOnly, psn)
				requests++
			}
		}
		packets := s.Evicted().Packets
		got := s.Evicted().ACKs
		for _, f := range s.Snapshot().Flows {
			p := f.PSN
			require.Equal(t, p.Missing, p.Late+p.Unseen+p.Lost+p.Unjudged)
			require.Equal(t, p.Retransmitted, f.Causes.NAK+f.Causes.RNR+f.Causes.Read+f.Causes.Timeout)
			series := s.Series(f.FlowKey)
			var sum Tally
			for i, b := range series.Bins {
				sum.addNext(&b.Tally)
				require.Greater(t, b.To, b.From)
				require.True(t, i == 0 || b.From == series.Bins[i-1].To)
			}
			require.EqualValues(t, f.IPOctets, sum.IPOctets)
			if f.Sequenced { // the last request was not a datagram
				require.EqualValues(t, []uint64{p.Late, p.Retransmitted},
					[]uint64{uint64(sum.Late), uint64(sum.Retransmitted)})
			}
			require.LessOrEqual(t, len(series.Marks), seriesMarks)
			require.LessOrEqual(t, p.Gaps, 2*f.Packets+exchanges) // a connection with answers only has a gap as well
			if f.Sequenced {
				require.LessOrEqual(t, p.Late+p.Retransmitted, f.Packets)
			}
			packets += f.Packets
			got += f.ACKs
		}
		for _, u := range s.Snapshot().Unpaired {
			got += u.ACKs
		}
		require.Equal(t, requests, packets)
		require.Equal(t, acks, got)
		require.Equal(t, flow{}, noFlow)
	})
}

// The decoder does not panic, and its result can be observed.
func FuzzDecoder(f *testing.F) {
	for _, name := range []string{"rxe-verbs6.pcap", "messages.pcap", "fastcnp.pcap", "ioam-linux618-two.pcap"} {
		for i, r := range wiretest.Capture(f, name) {
			if i%9 == 0 {
				f.Add(r.Data, uint8(0), i%2 == 0)
			}
		}
	}
	table := New(Config{MaxFlows: 64})
	f.Fuzz(func(t *testing.T, octets []byte, link uint8, cut bool) {
		var d Decoder
		var p, q Packet
		o := rocev2.DecodeOptions{Link: rocev2.LinkType(link % 6), AllowTruncated: cut}
		counts := d.Decode(&p, octets, o)
		require.Equal(t, counts, p.kind != otherTraffic && p.kind != invalidKind && p.kind != truncatedKind)
		require.True(t, cut || p.snapLength == 0)
		table.Observe(&p, 1, time.Time{})

		// The fast path sets the same fields as the slow path.
		var short, long Packet
		d.f.Decode(octets, o)
		if d.decodePlain(&short) {
			d.decodeFrame(&long)
			require.Equal(t, long, short)
		}

		// The previous packet does not matter.
		d.Decode(&q, octets, o)
		again := q
		d.Decode(&again, octets, o)
		require.Equal(t, q.kind, again.kind)
		require.Equal(t, p.kind, q.kind)
		if p.kind == requestKind {
			require.Equal(t, p, again)
		}
	})
}
