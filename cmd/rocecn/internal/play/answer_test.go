package play

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/cnp"
	"github.com/rocecn/rocecn/encap"
	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/fcn"
	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/internal/wire"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/ipv6opt"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/ppfc"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

const source = "2001:db8:ffff::5"

// answer runs the program from standard input to standard output.
func answer(t testing.TB, in []byte, args ...string) (out []capture.Record, summary string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	args = append([]string{"-source", source}, append(args, "-", "-")...)
	require.Zero(t, Answer(t.Context(), args, bytes.NewReader(in), &stdout, &stderr), stderr.String())
	return records(t, stdout.Bytes()), stderr.String()
}

// fastCNP returns the Fast CNP that a record must hold, whole and right.
func fastCNP(t testing.TB, r *capture.Record) (m message.Message) {
	t.Helper()
	require.False(t, r.Truncated())
	require.NoError(t, m.Decode(r.Data, r.Options(), message.Config{}))
	require.Equal(t, message.KindFastCNP, m.Kind)
	coverage := wiretest.Must(icrc.Verify(m.Packet.IP))(t)
	require.Equal(t, icrc.AsSent, coverage)
	return m
}

// Every packet of the two captures that matches is answered with its address,
// queue pair, P_Key, source port, time and trace, and tshark reads that.
func TestAnswerCaptures(t *testing.T) {
	for _, c := range []struct{ name, summary string }{
		{"ioam-linux618-hpcc.pcap", "packets: 3 read, 3 matched; Fast CNPs: 0 with option 1, 3 with option 2\n"},
		{"rxe-verbs6.pcap", "packets: 253 read, 72 matched; Fast CNPs: 72 with option 1, 0 with option 2\n" +
			"skipped: 159 not RoCEv2, 22 ack\n"},
	} {
		out, summary := answer(t, octets(t, wiretest.Path(t, c.name)))
		require.Equal(t, c.summary, summary)
		var frames [][]byte
		for _, r := range out {
			frames = append(frames, r.Data)
		}
		i := 0
		for _, row := range wiretest.Golden(t, c.name) {
			if !row.Has("infiniband.bth") || row.Uint("infiniband.bth.opcode") == 0x11 ||
				row.Uint("infiniband.bth.opcode") == 0x12 {
				continue
			}
			m := fastCNP(t, &out[i])
			n := &m.FastCNP
			require.Equal(t, row.Get("ipv6.src"), n.Dst.String())
			require.Equal(t, row.Get("ipv6.dst"), n.Option.OriginalDst.String())
			require.Equal(t, row.Uint("infiniband.bth.destqp"), uint64(n.CNP.DestQP))
			require.Equal(t, row.Uint("infiniband.bth.p_key"), uint64(n.CNP.PKey))
			require.Equal(t, row.Uint("udp.srcport"), uint64(m.Packet.SrcPort))
			require.Equal(t, row.Get("frame.time_epoch"),
				fmt.Sprintf("%d.%09d", out[i].Time.Unix(), out[i].Time.Nanosecond()))
			require.Equal(t, fastcnp.OriginNetwork, n.Origin())
			require.NoError(t, n.Validate())
			if c.name != "rxe-verbs6.pcap" {
				ids := []string{}
				for node := range n.Option.Trace.Nodes() {
					id, _ := node.NodeID()
					ids = append(ids, fmt.Sprintf("0x%06x", id))
				}
				require.Equal(t, row.All("ipv6.opt.ioam.trace.node.id"), ids)
			}
			i++
		}
		require.Len(t, out, i)
		t.Run("tshark", func(t *testing.T) {
			for i, row := range wiretest.Tshark(t, frames...) {
				m := fastCNP(t, &out[i])
				n := &m.FastCNP
				data := wiretest.Must(n.Option.AppendBinary(nil))(t)
				require.Equal(t, source, row.Get("ipv6.src"))
				require.Equal(t, n.Dst.String(), row.Get("ipv6.dst"))
				require.Contains(t, row.All("ipv6.opt.type"), n.OptionType.String())
				// one of the two, as tshark knows the type for an experimental one or not at all
				options := slices.Concat(row.All("ipv6.opt.experimental"), row.All("ipv6.opt.unknown"))
				require.Equal(t, []string{fmt.Sprintf("%x", data)}, options)
				require.EqualValues(t, 0x81, row.Uint("infiniband.bth.opcode"))
				require.EqualValues(t, n.CNP.DestQP, row.Uint("infiniband.bth.destqp"))
				require.False(t, row.Has("_ws.malformed"), row.Get("_ws.expert.message"))
			}
		})
	}
}

