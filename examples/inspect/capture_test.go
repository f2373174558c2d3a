package main

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/stretchr/testify/require"
)

// read returns all records of a capture, and the error that ended it; nil for
// io.EOF.
func read(capture []byte) (all []record, err error) {
	c, err := openCapture(bytes.NewReader(capture))
	if err != nil {
		return nil, err
	}
	for {
		var r record
		if err := c.next(&r); err == io.EOF {
			return all, nil
		} else if err != nil {
			return all, err
		}
		r.data = bytes.Clone(r.data)
		all = append(all, r)
	}
}

// words lays out 32-bit numbers and octets.
func words(order binary.ByteOrder, all ...any) []byte {
	var b bytes.Buffer
	for _, v := range all {
		if n, ok := v.(int); ok {
			v = uint32(n)
		}
		if err := binary.Write(&b, order, v); err != nil {
			panic(err)
		}
	}
	return b.Bytes()
}

func pack(octets []byte) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	z.Write(octets)
	z.Close()
	return b.Bytes()
}

var byteOrders = []binary.ByteOrder{binary.LittleEndian, binary.BigEndian}

func TestPcap(t *testing.T) {
	for _, order := range byteOrders {
		for magic, unit := range map[uint32]time.Duration{0xA1B2C3D4: time.Microsecond, 0xA1B23C4D: time.Nanosecond} {
			const fcs = 1<<28 | 1<<26 // says how long the frame check sequence is
			capture := words(order, magic, uint16(2), uint16(4), 0, 0, 65535, fcs|228,
				1795254649, 488050, 4, 9, []byte("abcd"),
				uint32(0xFFFFFFFF), 999999, 0, 0)
			want := []record{
				{data: []byte("abcd"), orig: 9, link: 228, time: time.Unix(1795254649, 488050*int64(unit)).UTC()},
				{data: []byte{}, orig: 0, link: 228, time: time.Unix(0xFFFFFFFF, 999999*int64(unit)).UTC()},
			}
			got, err := read(capture)
			require.NoError(t, err)
			require.Equal(t, want, normal(got))
			require.True(t, got[0].cut())
			require.False(t, got[1].cut())
			got, err = read(append(pack(capture[:30]), pack(capture[30:])...)) // gzip in two members
			require.NoError(t, err)
			require.Equal(t, want, normal(got))
		}
	}
}

// normal makes empty data comparable.
func normal(all []record) []record {
	for i := range all {
		if all[i].data == nil {
			all[i].data = []byte{}
		}
	}
	return all
}

// block lays out a pcapng block.
func block(order binary.ByteOrder, kind int, all ...any) []byte {
	body := words(order, all...)
	body = append(body, make([]byte, -len(body)&3)...)
	return words(order, kind, 12+len(body), body, 12+len(body))
}

func section(order binary.ByteOrder) []byte {
	return block(order, blockSection, pcapngByteOrder, uint16(1), uint16(0), int64(-1), uint16(4), uint16(5), []byte("a box\x00\x00\x00"), 0)
}

func TestPcapng(t *testing.T) {
	for _, order := range byteOrders {
		ticks := uint64(1795254649)<<10 | 3
		capture := bytes.Join([][]byte{
			section(order),
			block(order, blockInterface, uint16(1), uint16(0), 5),
			block(order, blockInterface, uint16(101), uint16(0), 0,
				uint16(2), uint16(3), []byte("en0\x00"), uint16(9), uint16(1), []byte{0x8A, 0, 0, 0}, uint16(14), uint16(8), int64(-1), 0),
			block(order, 0xBAD, []byte("a block that nobody knows")),
			block(order, blockEnhanced, 1, uint32(ticks>>32), uint32(ticks), 3, 4, []byte("abc\x00"), uint16(1), uint16(2), []byte("hi\x00\x00"), 0),
			block(order, blockSimple, 8, []byte("abcde")),
			block(order, blockOldPacket, uint16(0), uint16(7), 0, 1, 2, 2, []byte("ab")),
			section(binary.BigEndian), // with other interfaces
			block(binary.BigEndian, blockInterface, uint16(276), uint16(0), 0, uint16(9), uint16(1), []byte{9, 0, 0, 0}),
			block(binary.BigEndian, blockSimple, 2, []byte("ab")),
			block(binary.BigEndian, blockEnhanced, 0, 0, 1_000_000_001, 0, 0),
		}, nil)
		want := []record{
			{data: []byte("abc"), orig: 4, link: 101, time: time.Unix(1795254648, 2_929_687).UTC()},
			{data: []byte("abcde"), orig: 8, link: 1},
			{data: []byte("ab"), orig: 2, link: 1, time: time.Unix(0, 1000).UTC()},
			{data: []byte("ab"), orig: 2, link: 276},
			{data: []byte{}, link: 276, time: time.Unix(1, 1).UTC()},
		}
		for _, file := range [][]byte{capture, pack(capture)} {
			got, err := read(file)
			require.NoError(t, err)
			require.Equal(t, want, normal(got))
		}
	}
}

