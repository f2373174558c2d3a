package pairs

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/internal/flowtable"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
)

func pairs(stdin []byte, args ...string) (stdout, stderr string, status int) {
	var out, messages bytes.Buffer
	status = Run(context.Background(), args, bytes.NewReader(stdin), &out, &messages)
	return out.String(), messages.String(), status
}

// The number of flows known in each capture, and the evidence. In these captures, both ends of a connection have the
// same number.
func TestCaptures(t *testing.T) {
	want := []struct {
		name string
		want map[string]int
	}{
		{"rxe-perf4.pcap", map[string]int{"votes": 6, "ud": 2}},
		{"rxe-rping6.pcap", map[string]int{"cm": 2}},
		{"rxe-ucmatose4.pcap", map[string]int{"cm": 4}},
		{"rxe-udaddy6.pcap", map[string]int{"ud": 2}},
		// unknown: UC, one answered once, one for one PSN only
		{"rxe-verbs6.pcap", map[string]int{"votes": 6, "ud": 1, "unknown": 5}},
		{"rxe-vlan4.pcap", map[string]int{"votes": 2, "ud": 1}},
	}
	for _, c := range want {
		t.Run(c.name, func(t *testing.T) {
			out, stderr, status := pairs(nil, "-json", wiretest.Path(t, c.name))
			require.Zero(t, status)
			require.NotEmpty(t, stderr)
			got := map[string]int{}
			for text := range strings.Lines(out) {
				var l lineRead
				require.NoError(t, json.Unmarshal([]byte(text), &l))
				got[l.SrcQPFrom]++
				if l.SrcQP != nil {
					require.Equal(t, l.DestQP, *l.SrcQP, text)
				}
				require.Equal(t, "0xffff", l.PKey)
				require.NotZero(t, l.Packets)
			}
			require.Equal(t, c.want, got)
		})
	}
}

func TestForPeople(t *testing.T) {
	out, stderr, status := pairs(nil, wiretest.Path(t, "rxe-ucmatose4.pcap"))
	require.Zero(t, status)
	require.Equal(t,
		`FLOW                   QP        FROM QP   BY  TRANSPORT  MTU   PKEY    PACKETS  FIRST            LAST
10.77.0.1 > 10.77.0.2  0x000011  0x000011  cm  RC         1024  0xffff  6        09:52:06.931494  09:52:06.960968
10.77.0.1 > 10.77.0.2  0x000012  0x000012  cm  RC         1024  0xffff  6        09:52:06.934046  09:52:06.961018
10.77.0.2 > 10.77.0.1  0x000011  0x000011  cm  RC         1024  0xffff  6        09:52:06.931494  09:52:06.956618
10.77.0.2 > 10.77.0.1  0x000012  0x000012  cm  RC         1024  0xffff  6        09:52:06.934046  09:52:06.957380
`, out)
	require.Equal(t,
		"63 packets; 4 pairs: 4 by connection management, 0 by votes, 0 in datagrams; 0 flows without one\n", stderr)
	out, _, _ = pairs(nil, wiretest.Path(t, "rxe-verbs6.pcap"))
	require.Contains(t, out, "fd77::2 > fd77::1  0x000012  -         unknown  UC         -     0xffff  21 ")
}

// A queue pair that is used again has a row for each of its senders.
func TestLifetimes(t *testing.T) {
	a, b := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	now := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	tab := newTable(0, maxRows)
	for _, lifetime := range []struct{ srcQP, psn uint32 }{{0x21, 5}, {0x22, 0x800000}} {
		for n := range uint32(4) {
			for _, x := range []struct {
				src, dst netip.Addr
				op       bth.Opcode
				qp       uint32
			}{{a, b, bth.RCSendOnly, 0x31}, {b, a, bth.RCAcknowledge, lifetime.srcQP}} {
				p := rocev2.Packet{Datagram: rocev2.Datagram{Src: x.src, Dst: x.dst}}
				p.BTH.Header = bth.Header{Opcode: x.op, PKey: 0x8001, DestQP: x.qp, PSN: lifetime.psn + n}
				now = now.Add(time.Millisecond)
				observePacket(tab, &p, now)
			}
		}
		now = now.Add(2 * time.Second) // the next lifetime is believed when this one has fallen silent
	}
	var got []uint32
	for _, r := range tab.sortedRows() {
		if r.flow.DestQP == 0x31 {
			got = append(got, r.pair.SrcQP)
		}
	}
	require.Equal(t, []uint32{0, 0x21, 0x22}, got) // includes packets from before the votes were sufficient
	var out strings.Builder
	require.NoError(t, writeTable(&out, tab.sortedRows()))
	require.Contains(t, out.String(), "10.0.0.1 > 10.0.0.2  0x000031  0x000022  votes")
	require.Contains(t, out.String(), "0x8001")
}

