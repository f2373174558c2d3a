package capture

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/rocev2"
)

// read returns all records of a capture, and the error that ended it; nil for
// io.EOF. It panics if the same capture differs in memory.
func read(file []byte) (all []Record, err error) {
	all, err = readFrom(Open(bytes.NewReader(file)))
	inMemory, errInMemory := readFrom(OpenBytes(file))
	if !reflect.DeepEqual(all, inMemory) || fmt.Sprint(err) != fmt.Sprint(errInMemory) {
		panic(fmt.Sprintf("read %d records, error %v; in memory %d, %v", len(all), err, len(inMemory), errInMemory))
	}
	return all, err
}

// readFrom is read for a capture that was opened.
func readFrom(c Reader, err error) ([]Record, error) {
	if err != nil {
		return nil, err
	}
	var all []Record
	for {
		var r Record
		if err := c.Next(&r); err == io.EOF {
			return all, nil
		} else if err != nil {
			return all, err
		}
		r.Data = append([]byte{}, r.Data...)
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

func octetsOf(t testing.TB, name string) []byte {
	t.Helper()
	return wiretest.Must(os.ReadFile(wiretest.Path(t, name)))(t)
}

func pack(octets []byte) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	z.Write(octets)
	z.Close()
	return b.Bytes()
}

var byteOrders = []binary.ByteOrder{le, binary.BigEndian}

func TestPcap(t *testing.T) {
	for _, order := range byteOrders {
		for _, c := range []struct {
			magic uint32
			unit  time.Duration
		}{{0xA1B2C3D4, time.Microsecond}, {0xA1B23C4D, time.Nanosecond}} {
			t.Run(fmt.Sprint(c.magic), func(t *testing.T) {
				const fcs = 1<<28 | 1<<26 // length of the frame check sequence
				capture := words(order, c.magic, uint16(2), uint16(4), 0, 0, 65535, fcs|228,
					1795254649, 488050, 4, 9, []byte("abcd"),
					uint32(0xFFFFFFFF), 999999, 0, 0)
				want := []Record{
					{[]byte("abcd"), 9, time.Unix(1795254649, 488050*int64(c.unit)).UTC(), c.unit, 228},
					{[]byte{}, 0, time.Unix(0xFFFFFFFF, 999999*int64(c.unit)).UTC(), c.unit, 228},
				}
				got, err := read(capture)
				require.NoError(t, err)
				require.Equal(t, want, got)
				require.True(t, got[0].Truncated())
				require.False(t, got[1].Truncated())
				got, err = read(append(pack(capture[:30]), pack(capture[30:])...)) // gzip in two members
				require.NoError(t, err)
				require.Equal(t, want, got)
			})
		}
	}
}

// block lays out a pcapng block.
func block(order binary.ByteOrder, kind int, all ...any) []byte {
	body := words(order, all...)
	body = append(body, make([]byte, -len(body)&3)...)
	return words(order, kind, 12+len(body), body, 12+len(body))
}

func section(order binary.ByteOrder) []byte {
	return block(order, blockSection, pcapngByteOrder, uint16(1), uint16(0), int64(-1), uint16(4), uint16(5),
		[]byte("a box\x00\x00\x00"), 0)
}

func TestPcapng(t *testing.T) {
	for _, order := range byteOrders {
		ticks := uint64(1795254649)<<10 | 3
		capture := bytes.Join([][]byte{
			section(order),
			block(order, blockInterface, uint16(1), uint16(0), 5),
			block(order, blockInterface, uint16(101), uint16(0), 0,
				uint16(2), uint16(3), []byte("en0\x00"), uint16(9), uint16(1), []byte{0x8A, 0, 0, 0}, uint16(14),
				uint16(8), int64(-1), 0),
			block(order, 0xBAD, []byte("an unknown block type")),
			block(order, blockEnhanced, 1, uint32(ticks>>32), uint32(ticks), 3, 4, []byte("abc\x00"), uint16(1),
				uint16(2), []byte("hi\x00\x00"), 0),
			block(order, blockSimple, 8, []byte("abcde")),
			block(order, blockOldPacket, uint16(0), uint16(7), 0, 1, 2, 2, []byte("ab")),
			section(binary.BigEndian), // with other interfaces
			block(binary.BigEndian, blockInterface, uint16(276), uint16(0), 0, uint16(9), uint16(1),
				[]byte{9, 0, 0, 0}),
			block(binary.BigEndian, blockSimple, 2, []byte("ab")),
			block(binary.BigEndian, blockEnhanced, 0, 0, 1_000_000_001, 0, 0),
		}, nil)
		want := []Record{
			{[]byte("abc"), 4, time.Unix(1795254648, 2_929_687).UTC(), time.Nanosecond, 101},
			{[]byte("abcde"), 8, time.Time{}, time.Microsecond, 1},
			{[]byte("ab"), 2, time.Unix(0, 1000).UTC(), time.Microsecond, 1},
			{[]byte("ab"), 2, time.Time{}, time.Microsecond, 276},
			{[]byte{}, 0, time.Unix(1, 1).UTC(), time.Nanosecond, 276},
		}
		for _, file := range [][]byte{capture, pack(capture)} {
			got := wiretest.Must(read(file))(t)
			require.Equal(t, want, got)
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
		i := pcapngInterface{units: unitsPerSecond(c.resolution), offset: c.offset}
		require.Equal(t, c.want.UTC(), i.time(c.ticks), "%+v", c)
	}
	for _, unheardOf := range []uint8{20, 127, 0x80 | 64, 0xFF} {
		require.Zero(t, unitsPerSecond(unheardOf))
	}
}

// Another reader, which the codecs' tests use, gets the same packets out of the
// project's captures.
func TestAgreesWithOtherReader(t *testing.T) {
	for _, capture := range wiretest.Captures(t, "*.pcap") {
		got := wiretest.Must(read(octetsOf(t, capture)))(t)
		var want []Record
		for _, p := range wiretest.Capture(t, capture) {
			want = append(want, Record{p.Data, uint32(p.OrigLen), p.Time, time.Microsecond, Ethernet})
		}
		require.Equal(t, want, got)
	}
}

// editcap of Wireshark agrees: converted to another format or truncated to a snap
// length, a capture has the same packets.
func TestAgreesWithEditcap(t *testing.T) {
	editcap := wiretest.Tool(t, "editcap")
	for _, format := range []string{"pcap", "nsecpcap", "pcapng"} {
		for _, snap := range []int{65535, 64} {
			path := wiretest.Path(t, "rxe-verbs6.pcap")
			want := wiretest.Must(read(octetsOf(t, "rxe-verbs6.pcap")))(t)
			for i := range want {
				want[i].Data = want[i].Data[:min(len(want[i].Data), snap)]
			}
			written := filepath.Join(t.TempDir(), format)
			out, err := exec.Command(editcap, "-F", format, "-s", fmt.Sprint(snap), path, written).CombinedOutput()
			require.NoError(t, err, string(out))
			octets := wiretest.Must(os.ReadFile(written))(t)
			got := wiretest.Must(read(octets))(t)
			if format == "nsecpcap" {
				for i := range want {
					want[i].Unit = time.Nanosecond
				}
			}
			require.Equal(t, want, got, format)
		}
	}
}

// Truncated after any octet: complete records are read. Unless the file ends between
// two records, the error names the place where it ends.
func TestCutAnywhere(t *testing.T) {
	pcap := octetsOf(t, "ioam-linux618-hpcc.pcap")
	packets := wiretest.Must(read(pcap))(t)
	pcapEnds := map[int]int{24: 0} // number of packets by the offset where a record ends
	at := 24
	ng := section(le)
	ngEnds := map[int]int{len(ng): 0}
	comment := words(le, uint16(1), uint16(6), []byte("eth0\x00\x00\x00\x00"))
	ng = append(ng, block(le, blockInterface, uint16(1), uint16(0), 0, comment, comment)...)
	ngEnds[len(ng)] = 0
	for i, p := range packets {
		at += 16 + len(p.Data)
		pcapEnds[at] = i + 1
		ng = append(ng, block(le, blockEnhanced, 0, 0, i, len(p.Data), p.OrigLen, p.Data)...)
		ngEnds[len(ng)] = i + 1
	}
	for _, c := range []struct {
		file []byte
		ends map[int]int
	}{{pcap, pcapEnds}, {ng, ngEnds}} {
		whole := 0
		for n := range len(c.file) + 1 {
			got, err := read(c.file[:n])
			if packets, ok := c.ends[n]; ok {
				whole = packets
				require.NoError(t, err, n)
			} else {
				require.Error(t, err, n)
				if n > 24 {
					require.Regexp(t, `^record \d+, at octet \d+: the file ends early$`, err.Error(), n)
				}
			}
			require.Len(t, got, whole, n)
		}
	}
	packed := pack(pcap)
	for n := range packed {
		_, err := read(packed[:n])
		require.Error(t, err, n)
	}
}

// The error names the damaged record, and the packets before it are read.
func TestDamage(t *testing.T) {
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
		{"half a gzip header", []byte{0x1F, 0x8B, 8, 0}, 0, "the file ends early"},
		{"gzip in gzip", pack(pack(pcap)), 0, "neither a pcap nor a pcapng capture"},
		{"pcap version", words(le, pcapMicro, uint16(3), uint16(4), 0, 0, 0, 0), 0,
			"version of the format not supported"},
		{"pcap length", with(pcap, words(le, 0, 0, maxPacket+1, maxPacket+1)), 1,
			"record 2, at octet 44: damaged: captured length over 256 KiB"},
		{"pcap length of 4 GiB", with(pcap, words(le, 0, 0, -1, -1)), 1,
			"record 2, at octet 44: damaged: captured length over 256 KiB"},
		{"truncated pcap record header", with(pcap, words(le, 0, 0)), 1, "record 2, at octet 44: the file ends early"},
		{"pcap truncated after a record header", with(pcap, words(le, 0, 0, 4, 4)), 1,
			"record 2, at octet 44: the file ends early"},
		{"gzip checksum", badGzip, 1, "record 2, at octet 44 of the unpacked data: gzip: invalid checksum"},
		{"section byte order", words(le, blockSection, 28, 0, 0, 0), 0, "record 1, at octet 0: damaged: byte order"},
		{"section version", block(le, blockSection, pcapngByteOrder, uint16(2), uint16(0), int64(-1)), 0,
			"version of the format not supported"},
		{"section too short", block(le, blockSection, pcapngByteOrder, 1), 0,
			"record 1, at octet 0: damaged: block too short"},
		{"block of 8 octets", with(ng, words(le, 7, 8, 8)), 1, "record 4, at octet 100: damaged: block length"},
		{"block of 4 GiB", with(ng, words(le, 7, uint32(0xFFFFFFFC), 8)), 1,
			"record 4, at octet 100: the file ends early"},
		{"block of 13 octets", with(ng, words(le, 7, 13), []byte{0}, words(le, 13)), 1,
			"record 4, at octet 100: damaged: block length"},
		{"two lengths", with(ng, words(le, 7, 12, 16)), 1, "record 4, at octet 100: damaged: block length"},
		{"interface too short", with(head, block(le, blockInterface, 1)), 0,
			"record 2, at octet 44: damaged: block too short"},
		{"option too long", with(head, block(le, blockInterface, 1, 0, uint16(2), uint16(9), 0)), 0,
			"damaged: block too short"},
		{"resolution too long", with(head, block(le, blockInterface, 1, 0, uint16(9), uint16(1))), 0,
			"damaged: block too short"},
		{"offset too long", with(head, block(le, blockInterface, 1, 0, uint16(14), uint16(8), 0)), 0,
			"damaged: block too short"},
		{"resolution of 2^-64", with(head, block(le, blockInterface, 1, 0, uint16(9), uint16(1), 0xC0)), 0,
			"damaged: time resolution"},
		{"packet without interface", with(head, block(le, blockEnhanced, 0, 0, 0, 0, 0)), 0,
			"damaged: packet of an interface"},
		{"simple packet without interface", with(head, block(le, blockSimple, 0)), 0,
			"damaged: packet of an interface"},
		{"interface -1", with(ng, block(le, blockEnhanced, -1, 0, 0, 0, 0)), 1, "damaged: packet of an interface"},
		{"packet block too short", with(ng, block(le, blockEnhanced, 0, 0, 0, 0)), 1, "damaged: block too short"},
		{"packet longer than block", with(ng, block(le, blockEnhanced, 0, 0, 0, 5, 5, []byte("abcd"))), 1,
			"damaged: block too short"},
		{"packet of 4 GiB", with(ng, words(le, blockEnhanced, uint32(0xFFFFFFFC), 0, 0, 0, uint32(0xF0000000),
			uint32(0xF0000000))), 1, "damaged: captured length over 256 KiB"},
		{"simple packet longer than block", with(ng, block(le, blockSimple, 5, []byte("abcd"))), 1,
			"damaged: block too short"},
		{"empty simple packet block", with(ng, block(le, blockSimple)), 1, "damaged: block too short"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := read(c.file)
			require.ErrorContains(t, err, c.message)
			require.Len(t, got, c.packets)
		})
	}
}

