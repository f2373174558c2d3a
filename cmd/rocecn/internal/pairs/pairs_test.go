package pairs

import (
	"bytes"
	"context"
	"encoding/json"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
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
func TestLives(t *testing.T) {
	a, b := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	now := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	tab := newTable(0)
	for _, life := range []struct{ srcQP, psn uint32 }{{0x21, 5}, {0x22, 0x800000}} {
		for n := range uint32(4) {
			for _, x := range []struct {
				src, dst netip.Addr
				op       bth.Opcode
				qp       uint32
			}{{a, b, bth.RCSendOnly, 0x31}, {b, a, bth.RCAcknowledge, life.srcQP}} {
				p := rocev2.Packet{Datagram: rocev2.Datagram{Src: x.src, Dst: x.dst}}
				p.BTH.Header = bth.Header{Opcode: x.op, PKey: 0x8001, DestQP: x.qp, PSN: life.psn + n}
				now = now.Add(time.Millisecond)
				tab.observe(&p, now)
			}
		}
		now = now.Add(2 * time.Second) // the next life is believed when this one has fallen silent
	}
	var got []uint32
	for _, r := range tab.sortedRows() {
		if r.flow.DestQP == 0x31 {
			got = append(got, r.srcQP)
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

	cut := filepath.Join(t.TempDir(), "cut.pcap")
	whole := wiretest.Must(os.ReadFile(wiretest.Path(t, "rxe-rping6.pcap")))(t)
	require.NoError(t, os.WriteFile(cut, whole[:len(whole)-5], 0o600))
	out, _, status = pairs(nil, cut)
	require.Equal(t, 1, status)
	require.Contains(t, out, "fd77::1 > fd77::2") // the earlier part is printed
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
