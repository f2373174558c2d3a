package batches

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/cli"
	"github.com/rocecn/rocecn/internal/wiretest"
)

// Packets outside of blocks are copied to a block, one after the other.
func TestCopyToBlock(t *testing.T) {
	f := finder[int]{store: new(store[int])}
	keep := func(data []byte) []byte {
		kept := f.copyToBlock(data)
		if f.block != nil {
			f.block.users.Add(1) // as a batch does
		}
		return kept
	}
	packet := func(n int, octet byte) []byte { return bytes.Repeat([]byte{octet}, n) }
	a := keep(packet(100<<10, 1))
	first := f.block
	b := keep(packet(28<<10, 2)) // exactly the free space
	require.Same(t, first, f.block)
	c := keep(packet(1, 3))
	require.NotSame(t, first, f.block)
	second := f.block
	d := keep(packet(blockSize-1, 4))
	require.Same(t, second, f.block)
	require.Empty(t, keep(nil))
	require.Same(t, second, f.block)
	long := keep(packet(blockSize+1, 6)) // has memory of its own
	require.Same(t, second, f.block)
	e := keep(packet(blockSize, 5))
	require.NotSame(t, second, f.block)
	for n, kept := range [][]byte{a, b, c, d, e} {
		require.Equal(t, packet(len(kept), byte(n+1)), kept)
		require.Equal(t, len(kept), cap(kept), "appending must not write into the next packet")
	}
	require.Equal(t, packet(blockSize+1, 6), long)
}

// testPacket returns packet n of a capture: it has n in all octets, and many different lengths, some above that of a
// block.
func testPacket(n int) []byte {
	length := n * 7919 % 3000
	if n%1000 == 999 {
		length = blockSize + n
	}
	return bytes.Repeat([]byte{byte(n)}, length)
}

// otherBlock returns a pcapng block that has no packet: an interface description, statistics or one of a private type.
// Some are longer than a block of memory.
func otherBlock(n int) []byte {
	var kind uint32
	var body []byte
	switch n % 3 {
	case 0:
		kind, body = 1, []byte{1, 0, 0, 0, 0, 0, 0, 0} // Ethernet, without options
	case 1:
		kind, body = 5, make([]byte, 12+n%7*4)
	case 2:
		kind, body = 0xBAD, make([]byte, 4*(n*131%700))
		if n%100 == 2 {
			body = make([]byte, blockSize+64<<10)
		}
	}
	length := uint32(len(body) + 12)
	b := binary.LittleEndian.AppendUint32(nil, kind)
	b = append(binary.LittleEndian.AppendUint32(b, length), body...)
	return binary.LittleEndian.AppendUint32(b, length)
}

// writeCapture returns the octets of a capture with n packets. In the format "pcapng, other blocks" other blocks are
// before one in three packets.
func writeCapture(t *testing.T, n int, format string) []byte {
	var out bytes.Buffer
	var write func(*capture.Record) error
	if format != "pcap" {
		w := wiretest.Must(capture.NewPcapngWriter(&out))(t)
		number := wiretest.Must(w.AddInterface(capture.Interface{Link: capture.Ethernet}))(t)
		write = func(r *capture.Record) error { return w.Write(number, r, "") }
	} else {
		write = wiretest.Must(capture.NewWriter(&out, capture.Ethernet, time.Nanosecond))(t).Write
	}
	for i := range n {
		b := testPacket(i)
		if format == "pcapng, other blocks" && i%3 == 1 {
			for j := range 1 + i%2 {
				out.Write(otherBlock(i/3 + j))
			}
		}
		require.NoError(t, write(&capture.Record{Data: b, OrigLen: uint32(len(b)), Time: time.Unix(int64(i), 0)}))
	}
	return out.Bytes()
}

// compress returns octets compressed with gzip.
func compress(t *testing.T, octets []byte) []byte {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	wiretest.Must(z.Write(octets))(t)
	require.NoError(t, z.Close())
	return out.Bytes()
}

// shortReads returns between 1 and 5000 octets for each Read.
type shortReads struct {
	from  io.Reader
	reads int
}

func (s *shortReads) Read(b []byte) (int, error) {
	s.reads++
	return s.from.Read(b[:min(len(b), 1+s.reads*7919%5000)])
}