func TestTooManyInterfaces(t *testing.T) {
	one := block(le, blockInterface, 1, 0)
	_, err := read(append(section(le), bytes.Repeat(one, maxInterfaces)...))
	require.NoError(t, err)
	_, err = read(append(section(le), bytes.Repeat(one, maxInterfaces+1)...))
	require.ErrorIs(t, err, errInterfaces)
}

// Captures longer than the snap length, or longer than the packet was, are
// read: libpcap reads them too.
func TestLengthsThatAreNoDamage(t *testing.T) {
	got := wiretest.Must(read(words(le, pcapMicro, uint16(2), uint16(4), 0, 0, 2, 1, 0, 0, 4, 3, []byte("abcd"))))(t)
	require.Len(t, got, 1)
	require.False(t, got[0].Truncated())
}

// Octets flipped at random: no panic, no endless loop, and little memory.
func TestRandomDamage(t *testing.T) {
	pcap := octetsOf(t, "ioam-linux618-hpcc.pcap")
	packets := wiretest.Must(read(pcap))(t)
	ng := append(section(le), block(le, blockInterface, uint16(1), uint16(0), 0, uint16(9), uint16(1), 6, 0)...)
	for _, p := range packets {
		ng = append(ng, block(le, blockEnhanced, 0, 0, 0, len(p.Data), p.OrigLen, p.Data)...)
	}
	random := rand.New(rand.NewPCG(1, 2))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	const rounds = 3000
	for range rounds {
		for _, file := range [][]byte{pcap, ng} {
			file = bytes.Clone(file)
			for range 1 + random.IntN(4) {
				file[random.IntN(len(file))] = uint8(random.Uint32())
			}
			if _, err := read(file); err != nil {
				require.Regexp(t, `^record \d+, at octet \d+: |capture$|version`, err.Error())
			}
		}
	}
	runtime.ReadMemStats(&after)
	require.Less(t, (after.TotalAlloc-before.TotalAlloc)/rounds, uint64(2<<20), "octets a round")
}

