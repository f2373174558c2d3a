package play

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/config"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/roles"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/rocev2"
)

// TestMain collects garbage rarely, as the tests read and answer many captures.
func TestMain(m *testing.M) {
	wiretest.CollectRarely(400)
	m.Run()
}

// echo is a role for the tests of the code that all roles share: it forwards the octets of every frame, and decides
// about those that begin with a letter.
type echo struct {
	Enabled bool   `json:"enabled"`
	Word    string `json:"word"`
}

func (e *echo) On() bool { return e.Enabled }

func (e *echo) Rehearse(uint64) {}

func (e *echo) Encapsulations() *rocev2.Encapsulations { return nil }

func (e *echo) Counters() *node.Counters { return nil }

func (e *echo) Apply(node.Role) (node.Role, error) {
	if e.Word == "wrong" {
		return nil, config.Wrong("word", "%q is wrong", e.Word)
	}
	return e, nil
}

func (e *echo) Due(out []byte, _ time.Time) ([]byte, node.Decision) { return out, node.Decision{} }

func (e *echo) Receive(_ []byte, f *rocev2.Frame, _ node.Event) ([]byte, node.Decision) {
	var d node.Decision
	switch {
	case !e.Enabled:
		d.Action, d.Reason = node.ActionRefused, node.ReasonDisabled
		return nil, d
	case len(f.Octets()) > 0 && f.Octets()[0] >= 'A':
		d.Action, d.Message = node.ActionSent, message.KindCNP
		if f.Octets()[0] > 'A' {
			d.Message = message.KindFCN
		}
	}
	return f.Octets(), d
}

func init() { roles.All["echo"] = func() roles.Config { return new(echo) } }

// rehearse runs a role over a capture, and returns the lines, the packets of OUT and the text on standard error.
func rehearse(t testing.TB, role, config string, in []byte) (lines []map[string]any, out []capture.Record,
	stderr string) {
	t.Helper()
	var stdout, errors bytes.Buffer
	to := filepath.Join(t.TempDir(), "out.pcap")
	status := Run(t.Context(), []string{"-role", role, "-config", file(t, config), "-", to}, bytes.NewReader(in),
		&stdout, &errors)
	require.Zero(t, status, errors.String())
	for l := range bytes.Lines(stdout.Bytes()) {
		var m map[string]any
		require.NoError(t, json.Unmarshal(l, &m))
		lines = append(lines, m)
	}
	octets := wiretest.Must(os.ReadFile(to))(t)
	return lines, records(t, octets), errors.String()
}

// file writes a file and returns its name.
func file(t testing.TB, content string) string {
	t.Helper()
	return wiretest.File(t, "config.json", content)
}

// records returns the packets of a whole capture.
func records(t testing.TB, file []byte) (all []capture.Record) {
	t.Helper()
	in := wiretest.Must(capture.Open(bytes.NewReader(file)))(t)
	for {
		var r capture.Record
		err := in.Next(&r)
		if err == io.EOF {
			return all
		}
		require.NoError(t, err)
		r.Data = bytes.Clone(r.Data)
		all = append(all, r)
	}
}

// captureOf lays out a pcap capture.
func captureOf(link uint32, unit time.Duration, all ...capture.Record) []byte {
	var b bytes.Buffer
	w, _ := capture.NewWriter(&b, link, unit)
	for i := range all {
		r := all[i]
		if r.OrigLen == 0 {
			r.OrigLen = uint32(len(r.Data))
		}
		w.Write(&r)
	}
	return b.Bytes()
}