func TestPcapngTime(t *testing.T) {
	for _, c := range []struct {
		resolution uint8
		offset     int64
		ticks      uint64
		want       time.Time
	}{
		{6, 0, 1_500_000, time.Unix(1, 500_000_000)},
		{0, 0, 7, time.Unix(7, 0)},
		{0, 0, 253402300799, time.Unix(253402300799, 0)},
		{0, 0, 253402300800, time.Time{}}, // the year 10000
		{0, 0, math.MaxUint64, time.Time{}},
		{0, 1, 253402300799, time.Time{}},
		{0, -1, 253402300800, time.Time{}},
		{6, -1, 500_000, time.Unix(-1, 500_000_000)},
		{6, math.MinInt64, 1, time.Time{}},
		{6, math.MaxInt64, 1, time.Time{}},
		{6, -62135596801, 1_000_000, time.Unix(-62135596800, 0)},
		{6, -62135596802, 1_000_000, time.Time{}},
		{19, 0, math.MaxUint64, time.Unix(1, 844674407)},
		{0x80, 0, 5, time.Unix(5, 0)},
		{0x80 | 63, 0, math.MaxUint64, time.Unix(1, 999_999_999)},
	} {
		i := pcapngInterface{units: resolution(c.resolution), offset: c.offset}
		require.Equal(t, c.want.UTC(), i.time(c.ticks), "%+v", c)
	}
	for _, unheardOf := range []uint8{20, 127, 0x80 | 64, 0xFF} {
		require.Zero(t, resolution(unheardOf))
	}
}

// Another reader, which the codecs' tests use, gets the same packets out of the
// project's captures.
func TestAgreesWithOtherReader(t *testing.T) {
	for _, capture := range wiretest.Captures(t, "*.pcap") {
		got, err := read(octetsOf(t, capture))
		require.NoError(t, err)
		var want []record
		for _, p := range wiretest.Capture(t, capture) {
			want = append(want, record{data: p.Data, orig: uint32(p.OrigLen), time: p.Time, link: linkEthernet})
		}
		require.Equal(t, want, got)
	}
}

// Wireshark's editcap as the other opinion: what it writes in another format,
// or cut to a snap length, is what was in the capture.
func TestAgreesWithEditcap(t *testing.T) {
	editcap := wiretest.Tool(t, "editcap")
	for _, format := range []string{"pcap", "nsecpcap", "pcapng"} {
		for _, snap := range []int{65535, 64} {
			path := wiretest.Path(t, "rxe-verbs6.pcap")
			want, err := read(octetsOf(t, "rxe-verbs6.pcap"))
			require.NoError(t, err)
			for i := range want {
				want[i].data = want[i].data[:min(len(want[i].data), snap)]
			}
			written := filepath.Join(t.TempDir(), format)
			out, err := exec.Command(editcap, "-F", format, "-s", fmt.Sprint(snap), path, written).CombinedOutput()
			require.NoError(t, err, string(out))
			octets, err := os.ReadFile(written)
			require.NoError(t, err)
			got, err := read(octets)
			require.NoError(t, err)
			require.Equal(t, want, got, format)
		}
	}
}