// Records that are read can be written, and are the same when they are read again,
// as far as pcap can represent them.
func FuzzReader(f *testing.F) {
	f.Add(pack(octetsOf(f, "ioam-linux618-dex.pcap")))
	f.Fuzz(func(t *testing.T, file []byte) {
		all, _ := read(file)
		var b bytes.Buffer
		w := wiretest.Must(NewWriter(&b, Raw, time.Nanosecond))(t)
		for i := range all {
			r := &all[i]
			require.NoError(t, w.Write(r))
			r.Link, r.Unit = Raw, time.Nanosecond
			r.OrigLen = max(r.OrigLen, uint32(len(r.Data)))
			if r.Time.Before(time.Unix(0, 0)) || r.Time.Unix() > math.MaxUint32 {
				r.Time = time.Unix(0, 0).UTC()
			}
		}
		got := wiretest.Must(read(b.Bytes()))(t)
		require.Equal(t, all, got)
	})
}

// Older versions of the format have the lengths of a record in the other order,
// and files of version 2.3 either. tshark reads the same lengths.
func TestPcapVersions(t *testing.T) {
	dir := t.TempDir()
	merge := exec.Command(wiretest.Tool(t, "mergecap"), "-a", "-w", filepath.Join(dir, "all.pcapng"))
	var want []string
	frame := append(make([]byte, 12), 0x88, 0xB5, 1, 2, 3, 4) // 18 octets, an EtherType for experiments
	for _, c := range []struct {
		minor         uint16
		first, second int // the lengths as they stand in the record
		cut           bool
	}{
		{0, 18, 18, false}, {1, 18, 18, false}, {1, 60, 18, true}, {2, 60, 18, true}, {3, 60, 18, true},
		{3, 18, 60, true},
		{4, 18, 60, true},
	} {
		for _, order := range byteOrders {
			file := words(order, pcapMicro, uint16(2), c.minor, 0, 0, 65535, 1, 5, 6, c.first, c.second, frame)
			got, err := read(file)
			require.NoError(t, err, "2.%d", c.minor)
			require.Len(t, got, 1)
			require.Equal(t, frame, got[0].Data)
			require.Equal(t, c.cut, got[0].Truncated())
			require.Equal(t, time.Unix(5, 6000).UTC(), got[0].Time)

			name := filepath.Join(dir, fmt.Sprintf("%d.pcap", len(want)))
			require.NoError(t, os.WriteFile(name, file, 0o644))
			merge.Args = append(merge.Args, name)
			want = append(want, fmt.Sprintf("%d\t%d", len(got[0].Data), got[0].OrigLen))
		}
	}
	// Wireshark reads each file, here in order to join them, and finds the same lengths.
	require.NoError(t, merge.Run())
	out := wiretest.Must(exec.Command(wiretest.Tool(t, "tshark"), "-r", filepath.Join(dir, "all.pcapng"), "-T",
		"fields", "-e", "frame.cap_len", "-e", "frame.len").Output())(t)
	require.Equal(t, want, strings.Split(strings.TrimSpace(string(out)), "\n"))
}

