package main

import (
	"bytes"
	"os"
	"testing"
	"time"

	"github.com/google/gopacket/pcapgo"
	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/node/border"
	"github.com/stretchr/testify/require"
)

// Of the messages in the capture the Fast CNPs, FCNs and proxy messages stay
// out; a border that is off lets everything cross.
func TestBorder(t *testing.T) {
	for _, c := range []struct {
		cfg     border.Config
		crossed int
	}{{border.Config{Enabled: true}, 13}, {border.Config{}, 24}} {
		f, err := os.Open(wiretest.Path(t, "messages.pcap"))
		require.NoError(t, err)
		defer f.Close()
		in, err := capture.Open(f)
		require.NoError(t, err)
		var file bytes.Buffer
		out, err := capture.NewWriter(&file, capture.Ethernet, time.Nanosecond)
		require.NoError(t, err)
		b, err := border.New(c.cfg)
		require.NoError(t, err)
		require.NoError(t, run(in, out, b))

		written, err := pcapgo.NewReader(&file)
		require.NoError(t, err)
		crossed := 0
		for ; ; crossed++ {
			if _, _, err := written.ReadPacketData(); err != nil {
				break
			}
		}
		require.Equal(t, c.crossed, crossed)
	}
}