func TestLines(t *testing.T) {
	at := time.Date(2026, 11, 21, 9, 0, 0, 123456000, time.UTC)
	in := captureOf(capture.Raw, time.Microsecond, capture.Record{Data: []byte("A"), Time: at},
		capture.Record{Data: []byte{0}, Time: at.Add(time.Second)},
		capture.Record{Data: []byte("B"), Time: at.Add(2 * time.Second)})
	var stdout, stderr bytes.Buffer
	to := filepath.Join(t.TempDir(), "out.pcap")
	args := []string{"-role", "echo", "-config", file(t, `{"enabled": true}`), "-", to}
	require.Zero(t, Run(t.Context(), args, bytes.NewReader(in), &stdout, &stderr))
	require.Equal(t,
		`{"frame":1,"time":"2026-11-21T09:00:00.123456Z","role":"echo",`+
			`"action":"sent","reason":"","kind":"cnp"}
{"frame":3,"time":"2026-11-21T09:00:02.123456Z","role":"echo","action":"sent","reason":"","kind":"fcn"}
`, stdout.String())
	require.Equal(t, "frames: 3 read, 3 packets written\nsent: 2\n", stderr.String())
	octets := wiretest.Must(os.ReadFile(to))(t)
	require.Equal(t, in, octets) // raw IP, with the times of the frames

	stdout.Reset()
	require.Zero(t, Run(t.Context(), args[:5], bytes.NewReader(in), &stdout, &stderr))
	require.Equal(t, 2, bytes.Count(stdout.Bytes(), []byte("\n")))

	lines, out, summary := rehearse(t, "echo", `{}`, in)
	require.Len(t, lines, 3)
	require.Equal(t, map[string]any{"frame": 1., "time": "2026-11-21T09:00:00.123456Z", "role": "echo",
		"action": "refused", "reason": "disabled"}, lines[0])
	require.Empty(t, out)
	require.Equal(t, "frames: 3 read, 0 packets written\nrefused: 3 disabled\n", summary)
}

// Nanoseconds stay, and a capture without times is one too.
func TestTimes(t *testing.T) {
	at := time.Date(2026, 11, 21, 9, 0, 0, 123456789, time.UTC)
	in := captureOf(capture.Ethernet, time.Nanosecond, capture.Record{Data: []byte("A"), Time: at})
	lines, out, _ := rehearse(t, "echo", `{"enabled": true}`, in)
	require.Equal(t, "2026-11-21T09:00:00.123456789Z", lines[0]["time"])
	require.Equal(t, []any{at, capture.Raw, time.Nanosecond}, []any{out[0].Time, out[0].Link, out[0].Unit})

	simple := wiretest.Hex(t, "0a0d0d0a 0000001c 1a2b3c4d 0001 0000 ffffffff ffffffff 0000001c"+
		"00000001 00000014 0001 0000 00000000 00000014  00000003 00000014 00000001 41000000 00000014")
	lines, out, _ = rehearse(t, "echo", `{"enabled": true}`, simple)
	require.Equal(t, map[string]any{"frame": 1., "role": "echo", "action": "sent", "reason": "", "kind": "cnp"},
		lines[0])
	require.Len(t, out, 1)
}

// recorder is a role that keeps the times of its frames.
type recorder struct {
	times []time.Time
	echo
}

func (r *recorder) Receive(_ []byte, _ *rocev2.Frame, e node.Event) (packet []byte, d node.Decision) {
	r.times = append(r.times, e.Now)
	return packet, d
}

// A frame of which the capture has no time is one of the time before, of none at the beginning.
func TestNoTime(t *testing.T) {
	r := new(recorder)
	p := player{lines: bufio.NewWriter(io.Discard), out: bufio.NewWriter(io.Discard)}
	p.setRole(r)
	p.Receive(&capture.Record{}, node.Event{})
	p.Receive(&capture.Record{Time: time.Unix(7, 0)}, node.Event{})
	p.Receive(&capture.Record{}, node.Event{})
	p.Receive(&capture.Record{Time: time.Unix(6, 0)}, node.Event{})
	require.Equal(t, []time.Time{{}, time.Unix(7, 0), time.Unix(7, 0), time.Unix(6, 0)}, r.times)
}

func TestUnsupportedLinkType(t *testing.T) {
	in := captureOf(147, time.Microsecond, capture.Record{Data: []byte("A")}, capture.Record{Data: []byte("B")})
	lines, out, stderr := rehearse(t, "echo", `{"enabled": true}`, in)
	require.Empty(t, lines)
	require.Empty(t, out)
	require.Equal(t,
		"rocecn play: -: link type 147 is not supported: its frames are not looked at\nframes: 2 read, 0 packets "+
			"written\n", stderr)
}