// Whatever the format and wherever the capture comes from, the lines are the
// same.
func TestSameLinesFromEveryFormat(t *testing.T) {
	const capture = "rxe-rping6.pcap"
	octets := octetsOf(t, capture)
	want, _, _ := inspect(nil, "-json", wiretest.Path(t, capture))
	packets, err := read(octets)
	require.NoError(t, err)
	ng := section(binary.BigEndian)
	ng = append(ng, block(binary.BigEndian, blockInterface, uint16(1), uint16(0), 0)...)
	for _, p := range packets {
		µs := uint64(p.time.UnixMicro())
		ng = append(ng, block(binary.BigEndian, blockEnhanced, 0, uint32(µs>>32), uint32(µs), len(p.data), p.orig, p.data)...)
	}
	for name, file := range map[string][]byte{"pcap": octets, "pcap.gz": pack(octets), "pcapng": ng, "pcapng.gz": pack(ng)} {
		got, _, status := inspect(file, "-json", "-")
		require.Zero(t, status)
		require.Equal(t, want, got, name)
		got, _, status = inspect(nil, "-json", write(t, name, file))
		require.Zero(t, status)
		require.Equal(t, want, got, name)
	}
}

// Cut after every octet: what is whole is printed, and unless the cut is
// between two records, a message says where the file breaks off.
func TestCutAnywhere(t *testing.T) {
	pcap := octetsOf(t, "ioam-linux618-hpcc.pcap")
	packets, err := read(pcap)
	require.NoError(t, err)
	pcapEnds := map[int]int{24: 0} // where a record ends, and how many packets there are then
	at := 24
	ng := section(binary.LittleEndian)
	ngEnds := map[int]int{len(ng): 0}
	ng = append(ng, block(binary.LittleEndian, blockInterface, uint16(1), uint16(0), 0)...)
	ngEnds[len(ng)] = 0
	for i, p := range packets {
		at += 16 + len(p.data)
		pcapEnds[at] = i + 1
		ng = append(ng, block(binary.LittleEndian, blockEnhanced, 0, 0, i, len(p.data), p.orig, p.data)...)
		ngEnds[len(ng)] = i + 1
	}
	for _, c := range []struct {
		file []byte
		ends map[int]int
	}{{pcap, pcapEnds}, {ng, ngEnds}} {
		whole := 0
		for n := range len(c.file) + 1 {
			out, messages, status := inspect(c.file[:n], "-json", "-")
			if packets, ok := c.ends[n]; ok {
				whole = packets
				require.Zero(t, status, n)
			} else {
				require.Equal(t, 1, status, n)
				require.Contains(t, messages, "inspect: -: ", n)
				if n > 24 {
					require.Regexp(t, `record \d+, at octet \d+: the file breaks off`, messages, n)
				}
			}
			require.Equal(t, whole, strings.Count(out, "\n"), n)
		}
	}
	packed := pack(pcap)
	for n := range packed {
		_, messages, status := inspect(packed[:n], "-")
		require.Equal(t, 1, status, n)
		require.Contains(t, messages, "inspect: -: ", n)
	}
}

