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
		f := wiretest.Must(os.Open(wiretest.Path(t, "messages.pcap")))(t)
		defer f.Close()
		in := wiretest.Must(capture.Open(f))(t)
		var file bytes.Buffer
		out := wiretest.Must(capture.NewWriter(&file, capture.Ethernet, time.Nanosecond))(t)
		b := wiretest.Must(border.New(c.cfg))(t)
		require.NoError(t, run(in, out, b))

		written := wiretest.Must(pcapgo.NewReader(&file))(t)
		crossed := 0
		for ; ; crossed++ {
			if _, _, err := written.ReadPacketData(); err != nil {
				break
			}
		}
		require.Equal(t, c.crossed, crossed)
	}
}
