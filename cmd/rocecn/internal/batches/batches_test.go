package batches

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
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

// writeCapture returns the octets of a capture with n packets.
func writeCapture(t *testing.T, n int, pcapng bool) []byte {
	var out bytes.Buffer
	var write func(*capture.Record) error
	if pcapng {
		w := wiretest.Must(capture.NewPcapngWriter(&out))(t)
		number := wiretest.Must(w.AddInterface(capture.Interface{Link: capture.Ethernet}))(t)
		write = func(r *capture.Record) error { return w.Write(number, r, "") }
	} else {
		write = wiretest.Must(capture.NewWriter(&out, capture.Ethernet, time.Nanosecond))(t).Write
	}
	for i := range n {
		b := testPacket(i)
		require.NoError(t, write(&capture.Record{Data: b, OrigLen: uint32(len(b)), Time: time.Unix(int64(i), 0)}))
	}
	return out.Bytes()
}

// All packets are prepared with their own octets and used in order, from files and pipes, by any number of goroutines.
// An error in the capture comes after the packets before it.
func TestOrder(t *testing.T) {
	const packets = 1500
	for _, format := range []string{"pcap", "pcapng"} {
		octets := writeCapture(t, packets, format == "pcapng")
		name := filepath.Join(t.TempDir(), "capture")
		require.NoError(t, os.WriteFile(name, octets, 0o600))
		truncated := name + ".truncated"
		require.NoError(t, os.WriteFile(truncated, octets[:len(octets)-1], 0o600))
		for _, workers := range []int{1, 2, 8} {
			for _, row := range []struct {
				name, input string
				want        int
				err         string
			}{
				{"file", name, packets, ""},
				{"pipe", "-", packets, ""},
				{"truncated file", truncated, packets - 1, "the file ends early"},
			} {
				t.Run(fmt.Sprintf("%s, %s, %d workers", format, row.name, workers), func(t *testing.T) {
					used := 0
					r := Reader[[]byte]{Inputs: &cli.Inputs{Stdin: bytes.NewReader(octets)}, Workers: workers,
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