// The message names the damaged record, and the packets before it are printed.
func TestDamage(t *testing.T) {
	le := binary.LittleEndian
	pcap := words(le, pcapMicro, uint16(2), uint16(4), 0, 0, 65535, 1, 0, 0, 4, 4, []byte("abcd"))
	head := section(le)
	ethernet := block(le, blockInterface, uint16(1), uint16(0), 0)
	packet := block(le, blockEnhanced, 0, 0, 0, 4, 4, []byte("abcd"))
	ng := bytes.Join([][]byte{head, ethernet, packet}, nil)
	with := func(before []byte, after ...[]byte) []byte {
		return append(bytes.Clone(before), bytes.Join(after, nil)...)
	}
	badGzip := pack(pcap)
	badGzip[len(badGzip)-5] ^= 1 // in the checksum
	for _, c := range []struct {
		name    string
		file    []byte
		packets int
		message string
	}{
		{"nothing", nil, 0, "empty file"},
		{"gzip of nothing", pack(nil), 0, "empty file"},
		{"three octets", []byte{0xD4, 0xC3, 0xB2}, 0, "neither a pcap nor a pcapng capture"},
		{"half a gzip header", []byte{0x1F, 0x8B, 8, 0}, 0, "the file breaks off"},
		{"gzip in gzip", pack(pack(pcap)), 0, "neither a pcap nor a pcapng capture"},
		{"pcap version", words(le, pcapMicro, uint16(3), uint16(4), 0, 0, 0, 0), 0, "version of the format not supported"},
		{"pcap length", with(pcap, words(le, 0, 0, maxPacket+1, maxPacket+1)), 1, "record 2, at octet 44: damaged: captured length over 256 KiB"},
		{"pcap length of 4 GiB", with(pcap, words(le, 0, 0, -1, -1)), 1, "record 2, at octet 44: damaged: captured length over 256 KiB"},
		{"pcap record header cut", with(pcap, words(le, 0, 0)), 1, "record 2, at octet 44: the file breaks off"},
		{"pcap cut behind a record header", with(pcap, words(le, 0, 0, 4, 4)), 1, "record 2, at octet 44: the file breaks off"},
		{"gzip checksum", badGzip, 1, "record 2, at octet 44 of the unpacked data: gzip: invalid checksum"},
		{"section byte order", words(le, blockSection, 28, 0, 0, 0), 0, "record 1, at octet 0: damaged: byte order"},
		{"section version", block(le, blockSection, pcapngByteOrder, uint16(2), uint16(0), int64(-1)), 0, "version of the format not supported"},
		{"section too short", block(le, blockSection, pcapngByteOrder, 1), 0, "record 1, at octet 0: damaged: block too short"},
		{"block of 8 octets", with(ng, words(le, 7, 8, 8)), 1, "record 4, at octet 100: damaged: block length"},
		{"block of 4 GiB", with(ng, words(le, 7, uint32(0xFFFFFFFC), 8)), 1, "record 4, at octet 100: the file breaks off"},
		{"block of 13 octets", with(ng, words(le, 7, 13), []byte{0}, words(le, 13)), 1, "record 4, at octet 100: damaged: block length"},
		{"two lengths", with(ng, words(le, 7, 12, 16)), 1, "record 4, at octet 100: damaged: block length"},
		{"interface too short", with(head, block(le, blockInterface, 1)), 0, "record 2, at octet 44: damaged: block too short"},
		{"option too long", with(head, block(le, blockInterface, 1, 0, uint16(2), uint16(9), 0)), 0, "damaged: block too short"},
		{"resolution too long", with(head, block(le, blockInterface, 1, 0, uint16(9), uint16(1))), 0, "damaged: block too short"},
		{"offset too long", with(head, block(le, blockInterface, 1, 0, uint16(14), uint16(8), 0)), 0, "damaged: block too short"},
		{"resolution of 2^-64", with(head, block(le, blockInterface, 1, 0, uint16(9), uint16(1), 0xC0)), 0, "damaged: time resolution"},
		{"packet without interface", with(head, block(le, blockEnhanced, 0, 0, 0, 0, 0)), 0, "damaged: packet of an interface"},
		{"simple packet without interface", with(head, block(le, blockSimple, 0)), 0, "damaged: packet of an interface"},
		{"interface -1", with(ng, block(le, blockEnhanced, -1, 0, 0, 0, 0)), 1, "damaged: packet of an interface"},
		{"packet block too short", with(ng, block(le, blockEnhanced, 0, 0, 0, 0)), 1, "damaged: block too short"},
		{"packet longer than block", with(ng, block(le, blockEnhanced, 0, 0, 0, 5, 5, []byte("abcd"))), 1, "damaged: block too short"},
		{"packet of 4 GiB", with(ng, words(le, blockEnhanced, uint32(0xFFFFFFFC), 0, 0, 0, uint32(0xF0000000), uint32(0xF0000000))), 1, "damaged: captured length over 256 KiB"},
		{"simple packet longer than block", with(ng, block(le, blockSimple, 5, []byte("abcd"))), 1, "damaged: block too short"},
		{"empty simple packet block", with(ng, block(le, blockSimple)), 1, "damaged: block too short"},
	} {
		out, messages, status := inspect(c.file, "-json", "-")
		require.Equal(t, 1, status, c.name)
		require.Contains(t, messages, "inspect: -: ", c.name)
		require.Contains(t, messages, c.message, c.name)
		require.Equal(t, c.packets, strings.Count(out, "\n"), c.name)
	}
}

