package main

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write testdata/tour.pcap")

// The program writes the capture that README uses.
func TestTour(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, write(&out))
	file := filepath.Join("..", "..", "testdata", "tour.pcap")
	if *update {
		require.NoError(t, os.WriteFile(file, out.Bytes(), 0o644))
	}
	want := wiretest.Must(os.ReadFile(file))(t)
	require.Equal(t, want, out.Bytes())
}