// A deployment's own option types: where each of them stands in the answer is said by hand.
func TestAnswerOptionTypes(t *testing.T) {
	for _, row := range []struct {
		name   string
		at     int // of the option in the packet
		usual  ipv6opt.Type
		option uint8
	}{
		{"rxe-verbs6.pcap", 42, fastcnp.Option1Type, 0x83},
		{"ioam-linux618-hpcc.pcap", 44, fastcnp.Option2Type, 0x84},
	} {
		t.Run(row.name, func(t *testing.T) {
			in := octets(t, wiretest.Path(t, row.name))
			usual, _ := answer(t, in)
			own, _ := answer(t, in, "-option-types", "0x83,0x84")
			require.Len(t, own, len(usual))
			for i := range own {
				a, b := usual[i].Data, own[i].Data
				if usual[i].Link == capture.Ethernet {
					a, b = a[14:], b[14:]
				}
				require.Equal(t, uint8(row.usual), a[row.at])
				require.Equal(t, row.option, b[row.at])
				_, err := icrc.Verify(b)
				require.NoError(t, err)
			}
		})
	}
}

// The worked octets of both options: the destination options header, up to
// the UDP header.
func TestAnswerWorkedOctets(t *testing.T) {
	out, _ := answer(t, octets(t, wiretest.Path(t, "ioam-linux618-dex.pcap")))
	require.Contains(t, string(out[0].Data), string(wiretest.Hex(t,
		fmt.Sprintf("1102%02x10", uint8(fastcnp.Option1Type))+" 20010db800040000000000000000000e 01020000")))
	out, _ = answer(t, octets(t, wiretest.Path(t, "ioam-linux618-hpcc.pcap")))
	data := wiretest.Capture(t, "ioam-linux618-hpcc.pcap")[0].Data
	nodes := data[14+40+4+12:][:60]
	require.Contains(t, string(out[0].Data), string(slices.Concat(wiretest.Hex(t,
		fmt.Sprintf("110b0100 %02x560000 007b2800 f2000000", uint8(fastcnp.Option2Type))),
		nodes, wiretest.Hex(t, "20010db800040000000000000000000e 01020000"))))
}

// The capture that is committed has the answers to all packets with IOAM, in
// the order of time, with flow label 0. Run with -update to rewrite it.
func TestCommitted(t *testing.T) {
	var all []capture.Record
	for _, name := range wiretest.Captures(t, "ioam-*.pcap") {
		out, _ := answer(t, octets(t, wiretest.Path(t, name)))
		for i := range out {
			ip := out[i].Data[14:]
			require.NotZero(t, wire.FlowLabel(ip))
			ip[1], ip[2], ip[3] = ip[1]&0xF0, 0, 0
		}
		all = append(all, out...)
	}
	slices.SortStableFunc(all, func(a, b capture.Record) int { return a.Time.Compare(b.Time) })
	want := captureOf(capture.Ethernet, time.Microsecond, all...)
	if *update {
		require.NoError(t, os.WriteFile(wiretest.Path(t, "fastcnp.pcap"), want, 0o644))
	}
	require.Equal(t, want, octets(t, wiretest.Path(t, "fastcnp.pcap")))
}

// traced puts a Hop-by-Hop header with a pre-allocated trace into a packet:
// words of space, the last of which hold nodes.
func traced(words, nodes int) func(*rocev2.Packet) {
	return func(p *rocev2.Packet) {
		b := []byte{17, 0, 1, 0, 0x31, uint8(10 + 4*words), 0, 0, 0, 123, 1 << 3, uint8(words - nodes), 0x80, 0, 0, 0}
		b = append(b, make([]byte, 4*words)...)
		if pad := -len(b) & 7; pad > 0 {
			b = append(append(b, 1, uint8(pad-2)), make([]byte, pad-2)...)
		}
		b[1] = uint8(len(b)/8 - 1)
		p.Ext = b
	}
}

