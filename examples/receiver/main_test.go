package main

import (
	"bytes"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/cnp"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/netio"
	"github.com/rocecn/rocecn/node/receiver"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

const marked = "testdata/marked.pcap"

var update = flag.Bool("update", false, "write "+marked)

// TestCapture checks that the capture has the connection management and four data packets of a real connection, and
// that only the ECN field of the data differs.
func TestCapture(t *testing.T) {
	all := wiretest.Capture(t, "rxe-rping6.pcap")
	var file bytes.Buffer
	w := wiretest.Must(capture.NewWriter(&file, capture.Ethernet, time.Microsecond))(t)
	data := []int{35, 38, 41, 47} // numbers of frames in that capture
	for _, number := range []int{28, 31, 33, 35, 36, 37, 38, 41, 47} {
		c := all[number-1]
		if slices.Contains(data, number) {
			var f rocev2.Frame
			f.Decode(c.Data, rocev2.DecodeOptions{})
			wiretest.Must(f.Outer().SetECN(rocev2.CE))(t)
		}
		require.NoError(t, w.Write(&capture.Record{Data: c.Data, Time: c.Time}))
	}
	if *update {
		require.NoError(t, os.WriteFile(marked, file.Bytes(), 0o644))
	}
	require.Equal(t, wiretest.Must(os.ReadFile(marked))(t), file.Bytes())
}

// The CNPs have the queue pair that the sender named in connection management.
func TestReceiver(t *testing.T) {
	file := wiretest.Must(os.Open(marked))(t)
	defer file.Close()
	in := wiretest.Must(netio.OpenFile(file))(t)
	var written bytes.Buffer
	out := wiretest.Must(in.Sink(&written, capture.Raw))(t)
	r := wiretest.Must(receiver.New(receiver.Config{Enabled: true, Self6: netip.MustParseAddr("fd77::1"),
		QPs: qpmap.New(qpmap.Config{}), PerFlow: 50 * time.Microsecond}))(t)
	require.NoError(t, answerPackets(in, out, r))

	var lines strings.Builder
	for r, err := range capture.All(wiretest.Must(capture.Open(&written))(t)) {
		require.NoError(t, err)
		var p rocev2.Packet
		require.NoError(t, p.DecodeIP(r.Data))
		wiretest.Must(p.VerifyICRC())(t)
		c := wiretest.Must(cnp.FromPacket(&p))(t)
		fmt.Fprintf(&lines, "%s %v > %v qp %#x\n", r.Time.UTC().Format("05.000000"), p.Src, p.Dst, c.DestQP)
	}
	require.Equal(t, `58.393369 fd77::1 > fd77::2 qp 0x11
58.436093 fd77::1 > fd77::2 qp 0x11
58.440869 fd77::1 > fd77::2 qp 0x11
58.487381 fd77::1 > fd77::2 qp 0x11
`, lines.String())
}
