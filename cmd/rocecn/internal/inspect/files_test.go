package inspect

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/cli"
	"github.com/rocecn/rocecn/internal/wiretest"
)

func pack(octets []byte) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	z.Write(octets)
	z.Close()
	return b.Bytes()
}

// pcapngOf lays Ethernet frames out as the newer format.
func pcapngOf(records []capture.Record) []byte {
	be := binary.BigEndian
	block := func(b []byte, kind uint32, body []byte) []byte {
		body = append(body, make([]byte, -len(body)&3)...)
		b = be.AppendUint32(be.AppendUint32(b, kind), uint32(12+len(body)))
		return be.AppendUint32(append(b, body...), uint32(12+len(body)))
	}
	words := func(all ...uint32) (b []byte) {
		for _, v := range all {
			b = be.AppendUint32(b, v)
		}
		return b
	}
	b := block(nil, 0x0A0D0D0A, words(0x1A2B3C4D, 1<<16, 0xFFFFFFFF, 0xFFFFFFFF))
	b = block(b, 1, words(1<<16, 0))
	for _, r := range records {
		µs := uint64(r.Time.UnixMicro())
		b = block(b, 6, append(words(0, uint32(µs>>32), uint32(µs), uint32(len(r.Data)), r.OrigLen), r.Data...))
	}
	return b
}

// The lines are the same for each format, read from a file or from standard input.
func TestSameLinesFromEveryFormat(t *testing.T) {
	const name = "rxe-rping6.pcap"
	octets := octetsOf(t, name)
	want, _, _ := inspect(nil, "-json", wiretest.Path(t, name))
	ng := pcapngOf(records(t, name))
	for _, c := range []struct {
		name string
		file []byte
	}{{"pcap", octets}, {"pcap.gz", pack(octets)}, {"pcapng", ng},
		{"pcapng.gz", pack(ng)}} {
		t.Run(c.name, func(t *testing.T) {
			got, _, status := inspect(c.file, "-json", "-")
			require.Zero(t, status)
			require.Equal(t, want, got, c.name)
			got, _, status = inspect(nil, "-json", wiretest.File(t, c.name, c.file))
			require.Zero(t, status)
			require.Equal(t, want, got, c.name)
		})
	}
}

// In a file that ends after any octet, complete records are printed. Unless it ends between two records, a message
// names the record and the offset.
func TestCutAnywhere(t *testing.T) {
	packets := records(t, "ioam-linux618-hpcc.pcap")
	for _, file := range [][]byte{captureOf(capture.Ethernet, packets...), pcapngOf(packets), pack(pcapngOf(packets))} {
		out, _, _ := inspect(file, "-json", "-")
		want := strings.SplitAfter(out, "\n")
		printed := 0
		for n := range file {
			out, messages, status := inspect(file[:n], "-json", "-")
			got := strings.SplitAfter(out, "\n")
			require.Equal(t, want[:len(got)-1], got[:len(got)-1])
			require.GreaterOrEqual(t, len(got), printed)
			printed = len(got)
			require.Equal(t, status == 1, strings.HasPrefix(messages, "rocecn inspect: -: "), messages)
			if status == 1 && n > 24 {
				require.Regexp(t,
					`^rocecn inspect: -: (record \d+, at octet \d+( of the unpacked data)?: )?the file ends early\n`,
					messages)
			}
		}
	}
}