// TestAnswerMatch checks which packets are answered, and how the summary counts the others.
func TestAnswerMatch(t *testing.T) {
	congested := func(p *rocev2.Packet) { p.TrafficClass = 3 }
	for _, c := range []struct {
		name    string
		args    string
		packets [][]byte
		answers int
		summary string
	}{
		{"nothing", "", nil, 0, "packets: 0 read, 0 matched; Fast CNPs: 0 with option 1, 0 with option 2\n"},
		{"all kinds", "", [][]byte{
			packet(t),
			packet(t, traced(2, 1)),
			packet(t, ipv4),
			packet(t, func(p *rocev2.Packet) { p.BTH.Opcode = bth.UDSendOnly }),
			packet(t, func(p *rocev2.Packet) { p.BTH.Opcode = 0x1E }), // unknown
			packet(t, func(p *rocev2.Packet) { p.BTH.Opcode = bth.RCAcknowledge }),
			packet(t, func(p *rocev2.Packet) { p.BTH.Header, p.Payload = cnp.New(1, 2).Header, make([]byte, 16) }),
			packet(t, func(p *rocev2.Packet) {
				p.BTH.Header, p.Payload = cnp.New(1, 2).Header, make([]byte, 24)
				p.BTH.Resv6 = ppfc.Bit
			}),
			packet(t, func(p *rocev2.Packet) { p.DstPort = 53 }),
			packet(t, func(p *rocev2.Packet) { p.DstPort = fcn.Port }),
			nil,
		}, 4, "packets: 11 read, 4 matched; Fast CNPs: 3 with option 1, 1 with option 2\n" +
			"skipped: 2 not RoCEv2, 1 IPv4, 1 ack, 1 broken, 1 cnp, 1 ppfc\n"},
		{"only packets marked CE", "-ecn", [][]byte{
			packet(t),
			packet(t, congested),
			packet(t, func(p *rocev2.Packet) { p.TrafficClass = 2 }),
			packet(t, func(p *rocev2.Packet) { ipv4(p); congested(p) }),
		}, 1,
			"packets: 4 read, 1 matched; Fast CNPs: 1 with option 1, 0 with option 2\nskipped: 2 not marked CE, 1 " +
				"IPv4\n"},
		{"the second and the fourth", "-every 2", [][]byte{
			packet(t), packet(t, ipv4), packet(t), packet(t), packet(t, ipv4), packet(t),
			packet(t),
		}, 2, "packets: 7 read, 5 matched; Fast CNPs: 2 with option 1, 0 with option 2\nskipped: 2 IPv4\n"},
		{"long traces", "", [][]byte{packet(t, traced(58, 20)), packet(t, traced(57, 57)), packet(t, traced(58, 58))},
			1,
			"packets: 3 read, 3 matched; Fast CNPs: 0 with option 1, 1 with option 2\nskipped: 2 IOAM trace too " +
				"long\n"},
		{"long traces", "-long refuse", [][]byte{packet(t, traced(58, 20))},
			0,
			"packets: 1 read, 1 matched; Fast CNPs: 0 with option 1, 0 with option 2\nskipped: 1 IOAM trace too " +
				"long\n"},
		{"long traces", "-long trim", [][]byte{packet(t, traced(58, 20)), packet(t, traced(58, 58))},
			1,
			"packets: 2 read, 2 matched; Fast CNPs: 0 with option 1, 1 with option 2\nskipped: 1 IOAM trace too " +
				"long\n"},
		{"long traces", "-long fallback", [][]byte{packet(t, traced(58, 20)), packet(t, traced(57, 57)),
			packet(t, traced(58, 58))},
			3, "packets: 3 read, 3 matched; Fast CNPs: 2 with option 1, 1 with option 2\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var in []capture.Record
			for i, p := range c.packets {
				in = append(in, capture.Record{Data: p, Time: time.Unix(int64(i), 0)})
			}
			out, summary := answer(t, captureOf(capture.Raw, time.Microsecond, in...), strings.Fields(c.args)...)
			require.Equal(t, c.summary, summary)
			require.Len(t, out, c.answers)
			for i := range out {
				require.Equal(t, capture.Raw, out[i].Link)
				fastCNP(t, &out[i])
				if c.args == "-every 2" {
					require.EqualValues(t, 2+3*i, out[i].Time.Unix())
				}
			}
		})
	}
}