func TestFile(t *testing.T) {
	name := wiretest.Path(t, "rxe-verbs6.pcap")
	want := wiretest.Must(read(octetsOf(t, "rxe-verbs6.pcap")))(t)
	n := 0
	for r, err := range File(name) {
		require.NoError(t, err)
		require.Equal(t, want[n], *r)
		n++
	}
	require.Equal(t, len(want), n)
	for range File(name) { // a loop may stop before the end
		n++
		break
	}
	require.Equal(t, len(want)+1, n)
}

// The error of a file comes last, with the name of the file.
func TestFileErrors(t *testing.T) {
	whole := octetsOf(t, "rxe-verbs6.pcap")
	for _, c := range []struct {
		name    string
		octets  []byte
		packets int
		err     string
	}{
		{"no capture", []byte("hello, world"), 0, "neither a pcap nor a pcapng capture"},
		{"cut", whole[:24+16+len("part")], 0, "record 1, at octet 24: the file ends early"},
		{"truncated after a packet", whole[:24+16+firstLen(whole)+1], 1, "the file ends early"},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := wiretest.File(t, "damaged.pcap", c.octets)
			packets, failures := 0, 0
			for r, err := range File(file) {
				if err == nil {
					packets++
					continue
				}
				failures++
				require.Nil(t, r)
				require.ErrorContains(t, err, file+": ")
				require.ErrorContains(t, err, c.err)
			}
			require.Equal(t, []int{c.packets, 1}, []int{packets, failures})
		})
	}
	for r, err := range File(filepath.Join(t.TempDir(), "missing.pcap")) {
		require.Nil(t, r)
		require.True(t, errors.Is(err, fs.ErrNotExist))
	}
}

