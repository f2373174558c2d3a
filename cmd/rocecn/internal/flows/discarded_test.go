package flows

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/cli"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/rocev2"
)

// A sampleMaker puts datagrams of sFlow together word by word.
type sampleMaker struct {
	t       *testing.T
	request []byte // the frame of a request to queue pair 0x000011 of 10.77.0.1
	number  uint32
}

// words are the octets of words.
func words(all ...uint32) (b []byte) {
	for _, w := range all {
		b = binary.BigEndian.AppendUint32(b, w)
	}
	return b
}

// flowRecord is a record with this format and content.
func flowRecord(format uint32, content ...byte) []byte {
	padded := append(content, make([]byte, -len(content)&3)...)
	return append(words(format, uint32(len(padded))), padded...)
}

// text is a string of XDR.
func text(s string) []byte {
	return append(append(words(uint32(len(s))), s...), make([]byte, -len(s)&3)...)
}

// inFrame returns a frame with a datagram.
func (m *sampleMaker) inFrame(data []byte) []byte {
	d := rocev2.Datagram{Src: netip.MustParseAddr("192.0.2.250"), Dst: netip.MustParseAddr("192.0.2.9"),
		HopLimit: 64, SrcPort: 50000, DstPort: 6343, Data: data}
	return append([]byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0}, wiretest.Must(d.AppendBinary(nil))(m.t)...)
}

// header is the record of the request's first 64 octets.
func (m *sampleMaker) header() []byte {
	return flowRecord(1, append(words(1, uint32(len(m.request)), 0, 64), m.request[:64]...)...)
}

// datagram is a datagram of 192.0.2.250 with one sample.
func (m *sampleMaker) datagram(format uint32, sample ...[]byte) []byte {
	m.number++
	body := []byte{}
	for _, part := range sample {
		body = append(body, part...)
	}
	return append(words(5, 1, 0xC00002FA, 0, m.number, 1000*m.number, 1, format, uint32(len(body))), body...)
}

// discarded is a datagram about a discarded packet at port 9.
func (m *sampleMaker) discarded(reason uint32, drops uint32, records ...[]byte) []byte {
	parts := [][]byte{words(m.number, 0, 7, drops, 7, 9, reason, uint32(1+len(records))), m.header()}
	return m.datagram(5, append(parts, records...)...)
}

func newSampleMaker(t *testing.T) *sampleMaker {
	for _, r := range wiretest.Capture(t, "rxe-perf4.pcap") {
		if len(r.Data) > 200 && r.Data[33] == 1 { // to 10.77.0.1
			return &sampleMaker{t: t, request: r.Data}
		}
	}
	t.Fatal("no request")
	return nil
}

// printed are the JSON objects that a collector prints.
func printed(t *testing.T, c *collector) (all []map[string]any) {
	var out strings.Builder
	c.out, c.form = bufio.NewWriter(&out), "json"
	require.NoError(t, c.printSamples())
	for line := range strings.Lines(out.String()) {
		var l map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &l))
		all = append(all, l)
	}
	return all
}

// Discarded packets count for their flow by reason, port and queue, and not as samples.
func TestSFlowDiscarded(t *testing.T) {
	m := newSampleMaker(t)
	c := collected(t)
	c.explains = true
	count := func(b []byte) {
		t.Helper()
		require.NoError(t, c.countDatagram(b, netip.Addr{}, time.Unix(100, int64(m.number)*1000)))
	}
	for range 12 {
		count(m.discarded(259, 5, flowRecord(1036, words(3)...), flowRecord(1040, words(500_000)...)))
	}
	count(m.discarded(258, 5))
	count(m.discarded(256, 9, flowRecord(1041, append(text("buffer_drops"), text("early_drop")...)...)))
	count(m.discarded(256, 9, flowRecord(1042, text("NO_SOCKET")...)))
	count(m.discarded(256, 9, flowRecord(1042, text("\x1b[31m")...)))
	count(m.datagram(1, words(1, 7, 100, 100, 3, 7, 9, 2), m.header(), flowRecord(1039, words(2500)...))) // a sample
	count(m.datagram(0x113D001, words(1, 2, 3)))
	count(m.datagram(0x113D001, words(1, 2, 3)))
	count(words(4, 1, 0xC00002FA, 1, 1000, 0))

	all := printed(t, c)
	by := map[string]any{"no_buffer_space": 12.0, "acl": 1.0, "red": 1.0, "no_socket": 1.0, "unknown": 1.0}
	require.Equal(t, map[string]any{"capture": true, "discarded": by}, all[0])
	verdict, flow, total := all[1], all[len(all)-2], all[len(all)-1]
	require.Equal(t, "discarded", verdict["cause"])
	require.Equal(t, "192.0.2.250", verdict["party"])
	require.Equal(t, "The switch 192.0.2.250 (port 9, queue 3) discarded 12 packets of 1 flow, "+
		"from 00:01:40.000001 on: no_buffer_space.", verdict["text"])
	require.Equal(t, by, flow["discarded"])
	require.Equal(t, map[string]any{"agent": "192.0.2.250", "port": 9.0, "queue": 3.0, "depth": 500_000.0},
		flow["worst_queue"])
	require.Equal(t, map[string]any{"agent": "192.0.2.250", "port": 9.0, "queue": 3.0, "reason": "no_buffer_space",
		"packets": 12.0, "first": "1970-01-01T00:01:40.000001Z", "last": "1970-01-01T00:01:40.000012Z"},
		flow["discarded_at"].([]any)[0])
	require.EqualValues(t, 1, valueAt(flow, "sampled_requests", "packets"))
	require.Equal(t, map[string]any{"4413:1": 2.0}, total["unknown_samples"])
	for _, row := range []struct {
		key  string
		want float64
	}{{"datagrams", 20}, {"samples", 1}, {"drop_notifications", 16}, {"points", 1}, {"version_4_datagrams", 1},
		{"broken_datagrams", 0}, {"dropped_by_agents", 4}} {
		require.Equal(t, row.want, total[row.key], row.key)
	}

	var out strings.Builder
	c.out, c.form = bufio.NewWriter(&out), "human"
	require.NoError(t, c.printSamples())
	for _, want := range []string{
		"12 packets discarded by 192.0.2.250 port 9 queue 3: no_buffer_space",
		"deepest queue: 192.0.2.250 port 9 queue 3: 500k octets",
		"1 sample at 1 point, 16 drop notifications (1 acl, 12 no_buffer_space, 1 no_socket, 1 red, 1 unknown)",
		"1 datagram of sFlow version 4 (only version 5 is decoded)", "2 samples of the unknown format 4413:1",
		"discarded: 192.0.2.250 The switch",
	} {
		require.Contains(t, strings.Join(strings.Fields(out.String()), " "), want)
	}
	require.NotContains(t, out.String(), "\x1b")
}