// All packets are prepared with their own octets and used in order, from files and pipes, by any number of goroutines.
// An error in the capture comes after the packets before it.
func TestOrder(t *testing.T) {
	const packets = 1500
	for _, format := range []string{"pcap", "pcapng", "pcapng, other blocks"} {
		octets := writeCapture(t, packets, format)
		zipped := compress(t, octets)
		dir := t.TempDir()
		writeFile := func(name string, octets []byte) string {
			path := filepath.Join(dir, name)
			require.NoError(t, os.WriteFile(path, octets, 0o600))
			return path
		}
		file, truncated := writeFile("capture", octets), writeFile("truncated", octets[:len(octets)-1])
		zippedFile := writeFile("capture.gz", zipped)
		truncatedZipped := writeFile("truncated.gz", compress(t, octets[:len(octets)-1]))
		for _, workers := range []int{1, 2, 8} {
			for _, row := range []struct {
				name, input string
				stdin       io.Reader
				want        int
				err         string
			}{
				{"file", file, nil, packets, ""},
				{"pipe", "-", bytes.NewReader(octets), packets, ""},
				{"pipe with short reads", "-", &shortReads{from: bytes.NewReader(octets)}, packets, ""},
				{"truncated file", truncated, nil, packets - 1, "the file ends early"},
				{"file with gzip", zippedFile, nil, packets, ""},
				{"pipe with gzip", "-", bytes.NewReader(zipped), packets, ""},
				{"pipe with gzip and short reads", "-", &shortReads{from: bytes.NewReader(zipped)}, packets, ""},
				{"truncated file with gzip", truncatedZipped, nil, packets - 1, "the file ends early"},
			} {
				t.Run(fmt.Sprintf("%s, %s, %d workers", format, row.name, workers), func(t *testing.T) {
					used := 0
					r := Reader[[]byte]{Inputs: &cli.Inputs{Stdin: row.stdin}, Workers: workers,
						NewPreparer: func() func(b *Batch[[]byte]) {
							return func(b *Batch[[]byte]) {
								b.Result = b.Result[:0]
								for i := range b.Records {
									b.Result = append(b.Result, byte(len(b.Records[i].Data)))
								}
							}
						},
						Use: func(b *Batch[[]byte]) error {
							require.Len(t, b.Result, len(b.Records))
							for i := range b.Records {
								want := testPacket(used)
								require.True(t, bytes.Equal(want, b.Records[i].Data), "packet %d", used)
								require.EqualValues(t, used, b.Records[i].Time.Unix())
								require.Equal(t, byte(len(want)), b.Result[i])
								used++
							}
							return nil
						}}
					err := r.ReadCapture(t.Context(), row.input)
					if row.err == "" {
						require.NoError(t, err)
					} else {
						require.ErrorContains(t, err, row.err)
					}
					require.Equal(t, row.want, used)
				})
			}
		}
	}
}

// prepareNothing is a NewPreparer without work.
func prepareNothing() func(*Batch[int]) { return func(*Batch[int]) {} }

// A block returns to the store that it was taken from, whichever goroutine found the last batch in it.
func TestBlocksReturn(t *testing.T) {
	var takes, finds store[int]
	f := finder[int]{in: new(cli.Input)}
	blocks := map[*block[int]]bool{}
	for range 1000 {
		for _, s := range []*store[int]{&takes, &finds} {
			f.store = s
			if s == &takes {
				f.nextBlock()
			}
			blocks[f.block] = true
			f.beginBatch()
			f.passBatch()
		}
		for _, b := range f.found {
			b.owner.putBatch(b)
		}
		f.found = f.found[:0]
	}
	require.LessOrEqual(t, len(blocks), 2, "one that is read into, and one with its end")
}

// The memory does not grow with the length of a capture, of which several goroutines find batches in the same block.
func TestBlocksOfLongCapture(t *testing.T) {
	octets := writeCapture(t, 900, "pcap")
	octets = append(octets, bytes.Repeat(octets[24:], 40<<20/len(octets))...)
	path := wiretest.File(t, "long.pcap.gz", compress(t, octets))
	before := runtime.GOMAXPROCS(4)
	defer runtime.GOMAXPROCS(before)
	for _, row := range []struct {
		name, input string
		stdin       io.Reader
	}{
		{"file with gzip", path, nil},
		{"pipe with short reads", "-", &shortReads{from: bytes.NewReader(octets)}},
	} {
		t.Run(row.name, func(t *testing.T) {
			blocks, used := map[*block[int]]bool{}, 0
			r := Reader[int]{Inputs: &cli.Inputs{Stdin: row.stdin}, Workers: 4, NewPreparer: prepareNothing,
				Use: func(b *Batch[int]) error {
					blocks[b.block] = true
					used += len(b.Records)
					return nil
				}}
			require.NoError(t, r.ReadCapture(t.Context(), row.input))
			require.Greater(t, used, 25_000)
			require.Less(t, len(blocks), 64, "of %d", len(octets)/blockSize)
		})
	}
}

