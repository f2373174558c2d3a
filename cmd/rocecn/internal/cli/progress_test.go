package cli

import (
	"bytes"
	"os"
	"testing"
	"time"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/stretchr/testify/require"
)

// Only a long run has a progress line, and only a terminal.
func TestProgress(t *testing.T) {
	for _, c := range []struct {
		packets      int
		octets, size int64
		line         string
	}{
		{5120, 2 << 20, 8 << 20, "\ra.pcap: 5120 packets, 2 MiB, 25 %\x1b[K"},
		{0, 2<<20 - 1, 8 << 20, "\ra.pcap: 1 MiB, 24 %\x1b[K"},
		{7, 9 << 20, 8 << 20, "\ra.pcap: 7 packets, 9 MiB, 100 %\x1b[K"}, // it grew
		{0, 1 << 30, 0, "\ra.pcap: 1024 MiB\x1b[K"},
	} {
		var terminal bytes.Buffer
		p := Progress{Name: "a.pcap", terminal: &terminal, last: time.Now()}
		p.Update(c.packets, c.octets, c.size)
		p.Clear()
		require.Empty(t, terminal.String())
		p.last = time.Now().Add(-time.Hour)
		p.Update(c.packets, c.octets, c.size)
		p.Update(c.packets, c.octets, c.size) // too soon
		p.Clear()
		p.Clear()
		require.Equal(t, c.line+"\r\x1b[K", terminal.String())
	}
}

func TestNoTerminal(t *testing.T) {
	null := wiretest.Must(os.OpenFile(os.DevNull, os.O_WRONLY, 0))(t)
	defer null.Close()
	file := wiretest.Must(os.Create(t.TempDir() + "/file"))(t)
	defer file.Close()
	require.False(t, IsTerminal(null))
	require.False(t, IsTerminal(file))
	require.False(t, IsTerminal(new(bytes.Buffer)))

	p := NewProgress(null, file)
	p.last = time.Time{}
	p.Update(1, 1, 1)
	p.Clear()
	info := wiretest.Must(file.Stat())(t)
	require.Zero(t, info.Size())
}