func TestUsage(t *testing.T) {
	in := wiretest.Path(t, "ioam-linux618-hpcc.pcap")
	good, out := file(t, `{"enabled": true}`), filepath.Join(t.TempDir(), "out")
	missing := filepath.Join(t.TempDir(), "missing")
	damaged := wiretest.File(t, "damaged", "no capture at all")
	for _, c := range []struct {
		args    []string
		status  int
		message string
	}{
		{nil, 2, "usage: rocecn play -role "},
		{[]string{"-role", "echo", "-config", good}, 2, "usage: rocecn play"},
		{[]string{"-role", "echo", "-config", good, in, out, out}, 2, "usage: rocecn play"},
		{[]string{"-role", "echo", "-config", good, in, "-"}, 2, "usage: rocecn play"},
		{[]string{"-nonsense", in}, 2, "rocecn play: flag provided but not defined: -nonsense\n"},
		{[]string{"-config", good, in}, 2, `rocecn play: -role: "": want `},
		{[]string{"-role", "Echo", "-config", good, in}, 2, `rocecn play: -role: "Echo": want `},
		{[]string{"-role", "echo", in}, 2, "rocecn play: -config: not set: want a configuration in JSON or TOML\n"},
		{[]string{"-role", "echo", "-config", missing, in}, 2,
			"rocecn play: -config " + missing + ": no such file or directory\n"},
		{[]string{"-role", "echo", "-config", file(t, `{"word": "wrong"}`), in, out}, 2,
			`: word: "wrong" is wrong` + "\n"},
		{[]string{"-role", "echo", "-config", file(t, `{"wort": "wrong"}`), in, out}, 2, `: wort: unknown key`},
		{[]string{"-role", "echo", "-config", good, missing, out}, 1,
			"rocecn play: " + missing + ": no such file or directory\n"},
		{[]string{"-role", "echo", "-config", good, damaged, out}, 1,
			"rocecn play: " + damaged + ": neither a pcap nor a pcapng capture\n"},
		{[]string{"-role", "echo", "-config", good, damaged, damaged}, 2,
			": the capture that is read cannot be written\n"},
		{[]string{"-role", "echo", "-config", good, in, good}, 2,
			": the configuration that is read cannot be written\n"},
		{[]string{"-role", "echo", "-config", good, in, filepath.Join(missing, "out")}, 1,
			"out: no such file or directory\n"},
		{[]string{"-h"}, 0, "usage: rocecn play"},
		{[]string{"-role", "echo", "-config", good, in, "-h"}, 0, "usage: rocecn play"},
		{[]string{in, "-config", good}, 2, `rocecn play: -role: "": want `},
	} {
		var stdout, stderr bytes.Buffer
		require.Equal(t, c.status, Run(t.Context(), c.args, nil, &stdout, &stderr), c.args)
		require.Empty(t, stdout.String())
		require.Contains(t, stderr.String(), c.message)
		require.NoFileExists(t, out)
	}
}

// The frames before the end of a truncated capture are played; then a message names the position.
func TestCut(t *testing.T) {
	in := captureOf(capture.Raw, time.Microsecond, capture.Record{Data: []byte("A")}, capture.Record{Data: []byte("B")})
	var stdout, stderr bytes.Buffer
	args := []string{"-role", "echo", "-config", file(t, `{"enabled": true}`), "-"}
	require.Equal(t, 1, Run(t.Context(), args, bytes.NewReader(in[:len(in)-1]), &stdout, &stderr))
	require.Equal(t, 1, bytes.Count(stdout.Bytes(), []byte("\n")))
	require.Equal(t,
		"rocecn play: -: record 2, at octet 41: the file ends early\nframes: 1 read, 1 packet written\nsent: 1\n",
		stderr.String())
}

// brokenWriter takes no octets.
type brokenWriter struct{ err error }

func (w brokenWriter) Write([]byte) (int, error) { return 0, w.err }

func TestOutputBreaks(t *testing.T) {
	one := capture.Record{Data: []byte("A")}
	for _, many := range []int{1, 5000} {
		in := captureOf(capture.Raw, time.Microsecond, slices.Repeat([]capture.Record{one}, many)...)
		args := []string{"-role", "echo", "-config", file(t, `{"enabled": true}`), "-"}
		for _, c := range []struct {
			err     error
			status  int
			message string
		}{{syscall.EPIPE, 0, ""}, {io.ErrClosedPipe, 0, ""},
			{errors.New("no space left"), 1, "rocecn play: output: no space left\n"}} {
			var stderr strings.Builder
			require.Equal(t, c.status, Run(t.Context(), args, bytes.NewReader(in), brokenWriter{c.err}, &stderr))
			require.Equal(t, c.message, stderr.String())
		}
	}
}

func TestOutputFull(t *testing.T) {
	full := wiretest.FullDevice(t)
	var stdout, stderr bytes.Buffer
	args := []string{"-role", "echo", "-config", file(t, `{"enabled": true}`),
		wiretest.Path(t, "ioam-linux618-hpcc.pcap"), full}
	require.Equal(t, 1, Run(t.Context(), args, nil, &stdout, &stderr))
	require.Contains(t, stderr.String(), "rocecn play: output: write "+full+": no space left on device\n")
}

