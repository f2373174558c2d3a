package capture

import (
	"bytes"
	"fmt"
	"io"
	"testing"
	"testing/iotest"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/stretchr/testify/require"
)

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

func TestReadsWithoutProgressEnd(t *testing.T) {
	_, err := Open(nothing{})
	require.ErrorIs(t, err, io.ErrNoProgress)
}

type nothing struct{}

func (nothing) Read([]byte) (int, error) { return 0, nil }
