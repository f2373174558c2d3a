package pairs

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
)

// A frame is one of a capture, which may hold fewer octets of it than it had.
type frame struct {
	octets []byte
	length int
}

// pcapOf writes a capture with a link type: frame n comes n seconds after 1970.
func pcapOf(link uint32, frames ...frame) []byte {
	word := binary.LittleEndian.AppendUint32
	b := word(word(word([]byte{0xD4, 0xC3, 0xB2, 0xA1, 2, 0, 4, 0}, 0), 0), 65535)
	b = word(b, link)
	for i, f := range frames {
		b = word(word(word(word(b, uint32(i)), 0), uint32(len(f.octets))), uint32(f.length))
		b = append(b, f.octets...)
	}
	return b
}

// messages returns the first frames of messages.pcap, of which only so many
// octets were captured: a WRITE Only of 90 octets, an Acknowledge, a CNP.
func messages(t *testing.T, n, octets int) (frames []frame) {
	for _, p := range wiretest.Capture(t, "messages.pcap")[:n] {
		frames = append(frames, frame{p.Data[:min(octets, len(p.Data))], len(p.Data)})
	}
	return frames
}

// For packets that are truncated too short, the sufficient length is printed; unsupported link types print none.
func TestCut(t *testing.T) {
	frames := messages(t, 3, 64)
	_, stderr, status := pairs(pcapOf(1, frames...), "-")
	require.Zero(t, status)
	require.Equal(t,
		"3 packets; 0 pairs: 0 by connection management, 0 by votes, 0 in datagrams; 0 flows without one\n"+
			"truncated before the end of the headers: 3; capture with -s 90 or more\n", stderr)
	_, stderr, _ = pairs(pcapOf(1, frame{frames[0].octets, 64}), "-") // it had no more
	require.NotContains(t, stderr, "cut")
	out, stderr, status := pairs(pcapOf(105, append(frames, messages(t, 3, 1000)...)...), "-") // IEEE 802.11
	require.Zero(t, status)
	require.Empty(t, out)
	require.Equal(t,
		"6 packets; 0 pairs: 0 by connection management, 0 by votes, 0 in datagrams; 0 flows without one\n", stderr)
}

// A frame without RoCEv2 counts for no flow, and does not inherit the flow of an earlier packet.
func TestNothingAfterTunnel(t *testing.T) {
	whole := messages(t, 1, 1000)[0]
	gre := wiretest.Hex(t, "020000000001 020000000002 0800 4500 0000 0000 4000 40 2f 0000 c0000201 c0000202 0000 6558")
	inside := append(bytes.Clone(gre), whole.octets...)
	inside[16], inside[17] = byte((len(inside)-14)>>8), byte(len(inside)-14)
	empty := wiretest.Hex(t, "020000000001 020000000002 0800 45")
	udp := wiretest.Hex(t,
		"020000000001 020000000002 0800 4500 001c 0000 4000 4011 0000 c0000201 c0000202 1000 0035 0008 0000")
	for _, c := range []struct {
		name   string
		second []byte
	}{{"no IP header", empty}, {"no RoCEv2", udp}} {
		t.Run(c.name, func(t *testing.T) {
			out, _, status := pairs(pcapOf(1, frame{inside, len(inside)}, frame{c.second, len(c.second)}), "-json", "-")
			require.Zero(t, status)
			var l lineRead
			require.NoError(t, json.Unmarshal([]byte(out), &l), c.name)
			require.EqualValues(t, 1, l.Packets, c.name)
			require.Equal(t, time.Unix(0, 0).UTC(), l.Last, c.name)
		})
	}
}

// A script of packets between one host and another, a millisecond apart.
type script struct {
	table *table
	now   time.Time
}

func newScript() *script { return &script{newTable(0), time.Unix(1000, 0)} }

var hosts = [2]netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")}

func (s *script) packet(from int, op bth.Opcode, port uint16, qp, psn uint32) *rocev2.Packet {
	p := &rocev2.Packet{Datagram: rocev2.Datagram{Src: hosts[from], Dst: hosts[1-from], SrcPort: port}}
	p.BTH.Header = bth.Header{Opcode: op, PKey: 0xFFFF, DestQP: qp, PSN: psn}
	return p
}

func (s *script) addPacket(p *rocev2.Packet) *script {
	s.now = s.now.Add(time.Millisecond)
	s.table.observe(p, s.now)
	return s
}

// exchange is a request to queue pair 0x31 and its answer to one of the source.
func (s *script) exchange(srcQP, psn uint32) *script {
	return s.addPacket(s.packet(0, bth.RCSendOnly, 0, 0x31, psn)).addPacket(s.packet(1, bth.RCAcknowledge, 0, srcQP,
		psn))
}

// requests returns the rows of the requests.
func (s *script) requests() (rows []*row) {
	for _, r := range s.table.sortedRows() {
		if r.flow.DestQP == 0x31 {
			rows = append(rows, r)
		}
	}
	return rows
}

// Packets from before the pair was known belong to its row: the first request is at 1000.001 s, the others follow every
// 2 ms.
func TestBeforeThePairWasKnown(t *testing.T) {
	s := newScript()
	for psn := range uint32(5) {
		s.exchange(0x21, 100+psn)
	}
	rows := s.requests()
	require.Len(t, rows, 1)
	require.EqualValues(t, 0x21, rows[0].srcQP)
	require.EqualValues(t, 5, rows[0].packets)
	require.Equal(t, time.Unix(1000, 1e6), rows[0].first)
	require.Equal(t, time.Unix(1000, 9e6), rows[0].last)
}