// firstLen is the captured length of the first packet of a little-endian pcap.
func firstLen(file []byte) int { return int(le.Uint32(file[32:])) }

// Reading a packet allocates nothing.
func TestAllDoesNotAllocate(t *testing.T) {
	file := octetsOf(t, "rxe-verbs6.pcap")
	var short, long bytes.Buffer
	short.Write(file)
	long.Write(file)
	for range 9 {
		long.Write(file[24:])
	}
	count := func(octets []byte) float64 {
		return testing.AllocsPerRun(10, func() {
			in, err := Open(bytes.NewReader(octets))
			if err != nil {
				t.Fatal(err)
			}
			for _, err := range All(in) {
				if err != nil {
					t.Fatal(err)
				}
			}
		})
	}
	require.Equal(t, count(short.Bytes()), count(long.Bytes()))
}

// Nothing takes a packet of an unknown link type for an Ethernet frame.
func TestOptions(t *testing.T) {
	r := Record{Data: make([]byte, 60), OrigLen: 61, Link: Raw}
	require.True(t, r.Supported())
	require.Equal(t, rocev2.DecodeOptions{Link: rocev2.LinkIP, AllowTruncated: true}, r.Options())
	r.Link = 147
	require.False(t, r.Supported())
	var d rocev2.Datagram
	require.ErrorContains(t, d.Decode(r.Data, r.Options()), "DecodeOptions.Link")
}