// The limits of the switch role, by the time of the capture; and a sender that
// rejects a Fast CNP gets no more.
func TestAnswerLimitsAndRejection(t *testing.T) {
	at := func(ms int, b []byte) capture.Record {
		return capture.Record{Data: b, Time: time.Unix(1795254649, int64(ms)*1_000_000)}
	}
	p := packet(t, func(p *rocev2.Packet) { p.TrafficClass = 0 })
	in := captureOf(capture.Raw, time.Microsecond, at(0, p), at(1, p), at(2, p), at(3, p))
	out, summary := answer(t, in, "-per-flow", "2ms")
	require.Len(t, out, 2)
	require.Contains(t, summary, "skipped: 2 limited\n")
	out, _ = answer(t, in, "-rate", "500")
	require.Len(t, out, 2)

	sent := out[0].Data
	problem := append([]byte{0x60, 0, 0, 0, 0, uint8(8 + len(sent)), 58, 64}, sent[24:40]...)
	problem = append(append(append(problem, sent[8:24]...), 4, 2, 0, 0, 0, 0, 0, 42), sent...)
	second := bytes.Clone(problem)
	copy(second[48:], out[1].Data) // with its flow label
	out, summary = answer(t, captureOf(capture.Raw, time.Microsecond, at(0, problem), at(1, p), at(2, problem),
		at(3, p), at(4, problem), at(5, second), at(6, p)))
	require.Len(t, out, 2)
	require.Contains(t, summary, "skipped: 2 ICMPv6 error that another one has to confirm, "+
		"1 ICMPv6 error about nothing that was sent, 1 ICMPv6 error of a sender that is not capable, 1 not_capable\n")
}

// The answer has the link-layer header of the packet with its addresses swapped.
func TestAnswerFrames(t *testing.T) {
	const macs, swapped = "020000000002 020000000001", "020000000001 020000000002"
	inner := packet(t)
	tunnelled := slices.Concat(wiretest.Hex(t, "4500 0000 00000000 4029 0000 c0000201 c0000202"), inner)
	binary.BigEndian.PutUint16(tunnelled[2:], uint16(len(tunnelled)))
	gre := slices.Concat(wiretest.Hex(t, "4500 0000 00000000 402f 0000 c0000201 c0000202 0000 86dd"), inner)
	binary.BigEndian.PutUint16(gre[2:], uint16(len(gre)))
	for _, c := range []struct {
		link           uint32
		before, after  string
		ip             []byte
		wantLink       uint32
		unit, wantUnit time.Duration
	}{
		{capture.Ethernet, macs + "86dd", swapped + "86dd", inner, capture.Ethernet, time.Microsecond,
			time.Microsecond},
		{capture.Ethernet, macs + "8100602a 86dd", swapped + "8100602a 86dd", inner, capture.Ethernet, time.Nanosecond,
			time.Nanosecond},
		{capture.Ethernet, macs + "88a80001 8100602a 86dd", swapped + "88a80001 8100602a 86dd", inner, capture.Ethernet,
			time.Nanosecond, time.Nanosecond},
		{capture.Ethernet, macs + "0800", swapped + "86dd", tunnelled, capture.Ethernet, time.Nanosecond,
			time.Nanosecond},
		{capture.Ethernet, macs + "0800", swapped + "86dd", gre, capture.Ethernet, time.Nanosecond, time.Nanosecond},
		{113, "0000 0001 0006 020000000002 0000 86dd", "", inner, capture.Raw, time.Microsecond, time.Microsecond},
		{276, "0800 0000 00000007 0001 00 06 020000000002 0000", "", tunnelled, capture.Raw, time.Microsecond,
			time.Microsecond},
		{0, "1e000000", "", inner, capture.Raw, time.Microsecond, time.Microsecond},
		{108, "00000018", "", inner, capture.Raw, time.Microsecond, time.Microsecond},
		{capture.Raw, "", "", inner, capture.Raw, time.Nanosecond, time.Nanosecond},
		{12, "", "", tunnelled, capture.Raw, time.Microsecond, time.Microsecond},
		{229, "", "", inner, capture.Raw, time.Microsecond, time.Microsecond},
	} {
		head := wiretest.Hex(t, c.after)
		when := time.Unix(1795254649, int64(7*c.unit)).UTC()
		in := capture.Record{Data: append(wiretest.Hex(t, c.before), c.ip...), Time: when}
		whole, _ := answer(t, captureOf(c.link, c.unit, in), "-inner-source")
		require.Len(t, whole, 1)
		m := fastCNP(t, &whole[0])
		require.Equal(t, head, m.Packet.Link[:len(head):len(head)])
		require.Equal(t, []any{c.wantLink, c.wantUnit, when}, []any{whole[0].Link, whole[0].Unit, whole[0].Time})

		// The snap length does not matter as long as the headers are there.
		in.OrigLen = uint32(len(in.Data))
		in.Data = in.Data[:len(in.Data)-4-64]
		cut, _ := answer(t, captureOf(c.link, c.unit, in), "-inner-source")
		require.Equal(t, whole, cut)

		// A tunnelled packet is answered only with -inner-source (D17).
		_, summary := answer(t, captureOf(c.link, c.unit, in))
		require.Equal(t, len(c.ip) > len(inner), strings.Contains(summary, "skipped: 1 tunnelled\n"))
	}
}

