package flows

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/internal/wiretest"
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
		require.NoError(t, c.countDatagram(b, time.Unix(100, int64(m.number)*1000)))
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
	require.NoError(t, c.countDatagram(m.discarded(260, 0), time.Unix(100, 0)))
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
		require.NoError(t, c.countDatagram(m.discarded(1000+n, 0), time.Unix(100, 0)))
		require.NoError(t, c.countDatagram(m.datagram(1<<12|n), time.Unix(100, 0)))
	}
	require.Len(t, c.discarded, maxReasons+1)
	require.EqualValues(t, 100-maxReasons, c.discarded["other"])
	require.Len(t, c.counts.Unknown, maxFormats+1)
	require.EqualValues(t, 100-maxFormats, c.counts.Unknown["other"])
}