// numbered is a capture in either format of packets of all lengths, each filled
// with its number.
func numbered(format string) (file []byte, packets [][]byte) {
	switch format {
	case "pcap":
		file = words(le, pcapMicro, uint16(2), uint16(4), 0, 0, 65535, 1)
	case "pcapng":
		file = append(section(le), block(le, blockInterface, uint16(1), uint16(0), 0)...)
	}
	for n := range 400 {
		p := bytes.Repeat([]byte{byte(n)}, n*n%9000)
		if n == 200 {
			p = bytes.Repeat([]byte{byte(n)}, maxPacket)
		}
		packets = append(packets, p)
		if format == "pcap" {
			file = append(file, words(le, 0, 0, len(p), len(p), p)...)
			continue
		}
		padded := append(bytes.Clone(p), make([]byte, -len(p)&3)...)
		if n%7 == 0 { // a comment
			padded = append(padded, words(le, uint16(1), uint16(4*n), bytes.Repeat([]byte("!"), 4*n), 0)...)
		}
		file = append(file, block(le, blockEnhanced, 0, 0, 0, len(p), len(p), padded)...)
	}
	return file, packets
}

// A packet is valid until the next one is read, however the octets come in.
func TestPacketsAcrossBlocks(t *testing.T) {
	for _, format := range []string{"pcap", "pcapng"} {
		file, want := numbered(format)
		for _, row := range []struct {
			name string
			in   io.Reader
		}{
			{"whole", bytes.NewReader(file)},
			{"packed", bytes.NewReader(pack(file))},
			{"halves", iotest.HalfReader(bytes.NewReader(file))},
			{"octets", iotest.OneByteReader(bytes.NewReader(file))},
			{"error", iotest.DataErrReader(bytes.NewReader(file))},
		} {
			t.Run(row.name, func(t *testing.T) {
				c := wiretest.Must(Open(row.in))(t)
				var r Record
				for _, p := range want {
					require.NoError(t, c.Next(&r))
					require.True(t, bytes.Equal(p, r.Data))
				}
				require.Equal(t, io.EOF, c.Next(&r))
			})
		}
	}
}