// Octets flipped at random: no panic, no endless loop, little memory, and all
// output is JSON.
func TestRandomDamage(t *testing.T) {
	whole := [][]byte{octetsOf(t, "ioam-linux618-two.pcap"), octetsOf(t, "messages.pcap"), octetsOf(t, "tour.pcap"),
		pcapngOf(records(t, "ioam-linux618-hpcc.pcap"))}
	random := rand.New(rand.NewPCG(1, 2))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	rounds := wiretest.Rounds(1000)
	for range rounds {
		for _, file := range whole {
			file = bytes.Clone(file)
			for range 1 + random.IntN(4) {
				file[random.IntN(len(file))] = uint8(random.Uint32())
			}
			out, messages, status := inspect(file, "-json", "-")
			lines(t, out)
			require.Contains(t, []int{0, 1}, status)
			require.Equal(t, status == 1, strings.Contains(messages, "record ") ||
				strings.Contains(messages, "capture\n") || strings.Contains(messages, "version"), messages)
		}
	}
	runtime.ReadMemStats(&after)
	require.Less(t, (after.TotalAlloc-before.TotalAlloc)/uint64(rounds*len(whole)), uint64(1<<20), "octets a run")
}

// endless is a capture without an end: it shows that a file is not read into
// memory.
type endless struct {
	head, record []byte
	packets      int
	rest         []byte
}

func (e *endless) Read(b []byte) (int, error) {
	if len(e.rest) == 0 {
		if e.packets == 0 {
			return 0, io.EOF
		}
		e.packets--
		e.rest = e.record
	}
	if len(e.head) > 0 {
		e.rest, e.head = append(bytes.Clone(e.head), e.rest...), nil
	}
	n := copy(b, e.rest)
	e.rest = e.rest[n:]
	return n, nil
}

func TestStreams(t *testing.T) {
	file := captureOf(capture.Ethernet, records(t, "rxe-verbs6.pcap")[66]) // an RDMA WRITE Middle
	in := &endless{head: file[:24], record: file[24:], packets: 50_000}    // 56 MB
	var stderr bytes.Buffer
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	require.Zero(t, Run(context.Background(), []string{"-"}, in, io.Discard, &stderr))
	runtime.ReadMemStats(&after)
	require.Contains(t, stderr.String(), "50000 packets: 50000 data\nICRC: 50000 right, 0 wrong;")
	require.Less(t, int64(after.Sys)-int64(before.Sys), int64(16<<20))
}

// Whole files: no panic, one line a packet in both forms, all of it JSON.
func FuzzCapture(f *testing.F) {
	for _, name := range []string{"ioam-linux618-dex.pcap", "fastcnp.pcap", "messages.pcap", "tour.pcap"} {
		f.Add(octetsOf(f, name))
		f.Add(pack(octetsOf(f, name)))
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		out, messages, status := inspect(file, "-json", "-")
		human, _, sameStatus := inspect(file, "-all", "-")
		require.Equal(t, status, sameStatus)
		require.Equal(t, len(lines(t, out)), strings.Count(human, "\n"), "one line a packet")
		if printed := len(lines(t, out)); status == 0 || printed > 0 {
			require.Contains(t, messages, fmt.Sprintf("%d packet", printed))
		}
	})
}

// File names are untrusted: their escape sequences do not reach the terminal.
func TestNamesAreEscaped(t *testing.T) {
	file := wiretest.File(t, "red\x1b[31m.pcap", octetsOf(t, "rxe-rping6.pcap"))
	out, _, status := inspect(nil, file, file)
	require.Zero(t, status)
	require.Contains(t, out, `red\x1b[31m.pcap`)
	require.NotContains(t, out, "\x1b")
}