// Packets in mirrors and overlays count, except with -outer.
func TestTunnels(t *testing.T) {
	var file []byte
	gre := wiretest.Hex(t, "020000000001 020000000002 0800 4500 0000 0000 4000 40 2f 0000 c0000201 c0000202 0000 6558")
	capture := wiretest.Must(os.ReadFile(wiretest.Path(t, "rxe-udaddy6.pcap")))(t)
	file = append(file, capture[:24]...)
	for _, p := range wiretest.Capture(t, "rxe-udaddy6.pcap") {
		frame := append(bytes.Clone(gre), p.Data...)
		frame[16], frame[17] = byte((len(frame)-14)>>8), byte(len(frame)-14)
		header := []byte{0, 0, 0, 0, 0, 0, 0, 0, byte(len(frame)), byte(len(frame) >> 8), 0, 0, byte(len(frame)),
			byte(len(frame) >> 8), 0, 0}
		file = append(append(file, header...), frame...)
	}
	_, stderr, status := pairs(file, "-")
	require.Zero(t, status)
	require.Contains(t, stderr, "2 pairs: 0 by connection management, 0 by votes, 2 in datagrams")
	out, stderr, status := pairs(file, "-outer", "-")
	require.Zero(t, status)
	require.Empty(t, out)
	require.Contains(t, stderr, "0 pairs")
}

func TestArguments(t *testing.T) {
	_, stderr, status := pairs(nil)
	require.Equal(t, 2, status)
	require.Contains(t, stderr, "usage: rocecn pairs")
	_, _, status = pairs(nil, "-no-such-flag")
	require.Equal(t, 2, status)
	_, _, status = pairs(nil, "-h")
	require.Zero(t, status)
	out, stderr, status := pairs(nil, "no-such-file", wiretest.Path(t, "rxe-rping6.pcap"))
	require.Equal(t, 1, status)
	require.Contains(t, stderr, "rocecn pairs: no-such-file: no such file or directory\n")
	require.Contains(t, out, "fd77::1 > fd77::2")

	whole := wiretest.Must(os.ReadFile(wiretest.Path(t, "rxe-rping6.pcap")))(t)
	cut := wiretest.File(t, "cut.pcap", whole[:len(whole)-5])
	out, stderr, status = pairs(nil, cut)
	require.Equal(t, 1, status)
	require.Contains(t, out, "fd77::1 > fd77::2") // the earlier part is printed
	require.Regexp(t, `(?m)^\d+ packets; \d+ pairs: `, stderr)
	_, stderr, status = pairs(nil, "no-such-file")
	require.Equal(t, 1, status)
	require.Equal(t, "rocecn pairs: no-such-file: no such file or directory\n", stderr)
}

type closedPipe struct{}

func (closedPipe) Write([]byte) (int, error) { return 0, syscall.EPIPE }

type full struct{}

func (full) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

func TestOutputEnds(t *testing.T) {
	var stderr bytes.Buffer
	args := []string{wiretest.Path(t, "rxe-rping6.pcap")}
	require.Zero(t, Run(context.Background(), args, nil, closedPipe{}, &stderr))
	require.Empty(t, stderr.String())
	require.Equal(t, 1, Run(context.Background(), args, nil, full{}, &stderr))
	require.Equal(t, "rocecn pairs: no space left on device\n", stderr.String())
}

func TestOneOfEach(t *testing.T) {
	octets := wiretest.Must(os.ReadFile(wiretest.Path(t, "messages.pcap")))(t)
	const header, record = 24, 16 // of the file, and of each packet
	_, stderr, _ := pairs(octets[:header+record+len(wiretest.Capture(t, "messages.pcap")[0].Data)], "-")
	require.Equal(t, "1 packet; 0 pairs: 0 by connection management, 0 by votes, 0 in datagrams; 1 flow without one\n",
		stderr)
}