// A line about a live capture comes before the next frame, and an interrupt is
// the end.
func TestLive(t *testing.T) {
	in, feed := io.Pipe()
	lines, out := io.Pipe()
	ctx, interrupt := context.WithCancel(t.Context())
	status := make(chan int)
	args := []string{"-role", "echo", "-config", file(t, `{"enabled": true}`), "-"}
	go func() { status <- Run(ctx, args, in, out, io.Discard) }()
	go feed.Write(captureOf(capture.Raw, time.Microsecond, capture.Record{Data: []byte("A")}))
	first := wiretest.Must(bufio.NewReader(lines).ReadString('\n'))(t)
	require.Contains(t, first, `"frame":1,`)
	interrupt()
	require.Zero(t, <-status)
}

var (
	senderAddr   = netip.MustParseAddr("2001:db8:1::a")
	receiverAddr = netip.MustParseAddr("2001:db8:4::e")
	senderIPv4   = netip.MustParseAddr("198.51.100.1")
	receiverIPv4 = netip.MustParseAddr("198.51.100.2")
	switchAddr   = netip.MustParseAddr("2001:db8:ffff::5")

	noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
)

// packet returns a RoCEv2 data packet from sender to receiver, changed.
func packet(t testing.TB, change ...func(*rocev2.Packet)) []byte {
	t.Helper()
	p := rocev2.Packet{BTH: bth.Headers{Header: bth.Header{Opcode: bth.RCSendOnly, DestQP: 17, PKey: 0xFFFF}},
		Payload: make([]byte, 64)}
	p.Src, p.Dst, p.SrcPort, p.DstPort, p.HopLimit, p.TrafficClass = senderAddr, receiverAddr, 49152, rocev2.Port, 64,
		uint8(rocev2.ECT0)
	for _, c := range change {
		c(&p)
	}
	return wiretest.Must(p.AppendBinary(nil))(t)
}

func ipv4(p *rocev2.Packet) { p.Src, p.Dst = senderIPv4, receiverIPv4 }

// every returns a capture of raw IP with these packets, a step of time apart.
func every(step time.Duration, packets ...[]byte) []byte {
	var all []capture.Record
	for i, p := range packets {
		all = append(all, capture.Record{Data: p, Time: noon.Add(time.Duration(i) * step)})
	}
	return captureOf(capture.Raw, time.Nanosecond, all...)
}

// The original length of a truncated packet is that in its IP header, and at least the captured length. Other packets
// are complete.
func TestOriginalLen(t *testing.T) {
	header := func(version, octets, length int) []byte {
		b := make([]byte, octets)
		b[0] = byte(version << 4)
		at := 2
		if version == 6 {
			at = 4
		}
		binary.BigEndian.PutUint16(b[at:], uint16(length))
		return b
	}
	for _, row := range []struct {
		name   string
		packet []byte
		cut    bool
		want   uint32
	}{
		{"IPv4", header(4, 28, 60), true, 60},
		{"IPv4, header alone", header(4, 20, 60), true, 60},
		{"IPv4, no header", header(4, 19, 60), true, 19},
		{"IPv4, shorter", header(4, 28, 25), true, 28},
		{"IPv4, complete frame", header(4, 28, 60), false, 28},
		{"IPv6", header(6, 48, 100), true, 140},
		{"IPv6, header alone", header(6, 40, 100), true, 140},
		{"IPv6, no header", header(6, 39, 100), true, 39},
		{"IPv6, shorter", header(6, 48, 5), true, 48},
		{"IPv6, complete frame", header(6, 48, 100), false, 48},
		{"neither", header(5, 48, 100), true, 48},
		{"neither, and not truncated", header(5, 48, 100), false, 48},
	} {
		t.Run(row.name, func(t *testing.T) {
			cause := &capture.Record{Data: make([]byte, 64), OrigLen: 64}
			if row.cut {
				cause.OrigLen++
			}
			require.Equal(t, row.want, originalLen(row.packet, cause))
		})
	}
}