// A flow of which only discarded packets are known has a line.
func TestSFlowOnlyDiscarded(t *testing.T) {
	m := newSampleMaker(t)
	c := collected(t)
	require.NoError(t, c.countDatagram(m.discarded(260, 0), netip.Addr{}, time.Unix(100, 0)))
	c.choice.trouble = true
	all := printed(t, c)
	require.Len(t, all, 3)
	require.Equal(t, map[string]any{"red": 1.0}, all[1]["discarded"])
	require.NotContains(t, all[1], "sampled_requests")
	require.Empty(t, all[1]["points"])
	require.Contains(t, all[1], "dest_qp")
}

// Names from the network are limited in number.
func TestSFlowNames(t *testing.T) {
	m := newSampleMaker(t)
	c := collected(t)
	for n := range uint32(100) {
		require.NoError(t, c.countDatagram(m.discarded(1000+n, 0), netip.Addr{}, time.Unix(100, 0)))
		require.NoError(t, c.countDatagram(m.datagram(1<<12|n), netip.Addr{}, time.Unix(100, 0)))
	}
	require.Len(t, c.discarded, maxReasons+1)
	require.EqualValues(t, 100-maxReasons, c.discarded["other"])
	require.Len(t, c.counts.Unknown, maxFormats+1)
	require.EqualValues(t, 100-maxFormats, c.counts.Unknown["other"])
}

// Without -sflow, drop notifications in a capture count for the flows in it. Those in a mirror count as well, repeated
// datagrams count once, and samples do not count.
func TestDiscardedInCapture(t *testing.T) {
	m := newSampleMaker(t)
	inMirror := func(frame []byte) []byte { // ERSPAN of type I
		b := wiretest.Hex(t, "020000000002 020000000001 0800 45000000 00000000 402f0000 c0000201 c0000202 000088be")
		b = append(b, frame...)
		binary.BigEndian.PutUint16(b[16:], uint16(len(b)-14))
		return b
	}
	first := m.inFrame(m.discarded(259, 5, flowRecord(1036, words(3)...)))
	added := [][]byte{first, first, m.inFrame(m.discarded(259, 5, flowRecord(1036, words(3)...))),
		inMirror(m.inFrame(m.discarded(258, 5))),
		m.inFrame(m.datagram(1, words(1, 7, 100, 100, 3, 7, 9, 1), m.header())), m.inFrame([]byte("no sFlow"))}
	var frames [][]byte
	for _, r := range wiretest.Capture(t, "rxe-perf4.pcap") {
		frames = append(frames, r.Data)
	}
	path := filepath.Join(t.TempDir(), "drops.pcap")
	f := wiretest.Must(os.Create(path))(t)
	w := wiretest.Must(capture.NewWriter(f, capture.Ethernet, time.Microsecond))(t)
	for i, frame := range append(frames, added...) {
		require.NoError(t, w.Write(&capture.Record{Data: frame, OrigLen: uint32(len(frame)),
			Time: time.Unix(100, int64(i)*1000)}))
	}
	require.NoError(t, f.Close())

	status, out, stderr := run(t, nil, "-json", "-explain", "-check", "discarded=0", path)
	require.Equal(t, cli.RuleBroken, status)
	require.Contains(t, stderr, "has discarded 3")
	var found, verdicts []map[string]any
	for line := range strings.Lines(out) {
		var l map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &l))
		switch {
		case l["capture"] == true:
			require.Equal(t, map[string]any{"no_buffer_space": 2.0, "acl": 1.0}, l["discarded"])
			require.NotContains(t, l, "unread")
		case l["verdict"] == true && l["cause"] == "discarded":
			verdicts = append(verdicts, l)
		case l["discarded"] != nil:
			found = append(found, l)
		}
	}
	require.Len(t, found, 1)
	require.Equal(t, []any{"10.77.0.1", 17.0}, []any{found[0]["dst"], found[0]["dest_qp"]})
	require.Equal(t, map[string]any{"no_buffer_space": 2.0, "acl": 1.0}, found[0]["discarded"])
	require.EqualValues(t, 3, valueAt(found[0], "discarded_at").([]any)[0].(map[string]any)["queue"])
	require.Len(t, verdicts, 2)
	require.Equal(t, "192.0.2.250", verdicts[0]["party"])
	require.Contains(t, verdicts[0]["text"], "The switch 192.0.2.250 (port 9, queue 3) discarded 2 packets of 1 flow")

	_, out, _ = run(t, nil, path)
	require.Contains(t, out, "Switches reported by sFlow that they discarded 3 packets (1 acl, 2 no_buffer_space).")
	require.Contains(t, out, "2 packets discarded by 192.0.2.250 port 9 queue 3: no_buffer_space")
}