// The capture copies the end of a block after it got the next one. So no finder, of another input or with the store of
// another goroutine, gets that block in between.
func TestBlocksOfTwoFinders(t *testing.T) {
	var stores [2]store[int]
	a, b := finder[int]{store: &stores[0]}, finder[int]{store: new(store[int])}
	first := &a.nextBlock()[0]
	a.store = &stores[1]
	require.NotSame(t, first, &a.nextBlock()[0])
	require.NotSame(t, first, &b.nextBlock()[0])
	a.store = &stores[0]
	require.Same(t, first, &a.nextBlock()[0], "used again later")
}

// The packets of a source that reuses its memory, as a live capture does, are copied: the next ones do not change them.
func TestReusedMemory(t *testing.T) {
	const packets = 1500
	octets := writeCapture(t, packets, "pcap")
	for _, row := range []struct{ name, input string }{{"file", wiretest.File(t, "capture", octets)}, {"pipe", "-"}} {
		t.Run(row.name, func(t *testing.T) {
			f := finder[int]{store: new(store[int]), copies: true}
			inputs := &cli.Inputs{Stdin: bytes.NewReader(octets)}
			f.in = wiretest.Must(inputs.Open(t.Context(), row.input, f.beforeRead, nil))(t) // memory of the source
			defer f.in.Close()
			for !f.ended {
				f.findPacket()
			}
			n := 0
			for _, b := range f.found { // none is used meanwhile
				for i := range b.Records {
					require.True(t, bytes.Equal(testPacket(n), b.Records[i].Data), "packet %d", n)
					n++
				}
			}
			require.Equal(t, packets, n)
		})
	}
}

// A batch holds the block of each of its packets, also of one after a block of another kind, which may end in another
// block of memory.
func TestBatchesHoldBlocks(t *testing.T) {
	const packets = 100
	var file bytes.Buffer
	w := wiretest.Must(capture.NewPcapngWriter(&file))(t)
	number := wiretest.Must(w.AddInterface(capture.Interface{Link: capture.Ethernet}))(t)
	packet := func(n int) []byte { return bytes.Repeat([]byte{byte(n)}, 40_000+n*997%3000) }
	for n := range packets {
		file.Write(otherBlock(3*n + n%2))
		b := packet(n)
		require.NoError(t, w.Write(number, &capture.Record{Data: b, OrigLen: uint32(len(b))}, ""))
		if n%4 == 3 { // after a packet that ends in another block of memory
			private := make([]byte, 100<<10) // of a private type, and shorter than a block of memory
			copy(private, []byte{0xAD, 0x0B})
			binary.LittleEndian.PutUint32(private[4:], uint32(len(private)))
			binary.LittleEndian.PutUint32(private[len(private)-4:], uint32(len(private)))
			file.Write(private)
		}
	}
	path := wiretest.File(t, "capture.gz", compress(t, file.Bytes())) // is not mapped
	f := openFinder(t, path)
	var all []*Batch[int] // none is used meanwhile
	for b := f.findBatch(); b != nil; b = f.findBatch() {
		all = append(all, b)
	}
	n := 0
	for _, b := range all {
		require.Equal(t, n, b.First)
		for i := range b.Records {
			require.True(t, bytes.Equal(packet(n), b.Records[i].Data), "packet %d", n)
			n++
		}
	}
	require.Equal(t, packets, n)
}

// openFinder returns a finder of the batches of a file.
func openFinder(t *testing.T, path string) *finder[int] {
	t.Helper()
	f := &finder[int]{store: new(store[int])}
	f.in = wiretest.Must((&cli.Inputs{}).Open(t.Context(), path, f.beforeRead, f.nextBlock))(t)
	t.Cleanup(func() { require.NoError(t, f.in.Close()) })
	return f
}

// openMapped is openFinder for a file that is mapped. The test is skipped on systems other than 64-bit Linux. There, in
// CI, it fails if the file is not mapped.
func openMapped(t *testing.T, path string) *finder[int] {
	t.Helper()
	if bits.UintSize < 64 || runtime.GOOS != "linux" {
		t.Skip("files are only mapped on 64-bit Linux")
	}
	f := openFinder(t, path)
	if f.in.File() == nil {
		wiretest.Missing(t, "the temporary file was not mapped")
	}
	return f
}

