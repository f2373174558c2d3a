package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/internal/wiretest"
)

// Captures of two senders become one, in the order of time; of a case that has none
// there is an error, and one that has its capture keeps it.
func TestMerge(t *testing.T) {
	folder := t.TempDir()
	write := func(name string, seconds ...int64) {
		var b bytes.Buffer
		w := wiretest.Must(capture.NewWriter(&b, capture.Ethernet, time.Nanosecond))(t)
		for _, s := range seconds {
			require.NoError(t, w.Write(&capture.Record{Data: []byte{byte(s)}, Time: time.Unix(s, 7)}))
		}
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), b.Bytes(), 0o600))
	}
	merged := func() (seconds []byte) {
		for r, err := range capture.File(filepath.Join(folder, "before.pcap")) {
			require.NoError(t, err)
			require.Equal(t, time.Unix(int64(r.Data[0]), 7).UTC(), r.Time)
			seconds = append(seconds, r.Data[0])
		}
		return seconds
	}
	require.ErrorIs(t, merge(folder), os.ErrNotExist)
	write("before.sender.pcap", 1, 4, 5)
	write("before.sender2.pcap", 2, 3, 6)
	require.NoError(t, merge(folder))
	require.Equal(t, []byte{1, 2, 3, 4, 5, 6}, merged())
	write("before.pcap", 9)
	require.NoError(t, merge(folder))
	require.Equal(t, []byte{9}, merged())
}