// A pcap has one link type: that of the first answer.
func TestAnswerLinkTypes(t *testing.T) {
	ip := packet(t)
	frame := append(wiretest.Hex(t, "020000000002 020000000001 86dd"), ip...)
	_, summary := answer(t, captureOf(147, time.Microsecond, capture.Record{Data: frame}))
	require.Contains(t, summary, "skipped: 1 of a link type not supported\n")

	block := func(b []byte, words []uint32, data []byte) []byte {
		data = append(bytes.Clone(data), make([]byte, -len(data)&3)...)
		words = slices.Insert(words, 1, uint32(12+4*(len(words)-1)+len(data)))
		for _, w := range words {
			b = binary.BigEndian.AppendUint32(b, w)
		}
		return binary.BigEndian.AppendUint32(append(b, data...), words[1])
	}
	ng := block(nil, []uint32{0x0A0D0D0A, 0x1A2B3C4D, 1 << 16, 0xFFFFFFFF, 0xFFFFFFFF}, nil)
	ng = block(ng, []uint32{1, 101 << 16, 0}, nil)
	ng = block(ng, []uint32{1, 1 << 16, 0}, nil)
	ng = block(ng, []uint32{6, 1, 0, 1, uint32(len(frame)), uint32(len(frame))}, frame)
	ng = block(ng, []uint32{6, 0, 0, 2, uint32(len(ip)), uint32(len(ip))}, ip)
	ng = block(ng, []uint32{6, 1, 0, 3, uint32(len(frame)), uint32(len(frame))}, frame)
	out, summary := answer(t, ng)
	require.Contains(t, summary,
		"packets: 3 read, 2 matched; Fast CNPs: 2 with option 1, 0 with option 2\nskipped: 1 of another link type\n")
	require.Len(t, out, 2)
	require.Equal(t, capture.Ethernet, out[0].Link)
}

func TestAnswerUsage(t *testing.T) {
	in := wiretest.Path(t, "ioam-linux618-hpcc.pcap")
	out := filepath.Join(t.TempDir(), "out")
	for _, c := range wiretest.Cases(t, "answer.txt", "$in", in, "$out", out, "$source", source, "(nothing)", "") {
		args := strings.Fields(c[0])
		var stdout, stderr bytes.Buffer
		require.Equal(t, 2, Answer(t.Context(), args, nil, &stdout, &stderr), args)
		require.Empty(t, stdout.String())
		require.NotEmpty(t, stderr.String())
		require.NoFileExists(t, out)
	}
	var stderr bytes.Buffer
	require.Zero(t, Answer(t.Context(), []string{"-h"}, nil, nil, &stderr))
	require.Contains(t, stderr.String(), "usage: rocecn answer")
}