func TestTooManyInterfaces(t *testing.T) {
	le := binary.LittleEndian
	one := block(le, blockInterface, 1, 0)
	_, err := read(append(section(le), bytes.Repeat(one, maxInterfaces)...))
	require.NoError(t, err)
	_, err = read(append(section(le), bytes.Repeat(one, maxInterfaces+1)...))
	require.ErrorIs(t, err, errInterfaces)
}

// Captures longer than the snap length, or longer than the packet was, are
// read: libpcap reads them too.
func TestLengthsThatAreNoDamage(t *testing.T) {
	le := binary.LittleEndian
	got, err := read(words(le, pcapMicro, uint16(2), uint16(4), 0, 0, 2, 1, 0, 0, 4, 3, []byte("abcd")))
	require.NoError(t, err)
	require.Len(t, got, 1)
	require.False(t, got[0].cut())
}

// Octets flipped at random: no panic, no endless loop, little memory, and all
// output is JSON.
func TestRandomDamage(t *testing.T) {
	packets, err := read(octetsOf(t, "ioam-linux618-hpcc.pcap"))
	require.NoError(t, err)
	ng := append(section(binary.LittleEndian), block(binary.LittleEndian, blockInterface, uint16(1), uint16(0), 0, uint16(9), uint16(1), 6, 0)...)
	for _, p := range packets {
		ng = append(ng, block(binary.LittleEndian, blockEnhanced, 0, 0, 0, len(p.data), p.orig, p.data)...)
	}
	random := rand.New(rand.NewPCG(1, 2))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	const rounds = 3000
	for range rounds {
		for _, file := range [][]byte{octetsOf(t, "ioam-linux618-two.pcap"), ng} {
			file = bytes.Clone(file)
			for range 1 + random.IntN(4) {
				file[random.IntN(len(file))] = uint8(random.Uint32())
			}
			out, messages, status := inspect(file, "-json", "-")
			lines(t, out)
			require.Contains(t, []int{0, 1}, status)
			require.Equal(t, status == 1, strings.Contains(messages, "record ") || strings.Contains(messages, "capture\n") || strings.Contains(messages, "version"), messages)
		}
	}
	runtime.ReadMemStats(&after)
	require.Less(t, (after.TotalAlloc-before.TotalAlloc)/rounds, uint64(2<<20), "octets a round")
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
	packets, err := read(octetsOf(t, "rxe-verbs6.pcap"))
	require.NoError(t, err)
	data := packets[66].data // an RDMA WRITE Middle
	in := &endless{
		head:    words(binary.LittleEndian, pcapMicro, uint16(2), uint16(4), 0, 0, 65535, 1),
		record:  words(binary.LittleEndian, 0, 0, len(data), len(data), data),
		packets: 50_000, // 56 MB
	}
	var stderr bytes.Buffer
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	require.Zero(t, run([]string{"-"}, in, io.Discard, &stderr))
	runtime.ReadMemStats(&after)
	require.Contains(t, stderr.String(), "50000 packets: 50000 data\nICRC: 50000 right, 0 wrong;")
	require.Less(t, int64(after.Sys)-int64(before.Sys), int64(16<<20))
}

// Whole files: no panic, one line a packet in both forms, all of it JSON.
func FuzzCapture(f *testing.F) {
	f.Add(pack(octetsOf(f, "ioam-linux618-dex.pcap")))
	f.Fuzz(func(t *testing.T, file []byte) {
		out, messages, status := inspect(file, "-json", "-")
		human, _, sameStatus := inspect(file, "-")
		require.Equal(t, status, sameStatus)
		require.Equal(t, len(lines(t, out)), strings.Count(human, "\n"), "one line a packet")
		require.Contains(t, messages, fmt.Sprintf("%d packet", len(lines(t, out))))
	})
}
