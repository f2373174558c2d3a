package main

import (
	"bytes"
	"flag"
	"fmt"
	"log"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/cnp"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/netio"
	"github.com/rocecn/rocecn/node/acl"
	"github.com/rocecn/rocecn/node/proxy"
	"github.com/rocecn/rocecn/proxymsg"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

// about returns an IP packet with a proxy message about a frame that contains a SEND, or nil for other frames.
func about(t *testing.T, frame []byte, congested, self netip.Addr) []byte {
	t.Helper()
	var p rocev2.Packet
	var f rocev2.Frame
	if p.DecodeEthernet(frame) != nil || p.BTH.Opcode != bth.RCSendOnly {
		return nil
	}
	f.Decode(frame, rocev2.DecodeOptions{})
	return wiretest.Must(proxymsg.AppendFor(nil, &f, congested, self, 3, proxymsg.Config{}))(t)
}

// requireCNP requires that p is a CNP from the proxy to one of the queue pairs of the sender.
func requireCNP(t *testing.T, p *rocev2.Packet, self netip.Addr) {
	t.Helper()
	_, err := p.VerifyICRC()
	require.NoError(t, err)
	c := wiretest.Must(cnp.FromPacket(p))(t)
	require.Contains(t, []uint32{0x11, 0x12}, c.DestQP)
	require.Equal(t, self, p.Src)
}

const messages = "testdata/messages.pcap"

var update = flag.Bool("update", false, "write "+messages)

var self, congested = netip.MustParseAddr("10.77.0.254"), netip.MustParseAddr("192.0.2.5")

// TestCapture checks that the capture has the connection management and one data packet of each of two real
// connections, and a proxy message about each packet.
func TestCapture(t *testing.T) {
	all := wiretest.Capture(t, "rxe-ucmatose4.pcap")
	var file bytes.Buffer
	w := wiretest.Must(capture.NewWriter(&file, capture.Ethernet, time.Microsecond))(t)
	for _, number := range []int{28, 29, 30, 31, 32, 33, 34, 37} { // numbers of frames in that capture
		c := all[number-1]
		require.NoError(t, w.Write(&capture.Record{Data: c.Data, Time: c.Time}))
		if m := about(t, c.Data, congested, self); m != nil {
			at := c.Time.Add(10 * time.Microsecond)
			require.NoError(t, w.Write(&capture.Record{Data: append(bytes.Clone(c.Data[:14]), m...), Time: at}))
		}
	}
	if *update {
		require.NoError(t, os.WriteFile(messages, file.Bytes(), 0o644))
	}
	require.Equal(t, wiretest.Must(os.ReadFile(messages))(t), file.Bytes())
}

// The CNPs have the queue pairs that the sender named in connection management.
func TestProxy(t *testing.T) {
	file := wiretest.Must(os.Open(messages))(t)
	defer file.Close()
	in := wiretest.Must(netio.OpenFile(file))(t)
	var written, logged bytes.Buffer
	out := wiretest.Must(in.Sink(&written, capture.Raw))(t)
	p := wiretest.Must(proxy.New(proxy.Config{
		Enabled: true, Self4: self, QPs: qpmap.New(qpmap.Config{}), Accept: acl.New(netip.MustParsePrefix(
			"192.0.2.0/24")),
		Senders: acl.NewMap(acl.Entry[proxy.Answer]{Prefix: netip.MustParsePrefix("10.77.0.0/24"),
			Value: proxy.AnswerCNP}),
	}))(t)
	log.SetOutput(&logged)
	log.SetFlags(0)
	defer log.SetFlags(log.LstdFlags)
	defer log.SetOutput(os.Stderr)
	require.NoError(t, answerMessages(t.Context(), p, out, in))
	require.Equal(t, `10.77.0.1 > 10.77.0.2 qp 0x000011 is congested: cnp to queue pair 17
10.77.0.1 > 10.77.0.2 qp 0x000012 is congested: cnp to queue pair 18
`, logged.String())

	var lines strings.Builder
	for r, err := range capture.All(wiretest.Must(capture.Open(&written))(t)) {
		require.NoError(t, err)
		var p rocev2.Packet
		require.NoError(t, p.DecodeIP(r.Data))
		requireCNP(t, &p, self)
		fmt.Fprintf(&lines, "%s %v > %v qp %#x\n", r.Time.UTC().Format("05.000000"), p.Src, p.Dst, p.BTH.DestQP)
	}
	require.Equal(t, `06.942060 10.77.0.254 > 10.77.0.1 qp 0x11
06.944202 10.77.0.254 > 10.77.0.1 qp 0x12
`, lines.String())
}