// The packets of a mapped file are not copied. A batch has those that begin within the length of a block.
func TestBatchesOfMappedFile(t *testing.T) {
	octets := writeCapture(t, 900, "pcap")
	f := openMapped(t, wiretest.File(t, "capture", octets))
	mapped := f.in.File().Octets
	n, at := 0, 24
	for b := f.findBatch(); b != nil; b = f.findBatch() {
		require.Nil(t, b.block)
		first := at
		for i := range b.Records {
			require.Less(t, at-first, blockSize, "the packet begins in the next block")
			data := b.Records[i].Data
			at += 16
			require.Equal(t, testPacket(n), data)
			if len(data) > 0 {
				require.Same(t, &mapped[at], &data[0])
			}
			at += len(data)
			n++
		}
		if n < 900 {
			require.GreaterOrEqual(t, at-first, blockSize, "another packet begins in this block")
		}
		require.EqualValues(t, at, b.Octets)
	}
	require.Equal(t, 900, n)
	require.Equal(t, len(octets), at)
}

// Reading a file that is truncated meanwhile ends with an error after correct packets, whichever function reads the
// missing octets, and no goroutine is left.
func TestTruncatedMeanwhile(t *testing.T) {
	octets := writeCapture(t, 900, "pcap")
	packets := octets[24:]
	for len(octets) < 5<<20 {
		octets = append(octets, packets...)
	}
	for _, workers := range []int{1, 2, 8} {
		for _, kept := range []int{0, 24, 4 << 20, 4<<20 + 1000, len(octets) - 2000, len(octets) - 1} {
			for _, by := range []string{"preparer", "user"} { // the first one that reads the truncated file
				t.Run(fmt.Sprintf("%d workers, %d octets kept, %s", workers, kept, by), func(t *testing.T) {
					path := wiretest.File(t, "capture", octets)
					openMapped(t, path)
					before := runtime.NumGoroutine()
					used, sum := 0, 0
					var truncated sync.Once
					truncate := func(now string, b *Batch[int]) {
						if now == by && b.number == 1 {
							truncated.Do(func() { require.NoError(t, os.Truncate(path, int64(kept))) })
						}
					}
					read := func(b *Batch[int]) (sum int) {
						for i := range b.Records {
							for _, octet := range b.Records[i].Data {
								sum += int(octet)
							}
						}
						return sum
					}
					r := Reader[int]{Inputs: &cli.Inputs{}, Workers: workers,
						NewPreparer: func() func(*Batch[int]) {
							return func(b *Batch[int]) {
								truncate("preparer", b)
								b.Result = read(b)
							}
						},
						Use: func(b *Batch[int]) error {
							truncate("user", b)
							if by == "user" {
								b.Result = read(b)
							}
							used += len(b.Records)
							sum += b.Result
							return nil
						}}
					err := r.ReadCapture(t.Context(), path)
					require.ErrorContains(t, err, "the file became shorter while it was read")
					if workers == 1 { // others may prepare batch 1 before batch 0
						require.Positive(t, used)
					}
					want := 0
					for n := range used {
						for _, octet := range testPacket(n % 900) {
							want += int(octet)
						}
					}
					if by != "user" { // which reads the batch that was truncated
						require.Equal(t, want, sum)
					}
					wiretest.Await(t, "no more goroutines than before", func() bool {
						return runtime.NumGoroutine() <= before
					})
				})
			}
		}
	}
}

// A finder passes on no packets of a file that is shorter than before, also if it has read zeros instead.
func TestFindInTruncatedFile(t *testing.T) {
	octets := writeCapture(t, 900, "pcap")
	for _, kept := range []int{0, 24, len(octets) / 2, len(octets) - 1} {
		t.Run(fmt.Sprintf("%d octets kept", kept), func(t *testing.T) {
			path := wiretest.File(t, "capture", octets)
			f := openMapped(t, path)
			b := f.findBatch()
			require.NoError(t, b.err)
			require.NotEmpty(t, b.Records)
			require.NoError(t, os.Truncate(path, int64(kept)))
			b = f.findBatch()
			require.ErrorContains(t, b.err, "the file became shorter while it was read")
			require.Empty(t, b.Records)
			require.Nil(t, f.findBatch())
		})
	}
}

// Blocks of other kinds do not end a batch of a mapped file.
func TestBatchesOfOtherBlocks(t *testing.T) {
	octets := writeCapture(t, 900, "pcapng, other blocks")
	path := wiretest.File(t, "capture", octets)
	openMapped(t, path)
	batches := 0
	r := Reader[int]{Inputs: &cli.Inputs{}, Workers: 1, NewPreparer: prepareNothing, Use: func(*Batch[int]) error {
		batches++
		return nil
	}}
	require.NoError(t, r.ReadCapture(t.Context(), path))
	require.LessOrEqual(t, batches, 1+len(octets)/blockSize)
}