// pieces returns one piece of a capture for each Read.
type pieces [][]byte

func (p *pieces) Read(b []byte) (int, error) {
	if len(*p) == 0 {
		return 0, io.EOF
	}
	n := copy(b, (*p)[0])
	*p = (*p)[1:]
	return n, nil
}

// A drop notification counts in the interval of its own packet, in a file as in a pipe that brings each packet alone.
func TestDiscardedInIntervals(t *testing.T) {
	m := newSampleMaker(t)
	var file bytes.Buffer
	w := wiretest.Must(capture.NewWriter(&file, capture.Ethernet, time.Microsecond))(t)
	pipe, begin := pieces{}, 0
	write := func(frame []byte, second int64) {
		r := capture.Record{Data: frame, OrigLen: uint32(len(frame)), Time: time.Unix(second, 0)}
		require.NoError(t, w.Write(&r))
		pipe = append(pipe, bytes.Clone(file.Bytes()[begin:]))
		begin = file.Len()
	}
	notifications := map[int64]int{103: 2, 106: 1}
	for second := int64(100); second < 110; second++ {
		write(m.request, second)
		for range notifications[second] {
			write(m.inFrame(m.discarded(259, 5, flowRecord(1036, words(3)...))), second)
		}
	}
	path := wiretest.File(t, "drops.pcap", file.Bytes())

	status, fromFile, stderr := run(t, nil, "-json", "-interval", "1s", path)
	require.Zero(t, status, stderr)
	got := map[string]float64{}
	for line := range strings.Lines(fromFile) {
		var l map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &l))
		if by, ok := l["discarded"].(map[string]any); ok && l["dst"] != nil {
			got[valueAt(l, "interval", "from").(string)] += by["no_buffer_space"].(float64)
		}
	}
	require.Equal(t, map[string]float64{"1970-01-01T00:01:43.000000Z": 2, "1970-01-01T00:01:46.000000Z": 1}, got)
	status, fromPipe, stderr := run(t, &pipe, "-json", "-interval", "1s", "-")
	require.Zero(t, status, stderr)
	require.Equal(t, fromFile, fromPipe)
}

// A rule about trimmed packets is broken by a flow of which all packets were trimmed.
func TestCheckTrimmed(t *testing.T) {
	frame := wiretest.Hex(t, "020000000002 020000000001 0800 456a0040 00010000 40110000 c0000201 c0000202"+
		"c35012b7 04280000 0a40ffff 00000012 8000000b 00007f00000fa000 00001234 00000400 e8e8e8e8e8e8e8e8")
	path := filepath.Join(t.TempDir(), "trimmed.pcap")
	f := wiretest.Must(os.Create(path))(t)
	w := wiretest.Must(capture.NewWriter(f, capture.Ethernet, time.Microsecond))(t)
	require.NoError(t, w.Write(&capture.Record{Data: frame, OrigLen: uint32(len(frame)), Time: time.Unix(1, 0)}))
	require.NoError(t, f.Close())
	status, out, stderr := run(t, nil, "-json", "-check", "trimmed=0", path)
	require.Equal(t, cli.RuleBroken, status, stderr)
	require.Contains(t, out, `"packets":0`)
	require.Contains(t, out, `"trimmed":1`)
	status, _, _ = run(t, nil, "-check", "trimmed<2", path)
	require.Zero(t, status)
}