func TestAnswerFiles(t *testing.T) {
	dir := t.TempDir()
	in, out := wiretest.Path(t, "ioam-linux618-hpcc.pcap"), filepath.Join(dir, "out")
	text := filepath.Join(dir, "text")
	require.NoError(t, os.WriteFile(text, []byte("no capture at all"), 0o600))
	missing := filepath.Join(dir, "missing")
	for _, c := range []struct {
		in, out string
		status  int
		message string
	}{
		{missing, out, 1, "rocecn answer: " + missing + ": no such file or directory\n"},
		{dir, out, 1, "rocecn answer: " + dir + ": is a directory\n"},
		{text, out, 1, "rocecn answer: " + text + ": neither a pcap nor a pcapng capture\n"},
		{in, dir, 1, "rocecn answer: " + dir + ": is a directory\n"},
		{in, filepath.Join(missing, "out"), 1, "no such file or directory\n"},
		{text, text, 2, "rocecn answer: " + text + ": the capture that is read cannot be written\n"},
		{text, dir + "/../" + filepath.Base(dir) + "/text", 2, "cannot be written\n"},
	} {
		t.Run(c.in, func(t *testing.T) {
			var stderr bytes.Buffer
			require.Equal(t, c.status, Answer(t.Context(), []string{"-source", source, c.in, c.out}, nil, nil,
				&stderr))
			require.Contains(t, stderr.String(), c.message)
			require.NoFileExists(t, out)
		})
	}
	require.Equal(t, "no capture at all", string(octets(t, text)))

	var stdout, stderr bytes.Buffer
	require.Zero(t, Answer(t.Context(), []string{"-source", source, in, out}, nil, &stdout, &stderr))
	require.Empty(t, stdout.String())
	require.Zero(t, Answer(t.Context(), []string{"-source", source, in, "-"}, nil, &stdout, &stderr))
	require.Equal(t, stdout.Bytes(), octets(t, out))
	require.Len(t, records(t, stdout.Bytes()), 3)
}

func octets(t testing.TB, path string) []byte {
	t.Helper()
	return wiretest.Must(os.ReadFile(path))(t)
}

// A capture may be truncated after any octet. The packets before are answered, the output is a complete capture, and
// a message names the position at which the input ends.
func TestAnswerCutAnywhere(t *testing.T) {
	file := octets(t, wiretest.Path(t, "ioam-linux618-hpcc.pcap"))
	answers := 0
	for n := range len(file) + 1 {
		var stdout, stderr bytes.Buffer
		status := Answer(t.Context(), []string{"-source", source, "-", "-"}, bytes.NewReader(file[:n]),
			&stdout, &stderr)
		if n < 24 {
			require.Equal(t, 1, status)
			require.Empty(t, stdout.Bytes())
			continue
		}
		out := records(t, stdout.Bytes())
		require.GreaterOrEqual(t, len(out), answers)
		answers = len(out)
		require.Contains(t, stderr.String(), fmt.Sprintf("packets: %d read, ", answers))
		if status == 1 {
			require.Regexp(t, `^rocecn answer: -: record \d, at octet \d+: the file ends early\n`, stderr.String())
		} else {
			require.Equal(t, n == len(file), answers == 3)
		}
	}
	require.Equal(t, 3, answers)
}

// fullWriter takes some octets, then no more.
type fullWriter struct {
	size int
	err  error
}

func (w *fullWriter) Write(b []byte) (int, error) {
	if w.size -= len(b); w.size < 0 {
		return 0, w.err
	}
	return len(b), nil
}

func TestAnswerOutputBreaks(t *testing.T) {
	var many []capture.Record
	for _, p := range wiretest.Capture(t, "ioam-linux618-hpcc.pcap") {
		many = append(many, slices.Repeat([]capture.Record{{Data: p.Data}}, 500)...)
	}
	in := captureOf(capture.Ethernet, time.Microsecond, many...)
	for _, c := range []struct {
		err      error
		status   int
		messages string
	}{
		{syscall.EPIPE, 0, ""},
		{io.ErrClosedPipe, 0, ""},
		{errors.New("no space left"), 1, "rocecn answer: -: no space left\n"},
	} {
		for _, size := range []int{0, 100, 70000} {
			var stderr bytes.Buffer
			status := Answer(t.Context(), []string{"-source", source, "-", "-"}, bytes.NewReader(in),
				&fullWriter{size, c.err}, &stderr)
			require.Equal(t, c.status, status)
			require.Equal(t, c.messages, stderr.String())
		}
	}
}

func TestAnswerOutputFull(t *testing.T) {
	full := wiretest.FullDevice(t)
	var stderr bytes.Buffer
	require.Equal(t, 1, Answer(t.Context(),
		[]string{"-source", source, wiretest.Path(t, "ioam-linux618-hpcc.pcap"), full}, nil, nil, &stderr))
	require.Equal(t, "rocecn answer: "+full+": no space left on device\n", stderr.String())
}