// Two captures that are read in turn keep their own octets.
func TestTwoSources(t *testing.T) {
	const packets = 900
	path := wiretest.File(t, "capture.gz", compress(t, writeCapture(t, packets, "pcapng, other blocks")))
	var read func(depth int) int
	read = func(depth int) (used int) {
		r := Reader[int]{Inputs: &cli.Inputs{}, Workers: 4, NewPreparer: prepareNothing,
			Use: func(b *Batch[int]) error {
				if depth == 0 && b.First%7 == 0 {
					require.Equal(t, packets, read(1))
				}
				for i := range b.Records {
					require.True(t, bytes.Equal(testPacket(used), b.Records[i].Data), "packet %d", used)
					used++
				}
				return nil
			}}
		require.NoError(t, r.ReadCapture(t.Context(), path))
		return used
	}
	require.Equal(t, packets, read(0))
}

// An error of Use, or the end of the context, ends the reading early, and no goroutine is left.
func TestReadingEnds(t *testing.T) {
	octets := writeCapture(t, 900, "pcap")
	octets = append(octets, bytes.Repeat(octets[24:], 20<<20/len(octets))...)
	total := 900 * (1 + 20<<20/(len(octets)-20<<20))
	dir := t.TempDir()
	file, zipped := filepath.Join(dir, "long.pcap"), filepath.Join(dir, "long.pcap.gz")
	require.NoError(t, os.WriteFile(file, octets, 0o600))
	require.NoError(t, os.WriteFile(zipped, compress(t, octets), 0o600))
	errEnough := errors.New("enough")
	for _, workers := range []int{1, 2, 8} {
		for _, row := range []struct {
			name, input string
			cancels     bool
		}{
			{"error, file", file, false},
			{"error, file with gzip", zipped, false},
			{"error, pipe", "-", false},
			{"canceled, file", file, true},
			{"canceled, pipe that pauses", "-", true},
		} {
			t.Run(fmt.Sprintf("%s, %d workers", row.name, workers), func(t *testing.T) {
				before := runtime.NumGoroutine()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var stdin io.Reader = bytes.NewReader(octets)
				if row.cancels {
					in, out := io.Pipe()
					defer in.Close()
					stdin = in
					if row.input == "-" {
						go func() { _, _ = out.Write(octets[:100<<10]) }()
					}
				}
				batches, used := 0, 0
				r := Reader[int]{Inputs: &cli.Inputs{Stdin: stdin}, Workers: workers, NewPreparer: prepareNothing,
					Use: func(b *Batch[int]) error {
						batches++
						used += len(b.Records)
						switch {
						case row.cancels:
							cancel()
						case batches == 3:
							return errEnough
						}
						return nil
					}}
				err := r.ReadCapture(ctx, row.input)
				if row.cancels {
					require.NoError(t, err)
				} else {
					require.ErrorIs(t, err, errEnough)
					require.Equal(t, 3, batches)
				}
				require.Positive(t, used)
				require.Less(t, used, total)
				if p, ok := stdin.(*io.PipeReader); ok {
					p.Close()
				}
				wiretest.Await(t, "no more goroutines than before", func() bool {
					return runtime.NumGoroutine() <= before
				})
			})
		}
	}
}

// A goroutine that waits for a compressed file sleeps, as decompressing takes long.
func TestSpinning(t *testing.T) {
	before := runtime.GOMAXPROCS(2)
	defer runtime.GOMAXPROCS(before)
	for _, row := range []struct {
		name   string
		octets []byte
		want   bool
	}{
		{"pcap", writeCapture(t, 10, "pcap"), true},
		{"pcapng", writeCapture(t, 10, "pcapng"), true},
		{"pcap with gzip", compress(t, writeCapture(t, 10, "pcap")), false},
		{"pcapng with gzip", compress(t, writeCapture(t, 10, "pcapng")), false},
	} {
		t.Run(row.name, func(t *testing.T) {
			path := wiretest.File(t, "capture", row.octets)
			in := wiretest.Must(cli.Open(t.Context(), path, nil, func(int64) error { return nil }))(t)
			defer in.Close()
			q := newFileReader(&Reader[int]{}, &finder[int]{in: in})
			require.Equal(t, row.want, q.spins)
		})
	}
}