// lineRead is a line as a program reads it.
type lineRead struct {
	line
	First time.Time `json:"first"`
	Last  time.Time `json:"last"`
}

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

// observePacket shows a packet to a table.
func observePacket(t *table, p *rocev2.Packet, now time.Time) {
	seen := packet{time: now}
	seen.set(p)
	t.observe(&seen)
}

func newScript() *script { return &script{newTable(0, maxRows), time.Unix(1000, 0)} }

var hosts = [2]netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")}

func (s *script) packet(from int, op bth.Opcode, port uint16, qp, psn uint32) *rocev2.Packet {
	p := &rocev2.Packet{Datagram: rocev2.Datagram{Src: hosts[from], Dst: hosts[1-from], SrcPort: port}}
	p.BTH.Header = bth.Header{Opcode: op, PKey: 0xFFFF, DestQP: qp, PSN: psn}
	return p
}

func (s *script) addPacket(p *rocev2.Packet) *script {
	s.now = s.now.Add(time.Millisecond)
	observePacket(s.table, p, s.now)
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
	require.EqualValues(t, 0x21, rows[0].pair.SrcQP)
	require.EqualValues(t, 5, rows[0].packets)
	require.Equal(t, time.Unix(1000, 1e6), rows[0].first)
	require.Equal(t, time.Unix(1000, 9e6), rows[0].last)
}

// Packets from after the pair was forgotten are the last of its row.
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

// Two queue pairs that answer the same PSNs are equally likely.
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
	require.Equal(t, []uint32{0x21, 0x22}, []uint32{rows[0].pair.SrcQP, rows[1].pair.SrcQP})
	require.Equal(t, time.Unix(1000, 1e6), rows[0].first)
	require.Equal(t, time.Unix(1000, 3e6), rows[0].last)
}

func TestSummary(t *testing.T) {
	tab := newTable(0, maxRows)
	for _, c := range []struct {
		from qpmap.Basis
		n    uint32
	}{
		{qpmap.BasisCM, 1}, {qpmap.BasisVotes, 2}, {qpmap.BasisPort, 4}, {qpmap.BasisUD, 8},
	} {
		t.Run(fmt.Sprint(c.from), func(t *testing.T) {
			for srcQP := range c.n {
				tab.rowOf(&flowtable.Key{QP: uint32(c.from)}, qpmap.Pair{SrcQP: srcQP, From: c.from}, time.Time{})
			}
		})
	}
	var out strings.Builder
	tab.printSummary(&out, tab.sortedRows(), 3)
	require.Equal(t,
		"3 packets; 15 pairs: 1 by connection management, 2 by votes, 4 by votes and the UDP source port, "+
			"8 in datagrams; 0 flows without one\n",
		out.String())
}

// Packets without a time have none, as in a pcapng file's simple blocks.
func TestWithoutTime(t *testing.T) {
	rows := []*row{{flow: rocev2.FlowKey{Src: hosts[0], Dst: hosts[1], DestQP: 5},
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

// A full table evicts rows of unknown senders first, those used longest ago first, and the summary gives their number.
func TestFullTable(t *testing.T) {
	tab := newTable(1, 4)
	s := script{tab, time.Unix(1000, 0)}
	for psn := range uint32(4) {
		s.exchange(0x21, psn) // two rows of unknown senders, and two of known ones
	}
	for n := range uint32(10) {
		s.addPacket(s.packet(0, bth.UCSendOnly, 0, 0x100+n, 0))
	}
	var got []uint32
	for _, r := range tab.sortedRows() {
		got = append(got, r.flow.DestQP)
	}
	require.Equal(t, []uint32{0x31, 0x108, 0x109, 0x21}, got)
	var out strings.Builder
	tab.printSummary(&out, tab.sortedRows(), 18)
	require.Equal(t, "18 packets; 2 pairs: 0 by connection management, 2 by votes, 0 in datagrams; "+
		"2 flows without one\n10 rows were evicted: at most 4 are kept\n", out.String())
}

// The rows of a full table take the documented memory.
func TestMemory(t *testing.T) {
	require.LessOrEqual(t, unsafe.Sizeof(rowKey{})+unsafe.Sizeof(row{})+8+8+16, uintptr(320)) // links, index, padding
}