// The answer to a packet of a live capture comes before the next packet.
func TestAnswerLive(t *testing.T) {
	in, feed := io.Pipe()
	answers, out := io.Pipe()
	done := make(chan int)
	go func() {
		status := Answer(t.Context(), []string{"-source", source, "-", "-"}, in, out, io.Discard)
		out.Close()
		done <- status
	}()
	file := octets(t, wiretest.Path(t, "ioam-linux618-hpcc.pcap"))
	first := 24 + 16 + int(file[32]) // the file header and one record
	go feed.Write(file[:first])
	r := wiretest.Must(capture.Open(answers))(t)
	var record capture.Record
	require.NoError(t, r.Next(&record))
	fastCNP(t, &record)
	go func() {
		feed.Write(file[first:])
		feed.Close()
	}()
	require.NoError(t, r.Next(&record))
	require.NoError(t, r.Next(&record))
	require.Equal(t, io.EOF, r.Next(&record))
	require.Zero(t, <-done)
}

// FuzzSwitch answers arbitrary files: nothing panics, and the output is a capture of valid Fast CNPs.
func FuzzSwitch(f *testing.F) {
	f.Add(octets(f, wiretest.Path(f, "ioam-linux618-two.pcap")), 1, false)
	f.Fuzz(func(t *testing.T, file []byte, every int, onlyCE bool) {
		var stdout, stderr bytes.Buffer
		args := []string{"-source", source, "-long", "fallback", "-every", fmt.Sprint(every),
			fmt.Sprintf("-ecn=%t", onlyCE), "-", "-"}
		status := Answer(t.Context(), args, bytes.NewReader(file), &stdout, &stderr)
		if stdout.Len() == 0 {
			require.NotZero(t, status)
			return
		}
		out := records(t, stdout.Bytes())
		for i := range out {
			fastCNP(t, &out[i])
		}
		var read, matched, option1, option2 int
		_, summary, _ := strings.Cut(stderr.String(), "packets: ")
		_, err := fmt.Sscanf(summary, "%d read, %d matched; Fast CNPs: %d with option 1, %d with option 2", &read,
			&matched, &option1, &option2)
		require.NoError(t, err, summary)
		require.Equal(t, len(out), option1+option2)
		// Every packet is answered, passed over by -every, or counts for a reason.
		skipped := 0
		counts := summary[strings.IndexByte(summary, '\n'):]
		for _, n := range regexp.MustCompile(`(?:skipped:|,) (\d+) `).FindAllStringSubmatch(counts, -1) {
			count := wiretest.Must(strconv.Atoi(n[1]))(t)
			skipped += count
		}
		require.Equal(t, read, len(out)+matched-matched/every+skipped, summary)
	})
}

func BenchmarkSwitch(b *testing.B) {
	file := octets(b, wiretest.Path(b, "rxe-verbs6.pcap"))
	packets := 0
	for b.Loop() {
		args := []string{"-source", source, "-", "-"}
		Answer(b.Context(), args, bytes.NewReader(file), io.Discard, io.Discard)
		packets += 253
	}
	b.ReportMetric(float64(packets)/b.Elapsed().Seconds(), "packets/s")
}

// playAsAnswer runs rocecn play with the switch role, configured like answer with these flags, and returns the
// packets that it sends.
func playAsAnswer(t *testing.T, in []byte, flags string) []capture.Record {
	t.Helper()
	config := `{"enabled": true, "self": ["` + source + `"], "methods": [{"senders": "::/0", "method": "fastcnp"}]`
	for _, f := range strings.Fields(flags) {
		config += map[string]string{"-ecn": `, "congested": "ce"`, "-inner-source": `, "inner_source": true`}[f]
	}
	out := filepath.Join(t.TempDir(), "out.pcap")
	var lines, stderr bytes.Buffer
	args := []string{"-role", "switch", "-config", file(t, config+"}"), "-", out}
	require.Zero(t, Run(t.Context(), args, bytes.NewReader(in), &lines, &stderr), stderr.String())
	return records(t, octets(t, out))
}

