package capture

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

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
		{"cut", whole[:24+16+len("part")], 0, "record 1, at octet 24: the file breaks off"},
		{"cut behind a packet", whole[:24+16+firstLen(whole)+1], 1, "the file breaks off"},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "damaged.pcap")
			require.NoError(t, os.WriteFile(file, c.octets, 0o600))
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
	require.Equal(t, rocev2.DecodeOptions{Link: rocev2.LinkIP, Cut: true}, r.Options())
	r.Link = 147
	require.False(t, r.Supported())
	var d rocev2.Datagram
	require.ErrorContains(t, d.Decode(r.Data, r.Options()), "no such link type")
}