// With blocks, packets stay as they are until their block is used again.
func TestBlocksKeepPackets(t *testing.T) {
	for _, format := range []string{"pcap", "pcapng"} {
		for _, size := range []int{1, 4 << 10, 64 << 10, blockSize} {
			t.Run(fmt.Sprint(format, size), func(t *testing.T) {
				file, want := numbered(format)
				if size == 64<<10 {
					file = pack(file)
				}
				blocks := 0
				c := wiretest.Must(OpenBlocks(bytes.NewReader(file), func() []byte {
					blocks++
					return make([]byte, size)
				}))(t)
				var got [][]byte
				for {
					var r Record
					if err := c.Next(&r); err == io.EOF {
						break
					} else {
						require.NoError(t, err)
					}
					got = append(got, r.Data)
				}
				require.Equal(t, len(want), len(got))
				for i := range want {
					require.True(t, bytes.Equal(want[i], got[i]), i)
				}
				require.Positive(t, blocks)
			})
		}
	}
}

// A countedReader counts its reads, each of at most 1000 octets.
type countedReader struct {
	from  io.Reader
	reads int
}

func (c *countedReader) Read(b []byte) (int, error) {
	c.reads++
	return c.from.Read(b[:min(len(b), 1000)])
}

// AppendBuffered returns packets without reading, whichever blocks are before and after them. Next continues after
// them.
func TestAppendBuffered(t *testing.T) {
	statistics := []byte{5, 0, 0, 0, 24, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 24, 0, 0, 0}
	description := []byte{1, 0, 0, 0, 20, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 20, 0, 0, 0}
	private := []byte{0xAD, 0x0B, 0, 0, 16, 0, 0, 0, 1, 2, 3, 4, 16, 0, 0, 0}
	for _, row := range []struct {
		name    string
		between []byte
	}{
		{"packets only", nil},
		{"pcap", nil},
		{"statistics", statistics},
		{"interface description", description},
		{"private block", private},
		{"several", slices.Concat(private, description, statistics)},
	} {
		t.Run(row.name, func(t *testing.T) {
			var file bytes.Buffer
			w := wiretest.Must(NewPcapngWriter(&file))(t)
			number := wiretest.Must(w.AddInterface(Interface{Link: Ethernet}))(t)
			write := func(r *Record) error { return w.Write(number, r, "") }
			if row.name == "pcap" {
				file.Reset()
				write = wiretest.Must(NewWriter(&file, Ethernet, time.Nanosecond))(t).Write
			}
			for n := range 500 {
				if n%3 > 0 {
					file.Write(row.between)
				}
				b := bytes.Repeat([]byte{byte(n)}, n)
				require.NoError(t, write(&Record{Data: b, OrigLen: uint32(n)}))
			}
			file.Write(row.between)
			in := &countedReader{from: &file}
			c := wiretest.Must(Open(in))(t)
			buffered, n := 0, 0
			check := func(data []byte) {
				require.True(t, bytes.Equal(bytes.Repeat([]byte{byte(n)}, n), data), "packet %d", n)
				n++
			}
			for {
				before := in.reads
				all, err := c.(interface {
					AppendBuffered([]Record, int64) ([]Record, error)
				}).AppendBuffered(nil, math.MaxInt32)
				require.NoError(t, err)
				require.Equal(t, before, in.reads, "packet %d", n)
				buffered += len(all)
				for i := range all {
					check(all[i].Data)
				}
				var r Record
				if err := c.Next(&r); err == io.EOF {
					break
				} else {
					require.NoError(t, err)
				}
				check(r.Data)
			}
			require.Equal(t, 500, n)
			require.Greater(t, buffered, 100)
		})
	}
}