// OUT is a capture even where nothing was sent: of IP packets, by answer of Ethernet.
func TestNothingSent(t *testing.T) {
	for _, c := range []struct {
		want    uint32
		answers *answerer
	}{{101, nil}, {1, &answerer{}}} {
		t.Run(fmt.Sprint(c.want), func(t *testing.T) {
			// LINKTYPE_RAW, LINKTYPE_ETHERNET
			var out bytes.Buffer
			p := player{lines: bufio.NewWriter(io.Discard), out: bufio.NewWriter(&out), answers: c.answers}
			require.NoError(t, p.closeOutput())
			require.Len(t, out.Bytes(), 24)
			require.Equal(t, c.want, binary.LittleEndian.Uint32(out.Bytes()[20:]))
		})
	}
}

// Why there is no Fast CNP, in the words of the summary.
func TestSkipped(t *testing.T) {
	for _, c := range []struct {
		name string
		d    node.Decision
	}{
		{"ICMPv6 error of a sender that is not capable", node.Decision{Action: node.ActionLearned}},
		{"marked only: the sender is not capable", node.Decision{Action: node.ActionMarked, Packet: message.KindData}},
		{"no_method", node.Decision{Action: node.ActionMarked, Packet: message.KindData,
			Reason: node.ReasonNoMethod}},
		{"not RoCEv2", node.Decision{}},
		{"ICMPv6 error that another one has to confirm", node.Decision{Action: node.ActionRefused,
			Reason: node.ReasonUnconfirmed}},
		{"ICMPv6 error about nothing that was sent", node.Decision{Action: node.ActionRefused,
			Reason: node.ReasonDenied}},
		{"ack", node.Decision{Action: node.ActionRefused, Packet: message.KindAck, Reason: node.ReasonAcknowledgement}},
		{"IOAM trace too long", node.Decision{Action: node.ActionRefused, Packet: message.KindData,
			Reason: node.ReasonBroken}},
		{"broken", node.Decision{Action: node.ActionRefused, Packet: message.KindError, Reason: node.ReasonBroken}},
		{"not_capable",
			node.Decision{Action: node.ActionRefused, Packet: message.KindData, Reason: node.ReasonNotCapable}},
		{"from or to an address that is not answered", node.Decision{
			Action: node.ActionRefused, Packet: message.KindData, Reason: node.ReasonAddress,
		}},
	} {
		t.Run(c.name, func(t *testing.T) { require.Equal(t, c.name, skipReason(&c.d)) })
	}
}

// A file of the agent has the same roles, of which play takes one.
func TestTOMLFile(t *testing.T) {
	agent := string(octets(t, wiretest.OwnPath(t, "agent.toml")))
	in := every(0, packet(t))
	want, out, _ := rehearse(t, "switch", `{"enabled": true, "self": ["2001:db8:ffff::5"],
		"methods": [{"senders": "::/0", "method": "fastcnp"}]}`, in)
	require.Equal(t, "sent", want[0]["action"])
	_, err := roles.Read([]byte(agent), "switch[0]")
	require.EqualError(t, err, "line 14: role.receiver.install: is for the role border or sender")
	good := agent[:len(agent)-len("install = \"nft\"\n")]
	got, same, _ := rehearse(t, "switch[0]", good, in)
	want[0]["role"] = "switch[0]"
	require.Equal(t, want, got)
	require.Equal(t, out, same)
	got, _, _ = rehearse(t, "switch[1]", good, in)
	require.Equal(t, "disabled", got[0]["reason"])

	for _, c := range []struct{ role, file, message string }{
		{"switch", good, "there are several [[role.switch]]: the first one is switch[0]"},
		{"proxy", good, `role "proxy": want a role with a table in the file`},
		{"switch", "[role.switch]\nenabled = true\nself = [\"2001:db8::1\", \"::1\"]",
			"line 3: role.switch.self[1]: ::1: want at most one address of each family"},
		{"switch", "[role.switch]\n\npe = [1]", "line 3: role.switch.pe[0]: 1: want a prefix as text"},
		{"switch", "[role.switch]\n[role.swich]", "line 2: role.swich: no such role; known are border, echo, ingress"},
		{"switch", "[roles.switch]", "line 1: roles: unknown key; known are agent, source, sink, role"},
		{"switch", "role = 1", "line 1: role: 1: want an object"},
	} {
		t.Run(c.role, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			args := []string{"-role", c.role, "-config", file(t, c.file), "-"}
			require.Equal(t, 2, Run(t.Context(), args, bytes.NewReader(in), &stdout, &stderr))
			require.Contains(t, stderr.String(), c.message)
		})
	}
}