// Packets in ERF records print the same lines as Ethernet frames, and a record with metadata is of kind other.
func TestERFRecords(t *testing.T) {
	want, _, status := inspect(nil, "-json", wiretest.Path(t, "messages.pcap"))
	require.Zero(t, status)
	be := binary.BigEndian
	meta := append(make([]byte, 8), 27, 4, 0, 24, 0, 0, 0, 8, 1, 2, 3, 4, 5, 6, 7, 8)
	var file bytes.Buffer
	out := wiretest.Must(capture.NewWriter(&file, 197, time.Microsecond))(t)
	require.NoError(t, out.Write(&capture.Record{Data: meta, OrigLen: 24}))
	for _, p := range wiretest.Capture(t, "messages.pcap") {
		b := append(make([]byte, 8), 2, 4)
		b = be.AppendUint16(be.AppendUint16(b, uint16(18+len(p.Data))), 0)
		b = append(append(be.AppendUint16(b, uint16(p.OrigLen)), 0, 0), p.Data...)
		require.NoError(t, out.Write(&capture.Record{Data: b, OrigLen: uint32(len(b)), Time: p.Time}))
	}
	got, stderr, status := inspect(nil, "-json", wiretest.File(t, "erf.pcap", file.Bytes()))
	require.Zero(t, status, stderr)
	require.NotContains(t, stderr, "link type")
	numbered := regexp.MustCompile(`^\{"frame":\d+,`)
	without := func(out string) (all []string) {
		for line := range strings.Lines(out) {
			require.Regexp(t, numbered, line)
			all = append(all, numbered.ReplaceAllString(line, ""))
		}
		return all
	}
	all := without(got)
	require.Contains(t, all[0], `"kind":"other"`)
	require.Equal(t, without(want), all[1:])
}

// TestPackets prints the packets of testdata/packets.golden. The first lines of the file explain its format.
func TestPackets(t *testing.T) {
	golden := wiretest.OwnPath(t, "packets.golden")
	cases := strings.Split(string(wiretest.Must(os.ReadFile(golden))(t)), "\n== ")
	for i, c := range cases[1:] {
		rows := append(strings.Split(strings.TrimRight(c, "\n"), "\n"), "", "")
		t.Run(rows[0], func(t *testing.T) {
			link, octets := uint32(capture.Raw), []byte(nil)
			switch source, digits, _ := strings.Cut(rows[1], " "); source {
			case "options":
				octets = withOptions(t, digits)
			case "frame":
				link, octets = capture.Ethernet, wiretest.Hex(t, digits)
			default:
				require.Equal(t, "packet", source)
				octets = wiretest.Hex(t, digits)
			}
			file := capturing(link, octets)
			object, _, status := inspect(file, "-json", "-")
			require.Zero(t, status)
			text, _, status := inspect(file, "-all", "-")
			require.Zero(t, status)
			if *update {
				cases[i+1] = rows[0] + "\n" + rows[1] + "\n" + object + text
				return
			}
			require.Equal(t, rows[2]+"\n", object)
			require.Equal(t, rows[3]+"\n", text)
		})
	}
	if *update {
		require.NoError(t, os.WriteFile(golden, []byte(strings.Join(cases, "\n== ")), 0o644))
	}
}

// A failingPrinter prints the number of each frame before the third one, which it fails to print.
type failingPrinter struct{ out *output }

var errThird = errors.New("third frame")

func (p failingPrinter) print(f *finding) error {
	if f.frame >= 3 {
		return errThird
	}
	fmt.Fprintln(p.out, f.frame)
	return nil
}

// An error of printing a packet ends the reading, after the lines of the packets before it.
func TestPrintErrors(t *testing.T) {
	path := wiretest.Path(t, "messages.pcap")
	octets := wiretest.Must(os.ReadFile(path))(t)
	for _, workers := range []int{1, 4} {
		for _, name := range []string{path, "-"} {
			t.Run(fmt.Sprintf("%d workers, %s", workers, name), func(t *testing.T) {
				var out bytes.Buffer
				i := inspector{inputs: cli.Inputs{Stdin: bytes.NewReader(octets)}, workers: workers, stderr: io.Discard,
					out: bufio.NewWriter(&out), newPrinter: func() (printer, *output) {
						lines := new(output)
						return failingPrinter{lines}, lines
					}}
				err := i.readCapture(t.Context(), name)
				require.ErrorIs(t, err, errThird)
				var broken cli.OutputError
				require.ErrorAs(t, err, &broken)
				require.Equal(t, "1\n2\n", out.String())
			})
		}
	}
}
