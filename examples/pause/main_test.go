package main

import (
	"bytes"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"
	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/node/acl"
	"github.com/rocecn/rocecn/node/pause"
	"github.com/rocecn/rocecn/ppfc"
	"github.com/stretchr/testify/require"
)

// Two flows are stopped. One is resumed, the other runs again when its pause is
// over. A node outside the accepted prefix stops nothing.
func TestPause(t *testing.T) {
	self, node := netip.MustParseAddr("2001:db8:1::a"), netip.MustParseAddr("2001:db8:ffff::5")
	start := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	var b bytes.Buffer
	w := pcapgo.NewWriterNanos(&b)
	require.NoError(t, w.WriteFileHeader(1<<18, layers.LinkTypeEthernet))
	for _, c := range []struct {
		at    time.Duration // microseconds
		from  netip.Addr
		qp    uint32
		typ   ppfc.Type
		pause time.Duration
	}{
		{0, node, 17, ppfc.Stop, 100},
		{10, node, 18, ppfc.Stop, 100},
		{15, node, 18, ppfc.Alarm, 200},
		{20, netip.MustParseAddr("2001:db8:bad::1"), 19, ppfc.Stop, 100},
		{30, node, 17, ppfc.Resume, 0},
		{500, node, 17, ppfc.Hold, 10},
		{600, node, 17, ppfc.Resume, 0},
	} {
		n := ppfc.New(c.qp, 0xFFFF, ppfc.Extension{Congested: netip.MustParseAddr("2001:db8:4::e"), Type: c.typ,
			Pause: c.pause * time.Microsecond})
		frame, err := n.AppendPacket([]byte("\x02\x00\x00\x00\x00\x02\x02\x00\x00\x00\x00\x01\x86\xdd"), c.from, self,
			ppfc.Config{})
		require.NoError(t, err)
		info := gopacket.CaptureInfo{Timestamp: start.Add(c.at * time.Microsecond), CaptureLength: len(frame),
			Length: len(frame)}
		require.NoError(t, w.WritePacket(info, frame))
	}
	in := wiretest.Must(capture.Open(&b))(t)
	var out bytes.Buffer
	table, err := pause.New(pause.Config{Enabled: true, Self6: self, Accept: acl.New(netip.PrefixFrom(node, 48))})
	require.NoError(t, err)
	h := host{table: table, last: map[pause.Target]pause.State{}, out: &out}
	require.NoError(t, h.readCapture(in))
	require.Equal(t, `09:00:00.000000 2001:db8:4::e queue pair 0x11: stopped
09:00:00.000010 2001:db8:4::e queue pair 0x12: stopped
refused: denied
09:00:00.000030 2001:db8:4::e queue pair 0x11: running
09:00:00.000110 2001:db8:4::e queue pair 0x12: alarmed
09:00:00.000215 2001:db8:4::e queue pair 0x12: running
09:00:00.000500 2001:db8:4::e queue pair 0x11: held
09:00:00.000510 2001:db8:4::e queue pair 0x11: running
`, out.String())
}

// The command of the documentation, on the capture that it names.
func TestTour(t *testing.T) {
	file, err := os.Open(wiretest.Path(t, "tour.pcap"))
	require.NoError(t, err)
	defer file.Close()
	in, err := capture.Open(file)
	require.NoError(t, err)
	table, err := pause.New(pause.Config{Enabled: true, MaxPause: 10 * time.Millisecond,
		Self6: netip.MustParseAddr("2001:db8:1::1"), Accept: acl.New(netip.MustParsePrefix("2001:db8:ffff::/48"))})
	require.NoError(t, err)
	var out bytes.Buffer
	h := host{table: table, last: map[pause.Target]pause.State{}, out: &out}
	require.NoError(t, h.readCapture(in))
	require.Equal(t, `09:00:00.000175 2001:db8:4::e queue pair 0x12: stopped
09:00:00.000200 2001:db8:4::e queue pair 0x12: running
`, out.String())
}