// Both commands run the same role. They send the same packets for every tunnel and every ECN field with CE. CE in
// any IP header counts if the innermost packet is ECN-capable.
func TestSameRoleAsPlay(t *testing.T) {
	pe := netip.MustParseAddr("2001:db8:e::1")
	in6 := &encap.IPInIPv6{Src: pe, Dst: pe.Next()}
	vxlan := &encap.VXLAN{Src: pe, Dst: pe.Next(), VNI: 7, Ethernet: []byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0}}
	inner := func(ecn uint8) []byte { return packet(t, func(p *rocev2.Packet) { p.TrafficClass = ecn }) }
	tunnelled := func(tunnel encap.Tunnel, outer, in uint8) []byte {
		b, err := tunnel.Append(nil, inner(in), 5)
		require.NoError(t, err)
		wiretest.SetECN(t, b, uint8(outer))
		return b
	}
	mirrored := append(wiretest.Hex(t,
		"4503 0000 00000000 402f 0000 c0000201 c0000202 0000 88be 020000000002 020000000001 86dd"), inner(3)...)
	binary.BigEndian.PutUint16(mirrored[2:], uint16(len(mirrored)))
	for _, c := range []struct {
		name   string
		packet []byte
		sent   [4]int // without flags, -ecn, -inner-source, both
	}{
		{"plain, ECT", inner(2), [4]int{1, 0, 1, 0}},
		{"plain, CE", inner(3), [4]int{1, 1, 1, 1}},
		{"plain, Not-ECT", inner(0), [4]int{1, 0, 1, 0}},
		{"VXLAN, unmarked", tunnelled(vxlan, 2, 2), [4]int{0, 0, 1, 0}},
		{"VXLAN, outer CE, inner ECT", tunnelled(vxlan, 3, 2), [4]int{0, 0, 1, 1}},
		{"VXLAN, outer ECT, inner CE", tunnelled(vxlan, 2, 3), [4]int{0, 0, 1, 1}},
		{"VXLAN, both", tunnelled(vxlan, 3, 3), [4]int{0, 0, 1, 1}},
		{"VXLAN, outer CE, inner Not-ECT", tunnelled(vxlan, 3, 0), [4]int{0, 0, 1, 0}},
		{"IP in IPv6, unmarked", tunnelled(in6, 2, 2), [4]int{0, 0, 1, 0}},
		{"IP in IPv6, outer CE, inner ECT", tunnelled(in6, 3, 2), [4]int{0, 0, 1, 1}},
		{"IP in IPv6, outer ECT, inner CE", tunnelled(in6, 2, 3), [4]int{0, 0, 1, 1}},
		{"mirrored, CE", mirrored, [4]int{0, 0, 0, 0}},
		{"IPv4, CE", packet(t, func(p *rocev2.Packet) { ipv4(p); p.TrafficClass = 3 }), [4]int{0, 0, 0, 0}},
		{"ack, CE", packet(t, func(p *rocev2.Packet) { p.BTH.Opcode, p.TrafficClass = bth.RCAcknowledge, 3 }),
			[4]int{0, 0, 0, 0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := captureOf(capture.Raw, time.Microsecond,
				capture.Record{Data: c.packet, Time: time.Unix(1795254649, 0)})
			for i, flags := range []string{"", "-ecn", "-inner-source", "-ecn -inner-source"} {
				out, summary := answer(t, in, strings.Fields(flags)...)
				require.Len(t, out, c.sent[i], "%s %s: %s", c.name, flags, summary)
				require.Equal(t, playAsAnswer(t, in, flags), out, "%s %s", c.name, flags)
			}
		})
	}

	// A mirrored copy is no packet of this node's, and does not match.
	out, summary := answer(t, captureOf(capture.Raw, time.Microsecond, capture.Record{Data: mirrored}))
	require.Empty(t, out)
	require.Equal(t,
		"packets: 1 read, 0 matched; Fast CNPs: 0 with option 1, 0 with option 2\nskipped: 1 not RoCEv2\n", summary)

	// Tunnelled data matches, and each N-th is answered, as untunnelled data is.
	var in []capture.Record
	for range 4 {
		in = append(in, capture.Record{Data: tunnelled(vxlan, 3, 2)})
	}
	out, summary = answer(t, captureOf(capture.Raw, time.Microsecond, in...), "-inner-source", "-every", "2")
	require.Len(t, out, 2)
	require.Equal(t, "packets: 4 read, 4 matched; Fast CNPs: 2 with option 1, 0 with option 2\n", summary)
}
