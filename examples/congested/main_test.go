package main

import (
	"bytes"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/google/gopacket/pcapgo"
	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/node/acl"
	"github.com/rocecn/rocecn/node/congested"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

// Every packet is forwarded; at a port that is fast enough nobody is told, at one
// that is not the senders are.
func TestCongested(t *testing.T) {
	for rate, told := range map[float64]bool{1e12: false, 1000: true} {
		f, err := os.Open(wiretest.Path(t, "rxe-verbs6.pcap"))
		require.NoError(t, err)
		defer f.Close()
		in, err := capture.Open(f)
		require.NoError(t, err)
		var b bytes.Buffer
		out, err := capture.NewWriter(&b, capture.Ethernet, time.Nanosecond)
		require.NoError(t, err)
		agent, err := congested.New(congested.Config{
			Enabled: true, Self6: netip.MustParseAddr("2001:db8:ffff::5"),
			Methods: acl.NewMap(acl.Entry[congested.Method]{Prefix: netip.MustParsePrefix("::/0"),
				Value: congested.FastCNP}),
		})
		require.NoError(t, err)
		require.NoError(t, run(in, out, agent, &port{rate: rate}))

		written, err := pcapgo.NewReader(&b)
		require.NoError(t, err)
		forwarded := wiretest.Capture(t, "rxe-verbs6.pcap")
		kinds := map[message.Kind]int{}
		for {
			frame, _, err := written.ReadPacketData()
			if err != nil {
				break
			}
			var m message.Message
			m.Decode(frame, rocev2.DecodeOptions{}, message.Config{})
			kinds[m.Kind]++
			if m.Kind != message.FastCNP {
				require.Len(t, frame, len(forwarded[0].Data))
				forwarded = forwarded[1:]
			}
		}
		require.Empty(t, forwarded)
		require.Equal(t, told, kinds[message.FastCNP] > 0)
	}
}

func TestQueue(t *testing.T) {
	p := port{rate: 1000}
	start := time.Unix(1795254649, 0)
	require.EqualValues(t, 0, p.enqueue(1500, start))
	require.EqualValues(t, 1, p.enqueue(1500, start))
	require.EqualValues(t, 1, p.enqueue(0, start.Add(time.Second)), "between the thresholds it stays")
	require.EqualValues(t, 0, p.enqueue(0, start.Add(3*time.Second)))
}