// Nor are packets lost that come when the pair is not known any more: they are
// the last of its row.
func TestAfterThePairWasForgotten(t *testing.T) {
	s := newScript()
	for psn := range uint32(5) {
		s.exchange(0x21, 100+psn)
	}
	s.now = s.now.Add(2 * time.Second)
	for psn := range uint32(2) {
		s.exchange(0x22, 0x800000+psn) // two votes are not enough
	}
	rows := s.requests()
	require.Len(t, rows, 1)
	require.EqualValues(t, 7, rows[0].packets)
	require.Equal(t, time.Unix(1000, 1e6), rows[0].first)
	require.Equal(t, time.Unix(1002, 13e6), rows[0].last)
}

// Two queue pairs that answer the same PSNs are as likely as each other.
func TestAmbiguous(t *testing.T) {
	s := newScript()
	for psn := range uint32(4) {
		s.exchange(0x21, 100+psn).addPacket(s.packet(1, bth.RCAcknowledge, 0, 0x22, 100+psn))
	}
	rows := s.requests()
	require.Len(t, rows, 1)
	require.Zero(t, rows[0].pair.From)
	require.Equal(t, "ambiguous", rows[0].evidenceText())
}

// Notifications, management and unknown opcodes make no row.
func TestNoRow(t *testing.T) {
	s := newScript()
	s.addPacket(s.packet(0, bth.CNP, 0, 0x31, 0)).addPacket(s.packet(0, bth.Opcode(0x1F), 0, 0x31,
		0)).addPacket(s.packet(0,
		bth.UDSendOnly, 0, 1, 0))
	require.Empty(t, s.table.sortedRows())
}

// A datagram says itself where it comes from: each
// sender has a row.
func TestDatagrams(t *testing.T) {
	s := newScript()
	for _, srcQP := range []uint32{0x21, 0x22, 0x21} {
		p := s.packet(0, bth.UDSendOnly, 0, 0x31, 7)
		p.BTH.Present = bth.HasDETH
		p.BTH.DETH.SrcQP = srcQP
		s.addPacket(p)
	}
	s.addPacket(s.packet(0, bth.RCSendOnly, 0, 0x32, 7)) // none to say so
	rows := s.requests()
	require.Len(t, rows, 2)
	require.EqualValues(t, []uint64{2, 1}, []uint64{rows[0].packets, rows[1].packets})
	require.Equal(t, []uint32{0x21, 0x22}, []uint32{rows[0].srcQP, rows[1].srcQP})
	require.Equal(t, time.Unix(1000, 1e6), rows[0].first)
	require.Equal(t, time.Unix(1000, 3e6), rows[0].last)
}

func TestSummary(t *testing.T) {
	tab := newTable(0)
	for _, c := range []struct {
		from qpmap.Basis
		n    uint32
	}{
		{qpmap.BasisCM, 1}, {qpmap.BasisVotes, 2}, {qpmap.BasisPort, 4}, {qpmap.BasisUD, 8},
	} {
		t.Run(fmt.Sprint(c.from), func(t *testing.T) {
			for srcQP := range c.n {
				tab.rowOf(rocev2.FlowKey{DestQP: uint32(c.from)}, qpmap.Pair{SrcQP: srcQP, From: c.from}, time.Time{})
			}
		})
	}
	var out strings.Builder
	tab.printSummary(&out, 3)
	require.Equal(t,
		"3 packets; 15 pairs: 1 by connection management, 2 by votes, 4 by votes and the UDP source port, "+
			"8 in datagrams; 0 flows without one\n",
		out.String())
}

// Packets without a time have none, as in a pcapng file's simple blocks.
func TestWithoutTime(t *testing.T) {
	rows := []*row{{rowKey: rowKey{flow: rocev2.FlowKey{Src: hosts[0], Dst: hosts[1], DestQP: 5}},
		pair: qpmap.Pair{Transport: bth.TransportUC, PKey: 1}}}
	var out strings.Builder
	require.NoError(t, writeTable(&out, rows))
	require.Equal(t, "10.0.0.1 > 10.0.0.2  0x000005  -        unknown  UC         -    0x0001  0        -      -",
		strings.TrimSpace(strings.Split(out.String(), "\n")[1]))
	out.Reset()
	require.NoError(t, writeJSON(&out, rows))
	require.JSONEq(t,
		`{"src":"10.0.0.1","dst":"10.0.0.2","dest_qp":5,"src_qp_from":"unknown","transport":"UC","pkey":"0x0001",`+
			`"packets":0}`, out.String())
	out.Reset()
	rows[0].first, rows[0].last = time.Unix(1, 0).UTC(), time.Unix(2, 0).UTC()
	rows[0].ambiguous = true
	require.NoError(t, writeJSON(&out, rows))
	require.JSONEq(t,
		`{"src":"10.0.0.1","dst":"10.0.0.2","dest_qp":5,"src_qp_from":"ambiguous",`+
			`"transport":"UC","pkey":"0x0001","packets":0,
		"first":"1970-01-01T00:00:01.000000Z","last":"1970-01-01T00:00:02.000000Z"}`, out.String())
}