// asPcapng returns the packets of a capture in the format pcapng.
func asPcapng(t *testing.T, file []byte) []byte {
	var out bytes.Buffer
	w := wiretest.Must(NewPcapngWriter(&out))(t)
	number := wiretest.Must(w.AddInterface(Interface{Link: Ethernet}))(t)
	for _, r := range wiretest.Must(read(file))(t) {
		require.NoError(t, w.Write(number, &r, ""))
	}
	return out.Bytes()
}

// The packets of a capture in memory are parts of it. Those of a compressed one are not.
func TestOpenBytes(t *testing.T) {
	pcap := octetsOf(t, "rxe-perf4.pcap")
	pcapng := asPcapng(t, pcap)
	for _, row := range []struct {
		name             string
		file             []byte
		isPart           bool
		wantLastPosition int
	}{
		{"pcap", pcap, true, len(pcap)},
		{"pcapng", pcapng, true, len(pcapng)},
		{"pcap with gzip", pack(pcap), false, len(pcap)},
		{"pcapng with gzip", pack(pcapng), false, len(pcapng)},
	} {
		t.Run(row.name, func(t *testing.T) {
			before := bytes.Clone(row.file)
			c := wiretest.Must(OpenBytes(row.file))(t)
			n := 0
			for r, err := range All(c) {
				require.NoError(t, err)
				n++
				first, data := uintptr(unsafe.Pointer(&row.file[0])), uintptr(unsafe.Pointer(&r.Data[0]))
				require.Equal(t, row.isPart, data >= first && data < first+uintptr(len(row.file)))
				require.Equal(t, len(r.Data), cap(r.Data), "appending must not write into the next record")
			}
			require.Len(t, wiretest.Must(read(pcap))(t), n)
			require.Equal(t, before, row.file)
			require.EqualValues(t, row.wantLastPosition, c.(interface{ Position() int64 }).Position())
		})
	}
}

// AppendBuffered ends before the first record that begins at a position or after it.
func TestAppendBufferedTo(t *testing.T) {
	pcap := octetsOf(t, "rxe-perf4.pcap")
	for _, row := range []struct {
		name   string
		file   []byte
		around int // octets of a record without its data, at most
	}{{"pcap", pcap, 16}, {"pcapng", asPcapng(t, pcap), 35}} {
		t.Run(row.name, func(t *testing.T) {
			want := wiretest.Must(read(row.file))(t)
			for _, step := range []int64{0, 1, 1000, 1 << 20} {
				c := wiretest.Must(OpenBytes(row.file))(t).(interface {
					Reader
					AppendBuffered([]Record, int64) ([]Record, error)
					Position() int64
				})
				var r Record
				n, calls := 0, 0
				for ; c.Next(&r) == nil; calls++ {
					end := c.Position() + step
					all, err := c.AppendBuffered([]Record{r}, end)
					require.NoError(t, err)
					for i := range all {
						require.Equal(t, want[n].Data, all[i].Data, "record %d", n)
						n++
					}
					last := len(all[len(all)-1].Data) + row.around
					require.Less(t, c.Position(), end+max(int64(last), 1))
					require.True(t, c.Position() >= end || n == len(want), "there is another record before the end")
				}
				require.Len(t, want, n)
				require.Equal(t, step < 1<<20, calls > 1)
			}
		})
	}
}

func TestReadsWithoutProgressEnd(t *testing.T) {
	_, err := Open(nothing{})
	require.ErrorIs(t, err, io.ErrNoProgress)
}

type nothing struct{}

func (nothing) Read([]byte) (int, error) { return 0, nil }
